//! Scenarios: a path, what is downloaded over it, and what is asked of the result.

use cellpace_base::{Span, Time, parse_span};
use cellpace_cc::ControllerSpec;
use cellpace_lab::{PathText, trace_files};
use cellpace_path::TraceSpec;
use cellpace_sim::{FlowSpec, FlowTraffic, Scenario, SizeSpec, TransferPace, TransferSpec};
use serde::{Deserialize, Deserializer};

use crate::{ConformError, Figure};

/// The scenarios of the program.
const TABLE: &str = include_str!("scenarios.toml");

/// A scenario: what is asked, and under which conditions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its name on the command line.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The heading in RFC 9743 under which the question is asked.
    pub rfc: String,
    /// The question.
    pub question: String,
    /// Whether it is one of the few of a quick run.
    #[serde(default)]
    pub quick: bool,
    /// Length of the run.
    #[serde(deserialize_with = "read_span")]
    pub duration: Span,
    /// When what is asked about begins: the link is back, the rate is another.
    #[serde(default, deserialize_with = "read_span")]
    pub at: Span,
    /// The trace of the bottleneck, as written.
    pub trace: String,
    /// The rest of the path.
    pub path: PathText,
    /// The downloads, in the order of their starts.
    #[serde(rename = "flow")]
    pub flows: Vec<Download>,
    /// What is asked of the result.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
}

/// Who sends a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sender {
    /// The server under test.
    #[default]
    Tested,
    /// A TCP server under the kernel's Cubic.
    Cubic,
}

/// A download, or several in a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// Who sends it.
    #[serde(default)]
    pub who: Sender,
    /// When it starts.
    #[serde(default, deserialize_with = "read_span")]
    pub start: Span,
    /// Added to the RTT of the path.
    #[serde(default, deserialize_with = "read_span")]
    pub extra_rtt: Span,
    /// How much and how often; without, it goes on to the end.
    #[serde(default)]
    pub fetch: Option<Fetch>,
}

/// Downloads of one size.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Bytes of each.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
    /// From the end of one to the start of the next, each over a connection of its own.
    #[serde(default, deserialize_with = "read_span")]
    pub gap: Span,
    /// From the start of one to the start of the next, all over one connection; zero: `gap` holds.
    #[serde(default, deserialize_with = "read_span")]
    pub every: Span,
}

/// A figure and its bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is measured.
    pub figure: Figure,
    /// The least that passes, in the figure's unit.
    #[serde(default)]
    pub min: Option<f64>,
    /// The most that passes, in the figure's unit.
    #[serde(default)]
    pub max: Option<f64>,
    /// The source of the bound, or its reason.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    scenario: Vec<Trial>,
}

fn read_span<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    parse_span(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// Returns all scenarios, in the order in which they run.
///
/// # Panics
/// Never: the table is part of the program, and its test reads it.
pub fn trials() -> Vec<Trial> {
    read_trials(TABLE).expect("the table of the program reads")
}

fn read_trials(text: &str) -> Result<Vec<Trial>, ConformError> {
    let table: Table = toml::from_str(text).map_err(ConformError::invalid)?;
    Ok(table.scenario)
}

impl Fetch {
    /// Whether all of them use one connection.
    pub fn is_kept(&self) -> bool {
        !self.every.is_zero()
    }
}

impl Check {
    /// Whether a value passes. What could not be measured does not.
    pub fn passes(&self, value: Option<f64>) -> bool {
        let above = |value: f64| self.min.is_none_or(|min| value >= min);
        let below = |value: f64| self.max.is_none_or(|max| value <= max);
        value.is_some_and(|value| above(value) && below(value))
    }
}

impl Trial {
    /// Returns the options of `cellpace link` for the path, the duration and what is left out.
    pub fn link_options(&self) -> Vec<String> {
        let mut options = vec!["--trace".to_owned(), self.trace.clone()];
        options.extend(self.path.options());
        options.extend(["--duration".to_owned(), self.duration.to_string()]);
        let skip = self.path.texts("skip").iter().filter(|skip| *skip != "0s");
        options.extend(skip.flat_map(|skip| ["--skip".to_owned(), skip.clone()]));
        options
    }

    /// Returns the same conditions in virtual time, with `cc` in place of the server under test.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn simulated(&self, cc: &ControllerSpec) -> Result<Scenario, ConformError> {
        let mut files = trace_files();
        let mut conditions = self.path.conditions(&mut files).map_err(ConformError::invalid)?;
        if self.path.texts("skip").is_empty() {
            conditions.skip = Span::ZERO;
        }
        let trace = TraceSpec::parse(&self.trace, &mut files).map_err(ConformError::invalid)?;
        conditions.link.down.trace = Some(trace);
        let rtt = conditions.link.rtt().as_constant().unwrap_or(Span::ZERO);
        let flows = self.flows.iter().map(|flow| flow.simulated(cc, rtt));
        let scenario = Scenario {
            duration: self.duration,
            flows: flows.collect::<Result<_, _>>()?,
            ..conditions
        };
        scenario.check().map_err(ConformError::invalid)?;
        Ok(scenario)
    }
}

