//! Impairments beside loss: packets that are overtaken, duplicated, corrupted, or lose their marks.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Ecn, Random, Span, nearest, parse_fraction, parse_span};

use crate::error::PathError;
use crate::steps::Level;
use crate::{DropReason, Fate, PacketRecord};

/// What a path does to packets beside delaying and losing them. Written
/// `reorder=1%/5ms,duplicate=0.1%,corrupt=0.01%`, each part only if wanted; none at all is written
/// `none`.
///
/// | part | meaning |
/// |---|---|
/// | `reorder=SHARE/TIME` | this share of the packets reaches the queue TIME later than the others, which overtake it |
/// | `duplicate=SHARE` | this share of the packets leaves the link twice, the copy at the same instant; copies take no capacity |
/// | `corrupt=SHARE` | this share of the packets crosses the link and is damaged: receivers discard it |
/// | `mark=SHARE` | this share of the packets whose senders understand ECN is marked behind the link, without any queue |
/// | `ecn=RULE` | what equipment that does not know ECN does to codepoints: `bleach` clears them, `ect1-to-ect0` writes ECT(0) for ECT(1), `drop` drops packets that have one, `ce` marks all of these |
///
/// Each packet is drawn for independently. A packet that is corrupted is not duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ImpairSpec {
    /// Share of the packets that are held back, 0 to 1.
    pub reorder: f64,
    /// How long they are held back.
    pub held: Span,
    /// Share of the packets that are duplicated, 0 to 1.
    pub duplicate: f64,
    /// Share of the packets that are corrupted, 0 to below 1.
    pub corrupt: f64,
    /// Share of the packets with ECN that are marked, 0 to 1.
    pub mark: f64,
    /// What becomes of codepoints.
    pub ecn: EcnRule,
}

/// What equipment on a path does to the ECN codepoints of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnRule {
    /// They stay as they are.
    #[default]
    Pass,
    /// They are cleared.
    Bleach,
    /// ECT(1) becomes ECT(0).
    Ect1ToEct0,
    /// Packets that have one are dropped.
    Drop,
    /// Packets that have one are marked, all of them.
    Mark,
}

impl EcnRule {
    const WORDS: [(&'static str, Self); 5] = [
        ("pass", Self::Pass),
        ("bleach", Self::Bleach),
        ("ect1-to-ect0", Self::Ect1ToEct0),
        ("drop", Self::Drop),
        ("ce", Self::Mark),
    ];

    fn read(text: &str) -> Result<Self, PathError> {
        let names = Self::WORDS.map(|(word, _)| word);
        let known = Self::WORDS.into_iter().find(|(word, _)| *word == text).map(|(_, rule)| rule);
        known.ok_or_else(|| PathError::unknown("ECN rule", text, nearest(text, names), &names))
    }

    fn word(self) -> &'static str {
        let word = Self::WORDS.into_iter().find(|(_, rule)| *rule == self).map(|(word, _)| word);
        word.expect("every rule has a word")
    }
}

const KEYS: [&str; 5] = ["reorder", "duplicate", "corrupt", "mark", "ecn"];
const FORM: &str = "reorder=SHARE/TIME,duplicate=SHARE,corrupt=SHARE,mark=SHARE,ecn=RULE, such as \
                    reorder=1%/5ms,duplicate=0.1%";

impl ImpairSpec {
    /// Whether nothing is impaired.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The running impairments, if there are any.
    pub(crate) fn build(&self, random: Random) -> Option<Impairments> {
        (!self.is_none()).then_some(Impairments { spec: *self, random })
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), PathError> {
        match key {
            "reorder" => {
                let form = || PathError::Form { text: format!("reorder={value}"), form: FORM };
                let (share, held) = value.split_once('/').ok_or_else(form)?;
                self.reorder = read_share(key, share)?;
                self.held = parse_span(held).map_err(|source| quantity(key, source))?;
                // 0 % with a time is the same as leaving the part out.
                if self.reorder == 0.0 {
                    self.held = Span::ZERO;
                } else if self.held.is_zero() {
                    return Err(form());
                }
            }
            "duplicate" => self.duplicate = read_share(key, value)?,
            "corrupt" => self.corrupt = read_share(key, value)?,
            "mark" => self.mark = read_share(key, value)?,
            "ecn" => self.ecn = EcnRule::read(value)?,
            _ => return Err(PathError::unknown("impairment", key, nearest(key, KEYS), &KEYS)),
        }
        Ok(())
    }
}

