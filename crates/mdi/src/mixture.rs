//! Which of several tables explains best what happens: for models learnt with several numbers of
//! users, when it is unknown how many there are.

use std::sync::Arc;

use crate::Table;

/// Tables of one teacher that compete. Each is charged, epoch by epoch, for how unlikely it thought
/// the delay that came (minus the logarithm of its probability); charges fade by a share of 2^-12
/// per epoch, that is over about twenty seconds. The cheapest is taken.
#[derive(Debug, Clone)]
pub(crate) struct Mixture {
    tables: Vec<Arc<Table>>,
    charges: Vec<u64>,
    cheapest: usize,
}

/// By which share charges fade per epoch, as a power of two.
const FADE: u32 = 12;

impl Mixture {
    /// Tables with the same states, at least one.
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Self {
        Self { charges: vec![0; tables.len()], tables, cheapest: 0 }
    }

    /// The walk was in `state`, and the delay number `delay` came.
    pub(crate) fn observe(&mut self, state: u32, delay: u32) {
        if self.tables.len() < 2 {
            return;
        }
        for (table, charge) in self.tables.iter().zip(&mut self.charges) {
            *charge -= *charge >> FADE;
            *charge += u64::from(table.surprise(state, delay));
        }
        let cheapest = (0..self.charges.len()).min_by_key(|index| self.charges[*index]);
        self.cheapest = cheapest.unwrap_or(0);
    }

    /// The table that explains the last epochs best, and its number.
    pub(crate) fn cheapest(&self) -> (usize, &Table) {
        (self.cheapest, &self.tables[self.cheapest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absolute, Counts, Draws, States, TableShape, TransitionCount};

    /// Two delays, one window; from each the other follows with `other` of 10.
    fn table(other: u64) -> Arc<Table> {
        let states = Absolute { d_min: 0, d_max: 1, quantization: 1, w_min: 0, w_max: 0 };
        let cell = |from: u32, to: u32, count| TransitionCount { from, to, count };
        let cells = vec![
            cell(0, 0, 10 - other),
            cell(0, 1, other),
            cell(1, 1, 10 - other),
            cell(1, 0, other),
        ];
        let states = States::Absolute(states).check().unwrap();
        Arc::new(Table::new(states, &Counts::from_cells(cells), TableShape::default()))
    }

    #[test]
    fn the_table_that_made_the_delays_is_found_and_left_again() {
        let mut mixture = Mixture::new(vec![table(2), table(5), table(8)]);
        let mut draws = Draws::seeded(1);
        let mut state = 0;
        for changes in [5, 8, 2] {
            for _ in 0..12_000 {
                let next = if draws.bits() % 10 < changes { 1 - state } else { state };
                mixture.observe(state, next);
                state = next;
            }
            assert_eq!(mixture.cheapest().0, [2, 5, 8].iter().position(|c| *c == changes).unwrap());
        }
    }

    #[test]
    fn one_table_needs_no_charges() {
        let mut mixture = Mixture::new(vec![table(2)]);
        mixture.observe(0, 1);
        assert_eq!((mixture.cheapest().0, mixture.charges[0]), (0, 0));
    }
}
