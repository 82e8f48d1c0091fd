//! The runs behind claims of papers, whose sentences and checks are the repository's package `papers`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellpace_lab::WorkSink;
use cellpace_measure::Interval;
use cellpace_paper::{
    Cache, Claim, ClaimResult, Depth, Measured, PaperError, Plan, Recording, Records, RunOptions,
    Table, Unrun,
};
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{Failure, refused, without_python};

/// What one call asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Running {
    /// A JSON array of claims.
    claims: String,
    traces: Option<PathBuf>,
    depth: String,
    jobs: Option<u16>,
    fresh: bool,
    /// Called with the share of all work that is done.
    progress: Option<Py<PyAny>>,
}

/// The figures of the runs of a claim.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct ClaimFigures(ClaimResult);

/// A table of values: unit as powers of seconds, bits and packets; axes; for each value its places,
/// its labels and itself.
type Columns =
    ((i8, i8, i8), Vec<String>, Vec<Vec<String>>, Vec<BTreeMap<&'static str, String>>, Vec<f64>);

fn columns(table: Table) -> Columns {
    let unit = (table.unit.seconds, table.unit.bits, table.unit.packets);
    let axes = table.axes.iter().map(ToString::to_string).collect();
    let (mut places, mut labels, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for row in table.rows {
        places.push(row.coordinates.iter().map(ToString::to_string).collect());
        labels.push(row.labels.iter().map(|(name, place)| (*name, place.to_string())).collect());
        values.push(row.value);
    }
    (unit, axes, places, labels, values)
}

impl ClaimFigures {
    fn records(&self, run: &str) -> PyResult<&Records> {
        self.0.records.get(run).ok_or_else(|| refused(format!("there is no run `{run}`")))
    }
}

#[pymethods]
impl ClaimFigures {
    /// Why there are none: `needs traces`, or what went wrong.
    #[getter]
    fn unrun(&self) -> Option<String> {
        self.0.unrun.as_ref().map(|why| match why {
            Unrun::NeedsTraces => "needs traces".to_owned(),
            Unrun::Failed(why) => format!("failed: {why}"),
        })
    }

    /// Whether generated traces stood for recorded ones.
    #[getter]
    fn is_generated(&self) -> bool {
        self.0.is_generated
    }

    /// Processor time of the runs, in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds
    }

    /// The values of a field of a run; `only` is an axis and the place on it that counts.
    #[pyo3(signature = (run, name, only=None))]
    fn field(&self, run: &str, name: &str, only: Option<(String, String)>) -> PyResult<Columns> {
        let only = only.as_ref().map(|(axis, place)| (&**axis, &**place));
        let table = self.records(run)?.field(name, only);
        table.map(columns).map_err(|why| refused(format!("run.{run}: {why}")))
    }

    /// The places of an axis of a run.
    fn places(&self, run: &str, axis: &str) -> PyResult<Vec<String>> {
        Ok(self.records(run)?.places(axis).iter().map(ToString::to_string).collect())
    }

    /// The pictures of the trained tables of a run, as JSON.
    fn maps(&self, run: &str, which: &str) -> PyResult<String> {
        Ok(json!(self.records(run)?.maps(which)).to_string())
    }
}

/// Does the runs of claims on all cores; each run once, and none that was done before.
#[pyfunction]
pub(crate) fn run_claims(py: Python<'_>, wish: Running) -> PyResult<Vec<ClaimFigures>> {
    without_python(py, move || {
        let failed = |error: PaperError| Failure::Refused(error.to_string());
        let claims = Claim::read_all(&wish.claims).map_err(failed)?;
        let options = RunOptions {
            depth: match wish.depth.as_str() {
                "quick" => Depth::Quick,
                "full" => Depth::Full,
                _ => Depth::AsWritten,
            },
            jobs: wish.jobs,
            traces: wish.traces.as_deref(),
            cache: Cache::of_user(),
            is_fresh: wish.fresh,
        };
        let mut watcher = Watcher { progress: wish.progress, asked: None, raised: None };
        let plan = Plan::new(&claims.iter().collect::<Vec<_>>(), &options);
        let results = plan.run(&options, &mut watcher).map_err(failed)?;
        match (results, watcher.raised) {
            (_, Some(raised)) => Err(raised.into()),
            (Some(results), None) => Ok(results.into_iter().map(ClaimFigures).collect()),
            (None, None) => Err(Failure::Refused("stopped".to_owned())),
        }
    })
}

/// Tells Python how far runs are, and stops them on Ctrl-C.
struct Watcher {
    progress: Option<Py<PyAny>>,
    asked: Option<Instant>,
    raised: Option<PyErr>,
}

impl Watcher {
    const EVERY: Duration = Duration::from_millis(100);

    fn tell(&self, share: f64) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (share,)).map(drop))
        })
    }
}

impl<T> WorkSink<T> for Watcher {
    fn on_progress(&mut self, share: f64) {
        if self.raised.is_none() && self.asked.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.asked = Some(Instant::now());
            self.raised = self.tell(share).err();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.raised.is_some()
    }
}

/// Processor time of the runs of a claim when they were last done, in seconds.
#[pyfunction]
pub(crate) fn claim_seconds(id: &str) -> Option<f64> {
    Cache::of_user()?.seconds(id)
}

/// The traces of a set that claims name, such as `hspa`.
#[pyfunction]
pub(crate) fn trace_set(name: &str) -> Option<Vec<&'static str>> {
    cellpace_paper::members(name).map(<[_]>::to_vec)
}

/// What was measured with real packets, by name: a JSON object of date, machine, conditions, note.
#[pyfunction]
pub(crate) fn recordings(names: Vec<String>) -> PyResult<String> {
    let one = |name: String| {
        let recording = Recording::named(&name).map_err(refused)?;
        let facts = json!({
            "date": recording.date(),
            "machine": recording.machine(),
            "conditions": recording.conditions,
            "note": recording.note(),
        });
        Ok((name, facts))
    };
    let all: PyResult<BTreeMap<_, _>> = names.into_iter().map(one).collect();
    Ok(json!(all?).to_string())
}

/// Measures a recording with real packets in the root of the repository and stores it. The files that
/// it wrote, and why it does not count.
#[pyfunction]
pub(crate) fn record(
    py: Python<'_>,
    name: String,
    root: PathBuf,
    program: PathBuf,
) -> PyResult<([String; 2], Vec<String>)> {
    without_python(py, move || {
        let failed = |error: PaperError| Failure::Refused(error.to_string());
        let recording: Arc<Recording> = Recording::named(&name).map_err(Failure::Refused)?;
        let root: &Path = &root;
        let measured = Measured::now(&recording, root, &program).map_err(failed)?;
        let files = measured.store(root).map_err(failed)?;
        Ok((files, measured.invalid().to_vec()))
    })
}

/// The mean of samples and the half width of its 95 % interval.
#[pyfunction]
pub(crate) fn interval(samples: Vec<f64>) -> PyResult<(f64, f64)> {
    let interval = Interval::of(&samples).ok_or_else(|| refused("an interval of no samples"))?;
    Ok((interval.mean, interval.half_width))
}

/// A number as tables show it: three significant digits.
#[pyfunction]
pub(crate) fn short(value: f64) -> String {
    cellpace_report::short(value)
}
