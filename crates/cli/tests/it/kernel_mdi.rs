//! MDI in the kernel over `cellpace link`: a controller of TCP without any process. Needs root and a
//! program built with the feature `kernel`; says so otherwise.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{Folder, Outcome, measured::measured};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Sends a file to whoever connects, by the congestion control that is named.
const SERVER: &str = "
import socket, sys
listener = socket.create_server(('', 9000))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
open('listens', 'w').close()
while True:
    client, _ = listener.accept()
    used = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert used.rstrip(bytes(1)) == sys.argv[1].encode(), used
    with open('sent', 'rb') as file:
        client.sendfile(file)
    client.close()
";

/// MDI under a name of its own, removed at the end, whatever happens.
struct Mdi {
    folder: Folder,
    name: String,
}

/// What became of a download.
struct Seen {
    mbps: f64,
    p95_ms: f64,
    /// Whether what came is what was sent.
    whole: bool,
}

impl Mdi {
    /// `None`, and a line that says why, where it cannot be.
    fn new(cc: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Folder::new();
        let status = folder.run("kernel status --json -");
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        let built = status["built_with_program"] == true;
        if !built || status["mdi_obstacles"] != json!([]) {
            cellpace_testing::skip(format_args!(
                "{} (feature kernel: {built})",
                status["mdi_obstacles"]
            ));
            return None;
        }
        let mdi = Self { folder, name: format!("cp_m{:x}_{number}", std::process::id()) };
        let outcome = mdi.kernel(&format!("install --cc {cc}"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        Some(mdi)
    }

    fn kernel(&self, command: &str) -> Outcome {
        self.folder.run(&format!("kernel {command} --name {}", self.name))
    }

    /// Some megabytes through an emulated link, in a network namespace of its own.
    fn download(&self, megabytes: u32, options: &str) -> Seen {
        let sent: Vec<u8> = (0..megabytes * 250_000)
            .flat_map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        self.folder.write("sent", &sent);
        self.folder.write("server.py", SERVER);
        let program = env!("CARGO_BIN_EXE_cellpace");
        let script = format!(
            "ip link set lo up
            rm -f listens
            python3 server.py {} & server=$!
            while [ ! -e listens ] && kill -0 $server; do sleep 0.05; done
            '{program}' link --quiet --rtt 40ms --json out.json {options} --duration 60s -- \
                bash -c 'cat </dev/tcp/$CELLPACE_HOST/9000 >came'
            kill $server; wait $server; true",
            self.name,
        );
        let mut command = Command::new("unshare");
        let command = command.args(["--net", "sh", "-c", &script]);
        let output = command.current_dir(self.folder.path(".")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(self.folder.path("out.json").exists(), "{said}");
        let json: Value = serde_json::from_slice(&self.folder.read("out.json")).unwrap();
        let figure = |name: &str| json["runs"][0].pointer(name).and_then(Value::as_f64).unwrap();
        let came = self.folder.read("came");
        Seen {
            mbps: figure("/throughput_mbps"),
            p95_ms: figure("/queue_delay_ms/p95"),
            whole: Sha256::digest(&came) == Sha256::digest(&sent),
        }
    }
}

impl Drop for Mdi {
    fn drop(&mut self) {
        let outcome = self.kernel("remove --cc mdi");
        assert!(outcome.code == Some(0) || std::thread::panicking(), "{}", outcome.stderr);
    }
}

#[test]
fn a_download_without_any_process_keeps_the_queue_short() {
    measured(|| {
        let Some(mdi) = Mdi::new("mdi") else { return };
        let seen = mdi.download(7, "--trace constant:12mbit");
        assert!(seen.whole);
        // A random walk: mostly 11.7, and once in a while it falls down and has to climb again.
        assert!(seen.mbps > 8.0, "{} Mbit/s", seen.mbps);
        // Cubic fills the 2 MB of the queue: above a second.
        assert!(seen.p95_ms < 150.0, "{} ms", seen.p95_ms);
    });
}

#[test]
fn a_download_under_loss_completes() {
    measured(|| {
        let Some(mdi) = Mdi::new("mdi") else { return };
        let seen = mdi.download(5, "--trace constant:12mbit --loss 2%");
        assert!(seen.whole);
        // Cubic gets 2 Mbit/s here.
        assert!(seen.mbps > 3.5, "{} Mbit/s", seen.mbps);
    });
}

#[test]
fn with_a_slow_start_the_window_grows_and_the_walk_takes_over() {
    measured(|| {
        let Some(mdi) = Mdi::new("mdi:start=slow") else { return };
        let seen = mdi.download(7, "--trace constant:12mbit");
        assert!(seen.whole);
        assert!(seen.mbps > 9.0, "{} Mbit/s", seen.mbps);
    });
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn outages_are_survived() {
    measured(|| {
        let Some(mdi) = Mdi::new("mdi") else { return };
        let seen = mdi.download(3, "--trace onoff:6mbit,on=1s,off=1s");
        assert!(seen.whole);
        assert!(seen.mbps > 1.5, "{} Mbit/s", seen.mbps);
    });
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn tables_of_all_kinds_of_states_run() {
    for kind in ["absolute", "relative"] {
        let Some(mdi) = Mdi::new("mdi") else { return };
        let train = "mdi train --cc verus:r=2 --trace lte-driving --duration 20s -o table";
        mdi.folder.good(&format!("{train} --states {kind}"));
        let outcome = mdi.kernel("install --cc mdi:model=table,empty=paper");
        assert!(outcome.stdout.contains("replaced"), "{} {}", outcome.stdout, outcome.stderr);
        let seen = mdi.download(2, "--trace lte-driving");
        assert!(seen.whole, "{kind}");
    }
}

#[test]
fn what_does_not_run_in_the_kernel_is_said() {
    let folder = Folder::new();
    for (cc, said) in [
        ("verus", "verus does not run in the kernel by itself"),
        ("mdi:users=adapt", "users=adapt does not run in the kernel"),
        ("mdi:modle=x", "did you mean `model`?"),
    ] {
        let outcome = folder.run(&format!("kernel install --cc {cc}"));
        let built = !outcome.stderr.contains("built without");
        assert!(!built || outcome.stderr.contains(said), "{cc}: {}", outcome.stderr);
        assert_ne!(outcome.code, Some(0));
    }
}
