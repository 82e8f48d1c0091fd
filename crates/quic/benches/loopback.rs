//! Processor time of downloads over loopback, both ends and their system calls: our controllers beside
//! the library's own Cubic, at 100 Mbit/s and as fast as it goes.

#![allow(missing_docs, reason = "a benchmark has no users")]
#![allow(clippy::unwrap_used)]

#[path = "../tests/it/loopback/mod.rs"]
mod loopback;

use std::time::Instant;

use loopback::*;

const SECONDS: u32 = 5;
/// In turn, so that other load meets all alike; the least of them counts.
const RUNS: usize = 3;
/// Bytes of one write.
const PIECE: usize = 1 << 14;

/// How fast a program writes.
#[derive(Clone, Copy)]
struct Pace {
    name: &'static str,
    bytes_per_s: Option<f64>,
    bytes: usize,
}

const PACES: [Pace; 2] = [
    Pace { name: "100 Mbit/s", bytes_per_s: Some(12.5e6), bytes: 12_500_000 * SECONDS as usize },
    Pace { name: "unlimited", bytes_per_s: None, bytes: 1 << 30 },
];

/// Seconds of processor time per GB, and Mbit/s.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    rate: f64,
}

macro_rules! download {
    ($module:ident, $library:ident) => {
        mod $module {
            use super::*;
            use loopback::$module::{attach, get, listen};

            async fn serve(endpoint: &::$library::Endpoint, pace: Pace) {
                let connection = endpoint.accept().await.unwrap().await.unwrap();
                let _control = attach(&connection);
                let mut stream = connection.open_uni().await.unwrap();
                let piece = vec![7; PIECE];
                let (begun, mut written) = (Instant::now(), 0);
                while written < pace.bytes {
                    let size = PIECE.min(pace.bytes - written);
                    stream.write_all(&piece[..size]).await.unwrap();
                    written += size;
                    if let Some(rate) = pace.bytes_per_s {
                        let due = begun + Duration::from_secs_f64(written as f64 / rate);
                        tokio::time::sleep_until(due.into()).await;
                    }
                }
                stream.finish().unwrap();
                connection.closed().await;
            }

            pub(super) async fn run(cc: Option<&str>, pace: Pace) -> Cost {
                let identity = Identity::generate(["localhost".to_owned()]).unwrap();
                let factory = cc.map(|cc| Factory::new(cc.parse().unwrap(), 1).unwrap());
                let endpoint = listen(&identity, factory.as_ref());
                let to = endpoint.local_addr().unwrap();
                let peer = Peer::Fingerprint(identity.fingerprint());
                let (begun, before) = (Instant::now(), cpu_s());
                let ((), bytes) = tokio::join!(serve(&endpoint, pace), get(to, &peer));
                assert_eq!(bytes.unwrap(), pace.bytes);
                let gigabytes = pace.bytes as f64 / 1e9;
                let rate = 8e3 * gigabytes / begun.elapsed().as_secs_f64();
                Cost { cpu: (cpu_s() - before) / gigabytes, rate }
            }
        }
    };
}

download!(over_noq, noq);
download!(over_quinn, quinn);

/// Processor time of all threads of this process, in seconds.
fn cpu_s() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let on_cpu = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    tasks.map(on_cpu).sum()
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("| written | controller | noq | quinn |\n|---|---|---|---|");
    for pace in PACES {
        let ways = [None, Some("cubic"), Some("copa"), Some("verus")];
        let mut found = vec![[Vec::new(), Vec::new()]; ways.len()];
        for _ in 0..RUNS {
            for (way, costs) in ways.into_iter().zip(&mut found) {
                costs[0].push(runtime.block_on(over_noq::run(way, pace)));
                costs[1].push(runtime.block_on(over_quinn::run(way, pace)));
            }
        }
        for (way, costs) in ways.into_iter().zip(&found) {
            let cells = costs.each_ref().map(|runs| {
                let least = runs.iter().min_by(|a, b| a.cpu.total_cmp(&b.cpu)).unwrap();
                format!("{:.2} s/GB at {:.0} Mbit/s", least.cpu, least.rate)
            });
            let name = way.map_or_else(|| "the library's Cubic".to_owned(), |cc| format!("`{cc}`"));
            println!("| {} | {name} | {} | {} |", pace.name, cells[0], cells[1]);
        }
    }
}
