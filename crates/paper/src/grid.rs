//! Runs to cells: every combination of places on the axes.

use std::sync::Arc;

use cellpace_base::{Random, Span, Time, parse_span};

use crate::claim::{ClaimRun, Starts};
use crate::claim_words::{OneOrMany, Word};
use crate::depth::Depth;
use crate::trace_sets;
use crate::trainings::{Trainings, named_in};

/// An axis and its places.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) name: Arc<str>,
    pub(crate) places: Vec<Arc<str>>,
}

/// Conditions that many claims share.
const BLOCKS: [(&str, [(&str, &str); 4]); 3] = [
    ("CELL", [("rtt", "40ms"), ("queue", "droptail:2MB"), ("duration", "120s"), ("skip", "2s")]),
    (
        "OPNET",
        [
            ("rtt", "40ms"),
            ("queue", "red:min=3mbit,max=9mbit,p=0.1%,gentle=false"),
            ("duration", "120s"),
            ("skip", "2s"),
        ],
    ),
    (
        "OPNET-10",
        [
            ("rtt", "40ms"),
            ("queue", "red:min=3mbit,max=9mbit,p=10%,gentle=false"),
            ("duration", "120s"),
            ("skip", "2s"),
        ],
    ),
];

/// The largest number of cells of one run, before starts and seeds.
const MAX_CELLS: usize = 20_000;
/// The largest number of axes of one run.
const MAX_AXES: usize = 16;
/// The largest number of starts in a trace, and of seeds.
const MAX_REPETITIONS: usize = 1_000;
/// The longest scenario, in bytes: places multiply where placeholders hold placeholders.
const MAX_SCENARIO: usize = 1 << 20;

