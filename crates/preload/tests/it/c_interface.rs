//! The C interface, as C programs see it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use tempfile::TempDir;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Set to write the header anew instead of comparing it.
const UPDATE: &str = "CELLPACE_UPDATE_HEADER";

#[test]
fn the_header_is_that_of_the_source() {
    let folder = Path::new(CRATE);
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let bindings = builder.with_src(folder.join("src/alcc.rs")).generate().unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let generated = without_safety(&String::from_utf8(generated).unwrap());
    let header = folder.join("include/cellpace.h");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&header, &generated).unwrap();
    }
    let kept = fs::read_to_string(&header).unwrap();
    assert_eq!(kept, generated, "run this test with {UPDATE}=1 to write it anew");
}

/// Without what Rust wants to be said of every call, which for C goes without saying.
fn without_safety(header: &str) -> String {
    let mut kept = String::new();
    let mut is_safety = false;
    for line in header.lines() {
        is_safety = line == "// # Safety" || is_safety && line.starts_with("//");
        if is_safety {
            // The empty line above the heading.
            kept.truncate(kept.strip_suffix("//\n").map_or(kept.len(), str::len));
        } else {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// More flags for the C compiler, parted by blanks.
const FLAGS: &str = "CELLPACE_C_FLAGS";

/// The library as this test's build made it.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libcellpace_preload.so")
}

/// Compiles a program against the library; `None`, said, without a compiler.
fn compile(source: &str, flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(library(), folder.path().join("libcellpace.so.0")).unwrap();
    std::os::unix::fs::symlink("libcellpace.so.0", folder.path().join("libcellpace.so")).unwrap();
    let program = folder.path().join("program");
    let place = folder.path().display();
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-pthread"]).args(flags);
    compiler.args(std::env::var(FLAGS).unwrap_or_default().split_whitespace());
    compiler.arg(format!("-I{CRATE}/include")).arg(format!("{CRATE}/{source}")).arg("-o");
    compiler.arg(&program).args([
        &format!("-L{place}"),
        "-lcellpace",
        &format!("-Wl,-rpath,{place}"),
    ]);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => {
            cellpace_testing::skip(format_args!("cc: {error}"));
            return None;
        }
    }
    Some((folder, program))
}

fn data() -> Vec<u8> {
    (0..5_000_000_usize).map(|index| (index % 1000 * 7 % 251) as u8).collect()
}

fn exchange(stream: &TcpStream) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(|| {
            (&*stream).write_all(&data()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&*stream).read_to_end(&mut received).unwrap();
        received
    })
}

#[test]
fn the_example_echoes_what_it_accepts() {
    let Some((_folder, program)) = compile("examples/echo.c", &[]) else { return };
    let mut child = Command::new(program)
        .args(["accept", "copa:delta=0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(exchange(&stream) == data(), "other data came back");
    drop(stream);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(rest.contains("peer 127.0.0.1"), "{rest}");
    assert!(rest.contains("acknowledged"), "{rest}");
}

#[test]
fn the_example_echoes_what_it_opens() {
    let Some((_folder, program)) = compile("examples/echo.c", &[]) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut child = Command::new(program).args(["connect", "cubic", &port]).spawn().unwrap();
    let (stream, _) = listener.accept().unwrap();
    assert!(exchange(&stream) == data(), "other data came back");
    drop(stream);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_example_says_what_is_wrong_with_a_controller() {
    let Some((_folder, program)) = compile("examples/echo.c", &[]) else { return };
    let output = Command::new(program).args(["accept", "nonsense"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no controller `nonsense`"), "{said}");
}

#[test]
fn errors_and_ends_are_as_the_header_says() {
    let Some((_folder, program)) = compile("tests/it/errors.c", &["-D_GNU_SOURCE"]) else { return };
    let output = Command::new(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
}

/// Allocations fail, each in turn, and then that one and all after it.
#[test]
fn no_allocation_that_fails_ends_the_program_or_tears_a_stream() {
    if std::env::var(FLAGS).is_ok_and(|flags| flags.contains("sanitize")) {
        return cellpace_testing::skip("a sanitizer has an allocator of its own");
    }
    let Some((_folder, program)) = compile("tests/it/memory.c", &["-D_GNU_SOURCE"]) else { return };
    for controller in ["copa", "verus"] {
        for mode in ["once", "on"] {
            let output = Command::new(&program).args([controller, mode]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{controller} {mode}: {said}");
            let counts = String::from_utf8_lossy(&output.stdout);
            println!("{controller}, {mode}: {counts}");
            let counts: Vec<u32> = counts
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|n| n.parse().ok())
                .collect();
            assert!(counts.iter().sum::<u32>() > 20, "allocations were tried: {counts:?}");
        }
    }
}

#[test]
fn threads_in_accept_can_be_cancelled() {
    let Some((_folder, program)) = compile("tests/it/cancel.c", &["-D_GNU_SOURCE"]) else { return };
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Only what we mean to stand in front of, and our own interface.
#[test]
fn nothing_else_is_exported() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output()
    else {
        cellpace_testing::skip("no nm");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let (calls, mut names): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.starts_with("alcc_"));
    // Versions depend on the linker; some with and some without would be wrong.
    let versioned = calls.iter().filter(|name| name.ends_with("@@CELLPACE_0")).count();
    assert!(versioned == 0 || versioned == calls.len(), "{calls:?}");
    if versioned == 0 {
        eprintln!("symbols have no versions: this linker cannot give them");
    }
    names.sort_unstable();
    let expected = [
        "accept",
        "accept4",
        "connect",
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "getpeername",
        "getsockname",
        "getsockopt",
        "ioctl",
        "setsockopt",
    ];
    assert_eq!(names, expected);
}
