//! The kernel driver over `cellpace link`, and the commands of `cellpace kernel`. Needs root, a
//! kernel that permits it, and a program built with the feature `kernel`; says so otherwise.

#![allow(unsafe_code, reason = "TCP_INFO has no safe wrapper")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::program;
use crate::program::guinea::{Guinea, PATIENCE, can_run};
use crate::program::{Folder, eventually, measured::measured};
use cellpace_kernel::{
    Kernel, KernelRecord, Policy, RecordKind, RecoveryState, SocketControl, kick, pins, remove,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ROLE: &str = "CELLPACE_TEST_ROLE";
const NAME: &str = "CELLPACE_TEST_NAME";
const MSS: u64 = 1448;
const NOBODY: u32 = 65_534;

/// An installed driver under a name of its own, removed at the end, whatever happens.
struct Driver {
    folder: Folder,
    name: String,
}

impl Driver {
    /// Not installed yet.
    fn named() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { folder: Folder::new(), name: format!("cp_c{:x}_{number}", std::process::id()) }
    }

    /// `None`, and a line that says why, where it cannot be.
    fn new() -> Option<Self> {
        let driver = Self::named();
        let status: Value = serde_json::from_str(&driver.kernel("status --json -").stdout).unwrap();
        if status["can_install"] == false {
            cellpace_testing::skip(format_args!(
                "{} (feature kernel: {})",
                status["obstacles"], status["built_with_program"]
            ));
            return None;
        }
        let outcome = driver.kernel("install");
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        Some(driver)
    }

    fn kernel(&self, command: &str) -> program::Outcome {
        self.folder.run(&format!("kernel {command} --name {}", self.name))
    }

    /// Runs a role of this test program as a server on the far side of a link, and inside a client
    /// that reads all it sends. What the role wrote, and the hash of what the client read.
    fn over_link(&self, role: &str, link: &str) -> (Value, String) {
        let script = format!(
            "ip link set lo up
            '{}' --exact kernel::roles --nocapture --test-threads=1 >role.txt 2>&1 & role=$!
            while [ ! -e listening ]; do sleep 0.05; done
            '{}' link --quiet {link} -- bash -c \
                'cat </dev/tcp/$CELLPACE_HOST/9000 | sha256sum >hash.txt' || kill $role
            wait $role",
            std::env::current_exe().unwrap().display(),
            env!("CARGO_BIN_EXE_cellpace"),
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &script]).current_dir(self.folder.path("."));
        let out = command.env(ROLE, role).env(NAME, &self.name).output().unwrap();
        let said = fs::read_to_string(self.folder.path("role.txt")).unwrap_or_default();
        assert!(out.status.success(), "{} {said}", String::from_utf8_lossy(&out.stderr));
        let found = serde_json::from_slice(&self.folder.read("found.json")).unwrap();
        let hash = String::from_utf8(self.folder.read("hash.txt")).unwrap();
        (found, hash.split(' ').next().unwrap().to_owned())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = remove(&self.name);
        assert!(!pins(&self.name).exists() || thread::panicking());
    }
}

/// The server's side of a connection under control: one thread writes as much as goes, this one
/// controls.
struct Server {
    socket: TcpStream,
    kernel: Kernel,
    cookie: u64,
    stop: AtomicBool,
}

impl Server {
    fn accept() -> Self {
        let kernel = Kernel::open_named(&std::env::var(NAME).unwrap()).unwrap();
        let listener = TcpListener::bind("0.0.0.0:9000").unwrap();
        fs::write("listening", "").unwrap();
        let (socket, _) = listener.accept().unwrap();
        let cookie = kernel.select(&socket).unwrap();
        Self { socket, kernel, cookie, stop: AtomicBool::new(false) }
    }

    fn hold(&self, window: u64) {
        let control = SocketControl { window, limit: None, pacing: None, policy: Policy::Hold };
        self.kernel.control(self.cookie, control).unwrap();
    }

