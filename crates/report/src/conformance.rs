//! The result document of `cellpace conform`: `cellpace.conform/1`.

use serde::{Deserialize, Serialize};

/// The schema's name and version. Fields are only added within a version.
pub const CONFORMANCE_SCHEMA: &str = "cellpace.conform/1";

/// What a server did in the scenarios, beside controllers of ours in the simulator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conformance {
    /// [`CONFORMANCE_SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub version: String,
    /// The command line that made it, without where its results go.
    pub command: String,
    /// The server under test, in a few words.
    pub server: String,
    /// The command that downloaded from it.
    pub client: String,
    /// The congestion control of the kernel's TCP meanwhile.
    pub kernel_cc: String,
    /// The scenarios, in the order in which they ran.
    pub scenarios: Vec<ConformanceScenario>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// What came out of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConformanceVerdict {
    /// Every figure keeps its bounds.
    Pass,
    /// One does not, or could not be measured.
    Fail,
    /// The scenario could not be run.
    NotRun,
}

impl ConformanceVerdict {
    /// Returns it in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotRun => "not run",
        }
    }
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConformanceScenario {
    /// Its name on the command line.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The heading in RFC 9743 under which the question is asked.
    pub rfc: String,
    /// The question.
    pub question: String,
    /// The command that emulates the path.
    pub command: String,
    /// Its length in seconds.
    pub duration_s: f64,
    /// What came out.
    pub verdict: ConformanceVerdict,
    /// Why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The figures and their bounds.
    pub checks: Vec<ConformanceCheck>,
    /// Width of a bin of the series in seconds; 0 where there are none.
    pub bin_s: f64,
    /// What the link offered in each bin, in Mbit/s.
    pub capacity_mbps: Vec<Option<f64>>,
    /// The server under test over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<ConformanceLine>,
    /// Controllers of ours over time, in virtual time.
    pub reference: Vec<ConformanceLine>,
}

/// A figure, its bounds and what it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConformanceCheck {
    /// The figure.
    pub figure: String,
    /// Its unit; empty for plain numbers.
    pub unit: String,
    /// The least that passes.
    pub min: Option<f64>,
    /// The most that passes.
    pub max: Option<f64>,
    /// The source of the bound, or its reason.
    pub reason: String,
    /// What was measured; `null` where there was nothing to measure.
    pub value: Option<f64>,
    /// Whether the value keeps the bounds.
    pub passed: bool,
    /// The same under controllers of ours, in virtual time.
    pub reference: Vec<ConformanceReference>,
}

/// A figure under a controller of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConformanceReference {
    /// The controller, as written.
    pub cc: String,
    /// What came out; `null` where there was nothing to measure.
    pub value: Option<f64>,
    /// Whether the value keeps the bounds.
    pub passed: bool,
}

/// Throughput and queue delay over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConformanceLine {
    /// The controller, as written; the server's name for what was measured.
    pub cc: String,
    /// What left the link in each bin, in Mbit/s, all flows together.
    pub throughput_mbps: Vec<Option<f64>>,
    /// Median queue delay of each bin in ms; `null` where nothing left.
    pub queue_delay_ms: Vec<Option<f64>>,
}
