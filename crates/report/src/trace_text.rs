//! The rate of a trace over time, in blocks of text.

use crate::TracePreview;
use crate::number::{short, time};

const ROWS: usize = 8;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns that the label of the highest bar takes.
const LABEL: usize = 6;

/// The bins that a picture of `width` columns has at most.
pub fn trace_text_bins(width: usize) -> u32 {
    (width - LABEL - 2) as u32
}

/// A picture with the rate upwards and the time to the right, one column a bin.
pub fn trace_text(preview: &TracePreview) -> String {
    let rates: Vec<f64> = preview.capacity_mbps.iter().map(|rate| f64::from(*rate)).collect();
    let high = rates.iter().copied().fold(0.0, f64::max);
    let low = rates.iter().copied().fold(high, f64::min);

    let each = time(preview.bin_s * 1000.0);
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
        text += format!("{name:>LABEL$} {edge}{bars}").trim_end();
        text.push('\n');
    }
    text + &time_axis(rates.len(), preview.period_s * 1000.0)
}

/// What `row` (0: lowest) shows of a bar of this height (1: full).
fn block(height: f64, row: usize) -> char {
    let eighths = (height * (ROWS * 8) as f64).round() as usize;
    // Little is not nothing.
    let eighths = if height > 0.0 { eighths.max(1) } else { 0 };
    BLOCKS[eighths.saturating_sub(row * 8).min(8)]
}

fn time_axis(bars: usize, period: f64) -> String {
    let end = time(period);
    let mut line = format!("{:>LABEL$} └{}\n", 0, "─".repeat(bars));
    let mut numbers = format!("{:>1$}", "0", LABEL + 2);
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

    #[test]
    fn bars_have_the_height_of_their_rate() {
        assert_eq!([0, 4, 7].map(|row| block(1.0, row)), ['█'; 3]);
        assert_eq!([3, 4, 5].map(|row| block(0.5625, row)), ['█', '▄', ' ']);
        assert_eq!([block(0.0, 0), block(1e-9, 0), block(1e-9, 1)], [' ', '▁', ' ']);
    }

    #[test]
    fn pictures_fit_the_width() {
        for width in [40, 79, 80, 120, 240] {
            for bins in [1, 2, trace_text_bins(width)] {
                for period_s in [0.001, 17.0, 4_294_967.295] {
                    let bin_s = period_s / f64::from(bins);
                    let capacity_mbps = (1..=bins).map(|bin| bin as f32 * 0.37).collect();
                    let name = "t".to_owned();
                    let text = trace_text(&TracePreview { name, bin_s, period_s, capacity_mbps });
                    assert_eq!(text.lines().count(), ROWS + 3, "{text}");
                    let widest = text.lines().skip(1).map(|line| line.chars().count()).max();
                    assert!(widest <= Some(width), "{width}:\n{text}");
                }
            }
        }
    }
}
