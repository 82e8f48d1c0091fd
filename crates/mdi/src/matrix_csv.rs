//! Matrices as CSV: the layout of the 2021 code (docs/spec/mdi.md 3), read and
//! written, and plain rows of probabilities for absolute states, written only.

use std::fmt::Write;

use thiserror::Error;

use crate::csv::{numbered_lines, shorten};
use crate::{About, Axis, Counts, Model, ModelPart, Relative, States, TransitionCount, normalise};

/// What the counts of a subset that is read add up to, about: probabilities above half of its
/// inverse keep their size, smaller ones count once.
const RESOLUTION: f64 = 1e6;

/// Epoch of the original, in microseconds.
const EPOCH_US: u32 = 5000;

/// States of a matrix that is written as CSV at most; it has their square of fields.
const MAX_STATES: u32 = 8192;

/// The fields of the first line.
const HEADER: [&str; 8] =
    ["NUM_W", "W_MIN", "W_MAX", "W_STEP", "NUM_D", "D_MIN", "D_MAX", "D_STEP"];

/// Why a matrix cannot be read or written. Lines and fields are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CsvError {
    /// A line.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A field.
    #[error("line {line}, field {field}: {reason}")]
    Field {
        /// Its line.
        line: usize,
        /// Its number.
        field: usize,
        /// What is wrong.
        reason: String,
    },
    /// Too many or too few rows.
    #[error("{found} rows of probabilities, and not {expected}")]
    Rows {
        /// Rows found.
        found: usize,
        /// Rows that belong there.
        expected: usize,
    },
    /// A dense matrix would be huge.
    #[error(
        "a matrix of {states} x {states} numbers is too large for CSV, which has no form for what \
         was never seen (at most {MAX_STATES} states); JSON lists only the cells"
    )]
    TooLarge {
        /// States of the model.
        states: u32,
    },
    /// The layout knows whole numbers only.
    #[error("the {axis} axis is not made of whole numbers, which is all that the CSV header knows")]
    NotWhole {
        /// `delay` or `window`.
        axis: &'static str,
    },
}

impl CsvError {
    fn line(line: usize, reason: impl Into<String>) -> Self {
        Self::Line { line, reason: reason.into() }
    }

    fn fields(line: usize, found: usize, expected: usize) -> Self {
        Self::line(line, format!("{found} fields, and not {expected}"))
    }
}

impl Model {
    /// Reads a matrix of the 2021 code as a model of relative states with one part whose number
    /// of users is unknown. Probabilities become counts: about a million per subset, and
    /// whatever is above zero counts at least once. A matrix of counts reads just as well.
    ///
    /// # Errors
    /// When it is not such a matrix; the error names line and field.
    pub fn from_matrix_csv(bytes: &[u8]) -> Result<Self, CsvError> {
        let lines = numbered_lines(bytes).map_err(|line| CsvError::line(line, "not UTF-8"))?;
        let mut lines = lines.filter(|(_, line)| !line.is_empty());
        let states = read_header(lines.next().unwrap_or((1, "")))?;
        let (size, windows) = (states.len() as usize, states.windows() as usize);
        let (mut cells, mut rows) = (Vec::new(), 0);
        for (line, text) in lines {
            rows += 1;
            if rows > size {
                // Counted to the end, for the message.
                continue;
            }
            let row = read_row(line, text, size)?;
            add_row(&mut cells, rows as u32 - 1, windows, &row);
        }
        if rows != size {
            return Err(CsvError::Rows { found: rows, expected: size });
        }
        let about = About { epoch_us: EPOCH_US, ..About::default() };
        let part = ModelPart { users: 0, samples: 0, counts: Counts::from_cells(cells) };
        Ok(Self { about, states, parts: vec![part] })
    }
}

