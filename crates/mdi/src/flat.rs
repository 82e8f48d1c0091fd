//! A table and its rules as 32-bit words, for runtimes that cannot read a model: the kernel,
//! Java. `docs/mdi-format.md` describes the words and the steps of a walk.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    Absolute, Axis, Empty, LOG2_TABLE, Levels, OutOfRange, Relative, States, StatesError, Table,
    Walk,
};

/// The first word.
const MAGIC: u32 = u32::from_le_bytes(*b"MDIF");

/// The second word: the version of the form.
const VERSION: u32 = 1;

/// Words in front of the arrays.
const HEADER: usize = 20;

/// Everything that a runtime needs for a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Flat {
    /// The table.
    pub table: Table,
    /// Length of an epoch, in microseconds.
    pub epoch_us: u32,
    /// What is done for transitions never seen.
    pub empty: Empty,
    /// What is done where the delay changes by more than the table knows.
    pub out_of_range: OutOfRange,
    /// What a loss leaves of the window, in 1/65536; 65536: all of it.
    pub loss_factor: u32,
}

/// Why words are not a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlatError {
    /// Something else.
    #[error("not a flat Markov table: it begins with `MDIF`")]
    NotATable,
    /// From another time.
    #[error("version {0}; this program reads {VERSION}")]
    Version(u32),
    /// Not as long as its header says.
    #[error("{words} words; the header asks for {expected}")]
    Length {
        /// Words that there are.
        words: u64,
        /// Words that there should be.
        expected: u64,
    },
    /// A bit is wrong.
    #[error("damaged: the checksum is {found:08x} and should be {expected:08x}")]
    Checksum {
        /// What the words give.
        found: u32,
        /// What stands at the end.
        expected: u32,
    },
    /// A word with a value that it cannot have.
    #[error("word {word}: {reason}")]
    Word {
        /// Its number, from 0.
        word: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The states.
    #[error(transparent)]
    States(#[from] StatesError),
}

impl Flat {
    /// The words, each four bytes, the lowest first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let table = &self.table;
        let mut words = vec![MAGIC, VERSION];
        words.extend(match table.states() {
            States::Absolute(it) => [0, it.d_min, it.d_max, it.quantization, it.w_min, it.w_max, 1],
            // Both ends of an axis fit, see `Axis::new`.
            States::Relative(Relative { d, w }) | States::Levels(Levels { d, w }) => {
                let kind = if matches!(table.states(), States::Levels(_)) { 2 } else { 1 };
                let word = |value: i64| value as i32 as u32;
                let (d, w) = ([d.min(), d.max(), d.step()], [w.min(), w.max(), w.step()]);
                let [a, b, c] = d.map(word);
                let [e, f, g] = w.map(word);
                [kind, a, b, c, e, f, g]
            }
        });
        let empty = match self.empty {
            Empty::Near => 0,
            Empty::Paper => 1,
            Empty::Code => 2,
        };
        words.extend([self.epoch_us, empty, self.out_of_range.factor, self.out_of_range.add]);
        words.extend([self.loss_factor, table.states().delays(), table.states().windows()]);
        words.extend([table.origins.len() as u32, table.windows.len() as u32]);
        words.resize(HEADER, 0);
        words.extend(&LOG2_TABLE);
        words.extend(&table.blocks);
        words.extend(&table.origins);
        words.extend(&table.by_window);
        words.extend(&table.starts);
        words.extend(table.windows.iter().map(|window| u32::from(*window)));
        words.extend(&table.limits);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// When the bytes are no table or a word has a value that would lead a walk astray.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FlatError> {
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        if words.first() != Some(&MAGIC) {
            return Err(FlatError::NotATable);
        }
        match words.get(1) {
            Some(&VERSION) | None => {}
            Some(&other) => return Err(FlatError::Version(other)),
        }
        let length = |expected| FlatError::Length { words: bytes.len() as u64 / 4, expected };
        let header = words.get(..HEADER).ok_or(length(HEADER as u64 + 1))?;
        let [delays, windows, origins, entries] = [14, 15, 16, 17].map(|word| header[word]);
        let [n, e, d] = [origins, entries, delays].map(u64::from);
        let expected = HEADER as u64 + LOG2_TABLE.len() as u64 + (d + 1) + 3 * n + 1 + 2 * e + 1;
        if words.len() as u64 != expected || !bytes.len().is_multiple_of(4) {
            return Err(length(expected));
        }
        let (content, sum) = (&bytes[..bytes.len() - 4], words[words.len() - 1]);
        let found = crc32fast::hash(content);
        if found != sum {
            return Err(FlatError::Checksum { found, expected: sum });
        }
        let states = states(header)?;
        if (states.delays(), states.windows()) != (delays, windows) {
            return Err(FlatError::Word { word: 14, reason: "the ranges have another size" });
        }
        let mut rest = &words[HEADER..];
        if take(&mut rest, LOG2_TABLE.len()) != LOG2_TABLE {
            return Err(FlatError::Word { word: HEADER, reason: "other logarithms" });
        }
        let table = Table {
            states,
            blocks: take(&mut rest, delays as usize + 1).to_vec(),
            origins: take(&mut rest, origins as usize).to_vec(),
            by_window: take(&mut rest, origins as usize).to_vec(),
            starts: take(&mut rest, origins as usize + 1).to_vec(),
            // Not part of the form: they only choose among several tables.
            surprises: vec![0; origins as usize],
            windows: take(&mut rest, entries as usize).iter().map(|word| *word as u16).collect(),
            limits: take(&mut rest, entries as usize).to_vec(),
        };
        table.check().map_err(|reason| FlatError::Word { word: HEADER + 257, reason })?;
        Ok(Self {
            table,
            epoch_us: header[9],
            empty: match header[10] {
                0 => Empty::Near,
                1 => Empty::Paper,
                2 => Empty::Code,
                _ => return Err(FlatError::Word { word: 10, reason: "no such procedure" }),
            },
            out_of_range: OutOfRange { factor: header[11], add: header[12] },
            loss_factor: header[13],
        })
    }
}

