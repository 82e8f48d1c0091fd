//! What `mdi show` wrote: `cellpace.mdi.show/2`.

use serde::Deserialize;

use crate::heatmap::Heatmap;
use crate::number::short;
use crate::section::{MadeBy, PageTable, Section};

/// Traces that are named.
const NAMED: usize = 4;

#[derive(Deserialize)]
pub(crate) struct MarkovTable {
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    name: String,
    file_bytes: u64,
    about: ModelOrigin,
    states: StateGrid,
    parts: Vec<Part>,
    cells: u64,
    transitions: u64,
    density: f64,
    unseen_rows: u64,
    subsets: u64,
    empty_subsets: u64,
    single_subsets: u64,
    most_used: Vec<State>,
    stationary: StationaryPart,
    #[serde(default)]
    pictures: Vec<Picture>,
}

#[derive(Deserialize)]
struct ModelOrigin {
    teacher: String,
    scenario: String,
    epoch_us: f64,
    traces: Vec<OriginTrace>,
}

#[derive(Deserialize)]
struct OriginTrace {
    name: String,
}

#[derive(Deserialize)]
struct StateGrid {
    kind: String,
    size: u64,
    #[serde(default)]
    written: String,
    /// Of absolute states.
    delay_ms: Option<DelayAxis>,
}

#[derive(Deserialize)]
struct DelayAxis {
    max: f64,
    step: f64,
}

#[derive(Deserialize)]
struct Part {
    users: u64,
    samples: u64,
}

#[derive(Deserialize)]
struct State {
    delay: f64,
    window: f64,
    #[serde(default)]
    transitions: u64,
    #[serde(default)]
    share: f64,
}

#[derive(Deserialize)]
struct StationaryPart {
    most_likely: Vec<State>,
    steps: u64,
    last_change: f64,
}

#[derive(Deserialize)]
struct Picture {
    map: Heatmap,
    note: String,
}

impl MarkovTable {
    pub(crate) fn section(&self) -> Section {
        let teacher = if self.about.teacher.is_empty() { &self.name } else { &self.about.teacher };
        let picture = |picture: &Picture| (picture.map.clone(), picture.note.clone());
        Section {
            title: format!("Markov table of {teacher}"),
            facts: self.facts(),
            maps: self.pictures.iter().map(picture).collect(),
            tables: vec![self.most_used(), self.most_likely()],
            made_by: MadeBy {
                command: self.command.clone(),
                version: self.version.clone(),
                seeds: None,
            },
            ..Section::default()
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let known = |text: &str| {
            if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
        };
        let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
        let m = self.states.size;
        let subsets = format!(
            "{}: {} empty, {} with one window",
            self.subsets,
            share(self.empty_subsets, self.subsets),
            share(self.single_subsets, self.subsets)
        );
        let unseen = share(self.unseen_rows, m);
        [
            ("table", known(&self.name)),
            ("teacher", known(&self.about.teacher)),
            ("learnt on", self.traces()),
            ("scenario", known(&self.about.scenario)),
            ("users", self.users()),
            ("epoch", format!("{} ms", short(self.about.epoch_us / 1e3))),
            ("states", format!("{m}, {}", self.states.written)),
            ("transitions", self.transitions.to_string()),
            ("cells", format!("{} of {m} x {m} ({})", self.cells, percent(self.density))),
            ("unseen rows", format!("{} of {m} ({unseen})", self.unseen_rows)),
            ("subsets", subsets),
            ("file", format!("{} bytes", self.file_bytes)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn traces(&self) -> String {
        let traces = &self.about.traces;
        let names: Vec<&str> = traces.iter().take(NAMED).map(|trace| &trace.name[..]).collect();
        match traces.len() {
            0 => "unknown".to_owned(),
            1..=NAMED => names.join(", "),
            count => format!("{} and {} more", names.join(", "), count - NAMED),
        }
    }

    fn users(&self) -> String {
        let part = |part: &Part| {
            let users = if part.users == 0 { "unknown".to_owned() } else { part.users.to_string() };
            if part.samples == 0 { users } else { format!("{users} ({} samples)", part.samples) }
        };
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    fn most_used(&self) -> PageTable {
        let total = self.transitions.max(1) as f64;
        let row = |state: &State| {
            let [delay, window] = self.states.names(state);
            let share = percent(state.transitions as f64 / total);
            vec![delay, window, state.transitions.to_string(), share]
        };
        let [delay, window] = self.states.headings();
        PageTable {
            title: "Most used states".to_owned(),
            note: String::new(),
            header: super::header(&format!("{delay}|{window}|transitions|share")),
            rows: self.most_used.iter().map(row).collect(),
            ..PageTable::default()
        }
    }

    fn most_likely(&self) -> PageTable {
        let row = |state: &State| {
            let [delay, window] = self.states.names(state);
            vec![delay, window, percent(state.share)]
        };
        let StationaryPart { steps, last_change, most_likely } = &self.stationary;
        let note = match *last_change <= 1e-12 {
            true => format!(
                "Power iteration, settled after {steps} steps; unseen rows lead everywhere."
            ),
            false => format!(
                "Power iteration, not settled: step {steps}, the last, changed a share by \
                 {last_change:.1e}; unseen rows lead everywhere."
            ),
        };
        let [delay, window] = self.states.headings();
        PageTable {
            title: "Stationary distribution, the most likely states".to_owned(),
            note,
            header: super::header(&format!("{delay}|{window}|share")),
            rows: most_likely.iter().map(row).collect(),
            ..PageTable::default()
        }
    }
}

impl StateGrid {
    /// What the columns of a table of states are called.
    fn headings(&self) -> [&'static str; 2] {
        match self.kind.as_str() {
            "absolute" => ["delay", "window"],
            "levels" => ["level of delay", "change of window"],
            _ => ["change of delay", "of window"],
        }
    }

    /// A state's delay and window as people read them.
    fn names(&self, state: &State) -> [String; 2] {
        match (self.kind.as_str(), &self.delay_ms) {
            ("absolute", Some(axis)) => {
                let last = (state.delay + axis.step - 1.0).min(axis.max);
                let to = if axis.step > 1.0 { format!("..{}", short(last)) } else { String::new() };
                [
                    format!("{}{to} ms", short(state.delay)),
                    format!("{} packets", short(state.window)),
                ]
            }
            ("levels", _) => [format!("{:.2} x base", state.delay), signed(state.window)],
            _ => [signed(state.delay), signed(state.window)],
        }
    }
}

fn signed(change: f64) -> String {
    if change > 0.0 { format!("+{}", short(change)) } else { short(change) }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small > 0.0 && small < 0.001 => "below 0.001 %".to_owned(),
        percent => format!("{} %", short(percent)),
    }
}