fn read_share(key: &str, text: &str) -> Result<f64, PathError> {
    parse_fraction(text).map_err(|source| quantity(key, source))
}

fn quantity(key: &str, source: cellpace_base::QuantityError) -> PathError {
    PathError::Quantity { what: key.to_owned(), source }
}

impl FromStr for ImpairSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (mut spec, text) = (Self::default(), text.trim());
        if text == "none" {
            return Ok(spec);
        }
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let form = || PathError::Form { text: part.to_owned(), form: FORM };
            let (key, value) = part.split_once('=').ok_or_else(form)?;
            let key = key.trim();
            // The second would silently replace the first.
            if seen.contains(&key) {
                return Err(form());
            }
            seen.push(key);
            spec.set(key, value.trim())?;
        }
        if spec.corrupt >= 1.0 {
            return Err(PathError::NothingPasses { what: "corrupt=100%".to_owned() });
        }
        Ok(spec)
    }
}

impl fmt::Display for ImpairSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.reorder > 0.0 {
            parts.push(format!("reorder={}/{}", self.reorder.written(), self.held));
        }
        let shares =
            [("duplicate", self.duplicate), ("corrupt", self.corrupt), ("mark", self.mark)];
        for (key, share) in shares {
            if share > 0.0 {
                parts.push(format!("{key}={}", share.written()));
            }
        }
        if self.ecn != EcnRule::Pass {
            parts.push(format!("ecn={}", self.ecn.word()));
        }
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

/// Impairments of a running path.
pub(crate) struct Impairments {
    spec: ImpairSpec,
    random: Random,
}

impl Impairments {
    /// How long the packet that enters now is held back.
    pub(crate) fn hold(&mut self) -> Span {
        // No draw where nothing is to be drawn: other impairments keep their draws.
        let is_held = self.spec.reorder > 0.0 && self.random.unit() < self.spec.reorder;
        if is_held { self.spec.held } else { Span::ZERO }
    }

    /// Does to a codepoint what the path does.
    fn change_ecn(&mut self, record: &mut PacketRecord) {
        // A packet without a codepoint has nothing that could be changed.
        if !record.packet.ecn.is_capable() {
            return;
        }
        if self.spec.mark > 0.0 && self.random.unit() < self.spec.mark {
            record.packet.mark();
        }
        match (self.spec.ecn, record.packet.ecn) {
            (EcnRule::Bleach, _) => record.packet.ecn = Ecn::NotEct,
            (EcnRule::Ect1ToEct0, Ecn::Ect1) => record.packet.ecn = Ecn::Ect0,
            (EcnRule::Mark, _) => record.packet.ecn = Ecn::Ce,
            (EcnRule::Drop, _) => record.fate = Fate::Dropped(DropReason::Random),
            (EcnRule::Pass | EcnRule::Ect1ToEct0, _) => {}
        }
    }

