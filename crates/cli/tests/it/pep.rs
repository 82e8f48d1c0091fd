//! A performance-enhancing proxy with real packets (`cellpace proxy` between two links) and in
//! virtual time (`[pep]` of a scenario): transfers take as long in both.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::program::links::possible;
use crate::program::measured::measured;
use crate::program::{Folder, Outcome, number};

/// Transfers of these sizes, in bytes; the last is the bulk one.
const SIZES: [usize; 4] = [30_000, 100_000, 300_000, 8_000_000];

/// How often each size but the last is asked for.
const REPETITIONS: u32 = 5;

/// What the client asks for, one transfer after the other, as soon as the proxy listens.
fn client() -> String {
    let [small @ .., bulk] = SIZES.map(|size| size.to_string());
    let curl = "curl --silent --fail --noproxy '*' --output body";
    let address = "http://$CELLPACE_PEER:8001";
    format!(
        "set -e; tries=0\n\
         until {curl} --max-time 5 {address}/1000; do\n\
           tries=$((tries + 1)); test $tries -lt 50; sleep 0.1\n\
         done\n\
         for i in $(seq {REPETITIONS}); do for size in {}; do\n\
           {curl} --max-time 5 --write-out \"$size %{{time_total}}\\n\" {address}/$size\n\
         done; done\n\
         {curl} --max-time 12 --write-out \"{bulk} %{{time_total}}\\n\" {address}/{bulk}\n",
        small.join(" ")
    )
}

/// A server of as many bytes as the path says, the head of the answer among them.
fn server() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// A client that goes away is not the server's matter.
fn answer(mut stream: TcpStream) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut part = [0; 1024];
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&part[..count]);
    }
    let path = String::from_utf8(request).ok()?.split_whitespace().nth(1)?.to_owned();
    let size: usize = path.trim_start_matches('/').parse().ok()?;
    // As long for every size.
    let head = |length| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length:09}\r\nConnection: close\r\n\r\n")
    };
    let mut bytes = head(size - head(0).len()).into_bytes();
    bytes.resize(size, 0);
    stream.write_all(&bytes).ok()
}

/// Seconds of each transfer of a size, in the order of [`SIZES`], with real packets.
fn real() -> [Vec<f64>; 4] {
    let (folder, port) = (Folder::with("client.sh", client()), server());
    let program = env!("CARGO_BIN_EXE_cellpace");
    let edge = format!(
        "'{program}' proxy --listen 0.0.0.0:8001 --to $CELLPACE_HOST:{port} --cc cubic \
         --driver gate >proxy.log 2>&1 & proxy=$!\n\
         '{program}' link --quiet --trace constant:12mbit --rtt 40ms -- sh client.sh\n\
         code=$?; kill $proxy; wait $proxy; exit $code"
    );
    let link = ["link", "--quiet", "--trace", "constant:100mbit", "--rtt", "40ms", "--"];
    let Outcome { code, stdout, stderr } =
        folder.run_args(link.into_iter().chain(["sh", "-c", &edge]));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    SIZES.map(|size| {
        let prefix = format!("{size} ");
        let lines = stdout.lines().filter_map(|line| line.strip_prefix(&prefix));
        lines.map(|seconds| seconds.parse().unwrap()).collect()
    })
}

/// The same in virtual time.
fn virtual_s(size: usize) -> f64 {
    let text = format!(
        "duration = '30s'\nskip = '0s'\n\
         [path.wired]\ntrace = 'constant:100mbit'\nrtt = '40ms'\n\
         [path.radio]\ntrace = 'constant:12mbit'\nrtt = '40ms'\n\
         [pep]\ncc = 'cubic'\nopen = 'late'\n\
         [[flow]]\ncc = 'cubic'\ntransfer = {{ size = '{size}B', handshake = true }}\n"
    );
    let document = Folder::with("pep.toml", text).json("sim pep.toml");
    number(&document, "/runs/0/transfers/0/completion_ms") / 1e3
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn g5_transfers_through_a_proxy_take_as_long_with_real_packets_as_in_virtual_time() {
    if !possible() {
        return;
    }
    let virtual_times = SIZES.map(virtual_s);
    measured(|| {
        let start = Instant::now();
        let real = real();
        let taken = start.elapsed().as_secs_f64();
        let ratios: Vec<f64> = real.iter().zip(virtual_times).map(|(s, v)| median(s) / v).collect();
        eprintln!("real {real:.3?} s, virtual {virtual_times:.3?} s: {ratios:.3?} ({taken:.1} s)");
        assert!(real[..3].iter().all(|times| times.len() == REPETITIONS as usize), "{real:?}");
        let [small @ .., bulk] = ratios.as_slice() else { unreachable!("four sizes") };
        // Medians of completion within 10 %, throughput of the bulk transfer within 3 %.
        assert!(small.iter().all(|ratio| (0.9..=1.1).contains(ratio)), "{ratios:.3?}");
        assert!((0.97..=1.03).contains(&(1.0 / bulk)), "{ratios:.3?}");
    });
}
