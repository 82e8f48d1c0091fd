//! Commands whose system calls fail, each in turn, and commands that are killed at any time: a file
//! under the name that was asked for is always whole, and whoever says that it is there is right.
//!
//! `strace` has the Nth call of a kind fail, N = 1, 2, 3 and so on, until a run is no longer disturbed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::kernel_native::{apart, default};
use crate::kernel_pins::{Place, connection};
use crate::program::{Folder, eventually};
use cellpace_base::Random;
use cellpace_kernel::pins;
use serde_json::Value;

/// No run takes as long, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls of a kind that fail at most, one in each run.
const MAX_FAULTS: u32 = 100;

/// Which calls of a transfer fail: it makes too many for each to have its turn.
const TRANSFER_FAULTS: [u32; 7] = [1, 2, 3, 5, 8, 21, 55];

/// What a file holds before a run that may replace it.
const OLD: &[u8] = b"what was there before";

/// Calls that fail, and their errors.
const FAULTS: &[(&str, &[&str])] = &[
    ("write", &["ENOSPC", "EIO", "EINTR"]),
    ("openat", &["EMFILE", "ENOMEM"]),
    ("read", &["EIO", "EINTR"]),
    ("fsync", &["EIO"]),
    ("rename", &["EACCES"]),
    ("fchmod", &["EPERM"]),
    ("close", &["EIO"]),
    ("clone3", &["EAGAIN"]),
];

const RECV_FAULTS: &[(&str, &[&str])] = &[
    ("recvmmsg", &["EINTR", "ENOMEM", "EIO"]),
    ("sendmsg", &["ENOBUFS", "EPERM", "EINTR"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
    ("epoll_wait", &["EINTR"]),
    ("write", &["EINTR", "EIO"]),
    ("fsync", &["EIO"]),
    ("linkat", &["EIO"]),
    ("rename", &["EIO"]),
];

const SEND_FAULTS: &[(&str, &[&str])] = &[
    ("recvmmsg", &["EINTR", "ENOMEM", "EIO"]),
    ("sendmsg", &["ENOBUFS", "EPERM"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
    ("epoll_wait", &["EINTR"]),
    ("read", &["EINTR", "EIO"]),
];

/// Which writes fail of a receiver inside QUIC. The first ones of each thread wake another one.
const QUIC_WRITES: [u32; 6] = [1, 110, 150, 200, 250, 300];

/// What tokio says when one of its threads cannot wake another one by writing to an eventfd, a call that
/// fails on no kernel.
const WAKES_NOBODY: &str = "failed to wake I/O driver";

/// How long a receiver may wait for a sender that has given up.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// How a run ended.
struct Ended {
    code: Option<i32>,
    stderr: String,
}

impl Ended {
    /// Whether the loader gave up before the program began.
    fn in_the_loader(&self) -> bool {
        self.code == Some(127) && self.stderr.contains("error while loading shared libraries")
    }
}

/// A program in a process group of its own, which ends with the value.
struct Run {
    child: Child,
    stderr: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Run {
    fn start(mut command: Command, folder: &Folder, name: &str) -> Self {
        let stderr = folder.path(&format!("{name}.stderr"));
        let output = File::create(folder.path(&format!("{name}.stdout"))).unwrap();
        command.stdout(output).stderr(File::create(&stderr).unwrap()).stdin(Stdio::null());
        Self { child: command.process_group(0).spawn().unwrap(), stderr }
    }

    /// Ends the program and all that it started.
    fn kill(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
        let _ = self.child.wait();
    }

    /// Waits until the program has said this.
    #[track_caller]
    fn that_says(mut self, text: &str) -> Self {
        let began = Instant::now();
        while !fs::read_to_string(&self.stderr).unwrap().contains(text) {
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended");
            assert!(began.elapsed() < PATIENCE, "it hangs: {}", self.child.id());
            sleep(Duration::from_millis(5));
        }
        self
    }

    #[track_caller]
    fn end(mut self) -> Ended {
        let ended = self.end_within(PATIENCE);
        ended.unwrap_or_else(|| panic!("it hangs: {}", self.child.id()))
    }

    fn has_said(&self, text: &str) -> bool {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).contains(text)
    }

    fn end_within(&mut self, patience: Duration) -> Option<Ended> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = self.child.try_wait().unwrap() {
                let stderr = fs::read(&self.stderr).unwrap();
                let stderr = String::from_utf8_lossy(&stderr).into_owned();
                return Some(Ended { code: status.code(), stderr });
            }
            sleep(Duration::from_millis(5));
        }
        None
    }
}

fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !found {
        cellpace_testing::skip("no strace");
    }
    found
}

/// `cellpace` with these arguments, whose call number `number` of this kind fails.
fn disturbed(folder: &Folder, fault: (&str, &str), number: u32, args: &str) -> Command {
    failing(folder, fault, &number.to_string(), args)
}

/// `cellpace` with these arguments, whose calls of this kind fail as strace's `when` says.
fn failing(folder: &Folder, (call, error): (&str, &str), when: &str, args: &str) -> Command {
    traced(folder, call, &format!("{call}:error={error}:when={when}"), args)
}

/// `cellpace` with these arguments, whose calls of these kinds are written down, and what happens to them.
fn traced(folder: &Folder, calls: &str, inject: &str, args: &str) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(folder.path("strace"));
    command.args(["-e", &format!("trace={calls}")]);
    if !inject.is_empty() {
        command.args(["-e", &format!("inject={inject}")]);
    }
    command.arg(env!("CARGO_BIN_EXE_cellpace")).args(args.split_whitespace());
    cellpace_testing::configured(command.current_dir(folder.path("")));
    command
}

