//! Verdicts.

use serde::{Deserialize, Serialize};

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
}
