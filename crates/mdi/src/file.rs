//! The model as one file; `docs/mdi-format.md` describes it byte by byte.
//!
//! A model has exactly one form: numbers are written in their shortest way, and rows, cells,
//! parts and traces in ascending order as distances, so that a wrong order, a count of 0 or a
//! transition given twice cannot even be written down.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    About, Absolute, Axis, Counts, Levels, Model, ModelPart, Relative, States, TraceName,
    TransitionCount,
};

/// The first bytes of every file. The line end is lost where a program takes the file for text.
pub const MAGIC: [u8; 8] = *b"CELLMDI\n";

/// The version of the format that is written and read.
pub const VERSION: u16 = 1;

/// Magic, version and length.
const PREFIX: usize = 8 + 2 + 8;

/// The checksum at the end.
const SUFFIX: usize = 4;

/// The largest sum of counts or samples in a file: what a double holds exactly, so that exports
/// to JSON lose nothing.
const MAX_COUNTED: u64 = (1 << 53) - 1;

const ABSOLUTE: u8 = 0;
const RELATIVE: u8 = 1;
const LEVELS: u8 = 2;

/// Why bytes are not a model. Positions are in bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FileError {
    /// Something else.
    #[error(
        "not a Markov table: a table's file begins with `CELLMDI` (`cellpace mdi convert` makes one of \
         CSV)"
    )]
    NotATable,
    /// From another time.
    #[error("version {found}; this program reads {VERSION}")]
    Version {
        /// The version that the file names.
        found: u16,
    },
    /// Not the whole file.
    #[error("truncated at byte {at}: the file begins as one of {length} bytes")]
    Truncated {
        /// Where the file ends.
        at: usize,
        /// The length that it should have.
        length: u64,
    },
    /// More than the file.
    #[error("{extra} bytes too many: the table ends at byte {at}")]
    Trailing {
        /// Where the table ends.
        at: u64,
        /// What follows.
        extra: u64,
    },
    /// Changed after it was written.
    #[error("damaged: the checksum is {found:08x} and should be {expected:08x}")]
    Checksum {
        /// What the bytes give.
        found: u32,
        /// What stands in the file.
        expected: u32,
    },
    /// The length and the checksum are right, but not the content.
    #[error("byte {at}: {reason}")]
    Content {
        /// Where.
        at: usize,
        /// What is wrong.
        reason: String,
    },
}

impl FileError {
    fn content(at: usize, reason: impl Into<String>) -> Self {
        Self::Content { at, reason: reason.into() }
    }

    fn missing(at: usize, field: &str) -> Self {
        Self::content(at, format!("the content ends within {field}"))
    }

    fn number(at: usize, field: &str) -> Self {
        Self::content(at, format!("{field} is too large or not in its shortest form"))
    }
}

impl Model {
    /// The model as a file.
    ///
    /// Equal models give equal bytes, and reading gives back an equal model if this one keeps
    /// the promises of its types: traces sorted, parts in ascending order, each once (they are
    /// written so in any case), checked states and cells within them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + 3 * self.cells());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 8]);
        write_about(&mut out, &self.about);
        write_states(&mut out, &self.states);
        write_parts(&mut out, &self.parts);
        seal(&mut out);
        out
    }

    /// Reads a file's bytes. Memory is bounded by a small multiple of their number, whatever
    /// they say.
    ///
    /// # Errors
    /// When the bytes are no table, of another version, incomplete, damaged or contradictory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let mut reader = FileReader { bytes: checked(bytes)?, at: PREFIX };
        let about = reader.about()?;
        let states = reader.states()?;
        let parts = reader.parts(states.len())?;
        if reader.at != reader.bytes.len() {
            return Err(FileError::content(reader.at, "the content goes on behind the last part"));
        }
        Ok(Self { about, states, parts })
    }

    fn cells(&self) -> usize {
        self.parts.iter().map(|part| part.counts.cells().len()).sum()
    }
}