fn was_disturbed(folder: &Folder) -> bool {
    String::from_utf8_lossy(&folder.read("strace")).contains("INJECTED")
}

fn remove(folder: &Folder, name: &str) {
    let _ = fs::remove_file(folder.path(name));
}

/// The error names a file that was asked for, or what could not be done.
fn names_what_failed(error: &str, outputs: &[&str]) -> bool {
    let named = [
        "standard output",
        "thread",
        "receiving",
        "sending",
        "socket",
        "your own key",
        "no answer",
        "cannot read",
    ];
    let error = error.lines().filter(|line| !line.contains("waiting at"));
    let error: String = error.collect();
    outputs.iter().chain(&named).any(|name| error.contains(name))
}

/// Has each call fail in turn while `cellpace` makes these files, which is what `args` order.
fn survives(args: &str, outputs: &[&str]) {
    if !has_strace() {
        return;
    }
    let folder = Folder::new();
    assert_eq!(folder.run(args).code, Some(0), "{args}");
    let whole: Vec<Vec<u8>> = outputs.iter().map(|name| folder.read(name)).collect();
    for (call, errors) in FAULTS {
        for error in *errors {
            let (mut failed, mut number) = (0, 1);
            while number <= MAX_FAULTS {
                // Half of the runs replace files.
                for name in outputs {
                    if number % 2 == 1 {
                        folder.write(name, OLD);
                    } else {
                        remove(&folder, name);
                    }
                }
                let command = disturbed(&folder, (call, error), number, args);
                let ended = Run::start(command, &folder, "run").end();
                if !was_disturbed(&folder) {
                    break;
                }
                let what = format!("{call}={error}, number {number}: {args}\n{}", ended.stderr);
                failed += u32::from(ended.code != Some(0));
                for (name, whole) in outputs.iter().zip(&whole) {
                    let found = fs::read(folder.path(name)).ok();
                    let is_whole = found.as_ref() == Some(whole);
                    let is_old = found.as_deref() == (number % 2 == 1).then_some(OLD);
                    assert!(is_whole || is_old, "{name} is torn: {what}");
                    assert!(is_whole || ended.code != Some(0), "{name} is missing: {what}");
                }
                match ended.code {
                    Some(0) => {}
                    Some(1) => assert!(names_what_failed(&ended.stderr, outputs), "{what}"),
                    code => assert!(ended.in_the_loader(), "ended with {code:?}: {what}"),
                }
                number += 1;
            }
            println!("{:<12} {call}={error}: {} faults, {failed} failed", verb(args), number - 1);
        }
    }
}