    /// Writes while `work` runs, then what it found, and the hash of what was sent.
    fn serve(mut self, work: impl FnOnce(&mut Kernel, &TcpStream, &dyn Fn(&Kernel, u64)) -> Value) {
        let Self { socket, kernel, cookie, stop } = &mut self;
        let cookie = *cookie;
        let hold = |kernel: &Kernel, window| {
            let control = SocketControl { window, limit: None, pacing: None, policy: Policy::Hold };
            kernel.control(cookie, control).unwrap();
        };
        let (mut found, hash) = thread::scope(|scope| {
            let (socket, stop) = (&*socket, &*stop);
            let writer = scope.spawn(move || write(socket, stop));
            let found = work(kernel, socket, &hold);
            stop.store(true, Ordering::Relaxed);
            let end = Instant::now() + Duration::from_secs(20);
            while !writer.is_finished() && Instant::now() < end {
                let _ = kernel.beat();
                thread::sleep(Duration::from_millis(20));
            }
            (found, writer.join().unwrap())
        });
        found["hash"] = Value::String(hash);
        fs::write("found.json", found.to_string()).unwrap();
    }
}

fn write(mut socket: &TcpStream, stop: &AtomicBool) -> String {
    let mut hash = Sha256::new();
    let mut chunk = vec![0u8; 10 * MSS as usize];
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        chunk[..8].copy_from_slice(&number.to_le_bytes());
        hash.update(&chunk);
        socket.write_all(&chunk).unwrap();
    }
    socket.shutdown(Shutdown::Write).unwrap();
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes in flight, by TCP's own counts at one moment: two calls of ioctl(2) that differ in time
/// would add what an acknowledgment between them let out.
fn in_flight(socket: &TcpStream) -> u64 {
    const BYTES: usize = 104;
    let mut info = [0u8; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(result == 0 && length as usize == BYTES);
    // struct tcp_info of linux/tcp.h: tcpi_snd_mss, then tcpi_unacked, sacked, lost and retrans.
    let word = |at: usize| u64::from(u32::from_ne_bytes(info[at..at + 4].try_into().unwrap()));
    (word(24) - word(28) - word(32) + word(36)) * word(16)
}

/// Beats and reads records for a while, and looks at what is in flight each millisecond.
fn watch(
    kernel: &mut Kernel,
    socket: &TcpStream,
    time: Duration,
    mut each: impl FnMut(KernelRecord),
) -> Vec<u64> {
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    while Instant::now() < end {
        kernel.beat().unwrap();
        kernel.drain(usize::MAX, &mut each);
        samples.push(in_flight(socket));
        thread::sleep(Duration::from_millis(1));
    }
    samples.sort_unstable();
    samples
}

const WINDOWS: [u64; 4] = [30_000, 100_000, 500_000, 2_000_000];

fn windows_role() {
    let server = Server::accept();
    server.hold(WINDOWS[0]);
    server.serve(|kernel, socket, hold| {
        let mut held = Vec::new();
        for window in WINDOWS {
            hold(kernel, window);
            // The socket buffer follows its window, and round trips get longer.
            watch(kernel, socket, Duration::from_millis(1500), drop);
            let (mut acks, mut starved) = (0u32, 0u32);
            let samples = watch(kernel, socket, Duration::from_millis(1000), |record| {
                acks += 1;
                starved += u32::from(record.unsent == 0);
            });
            let at = |share: usize| samples[(samples.len() - 1) * share / 100];
            let mean = samples.iter().sum::<u64>() / samples.len() as u64;
            let below = samples.iter().filter(|sample| **sample * 100 < window * 95).count();
            held.push(json!({
                "least": at(0), "p5": at(5), "mean": mean, "most": at(100),
                "below": below as f64 / samples.len() as f64,
                "starved": f64::from(starved) / f64::from(acks.max(1)),
            }));
        }
        let mut steps = Vec::new();
        for _ in 0..5 {
            hold(kernel, 100_000);
            watch(kernel, socket, Duration::from_millis(600), drop);
            steps.push(step(kernel, socket, hold));
        }
        json!({ "held": held, "steps_ms": steps, "dropped": kernel.dropped() })
    });
}

/// Milliseconds from asking for 500 kB until 95 % of them are in flight.
fn step(kernel: &mut Kernel, socket: &TcpStream, hold: &dyn Fn(&Kernel, u64)) -> f64 {
    kernel.beat().unwrap();
    let asked = Instant::now();
    hold(kernel, 500_000);
    kick(socket).unwrap();
    while in_flight(socket) < 475_000 && asked.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_micros(100));
    }
    asked.elapsed().as_secs_f64() * 1e3
}

