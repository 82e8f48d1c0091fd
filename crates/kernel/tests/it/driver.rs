//! The kernel driver in the running kernel. Needs root and a kernel that permits it; says so where
//! it is not tested. Each test has a driver with a name of its own, and a network of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::measured;
use cellpace_kernel::install::{DriverAccess, InstallError, InstallOptions, install};
use cellpace_kernel::{
    Kernel, KernelError, KernelRecord, Policy, RecordKind, SocketControl, installed, pins, remove,
    select_named,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use measured::measured;
use nix::sched::{CloneFlags, unshare};
use sha2::{Digest, Sha256};

const ROLE: &str = "CELLPACE_TEST_ROLE";
const NAME: &str = "CELLPACE_TEST_NAME";
/// An unprivileged user and group.
const NOBODY: u32 = 65_534;
const BEAT: Duration = Duration::from_millis(100);

/// An installed driver, removed at the end, whatever happens.
struct Driver(String);

impl Driver {
    /// `None`, and a line that says why, where the kernel or who we are does not permit it.
    fn new(access: DriverAccess, ring_bytes: u32) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cp_t{:x}_{number}", std::process::id());
        let driver = Self(name.clone());
        match install(&InstallOptions { name, access, ring_bytes, ..InstallOptions::default() }) {
            Ok(_) => Some(driver),
            Err(error) if nix::unistd::geteuid().is_root() && can_use_bpf(&error) => {
                panic!("{error}")
            }
            Err(error) => {
                cellpace_testing::skip(error);
                None
            }
        }
    }

    fn open(&self) -> Kernel {
        Kernel::open_named(&self.0).unwrap()
    }

    /// This test program once more, in one of its [`roles`].
    fn role(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "driver::roles", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(NAME, &self.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = remove(&self.0);
        assert!(!pins(&self.0).exists() || thread::panicking());
    }
}

/// Whether an error is a failure of ours and not of the place where we run.
fn can_use_bpf(error: &InstallError) -> bool {
    match error {
        InstallError::NoBtf { .. } | InstallError::Kernel(_) | InstallError::TooOld(_) => false,
        InstallError::Bpf { source, .. } => source.kind() != libbpf_rs::ErrorKind::PermissionDenied,
        InstallError::System { source, .. } => source.kind() != ErrorKind::PermissionDenied,
        _ => true,
    }
}

/// Moves this thread to a network where nothing but the loopback device is. Its packets are of the
/// size of Ethernet's and are acknowledged singly.
fn network() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let script = "ip link set lo mtu 1500 gso_max_segs 1 gro_max_size 1500 up";
    let worked = Command::new("sh").args(["-c", script]).status().unwrap().success();
    assert!(
        worked
            || Command::new("ip")
                .args("link set lo mtu 1500 up".split(' '))
                .status()
                .unwrap()
                .success()
    );
}

/// A connection over the loopback device to a thread that reads until the end and tells the hash.
fn connection(driver: &Driver) -> (TcpStream, u64, JoinHandle<[u8; 32]>) {
    connection_at(driver, "127.0.0.1:0")
}

fn connection_at(driver: &Driver, address: &str) -> (TcpStream, u64, JoinHandle<[u8; 32]>) {
    let listener = TcpListener::bind(address).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let cookie = select_named(&sender, &driver.0).unwrap();
    let reader = thread::spawn(move || {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match receiver.read(&mut buffer).unwrap() {
                0 => return hash.finalize().into(),
                count => hash.update(&buffer[..count]),
            }
        }
    });
    (sender, cookie, reader)
}

/// Sends for a while; the hash of what was sent.
fn send_for(socket: &TcpStream, time: Duration) -> [u8; 32] {
    let end = Instant::now() + time;
    send_while(socket, |_| Instant::now() <= end)
}

/// Sends while there is to be more after so many chunks of ten packets; the hash of what was sent.
fn send_while(mut socket: &TcpStream, more: impl Fn(u64) -> bool) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut chunk = vec![0u8; 14_480];
    for number in 0u64.. {
        if !more(number) {
            break;
        }
        chunk[..8].copy_from_slice(&number.to_le_bytes());
        hash.update(&chunk);
        socket.write_all(&chunk).unwrap();
    }
    socket.shutdown(Shutdown::Write).unwrap();
    hash.finalize().into()
}

fn hold(window: u64) -> SocketControl {
    SocketControl { window, limit: None, pacing: None, policy: Policy::Hold }
}

/// Reads records and beats until told to stop, or until the driver is gone.
struct Controller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Kernel, Vec<KernelRecord>)>,
}

