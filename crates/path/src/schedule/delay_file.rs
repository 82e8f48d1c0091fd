//! Delays over time from a file.

use std::io::BufRead;

use cellpace_base::Span;

use super::lines::LineReader;
use super::trace::parse_millis;
use crate::error::TraceError;
use crate::steps::Steps;

/// The most lines of a delay file: an hour at a millisecond each.
const MAX_DELAYS: usize = 4_000_000;

/// Reads a delay file; [`DelaySpec`](crate::DelaySpec) has the format.
pub(crate) fn read_delays(name: &str, reader: impl BufRead) -> Result<Steps<Span>, TraceError> {
    let mut rows: Vec<(u32, Span)> = Vec::new();
    LineReader::new(name).read(reader, |line, text| {
        let (at, delay) =
            parse_row(text).map_err(|problem| TraceError::line(name, line, problem))?;
        if rows.last().is_some_and(|(before, _)| at <= *before) {
            let problem = format!("time {at} does not come after the one before it");
            return Err(TraceError::line(name, line, problem));
        }
        if rows.len() == MAX_DELAYS {
            return Err(TraceError::TooLong { name: name.to_owned(), limit: MAX_DELAYS });
        }
        rows.push((at, delay));
        Ok(())
    })?;
    let steps = match rows.as_slice() {
        [] => None,
        [(_, delay)] => Some(Steps::constant(*delay)),
        rows => Steps::cycle(rows_to_steps(rows)),
    };
    steps.ok_or_else(|| TraceError::Empty { name: name.to_owned() })
}

/// Each row's delay with how long it holds.
fn rows_to_steps(rows: &[(u32, Span)]) -> impl Iterator<Item = (Span, Span)> {
    let last_length = rows[rows.len() - 1].0 - rows[rows.len() - 2].0;
    rows.iter().enumerate().map(move |(index, (at, delay))| {
        let start = if index == 0 { 0 } else { *at };
        let length = rows.get(index + 1).map_or(last_length, |(next, _)| next - start);
        (*delay, Span::from_millis(u64::from(length)))
    })
}

fn parse_row(text: &[u8]) -> Result<(u32, Span), String> {
    const FORM: &str = "a line needs two numbers: milliseconds since the start, delay in ms";
    let split = text.iter().position(|byte| b" \t,".contains(byte)).ok_or(FORM)?;
    let at = parse_millis(&text[..split])?;
    let delay = str::from_utf8(&text[split + 1..]).map_err(|_| FORM)?.trim();
    match delay.parse::<f64>() {
        Ok(ms) if (0.0..=3_600_000.0).contains(&ms) => Ok((at, Span::from_millis_f64(ms))),
        Ok(_) => Err(format!("the delay {delay} is not between 0 and 3600000 ms")),
        Err(_) => Err(FORM.into()),
    }
}
