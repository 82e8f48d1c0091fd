//! Rates over time in tables as others write them: columns by name or number, any separator, any unit, times as
//! numbers or dates.

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use cellpace_path::schedule::{LineReader, Recording, Trace, TraceError};

use super::beside::Beside;
use super::csv::{MAX_CSV_LINES, fill};

/// The longest line: recordings of phones have dozens of columns.
const MAX_TABLE_LINE: usize = 8192;
/// A time of so many usual steps is a gap.
const GAP_STEPS: f64 = 3.5;
const PACKET_BITS: f64 = 12_000.0;

/// A column, by its name or its number from 1 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// As the header has it; upper and lower case are the same.
    Name(String),
    /// The first is 1.
    Number(usize),
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<usize>() {
            Ok(0) => Err("columns are counted from 1".to_owned()),
            Ok(number) => Ok(Self::Number(number)),
            Err(_) if text.trim().is_empty() => Err("a column has a name or a number".to_owned()),
            Err(_) => Ok(Self::Name(text.trim().to_owned())),
        }
    }
}

/// What a column of rates counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateUnit {
    name: &'static str,
    bits: f64,
    /// Per second; otherwise between a line and the next one.
    is_rate: bool,
}

const UNITS: [RateUnit; 9] = [
    per_second("bit/s", 1.0),
    per_second("kbit/s", 1e3),
    per_second("Mbit/s", 1e6),
    per_second("Gbit/s", 1e9),
    per_second("byte/s", 8.0),
    per_second("kbyte/s", 8e3),
    per_second("Mbyte/s", 8e6),
    RateUnit { name: "bytes", bits: 8.0, is_rate: false },
    RateUnit { name: "packets", bits: PACKET_BITS, is_rate: false },
];
const MBIT: RateUnit = UNITS[2];

const fn per_second(name: &'static str, bits: f64) -> RateUnit {
    RateUnit { name, bits, is_rate: true }
}

impl RateUnit {
    /// Mbit/s over a line of `step` ms.
    fn mbps(self, value: f64, step: f64) -> f64 {
        let seconds = if self.is_rate { 1.0 } else { step / 1e3 };
        value * self.bits / 1e6 / seconds
    }
}

impl FromStr for RateUnit {
    type Err = String;

    /// Also `kbps` for `kbit/s`, in upper or lower case, and `kBps` for `kbyte/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // Case counts here alone: `kBps` are bytes, `kbps` bits, and lower case makes them alike.
        let bytes = text.strip_suffix("Bps").map(|prefix| format!("{prefix}byte/s").to_lowercase());
        let lower = bytes.unwrap_or_else(|| text.to_lowercase());
        let wanted =
            lower.strip_suffix("bps").map_or(lower.clone(), |prefix| format!("{prefix}bit/s"));
        UNITS.into_iter().find(|unit| unit.name.to_lowercase() == wanted).ok_or_else(|| {
            let names = UNITS.map(|unit| unit.name).join(", ");
            format!("`{text}` is not a unit; allowed: {names} (of 1500 bytes)")
        })
    }
}

/// What counts where a recording has no lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gap {
    /// The last rate.
    #[default]
    Hold,
    /// Nothing.
    Zero,
}

impl FromStr for Gap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "hold" => Ok(Self::Hold),
            "zero" => Ok(Self::Zero),
            _ => Err(format!("`{text}` is neither hold nor zero")),
        }
    }
}

/// How a table is read; what is not said is guessed from its header.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableOptions {
    /// The column of times.
    pub time: Option<Column>,
    /// The column of rates.
    pub rate: Option<Column>,
    /// What that counts.
    pub unit: Option<RateUnit>,
    /// What counts in gaps.
    pub gap: Gap,
}

/// What a table was taken for, as a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableReading {
    /// The columns, if there was something to guess.
    columns: Option<String>,
    /// Columns of RTTs and losses, which a path of the whole recording has.
    beside: Option<String>,
    /// Lines with the time of another.
    repeated: u64,
    /// Gaps, and the length that makes one, in ms.
    gaps: u64,
    usual_step: f64,
    gap: Gap,
}