impl Controller {
    fn start(mut kernel: Kernel) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut records = Vec::new();
            let mut beaten = Instant::now() - BEAT;
            while !stopped.load(Ordering::Relaxed) {
                if beaten.elapsed() >= BEAT {
                    beaten = Instant::now();
                    let _ = kernel.beat();
                }
                wait_readable(&kernel, BEAT);
                kernel.drain(usize::MAX, |record| records.push(record));
            }
            kernel.drain(usize::MAX, |record| records.push(record));
            (kernel, records)
        });
        Self { stop, thread }
    }

    fn stop(self) -> (Kernel, Vec<KernelRecord>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn wait_readable(kernel: &Kernel, most: Duration) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(kernel.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::try_from(most).unwrap()).unwrap();
}

#[test]
fn every_acknowledgment_has_a_record_as_fast_as_they_come() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let kernel = driver.open();
        kernel.control(cookie, hold(1 << 20)).unwrap();
        let controller = Controller::start(kernel);
        let began = Instant::now();
        let sent = send_for(&sender, Duration::from_secs(2));
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
        thread::sleep(Duration::from_millis(200));
        let (kernel, records) = controller.stop();
        let acks = records.iter().filter(|record| record.kind == RecordKind::Ack).count();
        println!("{:.0} records a second", acks as f64 / seconds);
        assert_eq!(kernel.dropped(), 0);
        assert!(records.iter().all(|record| record.cookie == cookie));
        assert!(records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        assert_none_missing(&records);
        assert_eq!(records.last().unwrap().kind, RecordKind::Release);
    });
}

/// What the acknowledgments say one by one is what TCP counts as a whole. Except that after a
/// needless retransmission, TCP also counts what acknowledgments of duplicates bring when nothing
/// is outstanding, for which it calls no congestion control: at most what was retransmitted.
fn assert_none_missing(records: &[KernelRecord]) {
    let acks: Vec<_> = records.iter().filter(|record| record.kind == RecordKind::Ack).collect();
    let mut surplus = 0;
    for pair in acks.windows(2) {
        let more = pair[1].delivered.wrapping_sub(pair[0].delivered) - pair[1].acked;
        assert!(more == 0 || pair[0].outstanding == 0, "between {:?} and {:?}", pair[0], pair[1]);
        surplus += more;
    }
    let retransmitted = acks[acks.len() - 1].retransmitted;
    assert!(surplus <= retransmitted, "{surplus} packets, {retransmitted} retransmitted");
}

#[test]
fn records_that_nobody_reads_are_counted() {
    let Some(driver) = Driver::new(DriverAccess::Root, 1 << 16) else { return };
    network();
    let (sender, cookie, reader) = connection(&driver);
    let mut kernel = driver.open();
    kernel.control(cookie, hold(1 << 18)).unwrap();
    // Until there is no room, however many packets the receiver acknowledges at a time.
    let sent = send_while(&sender, |chunks| kernel.dropped() == 0 && chunks < 20_000);
    assert_eq!(reader.join().unwrap(), sent);
    let mut records = 0;
    kernel.drain(usize::MAX, |_| records += 1);
    // 80 bytes each with their heads.
    assert!((770..=(1 << 16) / 80).contains(&records), "{records}");
    assert!(kernel.dropped() > 0);
    assert_eq!(installed(&driver.0).unwrap().dropped, kernel.dropped());
    assert_eq!(kernel.drain(usize::MAX, |_| ()), 0, "and all are read");
}

#[test]
fn whoever_looks_by_itself_is_not_woken_and_misses_nothing() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let mut kernel = driver.open();
        kernel.control(cookie, hold(1 << 16)).unwrap();
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        let nanos = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        kernel.rest_until(nanos + 400_000_000);
        let waits = Instant::now();
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            (send_for(&sender, Duration::from_millis(100)), sender)
        });
        wait_readable(&kernel, Duration::from_millis(300));
        assert!(waits.elapsed() >= Duration::from_millis(290), "{:?}", waits.elapsed());
        let mut records = Vec::new();
        kernel.drain(usize::MAX, |record| records.push(record));
        assert!(records.len() > 10, "{}", records.len());
        assert_eq!(kernel.dropped(), 0);
        let (sent, sender) = writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
        // Over: the socket's release is told.
        wait_readable(&kernel, Duration::from_secs(1));
    });
}