fn states(header: &[u32]) -> Result<States, FlatError> {
    let signed = |word: usize| i64::from(header[word] as i32);
    let states = match header[2] {
        0 => States::Absolute(Absolute {
            d_min: header[3],
            d_max: header[4],
            quantization: header[5],
            w_min: header[6],
            w_max: header[7],
        }),
        1 => States::Relative(Relative {
            d: Axis::new("delay", signed(3), signed(4), signed(5))?,
            w: Axis::new("window", signed(6), signed(7), signed(8))?,
        }),
        2 => States::Levels(Levels {
            d: Axis::new("delay", signed(3), signed(4), signed(5))?,
            w: Axis::new("window", signed(6), signed(7), signed(8))?,
        }),
        _ => return Err(FlatError::Word { word: 2, reason: "no such kind of states" }),
    };
    Ok(states.check()?)
}

/// Splits off the first `count` words; the caller has checked that there are as many.
fn take<'a>(rest: &mut &'a [u32], count: usize) -> &'a [u32] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

impl Flat {
    /// A walk at its beginning.
    pub fn walk(self, seed: u64) -> Walk {
        Walk::new(Arc::new(self.table), self.empty, self.out_of_range, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Counts, Shape};
    use crate::{VectorEvent, VectorStep, test_vector};
    use proptest::prelude::*;

    fn flat(cells: &[(u32, u32, u64)], kind: u8) -> Flat {
        let d = Axis::new("delay", -10_000, 10_000, 2000).unwrap();
        let w = Axis::new("window", -20_000, 20_000, 2000).unwrap();
        let states = match kind {
            0 => States::Absolute(Absolute {
                d_min: 20,
                d_max: 62,
                quantization: 2,
                w_min: 0,
                w_max: 9,
            }),
            1 => States::Relative(Relative { d, w }),
            _ => {
                let d = Axis::new("delay", 0, 1000, 100).unwrap();
                States::Levels(Levels { d, w })
            }
        };
        let most = states.len() - 1;
        let cells = cells.iter().map(|&(from, to, count)| Cell {
            from: from.min(most),
            to: to.min(most),
            count,
        });
        let counts = Counts::from_cells(cells.collect());
        Flat {
            table: Table::new(states, &counts, Shape::default()),
            epoch_us: 5000,
            empty: Empty::Near,
            out_of_range: OutOfRange::default(),
            loss_factor: 45_875,
        }
    }

    fn cells() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
        prop::collection::vec((0_u32..231, 0_u32..231, 1_u64..100), 0..300)
    }

    /// With its checksum made right.
    fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
        let content = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..content]);
        bytes[content..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_no_table_is_said() {
        let good = flat(&[(115, 115, 3)], 1).to_bytes();
        let said = |bytes: &[u8]| Flat::from_bytes(bytes).unwrap_err().to_string();
        let changed = |word: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
            summed(bytes)
        };
        assert_eq!(said(b""), "not a flat Markov table: it begins with `MDIF`");
        assert_eq!(said(&changed(1, 9)), "version 9; this program reads 1");
        assert!(said(&good[..good.len() - 4]).ends_with("words; the header asks for 296"));
        assert!(said(&changed(16, u32::MAX)).contains("the header asks for"));
        assert!(said(&changed(2, 7)).starts_with("word 2: no such"));
        assert!(said(&changed(5, 0)).contains("the step must be above 0"));
        assert!(said(&changed(10, 3)).starts_with("word 10"));
        let last_window = good.len() / 4 - 3;
        assert!(said(&changed(last_window, 21)).ends_with("a window beyond the range"));
        let mut flipped = good.clone();
        flipped[100] ^= 1;
        assert!(said(&flipped).starts_with("damaged"));
    }

    #[test]
    fn a_test_vector_visits_everything() {
        let cells: Vec<_> = (0..231).flat_map(|s| [(s, s, 5), (s, (s * 7) % 231, 2)]).collect();
        let vector = test_vector(&flat(&cells, 1), 1, 2000);
        let is_set = |step: &VectorStep| matches!(step.event, VectorEvent::Set { .. });
        assert!(vector.iter().filter(|step| is_set(step)).count() > 10);
        assert_eq!(vector, test_vector(&flat(&cells, 1), 1, 2000));
        let mut windows: Vec<_> = vector.iter().map(|step| step.window).collect();
        windows.sort_unstable();
        windows.dedup();
        assert!(windows.len() > 200, "{}", windows.len());
    }

    proptest! {
        #[test]
        fn the_words_lead_the_same_walk(
            cells in cells(),
            kind in 0_u8..3,
            seed in any::<u64>(),
        ) {
            let flat = flat(&cells, kind);
            let read = Flat::from_bytes(&flat.to_bytes()).unwrap();
            prop_assert_eq!(read.to_bytes(), flat.to_bytes());
            prop_assert_eq!(test_vector(&read, seed, 50), test_vector(&flat, seed, 50));
        }

        #[test]
        fn no_changed_word_leads_a_walk_astray(
            cells in cells(),
            word in any::<prop::sample::Index>(),
            value in any::<u32>(),
            seed in any::<u64>(),
        ) {
            let mut bytes = flat(&cells, 1).to_bytes();
            let at = 4 * word.index(bytes.len() / 4);
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            if let Ok(read) = Flat::from_bytes(&summed(bytes)) {
                test_vector(&read, seed, 50);
            }
        }
    }
}