impl fmt::Display for TableReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.columns.iter().chain(&self.beside).cloned().collect();
        match self.repeated {
            0 => {}
            1 => parts.push("1 line has the time of another: their mean counts".to_owned()),
            count => {
                parts.push(format!("{count} lines have the time of another: their mean counts"));
            }
        }
        if self.gaps > 0 {
            let plural = if self.gaps == 1 { "gap" } else { "gaps" };
            let held = match self.gap {
                Gap::Hold => "in which the last rate is held (--gap zero: nothing)",
                Gap::Zero => "in which nothing is delivered",
            };
            let usual = self.usual_step / 1000.0;
            parts
                .push(format!("{} {plural} between lines of usually {usual} s, {held}", self.gaps));
        }
        f.write_str(&parts.join("; "))
    }
}

impl TableReading {
    /// Whether there is something to say.
    pub(super) fn is_plain(&self) -> bool {
        self.columns.is_none() && self.beside.is_none() && self.repeated == 0 && self.gaps == 0
    }
}

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeUnit {
    /// Numbers, of which one is so many ms.
    Millis(f64),
    /// Year, month, day, hour, minute and second.
    Date,
}

/// Which fields of a line count, and how.
#[derive(Debug, Clone)]
struct Columns {
    separator: Option<char>,
    time: usize,
    rate: usize,
    time_name: String,
    rate_name: String,
    unit: RateUnit,
    time_unit: TimeUnit,
}

/// Reads a table. Rates hold until the next line, the last one as long as is usual; times count from the first line.
///
/// Keeps two numbers of each line; an endless input ends with an error.
///
/// # Errors
/// When it is no such table; they name the line and the field, or the header and what was wanted.
pub(super) fn read(
    name: &str,
    reader: impl BufRead,
    options: &TableOptions,
) -> Result<(Recording, TableReading), TraceError> {
    let mut rows = Rows {
        name,
        options,
        columns: None,
        header: None,
        first: None,
        rows: Vec::new(),
        beside: Beside::default(),
    };
    LineReader::new(name)
        .longest(MAX_TABLE_LINE)
        .read(reader, |number, text| rows.take(number, &String::from_utf8_lossy(text)))?;
    rows.finish().map_err(|problem| TraceError::Unreadable { name: name.to_owned(), problem })
}

/// The trace of rates in Mbit/s from times in s on. A rate holds until the next time, the last one as long as is
/// usual; times count from the first.
///
/// # Errors
/// When there are fewer than two, times do not ascend, or a number is negative or not finite.
pub fn trace_of_rates(times_s: &[f64], mbps: &[f64]) -> Result<Trace, String> {
    if times_s.len() != mbps.len() || times_s.len() < 2 {
        let (times, rates) = (times_s.len(), mbps.len());
        return Err(format!(
            "{times} times and {rates} rates; as many of both are needed, at least two"
        ));
    }
    let is_number = |value: &f64| value.is_finite() && *value >= 0.0;
    if let Some(place) = mbps.iter().position(|rate| !is_number(rate)) {
        return Err(format!("rate {place} is {}, not a number from 0", mbps[place]));
    }
    let first = times_s[0];
    let at: Vec<f64> = times_s.iter().map(|time| (time - first) * 1000.0).collect();
    let wrong =
        |place: &usize| !at[*place].is_finite() || *place > 0 && at[*place] <= at[*place - 1];
    if let Some(place) = (0..at.len()).find(wrong) {
        return Err(format!("time {place} is {}, not after the one before it", times_s[place]));
    }
    let rows: Vec<(f64, f64, u32)> =
        at.iter().zip(mbps).map(|(at, rate)| (*at, *rate, 1)).collect();
    let end = at[at.len() - 1] + usual_step(&rows);
    if end > f64::from(u32::MAX) {
        return Err("longer than 49 days".to_owned());
    }
    let filled: Vec<(f64, f64)> = rows.iter().map(|row| (row.0, row.1)).collect();
    fill(&filled, end)
}

struct Rows<'a> {
    name: &'a str,
    options: &'a TableOptions,
    columns: Option<Columns>,
    header: Option<Vec<String>>,
    /// The first time, in ms.
    first: Option<f64>,
    /// Times in ms, sums of values, lines that have it.
    rows: Vec<(f64, f64, u32)>,
    beside: Beside,
}