#[test]
fn few_packets_are_an_even_number() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let mut kernel = driver.open();
        let writer = thread::spawn(move || (send_for(&sender, Duration::from_millis(900)), sender));
        let mut seen = Vec::new();
        for packets in [4, 5, 4, 3, 9, 1] {
            kernel.control(cookie, hold(packets * 1448)).unwrap();
            let end = Instant::now() + Duration::from_millis(100);
            let mut last = 0;
            while Instant::now() < end {
                kernel.beat().unwrap();
                kernel.drain(usize::MAX, |record| last = record.cwnd);
                thread::sleep(Duration::from_millis(1));
            }
            seen.push(last);
        }
        assert_eq!(seen, [4, 4, 4, 4, 9, 2]);
        kernel.control(cookie, hold(1 << 20)).unwrap();
        let (sent, sender) = writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
    });
}

#[test]
fn without_heartbeats_tcp_goes_by_itself_until_they_return() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let mut kernel = driver.open();
        let (finished, is_finished) = mpsc::channel();
        let writer = thread::spawn(move || {
            let sent = send_for(&sender, Duration::from_millis(3500));
            finished.send(()).unwrap();
            (sent, sender)
        });
        // A window that loopback would never need.
        kernel.control(cookie, hold(50_000_000)).unwrap();
        let mut last = None;
        let mut phase = |kernel: &mut Kernel, time: u64, beats: bool| {
            let end = Instant::now() + Duration::from_millis(time);
            while Instant::now() < end {
                if beats {
                    kernel.beat().unwrap();
                }
                kernel.drain(usize::MAX, |record| last = Some(record));
                thread::sleep(Duration::from_millis(5));
            }
            last.unwrap()
        };
        let before = phase(&mut kernel, 500, true);
        assert!(!before.fallback && before.cwnd > 30_000, "{before:?}");
        let alone = phase(&mut kernel, 1300, false);
        // Bounded by what was in flight: the receiver's window is 6 MB at most.
        assert!(alone.fallback && alone.cwnd < 10_000, "{alone:?}");
        let after = phase(&mut kernel, 500, true);
        assert!(!after.fallback && after.cwnd > 30_000, "{after:?}");
        // A socket that is let go is on its own, too, and has no records.
        kernel.release(cookie).unwrap();
        assert_eq!(installed(&driver.0).unwrap().sockets, 1);
        is_finished.recv().unwrap();
        let (sent, sender) = writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
        assert!(installed(&driver.0).unwrap().fallbacks >= 2);
    });
}

#[test]
fn a_killed_controller_leaves_a_safe_connection_and_its_slot() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let mut controller = driver.role("control").spawn().unwrap();
        writeln!(controller.stdin.take().unwrap(), "{cookie}").unwrap();
        wait_for(&mut controller, "controls");
        assert_eq!(installed(&driver.0).unwrap().slots, [controller.id()]);
        let writer = thread::spawn(move || (send_for(&sender, Duration::from_secs(3)), sender));
        thread::sleep(Duration::from_millis(700));
        controller.kill().unwrap(); // SIGKILL
        controller.wait().unwrap();
        let (sent, sender) = writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), sent);
        assert_eq!(installed(&driver.0).unwrap().fallbacks, 1);
        // The next controller takes over, also the socket.
        thread::sleep(Duration::from_millis(1000));
        assert!(installed(&driver.0).unwrap().slots.is_empty(), "abandoned");
        let kernel = driver.open();
        assert_eq!(kernel.slot(), 0);
        kernel.control(cookie, hold(100_000)).unwrap();
        drop(sender);
    });
}

#[test]
fn removed_while_in_use_connections_go_on_by_themselves() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let kernel = driver.open();
        kernel.control(cookie, hold(50_000_000)).unwrap();
        let controller = Controller::start(kernel);
        let other = sender.try_clone().unwrap();
        let writer = thread::spawn(move || send_for(&other, Duration::from_secs(1)));
        thread::sleep(Duration::from_millis(400));
        assert_eq!(remove(&driver.0).unwrap().sockets, Some(1));
        assert_eq!(select_named(&sender, &driver.0).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(matches!(Kernel::open_named(&driver.0), Err(KernelError::NotInstalled)));
        assert_eq!(reader.join().unwrap(), writer.join().unwrap());
        let (kernel, records) = controller.stop();
        assert!(matches!(kernel.beat(), Err(KernelError::Removed)));
        assert!(records.last().unwrap().fallback);
        assert!(records.last().unwrap().cwnd < 10_000, "{:?}", records.last());
        // And again: the old socket is still there, with the old program.
        let name = driver.0.clone();
        let again = install(&InstallOptions { name, ..InstallOptions::default() }).unwrap();
        assert_eq!(again.replaced, None);
        assert_eq!(installed(&driver.0).unwrap().sockets, 0);
        drop(sender);
    });
}