#[test]
fn windows_are_held_and_a_step_is_followed() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let (found, hash) =
            driver.over_link("windows", "--trace constant:120mbit --rtt 40ms --queue droptail:8MB");
        println!("{found}");
        assert_eq!(found["hash"], hash);
        assert_eq!(found["dropped"], 0);
        for (window, held) in WINDOWS.into_iter().zip(found["held"].as_array().unwrap()) {
            let (mean, most) = (held["mean"].as_u64().unwrap(), held["most"].as_u64().unwrap());
            assert!(most <= window + MSS, "{most} of {window}");
            // On an emulated processor: TCP had sent all it had been given.
            if held["starved"].as_f64().unwrap() > 0.1 {
                cellpace_testing::skip("too slow here to fill a window");
                return;
            }
            assert!(mean * 100 >= window * 95, "{mean} of {window}");
        }
        let steps: Vec<f64> =
            found["steps_ms"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        // Most of them: others may have had the processor.
        let followed = steps.iter().filter(|step| **step < 5.0).count();
        assert!(followed >= 3, "{steps:?} ms");
    });
}

fn loss_role() {
    let server = Server::accept();
    server.hold(66_000);
    server.serve(|kernel, socket, _| {
        watch(kernel, socket, Duration::from_secs(1), drop);
        let mut records: Vec<KernelRecord> = Vec::new();
        watch(kernel, socket, Duration::from_secs(6), |record| records.push(record));
        let (first, last) = (records[0], records[records.len() - 1]);
        let nanoseconds = (last.time_ns - first.time_ns) as f64;
        let mbps = (last.bytes_acked - first.bytes_acked) as f64 * 8e3 / nanoseconds;
        let held = records.iter().all(|record| u64::from(record.cwnd) == 66_000 / MSS);
        // Nobody beats: TCP goes by itself, and backs off.
        thread::sleep(Duration::from_millis(1300));
        kernel.drain(usize::MAX, drop);
        let mut alone: Vec<KernelRecord> = Vec::new();
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            kernel.drain(usize::MAX, |record| alone.push(record));
            thread::sleep(Duration::from_millis(1));
        }
        let acks: Vec<u32> = alone
            .iter()
            .filter(|record| record.kind == RecordKind::Ack)
            .map(|record| record.cwnd)
            .collect();
        json!({
            "mbps": mbps, "held": held, "retransmitted": last.retransmitted, "dropped": kernel.dropped(),
            "alone": alone.iter().all(|record| record.fallback),
            "smallest": acks.iter().min(), "largest": acks.iter().max(),
            "mean": f64::from(acks.iter().sum::<u32>()) / acks.len() as f64,
        })
    });
}

#[test]
fn loss_does_not_move_a_held_window_and_makes_tcp_by_itself_back_off() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let (found, hash) =
            driver.over_link("loss", "--trace constant:12mbit --rtt 40ms --loss 2% --seed 3");
        println!("{found}");
        assert_eq!(found["hash"], hash, "the connection completes, whole");
        assert!(found["mbps"].as_f64().unwrap() > 10.5, "{found}");
        assert_eq!(found["held"], true, "{found}");
        assert_eq!(found["alone"], true, "{found}");
        // Half of the 45 packets and less; at 2 % about 9 (RFC 3819's 1.22 over the root of the loss).
        assert!(found["smallest"].as_u64().unwrap() <= 22, "{found}");
        assert!(found["mean"].as_f64().unwrap() < 30.0, "{found}");
    });
}

/// Bytes that TCP says it has sent, while limits rise.
fn limit_role() {
    let server = Server::accept();
    server.serve(|kernel, socket, hold| {
        let cookie = kernel.select(socket).unwrap();
        let limit = |kernel: &Kernel, packets: u64| {
            let limit = Some(packets * MSS);
            let control = SocketControl { window: 0, limit, pacing: None, policy: Policy::Hold };
            kernel.control(cookie, control).unwrap();
            kick(socket).unwrap();
        };
        let mut found = Vec::new();
        let mut sent = 0;
        // What left before the first limit is known when its acks are there.
        limit(kernel, 1);
        for packets in [0, 40, 60, 100] {
            limit(kernel, packets.max(1));
            // Before an ack of what the limit let out, and four round trips later.
            for milliseconds in [25, 175] {
                watch(kernel, socket, Duration::from_millis(milliseconds), |record| {
                    sent = sent.max(record.bytes_acked + u64::from(record.outstanding));
                });
                found.push((sent.max(in_flight(socket)) / MSS, packets));
            }
        }
        hold(kernel, 200_000);
        kick(socket).unwrap();
        json!({ "found": found })
    });
}