impl Rows<'_> {
    fn take(&mut self, number: u64, text: &str) -> Result<(), TraceError> {
        let Some(text) = uncommented(text) else { return Ok(()) };
        let line = |problem: String| TraceError::line(self.name, number, problem);
        if self.columns.is_none() {
            let separator = separator_of(text);
            let fields = split(text, separator);
            if self.header.is_none() && self.rows.is_empty() && is_header(&fields) {
                self.header = Some(fields);
                return Ok(());
            }
            let columns = Columns::find(self.header.as_deref(), &fields, separator, self.options);
            self.columns = Some(columns.map_err(line)?);
            self.beside = Beside::find(self.header.as_deref());
        }
        let columns = self.columns.as_ref().expect("they were found above");
        let fields = split(text, columns.separator);
        let (time, value) = columns.row(&fields).map_err(line)?;
        let at = time - *self.first.get_or_insert(time);
        self.beside.take(self.name, number, at, &fields);
        let shown = || fields[columns.time].escape_debug().to_string();
        if at > f64::from(u32::MAX) {
            let problem = "is more than 49 days after the first";
            return Err(line(format!("{}: `{}` {problem}", columns.time_name, shown())));
        }
        let is_full = self.rows.len() == MAX_CSV_LINES as usize;
        match self.rows.last_mut() {
            // Not sorted silently: times that go back mean two recordings in one file, or the wrong
            // column.
            Some((before, ..)) if at < *before => {
                let problem = "does not come after the time before it";
                return Err(line(format!("{}: `{}` {problem}", columns.time_name, shown())));
            }
            Some((before, sum, count)) if at == *before => {
                (*sum, *count) = (*sum + value, *count + 1);
            }
            _ if is_full => {
                return Err(line(format!("more than {MAX_CSV_LINES} lines")));
            }
            _ => self.rows.push((at, value, 1)),
        }
        Ok(())
    }

    fn finish(self) -> Result<(Recording, TableReading), String> {
        let Some(columns) = self.columns.filter(|_| self.rows.len() > 1) else {
            let problem = match self.header {
                Some(header) if self.rows.is_empty() => {
                    format!(
                        "has a header ({}) and no lines with numbers",
                        shortened(&header.join(","))
                    )
                }
                _ => "needs at least two lines with numbers, to know how long one lasts".to_owned(),
            };
            return Err(problem);
        };
        let usual = usual_step(&self.rows);
        let longest = usual * GAP_STEPS;
        let last = self.rows[self.rows.len() - 1].0;
        let end = (last + usual).min(f64::from(u32::MAX));
        let ends = self.rows.iter().skip(1).map(|row| row.0).chain([end]);
        let (mut filled, mut gaps, mut repeated) = (Vec::with_capacity(self.rows.len()), 0, 0);
        for (&(from, sum, count), to) in self.rows.iter().zip(ends) {
            repeated += u64::from(count - 1);
            let value = if columns.unit.is_rate { sum / f64::from(count) } else { sum };
            let is_gap = to - from > longest;
            // What was counted in a line was counted in its usual time.
            let step = if is_gap { usual } else { to - from };
            filled.push((from, columns.unit.mbps(value, step)));
            if is_gap {
                gaps += 1;
                if self.options.gap == Gap::Zero {
                    filled.push((from + usual, 0.0));
                }
            }
        }
        let mut recording = Recording::from(fill(&filled, end)?);
        let beside = self.beside.said();
        self.beside.put(&mut recording);
        let said = columns.said(self.options, self.header.is_some());
        recording.header = self.header.map(|header| shortened(&header.join(",")));
        let reading = TableReading {
            columns: said,
            beside,
            repeated,
            gaps,
            usual_step: usual,
            gap: self.options.gap,
        };
        Ok((recording, reading))
    }
}

/// The median time between two lines, in ms.
fn usual_step(rows: &[(f64, f64, u32)]) -> f64 {
    let mut steps: Vec<f64> = rows.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // The median, as one outage of an hour would make the mean useless.
    let middle = (steps.len() - 1) / 2;
    *steps.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// A line without what only explains; `None`: nothing else is in it.
fn uncommented(text: &str) -> Option<&str> {
    let text = text.trim_end();
    (!text.starts_with('#')).then_some(text)
}

/// `None`: blanks.
fn separator_of(text: &str) -> Option<char> {
    // Blanks last: a date has one between its day and its hour.
    [',', ';', '\t'].into_iter().find(|separator| text.contains(*separator))
}

fn split(text: &str, separator: Option<char>) -> Vec<String> {
    let clean = |field: &str| field.trim().trim_matches('"').trim().to_owned();
    match separator {
        Some(separator) => text.split(separator).map(clean).collect(),
        None => text.split_whitespace().map(clean).collect(),
    }
}

/// Whether a first line names columns: not one of its fields begins as a number does.
fn is_header(fields: &[String]) -> bool {
    let is_number = |field: &String| field.parse::<f64>().is_ok();
    let begins = |field: &String| {
        field.starts_with(|c: char| c.is_ascii_digit())
            || field.starts_with(['+', '-', '.']) && field.len() > 1
    };
    // A single word is a broken line rather than a header: a table has two columns at least.
    fields.len() > 1 && !fields.iter().any(|field| is_number(field) || begins(field))
}

/// The beginning of a line, as an error shows it.
fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 120;
    let escaped = text.escape_debug().to_string();
    match escaped.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &escaped[..end]),
        None => escaped,
    }
}