impl ClaimRun {
    /// The fields of a scenario that may be lists.
    fn fields(&self) -> [(&'static str, Option<&OneOrMany>); 10] {
        [
            ("trace", self.trace.as_ref()),
            ("uplink", self.uplink.as_ref()),
            ("cc", self.cc.as_ref()),
            ("flows", self.flows.as_ref()),
            ("queue", self.queue.as_ref()),
            ("rtt", self.rtt.as_ref()),
            ("loss", self.loss.as_ref()),
            ("acks", self.acks.as_ref()),
            ("duration", self.duration.as_ref()),
            ("skip", self.skip.as_ref()),
        ]
    }

    /// The axes but for start and seed: trace and controller, and whatever is a list.
    pub(crate) fn axes(&self) -> Result<Vec<Axis>, String> {
        let mut axes = Vec::new();
        let others = [("spacing", self.spacing.as_ref()), ("train", self.train.as_ref())];
        for (name, field) in self.fields().into_iter().chain(others) {
            let Some(field) = field else { continue };
            let is_always = matches!(name, "trace" | "cc" | "uplink" | "train");
            if is_always || matches!(field, OneOrMany::Many(_)) {
                axes.push(axis(name, field.texts())?);
            }
        }
        for (name, places) in &self.sweep {
            axes.push(axis(name, places.iter().map(Word::text).collect())?);
        }
        if axes.len() > MAX_AXES {
            return Err(format!("{} axes; allowed: {MAX_AXES}", axes.len()));
        }
        let multiply = |cells: usize, axis: &Axis| cells.saturating_mul(axis.places.len());
        match axes.iter().fold(1, multiply) {
            1..=MAX_CELLS => Ok(axes),
            cells => Err(format!("{cells} cells; allowed: 1 to {MAX_CELLS}")),
        }
    }

    /// The seeds.
    pub(crate) fn seeds(&self, depth: Depth) -> Vec<u64> {
        let seeds = self.seeds.clone().unwrap_or_else(|| vec![1]);
        match depth {
            Depth::Quick => seeds.into_iter().take(1).collect(),
            Depth::Full if seeds.len() > 1 => (1..=5.max(seeds.len() as u64)).collect(),
            _ => seeds,
        }
    }

    /// Where in a trace of this length the runs begin.
    pub(crate) fn starts(&self, depth: Depth, period: Option<Span>) -> Result<Vec<Span>, String> {
        let number = match &self.starts {
            None => return Ok(vec![Span::ZERO]),
            Some(Starts::Times(times)) => {
                let read = |text: &String| parse_span(text).map_err(|error| error.to_string());
                let times: Result<Vec<Span>, String> = times.iter().map(read).collect();
                let most = if depth == Depth::Quick { 1 } else { usize::MAX };
                return Ok(times?.into_iter().take(most).collect());
            }
            Some(Starts::Number(number)) => *number,
        };
        if number as usize > MAX_REPETITIONS {
            return Err(format!("starts: {number} are more than {MAX_REPETITIONS}"));
        }
        let number = match depth {
            Depth::Quick => 1,
            Depth::AsWritten => number,
            Depth::Full => number.max(10),
        };
        let Some(period) = period else { return Ok(vec![Span::ZERO]) };
        let duration = self.value("duration").and_then(|text| parse_span(&text).ok());
        let room = duration.map_or(Span::ZERO, |duration| period - duration);
        // Where the run is about as long as the trace it begins anywhere: the trace repeats.
        let step = match room >= period / 2 && number > 1 {
            true => room / u64::from(number - 1),
            false => period / u64::from(number.max(1)),
        };
        let millis = |at: u64| Span::from_millis((step * at).as_nanos() / 1_000_000);
        Ok((0..u64::from(number)).map(millis).collect())
    }

    /// The value of a field that is no list, of the run or its block.
    fn value(&self, name: &str) -> Option<String> {
        let field = self.fields().into_iter().find(|(field, _)| *field == name)?.1;
        match field {
            Some(OneOrMany::One(word)) => Some(word.text()),
            Some(OneOrMany::Many(_)) => None,
            None => self.block_value(name).map(str::to_owned),
        }
    }

    fn block_value(&self, name: &str) -> Option<&'static str> {
        let block = self.block.as_deref()?;
        let (_, fields) = BLOCKS.iter().find(|(known, _)| *known == block)?;
        fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value)
    }

    /// The scenario at these places, as TOML.
    pub(crate) fn scenario_text(
        &self,
        places: &[(Arc<str>, Arc<str>)],
        seed: u64,
    ) -> Result<String, String> {
        let filled = |text: &str| filled(text, places);
        let is_known = |block: &&String| BLOCKS.iter().any(|(known, _)| known == block);
        if let Some(block) = self.block.as_ref().filter(|block| !is_known(block)) {
            return Err(format!("unknown block `{block}`"));
        }
        if let Some(scenario) = &self.scenario {
            return filled(scenario);
        }
        let at = |name: &str| {
            let place = places.iter().find(|(axis, _)| &**axis == name);
            let text = place.map(|(_, place)| place.to_string()).or_else(|| self.value(name));
            text.map(|text| filled(&text)).transpose()
        };
        let spacing = match &self.spacing {
            None => None,
            Some(OneOrMany::One(word)) => Some(word.text()),
            Some(OneOrMany::Many(_)) => at("spacing")?,
        };
        let starts = self.flow_starts(at("flows")?.as_deref(), spacing.as_deref(), seed)?;
        let last = starts.last().copied().unwrap_or(Time::ZERO) - Time::ZERO;
        let mut text = String::new();
        for name in ["trace", "uplink", "queue", "rtt", "loss", "acks", "duration", "skip"] {
            let Some(mut value) = at(name)? else { continue };
            if self.after_last_start && matches!(name, "duration" | "skip") {
                let length = parse_span(&value).map_err(|error| error.to_string())?;
                value = format!("{}ms", (length + last).as_nanos() / 1_000_000);
            }
            text += &format!("{name} = {value:?}\n");
        }
        text += &format!("bin = {:?}\n", self.series.as_deref().unwrap_or("1s"));
        if let Some(path) = &self.path {
            text += &format!("{}\n", filled(path)?.trim());
        }
        let cc = at("cc")?.unwrap_or_default();
        for start in starts {
            text += &format!("\n[[flow]]\ncc = {cc:?}\n");
            if start > Time::ZERO {
                text += &format!("start = \"{}ms\"\n", (start - Time::ZERO).as_nanos() / 1_000_000);
            }
            if let Some(flow) = &self.flow {
                text += &format!("{}\n", filled(flow)?.trim());
            }
        }
        Ok(text)
    }

    /// Whether generated traces may stand for recorded ones.
    pub(crate) fn names_recorded_traces(&self, trainings: &Trainings) -> bool {
        let is_recorded = |name: &String| trace_sets::is_recorded(name);
        let axes = self.axes().unwrap_or_default();
        let mut places = axes.iter().flat_map(|axis| axis.places.iter().map(ToString::to_string));
        let texts = [&self.scenario, &self.path, &self.flow];
        let texts: String = texts.into_iter().flatten().map(|text| format!("{text}\n")).collect();
        let cc = self.cc.iter().flat_map(OneOrMany::texts).collect::<Vec<_>>().join("\n");
        let sweep = self.sweep.values().flatten().map(Word::text).collect::<Vec<_>>().join("\n");
        let named = named_in(&format!("{cc}\n{texts}\n{sweep}"), trainings).unwrap_or_default();
        let looked_at = self.train.iter().flat_map(OneOrMany::texts);
        let looked_at = looked_at.filter_map(|name| trainings.get(&name).cloned());
        let mut trained = named.into_iter().map(|(_, training)| training).chain(looked_at);
        places.any(|place| is_recorded(&place))
            || quoted(&texts).any(trace_sets::is_recorded)
            || trained.any(|training| training.traces.iter().any(is_recorded))
    }

    /// When the flows start.
    fn flow_starts(
        &self,
        flows: Option<&str>,
        spacing: Option<&str>,
        seed: u64,
    ) -> Result<Vec<Time>, String> {
        let flows: u64 = match flows {
            None => 1,
            Some(text) => text.parse().map_err(|_| format!("flows: `{text}` is no number"))?,
        };
        if flows > 1_000 {
            return Err(format!("flows: {flows} are more than 1000"));
        }
        let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
        let apart = spacing.map_or(Ok(Span::ZERO), span)?;
        let mut starts: Vec<Time> = (0..flows).map(|flow| Time::ZERO + apart * flow).collect();
        if let Some(within) = &self.starts_within {
            let within = span(within)?;
            let mut random = Random::seeded(seed, START_STREAM);
            for start in &mut starts {
                *start += Span::from_millis(within.mul_f64(random.unit()).as_nanos() / 1_000_000);
            }
            starts.sort();
        }
        Ok(starts)
    }
}