#[test]
fn a_limit_is_kept_whatever_is_acknowledged_and_a_kick_lets_out_what_was_added() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let (found, hash) = driver.over_link("limit", "--trace constant:50mbit --rtt 40ms");
        println!("{found}");
        assert_eq!(found["hash"], hash);
        let found: Vec<(u64, u64)> = serde_json::from_value(found["found"].clone()).unwrap();
        for pair in found[2..].chunks(2) {
            let [(_, packets), (late, _)] = pair else { unreachable!() };
            // With nothing on its way, two packets in a round trip may leave.
            assert!((*packets..=packets + 10).contains(late), "{late} of {packets}: {found:?}");
        }
    });
}

/// The kernel takes everything for lost during an outage, and finds out afterwards that it was not.
/// By then nobody controls the socket any more.
fn undo_role() {
    let server = Server::accept();
    server.hold(400_000);
    server.serve(|kernel, socket, _| {
        let mut timed_out = false;
        let mut held = 0;
        for _ in 0..50 {
            watch(kernel, socket, Duration::from_millis(100), |record| {
                held = held.max(record.cwnd);
                timed_out |= record.recovery == RecoveryState::Timeout;
            });
            if timed_out {
                break;
            }
        }
        // No heartbeat until well after the outage.
        let mut alone = Vec::new();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            kernel.drain(usize::MAX, |record| alone.push(record));
            thread::sleep(Duration::from_millis(1));
        }
        let alone: Vec<&KernelRecord> = alone.iter().filter(|record| record.fallback).collect();
        json!({
            "held": held, "timed_out": timed_out,
            "largest": alone.iter().map(|record| record.cwnd).max(),
            "undone": alone.iter().any(|record| record.recovery == RecoveryState::Open),
        })
    });
}

#[test]
fn a_window_of_a_controller_that_is_gone_does_not_come_back_when_tcp_undoes_a_timeout() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        // 24 Mbit/s, nothing from 1.5 to 5 s, and then again.
        let times = (1..1500).chain(5000..20_000).flat_map(|at| [at, at]);
        let trace: String = times.map(|at| format!("{at}\n")).collect();
        driver.folder.write("outage", trace);
        let (found, hash) =
            driver.over_link("undo", "--trace outage --rtt 40ms --queue droptail:4MB");
        println!("{found}");
        assert_eq!(found["hash"], hash);
        assert_eq!(
            (&found["timed_out"], &found["undone"]),
            (&true.into(), &true.into()),
            "{found}"
        );
        assert!(found["held"].as_u64().unwrap() >= 276, "{found}");
        // Congestion avoidance from ten packets, a packet a round trip.
        assert!(found["largest"].as_u64().unwrap() < 150, "{found}");
    });
}

#[test]
fn what_is_installed_is_told_and_removed_and_gone() {
    let Some(driver) = Driver::new() else { return };
    let said = driver.kernel("install").stdout;
    assert!(said.contains("is installed already"), "{said}");
    let status = driver.kernel("status");
    assert!(status.stdout.contains(&driver.name) && status.stdout.contains("kernel driver"));
    let other = driver.kernel("install --ring 512");
    assert!(other.stdout.contains("no socket uses it"), "{}", other.stdout);
    let removed = driver.kernel("remove");
    assert_eq!((removed.code, removed.stdout.as_str()), (Some(0), "removed; no socket uses it\n"));
    let again = driver.kernel("remove");
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("not installed"), "{}", again.stderr);
    let status: Value = serde_json::from_str(&driver.kernel("status --json -").stdout).unwrap();
    assert_eq!((&status["uses"], &status["installed"]), (&json!("gate"), &Value::Null));
}

#[test]
fn a_kernel_without_btf_is_refused_with_the_reason() {
    let driver = Driver::named();
    let is_built = driver.kernel("status --json -").stdout.contains("\"built_with_program\": true");
    let expected = if is_built { "no BTF (/nowhere is missing)" } else { "--features kernel" };
    for what in ["install", "install --cc pace"] {
        let words = format!("kernel {what} --name {}", driver.name);
        let mut command = driver.folder.command(words.split(' '));
        let out = command.env("CELLPACE_KERNEL_BTF", "/nowhere").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1));
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let driver = Driver::named();
    assert_eq!(driver.kernel("install --ring 7").code, Some(2));
    assert_eq!(driver.kernel("install --group x --everyone").code, Some(2));
}

