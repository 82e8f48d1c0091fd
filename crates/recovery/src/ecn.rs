//! Whether a path carries ECN, found out by the marks that come back (RFC 9000 section 13.4.2).

use std::fmt;

use cellpace_cc::Ecn;

/// This many of the first packets of a path try out whether ECN passes (RFC 9000 appendix A.4).
const TESTED_PACKETS: u64 = 10;

/// If this many of the first packets of a path arrive and all are marked, then something marks
/// whatever it sees. RFC 9000 takes 10, but a step of 1 ms (RFC 9332) in front of a radio link
/// that serves packets in bundles marks all of the first window, and rightly.
const ALL_MARKED: u64 = 100;

/// Why a path counts as one that does not carry ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EcnFailure {
    /// The peer does not report marks.
    Peer,
    /// Packets arrive without the codepoint that they left with.
    Bleached,
    /// Packets arrive with another codepoint, which is no mark.
    Rewritten,
    /// None of the first packets with the codepoint arrived.
    Lost,
    /// All packets arrive marked.
    AllMarked,
    /// The peer's counts of marks do not fit what it reports.
    Counters,
}

impl EcnFailure {
    /// Returns the word for logs and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Bleached => "bleached",
            Self::Rewritten => "rewritten",
            Self::Lost => "lost",
            Self::AllMarked => "all-marked",
            Self::Counters => "counters",
        }
    }
}

impl fmt::Display for EcnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of ECN on the present path. Every packet leaves with the codepoint that the
/// controller wants until something speaks against it; then none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnState {
    /// Not used: the controller does not want it, or the datapath has no way to carry it.
    #[default]
    Off,
    /// Nothing came back yet that confirms it, of so many packets that arrived.
    Testing {
        /// Packets that arrived, all of them marked.
        arrived: u64,
    },
    /// A packet arrived as it left.
    Capable,
    /// Not used any more on this path.
    Failed(EcnFailure),
}

impl EcnState {
    /// Whether packets leave with the codepoint that the controller wants.
    pub const fn is_used(self) -> bool {
        matches!(self, Self::Testing { .. } | Self::Capable)
    }

    /// Returns what came of it, for documents; `None` where it is not used at all.
    pub const fn outcome(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::Testing { .. } => Some("untested"),
            Self::Capable => Some("capable"),
            Self::Failed(why) => Some(why.name()),
        }
    }

    /// A packet that left as `sent` arrived as `arrived`.
    pub(crate) fn on_arrival(&mut self, sent: Ecn, arrived: Ecn) {
        if !self.is_used() || !sent.is_capable() {
            return;
        }
        match (arrived, *self) {
            (Ecn::Ce, Self::Testing { arrived }) if arrived + 1 >= ALL_MARKED => {
                *self = Self::Failed(EcnFailure::AllMarked);
            }
            (Ecn::Ce, Self::Testing { arrived }) => *self = Self::Testing { arrived: arrived + 1 },
            (Ecn::Ce, _) => {}
            (Ecn::NotEct, _) => *self = Self::Failed(EcnFailure::Bleached),
            (_, _) if arrived != sent => *self = Self::Failed(EcnFailure::Rewritten),
            (_, _) => *self = Self::Capable,
        }
    }

    /// The retransmission timer fired after `sent` packets on this path, all with the codepoint.
    pub(crate) fn on_timeout(&mut self, sent: u64) {
        if *self == (Self::Testing { arrived: 0 }) && sent >= TESTED_PACKETS {
            *self = Self::Failed(EcnFailure::Lost);
        }
    }

    /// Another path is tried anew.
    pub(crate) fn on_path_change(&mut self) {
        if !matches!(self, Self::Off | Self::Failed(EcnFailure::Peer)) {
            *self = Self::Testing { arrived: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arrivals: impl IntoIterator<Item = Ecn>) -> EcnState {
        let mut state = EcnState::Testing { arrived: 0 };
        arrivals.into_iter().for_each(|arrived| state.on_arrival(Ecn::Ect1, arrived));
        state
    }

    #[test]
    fn a_packet_that_arrives_as_it_left_confirms_the_path() {
        assert_eq!(after([Ecn::Ect1]), EcnState::Capable);
        assert_eq!(after([Ecn::Ce, Ecn::Ect1, Ecn::Ce]), EcnState::Capable);
        assert_eq!(after([Ecn::Ce; 99]), EcnState::Testing { arrived: 99 });
    }

    #[test]
    fn what_changes_codepoints_fails_at_any_time() {
        for (wrong, why) in
            [(Ecn::NotEct, EcnFailure::Bleached), (Ecn::Ect0, EcnFailure::Rewritten)]
        {
            for before in [0, 1, 1000] {
                let arrivals = [Ecn::Ect1].repeat(before).into_iter().chain([wrong, Ecn::Ect1]);
                assert_eq!(after(arrivals), EcnState::Failed(why));
            }
        }
        assert_eq!(after([Ecn::Ce; 100]), EcnState::Failed(EcnFailure::AllMarked));
    }

    #[test]
    fn a_path_on_which_none_of_the_first_arrives_fails_and_the_next_is_tried_anew() {
        let mut state = EcnState::Testing { arrived: 0 };
        state.on_timeout(9);
        assert!(state.is_used());
        state.on_timeout(10);
        assert_eq!(state, EcnState::Failed(EcnFailure::Lost));
        state.on_path_change();
        assert_eq!(state, EcnState::Testing { arrived: 0 });
        let mut state = EcnState::Capable;
        state.on_timeout(1000);
        assert_eq!(state, EcnState::Capable, "an outage");
    }

    #[test]
    fn without_ecn_nothing_is_judged() {
        for before in [EcnState::Off, EcnState::Failed(EcnFailure::Peer)] {
            let mut state = before;
            state.on_arrival(Ecn::Ect1, Ecn::NotEct);
            state.on_timeout(100);
            state.on_path_change();
            assert_eq!(state, before);
        }
        let mut state = EcnState::Testing { arrived: 0 };
        state.on_arrival(Ecn::NotEct, Ecn::NotEct);
        assert_eq!(state, EcnState::Testing { arrived: 0 });
    }
}
