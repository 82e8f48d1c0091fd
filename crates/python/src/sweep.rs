//! Sweeps: the cells of a plan, the folder of their results, and units of work, which the layer
//! above hands to the cores of this machine or to those of a cluster.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cellpace_lab::sweep::{
    CellRange, PlanFiles, Sweep, SweepFolder, SweepPlan, UnitTable, read_results, run_sweep,
    run_unit,
};
use cellpace_lab::{ControllerSpec, FieldError, LabError, WorkClock, WorkSink, threads};
use cellpace_report::indented;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::compare::check_own_name;
use crate::error::{Failure, refused, without_python};
use crate::own::own_controller;
use crate::runs::interrupted;
use crate::table::ArrowTable;

/// A plan whose every name and unit is read.
#[pyclass(frozen, module = "cellpace._native", name = "Sweep")]
pub(crate) struct PlannedSweep {
    sweep: Arc<Sweep>,
}

#[pymethods]
impl PlannedSweep {
    /// Reads a plan in TOML, or in JSON. With `files`, no others are read; without, contents of
    /// the machine's files are kept if they are to be handed on. `own` are controllers in Python.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        text: &str,
        is_json: bool,
        files: Option<Vec<(String, Vec<u8>)>>,
        keeps_files: bool,
        own: Vec<OwnWish>,
    ) -> PyResult<Self> {
        without_python(py, move || {
            let plan = match is_json {
                true => SweepPlan::from_json(name, text),
                false => SweepPlan::from_toml(name, text),
            };
            let files = match files {
                Some(files) => PlanFiles::given(files),
                None => PlanFiles::of_machine(keeps_files),
            };
            let own = own.into_iter().map(OwnWish::read).collect::<Result<Vec<_>, _>>()?;
            let files = files.with_own(own);
            Ok(Self { sweep: Arc::new(Sweep::new(plan?, files)?) })
        })
    }

    /// The number of cells.
    #[getter]
    fn cells(&self) -> u64 {
        self.sweep.cells()
    }

    /// What identifies plan, contents of files and version.
    #[getter]
    fn identity(&self) -> String {
        self.sweep.identity()
    }

    /// The plan as JSON.
    fn plan(&self) -> String {
        self.sweep.plan().canonical()
    }

    /// The files that the plan names, with their contents.
    fn files<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>)> {
        let files = self.sweep.files().files().iter();
        let kept = files.filter_map(|(name, file)| Some((name, file.bytes.as_ref()?)));
        kept.map(|(name, bytes)| (name.clone(), PyBytes::new(py, bytes))).collect()
    }

    /// Where the first unit of the cells from `first` on ends, and how long it should take on one
    /// core, in seconds: `seconds` or, with `most` cells or behind `end`, less.
    fn cut(&self, first: u64, end: u64, seconds: f64, most: u64) -> (u64, f64) {
        let unit = self.sweep.cut(CellRange { first, end }, seconds, most);
        (unit.end, self.sweep.estimate_of(unit))
    }

    /// Runs cells, one after the other. Errors of runs are rows.
    fn run(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<SweepUnit> {
        let cells = self.checked(first, end)?;
        without_python(py, || {
            let unit = run_unit(&self.sweep, cells, &WorkClock::default())?;
            Ok(SweepUnit { unit })
        })
    }

    /// The results of cells that could not run, with the reason.
    fn failed(&self, first: u64, end: u64, reason: &str) -> PyResult<SweepUnit> {
        let cells = self.checked(first, end)?;
        let unit = UnitTable::of_failed(&self.sweep, cells, reason).map_err(refused)?;
        Ok(SweepUnit { unit })
    }
}

impl PlannedSweep {
    fn checked(&self, first: u64, end: u64) -> PyResult<CellRange> {
        match first <= end && end <= self.sweep.cells() {
            true => Ok(CellRange { first, end }),
            false => Err(refused(format!("cells {first} to {end}: there are none"))),
        }
    }
}

/// A controller in Python: its name, its source, and what makes it.
#[derive(FromPyObject)]
struct OwnWish(String, Vec<u8>, Py<PyAny>);

impl OwnWish {
    fn read(self) -> Result<(String, Vec<u8>, ControllerSpec), FieldError> {
        let Self(name, source, make) = self;
        check_own_name(&name)?;
        let spec = own_controller(&name, make, None);
        Ok((name, source, spec))
    }
}

