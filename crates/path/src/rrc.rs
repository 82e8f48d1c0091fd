//! RRC: a radio link that goes idle after a time without packets, and wakes with the next one.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};

use cellpace_base::{ParamSet, Span, Time, params};

use crate::error::PathError;

params! {
    /// The parameters of idle and promotion.
    #[derive(Copy, PartialEq)]
    struct RrcParams {
        /// Time without packets after which the link is idle
        idle: Span = "11.6s" in Span::from_millis(1)..=Span::from_secs(3600), from "Huang et al., MobiSys 2012 (LTE)";
        /// Time from the first packet until the link carries any
        promotion: Span = "260ms" in Span::ZERO..=Span::from_secs(60), from "Huang et al., MobiSys 2012 (LTE)";
    }
    presets {
        lte = "idle=11.6s,promotion=260ms", "an LTE network", from "Huang et al., MobiSys 2012";
        umts = "idle=17s,promotion=2s",
            "a UMTS network, as if it had no state between DCH and idle", from "Qian et al., IMC 2010";
    }
}

/// RRC by its written form: `none`, `lte`, `umts`, or `lte,idle=5s,promotion=300ms`.
///
/// The link is idle at time zero, and whenever no packet has reached or left it in either direction for `idle`. The
/// first packet then starts a promotion, and what comes until its end waits; that counts as time in the queue.
/// Neither paging nor states between the two are modelled.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RrcSpec {
    params: Option<RrcParams>,
}

impl RrcSpec {
    /// The link at time zero, if it has states.
    pub(crate) fn build(&self) -> Option<Rrc> {
        let state = RrcState { params: self.params?, ready: Time::ZERO, last: None };
        Some(Rrc(Arc::new(Mutex::new(state))))
    }
}

impl FromStr for RrcSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.trim() == "none" {
            return Ok(Self::default());
        }
        Ok(Self { params: Some(RrcParams::parse("rrc", text)?) })
    }
}

impl fmt::Display for RrcSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.params {
            Some(RrcParams { idle, promotion }) => write!(f, "idle={idle},promotion={promotion}"),
            None => f.write_str("none"),
        }
    }
}

/// The state of a link, which both directions share: a phone has one connection.
#[derive(Clone)]
pub(crate) struct Rrc(Arc<Mutex<RrcState>>);

impl Rrc {
    /// When a packet that reaches the link at `now` can enter it: `now`, or the end of the promotion.
    pub(crate) fn ready_at(&self, now: Time) -> Time {
        self.state().ready_at(now)
    }

    /// A packet left the link at `time`, or waits there.
    pub(crate) fn keep_awake(&self, time: Time) {
        self.state().keep_awake(time);
    }

    fn state(&self) -> MutexGuard<'_, RrcState> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

struct RrcState {
    params: RrcParams,
    /// When the last promotion ends.
    ready: Time,
    /// When the link was last in use; `None`: never.
    last: Option<Time>,
}

impl RrcState {
    fn ready_at(&mut self, now: Time) -> Time {
        if self.is_idle(now) {
            self.ready = now + self.params.promotion;
        }
        let ready = now.max(self.ready);
        self.keep_awake(ready);
        ready
    }

    fn is_idle(&self, now: Time) -> bool {
        self.last.is_none_or(|last| now > last + self.params.idle)
    }

