//! As many connections as can be had, which come and go for a long time: memory, descriptors and threads
//! stay what they were after the beginning, and nothing is lost.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::ground::{CELLPACE, Ground, NEAR, Process, Side};
use super::program::guinea::PYTHON;
use super::scene::{PEER, Tally};
use super::{possible, setting};

/// Connections that are asked for.
const CONNECTIONS: u64 = 10_000;

/// Connections of one process of clients, each of which takes a thread.
const CLIENTS_EACH: u64 = 1250;

/// The part of the time that is the beginning.
const BEGINNING: f64 = 0.3;

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    rss_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        Self { rss_kib: figure("VmRSS:"), descriptors, threads: figure("Threads:") }
    }

    /// The larger of each.
    fn max(self, other: Self) -> Self {
        Self {
            rss_kib: self.rss_kib.max(other.rss_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

/// A process of the command may hold so many connections, with this many descriptors each.
fn connections(each: u64) -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let hard: u64 = line.split_whitespace().nth(4).unwrap().parse().unwrap_or(u64::MAX);
    (hard.saturating_sub(200) / each).min(setting("CELLPACE_SOAK_CONNECTIONS", CONNECTIONS))
}

fn soak(ground: &Ground, name: &str, command: &[&str], ready: &str, port: &str, each: u64) {
    let seconds = setting("CELLPACE_TORTURE_SECONDS", 3600);
    // Ports of one address would not do for those that wait for their end.
    ground.ip(Side::Far, "addr add 10.77.0.4/24 dev far");
    let many = "ulimit -n $(ulimit -Hn)";
    let mut server = (name != "run").then(|| {
        let arguments = [PYTHON, PEER, "serve", "9000"];
        let mut server = ground.start("server", Side::Near, many, &arguments);
        server.says("serving");
        server
    });
    let mut process = ground.start("command", Side::Near, many, command);
    process.says(ready);
    let total = connections(each);
    let mut clients: Vec<Process> = Vec::new();
    for index in 0..total.div_ceil(CLIENTS_EACH) {
        let count = CLIENTS_EACH.min(total - index * CLIENTS_EACH).to_string();
        let seed = index.to_string();
        let arguments = [PYTHON, PEER, "fetch", NEAR, port, &seed, &count, "20000", "steady"];
        let mut client = ground.start("client", Side::Far, many, &arguments);
        client.says("fetching");
        clients.push(client);
    }
    let began = Instant::now();
    let whole = Duration::from_secs(seconds);
    let (mut early, mut late): (Option<Held>, Option<Held>) = (None, None);
    let mut printed = Instant::now() - whole;
    while began.elapsed() < whole {
        assert_eq!(process.ended(), None, "{}", process.stderr());
        let held = Held::by(process.pid());
        let part = if began.elapsed() < whole.mul_f64(BEGINNING) { &mut early } else { &mut late };
        *part = Some(part.map_or(held, |before| before.max(held)));
        if printed.elapsed() > Duration::from_secs(60).min(whole / 10) {
            println!("{name}, {:.0} s: {held:?}", began.elapsed().as_secs_f64());
            printed = Instant::now();
        }
        sleep(Duration::from_secs(1));
    }
    clients.iter_mut().for_each(Process::close_input);
    clients.iter_mut().for_each(|client| {
        client.end();
    });
    let tally = Tally::of(&clients[0].stdout());
    process.signal_all("TERM");
    process.end();
    if let Some(server) = &mut server {
        server.signal("TERM");
        server.end();
    }
    let (early, late) = (early.expect("it has begun"), late.expect("it has gone on"));
    println!(
        "{name}: {total} connections for {seconds} s, {tally:?}\n  at first {early:?}\n  later    {late:?}"
    );
    assert!(
        tally.whole > 0 && tally == Tally { whole: tally.whole, ..Tally::default() },
        "{tally:?}"
    );
    assert!(late.rss_kib <= early.rss_kib + early.rss_kib / 10, "memory grows");
    assert!(
        late.descriptors <= early.descriptors + early.descriptors / 20 + 16,
        "descriptors grow"
    );
    assert!(late.threads <= early.threads + 2, "threads grow");
    let left = ground.left();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "an hour: ./dev torture --soak"]
fn thousands_of_connections_come_and_go_through_run() {
    if !possible() {
        return;
    }
    let command =
        [CELLPACE, "run", "--driver", "gate", "--cc", "copa", "--", PYTHON, PEER, "serve", "9000"];
    soak(&Ground::new(), "run", &command, "serving", "9000", 2);
}

#[test]
#[ignore = "an hour: ./dev torture --soak"]
fn thousands_of_connections_come_and_go_through_proxy() {
    if !possible() {
        return;
    }
    let command = [
        CELLPACE,
        "proxy",
        "--listen",
        "0.0.0.0:9001",
        "--to",
        "127.0.0.1:9000",
        "--driver",
        "gate",
        "--cc",
        "copa",
        "--max-connections",
        "10000",
        "--max-per-client",
        "none",
        "--drain",
        "5s",
    ];
    // Four descriptors each, and an eighth of the places stays free: beyond that, connections in which
    // nothing moves for ten seconds are closed.
    soak(&Ground::new(), "proxy", &command, "waiting at", "9001", 5);
}

#[test]
#[ignore = "an hour: ./dev torture --soak"]
fn thousands_of_connections_come_and_go_under_a_controller_of_the_kernel() {
    if !possible() {
        return;
    }
    let ground = Ground::new();
    let installed = ground.kernel("install --cc pace --default --everyone").output().unwrap();
    if !installed.status.success() {
        cellpace_testing::skip(String::from_utf8_lossy(&installed.stderr).trim());
        return;
    }
    let driver = ground.driver();
    let words =
        ["kernel", "watch", "--cc", "pace", "--every", "10s", "--json", "/dev/null", "--name"];
    let command = [&[CELLPACE][..], &words, &[driver.as_str()]].concat();
    soak(&ground, "kernel", &command, "", "9000", 1);
    assert!(ground.kernel("remove --cc pace --now").status().unwrap().success());
    assert!(ground.pins().is_empty() && !ground.is_registered());
}
