//! What is wrong with a module is said in words that name its file and the export, never by a panic.

use cellpace_cc::{Controller, Random, Setup, Span, Time};
use cellpace_sim::{FlowSpec, Scenario};
use proptest::prelude::*;

use crate::program::{module, spec, whole};

const START: &str = r#"(func (export "cellpace_start") (param i32 i32)
    (i64.store (local.get 1) (i64.const 30000)))"#;

fn refused(module: &[u8]) -> String {
    spec("plugin:bad.wasm", module).unwrap_err().to_string()
}

/// The same behind a start that lets 30 kB be in flight.
fn started(definitions: &str) -> Vec<u8> {
    module(&format!("{START} {definitions}"))
}

fn run(module: &[u8]) -> Result<cellpace_sim::Outcome, String> {
    let cc = spec("plugin:bad.wasm", module).unwrap();
    let flows = vec![FlowSpec::bulk(cc)];
    let scenario = Scenario { duration: Span::from_secs(3), flows, ..Scenario::default() };
    cellpace_sim::run(&scenario).map_err(|error| error.to_string())
}

#[test]
fn a_module_without_what_it_needs_is_refused() {
    let abi = r#"(func (export "cellpace_abi") (result i32) i32.const 1)"#;
    let memory = r#"(memory (export "memory") 1)"#;
    for (found, error) in [
        (refused(b"hello"), "this is no WebAssembly module"),
        (refused(b"\0asm\x01\0\0\0\x07"), "this is no module that runs here: unexpected end"),
        (refused(&whole(&format!("{memory} {START}"))), "it does not export `cellpace_abi`"),
        (refused(&module("")), "it does not export `cellpace_start`"),
        (refused(&whole(&format!("(memory 1) {abi} {START}"))), "it does not export `memory`"),
        (
            refused(&whole(&format!(
                r#"{memory} {START} (func (export "cellpace_abi") (result i32) i32.const 7)"#
            ))),
            "cellpace_abi: it is made for version 7 of the interface; this program has 1",
        ),
        (
            refused(&whole(r#"(import "env" "puts" (func))"#)),
            "it imports `env.puts`; a controller has nothing to import",
        ),
        (
            refused(&started(r#"(func (export "cellpace_on_acks") (param i32 i32))"#)),
            "`cellpace_on_acks` would never be called; did you mean `cellpace_on_ack`?",
        ),
        (
            refused(&started(r#"(func (export "cellpace_on_ack") (param i64))"#)),
            "cellpace_on_ack: it should be a function (i32, i32)",
        ),
        (
            refused(&started(r#"(func (export "cellpace_params") (result i32) i32.const 65530)"#)),
            "cellpace_params: the list has no end within the memory",
        ),
        (
            refused(&module(r#"(func (export "cellpace_start") (param i32 i32) unreachable)"#)),
            "cellpace_start: it gave up (abort, panic or `unreachable`)",
        ),
        (
            refused(&whole(&format!(r#"(memory (export "memory") 1000) {abi} {START}"#))),
            "it does not begin: more than the 16 MB of memory that a flow has",
        ),
    ] {
        let wanted = format!("`plugin`: bad.wasm: {error}");
        assert!(found.starts_with(&wanted), "{found}\n{wanted}");
    }
    let message = |text| spec(text, b"").unwrap_err().to_string();
    assert_eq!(message("plugin"), "`plugin`: name the file of a module: plugin:FILE.wasm");
    let first = "`plugin`: the file of a module comes first: plugin:FILE.wasm,beta=2";
    assert_eq!(message("plugin:beta=2"), first);
}

#[test]
fn a_module_that_fails_during_a_run_ends_it_with_its_name() {
    let endless = "(loop (br 0))";
    let grows = "(drop (memory.grow (i32.const 300)))";
    let divides = "(drop (i32.div_u (i32.const 1) (i32.const 0)))";
    let far = "(drop (i32.load (i32.const 0x7fffffff)))";
    let wild = "(f64.store offset=24 (local.get 1) (f64.const nan))";
    for (code, error) in [
        (endless, "more than 100 million steps in one call"),
        (grows, "more than the 16 MB of memory that a flow has"),
        (divides, "wasm trap: integer divide by zero"),
        (far, "wasm trap: out of bounds memory access"),
        (wild, "a rate is not a number"),
        ("(call $deep)", "more than the 128 kB of its stack"),
    ] {
        let on_ack = format!(
            r#"(func $deep (call $deep) (call $deep))
               (func (export "cellpace_on_ack") (param i32 i32) {code})"#
        );
        let found = run(&started(&on_ack)).unwrap_err();
        // The first ack comes after 40 ms of delay and the time that a packet takes on the link.
        let wanted = format!("flow 1, 0.041 s after the start: bad.wasm: cellpace_on_ack: {error}");
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_deadline_that_stands_still_ends_the_run() {
    let stands = r#"(func (export "cellpace_on_loss") (param i32 i32))
        (func (export "cellpace_on_deadline") (param i64 i32))"#;
    let start = r#"(func (export "cellpace_start") (param i32 i32)
        (i64.store (local.get 1) (i64.const 30000))
        (i64.store offset=48 (local.get 1) (i64.const 1000000000)))"#;
    let found = run(&module(&format!("{start} {stands}"))).unwrap_err();
    let wanted = "flow 1, 1.000 s after the start: bad.wasm: cellpace_on_deadline: the next deadline is not behind \
                  this one";
    assert_eq!(found, wanted);
}

#[test]
fn a_controller_that_failed_says_so_and_lets_nothing_leave() {
    let module =
        started(r#"(func (export "cellpace_on_path_change") (param i64 i32) unreachable)"#);
    let cc = spec("plugin:bad.wasm", &module).unwrap();
    let setup = || Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
    for mut controller in [cc.build(setup()), cc.build_deferred(setup())] {
        assert_eq!((controller.permit().remaining(0), controller.failure()), (30_000, None));
        // The stand-in for a controller that is not needed yet has no path to change.
        controller.on_timeout(&cellpace_cc::Timeout {
            now: Time::ZERO,
            prior_in_flight: 0,
            in_a_row: 1,
            next_number: 1,
        });
        controller.on_path_change(Time::from_millis(1));
        let gave_up =
            "bad.wasm: cellpace_on_path_change: it gave up (abort, panic or `unreachable`)";
        assert_eq!(controller.failure().as_deref(), Some(gave_up));
        assert_eq!((controller.permit().remaining(0), controller.next_deadline()), (0, None));
    }
}

#[test]
fn an_ack_of_thousands_of_packets_reaches_the_module_whole() {
    // The window is 1500 bytes for each packet of the ack, counted from the last one back.
    let on_ack = r#"(func (export "cellpace_on_ack") (param i32 i32)
        (i64.store (local.get 1) (i64.mul (i64.const 1500)
            (i64.load offset=96 (i32.add (local.get 0) (i32.wrap_i64 (i64.mul (i64.const 80)
                (i64.sub (i64.load offset=80 (local.get 0)) (i64.const 1)))))))))"#;
    let cc = spec("plugin:bad.wasm", &started(on_ack)).unwrap();
    let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
    let mut controller = cc.build(setup);
    for count in [10, 5_000, 20, 20_000] {
        ack(controller.as_mut(), count);
        assert_eq!((controller.cwnd(), controller.failure()), (1500 * (count - 1), None));
    }
}

fn ack(controller: &mut dyn Controller, count: u64) {
    let packet = |number| cellpace_cc::AckedPacket {
        number,
        bytes: 1500,
        sent_at: Time::ZERO,
        rtt: Span::from_millis(40),
        received_at: None,
        app_limited: false,
        ecn: cellpace_cc::Ecn::NotEct,
        stamp: cellpace_cc::Stamp::default(),
    };
    let packets: Vec<_> = (0..count).map(packet).collect();
    controller.on_ack(&cellpace_cc::Ack {
        now: Time::from_millis(40),
        packets: &packets,
        prior_in_flight: 1500 * count,
        in_flight: 0,
        next_number: count,
        rtt: &cellpace_cc::RttEstimator::default(),
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_that_are_no_module_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut behind = b"\0asm\x01\0\0\0".to_vec();
        behind.extend(&bytes);
        prop_assert!(spec("plugin:bad.wasm", &bytes).is_err());
        prop_assert!(spec("plugin:bad.wasm", &behind).is_err());
    }

    /// Whether it still runs or not: there is an answer.
    #[test]
    fn a_module_with_other_bytes_is_answered(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let divides = r#"(func (export "cellpace_on_ack") (param i32 i32)
            (i64.store (local.get 1) (i64.div_u (i64.load (local.get 0)) (i64.load offset=8 (local.get 0)))))"#;
        let mut module = started(divides);
        let at = at.index(module.len());
        module[at] = byte;
        if let Ok(cc) = spec("plugin:bad.wasm", &module) {
            let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
            let mut controller = cc.build(setup);
            ack(controller.as_mut(), 3);
            let _ = controller.permit();
        }
    }
}
