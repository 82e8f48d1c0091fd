//! A table and its rules as 32-bit words, for runtimes that cannot read a model: the kernel,
//! Java. `docs/mdi-format.md` describes the words and the steps of a walk.

use std::sync::Arc;

use crate::{Empty, LOG2_TABLE, Levels, OutOfRange, Relative, States, Table, TableWalk};

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

    /// A walk at its beginning.
    pub fn walk(self, seed: u64) -> TableWalk {
        TableWalk::new(Arc::new(self.table), self.empty, self.out_of_range, seed)
    }
}