#[test]
fn without_permission_the_status_says_who_has_it_and_that_the_gate_is_used() {
    let Some(driver) = Driver::new() else { return };
    let mut command = driver.folder.command(["kernel", "status", "--name", &driver.name]);
    let out = command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("open to root alone"), "{said}");
    assert!(said.contains("cellpace uses              gate"), "{said}");
    let mut command = driver.folder.command(["kernel", "remove", "--name", &driver.name]);
    let out = command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
}

/// Not a test: what this program does when a test starts it once more.
#[test]
fn roles() {
    match std::env::var(ROLE).as_deref() {
        Ok("windows") => windows_role(),
        Ok("loss") => loss_role(),
        Ok("limit") => limit_role(),
        Ok("undo") => undo_role(),
        _ => {}
    }
}

/// A program that knows nothing of us and sends a file by sendfile.
const SENDER: &str = "
import os, socket, sys, threading
listener = socket.create_server(('', int([*sys.argv, 9000][1])), backlog=64)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'reno')
def serve(client):
    with open('file', 'rb') as file:
        at = 0
        while (count := os.sendfile(client.fileno(), file.fileno(), at, 1 << 20)) > 0:
            at += count
    client.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
";

/// What came of downloads from [`SENDER`] under `cellpace run`.
struct Downloads {
    /// Whether each arrived as it was sent.
    right: Vec<bool>,
    p95_ms: f64,
    flows: Vec<Value>,
    said: String,
}

/// `clients` downloads at once of 4 MB through 12 Mbit/s for each and 40 ms; `meanwhile` is done by a
/// shell a second after they began, and knows the launcher as `$server`.
fn downloads(folder: &Folder, options: &str, clients: u32, meanwhile: &str) -> Downloads {
    downloads_over("", folder, options, clients, meanwhile)
}

fn downloads_over(
    link: &str,
    folder: &Folder,
    options: &str,
    clients: u32,
    meanwhile: &str,
) -> Downloads {
    let program = env!("CARGO_BIN_EXE_cellpace");
    let server = format!("'{program}' run --drain 5s --json flows {options} -- python3 sender.py");
    downloads_from(&server, link, folder, clients, meanwhile)
}

/// The same from any server at port 9000; its command ends with what is to be killed at the end.
fn downloads_from(
    server: &str,
    link: &str,
    folder: &Folder,
    clients: u32,
    meanwhile: &str,
) -> Downloads {
    let mut random = cellpace_base::Random::seeded(7, 0);
    let file: Vec<u8> = (0..4_000_000).map(|_| random.bits() as u8).collect();
    folder.write("file", &file);
    folder.write("sender.py", SENDER);
    let (program, rate) = (env!("CARGO_BIN_EXE_cellpace"), 12 * clients);
    let script = format!(
        "ip link set lo up
        {server} & server=$!
        while kill -0 $server && ! ss -ltnH | grep -q ':9000 '; do sleep 0.05; done
        (sleep 1; {meanwhile}) & meanwhile=$!
        '{program}' link --quiet {link} --trace constant:{rate}mbit --rtt 40ms --skip 500ms --json out.json -- bash -c \
            'for i in $(seq {clients}); do sha256sum </dev/tcp/$CELLPACE_HOST/9000 & done; wait' >sums
        wait $meanwhile
        pkill -P $server; kill $server; wait $server; true"
    );
    let mut command = Command::new("unshare");
    let bounded = ["--net", "--pid", "--fork", "--kill-child", "sh", "-c", &script];
    let out = command.args(bounded).current_dir(folder.path(".")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(folder.path("out.json").exists(), "{said}");
    let json: Value = serde_json::from_slice(&folder.read("out.json")).unwrap();
    let expected = hex(&Sha256::digest(&file));
    let sums = String::from_utf8(folder.read("sums")).unwrap();
    let flows = fs::read(folder.path("flows")).unwrap_or_default();
    let flows = serde_json::Deserializer::from_slice(&flows);
    Downloads {
        right: sums.lines().map(|sum| sum.starts_with(&expected)).collect(),
        p95_ms: json["runs"][0]["queue_delay_ms"]["p95"].as_f64().unwrap(),
        flows: flows.into_iter().map(Result::unwrap).collect(),
        said,
    }
}

impl Driver {
    fn options(&self, cc: &str) -> String {
        format!("--driver kernel --driver-name {} --cc {cc}", self.name)
    }
}

#[test]
fn a_proxy_has_its_connections_steered_and_they_go_on_when_the_driver_is_gone() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let program = env!("CARGO_BIN_EXE_cellpace");
        let options = driver.options("copa");
        let server = format!(
            "python3 sender.py 9001 &
        until ss -ltnH | grep -q ':9001 '; do sleep 0.05; done
        '{program}' proxy --listen 0.0.0.0:9000 --to 127.0.0.1:9001 --dashboard 9100 {options}"
        );
        let metrics = "sleep 1; exec 3<>/dev/tcp/127.0.0.1/9100
        printf 'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3 >metrics";
        let found =
            downloads_from(&server, "", &driver.folder, 2, &format!("bash -c \"{metrics}\""));
        assert_eq!(found.right, [true; 2], "{}", found.said);
        assert!(found.p95_ms < 60.0, "{} ms", found.p95_ms);
        let metrics = String::from_utf8(driver.folder.read("metrics")).unwrap();
        let figure = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse::<f64>().unwrap()
        };
        let of = |name: &str| {
            figure(&format!(
                "cellpace_{name}{{command=\"proxy\",controller=\"copa\",driver=\"kernel\"}}"
            ))
        };
        assert_eq!(of("connections_total"), 2.0, "{metrics}");
        assert_eq!(of("queued_bytes"), 0.0, "no queue of ours: {metrics}");
        let uncontrolled = "cellpace_uncontrolled_total{command=\"proxy\",reason=\"driver\"}";
        assert_eq!(figure(uncontrolled), 0.0, "{metrics}");
        // In the middle of the downloads.
        let removal = format!("'{program}' kernel remove --name {}", driver.name);
        let found = downloads_from(&server, "", &driver.folder, 2, &removal);
        assert_eq!(found.right, [true; 2], "{}", found.said);
    });
}

