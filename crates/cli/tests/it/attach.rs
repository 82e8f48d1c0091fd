//! `cellpace attach`: a static program, which no library can be preloaded into, under a controller.
//! Needs root, a kernel that permits BPF, cgroups of version 2, links, a C compiler that links
//! statically, and a program built with the feature `kernel`; says so otherwise.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::program;
use crate::program::dashboard::{Dashboard, Events};
use crate::program::guinea::connect;
use crate::program::{Folder, measured::measured};
use cellpace_experiment::{Assigner, ConnectionRecord, Experiment, ExperimentRecords};
use cellpace_kernel::remove;
use serde_json::Value;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/guinea/server.c");
const NOBODY: u32 = 65_534;
/// The port that is named, and one that is not.
const NAMED: u16 = 9000;
const PLAIN: u16 = 9001;

/// A driver, a cgroup and a static server, for one test; gone at the end, whatever happens.
struct Place {
    folder: Folder,
    name: String,
    cgroup: PathBuf,
    hash: String,
    /// What the server shall do beside, as variables.
    server: &'static str,
}

impl Place {
    /// `None`, and a line that says why, where it cannot be. The server sends so many bytes.
    fn new(bytes: usize) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Folder::new();
        let name = format!("ce{:x}_{number}", std::process::id());
        let status: Value =
            serde_json::from_str(&folder.run("kernel status --json -").stdout).unwrap();
        if status["can_install"] == false {
            let (why, built) = (&status["obstacles"], &status["built_with_program"]);
            return skipped(&format!("{why} (feature kernel: {built})"));
        }
        let Some(root) = cgroup_root() else { return skipped("no cgroups of version 2") };
        let link = folder.run("link --quiet --rtt 0ms -- true");
        if link.code != Some(0) {
            return skipped(&link.stderr);
        }
        let mut compiler = Command::new("cc");
        compiler.args(["-static", "-O1", "-o"]).arg(folder.path("server")).arg(SERVER);
        if !compiler.output().is_ok_and(|output| output.status.success()) {
            return skipped("cc -static does not work");
        }
        folder.write("file", content(bytes));
        let hash = sha256(&folder.path("file"));
        let cgroup = root.join(&name);
        fs::create_dir(&cgroup).unwrap();
        let place = Self { folder, name, cgroup, hash, server: "" };
        let outcome = place.folder.run(&format!("kernel install --name {}", place.name));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        Some(place)
    }

    /// The server in its cgroup, `cellpace attach`, and a link with `client` behind it, in a network
    /// of their own. What the daemon said on standard error.
    fn over_link(&self, attach: &str, link: &str, client: &str) -> String {
        self.over_link_by("", attach, link, client)
    }

    /// The same with the daemon started by the command `by`.
    fn over_link_by(&self, by: &str, attach: &str, link: &str, client: &str) -> String {
        let Self { name, cgroup, server, .. } = self;
        let script = format!(
            "ip link set lo up
            (echo 0 >'{cgroup}/cgroup.procs'; exec env {server} ./server file {NAMED} {PLAIN} >listens) & server=$!
            {by} '{program}' attach --name {name} --in {NAMED} -v --json flows {attach} \
                2>said.txt & daemon=$!
            echo $daemon >daemon
            for i in $(seq 200); do
                [ -s listens ] && grep -q attached said.txt && break; sleep 0.05
            done
            '{program}' link --quiet {link} --json out.json -- bash -c '{client}'
            sleep 0.5
            grep -l cellpace-find /proc/$daemon/task/*/comm | sed s/comm/schedstat/ | xargs cat >find.txt
            kill -TERM $daemon; wait $daemon; code=$?
            kill $server
            echo $code >code",
            cgroup = cgroup.display(),
            program = env!("CARGO_BIN_EXE_cellpace"),
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &script]).current_dir(self.folder.path("."));
        let out = command.env("CGROUP", cgroup).output().unwrap();
        let said = String::from_utf8(self.folder.read("said.txt")).unwrap();
        let link = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("attached"), "{said}{link}");
        assert!(self.folder.path("out.json").exists(), "{said}{link}");
        said
    }

    /// The records of an experiment with thirty short downloads, and what the daemon said.
    fn record(&self, experiment: &str) -> (Vec<ConnectionRecord>, String) {
        self.folder.write("e.toml", experiment);
        let options = "--driver kernel --experiment e.toml --experiment-log e.jsonl";
        let attach = format!("--cgroup '{}' {options}", self.cgroup.display());
        let said = self.over_link(&attach, "--trace constant:100mbit --rtt 5ms", MANY);
        assert_eq!(self.text("code").trim(), "0", "{said}");
        (ExperimentRecords::read(&self.text("e.jsonl")).unwrap().connections, said)
    }

    /// A download at one of the ports: Mbit/s, 50th and 95th percentile of the queue's delay in ms.
    fn download(&self, attach: &str, port: u16) -> (f64, f64, f64) {
        let attach = format!("--cgroup '{}' {attach}", self.cgroup.display());
        let client = format!("cat </dev/tcp/$CELLPACE_HOST/{port} | sha256sum >hash.txt");
        self.over_link(&attach, "--trace constant:12mbit --rtt 40ms --skip 1s", &client);
        assert_eq!(self.text("code").trim(), "0");
        assert_eq!(self.received(), self.hash);
        let json: Value = serde_json::from_slice(&self.folder.read("out.json")).unwrap();
        let figure = |name: &str| program::number(&json["runs"][0], name);
        let seen = (
            figure("/throughput_mbps"),
            figure("/queue_delay_ms/p50"),
            figure("/queue_delay_ms/p95"),
        );
        println!(
            "{attach} port {port}: {:.2} Mbit/s, queue {:.1} ms, p95 {:.1} ms",
            seen.0, seen.1, seen.2
        );
        seen
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.folder.read(name)).unwrap()
    }

    fn received(&self) -> String {
        self.text("hash.txt").split(' ').next().unwrap().to_owned()
    }

    /// What was told of connections.
    fn flows(&self) -> Vec<Value> {
        self.text("flows").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn status(&self) -> Value {
        let said = self.folder.run(&format!("kernel status --json - --name {}", self.name)).stdout;
        serde_json::from_str(&said).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = remove(&self.name);
        // What was in it takes a moment to be gone.
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.cgroup).is_err() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn skipped(why: &str) -> Option<Place> {
    cellpace_testing::skip(why);
    None
}

fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields[2] == "cgroup2").map(|fields| fields[1].into())
}

/// Bytes that do not repeat soon.
fn content(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        // Knuth's constants for a linear congruential generator of 64 bits.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn sha256(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_static_window_keeps_the_queue_of_a_static_program_short() {
    measured(|| {
        let Some(place) = Place::new(20_000_000) else { return };
        let (mbps, _, p95) = place.download("--cc fixed:cwnd=41pkts", NAMED);
        assert!(mbps > 10.5, "{mbps} Mbit/s");
        assert!(p95 < 10.0, "{p95} ms");
        let [flow] = &place.flows()[..] else { panic!("one connection: {:?}", place.flows()) };
        assert_eq!(
            (&flow["schema"], &flow["direction"]),
            (&"cellpace.attach/1".into(), &"in".into())
        );
        assert_eq!(flow["outcome"], "finished", "{flow}");
        assert!(flow["local"].as_str().unwrap().ends_with(":9000"), "{flow}");
        assert!(flow["acked_bytes"].as_u64().unwrap() >= 20_000_000, "{flow}");
        assert!((40.0..55.0).contains(&flow["rtt_ms"].as_f64().unwrap()), "{flow}");
        assert_eq!(flow["kicks"], 0, "acks make room in a window: {flow}");
        assert!(place.text("said.txt").contains("flow 1: "));
    });
}

/// The controller that the kernel has by itself is left to itself, and nobody kicks.
#[test]
fn a_static_program_is_left_to_the_controller_in_the_kernel() {
    let Some(mut place) = Place::new(3_000_000) else { return };
    let driver = place.name.clone();
    place.name = format!("{driver}_pace");
    let native = format!("--cc pace --name {}", place.name);
    place.folder.good(&format!("kernel install {native}"));
    place.name = driver;
    let client = format!("cat </dev/tcp/$CELLPACE_HOST/{NAMED} | sha256sum >hash.txt");
    let attach = format!("--cgroup '{}'", place.cgroup.display());
    let said = place.over_link(&attach, "--trace constant:12mbit --rtt 40ms", &client);
    place.folder.good(&format!("kernel remove {native} --now"));
    assert_eq!(place.received(), place.hash, "{said}");
    let [flow] = &place.flows()[..] else { panic!("one connection: {:?}", place.flows()) };
    assert_eq!(flow["driver"], "native");
    assert_eq!(flow["tcp_cc"], format!("{}_pace", place.name));
    assert_eq!((&flow["acked_bytes"], &flow["outcome"]), (&3_000_000.into(), &"finished".into()));
}

/// Thirty short downloads.
const MANY: &str =
    "for i in $(seq 30); do cat </dev/tcp/$CELLPACE_HOST/9000 >/dev/null; sleep 0.15; done";

fn experiment(fields: &str) -> String {
    format!(
        "[experiment]\nname = \"e\"\nsecret = \"0123456789abcdef\"\n{fields}\n\
         [[arm]]\nname = \"reno\"\ntcp = \"reno\"\n[[arm]]\nname = \"copa\"\ncc = \"copa\"\n"
    )
}

/// An experiment of slots of a second, of which four in a row have both arms.
fn slots_with_both_arms() -> (String, Assigner) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (0..1000)
        .find_map(|seed| {
            let text = experiment(&format!("slot = \"1s\"\nseed = {seed}"));
            let assigner = Assigner::new(Experiment::read(&text, |_| Ok(())).unwrap());
            let arm = |slot| {
                let at = now + Duration::from_secs(slot);
                assigner.assign(at, [127, 0, 0, 1].into(), &[]).arm
            };
            let arms: Vec<_> = (0..60).map(arm).collect();
            let both = arms.windows(4).all(|four| four.iter().any(|arm| *arm != four[0]));
            both.then_some((text, assigner))
        })
        .unwrap()
}

#[test]
fn connections_of_a_static_program_are_recorded_by_the_arms_of_their_slots() {
    let Some(place) = Place::new(10_000) else { return };
    let (text, assigner) = slots_with_both_arms();
    let (records, said) = place.record(&text);
    for (arm, driver) in [(0, "plain"), (1, "kernel")] {
        let name = &assigner.experiment().arms[arm].name;
        let of_arm: Vec<_> = records.iter().filter(|record| record.arm == *name).collect();
        assert!(!of_arm.is_empty(), "{name} of {}: {said}", records.len());
        for record in of_arm {
            let start = Duration::from_secs_f64(record.start_s);
            let drawn = assigner.assign(start, [127, 0, 0, 1].into(), &[]);
            assert_eq!((drawn.arm, drawn.slot), (Some(arm), record.slot), "{record:?}");
            assert_eq!(
                (record.driver.as_str(), record.acked_bytes),
                (driver, 10_000),
                "{record:?}"
            );
            assert_eq!(record.outcome, "finished", "{record:?}");
        }
    }
    let under: usize = records.iter().filter(|record| record.arm == "copa").count();
    assert!(place.flows().len() >= under, "what is under the controller is told of");
}

#[test]
fn a_share_of_connections_is_attached_and_the_others_stay_plain() {
    let Some(place) = Place::new(10_000) else { return };
    let attach = format!("--cgroup '{}' --driver kernel --share-of 50%", place.cgroup.display());
    let said = place.over_link(&attach, "--trace constant:100mbit --rtt 5ms", MANY);
    let count = place.flows().len();
    // Thirty coins show fewer heads than three, or more than 27, once in a million times.
    assert!((3..=27).contains(&count), "{count}: {said}");
}

#[test]
fn the_kernel_draws_an_arm_for_each_connection() {
    let Some(place) = Place::new(10_000) else { return };
    let (records, said) = place.record(&experiment("assign = \"connection\"\nshare = \"80%\""));
    for (arm, driver) in [("reno", "plain"), ("copa", "kernel")] {
        let of_arm: Vec<_> = records.iter().filter(|record| record.arm == arm).collect();
        // Of thirty there are so few or many once in ten thousand times.
        assert!(
            (3..=22).contains(&of_arm.len()),
            "{arm}: {} of {}: {said}",
            of_arm.len(),
            records.len()
        );
        assert!(of_arm.iter().all(|record| record.driver == driver), "{of_arm:?}");
    }
}

#[test]
fn all_connections_of_a_client_but_the_first_have_its_arm() {
    let Some(place) = Place::new(10_000) else { return };
    let (records, said) = place.record(&experiment("assign = \"client\""));
    // A machine that is busy may draw late.
    assert!((20..=29).contains(&records.len()), "{}: {said}", records.len());
    let first = &records[0];
    assert!(
        records.iter().all(|it| (&it.arm, &it.client) == (&first.arm, &first.client)),
        "{records:?}"
    );
}

#[test]
fn g8_samples_of_a_static_program_make_a_table() {
    measured(|| {
        let Some(place) = Place::new(6_000_000) else { return };
        place.download("--cc fixed:cwnd=41pkts --mdi-samples samples.csv --mdi-users 1", NAMED);
        let read = cellpace_mdi::read_samples(&place.folder.read("samples.csv")).unwrap();
        assert_eq!(read[0].users, 1);
        let samples = || read[0].chains.iter().flatten();
        let rows = samples().count();
        // 4 s of a link of 12 Mbit/s at least, less what lies before the first ack.
        assert!(rows >= 700, "{rows} epochs");
        let packets: u64 = samples().map(|sample| u64::from(sample.sent)).sum();
        // Segments of 1448 bytes, of which the first ten leave before the first ack.
        assert!((4000..=4300).contains(&packets), "{packets} packets");
        let table = place.folder.good("mdi convert samples.csv --teacher fixed -o fixed.mdi");
        assert!(table.contains("users 1: "), "{table}");
    });
}

/// A second of nothing in each five.
const OUTAGES: &str = "--trace onoff:12mbit,on=4s,off=1s --rtt 40ms";

/// A download with a budget over a link with outages: the connection as it was told of, and what was
/// said.
fn download_over_outages(place: &Place, by: &str) -> (Value, String) {
    let client = format!("cat </dev/tcp/$CELLPACE_HOST/{NAMED} | sha256sum >hash.txt");
    let attach = format!("--cgroup '{}' --cc verus:r=2", place.cgroup.display());
    let said = place.over_link_by(by, &attach, OUTAGES, &client);
    assert_eq!(place.received(), place.hash);
    let json: Value = serde_json::from_slice(&place.folder.read("out.json")).unwrap();
    let [flow] = &place.flows()[..] else { panic!("one connection: {:?}", place.flows()) };
    println!(
        "{:.2} Mbit/s, kicked {} times in {:.1} s",
        program::number(&json["runs"][0], "/throughput_mbps"),
        flow["kicks"],
        flow["duration_s"].as_f64().unwrap(),
    );
    assert_eq!(flow["outcome"], "finished", "{flow}");
    (flow.clone(), said)
}

#[test]
fn a_budget_is_pushed_out_by_the_descriptor_of_a_child() {
    measured(|| {
        let Some(place) = Place::new(10_000_000) else { return };
        let (flow, said) = download_over_outages(&place, "");
        // Verus gives some budget every 5 ms.
        let kicks = flow["kicks"].as_u64().unwrap();
        assert!(kicks > 100, "{flow}");
        assert!(!said.contains("not kicked"), "{said}");
    });
}

#[test]
fn a_budget_goes_by_acks_where_descriptors_cannot_be_borrowed_and_that_is_said_once() {
    let Some(place) = Place::new(10_000_000) else { return };
    let (flow, said) = download_over_outages(&place, "setpriv --bounding-set -sys_ptrace");
    assert_eq!(flow["kicks"], 0, "{flow}");
    assert_eq!(said.matches("are not kicked").count(), 1, "{said}");
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
}

#[test]
fn a_connection_is_found_among_idle_ones() {
    measured(|| {
        let Some(mut place) = Place::new(10_000_000) else { return };
        place.server = "IDLE=2000";
        let (flow, said) = download_over_outages(&place, "");
        assert!(flow["kicks"].as_u64().unwrap() > 100, "{flow}{said}");
        // Nanoseconds on a core come first; kernels without CONFIG_SCHED_INFO do not tell.
        let figures = place.text("find.txt");
        println!("{}: searching took {} ns of a core", place.server, figures.trim());
    });
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_connection_that_moves_is_found_again() {
    measured(|| {
        let Some(mut place) = Place::new(20_000_000) else { return };
        // Two thirds of a second each, or with an outage 1.7 s, in which Verus gives 340 budgets at most.
        place.server = "MOVE=1000000";
        let (flow, said) = download_over_outages(&place, "");
        assert!(flow["kicks"].as_u64().unwrap() > 500, "{flow}{said}");
    });
}

#[test]
fn verus_steers_a_static_program_as_it_does_in_the_simulator() {
    measured(|| {
        let Some(place) = Place::new(20_000_000) else { return };
        let (mbps, median, p95) = place.download("--cc verus --events events", NAMED);
        let model = place.folder.first_run(
            "compare --trace constant:12mbit --rtt 40ms --cc verus --duration 14s --skip 1s",
        );
        let figure = |name: &str| program::number(&model, name);
        let (delay, tail) = (figure("/queue_delay_ms/p50"), figure("/queue_delay_ms/p95"));
        assert!(mbps > 0.9 * figure("/throughput_mbps"), "{mbps} Mbit/s");
        assert!((0.6 * delay..1.6 * delay).contains(&median), "{median} ms, simulated {delay} ms");
        assert!(p95 < 1.6 * tail, "{p95} ms, simulated {tail} ms");
        assert_eq!(place.flows()[0]["outcome"], "finished");
        let events = place.text("events");
        let count = |event: &str| events.matches(&format!("\"event\":\"{event}\"")).count();
        // It learns its profile in slow start, and anew each second.
        assert!(count("phase") >= 2 && count("profile_refit") >= 5, "{events}");
        assert!(count("metrics") >= 10, "each second: {events}");
    });
}

#[test]
fn ports_that_are_not_named_stay_plain() {
    measured(|| {
        let Some(place) = Place::new(12_000_000) else { return };
        let (mbps, _, p95) = place.download("--cc fixed:cwnd=41pkts", PLAIN);
        assert!(mbps > 10.5 && p95 > 150.0, "plain TCP: {mbps} Mbit/s, {p95} ms");
        assert_eq!(place.flows(), [] as [Value; 0]);
    });
}

#[test]
fn a_daemon_killed_in_the_middle_leaves_the_download_whole() {
    let Some(place) = Place::new(12_000_000) else { return };
    let attach = format!("--cgroup '{}' --cc fixed:cwnd=41pkts", place.cgroup.display());
    let client = format!(
        "(sleep 3; kill -9 $(cat daemon)) & \
        cat </dev/tcp/$CELLPACE_HOST/{NAMED} | sha256sum >hash.txt"
    );
    place.over_link(&attach, "--trace constant:12mbit --rtt 40ms", &client);
    assert_eq!(place.text("code").trim(), "137", "it was killed");
    assert_eq!(place.received(), place.hash);
    let status = place.status();
    assert!(status["installed"]["fallbacks"].as_u64().unwrap() >= 1, "{status}");
    let json: Value = serde_json::from_slice(&place.folder.read("out.json")).unwrap();
    println!("killed: {} Mbit/s", json["runs"][0]["throughput_mbps"]);
}

#[test]
fn connections_that_close_at_once_are_all_told_of() {
    let Some(place) = Place::new(1_000) else { return };
    let client = format!(
        "for i in $(seq 300); do cat </dev/tcp/$CELLPACE_HOST/{NAMED} >/dev/null & \
        [ $((i % 50)) = 0 ] && wait; done; wait"
    );
    let attach = format!("--cgroup '{}' --cc copa", place.cgroup.display());
    let said = place.over_link(&attach, "--rtt 0ms", &client);
    let flows = place.flows();
    assert_eq!(flows.len(), 300, "{said}");
    assert!(flows.iter().all(|flow| flow["outcome"] == "finished"), "{said}");
    let (status, none) = (place.status(), &Value::from(0));
    assert_eq!(&status["installed"]["records_dropped"], none);
}

/// A daemon that runs until it is told to end.
fn daemon(place: &Place, args: &str) -> Child {
    let mut command = place.folder.command(["attach", "--name", &place.name]);
    command.args(args.split(' ')).stderr(fs::File::create(place.folder.path("said.txt")).unwrap());
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !place.text("said.txt").contains("attached") {
        assert!(Instant::now() < end, "{}", place.text("said.txt"));
        thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn the_cgroup_is_that_of_a_process_or_all_and_the_end_is_clean() {
    let Some(place) = Place::new(1) else { return };
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(place.cgroup.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    let root = cgroup_root().unwrap();
    let of_process = format!("--in 65535 --pid {}", sleeper.id());
    let cases = [(of_process.as_str(), &place.cgroup), ("--out 65535", &root)];
    for ((args, cgroup), signal) in cases.into_iter().zip(["INT", "TERM"]) {
        let mut daemon = daemon(&place, args);
        let said = place.text("said.txt");
        assert!(said.contains(&format!("attached to {}:", cgroup.display())), "{said}");
        program::signal(&daemon, signal);
        let code = if signal == "INT" { 130 } else { 0 };
        assert_eq!(program::code(&mut daemon), Some(code));
        assert_eq!(place.text("said.txt").lines().count(), 1, "nothing was open");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

/// The static server in its cgroup, outside of any link; ends with its place.
struct Server(Child);

impl Server {
    fn start(place: &Place, port: u16) -> Self {
        let script = format!(
            "echo 0 >'{}/cgroup.procs' && exec ./server file {port} >listens",
            place.cgroup.display()
        );
        let mut command = Command::new("sh");
        let server = Self(
            command.args(["-c", &script]).current_dir(place.folder.path(".")).spawn().unwrap(),
        );
        let end = Instant::now() + Duration::from_secs(10);
        while fs::read(place.folder.path("listens")).is_ok_and(|said| said.is_empty())
            || !place.folder.path("listens").exists()
        {
            assert!(Instant::now() < end, "the server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_dashboard_shows_a_connection_of_a_static_program() {
    let Some(place) = Place::new(20_000_000) else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&place, free);
    let cgroup = place.cgroup.display();
    let args = format!("--cgroup {cgroup} --in {free} --cc verus --dashboard 0 --json flows");
    let mut daemon = daemon(&place, &args);
    let dashboard = Dashboard::of(&place.folder.path("said.txt"));
    let mut events = Events::of(&dashboard, "");
    assert_eq!(events.next().unwrap().1["subject"], "verus");
    let mut client = connect(([127, 0, 0, 1], free).into());
    client.read_exact(&mut vec![0; 100_000]).unwrap();
    let row = loop {
        let (name, data) = events.next().unwrap();
        let row = data["rows"].as_array().and_then(|rows| rows.first().cloned());
        if let Some(row) = row.filter(|_| name == "flows") {
            break row;
        }
    };
    let shown = row[1].as_str().unwrap();
    assert!(shown.starts_with(&format!("127.0.0.1:{free} <- 127.0.0.1:")), "{row}");
    assert!(row.as_array().unwrap().contains(&"kernel".into()), "its driver: {row}");
    dashboard.serves_everything("attach");
    assert!(dashboard.metrics()["cellpace_connections_open"] >= 1.0);
    let mut inside = Events::of(&dashboard, &format!("flow={}", row[0]));
    let window = loop {
        let (name, data) = inside.next().unwrap();
        if name == "flow" && data["values"]["cwnd_pkts"].is_number() {
            break data["values"]["cwnd_pkts"].as_f64().unwrap();
        }
    };
    assert!(window > 0.0);
    client.read_to_end(&mut Vec::new()).unwrap();
    let closed = loop {
        let (name, data) = events.next().unwrap();
        if name == "closed" {
            break data;
        }
    };
    assert!(closed["delivered_bytes"].as_u64().unwrap() >= 20_000_000, "{closed}");
    program::signal(&daemon, "TERM");
    assert_eq!(program::code(&mut daemon), Some(0));
    let (name, end) = std::iter::from_fn(|| events.next()).last().unwrap();
    assert_eq!((name.as_str(), &end["summary"]["total"]), ("end", &1.into()));
    let [flow] = &place.flows()[..] else { panic!("one connection: {:?}", place.flows()) };
    assert_eq!(flow["acked_bytes"], end["summary"]["delivered_bytes"]);
    drop(server);
}

#[test]
fn a_driver_that_is_removed_ends_the_daemon_with_the_reason() {
    let Some(place) = Place::new(1) else { return };
    let mut daemon = daemon(&place, "--in 65535");
    remove(&place.name).unwrap();
    assert_eq!(program::code(&mut daemon), Some(1));
    assert!(place.text("said.txt").contains("it was removed"), "{}", place.text("said.txt"));
}

#[test]
fn what_is_missing_is_said() {
    let Some(place) = Place::new(1) else { return };
    let folder = &place.folder;
    let attach = format!("attach --name {} --in 1", place.name);
    folder.run(&format!("{attach} --cgroup /proc")).complains(1, "no cgroup of version 2");
    folder.run(&format!("{attach} --pid 4194304")).complains(1, "no process 4194304");
    folder.run("attach --name cp_nobody --in 1").complains(1, "cellpace kernel install");
    let mut command = folder.command(attach.split(' '));
    let out = command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    let lacks = "lacks CAP_BPF and CAP_PERFMON and CAP_NET_ADMIN";
    program::Outcome::of(out).complains(1, lacks);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let folder = Folder::new();
    folder.refused("attach", "--in");
    folder.refused("attach --in 0", "1 to 65535");
    folder.refused("attach --in 80 --cc nothing", "--cc: ");
    folder.refused("attach --in 80 --cc sprout", "receiver half");
    folder.refused("attach --in 80 --pid 1 --cgroup /x", "--pid");
}

#[test]
fn without_the_program_for_the_kernel_it_says_how_to_build_it() {
    let folder = Folder::new();
    if folder.run("kernel status --json -").stdout.contains("\"built_with_program\": true") {
        cellpace_testing::skip("built with it");
        return;
    }
    folder.run("attach --in 80").complains(1, "--features kernel");
}