fn read_header((line, text): (usize, &str)) -> Result<States, CsvError> {
    let mut values = [0_i64; 8];
    let mut found = 0;
    for (place, field) in fields(text).enumerate() {
        if let Some(value) = values.get_mut(place) {
            let wrong = || CsvError::Field {
                line,
                field: place + 1,
                reason: format!(
                    "{} should be a whole number and is `{}`; a matrix begins with {}",
                    HEADER[place],
                    shorten(field),
                    HEADER.join(",")
                ),
            };
            *value = read_whole(field).ok_or_else(wrong)?;
        }
        found = place + 1;
    }
    if found != HEADER.len() {
        return Err(CsvError::fields(line, found, HEADER.len()));
    }
    let [num_w, w_min, w_max, w_step, num_d, d_min, d_max, d_step] = values;
    let axis = |name, field, found: i64, [min, max, step]: [i64; 3]| {
        let axis = Axis::new(name, 1000 * min, 1000 * max, 1000 * step);
        let axis = axis.map_err(|error| CsvError::line(line, error.to_string()))?;
        if found == i64::from(axis.len()) {
            return Ok(axis);
        }
        let values = axis.len();
        Err(CsvError::line(line, format!("{field} is {found}, but the range has {values} values")))
    };
    let w = axis("window", "NUM_W", num_w, [w_min, w_max, w_step])?;
    let d = axis("delay", "NUM_D", num_d, [d_min, d_max, d_step])?;
    let states = States::Relative(Relative { d, w }).check();
    states.map_err(|error| CsvError::line(line, error.to_string()))
}

/// A whole number, also as `21.0` and `2.1e1`, small enough to be counted in thousandths.
fn read_whole(field: &str) -> Option<i64> {
    let value: f64 = field.parse().ok()?;
    (value.fract() == 0.0 && value.abs() < 1e9).then_some(value as i64)
}

fn read_row(line: usize, text: &str, expected: usize) -> Result<Vec<f64>, CsvError> {
    let mut row = Vec::new();
    for (place, field) in fields(text).enumerate() {
        let value = field.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        row.push(value.ok_or_else(|| CsvError::Field {
            line,
            field: place + 1,
            reason: format!("`{}` is no probability", shorten(field)),
        })?);
    }
    match row.len() == expected {
        true => Ok(row),
        false => Err(CsvError::fields(line, row.len(), expected)),
    }
}

fn add_row(cells: &mut Vec<TransitionCount>, from: u32, windows: usize, row: &[f64]) {
    for (block, values) in row.chunks(windows).enumerate() {
        // By the largest first: the sum of finite numbers need not be finite.
        let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let sum: f64 = values.iter().map(|value| value / largest).sum();
        for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let count = (value / largest / sum * RESOLUTION).round().max(1.0) as u64;
            cells.push(TransitionCount { from, to: (block * windows + place) as u32, count });
        }
    }
}

/// The fields of a line. A comma at the end, which some programs write, begins no field.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.strip_suffix(',').unwrap_or(line).split(',').map(str::trim)
}

/// Returns counts as a matrix of probabilities.
///
/// Relative states give the layout of the 2021 code, each subset normalised with shares below
/// `prune` left out ([`normalise`]); absolute states give rows without a header, each normalised
/// as a whole, as the 2017 paper has them; levels are normalised by the subset, also without a
/// header. Numbers are as short as they can be without loss.
///
/// # Errors
/// When there are too many states, or axes that the header cannot describe.
pub fn matrix_csv(states: &States, counts: &Counts, prune: f64) -> Result<String, CsvError> {
    if states.len() > MAX_STATES {
        return Err(CsvError::TooLarge { states: states.len() });
    }
    let (mut text, block) = match states {
        States::Relative(states) => (write_header(states)?, states.w.len()),
        States::Absolute(_) => (String::new(), states.len()),
        // Not of the 2021 code: a header would pass them off as relative ones.
        States::Levels(states) => (String::new(), states.w.len()),
    };
    let mut row = vec![0; states.len() as usize];
    for from in 0..states.len() {
        row.fill(0);
        for cell in counts.row(from) {
            row[cell.to as usize] = cell.count;
        }
        let shares = row.chunks(block as usize).flat_map(|block| normalise(block, prune));
        for (place, share) in shares.enumerate() {
            text.push_str(if place > 0 { "," } else { "" });
            // Writing to a text cannot fail.
            let _ = write!(text, "{share}");
        }
        text.push('\n');
    }
    Ok(text)
}

