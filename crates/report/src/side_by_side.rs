//! The figures of two traces side by side.

use cellpace_path::stats::StatsRow;

/// The widest that the name of a trace may make a column.
const MAX_NAME: usize = 26;

/// A table of the figures of two traces under the names of these.
pub fn side_by_side(names: [&str; 2], rows: &[StatsRow]) -> String {
    let names = names.map(shortened);
    let [left, right] = [&names[0], &names[1]].map(|name| name.chars().count().max(9));
    let what = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    let mut text = format!("{:what$}  {:>left$}  {:>right$}    change\n", "", names[0], names[1]);
    for row in rows {
        let decimals = decimals(row);
        let (a, b) = (fixed(row.left, decimals), fixed(row.right, decimals));
        text += &format!("{:what$}  {a:>left$}  {b:>right$}{}\n", row.what, change(row));
    }
    text
}

/// As many as the smaller figure needs; whole numbers need none.
fn decimals(row: &StatsRow) -> usize {
    let figures = [row.left, row.right];
    if figures.iter().all(|figure| figure.fract() == 0.0) {
        return 0;
    }
    let sizes = figures.iter().map(|figure| figure.abs()).filter(|size| *size > 0.0);
    let smaller = sizes.fold(f64::INFINITY, f64::min);
    3_usize.saturating_sub(smaller.max(1.0).log10() as usize)
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    // A correlation of -0.0001 is none.
    if text.trim_start_matches('-').chars().all(|c| "0.".contains(c)) {
        return text.trim_start_matches('-').to_owned();
    }
    text
}

/// The change in percent where that is meaningful: not against next to nothing, and not across
/// zero.
fn change(row: &StatsRow) -> String {
    match row.change() {
        Some(change) if row.left.abs() >= 0.0005 && change > -1.0 && change < 9.995 => {
            format!("  {:>+6.1} %", change * 100.0)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_say_the_change() {
        let row = |what, left, right| StatsRow { what, left, right };
        let rows = [row("mean", 5.0, 6.5), row("ACF", 0.5, -0.1), row("gap", 0.0, 1200.0)];
        assert_eq!(
            side_by_side(["a.down", "b"], &rows),
            "         a.down          b    change\n\
             mean      5.000      6.500   +30.0 %\n\
             ACF       0.500     -0.100\n\
             gap           0       1200\n"
        );
        let long = "a-trace-with-a-name-that-nobody-types.down";
        assert!(side_by_side([long, "b"], &rows).contains("a-trace-with-a-name-that-…  "));
    }
}
