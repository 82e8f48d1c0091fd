//! The series of a radio layer as a table.

use std::fmt::Write;

use cellpace_base::Time;
use cellpace_path::radio::{Drive, RadioEvent, STEP};

/// The columns.
const HEADER: &str = "time_s,position_m,cell,rsrp_dbm,sinr_db,cqi,modulation,share,bytes,event\n";

/// Returns the series of a drive as CSV: a row per 10 ms. An event stands in the row in which the
/// interruption begins: `handover:3>4:60ms` is one from cell 3 to cell 4 with an interruption of
/// 60 ms, `failure:3>4:700ms` a radio link failure.
pub fn radio_csv(drive: &Drive) -> String {
    let mut text = HEADER.to_owned();
    let mut events = drive.events().iter().peekable();
    for (index, sample) in drive.samples().iter().enumerate() {
        let start = Time::ZERO + STEP * index as u64;
        let begun = |event: &&RadioEvent| event.start < start + STEP;
        let mut event = String::new();
        while let Some(next) = events.next_if(begun) {
            let between = if event.is_empty() { "" } else { " " };
            let (name, length) = (next.name(), next.end - next.start);
            event += &format!("{between}{name}:{}>{}:{length}", next.from, next.to);
        }
        // Writing to a text never fails.
        let _ = writeln!(
            text,
            "{:.2},{:.1},{},{:.1},{:.1},{},{},{:.3},{},{event}",
            start.as_secs_f64(),
            sample.position_m,
            sample.cell,
            sample.rsrp_dbm,
            sample.sinr_db,
            sample.cqi,
            sample.modulation().name(),
            sample.share(),
            sample.bytes,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;
    use cellpace_path::radio::RadioSpec;

    #[test]
    fn a_row_per_step_and_every_event() {
        let spec = RadioSpec::parse("highway-700").unwrap();
        let drive = Drive::generate(&spec, 1, Span::from_secs(200));
        let csv = radio_csv(&drive);
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!((rows.len(), rows[0]), (20_001, HEADER.trim()));
        assert!(rows.iter().all(|row| row.split(',').count() == 10));
        let events = rows[1..].iter().filter(|row| !row.ends_with(',')).count();
        assert_eq!(events, drive.events().len());
        assert!(events > 2 && csv.contains("handover:"));
    }
}
