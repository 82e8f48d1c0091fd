//! Sprout in the loop in which its authors' program was measured: both ends send, and forecasts
//! wait behind data.
//!
//! ```sh
//! cargo run --release -p cellpace-sim --example sprout_both_ways -- \
//!     sprout:original constant:12mbit 40ms lte-driving
//! ```
//!
//! prints a line for each trace: its name, utilization, median and 95th percentile of the queue
//! delay in ms, and the mean delay in the uplink's queue in ms.

mod both_ways;

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use both_ways::Setting;
use cellpace_base::{Span, Time, parse_span};
use cellpace_cc::ControllerSpec;
use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [cc, uplink, rtt, traces @ ..] = args.as_slice() else {
        return Err("usage: sprout_both_ways CC UPLINK RTT TRACES...".into());
    };
    let cc: ControllerSpec = cc.parse()?;
    let rtt = parse_span(rtt)?;
    let mut files = TraceFiles::new(|name| Ok(Box::new(BufReader::new(File::open(name)?))));
    let uplink = TraceSpec::parse(uplink, &mut files)?;
    for trace in traces {
        // As the originals were measured.
        let setting = Setting {
            downlink: TraceSpec::parse(trace, &mut files)?,
            uplink: uplink.clone(),
            rtt,
            start: Time::from_millis(100),
            duration: Span::from_secs(60),
            skip: Span::from_secs(2),
        };
        let figures = both_ways::run(&cc, &setting)?;
        println!(
            "{} {:.4} {:.3} {:.3} {:.3}",
            name(trace),
            figures.utilization,
            figures.p50_ms,
            figures.p95_ms,
            figures.uplink_mean_ms
        );
    }
    Ok(())
}

/// One word: the name of the file, or of the built-in profile.
fn name(trace: &str) -> String {
    let file = std::path::Path::new(trace).file_name();
    file.map_or(trace.into(), |file| file.to_string_lossy()).replace(char::is_whitespace, "_")
}