/// Changes bytes of the shared page, as another version would have written them.
fn pretend(driver: &Driver, at: usize, bytes: &[u8]) {
    let map = MapHandle::from_pinned_path(pins(&driver.0).join("shared")).unwrap();
    let key = 0u32.to_ne_bytes();
    let mut page = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    page[at..at + bytes.len()].copy_from_slice(bytes);
    map.update(&key, &page, MapFlags::ANY).unwrap();
}

#[test]
fn another_version_is_told_apart_and_replaced() {
    let Some(driver) = Driver::new(DriverAccess::Root, 1 << 16) else { return };
    let options =
        InstallOptions { name: driver.0.clone(), ring_bytes: 1 << 16, ..InstallOptions::default() };
    assert!(install(&options).unwrap().was_there, "the same again changes nothing");
    pretend(&driver, 24, b"9.9.9\0");
    pretend(&driver, 4, &99u32.to_ne_bytes());
    let error = Kernel::open_named(&driver.0).unwrap_err();
    assert!(matches!(error, KernelError::OtherVersion { layout: 99, .. }), "{error}");
    assert!(error.to_string().contains("9.9.9"), "{error}");
    assert_eq!(installed(&driver.0).unwrap().layout, 99);
    let done = install(&options).unwrap();
    assert_eq!(done.replaced, Some(("9.9.9".to_owned(), 0)));
    driver.open();
}

#[test]
fn a_name_that_is_taken_is_refused_and_nothing_is_left_of_the_attempt() {
    if Driver::new(DriverAccess::Root, 1 << 16).is_none() {
        return;
    }
    let error = install(&InstallOptions { name: "reno".to_owned(), ..InstallOptions::default() })
        .unwrap_err();
    assert!(matches!(error, InstallError::Driver(KernelError::Foreign(_))), "{error}");
    let names = std::fs::read_dir(pins("")).unwrap();
    let left: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("reno"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn there_are_as_many_slots_as_are_promised() {
    let Some(driver) = Driver::new(DriverAccess::Root, 1 << 16) else { return };
    let mut kernels: Vec<_> = (0..cellpace_kernel::SLOTS).map(|_| driver.open()).collect();
    assert!(matches!(Kernel::open_named(&driver.0), Err(KernelError::NoSlot)));
    let freed = kernels.remove(5);
    drop(freed);
    assert_eq!(driver.open().slot(), 5);
}

#[test]
fn only_those_who_may_control_and_everybody_may_select() {
    let Some(driver) = Driver::new(DriverAccess::Group(NOBODY), 1 << 16) else { return };
    network();
    let outsider = |driver: &Driver| {
        let mut command = driver.role("try");
        command.uid(NOBODY).gid(NOBODY - 1);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let text = outsider(&driver);
    assert!(text.contains("may select"), "{text}");
    let group = cellpace_group(NOBODY);
    assert!(text.contains(&format!("open to root and group {group}")), "{text}");
    let mut member = driver.role("try");
    member.uid(NOBODY).gid(NOBODY);
    let text = String::from_utf8(member.output().unwrap().stdout).unwrap();
    assert!(text.contains("may select") && text.contains("may control"), "{text}");
    // And the owner can change his mind.
    let options = |access| {
        let name = driver.0.clone();
        InstallOptions { name, access, ring_bytes: 1 << 16, ..InstallOptions::default() }
    };
    install(&options(DriverAccess::Everyone)).unwrap();
    assert!(outsider(&driver).contains("may control"));
    install(&options(DriverAccess::Root)).unwrap();
    assert!(outsider(&driver).contains("open to root alone"));
}

fn cellpace_group(gid: u32) -> String {
    nix::unistd::Group::from_gid(gid.into()).unwrap().map_or(gid.to_string(), |group| group.name)
}

#[test]
fn a_control_that_comes_too_late_does_not_stay() {
    let Some(driver) = Driver::new(DriverAccess::Root, 1 << 16) else { return };
    network();
    let (sender, cookie, reader) = connection(&driver);
    let mut kernel = driver.open();
    kernel.control(cookie, hold(100_000)).unwrap();
    let other = sender.try_clone().unwrap();
    select_named(&other, "reno").unwrap(); // as good as closed
    kernel.control(cookie, hold(100_000)).unwrap();
    assert_eq!(controls(&driver), 1);
    let mut kinds = Vec::new();
    kernel.drain(usize::MAX, |record| kinds.push(record.kind));
    assert_eq!(kinds.last(), Some(&RecordKind::Release));
    assert_eq!(controls(&driver), 0);
    // What a process that is gone left is removed by the next.
    kernel.control(12_345, hold(100_000)).unwrap();
    drop(kernel);
    assert_eq!(controls(&driver), 1);
    driver.open();
    assert_eq!(controls(&driver), 0);
    drop((sender, other));
    reader.join().unwrap();
}

fn controls(driver: &Driver) -> usize {
    MapHandle::from_pinned_path(pins(&driver.0).join("controls")).unwrap().keys().count()
}

#[test]
fn policy_follow_is_tcp_by_itself_below_the_window_also_over_ipv6() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection_at(&driver, "[::1]:0");
        let kernel = driver.open();
        let mss = 1448;
        let control =
            SocketControl { window: 40 * mss, limit: None, pacing: None, policy: Policy::Follow };
        kernel.control(cookie, control).unwrap();
        let controller = Controller::start(kernel);
        let sent = send_for(&sender, Duration::from_millis(400));
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
        let (_, records) = controller.stop();
        assert!(records.iter().all(|record| record.fallback && record.cwnd <= 44), "mss differs");
        // It began with 10 packets and grew.
        assert!(records.iter().any(|record| record.cwnd >= 20));
        assert!(records[0].cwnd <= 20, "{:?}", records[0]);
    });
}