fn write_header(states: &Relative) -> Result<String, CsvError> {
    let whole = |axis: &Axis, name| {
        let values = [axis.min(), axis.max(), axis.step()];
        match values.iter().all(|value| value % 1000 == 0) {
            true => Ok(values.map(|value| value / 1000)),
            false => Err(CsvError::NotWhole { axis: name }),
        }
    };
    let [w_min, w_max, w_step] = whole(&states.w, "window")?;
    let [d_min, d_max, d_step] = whole(&states.d, "delay")?;
    let (num_w, num_d) = (states.w.len(), states.d.len());
    Ok(format!("{num_w},{w_min},{w_max},{w_step},{num_d},{d_min},{d_max},{d_step}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Absolute;
    use proptest::prelude::*;

    /// Two changes of the window, two of the delay.
    const SMALL: &str = "2,0,2,2,2,-1,0,1\n\
        0.5,0.5,0,0\n\
        0,0,0.0000001,1\n\
        0,0,0,0\n\
        1e-5,0.99999,1,0\n";

    fn cells(model: &Model) -> Vec<(u32, u32, u64)> {
        let cells = model.parts[0].counts.cells();
        cells.iter().map(|cell| (cell.from, cell.to, cell.count)).collect()
    }

    fn refused(text: &str) -> String {
        Model::from_matrix_csv(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn probabilities_become_counts_and_what_was_seen_stays_seen() {
        let model = Model::from_matrix_csv(SMALL.as_bytes()).unwrap();
        let expected = [
            (0, 0, 500_000),
            (0, 1, 500_000),
            (1, 2, 1),
            (1, 3, 1_000_000),
            (3, 0, 10),
            (3, 1, 999_990),
            (3, 2, 1_000_000),
        ];
        assert_eq!(cells(&model), expected);
        assert_eq!((model.states.delays(), model.states.windows()), (2, 2));
        assert_eq!((model.parts[0].users, model.about.epoch_us), (0, 5000));
        assert_eq!(Model::from_bytes(&model.to_bytes()), Ok(model));
    }

    #[test]
    fn spaces_blank_lines_line_ends_and_last_commas_do_not_matter() {
        let expected = Model::from_matrix_csv(SMALL.as_bytes());
        let other = SMALL.replace(',', " , ").replace('\n', ",\r\n\r\n").replace("2 ,", "2.0,");
        assert_eq!(Model::from_matrix_csv(format!("\u{feff}{other}").as_bytes()), expected);
        assert_eq!(Model::from_matrix_csv(SMALL.trim_end().as_bytes()), expected);
    }

    #[test]
    fn what_is_written_reads_back() {
        let model = Model::from_matrix_csv(SMALL.as_bytes()).unwrap();
        let counts = &model.parts[0].counts;
        let written = matrix_csv(&model.states, counts, 0.0).unwrap();
        assert!(written.starts_with("2,0,2,2,2,-1,0,1\n0.5,0.5,0,0\n"), "{written}");
        let read = Model::from_matrix_csv(written.as_bytes()).unwrap();
        let rounded = cells(&model).into_iter().map(|(from, to, count)| match count {
            // Its neighbour counted once instead of a tenth of it.
            1_000_000 if (from, to) == (1, 3) => (from, to, 999_999),
            _ => (from, to, count),
        });
        assert_eq!(cells(&read), rounded.collect::<Vec<_>>());
        let pruned = matrix_csv(&model.states, counts, 0.02).unwrap();
        assert!(pruned.ends_with("0.5,0.5,0,0\n0,0,0,1\n0,0,0,0\n0,1,1,0\n"), "{pruned}");
    }

    #[test]
    fn absolute_states_are_rows_that_sum_to_one() {
        let d = Absolute { d_min: 20, d_max: 21, quantization: 1, w_min: 0, w_max: 1 };
        let states = States::Absolute(d);
        let cell = |from, to, count| TransitionCount { from, to, count };
        let counts = Counts::from_cells(vec![cell(1, 0, 1), cell(1, 3, 3), cell(2, 2, 7)]);
        let written = matrix_csv(&states, &counts, 0.0).unwrap();
        assert_eq!(written, "0,0,0,0\n0.25,0,0,0.75\n0,0,1,0\n0,0,0,0\n");
        let large = States::Absolute(Absolute { d_max: 727, w_max: 35, ..d });
        let said = matrix_csv(&large, &counts, 0.0).unwrap_err().to_string();
        assert!(said.contains("25488 x 25488") && said.contains("JSON"), "{said}");
    }

    #[test]
    fn axes_that_the_header_cannot_describe_are_refused() {
        let (d, w) = (Axis::new("delay", 0, 500, 500), Axis::new("window", 0, 1000, 1000));
        let states = States::Relative(Relative { d: d.unwrap(), w: w.unwrap() });
        let error = matrix_csv(&states, &Counts::default(), 0.0).unwrap_err();
        assert_eq!(error, CsvError::NotWhole { axis: "delay" });
    }

    #[test]
    fn errors_name_line_and_field() {
        for (text, expected) in [
            ("", "line 1, field 1: NUM_W should be a whole number and is ``"),
            ("21,a,20,2,11,-10,10,2", "line 1, field 2: W_MIN should be a whole number and is `a`"),
            ("1,0,0", "line 1: 3 fields, and not 8"),
            ("1,0,0,1,1,0,0,1,9", "line 1: 9 fields, and not 8"),
            ("5,0,2,2,2,-1,0,1", "line 1: NUM_W is 5, but the range has 2 values"),
            ("2,0,2,0,2,-1,0,1", "line 1: the window axis 0..2 by 0: the step must be above 0"),
            ("1,0,0,1,1,0,0,1\n0.5,0.5\n", "line 2: 2 fields, and not 1"),
            ("1,0,0,1,1,0,0,1\n\n-0.5\n", "line 3, field 1: `-0.5` is no probability"),
            ("1,0,0,1,2,0,1,1\n0,inf\n", "line 2, field 2: `inf` is no probability"),
            ("1,0,0,1,2,0,1,1\n0,,\n", "line 2, field 2: `` is no probability"),
            ("1,0,0,1,1,0,0,1\n", "0 rows of probabilities, and not 1"),
            ("1,0,0,1,1,0,0,1\n1\n1\n1\n", "3 rows of probabilities, and not 1"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(expected), "{said}\n{expected}");
        }
        let error = Model::from_matrix_csv(b"1,0,0,1,1,0,0,1\n\xff\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: not UTF-8");
        assert!(refused(&"x".repeat(1 << 20)).len() < 300);
        // Would-be sizes cost nothing.
        let huge = "4000,0,3999,1,4000,0,3999,1\n0\n";
        assert_eq!(refused(huge), "line 2: 1 fields, and not 16000000");
        assert!(refused("4000,0,3999,1,5000,0,4999,1").contains("20000000 states are more"));
    }

    #[test]
    fn huge_and_tiny_numbers_keep_their_proportions() {
        let text = "2,0,1,1,1,0,0,1\n1.7e308,1.7e308\n5e-324,5e-324\n";
        let model = Model::from_matrix_csv(text.as_bytes()).unwrap();
        assert_eq!(cells(&model)[..2], [(0, 0, 500_000), (0, 1, 500_000)]);
        assert_eq!(cells(&model).len(), 4);
    }

    proptest! {
        #[test]
        fn any_counts_come_back_in_proportion(
            counts in prop::collection::vec(0_u64..2000, 36),
        ) {
            let axis = |name, steps: i64| Axis::new(name, -1000, (steps - 2) * 1000, 1000).unwrap();
            let states = States::Relative(Relative { d: axis("delay", 2), w: axis("window", 3) });
            let cell = |(place, count): (usize, &u64)| TransitionCount {
                from: place as u32 / 6,
                to: place as u32 % 6,
                count: *count,
            };
            let counts = Counts::from_cells(counts.iter().enumerate().map(cell).collect());
            let written = matrix_csv(&states, &counts, 0.0).unwrap();
            let read = Model::from_matrix_csv(written.as_bytes()).unwrap();
            let places = |counts: &Counts| -> Vec<(u32, u32)> {
                counts.cells().iter().map(|cell| (cell.from, cell.to)).collect()
            };
            prop_assert_eq!(places(&read.parts[0].counts), places(&counts));
            // The second time nothing is rounded any more but the last digit.
            let again = matrix_csv(&states, &read.parts[0].counts, 0.0).unwrap();
            let numbers = |text: &str| -> Vec<f64> {
                text.split([',', '\n']).filter_map(|field| field.parse().ok()).collect()
            };
            for (a, b) in numbers(&written).iter().zip(numbers(&again)) {
                prop_assert!((a - b).abs() <= 4e-6, "{a} {b}");
            }
        }
    }
}
