//! The rate of a trace over time, in blocks of text.

use std::io;

use cellpace_path::schedule::Trace;
use cellpace_report::short;
use terminal_size::{Width, terminal_size_of};

use super::text::time;

const ROWS: usize = 8;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns where there is no terminal to ask.
const DEFAULT_WIDTH: usize = 80;
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=240;

/// Columns of the terminal that standard output is.
pub(super) fn terminal_width() -> usize {
    let width = terminal_size_of(io::stdout()).map(|(Width(width), _)| usize::from(width));
    width.unwrap_or(DEFAULT_WIDTH).clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// Mean rates in Mbit/s over bins of `bin` ms. A bin has the opportunities behind its start up to
/// and including its end, the first also those at 0; the last ends with the trace.
pub(super) fn rates(trace: &Trace, bin: u32) -> Vec<f64> {
    let period = trace.millis().last().copied().unwrap_or(0);
    let mut counts = vec![0_u32; period.div_ceil(bin) as usize];
    for at in trace.millis() {
        counts[(at.saturating_sub(1) / bin) as usize] += 1;
    }
    let width = |index: usize| bin.min(period - index as u32 * bin);
    let rate = |(index, count): (usize, &u32)| mbps(*count, width(index));
    counts.iter().enumerate().map(rate).collect()
}

/// Mbit/s of so many opportunities of 1500 bytes in so many milliseconds.
fn mbps(opportunities: u32, ms: u32) -> f64 {
    f64::from(opportunities) * 12.0 / f64::from(ms)
}

/// A picture of at most `width` columns with the rate upwards and the time to the right.
pub(super) fn chart(trace: &Trace, width: usize) -> String {
    let period = trace.millis().last().copied().unwrap_or(1);
    let most = |bars: usize| period.div_ceil(bars as u32).max(1);
    // The label of the highest bar takes room from the bars.
    let label = 6;
    let bin = most(width - label - 2);
    let rates = rates(trace, bin);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let low = rates.iter().copied().fold(high, f64::min);

    let each = time(f64::from(bin));
    let mut text =
        format!("Mbit/s, mean of each {each}: lowest {}, highest {}\n", short(low), short(high));
    for row in (0..ROWS).rev() {
        let name = match row {
            _ if row == ROWS - 1 => short(high),
            // A label belongs to the upper edge of its row.
            _ if row + 1 == ROWS / 2 => short(high / 2.0),
            _ => String::new(),
        };
        let edge = if name.is_empty() { '│' } else { '┤' };
        let bars: String = rates.iter().map(|rate| block(rate / high, row)).collect();
        text += format!("{name:>label$} {edge}{bars}").trim_end();
        text.push('\n');
    }
    text + &time_axis(label, rates.len(), f64::from(period))
}

/// What `row` (0: lowest) shows of a bar of this height (1: full).
fn block(height: f64, row: usize) -> char {
    let eighths = (height * (ROWS * 8) as f64).round() as usize;
    // Little is not nothing.
    let eighths = if height > 0.0 { eighths.max(1) } else { 0 };
    BLOCKS[eighths.saturating_sub(row * 8).min(8)]
}

fn time_axis(label: usize, bars: usize, period: f64) -> String {
    let end = time(period);
    let mut line = format!("{:>label$} └{}\n", 0, "─".repeat(bars));
    let mut numbers = format!("{:>1$}", "0", label + 2);
    let room = bars.saturating_sub(1);
    if bars >= 40 {
        numbers += &format!("{:^1$}", time(period / 2.0), room - end.chars().count());
        numbers += &end;
    } else {
        numbers += &format!("{end:>0$}", room.max(end.len() + 1));
    }
    line += &numbers;
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    #[test]
    fn rates_count_what_ends_in_a_bin() {
        assert_eq!(rates(&trace([0, 1, 2, 3, 10]), 2), [18.0, 6.0, 0.0, 0.0, 6.0]);
        assert_eq!(rates(&trace([2, 4, 5]), 2), [6.0, 6.0, 12.0], "the last bin is 1 ms");
        assert_eq!(rates(&trace([u32::MAX]), u32::MAX).len(), 1);
    }

    #[test]
    fn bars_have_the_height_of_their_rate() {
        assert_eq!([0, 4, 7].map(|row| block(1.0, row)), ['█'; 3]);
        assert_eq!([3, 4, 5].map(|row| block(0.5625, row)), ['█', '▄', ' ']);
        assert_eq!([block(0.0, 0), block(1e-9, 0), block(1e-9, 1)], [' ', '▁', ' ']);
    }

    #[test]
    fn pictures_fit_the_width() {
        for millis in [vec![1], vec![1, 17], (1..60_000).collect(), vec![0, u32::MAX]] {
            for width in [40, 79, 80, 120, 240] {
                let text = chart(&trace(millis.clone()), width);
                assert_eq!(text.lines().count(), ROWS + 3, "{text}");
                let widest = text.lines().skip(1).map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{width}:\n{text}");
            }
        }
    }
}
