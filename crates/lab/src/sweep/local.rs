//! A sweep on the cores of this machine.

use cellpace_base::Span;

use crate::parallel::run_all;
use crate::{LabError, WorkSink};

use super::cells::Sweep;
use super::folder::SweepFolder;
use super::unit::{CellRange, run_unit};

/// What a unit should take: what is lost when the program is killed.
const UNIT_S: f64 = 2.0;
/// Units for each thread at least, where there are cells enough: threads end together.
const UNITS_PER_THREAD: u64 = 8;

/// What came of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepEnd {
    /// Cells that are in the folder, those of earlier times included.
    pub done: u64,
    /// Cells that were done this time.
    pub new: u64,
    /// Cells in finished files with an error in place of figures.
    pub errors: u64,
}

/// Runs what is missing in the folder, `threads` units at a time. When the sink is cancelled, the
/// folder has what is finished, and the next call goes on from there. The sink gets the numbers of
/// cells that are done, and the share that is done of those that were missing.
///
/// # Errors
/// When results cannot be written; what is written stays.
pub fn run_sweep(
    sweep: &Sweep,
    folder: &mut SweepFolder,
    threads: usize,
    sink: &mut dyn WorkSink<u64>,
) -> Result<SweepEnd, LabError> {
    let units = units(sweep, &folder.missing(), threads as u64);
    let work = folder.work();
    let count = units.iter().copied().map(CellRange::count).sum::<u64>();
    let mut collector = ResultCollector { sweep, folder, sink, failed: None, done: 0, count };
    let run = |at: usize, clock: &crate::WorkClock| {
        let unit = run_unit(sweep, units[at], clock)
            // Written by the thread that ran it: only its cells' numbers come to the calling
            // thread.
            .and_then(|unit| SweepFolder::write_unit(&work, &unit).map(|_| unit.cells));
        Some(unit)
    };
    run_all(units.len(), threads, Span::ZERO, run, &mut collector)?;
    let ResultCollector { failed, done, .. } = collector;
    match failed {
        Some(error) => Err(error),
        None => Ok(SweepEnd {
            done: folder.done(),
            new: done,
            errors: folder.manifest().parts.iter().map(|part| part.errors).sum(),
        }),
    }
}

fn units(sweep: &Sweep, missing: &[CellRange], threads: u64) -> Vec<CellRange> {
    let cells: u64 = missing.iter().copied().map(CellRange::count).sum();
    // Small sweeps are cut finer than `UNIT_S`, or some threads would have nothing to do.
    let most = cells.div_ceil(threads.max(1) * UNITS_PER_THREAD);
    let mut units = Vec::new();
    for range in missing {
        let mut left = *range;
        while left.count() > 0 {
            let unit = sweep.cut(left, UNIT_S, most);
            left.first = unit.end;
            units.push(unit);
        }
    }
    units
}

/// Brings the results of units into the folder, on the calling thread.
struct ResultCollector<'a> {
    sweep: &'a Sweep,
    folder: &'a mut SweepFolder,
    sink: &'a mut dyn WorkSink<u64>,
    /// Why results cannot be written.
    failed: Option<LabError>,
    done: u64,
    count: u64,
}

impl WorkSink<Result<CellRange, LabError>> for ResultCollector<'_> {
    fn on_done(&mut self, _: usize, result: &Result<CellRange, LabError>) {
        let added = match result {
            Ok(cells) => self.folder.add(self.sweep, *cells).map(|()| *cells),
            Err(error) => Err(error.clone()),
        };
        match added {
            Err(error) => {
                // The first error is the cause; `is_cancelled` then stops the other units.
                self.failed.get_or_insert(error);
            }
            Ok(cells) => {
                self.done += cells.count();
                for cell in cells.first..cells.end {
                    self.sink.on_done(cell as usize, &cell);
                }
            }
        }
    }

    fn on_progress(&mut self, _: f64) {
        // By cells: `run_all` was given no virtual time that it could count.
        self.sink.on_progress(self.done as f64 / self.count.max(1) as f64);
    }

    fn is_cancelled(&self) -> bool {
        self.failed.is_some() || self.sink.is_cancelled()
    }
}
