//! What a far side can have measured. It may be broken or lie, and delays of years or counts of
//! packets that were never sent would end up in figures, pages and traces.

use cellpace_base::{Span, Time};

use crate::plan::{Pattern, Plan};
use crate::wire::{ArrivalReport, Probe, REPORTS, ReportHead, STREAMS};

/// Maximum delay of a packet: twice the timeout of a silent session.
const MAX_DELAY: Span = Span::from_secs(60);

/// The clocks' rates differ by less than one part in this many.
const MAX_DRIFT: i128 = 100;

/// Maximum number of copies that a network makes of a datagram.
const MAX_COPIES: u64 = 8;

/// Counts may exceed those of the plan by this: a probe at each end of a period.
const SLACK: u64 = 100;

/// The shortest interval that a plan may have. A saturating sender does not send faster either.
const MIN_INTERVAL: Span = Span::from_micros(5);

/// Checks the reports of the far side of a session. The errors name the impossible value.
#[derive(Debug)]
pub(crate) struct Plausible {
    /// Maximum number of probes that the far side sends of each stream.
    max_sent: [u64; STREAMS],
    /// The first packet on both clocks: when it arrived here, when it was sent there.
    first: Option<(Time, Time)>,
}

impl Plausible {
    pub(crate) fn new(plan: &Plan) -> Self {
        let slots = |interval: Span| plan.duration.as_nanos() / interval.as_nanos().max(1) + SLACK;
        let main = match plan.pattern {
            Pattern::Every(interval) => interval,
            Pattern::Saturate { .. } => MIN_INTERVAL,
        };
        let rival = plan.rival.map_or(0, |rival| slots(rival.interval));
        let max_sent = if plan.down { [slots(main), rival] } else { [0; STREAMS] };
        Self { max_sent, first: None }
    }