#[test]
fn a_program_keeps_its_sockets_and_the_queue_is_short() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        for cc in ["fixed:cwnd=41pkts", "copa"] {
            let found = downloads(&driver.folder, &driver.options(cc), 1, "true");
            assert_eq!(found.right, [true], "{cc}: {}", found.said);
            // Cubic or Reno would stand in hundreds of milliseconds of queue.
            assert!(found.p95_ms < 60.0, "{cc}: {} ms", found.p95_ms);
            let flow = &found.flows[0];
            assert_eq!((&flow["driver"], &flow["outcome"]), (&json!("kernel"), &json!("finished")));
            // TCP counts its end as a byte.
            assert_eq!(flow["acked_bytes"], 4_000_001, "{flow}");
            let rtt = flow["min_rtt_ms"].as_f64().unwrap();
            assert!((39.0..45.0).contains(&rtt), "{flow}");
        }
    });
}

#[test]
fn twenty_downloads_at_once_through_the_driver() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let options = driver.options("fixed:cwnd=41pkts");
        let found = downloads(&driver.folder, &options, 20, "true");
        assert_eq!(found.right, [true; 20], "{}", found.said);
        assert_eq!(found.flows.len(), 20);
        assert!(found.p95_ms < 40.0, "the windows are as large as the path: {} ms", found.p95_ms);
    });
}

#[test]
fn what_is_lost_and_sent_again_does_not_mislead_a_controller() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let folder = Folder::new();
        let got = downloads_over("--loss 2% --seed 5", &folder, &driver.options("copa"), 1, "true");
        assert_eq!(got.right, [true], "{}", got.said);
        let flow = &got.flows[0];
        assert!(flow["retransmissions"].as_u64().unwrap() > 20, "{flow}");
        assert!(flow["min_rtt_ms"].as_f64().unwrap() > 39.5, "{flow}");
        // Without backing off 2.7 s and the first round trips; TCP by itself takes three times that.
        assert!(flow["duration_s"].as_f64().unwrap() < 6.0, "{flow}");
    });
}

#[test]
fn the_launcher_is_killed_or_the_driver_removed_and_the_download_goes_on() {
    let Some(driver) = Driver::new() else { return };
    let options = driver.options("fixed:cwnd=30pkts");
    let found = downloads(&driver.folder, &options, 1, "kill -9 $server");
    assert_eq!(found.right, [true], "{}", found.said);
    let remove = format!(
        "'{}' kernel remove --name {} >/dev/null",
        env!("CARGO_BIN_EXE_cellpace"),
        driver.name
    );
    let found = downloads(&driver.folder, &options, 1, &remove);
    assert_eq!(found.right, [true], "{}", found.said);
    assert!(!pins(&driver.name).exists());
}