/// Enters the length and appends the checksum.
fn seal(out: &mut Vec<u8>) {
    let length = (out.len() + SUFFIX) as u64;
    out[10..PREFIX].copy_from_slice(&length.to_le_bytes());
    out.extend(crc32fast::hash(out).to_le_bytes());
}

/// The bytes without their checksum, which fits. What is wrong is found in the order in which it
/// explains most: a damaged file says so, rather than what the damage happens to look like.
fn checked(bytes: &[u8]) -> Result<&[u8], FileError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(FileError::NotATable);
    }
    let least = (PREFIX + SUFFIX) as u64;
    let truncated = |length| FileError::Truncated { at: bytes.len(), length };
    let version = bytes.get(8..10).and_then(|field| field.try_into().ok());
    match version.map(u16::from_le_bytes) {
        None => return Err(truncated(least)),
        Some(VERSION) => {}
        Some(found) => return Err(FileError::Version { found }),
    }
    let length = bytes.get(10..PREFIX).and_then(|field| field.try_into().ok());
    let length = length.map_or(least, u64::from_le_bytes).max(least);
    let extra = (bytes.len() as u64).checked_sub(length).ok_or(truncated(length))?;
    if extra > 0 {
        return Err(FileError::Trailing { at: length, extra });
    }
    let (content, sum) = bytes.split_last_chunk().ok_or(truncated(least))?;
    let (found, expected) = (crc32fast::hash(content), u32::from_le_bytes(*sum));
    if found == expected { Ok(content) } else { Err(FileError::Checksum { found, expected }) }
}

fn write_about(out: &mut Vec<u8>, about: &About) {
    write_text(out, &about.teacher);
    write_text(out, &about.scenario);
    write_number(out, about.seed);
    write_number(out, about.epoch_us.into());
    let mut traces: Vec<&TraceName> = about.traces.iter().collect();
    traces.sort_unstable();
    traces.dedup();
    write_number(out, traces.len() as u64);
    for trace in traces {
        write_text(out, &trace.name);
        out.extend(trace.sha256);
    }
}

fn write_states(out: &mut Vec<u8>, states: &States) {
    match states {
        States::Absolute(states) => {
            out.push(ABSOLUTE);
            let Absolute { d_min, d_max, quantization, w_min, w_max } = *states;
            for value in [d_min, d_max, quantization, w_min, w_max] {
                write_number(out, value.into());
            }
        }
        States::Relative(Relative { d, w }) | States::Levels(Levels { d, w }) => {
            out.push(if matches!(states, States::Levels(_)) { LEVELS } else { RELATIVE });
            for axis in [d, w] {
                for value in [axis.min(), axis.max(), axis.step()] {
                    write_number(out, zigzag(value));
                }
            }
        }
    }
}

fn write_parts(out: &mut Vec<u8>, parts: &[ModelPart]) {
    let mut by_users: BTreeMap<u32, Vec<&ModelPart>> = BTreeMap::new();
    for part in parts {
        by_users.entry(part.users).or_default().push(part);
    }
    write_number(out, by_users.len() as u64);
    let mut next_users = 0;
    for (users, parts) in by_users {
        write_number(out, u64::from(users) - next_users);
        next_users = u64::from(users) + 1;
        let samples = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.samples));
        write_number(out, samples);
        match parts[..] {
            [part] => write_counts(out, &part.counts),
            _ => {
                let all = parts.iter().flat_map(|part| part.counts.cells());
                write_counts(out, &Counts::from_cells(all.copied().collect()));
            }
        }
    }
}

