//! Connections put under the kernel driver from outside, in the running kernel. Needs root, a kernel
//! that permits it and cgroups of version 2; says so where it is not tested. Each test has a driver,
//! a cgroup and a network of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cellpace_kernel::attach::{
    Announced, ArmDraw, AttachArm, AttachError, AttachOptions, Attachment, Missed,
};
use cellpace_kernel::install::{self, InstallError, install};
use cellpace_kernel::{Kernel, KernelError, KernelRecord, RecordKind, cgroup, pins, remove};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};

const ROLE: &str = "CELLPACE_TEST_ROLE";
const NAME: &str = "CELLPACE_TEST_NAME";
const CGROUP: &str = "CELLPACE_TEST_CGROUP";

/// Ports of the roles: named by the tests, in a range, and not named.
const NAMED: u16 = 9001;
const RANGE: (u16, u16) = (9100, 9110);
const OTHER: u16 = 9002;
const OPENED: u16 = 9003;

/// An installed driver and a cgroup, both removed at the end, whatever happens.
struct Place {
    name: String,
    cgroup: PathBuf,
}

impl Place {
    /// `None`, and a line that says why, where it cannot be.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cp_a{:x}_{number}", std::process::id());
        let root = match cgroup::root() {
            Ok(root) => root,
            Err(error) => return skipped(&error),
        };
        let cgroup = root.join(&name);
        if let Err(error) = fs::create_dir(&cgroup) {
            return skipped(&format!("{}: {error}", cgroup.display()));
        }
        let place = Self { name: name.clone(), cgroup };
        match install(&install::InstallOptions { name, ..install::InstallOptions::default() }) {
            Ok(_) => Some(place),
            Err(
                error @ (InstallError::NoBtf { .. }
                | InstallError::Kernel(_)
                | InstallError::TooOld(_)),
            ) => skipped(&error),
            Err(error) if nix::unistd::geteuid().is_root() => panic!("{error}"),
            Err(error) => skipped(&error),
        }
    }

    fn open(&self) -> Kernel {
        Kernel::open_named(&self.name).unwrap()
    }

    fn attach(&self, kernel: &Kernel) -> Attachment {
        let slot = Some((kernel.slot() as u32, kernel.owner()));
        self.attach_arms(&[AttachArm { name: &self.name, slot }], ArmDraw::Chosen)
    }

    fn attach_arms(&self, arms: &[AttachArm<'_>], draw: ArmDraw<'_>) -> Attachment {
        let (accepted, opened) = (&[(NAMED, NAMED), RANGE], &[(OPENED, OPENED)]);
        let options = AttachOptions { arms, draw, share: 1.0, accepted, opened };
        Attachment::new(&self.cgroup, &options).unwrap()
    }

    fn role(&self, role: &str) -> Role {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "attach::roles", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(NAME, &self.name).env(CGROUP, &self.cgroup);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Role { child, input, output: BufReader::new(output) }
    }
}

fn skipped(why: &dyn std::fmt::Display) -> Option<Place> {
    cellpace_testing::skip(why);
    None
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = remove(&self.name);
        // What was in it takes a moment to be gone.
        let end = Instant::now() + Duration::from_secs(20);
        while fs::remove_dir(&self.cgroup).is_err() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!pins(&self.name).exists() || thread::panicking());
    }
}

/// This test program once more, in one of its [`roles`].
struct Role {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Role {
    /// Asks for something; the words of the answer.
    fn ask(&mut self, question: &str) -> Vec<String> {
        writeln!(self.input, "{question}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Vec<String> {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the role ended");
            // The test program says things of its own.
            if let Some((_, answer)) = line.trim_end().split_once("answer ") {
                return answer.split(' ').map(str::to_owned).collect();
            }
        }
    }

