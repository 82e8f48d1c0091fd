//! Claims of papers.

use std::path::{Path, PathBuf};

use cellpace_lab::WorkSink;
use cellpace_paper::{Cache, ClaimResult, Depth, Front, Library, Plan, RunOptions, document};
use pyo3::prelude::*;

use crate::error::{Failure, refused, without_python};
use crate::results::{floats, texts};
use crate::runs::interrupted;
use crate::table::ArrowTable;

fn library(folder: Option<&Path>) -> Result<Library, Failure> {
    let library = folder.map_or_else(Library::embedded, Library::of_folder);
    library.map_err(|error| Failure::Refused(error.to_string()))
}

/// The claims: papers, ids or patterns; all of them without any.
#[pyfunction]
pub(crate) fn claims(wanted: Vec<String>, folder: Option<PathBuf>) -> PyResult<ArrowTable> {
    let library = library(folder.as_deref())?;
    let claims = library.select(&wanted).map_err(refused)?;
    let cache = Cache::of_user();
    let seconds = claims.iter().map(|claim| cache.as_ref().and_then(|c| c.seconds(&claim.id)));
    ArrowTable::new(
        "cellpace.paper-list/1",
        vec![
            ("claim", texts(claims.iter().map(|claim| &*claim.id))),
            ("place", texts(claims.iter().map(|claim| &*claim.place))),
            ("says", texts(claims.iter().map(|claim| &*claim.says))),
            ("verdict", texts(claims.iter().map(|claim| claim.expected.name()))),
            ("last_run_s", floats(seconds.map(|seconds| seconds.unwrap_or(f64::NAN)))),
        ],
    )
}

/// What one call asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Checking {
    claims: Vec<String>,
    folder: Option<PathBuf>,
    traces: Option<PathBuf>,
    depth: String,
    jobs: Option<u16>,
    fresh: bool,
}

/// Runs claims: their document as `cellpace paper run --json` writes it, and with what a page draws.
#[pyfunction]
pub(crate) fn check_claims(py: Python<'_>, wish: Checking) -> PyResult<(String, String)> {
    without_python(py, move || {
        let failed = |error: cellpace_paper::PaperError| Failure::Refused(error.to_string());
        let library = library(wish.folder.as_deref())?;
        let claims = library.select(&wish.claims).map_err(failed)?;
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
            measured: Vec::new(),
        };
        let mut signals = Signals::default();
        let plan = Plan::new(&claims, &options);
        let results = plan.run(&options, &mut signals).map_err(failed)?;
        let Some(results) = results else {
            return Err(signals
                .0
                .map_or_else(|| Failure::Refused("stopped".to_owned()), Into::into));
        };
        let all: Vec<&ClaimResult<'_>> = results.iter().collect();
        let front = Front {
            title: "Claims of papers, checked".to_owned(),
            sentence: String::new(),
            tables: Vec::new(),
            is_index: false,
        };
        let plain = document(&all, options.depth, None).map_err(failed)?;
        Ok((plain, document(&all, options.depth, Some(&front)).map_err(failed)?))
    })
}

/// Stops the runs on Ctrl-C.
#[derive(Default)]
struct Signals(Option<PyErr>);

impl<T> WorkSink<T> for Signals {
    fn on_progress(&mut self, _share: f64) {
        if self.0.is_none() {
            self.0 = interrupted();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_some()
    }
}
