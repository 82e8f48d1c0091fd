//! Samples as text, to learn from teachers that were watched elsewhere.

use std::io::{self, Write};

use thiserror::Error;

use crate::change::ONE_PACKET;
use crate::csv::{numbered_lines, shorten};
use crate::{Chain, Sample};

/// The first line of a file of samples.
pub const SAMPLES_HEADER: &str = "chain,users,delay_ms,window_pkts,sent";

/// Rows of a file at most: 600 MB in memory, three days of one flow in epochs of 5 ms.
pub const MAX_SAMPLES: u64 = 50_000_000;

/// Users of a bottleneck at most.
pub const MAX_USERS: u32 = 256;

/// Chains of one number of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedFlows {
    /// Flows that shared the bottleneck; 0: unknown.
    pub users: u32,
    /// What was logged of them.
    pub chains: Vec<Chain>,
}

/// Why samples do not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}: {reason}")]
pub struct SamplesError {
    /// The line, from 1.
    pub line: usize,
    /// The column, if it is about one, and what is wrong.
    pub reason: String,
}

/// Reads samples: chains of the same number of users together, numbers of users ascending, chains
/// in the order of the file.
///
/// ```csv
/// chain,users,delay_ms,window_pkts,sent
/// 0,1,41.2,10,2
/// 0,1,41.9,10.5,3
/// 1,2,60,8,0
/// ```
///
/// One row per epoch, in the order of time. Rows of one chain (consecutive epochs of one flow,
/// a [`Chain`]) stand together, and chains are numbered upwards, gaps allowed. `users` is the
/// number of flows that shared the bottleneck, 0 where it is unknown, and the same in all of a
/// chain. Delays are exact to a microsecond and windows to 1/65536 packets.
///
/// # Errors
/// When the text is not like that, or has more than [`MAX_SAMPLES`] rows.
pub fn read_samples(bytes: &[u8]) -> Result<Vec<LoggedFlows>, SamplesError> {
    let lines = numbered_lines(bytes);
    let mut lines = lines.map_err(|line| SamplesError { line, reason: "is no text".to_owned() })?;
    if lines.next().is_none_or(|(_, text)| text != SAMPLES_HEADER) {
        let reason = format!("the first line must be `{SAMPLES_HEADER}`");
        return Err(SamplesError { line: 1, reason });
    }
    let mut all = Vec::new();
    // The number of the chain that is being read, its users and its samples.
    let mut open: Option<(u64, u32, Chain)> = None;
    for (line, text) in lines {
        let wrong = |reason| SamplesError { line, reason };
        let row = SampleRow::read(text).map_err(wrong)?;
        match &mut open {
            Some((chain, users, samples)) if *chain == row.chain => {
                if *users != row.users {
                    return Err(wrong(format!("users: {} in a chain of {users}", row.users)));
                }
                samples.push(row.sample);
            }
            Some((before, ..)) if *before > row.chain => {
                let chain = row.chain;
                let reason = format!("chain: {chain} after {before}; chains are numbered upwards");
                return Err(wrong(reason));
            }
            _ => {
                let next = (row.chain, row.users, vec![row.sample]);
                keep(&mut all, open.replace(next));
            }
        }
        if line as u64 > MAX_SAMPLES {
            return Err(wrong(format!("more than {MAX_SAMPLES} rows; split the file")));
        }
    }
    keep(&mut all, open);
    Ok(all)
}

fn keep(all: &mut Vec<LoggedFlows>, chain: Option<(u64, u32, Chain)>) {
    let Some((_, users, mut chain)) = chain else { return };
    chain.shrink_to_fit();
    match all.binary_search_by_key(&users, |flows| flows.users) {
        Ok(index) => all[index].chains.push(chain),
        Err(index) => all.insert(index, LoggedFlows { users, chains: vec![chain] }),
    }
}

/// Writes samples so that [`read_samples`] gives them back, chains numbered from 0.
///
/// # Errors
/// When `out` fails.
pub fn write_samples(out: &mut impl Write, all: &[LoggedFlows]) -> io::Result<()> {
    writeln!(out, "{SAMPLES_HEADER}")?;
    let chains = all.iter().flat_map(|flows| {
        let users = flows.users;
        flows.chains.iter().map(move |chain| (users, chain))
    });
    for (number, (users, chain)) in chains.enumerate() {
        write_chain(out, number as u64, users, chain)?;
    }
    Ok(())
}

/// Writes the rows of one chain, or of a part of it, behind the [header](SAMPLES_HEADER).
///
/// # Errors
/// When `out` fails.
pub fn write_chain(
    out: &mut impl Write,
    number: u64,
    users: u32,
    chain: &[Sample],
) -> io::Result<()> {
    for sample in chain {
        write!(out, "{number},{users},")?;
        write_decimal(out, u64::from(sample.delay_us), 3)?;
        // Five decimals distinguish all multiples of 1/65536.
        let window = (u64::from(sample.window) * 100_000 + 32_768) >> 16;
        out.write_all(b",")?;
        write_decimal(out, window, 5)?;
        writeln!(out, ",{}", sample.sent)?;
    }
    Ok(())
}

/// A whole number of 10^-`decimals`, without zeros at the end.
fn write_decimal(out: &mut impl Write, value: u64, decimals: u32) -> io::Result<()> {
    let one = 10_u64.pow(decimals);
    write!(out, "{}", value / one)?;
    let (mut rest, mut width) = (value % one, decimals as usize);
    if rest == 0 {
        return Ok(());
    }
    while rest % 10 == 0 {
        rest /= 10;
        width -= 1;
    }
    write!(out, ".{rest:0width$}")
}