/// Names of columns of times, the best first.
const TIMES: [&str; 14] = [
    "time_s",
    "time_ms",
    "timestamp_ms",
    "timestamp",
    "time",
    "unix_time",
    "unixtime",
    "epoch",
    "ts",
    "seconds",
    "sec",
    "datetime",
    "t",
    "seq_num",
];

impl Columns {
    fn find(
        header: Option<&[String]>,
        first: &[String],
        separator: Option<char>,
        options: &TableOptions,
    ) -> Result<Self, String> {
        let lower: Option<Vec<String>> =
            header.map(|names| names.iter().map(|name| name.to_lowercase()).collect());
        let time = match &options.time {
            Some(column) => column.place("--time", lower.as_deref(), first)?,
            None => guess_time(lower.as_deref(), first)?,
        };
        let rate = match &options.rate {
            Some(column) => column.place("--rate", lower.as_deref(), first)?,
            None => guess_rate(header, lower.as_deref(), first, time)?,
        };
        let named = |place: usize, without: &str| match header {
            Some(names) => names[place].clone(),
            None if first.len() == 2 => without.to_owned(),
            None => format!("column {}", place + 1),
        };
        let (time_name, rate_name) = (named(time, "time_s"), named(rate, "mbps"));
        let unit = match (options.unit, header) {
            (Some(unit), _) => unit,
            (None, None) if first.len() == 2 => MBIT,
            (None, None) => return Err("say what the rates count: --unit kbit/s, say".to_owned()),
            (None, Some(_)) => unit_of(&rate_name).ok_or_else(|| {
                format!("`{rate_name}` does not say its unit: add --unit kbit/s, say")
            })?,
        };
        let time_unit = time_unit_of(&time_name.to_lowercase(), &first[time]);
        Ok(Self { separator, time, rate, time_name, rate_name, unit, time_unit })
    }

    /// Time in ms, and the value of the rate's column.
    fn row(&self, fields: &[String]) -> Result<(f64, f64), String> {
        let needed = self.time.max(self.rate) + 1;
        if fields.len() < needed {
            let (found, name) = (fields.len(), &self.rate_name);
            let plural = if found == 1 { "field" } else { "fields" };
            return Err(format!(
                "has {found} {plural}; it needs {needed}, for {} and {name}",
                self.time_name
            ));
        }
        let number = |which: usize, name: &str| match fields[which].parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(format!("{name}: `{}` is not a number from 0", fields[which].escape_debug())),
        };
        let time = match self.time_unit {
            TimeUnit::Millis(millis) => number(self.time, &self.time_name)? * millis,
            TimeUnit::Date => date_millis(&fields[self.time]).ok_or_else(|| {
                let shown = fields[self.time].escape_debug();
                format!("{}: `{shown}` is not a date with its time", self.time_name)
            })?,
        };
        Ok((time, number(self.rate, &self.rate_name)?))
    }

    /// What was guessed: nothing where the table is one of ours.
    fn said(&self, options: &TableOptions, has_header: bool) -> Option<String> {
        let ours = self.time_name.eq_ignore_ascii_case("time_s")
            && self.rate_name.eq_ignore_ascii_case("mbps");
        let asked = options.time.is_some() && options.rate.is_some() && options.unit.is_some();
        if asked || ours && (has_header || self.separator == Some(',')) {
            return None;
        }
        let time = match self.time_unit {
            TimeUnit::Date => "date and time",
            TimeUnit::Millis(1000.0) => "in seconds",
            TimeUnit::Millis(1.0) => "in ms",
            TimeUnit::Millis(millis) if millis < 1e-4 => "in ns",
            TimeUnit::Millis(_) => "in us",
        };
        let (when, what) = (&self.time_name, &self.rate_name);
        Some(format!("time: `{when}`, {time}; rate: `{what}`, {}", self.unit.name))
    }
}