impl Download {
    fn simulated(&self, cc: &ControllerSpec, rtt: Span) -> Result<FlowSpec, ConformError> {
        let cc = match self.who {
            Sender::Tested => cc.clone(),
            Sender::Cubic => "cubic".parse().map_err(ConformError::invalid)?,
        };
        let traffic = self.fetch.map(|fetch| FlowTraffic::Transfers(fetch.transfers()));
        Ok(FlowSpec {
            start: Time::ZERO + self.start,
            rtt: (!self.extra_rtt.is_zero()).then(|| rtt + self.extra_rtt),
            traffic: traffic.unwrap_or(FlowTraffic::Bulk),
            ..FlowSpec::bulk(cc)
        })
    }
}

impl Fetch {
    fn transfers(&self) -> TransferSpec {
        TransferSpec {
            sizes: SizeSpec::InTurn(vec![self.bytes]),
            count: Some(self.count),
            pace: match self.is_kept() {
                true => TransferPace::Every(self.every),
                false => TransferPace::Gap(self.gap.into()),
            },
            keep: self.is_kept(),
            handshake: true,
            ..TransferSpec::of_size(self.bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_table_can_be_simulated() {
        let cc = "copa".parse().unwrap();
        let trials = trials();
        for trial in &trials {
            trial.simulated(&cc).unwrap_or_else(|error| panic!("{}: {error}", trial.name));
            assert!(!trial.checks.is_empty(), "{}", trial.name);
            let bounded = |check: &Check| check.min.is_some() || check.max.is_some();
            assert!(trial.checks.iter().all(bounded), "{}", trial.name);
            assert!(trial.checks.iter().all(|check| check.reason.len() > 20), "{}", trial.name);
            assert!(trial.flows.is_sorted_by_key(|flow| flow.start), "{}", trial.name);
            assert!(trial.duration <= Span::from_secs(20), "{}", trial.name);
        }
        let mut names: Vec<_> = trials.iter().map(|trial| &trial.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), trials.len());
    }

    #[test]
    fn options_are_those_of_a_link_and_only_the_unusual_ones() {
        let trials = trials();
        let named = |name: &str| trials.iter().find(|trial| trial.name == name).unwrap();
        let options = named("handover").link_options().join(" ");
        let expected = "--trace constant:12mbit --queue droptail:80pkts \
                        --handover 6s/200ms/80ms/lost --duration 13s --skip 2s";
        assert_eq!(options, expected);
        assert!(!named("slow-start").link_options().contains(&"--skip".to_owned()));
    }

    #[test]
    fn a_check_without_a_value_fails() {
        let check = &trials()[0].checks[0];
        assert!(check.passes(Some(90.0)) && !check.passes(Some(89.9)) && !check.passes(None));
    }

    #[test]
    fn a_table_with_an_unknown_figure_names_its_line() {
        let text = TABLE.replacen("figure = \"utilization\"", "figure = \"beauty\"", 1);
        let error = read_trials(&text).unwrap_err().to_string();
        assert!(error.contains("beauty") && error.contains("line"), "{error}");
    }
}