    /// A new connection: congestion control of the end that accepted it and of the one that opened
    /// it, and the latter's port.
    fn connect(&mut self, how: &str) -> (String, String, u16) {
        let answer = self.ask(&format!("connect {how}"));
        (answer[0].clone(), answer[1].clone(), answer[2].parse().unwrap())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the cgroup: makes connections as it is told, to itself.
fn programs_role() {
    fs::write(Path::new(&std::env::var(CGROUP).unwrap()).join("cgroup.procs"), "0").unwrap();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    assert!(
        Command::new("ip").args("link set lo mtu 1500 up".split(' ')).status().unwrap().success()
    );
    let (mut open, mut listening) = (Vec::new(), None::<(String, TcpListener)>);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        match (words.next().unwrap(), words.next()) {
            ("connect", Some(address)) => {
                let bind = words.next().unwrap_or(address);
                // The one before is closed first: it may listen at an address that is part of this.
                if listening.as_ref().is_none_or(|(at, _)| at != bind) {
                    drop(listening.take());
                    listening = Some((bind.to_owned(), TcpListener::bind(bind).unwrap()));
                }
                let opened = TcpStream::connect(address).unwrap();
                let (accepted, _) = listening.as_ref().unwrap().1.accept().unwrap();
                let name = |socket: &TcpStream| {
                    getsockopt(socket, TcpCongestion).unwrap().into_string().unwrap()
                };
                let (mine, peers) = (name(&accepted), name(&opened));
                println!("\nanswer {mine} {peers} {}", opened.local_addr().unwrap().port());
                open.push((accepted, opened));
            }
            ("send", _) => {
                let (accepted, opened) = open.last_mut().unwrap();
                let mut read = vec![0; 100_000];
                thread::scope(|scope| {
                    scope.spawn(|| accepted.write_all(&vec![7; 100_000]).unwrap());
                    opened.read_exact(&mut read).unwrap();
                });
                println!("\nanswer {}", read.iter().all(|byte| *byte == 7));
            }
            _ => {
                open.clear();
                println!("\nanswer closed");
            }
        }
    }
}

/// What is announced within a moment.
fn announced(attachment: &mut Attachment) -> Vec<Announced> {
    let mut all = Vec::new();
    attachment.drain(|one| all.push(one));
    all
}

#[test]
fn what_is_accepted_at_the_ports_is_under_control_and_announced() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let mut attachment = place.attach(&kernel);
    let mut programs = place.role("programs");
    for how in ["127.0.0.1:9001", "[::1]:9001", "127.0.0.1:9001 [::]:9001", "127.0.0.1:9110"] {
        kernel.beat().unwrap();
        let (accepted, opened, port) = programs.connect(how);
        assert_eq!(accepted, place.name, "{how}");
        assert_ne!(opened, place.name, "{how}: the client's end is not asked for");
        let [connection] = announced(&mut attachment)[..] else {
            panic!("{how}: one announcement")
        };
        assert_eq!(connection.peer.port(), port);
        assert_eq!(connection.local.to_string(), how.split(' ').next().unwrap());
        assert_eq!(connection.peer.ip(), connection.local.ip());
        assert!(!connection.opened && connection.acked == 0);
        let ipv6 = how.starts_with('[');
        assert_eq!(
            (connection.mss, connection.overhead),
            if ipv6 { (1428, 72) } else { (1448, 52) }
        );
    }
    assert_eq!(attachment.missed().unwrap(), Missed::default());
}

#[test]
fn what_is_opened_to_a_port_is_under_control_where_it_is_asked_for() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let mut attachment = place.attach(&kernel);
    let (accepted, opened, port) = place.role("programs").connect("127.0.0.1:9003");
    assert_eq!(opened, place.name);
    assert_ne!(accepted, place.name);
    let [connection] = announced(&mut attachment)[..] else { panic!("one announcement") };
    assert_eq!((connection.local.port(), connection.peer.port()), (port, OPENED));
    assert!(connection.opened && connection.acked == 1, "its SYN is acknowledged: {connection:?}");
}