fn verb(args: &str) -> String {
    args.split_whitespace().take_while(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ")
}

const COMPARE: &str = "compare --trace lte-driving --cc copa --duration 3s --skip 0s --json o.json \
                       --report o.html --log o.parquet";
const COMPARED: [&str; 3] = ["o.json", "o.html", "o.parquet"];

#[test]
#[ignore = "a minute: ./dev faults"]
fn comparisons_survive_calls_that_fail() {
    survives(COMPARE, &COMPARED);
}

#[test]
#[ignore = "a minute: ./dev faults"]
fn traces_survive_calls_that_fail() {
    survives("trace make lte-driving --duration 20s -o made.trace", &["made.trace"]);
}

#[test]
#[ignore = "a minute: ./dev faults"]
fn trained_tables_survive_calls_that_fail() {
    for name in ["learnt.mdi", "samples.csv"] {
        let train = "mdi train --cc verus:r=2 --trace lte-driving --duration 10s";
        survives(&format!("{train} -o {name}"), &[name]);
    }
}

/// A port of the loopback interface that nobody uses now.
fn unused_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A file of bytes that look like nothing else.
fn content(path: &Path, bytes: usize) -> Vec<u8> {
    let mut random = Random::seeded(bytes as u64, 0);
    let content: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
    fs::write(path, &content).unwrap();
    content
}

/// What both ends of a transfer are given, for each transport that was built.
fn transports() -> &'static [&'static str] {
    if cfg!(feature = "quic") {
        return &["", "--quic"];
    }
    cellpace_testing::skip("built without the feature `quic`");
    &[""]
}

fn sending(port: u16, timeout: &str, transport: &str) -> String {
    format!("send 127.0.0.1:{port} --timeout {timeout} --cc fixed:cwnd=50pkts original {transport}")
}

fn start(folder: &Folder, args: &str, name: &str) -> Run {
    Run::start(folder.command(args.split_whitespace()), folder, name)
}

fn receiving(port: u16, transport: &str) -> String {
    format!("recv --listen 127.0.0.1:{port} --once --timeout 3s --output copy {transport}")
}

/// The end of a transfer whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Recv,
    Send,
}

#[test]
#[ignore = "six minutes: ./dev faults"]
fn transfers_survive_calls_of_the_receiver_that_fail() {
    all_transfers_survive(End::Recv, RECV_FAULTS);
}

#[test]
#[ignore = "four minutes: ./dev faults"]
fn transfers_survive_calls_of_the_sender_that_fail() {
    all_transfers_survive(End::Send, SEND_FAULTS);
}

fn all_transfers_survive(end: End, faults: &[(&str, &[&str])]) {
    if !has_strace() {
        return;
    }
    let folder = Folder::new();
    let whole = content(&folder.path("original"), 300_000);
    for transport in transports() {
        for (call, errors) in faults {
            for error in *errors {
                transfers_survive(&folder, &whole, end, (call, error), transport);
            }
        }
    }
}

/// Starts a receiver and a sender; calls of this end fail.
fn start_both(
    folder: &Folder,
    end: End,
    (call, error, number): (&str, &str, u32),
    receive: &str,
    send: &str,
) -> (Run, Run) {
    let fails = |args: &str| disturbed(folder, (call, error), number, args);
    match end {
        End::Recv => {
            let receiver = Run::start(fails(receive), folder, "recv");
            (receiver, start(folder, send, "send"))
        }
        End::Send => {
            let receiver = start(folder, receive, "recv").that_says("waiting at");
            (receiver, Run::start(fails(send), folder, "send"))
        }
    }
}