    fn keep_awake(&mut self, time: Time) {
        // The two directions report in any order.
        self.last = self.last.max(Some(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DuplexSpec, Fate, Packet, PacketRecord, Path};
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Both directions of a link of 12 Mbit/s down and no limit up, without delay.
    fn paths(rrc: &str) -> [Path; 2] {
        let mut link = DuplexSpec::default();
        link.down.trace = Some("constant:12mbit".parse().unwrap());
        link.down.rrc = rrc.parse().unwrap();
        let (down, mut up) = (link.down.build(1).unwrap(), link.up.build_reverse(1).unwrap());
        up.share_radio(&down);
        [down, up]
    }

    /// When packets that are sent at these times, in these directions, leave the link.
    fn departures(rrc: &str, sends: &[(u64, usize)]) -> Vec<(u64, f64)> {
        let (mut paths, mut fates) = (paths(rrc), Vec::new());
        let mut advance = |paths: &mut [Path; 2], end: Time| loop {
            let next = paths.iter().filter_map(Path::next_deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            paths.iter_mut().for_each(|path| path.advance(next, &mut fates));
        };
        for (id, (at, direction)) in (0..).zip(sends) {
            advance(&mut paths, ms(*at));
            paths[*direction].push(Packet::new(id, 0, 1500, ms(*at)));
        }
        advance(&mut paths, Time::from_secs(1_000_000));
        assert!(paths.iter().all(|path| path.packets() == 0));
        assert!(fates.iter().all(|record| record.fate == Fate::Delivered));
        let left =
            |record: &PacketRecord| (record.packet.id, record.packet.departed_at.as_millis_f64());
        fates.iter().map(left).collect()
    }

    #[test]
    fn forms_are_read_and_written() {
        for (text, shown) in [
            ("none", "none"),
            ("lte", "idle=11600ms,promotion=260ms"),
            ("umts", "idle=17s,promotion=2s"),
            ("umts,idle=5s", "idle=5s,promotion=2s"),
            ("idle=5s", "idle=5s,promotion=260ms"),
        ] {
            assert_eq!(text.parse::<RrcSpec>().unwrap().to_string(), shown, "{text}");
            assert_eq!(shown.parse::<RrcSpec>(), text.parse(), "{text}");
        }
        for (text, part) in [
            ("ltr", "`rrc`: `ltr` should be key=value"),
            ("lte,idle=0s", "out of range"),
            ("lte,promotion=2min", "out of range"),
            ("lte,idl=1s", "did you mean `idle`?"),
        ] {
            let error = text.parse::<RrcSpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn an_idle_link_wakes_with_a_packet_of_either_direction() {
        // Up at 0 ms: there at 260 ms. Its answer down finds the link awake, and takes 1 ms on it. At 11 860 ms the
        // link has been silent for less than 11.6 s since 300 ms.
        let sends = [(0, 1), (299, 0), (11_860, 1), (23_461, 0), (23_700, 1), (23_721, 0)];
        let times = [(0, 260.), (1, 300.), (2, 11_860.), (3, 23_722.), (4, 23_721.), (5, 23_723.)];
        let mut left = departures("lte", &sends);
        left.sort_by_key(|(id, _)| *id);
        assert_eq!(left, times);
    }

    #[test]
    fn what_comes_during_a_promotion_waits_in_its_order() {
        let sends = [(10, 0), (10, 0), (200, 0), (300, 1), (2_500, 0)];
        let left = departures("umts", &sends);
        assert_eq!(left, [(3, 2010.), (0, 2011.), (1, 2012.), (2, 2013.), (4, 2501.)]);
    }

    #[test]
    fn a_queue_that_is_served_slowly_keeps_the_link_awake() {
        let mut link = DuplexSpec::default();
        // Nothing is delivered from 1 s to 4 s.
        link.down.trace = Some("step:12mbit/1s,0mbit/3s,12mbit/1000s".parse().unwrap());
        link.down.rrc = "idle=2s,promotion=1s".parse().unwrap();
        let (mut path, mut fates) = (link.down.build(1).unwrap(), Vec::new());
        for (id, at) in [(0, 500), (1, 1_600), (2, 3_900)] {
            path.advance(ms(at), &mut fates);
            path.push(Packet::new(id, 0, 1500, ms(at)));
        }
        path.advance(ms(9_000), &mut fates);
        let left: Vec<_> = fates.iter().map(|r| r.packet.departed_at.as_millis_f64()).collect();
        assert_eq!(left, [4001., 4002., 4003.]);
        assert_eq!(fates[2].packet.enqueued_at, ms(3_900));
    }

    proptest! {
        #[test]
        fn no_packet_is_lost_overtaken_or_later_than_a_promotion(
            gaps in prop::collection::vec((0_u64..400, 0_usize..2), 1..100),
            idle in 1_u64..300,
            promotion in 0_u64..300,
        ) {
            let mut at = 0;
            let sends: Vec<_> = gaps.iter().map(|(gap, way)| { at += gap; (at, *way) }).collect();
            let with = departures(&format!("idle={idle}ms,promotion={promotion}ms"), &sends);
            let mut without = departures("none", &sends);
            prop_assert_eq!(with.len(), sends.len());
            without.sort_by_key(|(id, _)| *id);
            for direction in 0..2 {
                let of_way: Vec<_> = with.iter().filter(|(id, _)| sends[*id as usize].1 == direction).collect();
                prop_assert!(of_way.is_sorted());
                for (id, left) in of_way {
                    // Packets that wait together leave one after the other, 1 ms each.
                    let latest = without[*id as usize].1 + promotion as f64 + sends.len() as f64;
                    prop_assert!((without[*id as usize].1..=latest).contains(left), "{} {}", id, left);
                }
            }
        }
    }
}