impl Column {
    fn place(
        &self,
        option: &str,
        header: Option<&[String]>,
        first: &[String],
    ) -> Result<usize, String> {
        match (self, header) {
            (Self::Number(number), _) if *number <= first.len() => Ok(number - 1),
            (Self::Number(number), _) => {
                Err(format!("{option} {number}: the table has {} columns", first.len()))
            }
            (Self::Name(name), None) => {
                Err(format!("{option} {name}: the table has no header; give the column's number"))
            }
            (Self::Name(name), Some(header)) => {
                let wanted = name.to_lowercase();
                let place = header.iter().position(|column| *column == wanted);
                place.filter(|place| *place < first.len()).ok_or_else(|| {
                    let names = shortened(&header.join(","));
                    format!("{option} {name}: no such column; there are {names}")
                })
            }
        }
    }
}

fn guess_time(header: Option<&[String]>, first: &[String]) -> Result<usize, String> {
    let Some(header) = header else {
        if first.len() == 2 {
            return Ok(0);
        }
        let found = first.len();
        let plural = if found == 1 { "field" } else { "fields" };
        return Err(format!(
            "has {found} {plural} and no header: time_s,mbps is wanted, or say which they are: --time 1 --rate 2 --unit kbit/s"
        ));
    };
    let known = TIMES.iter().find_map(|name| header.iter().position(|column| column == name));
    let alike = || header.iter().position(|column| column.contains("time"));
    known.or_else(alike).filter(|place| *place < first.len()).ok_or_else(|| {
        let names = shortened(&header.join(","));
        format!("no column of `{names}` looks like a time: say which it is with --time")
    })
}

/// What columns of rates are called.
fn is_rate(name: &str) -> bool {
    let rate =
        ["mbps", "kbps", "gbps", "bitrate", "throughput", "bandwidth", "goodput", "mbit", "kbit"];
    name == "rate" || name == "bw" || name == "bps" || rate.iter().any(|part| name.contains(part))
}

fn guess_rate(
    header: Option<&[String]>,
    lower: Option<&[String]>,
    first: &[String],
    time: usize,
) -> Result<usize, String> {
    let (Some(header), Some(lower)) = (header, lower) else {
        return if first.len() == 2 {
            Ok(1 - time.min(1))
        } else {
            Err("say which column is the rate: --rate".to_owned())
        };
    };
    let all: Vec<usize> = (0..lower.len().min(first.len()))
        .filter(|at| *at != time && is_rate(&lower[*at]))
        .collect();
    // A recording of both directions.
    let down: Vec<usize> = all
        .iter()
        .copied()
        .filter(|at| ["dl", "down"].iter().any(|part| lower[*at].starts_with(part)))
        .collect();
    match (all.as_slice(), down.as_slice()) {
        ([one], _) | (_, [one]) => Ok(*one),
        ([], _) => {
            let names = shortened(&header.join(","));
            Err(format!("no column of `{names}` looks like a rate: say which it is with --rate"))
        }
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|at| header[*at].as_str()).collect();
            let names = shortened(&names.join(", "));
            Err(format!("each of {names} could be the rate: choose one with --rate"))
        }
    }
}

/// The unit that a column's name says; of `MB/s` and the like it is not certain.
fn unit_of(name: &str) -> Option<RateUnit> {
    let lower = name.to_lowercase();
    let has = |part: &&str| {
        name.contains(part) || part.chars().all(|c| !c.is_uppercase()) && lower.contains(part)
    };
    let parts: [(&str, &[&str]); 7] = [
        ("Mbyte/s", &["MBps", "mbyte/s"]),
        ("kbyte/s", &["kBps", "KBps", "kbyte/s"]),
        ("Gbit/s", &["gbps", "gbit"]),
        ("Mbit/s", &["mbps", "mbit"]),
        // The public sets of Irish 5G and 4G do not say it.
        ("kbit/s", &["kbps", "kbit", "dl_bitrate", "ul_bitrate"]),
        ("byte/s", &["bytes_per_second", "byte/s"]),
        ("bit/s", &["bits_per_second", "bit/s", "bps"]),
    ];
    parts.iter().find(|(_, parts)| parts.iter().any(has)).and_then(|(unit, _)| unit.parse().ok())
}

