//! RTTs and losses that a table has beside rates.

use cellpace_base::Span;
use cellpace_path::Steps;
use cellpace_path::schedule::{Recording, TraceError};
use cellpace_path::steps::Level;

/// The longest RTT, as in files of delays.
const MAX_RTT_MS: f64 = 3_600_000.0;

/// What columns beside that of the rate say.
#[derive(Debug, Default)]
pub(super) struct Beside {
    rtt: Option<Series<Span>>,
    loss: Option<Series<f64>>,
    /// The first thing that is wrong with them; who wants rates alone need not know.
    problem: Option<TraceError>,
}

/// A column, and its values from milliseconds on.
#[derive(Debug)]
struct Series<T> {
    column: usize,
    name: String,
    /// What a number counts: ms of an RTT, a share of a loss.
    unit: f64,
    rows: Vec<(u32, T)>,
}

impl Beside {
    /// Finds RTTs and losses by what the header calls them. The loss of a few pings now and then is not that of data.
    pub(super) fn find(header: Option<&[String]>) -> Self {
        let Some(header) = header else { return Self::default() };
        let rtt = ["rtt", "pingavg", "ping_ms", "latency"];
        Self {
            rtt: Series::find(header, &rtt, rtt_unit),
            loss: Series::find(header, &["loss"], loss_unit)
                .filter(|loss| !loss.name.to_lowercase().contains("ping")),
            problem: None,
        }
    }

    /// Takes the fields of a line, `at` ms after the first. What is missing (`-`, nothing, a negative number) leaves
    /// the value as it was.
    pub(super) fn take(&mut self, name: &str, line: u64, at: f64, fields: &[String]) {
        let taken = [
            self.rtt.as_mut().map(|rtt| {
                rtt.take(at, fields, |number| {
                    (number <= MAX_RTT_MS).then(|| Span::from_millis_f64(number))
                })
            }),
            self.loss
                .as_mut()
                .map(|loss| loss.take(at, fields, |share| (share <= 1.0).then_some(share))),
        ];
        for problem in taken.into_iter().flatten().filter_map(Result::err) {
            self.problem.get_or_insert_with(|| TraceError::line(name, line, problem));
        }
    }

    /// What the columns were taken for; `None`: there are none.
    pub(super) fn said(&self) -> Option<String> {
        let rtt = self.rtt.as_ref().map(|rtt| {
            let unit = [(1e-3, "us"), (1e3, "s")].iter().find(|(unit, _)| *unit == rtt.unit);
            format!("RTT: `{}`, {}", rtt.name, unit.map_or("ms", |(_, name)| name))
        });
        let loss = self.loss.as_ref().map(|loss| {
            format!("loss: `{}`, {}", loss.name, if loss.unit < 1.0 { "percent" } else { "shares" })
        });
        let said: Vec<String> = rtt.into_iter().chain(loss).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Puts what there is beside the trace, as long as it lasts.
    pub(super) fn put(self, recording: &mut Recording) {
        let period = recording.trace.millis().last().copied().unwrap_or(0);
        recording.rtt = self.rtt.and_then(|rtt| rtt.steps(period));
        recording.loss = self.loss.and_then(|loss| loss.steps(period));
        recording.problem = self.problem;
    }
}

impl<T: Level> Series<T> {
    fn find(header: &[String], names: &[&str], unit: fn(&str) -> f64) -> Option<Self> {
        let lower: Vec<String> = header.iter().map(|name| name.to_lowercase()).collect();
        let place = |part: &&str| lower.iter().position(|name| name.contains(*part));
        let column = names.iter().find_map(place)?;
        let unit = unit(&lower[column]);
        Some(Self { column, name: header[column].clone(), unit, rows: Vec::new() })
    }