#[test]
fn a_pacing_rate_is_kept() {
    measured(|| {
        let Some(driver) = Driver::new(DriverAccess::Root, 1 << 20) else { return };
        network();
        let (sender, cookie, reader) = connection(&driver);
        let kernel = driver.open();
        let control = SocketControl { pacing: Some(1_250_000), ..hold(1 << 20) };
        kernel.control(cookie, control).unwrap();
        let controller = Controller::start(kernel);
        let sent = send_for(&sender, Duration::from_millis(4000));
        assert_eq!(reader.join().unwrap(), sent);
        drop(sender);
        let (_, records) = controller.stop();
        let acks: Vec<_> = records.iter().filter(|record| record.kind == RecordKind::Ack).collect();
        // Without the first burst, for which there was no rate yet.
        let (first, last) = (acks[acks.len() / 4], acks[acks.len() - 1]);
        let rate = (last.bytes_acked - first.bytes_acked) as f64 * 1e9
            / (last.time_ns - first.time_ns) as f64;
        assert!((1_000_000.0..1_350_000.0).contains(&rate), "{rate:.0} bytes a second");
    });
}

#[test]
fn names_and_sizes_that_cannot_be_are_refused() {
    for name in ["", "a/b", "..", "sixteen_letters_"] {
        let options = InstallOptions { name: name.to_owned(), ..InstallOptions::default() };
        assert!(matches!(install(&options), Err(InstallError::Name(_))), "{name}");
    }
    for ring_bytes in [0, 4096, 100_000, 1 << 27] {
        let options = InstallOptions { ring_bytes, ..InstallOptions::default() };
        assert!(matches!(install(&options), Err(InstallError::Ring(_))), "{ring_bytes}");
    }
}

fn wait_for(child: &mut Child, word: &str) {
    let mut output = Vec::new();
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while !String::from_utf8_lossy(&output).contains(word) {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&output));
        output.push(byte[0]);
    }
}

/// Not a test: what this program does when a test starts it once more.
#[test]
fn roles() {
    let (Ok(role), Ok(name)) = (std::env::var(ROLE), std::env::var(NAME)) else { return };
    match role.as_str() {
        "control" => {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            let mut kernel = Kernel::open_named(&name).unwrap();
            kernel.control(line.trim().parse().unwrap(), hold(50_000_000)).unwrap();
            println!("controls");
            loop {
                kernel.beat().unwrap();
                kernel.drain(usize::MAX, drop);
                thread::sleep(Duration::from_millis(20));
            }
        }
        "try" => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            match select_named(&socket, &name) {
                Ok(_) => println!("may select"),
                Err(error) => println!("select: {error}"),
            }
            match Kernel::open_named(&name) {
                Ok(kernel) => {
                    let cookie = kernel.select(&socket).unwrap();
                    kernel.control(cookie, hold(100_000)).unwrap();
                    kernel.beat().unwrap();
                    println!("may control");
                }
                Err(error) => println!("{error}"),
            }
        }
        other => panic!("no role {other}"),
    }
}
