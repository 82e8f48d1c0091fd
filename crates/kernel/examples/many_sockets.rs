//! Many sockets under control in one process: what it costs the thread that controls them, and
//! whether records are lost. Over the loopback device of a network of its own; needs root.
//!
//! cargo run --release -p cellpace-kernel --features install --example many_sockets -- 10000 500 5

#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cellpace_kernel::install::{Options, install};
use cellpace_kernel::{Control, Kernel, Kind, Policy, remove, select_named};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let asked = numbers.next().unwrap_or(10_000);
    let active = numbers.next().unwrap_or(500);
    let seconds = numbers.next().unwrap_or(5);
    let name = format!("cp_many{}", std::process::id() % 100_000);
    // Only who may exceed it can raise the upper limit.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let sockets = asked.min((most as usize - 100) / 2);
    assert!(active <= sockets, "the limit of descriptors leaves {sockets} sockets");
    if sockets < asked {
        println!("{sockets} sockets instead of {asked}: the limit of descriptors is {most}");
    }
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let script = "ip link set lo mtu 1500 gso_max_segs 1 up";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    install(&Options { name: name.clone(), ..Options::default() }).unwrap();
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut pairs = Vec::new();
    for _ in 0..count {
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let cookie = select_named(&sender, name).unwrap();
        let control = Control { window: 60_000, pacing: None, policy: Policy::Hold };
        kernel.control(cookie, control).unwrap();
        sender.set_nonblocking(true).unwrap();
        receiver.set_nonblocking(true).unwrap();
        pairs.push((sender, receiver));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Arc::new(Barrier::new(2));
    let traffic = thread::spawn({
        let (stop, begin) = (Arc::clone(&stop), Arc::clone(&begin));
        move || {
            begin.wait();
            move_bytes(&mut pairs, active, &stop);
        }
    });
    let at_setup = kernel.dropped();
    begin.wait();
    let began = Instant::now();
    let before = cpu();
    let (mut acks, mut windows, mut wakes) = (0u64, 0u64, 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        kernel.beat().unwrap();
        let mut fds = [PollFd::new(kernel.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(100u8)).unwrap();
        wakes += 1;
        let mut changed = Vec::new();
        kernel.drain(usize::MAX, |record| {
            acks += u64::from(record.kind == Kind::Ack);
            // As a controller would: each tenth acknowledgment changes the window.
            if acks % 10 == 0 {
                changed.push((record.cookie, 50_000 + acks % 20_000));
            }
        });
        for (cookie, window) in changed {
            let control = Control { window, pacing: None, policy: Policy::Hold };
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
        kernel.drain(usize::MAX, |record| released += usize::from(record.kind == Kind::Release))
    };
    while !traffic.is_finished() {
        if drain(&mut kernel) == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
    traffic.join().unwrap();
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

fn move_bytes(pairs: &mut [(TcpStream, TcpStream)], active: usize, stop: &AtomicBool) {
    let mut buffer = vec![0u8; 14_480];
    while !stop.load(Ordering::Relaxed) {
        for (sender, receiver) in &mut pairs[..active] {
            ignore_full(sender.write(&buffer));
            ignore_full(receiver.read(&mut buffer));
        }
    }
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