/// Has calls of a kind fail, one in each transfer.
fn transfers_survive(
    folder: &Folder,
    whole: &[u8],
    end: End,
    (call, error): (&str, &str),
    transport: &str,
) {
    let numbers = match (call, transport) {
        ("write", "--quic") => &QUIC_WRITES[..],
        _ => &TRANSFER_FAULTS,
    };
    let (mut faults, mut arrived) = (0, 0);
    for &number in numbers {
        folder.write("copy", OLD);
        let port = unused_port();
        let (receive, send) = (receiving(port, transport), sending(port, "3s", transport));
        let fault = (call, error, number);
        let (mut receiver, sender) = start_both(folder, end, fault, &receive, &send);
        let mut sent = sender.end();
        if receiver.has_said(WAKES_NOBODY) {
            continue;
        }
        if !was_disturbed(folder) {
            receiver.kill();
            break;
        }
        let named = format!("{transport} {call}={error}, number {number}");
        let (mut ended, failed) = (None, sent.stderr.clone());
        if sent.code != Some(0) {
            ended = receiver.end_within(LEFT_ALONE);
            if ended.is_none() {
                // It has met nobody and waits: the next sender must find it.
                let again = start(folder, &send, "again").end();
                assert_eq!(again.code, Some(0), "the receiver hangs: {named}\n{}", again.stderr);
                if end == End::Recv {
                    sent = again;
                }
            }
        }
        let ended = ended.unwrap_or_else(|| receiver.end());
        if ended.stderr.contains(WAKES_NOBODY) {
            continue;
        }
        faults += 1;
        let what = format!("{named}\nrecv: {}send: {failed}", ended.stderr);
        let is_whole = folder.read("copy") == whole;
        arrived += u32::from(is_whole);
        assert!(is_whole || folder.read("copy") == OLD, "the file is torn: {what}");
        assert!(is_whole || sent.code != Some(0), "the sender is wrong: {what}");
        assert!(is_whole || ended.code != Some(0), "the receiver is wrong: {what}");
        let (own, said, file) = match end {
            End::Recv => (&ended, &ended.stderr, "copy"),
            End::Send => (&sent, &failed, "original"),
        };
        match own.code {
            Some(0) => {}
            // 2: a key or a file that was named cannot be read.
            Some(1 | 2) => assert!(names_what_failed(said, &[file]), "{what}"),
            code => assert!(own.in_the_loader(), "ended with {code:?}: {what}"),
        }
    }
    let verb = format!("{end:?}").to_lowercase();
    println!("{verb} {transport:<7} {call}={error}: {faults} faults, {arrived} arrived");
}

/// What never passes ends a transfer on either side, with the reason.
#[test]
fn who_can_receive_nothing_more_says_so_and_ends() {
    if !has_strace() {
        return;
    }
    let folder = Folder::new();
    content(&folder.path("original"), 300_000);
    for transport in transports() {
        for error in ["EIO", "ENOMEM"] {
            let port = unused_port();
            let (fault, receive) = (("recvmmsg", error), receiving(port, transport));
            // It goes on for many senders, and so it would wait for ever.
            let service = receive.replace(" --once", "").replace("--output copy", "--output all");
            let service = failing(&folder, fault, "2+", &service);
            let receiver = Run::start(service, &folder, "recv").that_says("waiting at");
            let sent = start(&folder, &sending(port, "3s", transport), "send").end();
            assert_eq!(sent.code, Some(1), "{transport} {error}: {}", sent.stderr);
            let received = receiver.end();
            assert_eq!(received.code, Some(1), "{transport} {error}: {}", received.stderr);
            assert!(received.stderr.contains(errno_text(error)), "{}", received.stderr);

            let mut receiver = start(&folder, &receive, "recv").that_says("waiting at");
            let sender = failing(&folder, fault, "2+", &sending(port, "30s", transport));
            let sent = Run::start(sender, &folder, "send").end();
            receiver.kill();
            assert_eq!(sent.code, Some(1), "{transport} {error}: {}", sent.stderr);
            assert!(sent.stderr.contains(errno_text(error)), "{}", sent.stderr);
        }
    }
}