#[test]
fn without_the_driver_auto_is_the_gate_and_the_driver_alone_an_error() {
    let folder = Folder::new();
    let missing = "--driver-name cp_no_such";
    let outcome = folder.run(&format!("run --driver kernel {missing} -- true"));
    outcome.complains(1, "not installed");
    folder.refused("run --driver kernel --share -- true", "--share needs --driver gate");
    let proxy = "proxy --listen 0 --to 127.0.0.1:1 --driver kernel";
    folder.run(&format!("{proxy} {missing}")).complains(1, "not installed");
    folder.refused(&format!("{proxy} --share"), "--share needs --driver gate");
    if Driver::new().is_none() {
        return;
    }
    let found = downloads(&folder, &format!("{missing} --cc fixed:cwnd=41pkts"), 1, "true");
    assert_eq!(found.right, [true], "{}", found.said);
    assert_eq!(found.flows[0]["driver"], "gate");
}

/// Segments with data that entered the link's far side, those of them with PSH, and acks without
/// data that came to it.
fn segments(capture: &[u8]) -> (u32, u32, u32) {
    const FAR: u32 = 0;
    let mut reader = PcapNgReader::new(capture).unwrap();
    let (mut data, mut pushed, mut acks) = (0, 0, 0);
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        // The address family stands before the header of IPv4, which has no options.
        let (ip, length) = (&packet.data[4..], packet.original_len - 4);
        if packet.interface_id != FAR || ip[0] != 0x45 || ip[9] != 6 {
            continue;
        }
        let (tcp, from) = (&ip[20..], u16::from_be_bytes([ip[20], ip[21]]));
        let has_data = length > 20 + u32::from(tcp[12] >> 4) * 4;
        match (from == 9000, has_data) {
            (true, true) => {
                data += 1;
                pushed += u32::from(tcp[13] & 8 != 0);
            }
            (false, false) => acks += 1,
            _ => {}
        }
    }
    (data, pushed, acks)
}

#[test]
fn a_download_with_prompt_acks_arrives_whole_and_its_packets_leave_singly_with_psh() {
    measured(|| {
        let Some(driver) = Driver::new() else { return };
        let mut found = Vec::new();
        for devices in ["", "--prompt-acks cellpace0"] {
            // As soon as the link has its device.
            let install = format!(
            "for i in $(seq 500); do ip link show cellpace0 >link.txt 2>&1 && break; sleep 0.02; done
            '{}' kernel install --name {} {devices} >install.txt 2>&1",
            env!("CARGO_BIN_EXE_cellpace"),
            driver.name
        );
            let options = driver.options("copa");
            let link = "--log capture.pcapng";
            let got = downloads_over(link, &driver.folder, &options, 1, &install);
            let said = String::from_utf8(driver.folder.read("install.txt")).unwrap();
            if said.contains("TCX") {
                cellpace_testing::skip(said);
                return;
            }
            assert_eq!(got.right, [true], "{} {said}", got.said);
            assert_eq!(said.contains("prompt acknowledgments on cellpace0"), !devices.is_empty());
            found.push(segments(&driver.folder.read("capture.pcapng")));
        }
        println!("segments, with PSH, acks: {found:?}");
        let shares: Vec<_> = found
            .iter()
            .map(|(data, pushed, acks)| [pushed, acks].map(|n| f64::from(*n) / f64::from(*data)))
            .collect();
        let [without, with] = shares[..] else { unreachable!() };
        // TCP sends pieces of two and more, of which the last has PSH. Not all of them while the device
        // is new, and in the first round trips.
        assert!(without[0] < 0.55 && with[0] > 0.6, "{found:?}");
        assert!(with[1] > 0.6, "{found:?}");
        // The link is gone, and its device with it.
        let status: Value = serde_json::from_str(&driver.kernel("status --json -").stdout).unwrap();
        let gone = json!([{ "device": "cellpace0", "attached": false }]);
        assert_eq!(status["installed"]["prompt_acks"], gone);
        assert!(driver.kernel("status").stdout.contains("cellpace0 (gone)"));
        driver.kernel("install");
        assert!(driver.kernel("status").stdout.contains("on no device"));
    });
}