#[test]
fn other_ports_stay_plain() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let mut attachment = place.attach(&kernel);
    let mut programs = place.role("programs");
    for port in [OTHER, NAMED - 1, RANGE.0 - 1, RANGE.1 + 1] {
        let (accepted, opened, _) = programs.connect(&format!("127.0.0.1:{port}"));
        assert_ne!((&accepted, &opened), (&place.name, &place.name), "{port}");
        assert_ne!(accepted, place.name, "{port}");
    }
    assert_eq!(announced(&mut attachment), []);
}

#[test]
fn acknowledgments_of_what_was_announced_come_to_the_one_who_attached() {
    let Some(place) = Place::new() else { return };
    let mut kernel = place.open();
    let mut attachment = place.attach(&kernel);
    let mut programs = place.role("programs");
    programs.connect("127.0.0.1:9001");
    let [connection] = announced(&mut attachment)[..] else { panic!("one announcement") };
    kernel.beat().unwrap();
    assert_eq!(programs.ask("send"), ["true"]);
    assert_eq!(programs.ask("close"), ["closed"]);
    let mut records: Vec<KernelRecord> = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while !records.iter().any(|record| record.kind == RecordKind::Release) && Instant::now() < end {
        kernel.beat().unwrap();
        kernel.drain(usize::MAX, |record| records.push(record));
    }
    assert!(records.iter().all(|record| record.cookie == connection.cookie));
    let acks: Vec<&KernelRecord> =
        records.iter().filter(|record| record.kind == RecordKind::Ack).collect();
    assert!(!acks.is_empty() && acks.iter().all(|ack| ack.cwnd == 10 && !ack.fallback));
    assert!(records.iter().any(|record| record.kind == RecordKind::Release), "the socket closed");
    assert!(acks.last().unwrap().bytes_acked >= 100_000);
}

#[test]
fn whoever_has_a_socket_first_keeps_it() {
    let Some(place) = Place::new() else { return };
    let (first, second) = (place.open(), place.open());
    let mut attachments = [place.attach(&first), place.attach(&second)];
    assert_eq!(place.role("programs").connect("127.0.0.1:9001").0, place.name);
    let counts = attachments.each_mut().map(|attachment| announced(attachment).len());
    assert_eq!(counts.iter().sum::<usize>(), 1, "{counts:?}");
    assert!(attachments.iter().all(|attachment| attachment.missed().unwrap() == Missed::default()));
}

#[test]
fn what_is_detached_leaves_new_connections_plain() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let attachment = place.attach(&kernel);
    let mut programs = place.role("programs");
    assert_eq!(programs.connect("127.0.0.1:9001").0, place.name);
    drop(attachment);
    assert_ne!(programs.connect("127.0.0.1:9001").0, place.name);
}