/// Results of cells next to each other.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct SweepUnit {
    unit: UnitTable,
}

#[pymethods]
impl SweepUnit {
    /// The cells that have an error in place of figures.
    #[getter]
    fn errors(&self) -> u64 {
        self.unit.errors
    }

    /// Writes them to the folder `work` of a sweep's folder; the file appears whole or not at all.
    fn write(&self, py: Python<'_>, work: PathBuf) -> PyResult<()> {
        without_python(py, || Ok(SweepFolder::write_unit(&work, &self.unit).map(|_| ())?))
    }

    /// The bytes of that file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = without_python(py, || Ok(self.unit.write(Vec::new())?))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// The folder of a sweep's results. Others cannot open it until it is closed.
#[pyclass(frozen, module = "cellpace._native", name = "SweepFolder")]
pub(crate) struct OpenFolder {
    sweep: Arc<Sweep>,
    folder: Mutex<Option<SweepFolder>>,
}

#[pymethods]
impl OpenFolder {
    /// Opens it, or makes it, and finds what is done.
    #[new]
    fn new(py: Python<'_>, root: PathBuf, sweep: &PlannedSweep) -> PyResult<Self> {
        let sweep = Arc::clone(&sweep.sweep);
        without_python(py, move || {
            let folder = Mutex::new(Some(SweepFolder::open(&root, &sweep)?));
            Ok(Self { sweep, folder })
        })
    }

    /// Lets others open it.
    fn close(&self) {
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The first cells and the ends of what is not done.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        self.with(py, |folder, _| {
            Ok(folder.missing().iter().map(|cells| (cells.first, cells.end)).collect())
        })
    }

    /// Notes that the results of these cells are in the work folder.
    fn add(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<()> {
        self.with(py, |folder, sweep| folder.add(sweep, CellRange { first, end }))
    }

    /// Writes results that came as bytes to the work folder.
    fn write(&self, py: Python<'_>, first: u64, end: u64, bytes: Vec<u8>) -> PyResult<()> {
        let cells = CellRange { first, end };
        self.with(py, |folder, _| SweepFolder::write_unit_bytes(&folder.work(), cells, &bytes))
    }

    /// The manifest as JSON.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |folder, _| Ok(indented(folder.manifest())))
    }

    /// Runs what is missing on the cores of this machine; `report` is called with the number of
    /// cells done this time, some twenty times a second.
    fn run(&self, py: Python<'_>, jobs: Option<u16>, report: Option<Py<PyAny>>) -> PyResult<()> {
        let mut watch = CellCounter { report, ..CellCounter::default() };
        self.with(py, |folder, sweep| {
            let ended = run_sweep(sweep, folder, threads(jobs), &mut watch);
            ended.map(|_| ())
        })?;
        watch.raised.map_or(Ok(()), Err)
    }
}

impl OpenFolder {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut SweepFolder, &Sweep) -> Result<T, LabError> + Send,
    ) -> PyResult<T> {
        without_python(py, || {
            let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = folder
                .as_mut()
                .ok_or_else(|| Failure::Refused("the folder of the sweep is closed".to_owned()))?;
            Ok(work(folder, &self.sweep)?)
        })
    }
}

/// All results in the folder of a sweep, as one table.
#[pyfunction]
pub(crate) fn sweep_table(py: Python<'_>, root: PathBuf) -> PyResult<ArrowTable> {
    without_python(py, || Ok(read_results(Path::new(&root))?)).map(ArrowTable::of)
}

/// Counts cells, and stops them on Ctrl-C.
#[derive(Default)]
struct CellCounter {
    done: u64,
    asked: Option<Instant>,
    report: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl CellCounter {
    const EVERY: Duration = Duration::from_millis(50);

    fn look(&self) -> Option<PyErr> {
        let called = || {
            let report = self.report.as_ref()?;
            Python::attach(|py| report.call1(py, (self.done,)).err())
        };
        interrupted().or_else(called)
    }
}

impl WorkSink<u64> for CellCounter {
    fn on_done(&mut self, _: usize, _: &u64) {
        self.done += 1;
    }

    fn on_progress(&mut self, _share: f64) {
        if self.raised.is_none() && self.asked.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.asked = Some(Instant::now());
            self.raised = self.look();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.raised.is_some()
    }
}
