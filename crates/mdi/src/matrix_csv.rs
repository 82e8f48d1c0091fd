//! Matrices as CSV: the layout of the 2021 code (docs/spec/mdi.md 3), read and
//! written, and plain rows of probabilities for absolute states, written only.

use std::fmt::Write;

use thiserror::Error;

use crate::{
    About, Axis, Cell, Counts, FileError, Model, Part, Relative, States, StatesError, normalise,
};

/// What the counts of a subset that is read add up to, about: probabilities above half of its
/// inverse keep their size, smaller ones count once.
const RESOLUTION: f64 = 1e6;

/// Epoch of the original, in microseconds.
const EPOCH_US: u32 = 5000;

/// States of a matrix that is written as CSV at most; it has their square of fields.
const MOST_STATES: u32 = 4096;

const HEADER: [&str; 8] =
    ["NUM_W", "W_MIN", "W_MAX", "W_STEP", "NUM_D", "D_MIN", "D_MAX", "D_STEP"];

/// Why a matrix cannot be read or written. Lines and fields are counted from 1.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The first line is not the header.
    #[error(
        "line 1, field {field}: {name} should be a whole number and is `{found}`; a matrix begins \
         with NUM_W,W_MIN,W_MAX,W_STEP,NUM_D,D_MIN,D_MAX,D_STEP"
    )]
    Header {
        /// Its number.
        field: usize,
        /// Its meaning.
        name: &'static str,
        /// What stands there.
        found: String,
    },
    /// Too many or too few fields.
    #[error("line {line}: {found} fields, and not {expected}")]
    Fields {
        /// The line.
        line: usize,
        /// Fields found.
        found: usize,
        /// Fields that belong there.
        expected: usize,
    },
    /// A range that contradicts itself.
    #[error("line 1: {0}")]
    States(StatesError),
    /// A number of values that does not follow from the range.
    #[error("line 1: {name} is {found}, but the range has {expected} values")]
    Length {
        /// `NUM_W` or `NUM_D`.
        name: &'static str,
        /// What stands there.
        found: i64,
        /// What follows from minimum, maximum and step.
        expected: u32,
    },
    /// A field that is no probability.
    #[error("line {line}, field {field}: `{found}` is no probability")]
    Probability {
        /// The line.
        line: usize,
        /// Its field.
        field: usize,
        /// What stands there.
        found: String,
    },
    /// Too many or too few rows.
    #[error("{found} rows of probabilities, and not {expected}")]
    Rows {
        /// Rows found.
        found: usize,
        /// Rows that belong there.
        expected: usize,
    },
    /// Not a text.
    #[error("line {line}: not UTF-8")]
    Text {
        /// The line.
        line: usize,
    },
    /// A dense matrix would be huge.
    #[error(
        "a matrix of {states} x {states} numbers is too large for CSV, which has no form for what \
         was never seen (at most {MOST_STATES} states); the JSON export lists only the cells"
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

/// Why a file holds no model, in either form.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// As a model's file.
    #[error(transparent)]
    File(#[from] FileError),
    /// As a matrix.
    #[error(transparent)]
    Csv(#[from] CsvError),
}

/// A matrix begins with a number.
fn is_matrix(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    bytes.first().is_some_and(|byte| b"0123456789-+.".contains(byte))
}

impl Model {
    /// Reads a model's file or a matrix of the 2021 code, whichever it is.
    ///
    /// # Errors
    /// When it is neither.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        Ok(if is_matrix(bytes) { Self::from_matrix_csv(bytes)? } else { Self::from_bytes(bytes)? })
    }

    /// Reads a matrix of the 2021 code as a model of relative states with one part whose number
    /// of users is unknown. Probabilities become counts: about a million per subset, and
    /// whatever is above zero counts at least once. A matrix of counts reads just as well.
    ///
    /// # Errors
    /// When it is not such a matrix; the error names line and field.
    pub fn from_matrix_csv(bytes: &[u8]) -> Result<Self, CsvError> {
        let mut lines = Lines::new(bytes);
        let states = header(lines.next().unwrap_or((1, b"")))?;
        let (size, windows) = (states.len() as usize, states.windows() as usize);
        let (mut cells, mut rows) = (Vec::new(), 0);
        for (line, bytes) in lines {
            rows += 1;
            if rows > size {
                // Counted to the end, for the message.
                continue;
            }
            let row = probabilities(line, text(line, bytes)?, size)?;
            add_row(&mut cells, rows as u32 - 1, windows, &row);
        }
        if rows != size {
            return Err(CsvError::Rows { found: rows, expected: size });
        }
        let about = About { epoch_us: EPOCH_US, ..About::default() };
        let part = Part { users: 0, samples: 0, counts: Counts::from_cells(cells) };
        Ok(Self { about, states, parts: vec![part] })
    }
}