fn write_counts(out: &mut Vec<u8>, counts: &Counts) {
    let rows = || counts.cells().chunk_by(|a, b| a.from == b.from);
    write_number(out, rows().count() as u64);
    let mut next_from = 0;
    for row in rows() {
        write_number(out, u64::from(row[0].from) - next_from);
        next_from = u64::from(row[0].from) + 1;
        write_number(out, row.len() as u64);
        let mut next_to = 0;
        for cell in row {
            let gap = u64::from(cell.to) - next_to;
            next_to = u64::from(cell.to) + 1;
            // Most transitions are seen once; those need no count.
            let often = cell.count > 1;
            write_number(out, gap << 1 | u64::from(often));
            if often {
                write_number(out, cell.count - 2);
            }
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_number(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Seven bits a byte, the lowest first; the top bit says that more follow (LEB128).
fn write_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The content of a file up to its checksum.
struct FileReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FileReader<'a> {
    fn about(&mut self) -> Result<About, FileError> {
        let teacher = self.text("the teacher")?;
        let scenario = self.text("the scenario")?;
        let seed = self.number("the seed")?;
        let epoch_us = self.small("the epoch")?;
        let traces = self.traces()?;
        Ok(About { teacher, traces, scenario, seed, epoch_us })
    }

    fn traces(&mut self) -> Result<Vec<TraceName>, FileError> {
        let count = self.number("the number of traces")?;
        let mut traces: Vec<TraceName> = Vec::new();
        for _ in 0..count {
            let at = self.at;
            let name = self.text("the name of a trace")?;
            let sha256 = self.array("the hash of a trace")?;
            let trace = TraceName { name, sha256 };
            if traces.last().is_some_and(|last| *last >= trace) {
                return Err(FileError::content(at, "the traces are not in ascending order"));
            }
            traces.push(trace);
        }
        Ok(traces)
    }

    fn states(&mut self) -> Result<States, FileError> {
        let at = self.at;
        let [kind] = self.array("the kind of states")?;
        let states = match kind {
            ABSOLUTE => self.absolute()?,
            RELATIVE => {
                let [d, w] = self.axes(at)?;
                States::Relative(Relative { d, w })
            }
            LEVELS => {
                let [d, w] = self.axes(at)?;
                States::Levels(Levels { d, w })
            }
            _ => {
                let known = "there are 0 (absolute), 1 (relative) and 2 (levels)";
                return Err(FileError::content(at, format!("states of kind {kind}; {known}")));
            }
        };
        states.check().map_err(|error| FileError::content(at, error.to_string()))
    }

    fn absolute(&mut self) -> Result<States, FileError> {
        Ok(States::Absolute(Absolute {
            d_min: self.small("the least delay")?,
            d_max: self.small("the largest delay")?,
            quantization: self.small("the quantization")?,
            w_min: self.small("the least window")?,
            w_max: self.small("the largest window")?,
        }))
    }

    fn axes(&mut self, at: usize) -> Result<[Axis; 2], FileError> {
        let mut axis = |name| {
            let min = unzigzag(self.number("the lower end of an axis")?);
            let max = unzigzag(self.number("the upper end of an axis")?);
            let step = unzigzag(self.number("the step of an axis")?);
            let axis = Axis::new(name, min, max, step);
            axis.map_err(|error| FileError::content(at, error.to_string()))
        };
        Ok([axis("delay")?, axis("window")?])
    }

    fn parts(&mut self, states: u32) -> Result<Vec<ModelPart>, FileError> {
        let count = self.number("the number of parts")?;
        let mut parts = Vec::new();
        let (mut users_end, mut samples_before, mut counted) = (0, 0, 0);
        for _ in 0..count {
            let at = self.at;
            let users = self.number("the users of a part")?.checked_add(users_end);
            let users = users.and_then(|users| u32::try_from(users).ok());
            let users = users.ok_or_else(|| FileError::number(at, "the users of a part"))?;
            users_end = u64::from(users) + 1;
            let samples = self.number("the samples of a part")?;
            samples_before = self.sum(samples_before, samples, "samples")?;
            let counts = self.counts(states, &mut counted)?;
            parts.push(ModelPart { users, samples, counts });
        }
        Ok(parts)
    }

    fn counts(&mut self, states: u32, counted: &mut u64) -> Result<Counts, FileError> {
        let rows = self.number("the number of rows")?;
        let (mut cells, mut from_end) = (Vec::new(), 0);
        for _ in 0..rows {
            let from = self.state(from_end, states)?;
            from_end = u64::from(from) + 1;
            let at = self.at;
            let count = self.number("the number of cells")?;
            if count == 0 {
                let why = "is empty; rows without transitions are left out";
                return Err(FileError::content(at, format!("the row of state {from} {why}")));
            }
            // A cell takes at least a byte, so memory grows with the bytes and not with `count`.
            cells.reserve(count.min((self.bytes.len() - self.at) as u64) as usize);
            self.row(from, count, states, counted, &mut cells)?;
        }
        Ok(Counts::from_cells(cells))
    }

    fn row(
        &mut self,
        from: u32,
        count: u64,
        states: u32,
        counted: &mut u64,
        cells: &mut Vec<TransitionCount>,
    ) -> Result<(), FileError> {
        let mut to_end = 0;
        for _ in 0..count {
            let at = self.at;
            let cell = self.number("a cell")?;
            let to = within(at, to_end, cell >> 1, states)?;
            to_end = u64::from(to) + 1;
            let count = match cell & 1 {
                0 => 1,
                _ => self.number("a count")?.saturating_add(2),
            };
            *counted = self.sum(*counted, count, "transitions")?;
            cells.push(TransitionCount { from, to, count });
        }
        Ok(())
    }

    /// The state that lies as far behind `start` as the next number says.
    fn state(&mut self, start: u64, states: u32) -> Result<u32, FileError> {
        let at = self.at;
        let gap = self.number("a state")?;
        within(at, start, gap, states)
    }

    fn sum(&self, sum: u64, more: u64, field: &'static str) -> Result<u64, FileError> {
        let sum = sum.saturating_add(more);
        if sum <= MAX_COUNTED {
            return Ok(sum);
        }
        Err(FileError::content(self.at, format!("more than {MAX_COUNTED} {field} in one file")))
    }

    fn text(&mut self, field: &'static str) -> Result<String, FileError> {
        let length = self.number(field)?;
        let at = self.at;
        let bytes = usize::try_from(length).ok().and_then(|length| self.take(length));
        let bytes = bytes.ok_or_else(|| FileError::missing(at, field))?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| FileError::content(at, format!("{field} is not UTF-8")))?;
        if text.contains(char::is_control) {
            // A terminal would obey it.
            return Err(FileError::content(at, format!("{field} has a control character in it")));
        }
        Ok(text.to_owned())
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], FileError> {
        let at = self.at;
        let bytes = self.take(N).and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| FileError::missing(at, field))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn small(&mut self, field: &'static str) -> Result<u32, FileError> {
        let at = self.at;
        u32::try_from(self.number(field)?).map_err(|_| FileError::number(at, field))
    }

    fn number(&mut self, field: &'static str) -> Result<u64, FileError> {
        let start = self.at;
        let wrong = || Err(FileError::number(start, field));
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array(field).map_err(|_| FileError::missing(start, field))?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return wrong();
            }
            value |= bits << shift;
            if byte < 0x80 {
                // A last byte of 0 would be a second way to write the same number.
                let shortest = byte > 0 || shift == 0;
                return if shortest { Ok(value) } else { wrong() };
            }
        }
        wrong()
    }
}

