//! Many sockets under control in one process: what it costs the thread that controls them, and
//! whether records are lost. Over the loopback device of a network of its own; needs root.
//!
//! cargo run --release -p cellpace-kernel --features install --example many_sockets -- 10000 500 5

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cellpace_kernel::install::{InstallOptions, install};
use cellpace_kernel::{Kernel, Policy, RecordKind, SocketControl, remove, select_named};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

/// Between two looks at the records.
const REST: Duration = Duration::from_millis(1);

/// Between two rounds of writing, and of reading: the kernel has the processors meanwhile.
const ROUND: Duration = Duration::from_micros(100);

/// Windows: more than the loopback device's queue of a thousand packets can take would be lost.
const PACKETS: [u64; 2] = [2, 4];
const MSS: u64 = 1448;

/// What the process that receives is started with.
const RECEIVE: &str = "receive";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(RECEIVE) {
        return receive();
    }
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let asked = numbers.next().unwrap_or(10_000);
    let active = numbers.next().unwrap_or(500);
    let seconds = numbers.next().unwrap_or(5);
    let name = format!("cp_many{}", std::process::id() % 100_000);
    // Only who may exceed it can raise the upper limit.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let sockets = asked.min(most as usize - 100);
    assert!(active <= sockets, "the limit of descriptors leaves {sockets} sockets");
    if sockets < asked {
        println!("{sockets} sockets instead of {asked}: the limit of descriptors is {most}");
    }
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    // An acknowledgment for each packet, and no packets in one piece: what is to be tried is not how
    // fast this machine copies data.
    let script = "ip link set lo mtu 1500 gso_max_segs 1 up &&
        ip route change local 127.0.0.0/8 dev lo src 127.0.0.1 table local quickack 1";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    install(&InstallOptions { name: name.clone(), ..InstallOptions::default() }).unwrap();
    let result = thread::spawn({
        let name = name.clone();
        move || run(&name, sockets, active, seconds as u64)
    });
    let result = result.join();
    remove(&name).unwrap();
    result.unwrap();
}

fn run(name: &str, count: usize, active: usize, seconds: u64) {
    let mut kernel = Kernel::open_named(name).unwrap();
    // Each has its own limit on descriptors.
    let mut receiver = Command::new(std::env::current_exe().unwrap())
        .args([RECEIVE, &count.to_string(), &active.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(receiver.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    let mut senders = Vec::new();
    for _ in 0..count {
        let sender = TcpStream::connect(&address).unwrap();
        let cookie = select_named(&sender, name).unwrap();
        let control = SocketControl {
            window: PACKETS[0] * MSS,
            limit: None,
            pacing: None,
            policy: Policy::Hold,
        };
        kernel.control(cookie, control).unwrap();
        sender.set_nonblocking(true).unwrap();
        senders.push(sender);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Arc::new(Barrier::new(2));
    let traffic = thread::spawn({
        let (stop, begin) = (Arc::clone(&stop), Arc::clone(&begin));
        move || {
            begin.wait();
            send(&mut senders, active, &stop);
        }
    });
    let at_setup = kernel.dropped();
    begin.wait();
    let began = Instant::now();
    let before = cpu();
    let (mut acks, mut windows, mut wakes) = (0u64, 0u64, 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        kernel.beat().unwrap();
        // As the launcher of `cellpace run` does where acks come fast.
        kernel.rest_until(now_ns() + REST.as_nanos() as u64);
        thread::sleep(REST);
        wakes += 1;
        let mut changed = Vec::new();
        kernel.drain(usize::MAX, |record| {
            acks += u64::from(record.kind == RecordKind::Ack);
            // As a controller would: each tenth acknowledgment changes the window.
            if acks % 10 == 0 {
                changed.push((record.cookie, PACKETS[acks as usize / 10 % 2] * MSS));
            }
        });
        for (cookie, window) in changed {
            let control = SocketControl { window, limit: None, pacing: None, policy: Policy::Hold };
            kernel.control(cookie, control).unwrap();
            windows += 1;
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    let used = cpu() - before;
    let running = kernel.dropped() - at_setup;
    stop.store(true, Ordering::Relaxed);
    // All sockets close at once: a record each, and of what was still on its way.
    let mut released = 0;
    let mut drain = |kernel: &mut Kernel| {
        kernel.beat().unwrap();
        kernel
            .drain(usize::MAX, |record| released += usize::from(record.kind == RecordKind::Release))
    };
    while !traffic.is_finished() {
        if drain(&mut kernel) == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
    traffic.join().unwrap();
    drop(receiver.stdin.take());
    receiver.wait().unwrap();
    drain(&mut kernel);
    let closing = kernel.dropped() - at_setup - running;
    println!(
        "{count} sockets, {active} active: {:.0} acks/s, {:.0} windows/s, {:.0} wakes/s, \
         controller {:.1} % of a core, {:.2} us an ack; dropped: {at_setup} at set-up, {running} \
         running, {closing} closing ({released} releases seen)",
        acks as f64 / elapsed,
        windows as f64 / elapsed,
        wakes as f64 / elapsed,
        used / elapsed * 100.0,
        used / acks.max(1) as f64 * 1e6,
    );
}

fn send(senders: &mut [TcpStream], active: usize, stop: &AtomicBool) {
    let buffer = vec![0u8; 65_536];
    while !stop.load(Ordering::Relaxed) {
        for sender in &mut senders[..active] {
            ignore_full(sender.write(&buffer));
        }
        thread::sleep(ROUND);
    }
}

/// Accepts as many connections as it is told, and reads from the active ones until its input ends.
fn receive() {
    let numbers: Vec<usize> = std::env::args().skip(2).map(|word| word.parse().unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let accept = || {
        let receiver = listener.accept().unwrap().0;
        receiver.set_nonblocking(true).unwrap();
        receiver
    };
    let mut receivers: Vec<_> = (0..numbers[0]).map(|_| accept()).collect();
    let ended = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let ended = Arc::clone(&ended);
        move || {
            let _ = std::io::stdin().read(&mut [0]);
            ended.store(true, Ordering::Relaxed);
        }
    });
    let mut buffer = vec![0u8; 1 << 16];
    while !ended.load(Ordering::Relaxed) {
        for receiver in &mut receivers[..numbers[1]] {
            ignore_full(receiver.read(&mut buffer));
        }
        thread::sleep(ROUND);
    }
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn ignore_full(result: std::io::Result<usize>) {
    if let Err(error) = result {
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    }
}

/// Seconds of processor that this thread has had.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