struct SampleRow {
    chain: u64,
    users: u32,
    sample: Sample,
}

impl SampleRow {
    fn read(text: &str) -> Result<Self, String> {
        let mut fields = text.split(',');
        let mut next =
            |name: &str| fields.next().map(str::trim).ok_or_else(|| format!("{name}: is missing"));
        let chain = whole("chain", next("chain")?, u64::MAX)?;
        let users = whole("users", next("users")?, u64::from(MAX_USERS))? as u32;
        // Up to what a sample holds: 71 minutes, 65535 packets.
        let delay_us = decimal("delay_ms", next("delay_ms")?, 1000)?;
        let window = decimal("window_pkts", next("window_pkts")?, ONE_PACKET)?.max(ONE_PACKET);
        let sent = whole("sent", next("sent")?, u64::from(u32::MAX))? as u32;
        if fields.next().is_some() {
            return Err(format!("sent: something follows; a row is {SAMPLES_HEADER}"));
        }
        Ok(Self { chain, users, sample: Sample { delay_us, window, sent } })
    }
}

fn whole(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse::<u64>().ok().filter(|value| digits && *value <= most);
    value.ok_or_else(|| format!("{name}: `{}` is no whole number of 0 to {most}", shorten(text)))
}

/// A decimal number as a multiple of 1/`scale`, rounded to nearest.
fn decimal(name: &str, text: &str, scale: u32) -> Result<u32, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = text.parse::<f64>().ok().filter(|_| plain);
    let Some(number) = number else {
        return Err(format!("{name}: `{}` is no number like 12 or 12.5", shorten(text)));
    };
    let scaled = (number * f64::from(scale)).round();
    if scaled > f64::from(u32::MAX) {
        return Err(format!("{name}: `{}` is above {}", shorten(text), u32::MAX / scale));
    }
    Ok(scaled as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(rows: &str) -> Result<Vec<LoggedFlows>, SamplesError> {
        read_samples(format!("{SAMPLES_HEADER}\n{rows}").as_bytes())
    }

    #[test]
    fn rows_become_chains_by_their_users() {
        let all = read("3,2,41.2,10,2\r\n3,2,41.9004,10.5,3\n7,1,60,0,0\n9,2,1,1,1\n").unwrap();
        let sample = |delay_us, window, sent| Sample { delay_us, window, sent };
        let (ten, half) = (10 << 16, 1 << 15);
        assert_eq!(
            all[0],
            LoggedFlows { users: 1, chains: vec![vec![sample(60_000, 1 << 16, 0)]] }
        );
        let first = vec![sample(41_200, ten, 2), sample(41_900, ten + half, 3)];
        assert_eq!(all[1].users, 2);
        assert_eq!(all[1].chains, [first, vec![sample(1000, 1 << 16, 1)]]);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn errors_name_line_and_field() {
        for (rows, expected) in [
            ("1,1,1,1\n", "2: sent: is missing"),
            ("1,1,1,1,1,\n", "2: sent: something follows"),
            ("\n", "2: chain: `` is no whole number"),
            ("1,1,1,1,1\nx,1,1,1,1\n", "3: chain: `x` is no"),
            ("1,257,1,1,1\n", "2: users: `257` is no whole number of 0 to 256"),
            ("1,1,-1,1,1\n", "2: delay_ms: `-1` is no number"),
            ("1,1,1e3,1,1\n", "2: delay_ms: `1e3` is no number"),
            ("1,1,nan,1,1\n", "2: delay_ms: `nan` is no number"),
            ("1,1,.,1,1\n", "2: delay_ms: `.` is no number"),
            ("1,1,4294968,1,1\n", "2: delay_ms: `4294968` is above 4294967"),
            ("1,1,1,65536,1\n", "2: window_pkts: `65536` is above 65535"),
            ("1,1,1,1,+1\n", "2: sent: `+1` is no whole"),
            ("1,1,1,1,4294967296\n", "2: sent: `4294967296` is no whole"),
            ("2,1,1,1,1\n1,1,1,1,1\n", "3: chain: 1 after 2; chains are"),
            ("2,1,1,1,1\n2,3,1,1,1\n", "3: users: 3 in a chain of 1"),
        ] {
            let said = read(rows).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{rows:?}\n said {said}\n not  {expected}");
        }
        let said = |bytes: &[u8]| read_samples(bytes).unwrap_err().to_string();
        assert!(said(b"").starts_with("1: the first line must be `chain,users"));
        assert!(said(b"a,b\n").starts_with("1: the first line"));
        assert!(read(&"x".repeat(5000)).unwrap_err().to_string().len() < 200);
        assert_eq!(said(b"\xff\n"), "1: is no text");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_exactly(
            chains in prop::collection::vec((0_u32..5, prop::collection::vec(
                (any::<u32>(), ONE_PACKET.., any::<u32>()), 1..9)), 0..9),
        ) {
            let mut all = Vec::new();
            for (users, chain) in chains {
                let chain = chain.into_iter()
                    .map(|(delay_us, window, sent)| Sample { delay_us, window, sent })
                    .collect();
                keep(&mut all, Some((0, users, chain)));
            }
            let mut text = Vec::new();
            write_samples(&mut text, &all).unwrap();
            prop_assert_eq!(read_samples(text.as_slice()).unwrap(), all);
        }

        #[test]
        fn no_text_panics(text in "[0-9a-z,.\n-]{0,80}") {
            let _ = read(&text);
        }
    }
}
