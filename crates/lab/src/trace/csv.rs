//! Rates over time: written as CSV, `time_s,mbps`, a line for each bin with its start and its mean rate, and
//! turned into opportunities.

use std::fmt::Write;

use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace};

use super::figures::rates;
use super::period::ending_at;

const HEADER: [&str; 2] = ["time_s", "mbps"];

/// The most lines that are written.
pub(super) const MAX_CSV_LINES: u32 = 10_000_000;

/// Bits of a packet in units of Mbit/s times ms.
const PACKET: f64 = 12.0;

/// Rounding errors of a time in ms, and of a count of packets, are less than this.
const ROUNDING: f64 = 1e-6;

/// The trace in bins of `bin` ms; a last bin that the end of the trace cuts has the rate of what
/// is left of it.
pub(super) fn write(trace: &Trace, bin: u32) -> String {
    let mut text = HEADER.join(",") + "\n";
    for (index, rate) in rates(trace, bin).into_iter().enumerate() {
        // Multiplied before it is divided: sums of 0.1 s would show digits of rounding.
        let start = (index as u64 * u64::from(bin)) as f64 / 1000.0;
        writeln!(text, "{start},{rate}").expect("a text takes every write");
    }
    text
}

/// The trace of rates in Mbit/s from times in ms on, in order; what is half a packet at the end of one is continued
/// in the next.
pub(super) fn fill(rows: &[(f64, f64)], end: f64) -> Result<Trace, String> {
    let mut filler = RateFiller::default();
    let ends = rows.iter().skip(1).map(|row| row.0).chain([end]);
    for ((from, mbps), to) in rows.iter().zip(ends) {
        filler
            .fill(*from, to, *mbps)
            .map_err(|()| format!("the rates make more than {MAX_OPPORTUNITIES} opportunities"))?;
    }
    filler.finish(end)
}

/// Makes opportunities of rates.
#[derive(Default)]
struct RateFiller {
    millis: Vec<u32>,
    /// Packets that were due and have not come; less than one.
    due: f64,
}

impl RateFiller {
    /// Goes on with this rate between two times in ms. Fails when there are too many.
    fn fill(&mut self, from: f64, to: f64, mbps: f64) -> Result<(), ()> {
        let per_ms = mbps / PACKET;
        let total = self.due + per_ms * (to - from);
        // A packet that is due but for a rounding error comes now, and not in the next rate's time.
        let whole = (total + ROUNDING).floor();
        // Compared as a number with a point: a huge rate passes any whole one.
        if whole > (MAX_OPPORTUNITIES - self.millis.len()) as f64 {
            return Err(());
        }
        for packet in 1..=whole as u32 {
            let at = from + (f64::from(packet) - self.due) / per_ms;
            // Rounding must not move an opportunity out of its rate's time.
            self.millis.push((at.clamp(from, to) - ROUNDING).ceil().max(0.0) as u32);
        }
        // Carried on to the next rate, so that many short lines lose nothing.
        self.due = total - whole;
        Ok(())
    }

    fn finish(self, end: f64) -> Result<Trace, String> {
        if self.millis.is_empty() {
            return Err("the rates do not add up to a single packet".to_owned());
        }
        ending_at(self.millis, (end - ROUNDING).ceil() as u32)
    }
}