    /// Checks a packet that was at this side at `here` on this side's clock, and at the far side
    /// at `there` on its clock, whichever way it went.
    pub(crate) fn check_time(&mut self, here: Time, there: Time) -> Result<(), &'static str> {
        let first = *self.first.get_or_insert((here, there));
        let since =
            |time: Time, first: Time| i128::from(time.as_nanos()) - i128::from(first.as_nanos());
        let (here, there) = (since(here, first.0), since(there, first.1));
        let most = i128::from(MAX_DELAY.as_nanos()) + here.abs() / MAX_DRIFT;
        if (here - there).abs() > most {
            return Err("times that are minutes apart from those of its first packet");
        }
        Ok(())
    }

    /// Checks a probe that arrived at `here`.
    pub(crate) fn check_probe(&mut self, here: Time, probe: &Probe) -> Result<(), &'static str> {
        if probe.number >= self.max_sent[usize::from(probe.stream)] {
            return Err("more probes of its own than were asked for");
        }
        self.check_time(here, probe.sent_at)
    }

    /// Checks a report that arrived at `here`. `sent_at` are the times at which this side sent its
    /// probes, `datagrams` is how many it sent in all.
    pub(crate) fn check_report(
        &mut self,
        here: Time,
        report: &ArrivalReport<'_>,
        sent_at: &[Vec<Time>; STREAMS],
        datagrams: u64,
    ) -> Result<(), &'static str> {
        let head = &report.head;
        self.check_counts(head, sent_at[0].len() as u64, datagrams)?;
        self.check_time(here, head.sent_at)?;
        let is_late = |time: Time| time > head.sent_at;
        if head.echo_sent > Time::ZERO {
            self.check_time(head.echo_sent, head.echo_received)?;
        }
        if is_late(head.echo_received) || report.records().any(|record| is_late(record.received_at))
        {
            return Err("an arrival that is later than the report of it");
        }
        for record in report.records().filter(|record| record.stream != REPORTS) {
            let times = sent_at.get(usize::from(record.stream));
            let sent = usize::try_from(record.number).ok().and_then(|at| times?.get(at));
            let sent = sent.ok_or("the arrival of a probe that was not sent")?;
            self.check_time(*sent, record.received_at)?;
        }
        Ok(())
    }

    fn check_counts(
        &self,
        head: &ReportHead,
        probes: u64,
        datagrams: u64,
    ) -> Result<(), &'static str> {
        let [main, rival] = self.max_sent;
        if head.sent[0] > main || head.sent[1] > rival || head.skipped > main + rival {
            return Err("more probes of its own than were asked for");
        }
        let arrivals = datagrams.saturating_mul(MAX_COPIES) + SLACK;
        if head.next_number > probes || head.arrived > arrivals || head.total > arrivals {
            return Err("more arrivals than packets were sent");
        }
        // No sum of three counts of the wire is above 64 bits.
        if head.ecn.ect0 + head.ecn.ect1 + head.ecn.ce > head.arrived {
            return Err("more codepoints than arrivals");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ArrivalRecord, ProbePacket, decode, write_report};
    use cellpace_base::Ecn;
    use cellpace_udp::wire::{EcnCounts, Ids};

    const PLAN: Plan = Plan {
        up: true,
        down: true,
        size: 500,
        pattern: Pattern::Every(Span::from_millis(1)),
        duration: Span::from_secs(2),
        rival: None,
        ecn: Ecn::Ect1,
    };

    const FIRST: ReportHead = ReportHead {
        sent_at: Time::from_secs(1000),
        echo_sent: Time::ZERO,
        echo_received: Time::ZERO,
        next_number: 3,
        arrived: 3,
        ecn: EcnCounts { ect0: 0, ect1: 2, ce: 1 },
        queue_delay: Span::ZERO,
        sent: [2000, 0],
        skipped: 0,
        done: false,
        taken: 0,
        total: 3,
        position: 0,
    };

    /// Checks a report with these records that arrives 20 ms after it was sent, after the first.
    fn check(head: &ReportHead, records: &[ArrivalRecord]) -> Result<(), &'static str> {
        let mut plausible = Plausible::new(&PLAN);
        plausible.check_time(Time::from_secs(5), FIRST.sent_at).unwrap();
        let sent_at = [(0..3).map(|n| Time::from_millis(4_900 + n)).collect(), Vec::new()];
        let mut out = Vec::new();
        write_report(&mut out, Ids { to: 1, from: 2 }, head, records.iter().copied());
        cellpace_udp::wire::seal(&mut out);
        let Some((_, ProbePacket::Report(report))) = decode(&out) else { panic!("no report") };
        plausible.check_report(Time::from_secs(5), &report, &sent_at, 10)
    }

    fn record(number: u64, micros: u64) -> ArrivalRecord {
        ArrivalRecord { stream: 0, number, received_at: Time::from_micros(micros) }
    }

    #[test]
    fn what_may_be_is_taken() {
        let records = [record(0, 999_900_000), record(2, 999_990_000), record(1, 1_000_000_000)];
        assert_eq!(check(&FIRST, &records), Ok(()));
        let copies = ReportHead { arrived: 30, total: 30, ..FIRST };
        assert_eq!(check(&copies, &[]), Ok(()));
        let echo = ReportHead {
            echo_sent: Time::from_secs(4),
            echo_received: Time::from_secs(999),
            ..FIRST
        };
        assert_eq!(check(&echo, &[]), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let years = Time::from_nanos(1 << 60);
        let most = 1 << 62;
        let heads = [
            (ReportHead { sent_at: years, ..FIRST }, "minutes apart"),
            (ReportHead { sent_at: Time::from_secs(900), ..FIRST }, "minutes apart"),
            (ReportHead { sent: [2101, 0], ..FIRST }, "than were asked for"),
            (ReportHead { sent: [0, 1], ..FIRST }, "than were asked for"),
            (ReportHead { skipped: 1 << 62, ..FIRST }, "than were asked for"),
            (ReportHead { next_number: 4, ..FIRST }, "than packets were sent"),
            (ReportHead { arrived: 1 << 62, ..FIRST }, "than packets were sent"),
            (ReportHead { total: 1 << 62, ..FIRST }, "than packets were sent"),
            (
                ReportHead { ecn: EcnCounts { ect0: 1, ..FIRST.ecn }, ..FIRST },
                "more codepoints than arrivals",
            ),
            (
                ReportHead { ecn: EcnCounts { ect0: most, ect1: most, ce: most }, ..FIRST },
                "more codepoints than arrivals",
            ),
            (ReportHead { echo_received: years, ..FIRST }, "later than the report"),
            (
                ReportHead { echo_sent: Time::from_secs(5), echo_received: years, ..FIRST },
                "minutes apart",
            ),
        ];
        for (head, expected) in heads {
            let error = check(&head, &[]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let records = [
            (record(3, 999_990_000), "was not sent"),
            (record(1 << 40, 999_990_000), "was not sent"),
            (ArrivalRecord { stream: 1, ..record(0, 999_990_000) }, "was not sent"),
            (record(0, 1_000_000_001), "later than the report"),
            (record(0, 1 << 50), "later than the report"),
            (record(0, 900_000_000), "minutes apart"),
        ];
        for (record, expected) in records {
            let error = check(&FIRST, &[record]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn clocks_may_drift_and_packets_may_wait() {
        let mut plausible = Plausible::new(&PLAN);
        let at = Time::from_secs;
        plausible.check_time(at(100), at(7)).unwrap();
        assert_eq!(plausible.check_time(at(150), at(7)), Ok(()), "50 s in a queue");
        assert_eq!(plausible.check_time(at(3700), at(3607 + 90)), Ok(()), "60 s and 36 s of drift");
        assert!(plausible.check_time(at(3700), at(3607 + 99)).is_err());
    }
}