fn errno_text(error: &str) -> &'static str {
    if error == "EIO" { "Input/output error" } else { "Cannot allocate memory" }
}

/// A time within a run that takes `whole`, or a little after it.
fn within(whole: Duration, random: &mut Random) -> Duration {
    whole.mul_f64(random.unit() * 1.1)
}

#[test]
#[ignore = "half a minute: ./dev faults"]
fn a_comparison_that_is_killed_leaves_no_torn_file() {
    let folder = Folder::new();
    let args = COMPARE.replace("3s", "30s");
    let began = Instant::now();
    assert_eq!(folder.run(&args).code, Some(0));
    let takes = began.elapsed();
    let whole: Vec<Vec<u8>> = COMPARED.iter().map(|name| folder.read(name)).collect();
    let mut random = Random::seeded(1, 1);
    let mut made = 0;
    for _ in 0..20 {
        COMPARED.iter().for_each(|name| remove(&folder, name));
        let mut run = Run::start(folder.command(args.split_whitespace()), &folder, "run");
        sleep(within(takes, &mut random));
        run.kill();
        for (name, whole) in COMPARED.iter().zip(&whole) {
            let found = fs::read(folder.path(name)).ok();
            made += u32::from(found.is_some());
            assert!(found.is_none_or(|found| found == *whole), "{name} is torn");
        }
    }
    println!("compare killed 20 times: {made} of 60 files made, none torn");
}

#[test]
#[ignore = "two minutes: ./dev faults"]
fn a_receiver_that_is_killed_leaves_no_torn_file() {
    for transport in transports() {
        no_kill_tears(transport);
    }
}

fn no_kill_tears(transport: &str) {
    let folder = Folder::new();
    let whole = content(&folder.path("original"), 30_000_000);
    let waiting = |port| {
        let command = folder.command(receiving(port, transport).split_whitespace());
        Run::start(command, &folder, "recv").that_says("waiting at")
    };
    let port = unused_port();
    let received = waiting(port);
    let began = Instant::now();
    assert_eq!(start(&folder, &sending(port, "3s", transport), "send").end().code, Some(0));
    let takes = began.elapsed();
    assert_eq!(received.end().code, Some(0));
    let mut random = Random::seeded(2, 1);
    let mut arrived = 0;
    for _ in 0..25 {
        folder.write("copy", OLD);
        let port = unused_port();
        let mut received = waiting(port);
        let sender = start(&folder, &sending(port, "1s", transport), "send");
        sleep(within(takes, &mut random));
        received.kill();
        let sent = sender.end();
        let found = folder.read("copy");
        arrived += u32::from(found == whole);
        assert!(found == whole || found == OLD, "the file is torn");
        assert!(found == whole || sent.code != Some(0), "the sender is wrong: {}", sent.stderr);
    }
    println!("recv {transport} killed 25 times: {arrived} files arrived, none torn");
}

const INSTALL: &str = "install --cc pace --default --everyone";

/// What is installed before, and what is done then.
const KERNEL_COMMANDS: [(&str, &str); 5] = [
    ("", INSTALL),
    (INSTALL, "install --cc pace:empty=2% --everyone"),
    (INSTALL, "install --cc copa --default --everyone"),
    (INSTALL, "remove --cc pace"),
    (INSTALL, "remove --cc pace --now"),
];

/// The calls of bpf(2) that change what others see.
const KERNEL_CHANGES: [&str; 6] =
    ["LINK_CREATE", "OBJ_PIN", "LINK_UPDATE", "LINK_DETACH", "MAP_UPDATE_ELEM", "ITER_CREATE"];

