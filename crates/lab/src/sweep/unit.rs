//! Units: cells next to each other that one core runs in a few seconds, and their results.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use cellpace_report::{RunRow, run_table, write_run_table};

use crate::{LabError, PlannedRun, StackSpec, WorkClock, simulate};

use super::cells::{Cell, PARTITION_CELLS, Sweep};

/// Cells next to each other, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellRange {
    /// The first.
    pub first: u64,
    /// Behind the last.
    pub end: u64,
}

impl CellRange {
    /// How many there are.
    pub fn count(self) -> u64 {
        self.end.saturating_sub(self.first)
    }

    /// The cells of the finished file with this number, in a sweep of `cells`.
    pub fn of_partition(partition: u64, cells: u64) -> Self {
        let first = partition * PARTITION_CELLS;
        Self { first, end: (first + PARTITION_CELLS).min(cells) }
    }
}

impl Sweep {
    /// Cuts the first unit off `cells`: as many as should take `seconds` on one core, at least
    /// one, at most `most`, all of one finished file.
    pub fn cut(&self, cells: CellRange, seconds: f64, most: u64) -> CellRange {
        let partition_end = (cells.first / PARTITION_CELLS + 1) * PARTITION_CELLS;
        // Never across a finished file, so that a unit's results belong to one of them.
        let end = cells.end.min(partition_end).min(cells.first.saturating_add(most.max(1)));
        let mut left = seconds;
        let mut at = cells.first;
        while at < end && (at == cells.first || left > 0.0) {
            // The cells of a path take the same time.
            let each = self.estimate_s(at);
            let alike = self.end_of_path(at).min(end) - at;
            // At least one: a cell that takes longer than a unit should is a unit by itself.
            let wanted = (left / each).ceil().max(1.0) as u64;
            left -= each * alike.min(wanted) as f64;
            at += alike.min(wanted);
        }
        CellRange { first: cells.first, end: at }
    }

    /// The seconds of one core that these cells should take, roughly.
    pub fn estimate_of(&self, cells: CellRange) -> f64 {
        let (mut seconds, mut at) = (0.0, cells.first);
        while at < cells.end {
            let end = self.end_of_path(at).min(cells.end);
            seconds += self.estimate_s(at) * (end - at) as f64;
            at = end;
        }
        seconds
    }
}

/// The results of a unit.
#[derive(Debug)]
pub struct UnitTable {
    /// The cells that are done: all, or the first of them where the clock stopped.
    pub cells: CellRange,
    /// How many of them have an error in place of figures.
    pub errors: u64,
    /// A row a cell.
    pub table: RecordBatch,
}

impl UnitTable {
    /// Results of cells that did not run, with the reason.
    ///
    /// # Errors
    /// When the table cannot be made.
    pub fn of_failed(sweep: &Sweep, cells: CellRange, reason: &str) -> Result<Self, LabError> {
        let row = |cell: Cell| {
            let row = RunRow { request: cell.request(), result: Err(reason.to_owned()) };
            (cell, row)
        };
        Self::of(sweep, cells, (cells.first..cells.end).map(|at| row(sweep.cell(at))).collect())
    }

    fn of(sweep: &Sweep, cells: CellRange, results: Vec<(Cell, RunRow)>) -> Result<Self, LabError> {
        let (mut ids, mut leading, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (cell, row) in results {
            ids.push(cell.id);
            leading.push(cell.leading);
            rows.push(row);
        }
        let errors = rows.iter().filter(|row| row.result.is_err()).count() as u64;
        let table = run_table(sweep.leading_columns(&ids, &leading), &rows);
        Ok(Self { cells, errors, table: table.map_err(LabError::failed)? })
    }

    /// Writes the table as Parquet.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write<W: Write + Send>(&self, out: W) -> Result<W, LabError> {
        write_run_table(out, &self.table).map_err(LabError::failed)
    }
}

/// Runs cells one after the other, until the clock stops. An error of a run is a row, and so is a
/// panic; the others go on.
///
/// # Errors
/// When the table of the results cannot be made.
pub fn run_unit(sweep: &Sweep, cells: CellRange, clock: &WorkClock) -> Result<UnitTable, LabError> {
    let mut results = Vec::with_capacity(cells.count() as usize);
    for number in cells.first..cells.end {
        if clock.is_stopped() {
            break;
        }
        let cell = sweep.cell(number);
        // A cell has nothing that a panic could leave half changed: the next one is built anew.
        let run = AssertUnwindSafe(|| run_cell(&cell, clock));
        let row = match catch_unwind(run) {
            // Stopped in the middle: the cell is not in the table, and is run anew the next time.
            Ok(None) => break,
            Ok(Some(row)) => row,
            Err(panic) => failed(&cell, format!("the run ended in a panic: {}", words_of(&*panic))),
        };
        results.push((cell, row));
    }
    let done = CellRange { first: cells.first, end: cells.first + results.len() as u64 };
    UnitTable::of(sweep, done, results)
}

/// `None`: stopped by the clock.
fn run_cell(cell: &Cell, clock: &WorkClock) -> Option<RunRow> {
    let scenario = &cell.scenario;
    // Here and not when the plan is read: one of many cells that contradicts itself is a row with
    // an error.
    if let Err(error) = scenario.check().and_then(|()| scenario.check_delivers()) {
        return Some(failed(cell, error.to_string()));
    }
    match simulate(scenario, &mut (), clock) {
        Ok(outcome) => {
            let run = PlannedRun {
                cc: cell.cc.clone(),
                trace: cell.trace.clone(),
                scenario: Arc::clone(scenario),
                seed: scenario.seed,
                stack: StackSpec::Builtin,
            };
            Some(RunRow::of(&run.result(outcome?, false)))
        }
        Err(error) => Some(failed(cell, error.to_string())),
    }
}

fn failed(cell: &Cell, reason: String) -> RunRow {
    RunRow { request: cell.request(), result: Err(reason) }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
