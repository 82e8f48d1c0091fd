//! Controllers in modules, in commands. Part of `./dev test --all`, which builds a program that has them.

use std::io::{Read, Write};

use crate::program::{Folder, eventually};
use crate::proxy::Running;

/// A window of 30 kB; after ten acks it divides by zero if `fails`.
fn module(fails: bool) -> Vec<u8> {
    let divisor =
        if fails { "(i64.sub (i64.const 10) (global.get $acks))" } else { "(i64.const 1)" };
    wat::parse_str(format!(
        r#"(module (memory (export "memory") 1) (global $acks (mut i64) (i64.const 0))
           (func (export "cellpace_abi") (result i32) i32.const 1)
           (func (export "cellpace_start") (param i32 i32)
               (i64.store (local.get 1) (i64.const 30000)))
           (func (export "cellpace_on_ack") (param i32 i32)
               (global.set $acks (i64.add (global.get $acks) (i64.const 1)))
               (drop (i64.div_u (i64.const 1) {divisor}))))"#
    ))
    .unwrap()
}

fn folder() -> Folder {
    let folder = Folder::with("mine.wasm", module(false));
    folder.write("fails.wasm", module(true));
    folder
}

#[test]
fn a_module_does_what_the_same_window_does_without_one() {
    let folder = folder();
    let run = "compare --trace random:1mbit..20mbit/1s --duration 20s --cc";
    let [native, module] = ["fixed:cwnd=30000B", "plugin:mine.wasm"]
        .map(|cc| folder.first_run(&format!("{run} {cc}")));
    assert_eq!(native["figures"], module["figures"]);
    let scenario =
        "trace = \"constant:12mbit\"\nduration = \"5s\"\n[[flow]]\ncc = \"plugin:mine.wasm\"\n";
    folder.write("one.toml", scenario);
    assert!(folder.good("sim one.toml").contains("plugin:mine.wasm"));
    folder.write(
        "plan.toml",
        "trace = [\"constant:12mbit\"]\ncc = [\"plugin:mine.wasm\"]\nduration = \"3s\"\n",
    );
    folder.good("sweep plan.toml --out out");
    assert!(folder.good("cc plugin:mine.wasm").starts_with("plugin: "));
}

#[test]
fn a_module_that_fails_ends_virtual_time_with_an_error() {
    let folder = folder();
    let outcome =
        folder.run("compare --trace constant:12mbit --duration 20s --cc plugin:fails.wasm");
    outcome.complains(1, "fails.wasm: cellpace_on_ack: wasm trap: integer divide by zero");
    folder.refused("compare --trace constant:12mbit --cc plugin:gone.wasm", "gone.wasm");
}

/// A proxy goes on without its controller: all bytes arrive, and the connection's line says why.
#[test]
fn connections_whose_module_fails_go_on_plain() {
    const BYTES: usize = 8_000_000;
    let folder = folder();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&vec![7; BYTES]).unwrap();
    });
    let cc = format!("plugin:{}", folder.path("fails.wasm").display());
    let log = folder.path("log.jsonl");
    let json = log.display().to_string();
    let proxy =
        Running::start(&["--to", &target, "--cc", &cc, "--driver", "gate", "--json", &json]);
    let mut arrived = Vec::new();
    proxy.connect().read_to_end(&mut arrived).unwrap();
    server.join().unwrap();
    assert_eq!(arrived.len(), BYTES);
    eventually("a line of the connection", || {
        std::fs::read_to_string(&log).is_ok_and(|text| !text.is_empty())
    });
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("without its controller since") && said.contains("fails.wasm"), "{said}");
    drop(proxy);
}