fn time_unit_of(name: &str, first: &str) -> TimeUnit {
    if date_millis(first).is_some() {
        return TimeUnit::Date;
    }
    let value = first.parse::<f64>().unwrap_or_default();
    let ends = |parts: &[&str]| parts.iter().any(|part| name.ends_with(part));
    match () {
        () if ends(&["_ms", "(ms)", "millis"]) => TimeUnit::Millis(1.0),
        () if ends(&["_us", "(us)", "micros"]) => TimeUnit::Millis(1e-3),
        () if ends(&["_ns", "(ns)", "nanos"]) => TimeUnit::Millis(1e-6),
        () if name == "time_s" || ends(&["(s)"]) => TimeUnit::Millis(1000.0),
        // Times since 1970: the number says the unit.
        // The bounds are years: 1e11 ms were in 1973, and 1e11 s are in the year 5138.
        () if value > 1e17 => TimeUnit::Millis(1e-6),
        () if value > 1e14 => TimeUnit::Millis(1e-3),
        () if value > 1e11 => TimeUnit::Millis(1.0),
        () => TimeUnit::Millis(1000.0),
    }
}

/// Milliseconds since 1970 of year, month, day, hour, minute and second, whatever stands between them.
fn date_millis(text: &str) -> Option<f64> {
    let numbers: Vec<&str> =
        text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    let (whole, part) = match numbers.as_slice() {
        [whole @ .., part] if numbers.len() == 7 => (whole, Some(*part)),
        whole if numbers.len() == 6 => (whole, None),
        _ => return None,
    };
    let value = |which: usize| whole[which].parse::<i64>().ok();
    let (year, month, day) = (value(0)?, value(1)?, value(2)?);
    let (hour, minute, second) = (value(3)?, value(4)?, value(5)?);
    let is_date =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days of the Gregorian calendar, with years that begin in March.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let part = part.map_or(Some(0.0), |digits| format!("0.{digits}").parse::<f64>().ok())?;
    Some((seconds as f64 + part) * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::csv;
    use super::*;

    fn with(text: &str, options: &TableOptions) -> Result<(Arc<Trace>, TableReading), TraceError> {
        read("t", text.as_bytes(), options).map(|(recording, reading)| (recording.trace, reading))
    }

    fn millis(text: &str) -> Vec<u32> {
        with(text, &TableOptions::default()).unwrap().0.millis().to_vec()
    }

    fn said(text: &str) -> String {
        with(text, &TableOptions::default()).unwrap_err().to_string()
    }

    fn options(time: &str, rate: &str, unit: &str) -> TableOptions {
        let column = |text: &str| Some(text.parse().unwrap());
        let unit = Some(unit.parse().unwrap());
        TableOptions { time: column(time), rate: column(rate), unit, gap: Gap::Hold }
    }

    /// Length in s, and mean rate in Mbit/s.
    fn figures(text: &str, options: &TableOptions) -> (f64, f64, String) {
        let (trace, reading) = with(text, options).unwrap();
        let seconds = trace.period().as_secs_f64();
        let mbps = trace.millis().len() as f64 * 0.012 / seconds;
        (seconds, (mbps * 100.0).round() / 100.0, reading.to_string())
    }

    #[test]
    fn rates_become_opportunities() {
        assert_eq!(millis("time_s,mbps\n0,12\n0.002,24\n"), [1, 2, 3, 3, 4, 4]);
        assert_eq!(millis("0,6\r\n0.003, 6 \r\n\r\n\n"), [2, 4, 6], "half packets go on");
        assert_eq!(millis("TIME_S,Mbps\n0,12\n0.001,12"), [1, 2]);
        assert_eq!(millis("\u{feff}time_s,mbps\r\n0,12\r\n0.001,12"), [1, 2], "as Excel writes it");
        assert_eq!(millis("\u{feff}0,12\n0.001,12"), [1, 2]);
        assert_eq!(millis("# of a phone\ntime_s,mbps\n0,12\n# stopped\n0.001,12"), [1, 2]);
    }

    #[test]
    fn any_separator_will_do() {
        for separator in [", ", ";", "\t", " ", "   "] {
            let text = format!("0{separator}12\n0.002{separator}24\n");
            assert_eq!(millis(&text), [1, 2, 3, 3, 4, 4], "{separator:?}");
        }
        assert_eq!(millis("\"time_s\";\"mbps\"\n0;12\n0.001;12"), [1, 2]);
    }

    #[test]
    fn columns_units_and_times_are_guessed_from_the_header() {
        let guessed = TableOptions::default();
        let phone = "Timestamp,Longitude,DL_bitrate,UL_bitrate\n2019.12.16_13.40.04,-8.5,2000,1\n\
                     2019.12.16_13.40.05,-8.5,1000,1\n2019.12.16_13.40.05,-8.5,3000,1\n2019.12.16_13.40.06,-8.5,2000,1\n";
        let (seconds, mbps, reading) = figures(phone, &guessed);
        assert_eq!((seconds, mbps), (3.0, 2.0));
        assert_eq!(
            reading,
            "time: `Timestamp`, date and time; rate: `DL_bitrate`, kbit/s; 1 line has the time of another: their \
             mean counts"
        );
        let unix = "timestamp_ms,throughput_kbps\n1700000000500,12000\n1700000001500,24000\n";
        assert_eq!(figures(unix, &guessed).1, 18.0);
        assert_eq!(figures("ts,bps\n1700000000,12000000\n1700000001,24000000\n", &guessed).1, 18.0);
        let both = "seq_num,A_throughput_mbps,B_throughput_mbps\n0,25.7,53.4\n1,65.0,82.3\n";
        assert_eq!(
            said(both),
            "t, line 2: each of A_throughput_mbps, B_throughput_mbps could be the rate: choose one with --rate"
        );
        let chosen = TableOptions { rate: Some("b_throughput_mbps".parse().unwrap()), ..guessed };
        assert_eq!(figures(both, &chosen).1, 67.85);
    }

    #[test]
    fn bytes_are_not_taken_for_bits() {
        let unit = |text: &str| text.parse::<RateUnit>().unwrap().name;
        assert_eq!(
            ["Mbps", "MBPS", "MBps", "kBps", "bps"].map(unit),
            ["Mbit/s", "Mbit/s", "Mbyte/s", "kbyte/s", "bit/s"]
        );
        let named = |name: &str| unit_of(name).map(|unit| unit.name);
        assert_eq!(named("rate_MBps"), Some("Mbyte/s"));
        assert_eq!(named("Rate (Mbps)"), Some("Mbit/s"));
        assert_eq!(named("THROUGHPUT_KBPS"), Some("kbit/s"));
        assert_eq!(named("bytes_per_second"), Some("byte/s"));
        assert_eq!(named("rate MB/s"), None);
    }

    #[test]
    fn counts_are_spread_over_their_lines() {
        // As the Ghent logs: time in ms, ..., bytes, length of the line in ms.
        let text = "1453121790686 0 51.0 3.7 1250000 1000\n1453121791686 1001 51.0 3.7 2500000 1000\n\
                    1453121792686 2002 51.0 3.7 625000 1000\n";
        assert_eq!(figures(text, &options("1", "5", "bytes")).1, 11.67);
        let packets = options("1", "2", "packets");
        assert_eq!(with("0 1000 x\n1 2000 x\n", &packets).unwrap().0.millis().len(), 3000);
    }

    #[test]
    fn gaps_are_held_or_empty_and_said() {
        let text = "time_s,mbps\n0,12\n1,12\n2,12\n9,24\n10,24\n";
        let (seconds, mbps, reading) = figures(text, &TableOptions::default());
        assert_eq!((seconds, mbps), (11.0, 14.18));
        assert!(reading.ends_with("held (--gap zero: nothing)"), "{reading}");
        let zero = TableOptions { gap: Gap::Zero, ..TableOptions::default() };
        let (seconds, mbps, reading) = figures(text, &zero);
        assert_eq!((seconds, mbps), (11.0, 7.64));
        assert_eq!(reading, "1 gap between lines of usually 1 s, in which nothing is delivered");
    }

    #[test]
    fn mistakes_are_named_with_line_and_field() {
        assert_eq!(said("0,1\n0.1,nan\n"), "t, line 2: mbps: `nan` is not a number from 0");
        assert_eq!(said("0,-3\n"), "t, line 1: mbps: `-3` is not a number from 0");
        assert_eq!(said("0,inf\n"), "t, line 1: mbps: `inf` is not a number from 0");
        assert_eq!(said("x,1\n"), "t, line 1: time_s: `x` is not a number from 0");
        assert_eq!(said("time_s,mbps\n-1,1\n"), "t, line 2: time_s: `-1` is not a number from 0");
        assert_eq!(
            said("0,1\n1,1\n0.5,1\n"),
            "t, line 3: time_s: `0.5` does not come after the time before it"
        );
        assert_eq!(said("0,1\n\n1,1\n"), "t, line 2: empty line in the middle");
        assert_eq!(
            said("0,1\n1e9,1\n"),
            "t, line 2: time_s: `1e9` is more than 49 days after the first"
        );
        assert_eq!(said(&"1".repeat(9000)), "t, line 1: longer than 8192 bytes");
        for text in ["", "\n", "0,1\n", "0,1\n0,2\n"] {
            assert!(said(text).contains("at least two lines"), "{text:?}");
        }
        assert!(
            said("time_s,mbps\n").ends_with("has a header (time_s,mbps) and no lines with numbers")
        );
        assert_eq!(said("0,0\n1,0\n"), "t: the rates do not add up to a single packet");
        assert!(said("0,1e300\n1,0\n").contains("more than 50000000"), "and memory is bounded");
        assert!(said("0,1e300\n1e-320,0\n").contains('t'), "no panic");
        assert!(said("0,1,2\n").contains("say which they are: --time 1 --rate 2"));
        assert_eq!(
            said("time,throughput\n0,1\n"),
            "t, line 2: `throughput` does not say its unit: add --unit kbit/s, say"
        );
        assert!(said("when,speed\n0,1\n").contains("no column of `when,speed` looks like a time"));
        let missing = TableOptions { rate: Some("x".parse().unwrap()), ..TableOptions::default() };
        assert_eq!(
            with("time_s,mbps\n0,1\n", &missing).unwrap_err().to_string(),
            "t, line 2: --rate x: no such column; there are time_s,mbps"
        );
        assert_eq!(
            with("0,1\n", &options("1", "7", "mbps")).unwrap_err().to_string(),
            "t, line 1: --rate 7: the table has 2 columns"
        );
        assert!("0".parse::<Column>().is_err() && "furlongs".parse::<RateUnit>().is_err());
    }

    #[test]
    fn rates_of_a_program_are_a_trace() {
        let trace = trace_of_rates(&[5.0, 5.002], &[12.0, 24.0]).unwrap();
        assert_eq!(trace.millis(), [1, 2, 3, 3, 4, 4]);
        for (times, rates, problem) in [
            (&[0.0][..], &[1.0][..], "1 times and 1 rates"),
            (&[0.0, 1.0], &[1.0], "2 times and 1 rates"),
            (&[0.0, 0.0], &[1.0, 1.0], "time 1 is 0, not after the one before it"),
            (&[0.0, f64::NAN], &[1.0, 1.0], "time 1 is NaN"),
            (&[0.0, 1.0], &[1.0, -1.0], "rate 1 is -1, not a number from 0"),
            (&[0.0, 1e9], &[1.0, 1.0], "longer than 49 days"),
            (&[0.0, 1.0], &[0.0, 0.0], "do not add up to a single packet"),
        ] {
            let said = trace_of_rates(times, rates).unwrap_err();
            assert!(said.contains(problem), "{said}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_millis("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(date_millis("2024-02-29T12:30:15.250Z"), Some(1_709_209_815_250.0));
        assert_eq!(date_millis("2019.12.16_13.40.04"), Some(1_576_503_604_000.0));
        for text in ["2019-13-01 00:00:00", "12", "2019-12-16", "x", "2019-12-16 24:00:00"] {
            assert_eq!(date_millis(text), None, "{text}");
        }
    }

    fn again(text: &str) -> Arc<Trace> {
        with(text, &TableOptions::default()).unwrap().0
    }

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    /// Some milliseconds with none, one or several opportunities.
    fn uneven() -> Trace {
        trace((1..20_000).flat_map(|ms| std::iter::repeat_n(ms, (ms * ms / 7 % 5) as usize)))
    }

    #[test]
    fn bins_of_a_millisecond_lose_nothing() {
        let trace = uneven();
        assert_eq!(*again(&csv::write(&trace, 1)), trace);
    }

    #[test]
    fn what_was_read_is_written_again() {
        for bin in [7, 10, 100, 333] {
            let text = csv::write(&uneven(), bin);
            let (rows, others) = (text.lines(), csv::write(&again(&text), bin));
            let whole = rows.clone().count() - 2;
            assert!(rows.take(whole).eq(others.lines().take(whole)), "{bin}");
        }
    }
}