/// Whatever fails, and wherever it is killed: what is installed is known, connections go on, an installation
/// that failed has changed nothing, and the next commands find nothing in their way.
#[test]
#[ignore = "five minutes: ./dev faults"]
fn a_controller_in_the_kernel_survives_each_step_that_fails_or_is_the_last() {
    if !has_strace() {
        return;
    }
    let Some(place) = Place::new() else { return };
    apart(move || {
        KERNEL_COMMANDS.iter().for_each(|(before, command)| each_step(&place, before, command));
    });
}

fn each_step(place: &Place, before: &str, command: &str) {
    let args = format!("kernel {command} --name {}", place.name);
    let run = |calls: &str, inject: &str| {
        Run::start(traced(&place.folder, calls, inject, &args), &place.folder, "run").end()
    };
    let prepare = || {
        if !before.is_empty() {
            place.good(before);
        }
    };
    prepare();
    assert_eq!(run("bpf,mkdir,unlink,write", "").code, Some(0), "{args}");
    let steps = kernel_steps(&String::from_utf8_lossy(&place.folder.read("strace")));
    let _ = place.kernel("remove --cc pace --now");
    let default_before = default();
    let (mut killed, mut failed) = (0, 0);
    for (call, number) in steps {
        // What cannot be written to standard output is no step.
        let errors =
            if call == "write" { &["signal=KILL"][..] } else { &["signal=KILL", "error=ENOMEM"] };
        for error in errors {
            prepare();
            let (mut sender, mut receiver) = connection();
            let state = kernel_state(place);
            let ended = run(call, &format!("{call}:{error}:when={number}"));
            let what = format!("{call} {number} {error}: {command}\n{}", ended.stderr);
            eventually(&what, || kernel_state(place).0.is_empty() != place.is_listed());
            match ended.code {
                None => killed += 1,
                Some(0) => {}
                Some(1) => failed += 1,
                code => panic!("ended with {code:?}: {what}"),
            }
            let is_done = ended.stderr.contains("is replaced, but");
            if ended.code == Some(1) && command.starts_with("install") && !is_done {
                assert_eq!(kernel_state(place), state, "{what}");
            }
            assert!([&default_before, &place.name].contains(&&default()), "{}: {what}", default());
            let mut received = [0; 10_000];
            sender.write_all(&[7; 10_000]).unwrap();
            receiver.read_exact(&mut received).unwrap();
            place.good(INSTALL);
            place.good("remove --cc pace --now");
            assert!(!place.is_listed() && !pins(&place.name).exists(), "{what}");
            assert_eq!(default(), default_before, "{what}");
        }
    }
    println!("kernel {command}: killed {killed} times, failed {failed} times");
    assert!(killed > 0 && failed > 0);
}

/// What is installed, but for when and how many sockets have it, and the default.
fn kernel_state(place: &Place) -> (Vec<Value>, String) {
    let mut native = place.json()["native"].as_array().cloned().unwrap_or_default();
    for known in native.iter_mut().filter_map(Value::as_object_mut) {
        known.retain(|name, _| !["installed_at", "sockets"].contains(&name.as_str()));
    }
    (native, default())
}

/// The calls at which a command is disturbed: each that changes something, and the one after it.
fn kernel_steps(strace: &str) -> Vec<(&'static str, usize)> {
    let mut steps = Vec::new();
    for call in ["bpf", "mkdir", "unlink", "write"] {
        let opened = format!("{call}(");
        let calls = strace.lines().filter(|line| line.contains(&opened));
        for (at, line) in calls.enumerate() {
            let changes =
                call != "bpf" || KERNEL_CHANGES.iter().any(|change| line.contains(change));
            for step in [(call, at + 1), (call, at + 2)] {
                if changes && !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
    }
    steps
}
