//! Serves as much as it can for a while to whoever connects, under a controller:
//! `bulk ADDRESS CONTROLLER SECONDS BELOW`, where BELOW is what TCP itself uses (`cubic`). With the
//! controller `plain` there is none above TCP.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cellpace_tcp::{AlccStream, Engine, FlowOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, cc, seconds, below] = &args[..] else {
        return Err("bulk ADDRESS CONTROLLER SECONDS BELOW".into());
    };
    let end = Duration::from_secs_f64(seconds.parse()?);
    let (mut tcp, _) = TcpListener::bind(address.as_str())?.accept()?;
    let data = vec![7; 1 << 16];
    if cc == "plain" {
        socket2::SockRef::from(&tcp).set_tcp_congestion(below.as_bytes())?;
        let start = Instant::now();
        while start.elapsed() < end {
            tcp.write_all(&data)?;
        }
        return Ok(());
    }
    let options = FlowOptions { below: Some(below.clone()), ..FlowOptions::new(cc.parse()?) };
    let mut stream = AlccStream::new(&Engine::new(), tcp, &options)?;
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