/// The stream of draws of flows' starts.
const START_STREAM: u64 = 40;

fn axis(name: &str, texts: Vec<String>) -> Result<Axis, String> {
    let mut places: Vec<Arc<str>> = Vec::new();
    for text in texts {
        match trace_sets::members(&text).filter(|_| matches!(name, "trace" | "uplink")) {
            Some(members) => places.extend(members.iter().map(|member| Arc::from(*member))),
            None => places.push(text.into()),
        }
    }
    if let Some(at) = (1..places.len()).find(|at| places[..*at].contains(&places[*at])) {
        return Err(format!("{name}: `{}` is there twice", places[at]));
    }
    Ok(Axis { name: name.into(), places })
}

/// A text with the places of axes in it, which may themselves have placeholders.
fn filled(text: &str, places: &[(Arc<str>, Arc<str>)]) -> Result<String, String> {
    let fill = |text: String, (name, place): &(Arc<str>, Arc<str>)| {
        let placeholder = format!("{{{name}}}");
        let more = text.matches(&placeholder).count().saturating_mul(place.len());
        match text.len().saturating_add(more) {
            0..=MAX_SCENARIO => Ok(text.replace(&placeholder, place)),
            _ => Err(format!("its scenario is longer than {MAX_SCENARIO} bytes")),
        }
    };
    let once = places.iter().try_fold(text.to_owned(), fill)?;
    places.iter().try_fold(once, fill)
}

/// What stands between quotes in a scenario, and what stands around them.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['"', '\''])
}

/// Every combination of places, the last axis first.
pub(crate) fn combinations(axes: &[Axis]) -> Vec<Vec<Arc<str>>> {
    axes.iter().fold(vec![Vec::new()], |before, axis| {
        let with = |places: &Vec<Arc<str>>| {
            let places = places.clone();
            axis.places.iter().map(move |place| {
                places.iter().cloned().chain([Arc::clone(place)]).collect::<Vec<_>>()
            })
        };
        before.iter().flat_map(with).collect()
    })
}