    /// Marks, corrupts and duplicates among the packets that just left the link: those from `from`
    /// on.
    pub(crate) fn apply(&mut self, fates: &mut Vec<PacketRecord>, from: usize) {
        let mut index = from;
        while let Some(record) = fates.get_mut(index) {
            index += 1;
            if record.fate != Fate::Delivered {
                continue;
            }
            self.change_ecn(record);
            if record.fate != Fate::Delivered {
                continue;
            }
            if self.spec.corrupt > 0.0 && self.random.unit() < self.spec.corrupt {
                // Behind the link: a damaged packet has taken its share of the capacity.
                record.fate = Fate::Dropped(DropReason::Corrupt);
            } else if self.spec.duplicate > 0.0 && self.random.unit() < self.spec.duplicate {
                let copy = PacketRecord { fate: Fate::Duplicate, ..*record };
                // In front: the record of the packet itself, which is its fate, comes last.
                fates.insert(index - 1, copy);
                index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, PathSpec};
    use cellpace_base::Time;
    use proptest::prelude::*;

    #[test]
    fn forms_are_read_and_written() {
        for text in [
            "none",
            "reorder=1%/5ms",
            "duplicate=0.1%",
            "reorder=1%/5ms,duplicate=0.1%,corrupt=0.01%",
            "mark=5%",
            "corrupt=1%,mark=0.5%,ecn=bleach",
            "ecn=ect1-to-ect0",
            "ecn=drop",
            "ecn=ce",
        ] {
            assert_eq!(text.parse::<ImpairSpec>().unwrap().to_string(), text);
        }
        assert_eq!("corrupt=0%".parse(), Ok(ImpairSpec::default()));
        assert_eq!("ecn=pass".parse(), Ok(ImpairSpec::default()));
        for (text, part) in [
            ("", "write reorder=SHARE/TIME"),
            ("reorder=1%", "write reorder=SHARE/TIME"),
            ("reorder=1%/0ms", "write reorder=SHARE/TIME"),
            ("reorder=1%/5", "reorder: `5` needs a unit"),
            ("duplicate=0.01", "duplicate: `0.01` needs a unit; write 1%"),
            ("corrupt=-1%", "is not negative"),
            ("corrupt=100%", "nothing would get through"),
            ("duplicat=1%", "did you mean `duplicate`?"),
            ("ecn=bleech", "there is no ECN rule `bleech`; did you mean `bleach`?"),
            ("corrupt=1%,corrupt=2%", "`corrupt=2%` does not read"),
        ] {
            let error = text.parse::<ImpairSpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    /// What became of 20 000 packets, one every millisecond, over a link of 24 Mbit/s.
    fn records(impair: &str, seed: u64) -> Vec<PacketRecord> {
        let spec = PathSpec {
            trace: Some("constant:24mbit".parse().unwrap()),
            delay: Span::from_millis(10).into(),
            impair: impair.parse().unwrap(),
            ..PathSpec::default()
        };
        let (mut path, mut fates) = (spec.build(seed).unwrap(), Vec::new());
        for id in 0..20_000 {
            path.advance(Time::from_millis(id), &mut fates);
            path.push(Packet::new(id, 0, 1500, Time::from_millis(id)));
        }
        while let Some(next) = path.next_deadline() {
            path.advance(next, &mut fates);
        }
        fates
    }

    fn share(records: &[PacketRecord], fate: Fate) -> f64 {
        records.iter().filter(|record| record.fate == fate).count() as f64 / 20_000.0
    }

    #[test]
    fn shares_are_those_asked_for() {
        let records = records("duplicate=5%,corrupt=2%", 1);
        let duplicate = share(&records, Fate::Duplicate);
        let corrupt = share(&records, Fate::Dropped(DropReason::Corrupt));
        assert!((duplicate - 0.05 * 0.98).abs() < 0.005, "{duplicate}");
        assert!((corrupt - 0.02).abs() < 0.004, "{corrupt}");
        assert!((share(&records, Fate::Delivered) + corrupt - 1.0).abs() < 1e-12);
        // A copy stands in front of its packet, at the same time.
        for pair in records.windows(2).filter(|pair| pair[0].fate == Fate::Duplicate) {
            assert_eq!((pair[0].packet, Fate::Delivered), (pair[1].packet, pair[1].fate));
        }
    }

    #[test]
    fn codepoints_pass_or_become_what_the_rule_says() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let after = |impair: &str, ecn: Ecn| {
            let spec = PathSpec { impair: impair.parse().unwrap(), ..PathSpec::default() };
            let (mut path, mut fates) = (spec.build(1).unwrap(), Vec::new());
            path.push(Packet { ecn, ..Packet::new(0, 0, 1500, Time::ZERO) });
            path.advance(Time::from_secs(1), &mut fates);
            (fates[0].fate == Fate::Delivered).then_some(fates[0].packet.ecn)
        };
        for (impair, expected) in [
            ("none", [Some(NotEct), Some(Ect1), Some(Ect0), Some(Ce)]),
            ("mark=100%", [Some(NotEct), Some(Ce), Some(Ce), Some(Ce)]),
            ("ecn=bleach", [Some(NotEct); 4]),
            ("ecn=ect1-to-ect0", [Some(NotEct), Some(Ect0), Some(Ect0), Some(Ce)]),
            ("ecn=drop", [Some(NotEct), None, None, None]),
            ("ecn=ce", [Some(NotEct), Some(Ce), Some(Ce), Some(Ce)]),
        ] {
            assert_eq!(
                [NotEct, Ect1, Ect0, Ce].map(|ecn| after(impair, ecn)),
                expected,
                "{impair}"
            );
        }
    }

    #[test]
    fn held_packets_are_overtaken_by_those_of_the_time() {
        let records = records("reorder=3%/4500us", 2);
        let ids: Vec<u64> = records.iter().map(|record| record.packet.id).collect();
        let late = |index: usize| ids[..index].iter().rev().take(8).any(|id| *id > ids[index]);
        let overtaken: Vec<usize> = (0..ids.len()).filter(|index| late(*index)).collect();
        let share = overtaken.len() as f64 / 20_000.0;
        assert!((share - 0.03).abs() < 0.004, "{share}");
        for index in overtaken {
            // Four packets later than it was sent, unless those are held, too.
            let position = index as u64;
            assert!((1..=4).contains(&(position - ids[index])), "{} at {index}", ids[index]);
        }
    }

    #[test]
    fn the_same_seed_impairs_the_same_packets() {
        let impair = "reorder=3%/5ms,duplicate=1%,corrupt=1%";
        assert_eq!(records(impair, 1), records(impair, 1));
        assert_ne!(records(impair, 1), records(impair, 2));
        // What is drawn for impairments is not taken from other draws.
        let with_loss = |impair: &str| {
            let spec = PathSpec {
                loss: "10%".parse().unwrap(),
                impair: impair.parse().unwrap(),
                ..PathSpec::default()
            };
            let (mut path, mut fates) = (spec.build(1).unwrap(), Vec::new());
            (0..500).for_each(|id| path.push(Packet::new(id, 0, 100, Time::from_millis(id))));
            path.advance(Time::from_secs(1), &mut fates);
            let random = |r: &&PacketRecord| r.fate == Fate::Dropped(DropReason::Random);
            fates.iter().filter(random).map(|r| r.packet.id).collect::<Vec<_>>()
        };
        assert_eq!(with_loss("none"), with_loss("duplicate=50%,corrupt=20%"));
    }

    proptest! {
        /// Sent and duplicated = delivered, dropped and in flight, at every moment.
        #[test]
        fn packets_are_conserved(
            seed: u64,
            shares in (0_u32..=100, 0_u32..=100, 0_u32..100),
            held in 1_u64..50,
            sends in prop::collection::vec(0_u64..8_000, 1..200),
            link: bool,
        ) {
            let (reorder, duplicate, corrupt) = shares;
            let impair =
                format!("reorder={reorder}%/{held}ms,duplicate={duplicate}%,corrupt={corrupt}%");
            let spec = PathSpec {
                trace: link.then(|| "random:1mbit..20mbit/50ms".parse().unwrap()),
                queue: "droptail:20pkts".parse().unwrap(),
                    rtt: crate::DelaySpec::default(),
                delay: "random:0ms..20ms/7ms".parse().unwrap(),
                loss: "2%".parse().unwrap(),
                handovers: vec!["100ms/50ms/lost".parse().unwrap()],
                impair: impair.parse().unwrap(),
                jitter: "harq:bler=20%,rtt=8ms".parse().unwrap(),
                rrc: "idle=5ms,promotion=9ms".parse().unwrap(),
                send_jitter: vec![Span::from_millis(2)],
            };
            let mut path = spec.build(seed).unwrap();
            let (mut now, mut fates) = (Time::ZERO, Vec::new());
            let count = |fates: &[PacketRecord], wanted: fn(Fate) -> bool| {
                fates.iter().filter(|record| wanted(record.fate)).count()
            };
            for (id, gap) in (0..).zip(&sends) {
                now += Span::from_micros(*gap);
                path.advance(now, &mut fates);
                path.push(Packet::new(id, 0, 1500, now));
                let duplicated = count(&fates, |fate| fate == Fate::Duplicate);
                let delivered =
                    count(&fates, |fate| matches!(fate, Fate::Delivered | Fate::Duplicate));
                let dropped = count(&fates, |fate| matches!(fate, Fate::Dropped(_)));
                let in_flight = path.packets();
                prop_assert_eq!(id as usize + 1 + duplicated, delivered + dropped + in_flight);
            }
            while let Some(next) = path.next_deadline() {
                path.advance(next, &mut fates);
            }
            prop_assert_eq!(path.packets(), 0);
            prop_assert!(fates.is_sorted_by_key(|record| record.packet.departed_at));
            let mut ids: Vec<u64> = fates
                .iter()
                .filter(|record| record.fate != Fate::Duplicate)
                .map(|record| record.packet.id)
                .collect();
            ids.sort_unstable();
            prop_assert!(ids.into_iter().eq(0..sends.len() as u64), "each packet has one fate");
        }
    }
}
