//! Delays and shares of loss over time from a file.

use std::io::BufRead;

use cellpace_base::{Span, parse_fraction};

use super::lines::LineReader;
use super::trace::parse_millis;
use crate::error::TraceError;
use crate::steps::{Level, Steps};

/// The most lines of a file: an hour at a millisecond each.
const MAX_ROWS: usize = 4_000_000;

/// Reads a delay file; [`DelaySpec`](crate::DelaySpec) has the format.
pub(crate) fn read_delays(name: &str, reader: impl BufRead) -> Result<Steps<Span>, TraceError> {
    const FORM: &str = "a line needs two numbers: milliseconds since the start, delay in ms; of a file with a \
                        delay in each line say how far apart they are: file:NAME,every=10ms";
    read_steps(name, reader, FORM, |delay| parse_delay(delay, FORM))
}

/// Reads a delay file of one number a line; [`DelaySpec`](crate::DelaySpec) has the format.
pub(crate) fn read_delays_every(
    name: &str,
    reader: impl BufRead,
    every: Span,
) -> Result<Steps<Span>, TraceError> {
    const FORM: &str = "a line needs one number: a delay in ms";
    let mut rows = Vec::new();
    LineReader::new(name).read(reader, |line, text| {
        let delay = str::from_utf8(text).map_err(|_| FORM.to_owned());
        let delay = delay.and_then(|text| parse_delay(text, FORM));
        let delay = delay.map_err(|problem| TraceError::line(name, line, problem))?;
        if rows.len() == MAX_ROWS {
            return Err(TraceError::TooLong { name: name.to_owned(), limit: MAX_ROWS });
        }
        rows.push((delay, every));
        Ok(())
    })?;
    Steps::cycle(rows).ok_or_else(|| TraceError::Empty { name: name.to_owned() })
}

/// Reads a delay in ms.
pub(super) fn parse_delay(delay: &str, form: &str) -> Result<Span, String> {
    match delay.parse::<f64>() {
        Ok(ms) if (0.0..=3_600_000.0).contains(&ms) => Ok(Span::from_millis_f64(ms)),
        Ok(_) => Err(format!("the delay {delay} is not between 0 and 3600000 ms")),
        Err(_) => Err(form.into()),
    }
}

/// Reads a loss file; [`LossSpec`](crate::LossSpec) has the format.
pub(crate) fn read_losses(name: &str, reader: impl BufRead) -> Result<Steps<f64>, TraceError> {
    const FORM: &str = "a line needs milliseconds since the start, and a loss like 1%";
    read_steps(name, reader, FORM, |loss| parse_fraction(loss).map_err(|error| error.to_string()))
}

fn read_steps<T: Level>(
    name: &str,
    reader: impl BufRead,
    form: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Steps<T>, TraceError> {
    let mut rows: Vec<(u32, T)> = Vec::new();
    LineReader::new(name).read(reader, |line, text| {
        let (at, value) = parse_row(text, form, &parse)
            .map_err(|problem| TraceError::line(name, line, problem))?;
        if rows.last().is_some_and(|(before, _)| at <= *before) {
            let problem = format!("time {at} does not come after the one before it");
            return Err(TraceError::line(name, line, problem));
        }
        if rows.len() == MAX_ROWS {
            return Err(TraceError::TooLong { name: name.to_owned(), limit: MAX_ROWS });
        }
        rows.push((at, value));
        Ok(())
    })?;
    let steps = match rows.as_slice() {
        [] => None,
        [(_, value)] => Some(Steps::constant(*value)),
        rows => Steps::cycle(rows_to_steps(rows)),
    };
    steps.ok_or_else(|| TraceError::Empty { name: name.to_owned() })
}

/// Each row's value with how long it holds.
fn rows_to_steps<T: Level>(rows: &[(u32, T)]) -> impl Iterator<Item = (T, Span)> {
    let last_length = rows[rows.len() - 1].0 - rows[rows.len() - 2].0;
    rows.iter().enumerate().map(move |(index, (at, value))| {
        let start = if index == 0 { 0 } else { *at };
        let length = rows.get(index + 1).map_or(last_length, |(next, _)| next - start);
        (*value, Span::from_millis(u64::from(length)))
    })
}

fn parse_row<T>(
    text: &[u8],
    form: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(u32, T), String> {
    let split = text.iter().position(|byte| b" \t,".contains(byte)).ok_or(form)?;
    let at = parse_millis(&text[..split])?;
    let value = str::from_utf8(&text[split + 1..]).map_err(|_| form)?;
    Ok((at, parse(value.trim())?))
}
