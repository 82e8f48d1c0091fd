//! Serves as much as it can for a while to whoever connects, under a controller:
//! `bulk ADDRESS CONTROLLER SECONDS BELOW`, where BELOW is what TCP itself uses (`cubic`). With the
//! controller `plain` there is none above TCP.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cellpace_tcp::{AlccStream, FlowOptions, RelayEngine};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, cc, seconds, below] = &args[..] else {
        return Err("bulk ADDRESS CONTROLLER SECONDS BELOW".into());
    };
    let end = Duration::from_secs_f64(seconds.parse()?);
    // A path that is gone holds a writer for many minutes.
    std::thread::spawn(move || {
        std::thread::sleep(end + Duration::from_secs(3));
        std::process::exit(0);
    });
    let listener = TcpListener::bind(address.as_str())?;
    // What a connection began with leaves traces in it, such as pacing.
    socket2::SockRef::from(&listener).set_tcp_congestion(below.as_bytes())?;
    let (mut tcp, _) = listener.accept()?;
    let data = vec![7; 1 << 16];
    if cc == "plain" {
        let start = Instant::now();
        while start.elapsed() < end {
            tcp.write_all(&data)?;
        }
        return Ok(());
    }
    let mut stream = AlccStream::new(&RelayEngine::new(), tcp, &FlowOptions::new(cc.parse()?))?;
    let start = Instant::now();
    let mut next = Duration::from_secs(1);
    while start.elapsed() < end {
        stream.write_all(&data)?;
        if start.elapsed() > next {
            eprintln!("{:?} {:?}", start.elapsed(), stream.stats());
            next += Duration::from_secs(1);
        }
    }
    Ok(())
}