/// Counts as a matrix of probabilities.
///
/// Relative states give the layout of the 2021 code, each subset normalised with shares below
/// `prune` left out ([`normalise`]); absolute states give rows without a header, each normalised
/// as a whole, as the 2017 paper has them; levels are normalised by the subset, also without a
/// header. Numbers are as short as they can be without loss.
///
/// # Errors
/// When there are too many states, or axes that the header cannot describe.
pub fn matrix_csv(states: &States, counts: &Counts, prune: f64) -> Result<String, CsvError> {
    if states.len() > MOST_STATES {
        return Err(CsvError::TooLarge { states: states.len() });
    }
    let (mut text, block) = match states {
        States::Relative(states) => (header_of(states)?, states.w.len()),
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

fn header_of(states: &Relative) -> Result<String, CsvError> {
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

fn header((line, bytes): (usize, &[u8])) -> Result<States, CsvError> {
    let text = text(line, bytes)?;
    let mut values = [0_i64; 8];
    let mut found = 0;
    for (place, field) in fields(text).enumerate() {
        if let Some(value) = values.get_mut(place) {
            let wrong = || CsvError::Header {
                field: place + 1,
                name: HEADER[place],
                found: shortened(field),
            };
            *value = whole(field).ok_or_else(wrong)?;
        }
        found = place + 1;
    }
    if found != HEADER.len() {
        return Err(CsvError::Fields { line, found, expected: HEADER.len() });
    }
    let [num_w, w_min, w_max, w_step, num_d, d_min, d_max, d_step] = values;
    let w = axis("window", "NUM_W", num_w, [w_min, w_max, w_step])?;
    let d = axis("delay", "NUM_D", num_d, [d_min, d_max, d_step])?;
    States::Relative(Relative { d, w }).check().map_err(CsvError::States)
}

/// A whole number, also as `21.0` and `2.1e1`, of which thousandths can be had.
fn whole(field: &str) -> Option<i64> {
    let value: f64 = field.parse().ok()?;
    (value.fract() == 0.0 && value.abs() < 1e9).then_some(value as i64)
}

fn axis(
    axis: &'static str,
    name: &'static str,
    found: i64,
    [min, max, step]: [i64; 3],
) -> Result<Axis, CsvError> {
    let axis = Axis::new(axis, 1000 * min, 1000 * max, 1000 * step).map_err(CsvError::States)?;
    let expected = axis.len();
    if found == i64::from(expected) {
        Ok(axis)
    } else {
        Err(CsvError::Length { name, found, expected })
    }
}

fn probabilities(line: usize, text: &str, expected: usize) -> Result<Vec<f64>, CsvError> {
    let mut row = Vec::new();
    for (place, field) in fields(text).enumerate() {
        let value = field.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let wrong = || CsvError::Probability { line, field: place + 1, found: shortened(field) };
        row.push(value.ok_or_else(wrong)?);
    }
    match row.len() == expected {
        true => Ok(row),
        false => Err(CsvError::Fields { line, found: row.len(), expected }),
    }
}

fn add_row(cells: &mut Vec<Cell>, from: u32, windows: usize, row: &[f64]) {
    for (block, values) in row.chunks(windows).enumerate() {
        // By the largest first: the sum of finite numbers need not be finite.
        let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let sum: f64 = values.iter().map(|value| value / largest).sum();
        for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let count = (value / largest / sum * RESOLUTION).round().max(1.0) as u64;
            cells.push(Cell { from, to: (block * windows + place) as u32, count });
        }
    }
}

/// The fields of a line. A comma at the end, which some programs write, begins no field.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim();
    line.strip_suffix(',').unwrap_or(line).split(',').map(str::trim)
}

fn text(line: usize, bytes: &[u8]) -> Result<&str, CsvError> {
    std::str::from_utf8(bytes).map_err(|_| CsvError::Text { line })
}

/// What stands in a message.
fn shortened(field: &str) -> String {
    const MOST: usize = 40;
    let start: String = field.chars().take(MOST).collect();
    if start.len() < field.len() { start + "..." } else { start }
}

/// Lines with their numbers, without those that are blank.
struct Lines<'a> {
    rest: Option<&'a [u8]>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Some(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)), number: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest?;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            self.rest = end.map(|end| &rest[end + 1..]);
            self.number += 1;
            if !line.trim_ascii().is_empty() {
                return Some((self.number, line));
            }
        }
    }
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
    fn matrices_begin_with_a_number() {
        for text in ["21,-20", "\u{feff} 21", "\n-1", ".5"] {
            assert!(is_matrix(text.as_bytes()), "{text}");
        }
        for text in ["", "CELLMDI\n", "{}", "hello"] {
            assert!(!is_matrix(text.as_bytes()), "{text}");
        }
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
        let cell = |from, to, count| Cell { from, to, count };
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
        assert_eq!(error, CsvError::Text { line: 2 });
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
            let cell = |(place, count): (usize, &u64)| Cell {
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