/// Attaches, says so, and waits to be killed.
fn daemon_role() {
    let name = std::env::var(NAME).unwrap();
    let place =
        std::mem::ManuallyDrop::new(Place { cgroup: std::env::var(CGROUP).unwrap().into(), name });
    let kernel = place.open();
    let _attachment = place.attach(&kernel);
    println!("\nanswer attached");
    loop {
        kernel.beat().unwrap();
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_daemon_is_detached() {
    let Some(place) = Place::new() else { return };
    let mut daemon = place.role("daemon");
    assert_eq!(daemon.answer(), ["attached"]);
    let mut programs = place.role("programs");
    assert_eq!(programs.connect("127.0.0.1:9001").0, place.name);
    // SIGKILL
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert_eq!(programs.ask("send"), ["true"], "the connection goes on by itself");
    // The kernel frees what a process held a moment after its end.
    let end = Instant::now() + Duration::from_secs(20);
    while programs.connect("127.0.0.1:9001").0 == place.name {
        assert!(Instant::now() < end, "still attached");
    }
}

#[test]
fn after_the_drivers_removal_new_connections_are_plain_and_counted() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let mut attachment = place.attach(&kernel);
    remove(&place.name).unwrap();
    let mut programs = place.role("programs");
    assert_ne!(programs.connect("127.0.0.1:9001").0, place.name);
    assert_eq!(programs.ask("send"), ["true"]);
    assert_eq!(announced(&mut attachment), []);
    assert_eq!(attachment.missed().unwrap(), Missed { refused: 1, ..Missed::default() });
}

#[test]
fn connections_that_nobody_reads_of_stay_plain_and_are_counted() {
    let Some(place) = Place::new() else { return };
    let kernel = place.open();
    let mut attachment = place.attach(&kernel);
    let mut programs = place.role("programs");
    // As many as there is room for, with the head of each.
    let room = (1 << 20) / (64 + 8);
    for _ in 0..room / 200 {
        for _ in 0..200 {
            programs.connect("127.0.0.1:9001");
        }
        programs.ask("close");
    }
    let mut count = room / 200 * 200;
    while programs.connect("127.0.0.1:9001").0 == place.name {
        count += 1;
        assert!(count <= room);
    }
    assert_eq!(attachment.missed().unwrap().unannounced, 1);
    assert_eq!(announced(&mut attachment).len(), count);
    assert_eq!(programs.connect("127.0.0.1:9001").0, place.name, "there is room again");
}

#[test]
fn arms_are_drawn_for_clients_and_for_connections() {
    let Some(place) = Place::new() else { return };
    let arms = ["", "reno"].map(|name| AttachArm { name, slot: None });
    let (ipv4, ipv6) = (format!("127.0.0.1:{NAMED}"), format!("[::1]:{NAMED}"));
    let mut programs = place.role("programs");
    let default = programs.connect(&format!("127.0.0.1:{OTHER}")).0;
    let mut got = |attachment: &mut Attachment, at: &str| {
        let (accepted, _, _) = programs.connect(at);
        let [told] = announced(attachment)[..] else { panic!("one is announced") };
        (accepted, told.arm, told.is_drawn)
    };
    let (first, reno) = ((default.clone(), 0, false), ("reno".to_owned(), 1, true));

    let mut clients = place.attach_arms(&arms, ArmDraw::Client);
    assert_eq!(got(&mut clients, &ipv4), first, "nobody has drawn for it");
    clients.put_client("127.0.0.77".parse().unwrap(), Some(1)).unwrap();
    assert_eq!(got(&mut clients, &ipv4), reno, "its network has an arm");
    assert_eq!(got(&mut clients, &ipv6), first, "another network");
    clients.put_client("::9".parse().unwrap(), Some(1)).unwrap();
    assert_eq!(got(&mut clients, &ipv6), reno);
    clients.put_client("127.0.0.1".parse().unwrap(), None).unwrap();
    assert_eq!(got(&mut clients, &ipv4), first, "not in the experiment");
    clients.choose(0).unwrap();
    assert_eq!(got(&mut clients, &ipv6), (default.clone(), 0, true), "all have the first");
    drop(clients);

    for (parts, found) in
        [([0.0, 1.0], &reno), ([0.0, 0.0], &first), ([1.0, 0.0], &(default, 0, true))]
    {
        let mut connections = place.attach_arms(&arms, ArmDraw::Connection(&parts));
        assert_eq!(got(&mut connections, &ipv4), *found, "{parts:?}");
    }
}

#[test]
fn without_a_driver_or_a_cgroup_nothing_is_attached() {
    let arms = &[AttachArm { name: "cp_nobody", slot: Some((0, 1)) }];
    let draw = ArmDraw::Chosen;
    let options = AttachOptions { arms, draw, share: 1.0, accepted: &[(1, 1)], opened: &[] };
    let error = Attachment::new(Path::new("/proc"), &options).unwrap_err();
    assert!(matches!(error, AttachError::Cgroup(_)), "{error}");
    let Ok(root) = cgroup::root() else {
        cellpace_testing::skip("no cgroups of version 2");
        return;
    };
    let error = Attachment::new(&root, &options).unwrap_err();
    assert!(matches!(error, AttachError::Driver(KernelError::NotInstalled)), "{error}");
}

/// Not a test: what this program does when a test starts it once more.
#[test]
fn roles() {
    match std::env::var(ROLE).as_deref() {
        Ok("programs") => programs_role(),
        Ok("daemon") => daemon_role(),
        _ => {}
    }
}
