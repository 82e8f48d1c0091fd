//! Markov tables that claims run: trained when a scenario first names one, and kept as long as the
//! program runs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cellpace_lab::{LabError, NamedTrace, StatesChoice, Training, learn, read_controller};
use cellpace_mdi::{About, LoggedFlows};
use cellpace_path::QueueSpec;
use cellpace_sim::Scenario;

use crate::trace_sets::{file_name, stand_in};

/// How the name of a table begins; `trained-absolute-2ms` has the states `absolute:bin=2ms`,
/// `trained-levels` the states `levels`.
const PREFIX: &str = "trained-";

/// The teacher of the MDI paper's evaluation.
const TEACHER: &str = "verus:r=2";
/// The paper's AQM.
const QUEUE: &str = "red:min=3mbit,max=9mbit,p=0.1%,gentle=false";
/// Channels that the teacher was watched on; the evaluation has others.
const CHANNELS: [&str; 8] = [
    "mdi/channel00",
    "mdi/channel01",
    "mdi/channel02",
    "mdi/channel03",
    "mdi/channel04",
    "mdi/channel05",
    "mdi/channel06",
    "mdi/channel07",
];
const USERS: [u32; 4] = [1, 2, 3, 4];

/// What the teacher did, and the tables that were made of it.
#[derive(Default)]
struct Trained {
    logged: Option<Vec<LoggedFlows>>,
    tables: HashMap<String, Arc<[u8]>>,
}

/// Returns the bytes of the table with this name, trained on the traces in `folder` or what stands
/// for them; `None` if it is no table's name.
pub(crate) fn trained(name: &str, folder: Option<&Path>) -> Option<Result<Arc<[u8]>, String>> {
    static TRAINED: OnceLock<Mutex<HashMap<bool, Trained>>> = OnceLock::new();
    let states = name.strip_prefix(PREFIX)?;
    let mut all =
        TRAINED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    // A program has one folder of traces, or none.
    let trained = all.entry(folder.is_some()).or_default();
    if let Some(table) = trained.tables.get(states) {
        return Some(Ok(Arc::clone(table)));
    }
    let table = table(trained, states, folder).map(Arc::<[u8]>::from);
    if let Ok(table) = &table {
        trained.tables.insert(states.to_owned(), Arc::clone(table));
    }
    Some(table)
}

fn table(trained: &mut Trained, states: &str, folder: Option<&Path>) -> Result<Vec<u8>, String> {
    let choice = match states.strip_prefix("absolute-") {
        Some(bin) => format!("absolute:bin={bin}"),
        None => states.to_owned(),
    };
    let choice: StatesChoice =
        choice.parse().map_err(|error: LabError| format!("{PREFIX}{states}: {error}"))?;
    let logged = match &mut trained.logged {
        Some(logged) => logged,
        none => none.insert(watch(folder)?),
    };
    let about = About { teacher: TEACHER.to_owned(), ..About::default() };
    let lesson = learn(about, logged, &choice).map_err(|error| error.to_string())?;
    Ok(lesson.model.to_bytes())
}

/// Watches the teacher with 1 to 4 users on all channels.
fn watch(folder: Option<&Path>) -> Result<Vec<LoggedFlows>, String> {
    let mut written: Vec<String> = CHANNELS.iter().map(|channel| trace(channel, folder)).collect();
    // What stands for the channels may be one profile for all.
    written.dedup();
    let mut files = cellpace_lab::trace_files();
    let training = Training {
        teacher: read_controller(TEACHER).map_err(|error| error.to_string())?,
        traces: NamedTrace::read_all(&written, &mut files).map_err(|error| error.to_string())?,
        users: USERS.to_vec(),
        duration: None,
        path: Scenario {
            queue: QUEUE.parse::<QueueSpec>().map_err(|error| error.to_string())?,
            ..Scenario::default()
        },
    };
    let logged = training.watch(None, &mut ()).map_err(|error| error.to_string())?;
    logged.ok_or_else(|| "the training was cancelled".to_owned())
}

fn trace(channel: &str, folder: Option<&Path>) -> String {
    match folder {
        Some(folder) => folder.join(file_name(channel)).to_string_lossy().into_owned(),
        None => stand_in(channel).unwrap_or(channel).to_owned(),
    }
}
