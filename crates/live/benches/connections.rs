//! What a live view costs with ten thousand connections: a reading of all of them (twice a second while
//! somebody looks), one update of a client (ten times a second), and an opening that nobody looks at.

#![allow(missing_docs, reason = "a benchmark has no users")]

use std::hint::black_box;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cellpace_live::{
    ConnectionFigures, LiveAbout, LiveConnections, LiveServer, NewConnection, SharedFigures,
};
use criterion::{Criterion, criterion_group, criterion_main};

const CONNECTIONS: u64 = 10_000;

fn about() -> LiveAbout {
    LiveAbout { command: "bench", ..LiveAbout::default() }
}

fn name(number: u64) -> String {
    format!("192.0.2.1:443 <- 198.51.{}.{}:{}", number / 250, number % 250, 1024 + number)
}

fn filled() -> (LiveConnections, Vec<SharedFigures>) {
    let connections = LiveConnections::new(about());
    let open = |number| {
        let source = SharedFigures::default();
        let shown = Box::new(source.clone());
        connections.opened(NewConnection {
            number,
            name: name(number),
            controller: "copa".into(),
            driver: "gate",
            source: shown,
        });
        source
    };
    let sources = (0..CONNECTIONS).map(open).collect();
    (connections, sources)
}

/// Each has something new.
fn change(sources: &[SharedFigures], round: u64) {
    for (source, number) in sources.iter().zip(0..) {
        source.update(|figures| {
            figures.delivered_bytes += 1000 + (number * 7919 + round * 31) % 5000;
            figures.cwnd = Some(15_000 + (number + round) % 100 * 1500);
            figures.rtt = Some(cellpace_base::Span::from_micros(20_000 + (number + round) % 9000));
            figures.phase = Some("avoidance");
        });
    }
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // utime and stime are fields 14 and 15, in ticks of which there are 100 a second.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The share of a core that one page takes while it is looked at, over some seconds of real time.
fn share_of_a_core(connections: &LiveConnections) -> std::io::Result<f64> {
    const SECONDS: u64 = 5;
    let address = ([127, 0, 0, 1], 0).into();
    let server = LiveServer::start(address, connections.clone(), None)?;
    let link = server.link();
    let token = link.rsplit('=').next().unwrap_or_default();
    let mut stream = TcpStream::connect(server.address())?;
    let request = format!(
        "GET /api/events?rows=100 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes())?;
    let (start, before) = (Instant::now(), cpu_time());
    let (mut bytes, mut part) = (0, [0; 65536]);
    while start.elapsed() < Duration::from_secs(SECONDS) {
        bytes += stream.read(&mut part)?;
    }
    let share = (cpu_time() - before).as_secs_f64() / start.elapsed().as_secs_f64();
    println!("one page, {CONNECTIONS} connections: {} kB/s", bytes as u64 / SECONDS / 1000);
    server.finish();
    Ok(share)
}

fn connections(c: &mut Criterion) {
    let (connections, sources) = filled();
    change(&sources, 0);
    match share_of_a_core(&connections) {
        Ok(share) => {
            println!("one page, {CONNECTIONS} connections: {:.2} % of a core", share * 100.0);
        }
        Err(error) => println!("one page: {error}"),
    }
    let mut round = 0;
    c.bench_function("read all of 10 000 connections", |b| {
        b.iter_batched(
            || {
                round += 1;
                change(&sources, round);
            },
            |()| connections.read_all(),
            criterion::BatchSize::PerIteration,
        );
    });
    c.bench_function("open and close while nobody looks", |b| {
        b.iter(|| {
            let (number, source) = (CONNECTIONS, Box::new(SharedFigures::default()));
            connections.opened(NewConnection {
                number,
                name: name(1),
                controller: "copa".into(),
                driver: "gate",
                source,
            });
            connections.closed(black_box(number), ConnectionFigures::default(), "finished");
        });
    });
}

criterion_group!(benches, connections);
criterion_main!(benches);