    fn take(
        &mut self,
        at: f64,
        fields: &[String],
        value: impl Fn(f64) -> Option<T>,
    ) -> Result<(), String> {
        let field = fields.get(self.column).map_or("", String::as_str);
        let (number, unit) = match field.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 0.01),
            None => (field, self.unit),
        };
        if ["", "-", "nan", "null", "none"].contains(&number.to_lowercase().as_str()) {
            return Ok(());
        }
        let shown = field.escape_debug();
        let number = number.parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| format!("{}: `{shown}` is no number", self.name))?;
        // Pings that were lost have -1.
        if number < 0.0 {
            return Ok(());
        }
        let value = value(number * unit).ok_or_else(|| {
            format!(
                "{}: `{shown}` is too much; losses in percent are written 1%, or in a column called \
                 loss_percent",
                self.name
            )
        })?;
        let at = at as u32;
        match self.rows.last_mut() {
            Some(last) if last.0 == at => last.1 = value,
            _ => self.rows.push((at, value)),
        }
        Ok(())
    }

    /// Each value until the next, the first from the beginning, the last to the end, in ms.
    fn steps(mut self, end: u32) -> Option<Steps<T>> {
        self.rows.retain(|(at, _)| *at < end);
        let ends = self.rows.iter().skip(1).map(|row| row.0).chain([end]);
        let starts = std::iter::once(0).chain(self.rows.iter().skip(1).map(|row| row.0));
        let lengths = starts.zip(ends).map(|(start, end)| Span::from_millis((end - start).into()));
        Steps::cycle(self.rows.iter().map(|row| row.1).zip(lengths))
    }
}

/// Milliseconds of one.
fn rtt_unit(name: &str) -> f64 {
    match name {
        _ if name.ends_with("_us") => 1e-3,
        _ if name.ends_with("_s") || name.contains("second") => 1e3,
        _ => 1.0,
    }
}

/// The share that one is.
fn loss_unit(name: &str) -> f64 {
    let is_percent = ["percent", "pct", "%"].iter().any(|part| name.contains(part));
    if is_percent { 0.01 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Recording {
        crate::trace::read_trace("t.csv", Box::new(std::io::Cursor::new(text.to_owned()))).unwrap()
    }

    #[test]
    fn rtts_and_losses_stand_beside_rates() {
        let recording =
            read("time_s,mbps,rtt_ms,loss\n0,12,-,0\n1,24,30,1%\n2,12,-1,0.02\n3,12,40.5,\n");
        assert_eq!(recording.trace.millis().len(), 5000);
        let rtt = Steps::parse("step:30ms/3s,40.5ms/1s", "rtt").unwrap();
        assert_eq!(recording.rtt, Some(rtt));
        let loss = Steps::parse("step:0%/1s,1%/1s,2%/2s", "loss").unwrap();
        assert_eq!(recording.loss, Some(loss));
        assert_eq!(recording.problem, None);
        assert_eq!(recording.header.as_deref(), Some("time_s,mbps,rtt_ms,loss"));
        let other = read("ts;DL_bitrate_kbps;PINGAVG;PINGLOSS\n0;8000;-;25\n1;8000;-;0\n");
        assert_eq!((other.rtt, other.loss), (None, None), "pings are not data");
    }

    #[test]
    fn what_is_wrong_beside_rates_is_kept_for_who_asks() {
        let problem = |text: &str| read(text).problem.map(|problem| problem.to_string());
        let table = |rtt: &str, loss: &str| {
            format!("time_s,mbps,rtt_ms,loss\n0,12,1,0\n1,12,{rtt},{loss}\n")
        };
        let said = problem(&table("x", "0")).unwrap();
        assert_eq!(said, "t.csv, line 3: rtt_ms: `x` is no number");
        let said = problem(&table("1", "3")).unwrap();
        assert!(
            said.starts_with("t.csv, line 3: loss: `3` is too much; losses in percent"),
            "{said}"
        );
        assert!(problem(&table("4e6", "0")).unwrap().contains("rtt_ms: `4e6` is too much"));
        assert_eq!(problem(&table("1", "0")), None);
    }
}
