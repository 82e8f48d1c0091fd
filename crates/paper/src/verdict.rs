//! Verdicts, from checks.

use serde::{Deserialize, Serialize};

use crate::check::CheckResult;
use crate::claim::{Claim, ClaimRun, Level, Setup};

/// What came out of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// All checks pass.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The sentence is true, not to the extent that the paper gives; or under other conditions than
    /// those that it prints.
    #[serde(rename = "in part")]
    InPart,
    /// The sentence is not true.
    #[serde(rename = "refuted")]
    Refuted,
    /// The tests are there and pass.
    #[serde(rename = "built")]
    Built,
    /// It needs what is not here: a live network, a phone.
    #[serde(rename = "not testable here")]
    NotTestable,
    /// Not decided yet.
    #[serde(rename = "open")]
    Open,
}

impl Verdict {
    /// All verdicts, in the order of lists.
    pub const ALL: [Self; 6] =
        [Self::Reproduced, Self::InPart, Self::Refuted, Self::Built, Self::NotTestable, Self::Open];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InPart => "in part",
            Self::Refuted => "refuted",
            Self::Built => "built",
            Self::NotTestable => "not testable here",
            Self::Open => "open",
        }
    }

    /// The verdict of these checks of a claim.
    pub(crate) fn of(claim: &Claim, checks: &[CheckResult]) -> Self {
        let decides = deciding(claim, checks);
        let (deciding, others): (Vec<_>, Vec<_>) =
            checks.iter().partition(|check| decides(&claim.runs[&check.run]));
        let failed = |checks: &[&CheckResult], level: Level| {
            checks.iter().filter(|check| check.level == level && !check.passed).count()
        };
        if failed(&deciding, Level::Core) == 0 {
            return if failed(&deciding, Level::Full) == 0 {
                Self::Reproduced
            } else {
                Self::InPart
            };
        }
        let is_beyond_noise = deciding
            .iter()
            .any(|check| check.level == Level::Core && !check.passed && !check.is_noise);
        let is_inferred = |check: &&&CheckResult| claim.runs[&check.run].setup == Setup::Inferred;
        let inferred: Vec<&CheckResult> = others.iter().filter(is_inferred).copied().collect();
        let holds_elsewhere = inferred.iter().any(|check| check.level == Level::Core)
            && failed(&inferred, Level::Core) == 0;
        if is_beyond_noise && !holds_elsewhere { Self::Refuted } else { Self::InPart }
    }
}

/// Which runs decide: inferred ones that say so, else the printed ones, else all.
fn deciding<'a>(claim: &'a Claim, checks: &[CheckResult]) -> impl Fn(&ClaimRun) -> bool + use<'a> {
    let any =
        |wanted: fn(&ClaimRun) -> bool| checks.iter().any(|check| wanted(&claim.runs[&check.run]));
    let says_so = any(|run| run.decides);
    let is_printed = any(|run| run.setup == Setup::Printed);
    move |run| match () {
        () if says_so => run.decides,
        () if is_printed => run.setup == Setup::Printed,
        () => true,
    }
}