/// The state `gap` behind `start`, if there is one.
fn within(at: usize, start: u64, gap: u64, states: u32) -> Result<u32, FileError> {
    let state = start.saturating_add(gap);
    let known = u32::try_from(state).ok().filter(|state| *state < states);
    known.ok_or_else(|| FileError::content(at, format!("state {state} of {states}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(min: i64, max: i64, step: i64) -> Axis {
        Axis::new("delay", min, max, step).unwrap()
    }

    fn relative() -> States {
        let (d, w) = (axis(-10_000, 10_000, 2000), axis(-20_000, 20_000, 2000));
        States::Relative(Relative { d, w })
    }

    fn absolute() -> States {
        let d = Absolute { d_min: 20, d_max: 30, quantization: 2, w_min: 1, w_max: 35 };
        States::Absolute(d)
    }

    fn part(users: u32, cells: &[(u32, u32, u64)]) -> ModelPart {
        let cell = |&(from, to, count): &(u32, u32, u64)| TransitionCount { from, to, count };
        let counts = Counts::from_cells(cells.iter().map(cell).collect());
        ModelPart { users, samples: 1000, counts }
    }

    fn small() -> Model {
        let trace = |name: &str, byte| TraceName { name: name.into(), sha256: [byte; 32] };
        Model {
            about: About {
                teacher: "verus:r=2".into(),
                traces: vec![trace("channel00", 7), trace("château", 0)],
                scenario: "--rtt 20ms".into(),
                seed: u64::MAX,
                epoch_us: 5000,
            },
            states: relative(),
            parts: vec![
                part(1, &[(0, 0, 1), (0, 230, 2), (115, 115, 1 << 40), (230, 3, 300)]),
                part(3, &[]),
                part(4, &[(7, 8, 1)]),
            ],
        }
    }

    /// The file of a model whose content was changed by someone who knows the format.
    fn forged(change: impl Fn(&mut Vec<u8>)) -> Result<Model, FileError> {
        let mut bytes = small().to_bytes();
        bytes.truncate(bytes.len() - SUFFIX);
        change(&mut bytes);
        seal(&mut bytes);
        Model::from_bytes(&bytes)
    }

    /// A file with this behind the description of 231 states.
    fn forged_parts(parts: &[u8]) -> FileError {
        let mut bytes =
            Model { about: About::default(), states: relative(), parts: vec![] }.to_bytes();
        bytes.truncate(bytes.len() - SUFFIX - 1);
        bytes.extend(parts);
        seal(&mut bytes);
        Model::from_bytes(&bytes).unwrap_err()
    }

    #[test]
    fn a_model_comes_back() {
        for states in [relative(), absolute()] {
            let mut model = small();
            model.states = states;
            model.parts.retain(|part| part.users != 1 || states == relative());
            assert_eq!(Model::from_bytes(&model.to_bytes()), Ok(model));
        }
    }

    #[test]
    fn disorder_is_put_in_order() {
        let mut model = small();
        model.about.traces.reverse();
        model.about.traces.push(model.about.traces[0].clone());
        model.parts.reverse();
        assert_eq!(Model::from_bytes(&model.to_bytes()), Ok(small()));
        model.parts.push(part(4, &[(7, 8, 5), (6, 6, 1)]));
        let read = Model::from_bytes(&model.to_bytes()).unwrap();
        assert_eq!(read.parts[2].counts, part(4, &[(6, 6, 1), (7, 8, 6)]).counts);
        assert_eq!(read.samples(), 4000);
    }

    #[test]
    fn the_format_is_as_documented() {
        let model = Model {
            about: About { teacher: "copa".into(), seed: 300, epoch_us: 5000, ..About::default() },
            states: relative(),
            parts: vec![part(2, &[(1, 1, 1), (1, 70, 5)])],
        };
        let bytes = model.to_bytes();
        let content: &[u8] = &[
            4, b'c', b'o', b'p', b'a', 0, 0xac, 2, 0x88, 0x27, 0, // about
            1, 0x9f, 0x9c, 1, 0xa0, 0x9c, 1, 0xa0, 0x1f, // relative states, delay
            0xbf, 0xb8, 2, 0xc0, 0xb8, 2, 0xa0, 0x1f, // window
            1, 2, 0xe8, 7, 1, 1, 2, 2, 0x89, 1, 3, // one part
        ];
        let mut expected = b"CELLMDI\n\x01\x00".to_vec();
        expected.extend((PREFIX as u64 + content.len() as u64 + 4).to_le_bytes());
        expected.extend(content);
        assert_eq!(bytes[..bytes.len() - 4], expected);
        assert_eq!(bytes[bytes.len() - 4..], crc32fast::hash(&expected).to_le_bytes());
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        let bytes = small().to_bytes();
        let said = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err().to_string();
        assert_eq!(
            said(b""),
            "not a Markov table: a table's file begins with `CELLMDI` \
             (`cellpace mdi convert` makes one of CSV)"
        );
        assert_eq!(said(b"21,-20,20,2,11,-10,10,2\n"), said(b"CELLMDI\r\n"));
        assert_eq!(said(b"CELLMDI\n\x07\x00"), "version 7; this program reads 1");
        let end = bytes.len();
        let expected = format!("truncated at byte 100: the file begins as one of {end} bytes");
        assert_eq!(said(&bytes[..100]), expected);
        assert_eq!(said(&bytes[..9]), "truncated at byte 9: the file begins as one of 22 bytes");
        let expected = format!("2 bytes too many: the table ends at byte {end}");
        assert_eq!(said(&[&bytes[..], b"\r\n"].concat()), expected);
        let mut flipped = bytes;
        flipped[30] ^= 4;
        assert!(said(&flipped).starts_with("damaged: the checksum is "), "{}", said(&flipped));
    }

    #[test]
    fn forged_content_is_refused() {
        let said = |parts: &[u8]| forged_parts(parts).to_string();
        // Positions: 18 bytes of prefix, 5 of `about`, 17 of states.
        for (parts, expected) in [
            (&[1, 1, 9, 1, 0xe7, 1, 1, 0][..], "byte 44: state 231 of 231"),
            (&[1, 1, 9, 1, 0xe6, 1, 2, 0xcc, 3, 0], "byte 49: state 231 of 231"),
            (
                &[1, 1, 9, 1, 3, 0],
                "byte 45: the row of state 3 is empty; rows without transitions are left out",
            ),
            (&[1, 1, 9, 1, 3, 9, 0], "byte 47: the content ends within a cell"),
            (&[1, 1, 9], "byte 43: the content ends within the number of rows"),
            (&[0, 0], "byte 41: the content goes on behind the last part"),
            (&[0x80, 0], "byte 40: the number of parts is too large or not in its shortest form"),
            (
                &[2, 0xff, 0xff, 0xff, 0xff, 0xf, 0, 0, 0, 0, 0],
                "byte 48: the users of a part is too large or not in its shortest form",
            ),
        ] {
            assert_eq!(said(parts), expected);
        }
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(said(&huge).ends_with("ends within the users of a part"));
        let samples = [&[1, 1][..], &huge, &[0]].concat();
        assert!(said(&samples).ends_with("more than 9007199254740991 samples in one file"));
        let counts = [&[1, 1, 9, 1, 3, 1, 1][..], &huge].concat();
        assert!(said(&counts).ends_with("more than 9007199254740991 transitions in one file"));
        // No memory for rows and cells that cannot be there.
        let rows = [&[1, 1, 9][..], &huge].concat();
        assert!(said(&rows).ends_with("ends within a state"));
        let cells = [&[1, 1, 9, 1, 3][..], &huge].concat();
        assert!(said(&cells).ends_with("ends within a cell"));
    }

    #[test]
    fn forged_headers_are_refused() {
        let said = |change: fn(&mut Vec<u8>)| forged(change).unwrap_err().to_string();
        assert_eq!(said(|bytes| bytes[20] = 0xff), "byte 19: the teacher is not UTF-8");
        let control = "byte 19: the teacher has a control character in it";
        assert_eq!(said(|bytes| bytes[20] = 0x1b), control);
        assert_eq!(said(|bytes| bytes[20] = b'\n'), control);
        assert!(
            said(|bytes| bytes[18..20].copy_from_slice(&[0xff, 0x7f]))
                .starts_with("byte 20: the content ends within")
        );
        let swapped = forged(|bytes| {
            let text = bytes.windows(9).position(|name| name == b"channel00").unwrap();
            bytes[text..text + 9].copy_from_slice(b"zhannel00");
        });
        assert!(matches!(swapped, Err(FileError::Content { .. })), "{swapped:?}");
        // A copy of the format whose states are something else.
        let mut bytes =
            Model { about: About::default(), states: relative(), parts: vec![] }.to_bytes();
        bytes.truncate(23);
        bytes.push(3);
        seal(&mut bytes);
        let said = Model::from_bytes(&bytes).unwrap_err().to_string();
        assert_eq!(
            said,
            "byte 23: states of kind 3; there are 0 (absolute), 1 (relative) and 2 (levels)"
        );
        bytes.truncate(23);
        bytes.extend([ABSOLUTE, 20, 10, 1, 0, 35, 0]);
        seal(&mut bytes);
        let said = Model::from_bytes(&bytes).unwrap_err().to_string();
        assert!(said.starts_with("byte 23: the delay axis 20..10 by 1: "), "{said}");
        bytes.truncate(23);
        bytes.extend([RELATIVE, 3, 4, 0]);
        seal(&mut bytes);
        let said = Model::from_bytes(&bytes).unwrap_err().to_string();
        assert!(said.starts_with("byte 23: the delay axis "), "{said}");
    }

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, value);
            assert_eq!(FileReader { bytes: &bytes, at: 0 }.number("it"), Ok(value));
            assert_eq!(zigzag(unzigzag(value)), value);
        }
        for bytes in [
            &[0x80, 0][..],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            let wrong = FileError::number(0, "it");
            assert_eq!(FileReader { bytes, at: 0 }.number("it"), Err(wrong));
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_an_error() {
        let bytes = small().to_bytes();
        for end in 0..bytes.len() {
            let error = Model::from_bytes(&bytes[..end]).unwrap_err();
            let expected = match end {
                0..8 => FileError::NotATable,
                8..18 => FileError::Truncated { at: end, length: 22 },
                _ => FileError::Truncated { at: end, length: bytes.len() as u64 },
            };
            assert_eq!(error, expected);
        }
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Model::from_bytes(&flipped).is_err(), "bit {bit}");
        }
    }

    /// The one-user training of section 6.2 of the paper, at this quantization: 290 000 samples
    /// whose delay wanders, now and then jumps, and often stays where nothing was acked.
    fn at_the_size_of_the_paper(quantization: u32) -> Model {
        let states = Absolute { d_min: 20, d_max: 727, quantization, w_min: 0, w_max: 35 };
        let states = States::Absolute(states).check().unwrap();
        let mut seed = 1_u64;
        let mut draw = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % u64::from(below)) as u32
        };
        let (mut delay, mut chain) = (60_u32, Vec::new());
        for _ in 0..290_000 {
            delay = match draw(100) {
                0 => 20 + draw(700),
                1..30 => delay,
                _ => delay + draw(41) - 20.min(delay),
            };
            delay = delay.clamp(20, 727);
            let sent = draw(1 + 700 / delay).min(35);
            chain.push(crate::Sample { delay_us: delay * 1000, window: 1 << 16, sent });
        }
        let counts = Counts::of(&states, &[chain], None);
        let parts = vec![ModelPart { users: 1, samples: 290_000, counts }];
        Model { about: About::default(), states, parts }
    }

    #[test]
    fn files_at_the_size_of_the_paper_are_small() {
        // The paper's files take 2.4 GB and 620 MB (its table 2).
        for (quantization, most) in [(1, 1 << 20), (2, 1 << 20), (20, 300_000)] {
            let model = at_the_size_of_the_paper(quantization);
            let bytes = model.to_bytes();
            println!("{quantization} ms: {} cells, {} bytes", model.cells(), bytes.len());
            assert!(bytes.len() < most, "{quantization} ms: {}", bytes.len());
            assert_eq!(Model::from_bytes(&bytes), Ok(model));
        }
    }

    #[test]
    fn even_290_000_transitions_without_any_order_stay_below_a_megabyte() {
        let mut model = at_the_size_of_the_paper(1);
        let scattered = |i: u64| {
            let drawn = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (from, to) = ((drawn >> 40) % 25_488, (drawn >> 16) % 25_488);
            TransitionCount { from: from as u32, to: to as u32, count: 1 }
        };
        model.parts[0].counts = Counts::from_cells((0..290_000).map(scattered).collect());
        assert!(model.cells() > 280_000);
        assert!(model.to_bytes().len() < 1_000_000, "{}", model.to_bytes().len());
    }

    fn any_states() -> impl Strategy<Value = States> {
        let axis = || {
            (-60_i64..=0, 0_i64..60, 1_i64..5000).prop_map(|(min, max, step)| {
                Axis::new("delay", min * step, max * step, step).unwrap()
            })
        };
        let absolute = (0_u32..900, 0_u32..900, 1_u32..30, 0_u32..40, 0_u32..40);
        let absolute = absolute.prop_map(|(d_min, d, quantization, w_min, w)| {
            let (d_max, w_max) = (d_min + d, w_min + w);
            States::Absolute(Absolute { d_min, d_max, quantization, w_min, w_max })
        });
        let relative = (axis(), axis()).prop_map(|(d, w)| States::Relative(Relative { d, w }));
        prop_oneof![absolute, relative]
    }

    fn any_model() -> impl Strategy<Value = Model> {
        let trace =
            (r"\PC{0,9}", any::<[u8; 32]>()).prop_map(|(name, sha256)| TraceName { name, sha256 });
        let about = (
            r"\PC{0,20}",
            prop::collection::vec(trace, 0..4),
            r"\PC{0,20}",
            any::<u64>(),
            any::<u32>(),
        );
        let about = about.prop_map(|(teacher, mut traces, scenario, seed, epoch_us)| {
            traces.sort();
            traces.dedup();
            About { teacher, traces, scenario, seed, epoch_us }
        });
        let count = prop_oneof![3 => Just(1), 1 => 1_u64..1 << 40];
        let cells = prop::collection::vec((any::<u32>(), any::<u32>(), count), 0..40);
        let parts = prop::collection::btree_map(any::<u32>(), (0_u64..1 << 50, cells), 0..4);
        (about, any_states(), parts).prop_map(|(about, states, parts)| {
            let inside = |(from, to, count): &(u32, u32, u64)| TransitionCount {
                from: from % states.len(),
                to: to % states.len(),
                count: *count,
            };
            let part = |(users, (samples, cells)): (u32, (u64, Vec<_>))| ModelPart {
                users,
                samples,
                counts: Counts::from_cells(cells.iter().map(inside).collect()),
            };
            Model { about, states, parts: parts.into_iter().map(part).collect() }
        })
    }

    proptest! {
        #[test]
        fn any_model_comes_back(model in any_model()) {
            let bytes = model.to_bytes();
            let read = Model::from_bytes(&bytes);
            prop_assert_eq!(read.as_ref(), Ok(&model));
            prop_assert_eq!(read.unwrap().to_bytes(), bytes);
        }

        #[test]
        fn a_damaged_file_is_refused(
            model in any_model(),
            bit in any::<prop::sample::Index>(),
            end in any::<prop::sample::Index>(),
        ) {
            let bytes = model.to_bytes();
            prop_assert!(Model::from_bytes(&bytes[..end.index(bytes.len())]).is_err());
            let mut flipped = bytes;
            let bit = bit.index(8 * flipped.len());
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Model::from_bytes(&flipped).is_err());
        }

        #[test]
        fn what_reads_has_that_form_only(
            model in any_model(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = model.to_bytes();
            bytes.truncate(bytes.len() - SUFFIX);
            for (place, byte) in changes {
                let place = PREFIX + place.index(bytes.len() - PREFIX);
                bytes[place] = byte;
            }
            seal(&mut bytes);
            if let Ok(model) = Model::from_bytes(&bytes) {
                prop_assert_eq!(model.to_bytes(), bytes);
            }
        }
    }
}