#[test]
fn a_device_that_is_not_there_is_an_error_and_a_warning_when_asked_for() {
    let Some(driver) = Driver::new() else { return };
    let outcome = driver.kernel("install --prompt-acks lo,cp_none");
    outcome.complains(2, "there is no network device `cp_none`");
    let status: Value = serde_json::from_str(&driver.kernel("status --json -").stdout).unwrap();
    assert_eq!(status["installed"]["prompt_acks"], json!([]), "lo is left alone");
    let outcome = driver.kernel("install --prompt-acks lo,cp_none --skip-missing");
    if outcome.stderr.contains("TCX") {
        cellpace_testing::skip(outcome.stderr);
        return;
    }
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("warning") && outcome.stderr.contains("cp_none"));
    assert!(outcome.stdout.contains("prompt acknowledgments on lo\n"), "{}", outcome.stdout);
    assert_eq!(driver.kernel("install --skip-missing").code, Some(2));
    assert_eq!(driver.kernel("install --cc mdi --prompt-acks lo").code, Some(2));
}

/// An echo server that counts nothing and ends with the test.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let _ = std::io::copy(&mut &stream, &mut &stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// Objects of a file of JSON lines.
fn lines(file: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(file).into_iter().map(Result::unwrap).collect()
}

#[test]
fn a_connection_that_the_program_does_not_wait_for_gets_the_gate_only_where_that_was_chosen() {
    if !can_run() {
        return;
    }
    let Some(driver) = Driver::new() else { return };
    let flows = driver.folder.path("flows");
    let open_later = |choice: &str| {
        let _ = fs::remove_file(&flows);
        let options = format!(
            "--driver {choice} --driver-name {} --cc cubic --out all --json {}",
            driver.name,
            flows.display()
        );
        let mut guinea = Guinea::with(&options, &format!("later poll {}", echo()));
        let found = guinea.line();
        guinea.says("peer True 127.0.0.1");
        guinea.says("right True");
        assert_eq!(guinea.code(), Some(0), "{}", guinea.stderr());
        (found, lines(&fs::read(&flows).unwrap_or_default()), guinea.stderr())
    };
    let (found, written, said) = open_later("kernel");
    assert!(found.ends_with("True"), "it keeps its TCP socket: {found}");
    assert_eq!(written, [] as [Value; 0]);
    assert!(
        said.contains("1 connection stayed without a controller: the program did not wait"),
        "{said}"
    );
    let (found, written, said) = open_later("auto");
    assert!(found.ends_with("False"), "{found} {said}");
    let driver = (&written[0]["driver"], written[0]["driver_reason"].as_str().unwrap());
    assert_eq!(driver.0, "gate");
    assert!(driver.1.contains("does not wait for the connection to open"), "{}", driver.1);
}

#[test]
fn a_proxy_whose_kernel_driver_is_removed_has_the_gate_only_where_that_was_chosen() {
    let Some(driver) = Driver::new() else { return };
    let to = format!("127.0.0.1:{}", echo());
    let proxies = ["kernel", "auto"].map(|choice| {
        let options = format!(
            "proxy --listen 127.0.0.1:0 --to {to} --cc cubic --driver {choice} --driver-name {} --json {choice}",
            driver.name
        );
        let errors = fs::File::create(driver.folder.path(&format!("{choice}.said"))).unwrap();
        let mut command = driver.folder.command(options.split(' '));
        (choice, Ended(command.stderr(errors).spawn().unwrap()))
    });
    let said =
        |choice: &str| String::from_utf8(driver.folder.read(&format!("{choice}.said"))).unwrap();
    let exchange = |choice: &str| {
        eventually("it listens", || said(choice).contains("waiting at "));
        let said = said(choice);
        let address = said.split_once("waiting at ").unwrap().1.lines().next().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"ping").unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    };
    let written = |choice: &str, count: usize| {
        let written = || lines(&fs::read(driver.folder.path(choice)).unwrap_or_default());
        eventually("connections are written", || written().len() == count);
        written()
    };
    for (choice, _) in &proxies {
        exchange(choice);
        let first = &written(choice, 1)[0];
        assert_eq!((&first["driver"], &first["driver_reason"]), (&json!("kernel"), &Value::Null));
    }
    assert_eq!(driver.kernel("remove").code, Some(0));
    for (choice, _) in &proxies {
        exchange(choice);
    }
    let second = &written("auto", 2)[1];
    assert_eq!(second["driver"], "gate");
    let reason = second["driver_reason"].as_str().unwrap();
    assert!(reason.starts_with("the kernel did not take the connection: "), "{reason}");
    eventually("the reason is said", || {
        said("kernel")
            .contains("a connection continues without a controller: the kernel did not take")
    });
    assert_eq!(written("kernel", 1).len(), 1, "it has no gate");
}

/// A program that is killed when the test is over.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
