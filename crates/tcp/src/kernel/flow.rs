//! A connection whose window the kernel holds, and whose data never pass here. No I/O.

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Controller, ControllerSpec, Setup};
use cellpace_kernel::{KernelRecord, Policy, SocketControl};

use crate::FlowStats;
use crate::books::{AckReport, Books};
use crate::socket::TcpProgress;

/// Where acks come closer together than this, the next one lets out what a controller has added soon
/// enough; kicking TCP costs more than everything else in an epoch.
const SOON: Span = Span::from_millis(1);

/// Each ack decays the maximum ack gap by 1/GAPS.
const GAPS: u64 = 8;

/// Connections that end before they are so many of their shortest RTTs old need not be kicked. The
/// smoothed RTT would not do: at the end of slow start, when kicks begin to matter, it has the whole
/// queue in it.
const RTTS_UNTIL_KICKED: u64 = 8;

/// The controller of such a connection. What TCP sent is learnt from its report of each ack.
pub(crate) struct KernelFlow {
    books: Books,
    /// TCP's count of acknowledged bytes when the connection was taken over.
    base: u64,
    /// How many of them are the flow's: it was taken over late.
    before: u64,
    /// When that was.
    since: Time,
    /// When TCP last reported something.
    reported_at: Time,
    /// When the last ack came, and the longest recent gap between acks. Not the mean: acks that come
    /// in bursts are near to each other and far from the next burst.
    acked_at: Time,
    gap: Span,
    /// What the kernel was last given.
    control: Option<SocketControl>,
    /// TCP can be kicked at any time, and sends then, not only when an ack comes.
    can_kick: bool,
    /// Whether TCP had data left to send then: it has sent some since, if the window let it, and
    /// what looks like silence is none.
    has_more: bool,
    tcp_cwnd: u64,
    tcp_unsent: u64,
    retransmissions: u64,
    kicks: u64,
    /// Bytes sent and acknowledged when TCP gave the connection up.
    at_end: (u64, u64),
}

impl KernelFlow {
    /// A connection with segments of `segment` bytes of payload and `overhead` of headers, of which TCP
    /// counts `base` bytes as acknowledged.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        now: Time,
        segment: u64,
        overhead: u64,
        base: u64,
    ) -> Self {
        Self {
            books: Books::new(controller, now, segment.max(1), overhead),
            base,
            before: 0,
            since: now,
            reported_at: now,
            acked_at: now,
            // Before acks have come none is expected soon.
            gap: Span::from_secs(1),
            control: None,
            can_kick: false,
            has_more: false,
            tcp_cwnd: 0,
            tcp_unsent: 0,
            retransmissions: 0,
            kicks: 0,
            at_end: (0, 0),
        }
    }

    /// Counts what was acknowledged before as the flow's, too.
    pub(crate) fn count_from_start(&mut self) {
        self.before = self.base;
    }

    /// Sets whether TCP can be kicked at any time. Then a controller's budget is one; else the
    /// window has to do, from which TCP sends when acks come.
    pub(crate) fn can_kick(&mut self, can_kick: bool) {
        self.can_kick = can_kick;
    }

    /// Whether a way to kick TCP should be looked for: the controller has a budget, TCP has
    /// something to send, and the connection is none of the short ones.
    pub(crate) fn wants_kick(&self, now: Time) -> bool {
        let settled = self.min_rtt().map(|rtt| self.since + rtt * RTTS_UNTIL_KICKED);
        !self.can_kick
            && self.has_more
            && settled.is_some_and(|settled| now >= settled)
            && self.books.limit().is_some()
    }

    /// Whether TCP should be kicked, and asked how far it is, before what is due is done. The
    /// controller portions out what may leave, and TCP has sent less of it than it may, or has not
    /// reported it because no ack came since: the next portion would go out in addition. Or the
    /// controller waits for acks no longer: then TCP has sent a packet by itself to find out whether
    /// anybody still listens (RFC 8985 section 7), which belongs to what is given up, and not to what
    /// follows.
    pub(crate) fn is_behind(&self, now: Time) -> bool {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|due| due <= now);
        if !self.can_kick || !self.has_more {
            return false;
        }
        is_due(self.books.packet_deadline())
            || is_due(self.books.controller_deadline()) && self.budget() > Some(self.books.taken())
    }

    /// TCP was kicked at `at`, has sent what it may, and is so far `now`. That may include acks which it
    /// has not reported yet.
    pub(crate) fn on_kicked(&mut self, at: Time, now: TcpProgress) {
        self.kicks += 1;
        // A record read before this question may be newer than it: time must not go back.
        let at = at.max(self.reported_at);
        let sent = (now.acked + now.outstanding).saturating_sub(self.base);
        let new = sent.saturating_sub(self.books.taken());
        if new > 0 {
            self.books.on_sent(at, at, new, now.waiting);
        }
        self.reported_at = at;
        self.has_more = now.waiting > 0;
    }

    /// TCP reports an ack that it worked in at `at`, before it sent anything on account of it. Returns
    /// whether the ack has raised the budget, as in slow start.
    pub(crate) fn on_record(&mut self, at: Time, record: &KernelRecord) -> bool {
        self.measure_gap(at);
        let at = at.max(self.reported_at);
        if record.mss > 0 {
            self.books.resegment(record.mss.into());
        }
        let acked = record.bytes_acked.saturating_sub(self.base);
        // TCP reports no sending by itself: what it has sent follows from what it has in flight.
        let sent = (acked + u64::from(record.outstanding)).saturating_sub(self.books.taken());
        // What it sent again it sent before anything new.
        self.books.on_retransmitted(self.reported_at, record.retransmitted.into());
        if sent > 0 {
            self.books.on_sent(self.sent_at(at, record), at, sent, record.unsent.into());
        }
        let report = AckReport {
            acked,
            sacked: record.sacked as usize,
            highest: acked + u64::from(record.highest_sacked),
            rtt: (record.rtt_us > 0).then(|| Span::from_micros(record.rtt_us.into())),
            prompt: record.prompt,
        };
        let before = self.budget();
        self.books.on_ack_report(at, &report);
        self.reported_at = at;
        self.has_more = record.unsent > 0;
        self.tcp_unsent = record.unsent.into();
        self.tcp_cwnd = u64::from(record.cwnd) * self.books.packet_bytes();
        self.retransmissions = record.retransmitted.into();
        self.budget() > before
    }

    /// TCP has given the connection up. A short one may have been acknowledged before we had it, and has
    /// no other record; when what was sent is not known, so it tells the controller nothing.
    pub(crate) fn on_release(&mut self, record: &KernelRecord) {
        let acked = record.bytes_acked.saturating_sub(self.base);
        self.at_end = (acked + u64::from(record.outstanding), acked);
        self.retransmissions = record.retransmitted.into();
    }

    /// The offset up to which TCP may send, where it is given one.
    fn budget(&self) -> Option<u64> {
        if self.can_kick { self.books.limit() } else { None }
    }

    fn measure_gap(&mut self, at: Time) {
        let gap = at.max(self.acked_at).since(self.acked_at);
        self.gap = gap.max(self.gap * (GAPS - 1) / GAPS);
        self.acked_at = self.acked_at.max(at);
    }

    /// Whether the next ack is about to come.
    fn expects_ack_soon(&self, now: Time) -> bool {
        self.gap < SOON && now < self.acked_at + SOON * 2 && !self.books.is_idle()
    }

    /// When TCP sent what it has sent since its last report. While something is in flight it sends
    /// when an ack comes, and so right after its report. What follows on silence was sent an RTT
    /// before its ack.
    fn sent_at(&self, at: Time, record: &KernelRecord) -> Time {
        if self.has_more || !self.books.is_idle() || record.rtt_us == 0 {
            return self.reported_at;
        }
        let rtt = Span::from_micros(record.rtt_us.into());
        self.reported_at.max(Time::from_nanos(at.as_nanos().saturating_sub(rtt.as_nanos())))
    }

    /// Does what is due.
    pub(crate) fn on_timer(&mut self, now: Time) {
        let start = now.max(self.reported_at);
        let mss = self.books.packet_bytes();
        self.books.replace_failed(|| in_place_of_failed(mss, start));
        self.books.on_timer(start);
    }

    /// Why the flow has CUBIC in place of its controller.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.books.failure()
    }

    /// When that is, if ever.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.books.next_deadline(self.has_more)
    }

    /// What the kernel is to do from now on, if that is news, and whether TCP is to be kicked to send
    /// something that it could not send before: with `at_once` also where the next ack is near.
    pub(crate) fn news(&mut self, now: Time, at_once: bool) -> Option<(SocketControl, bool)> {
        let limit = self.budget();
        let control = SocketControl {
            window: if limit.is_none() { self.books.window() } else { 0 },
            limit: limit.map(|limit| limit.saturating_add(self.base)),
            pacing: self.books.pacing(),
            policy: Policy::Hold,
        };
        let before = self.control.replace(control);
        let grew = before.is_none_or(|before| {
            control.limit > before.limit
                || control.limit.is_none() && control.window > before.window
        });
        let kick =
            grew && self.can_kick && self.has_more && (at_once || !self.expects_ack_soon(now));
        (before != Some(control)).then_some((control, kick))
    }

    /// What [`news`](Self::news) returned did not reach the kernel.
    pub(crate) fn forget_news(&mut self) {
        self.control = None;
    }

    /// The controller.
    pub(crate) fn controller_mut(&mut self) -> &mut dyn Controller {
        self.books.controller_mut()
    }

    /// Until when acks may wait, as they would let nothing through.
    pub(crate) fn acks_may_wait(&self) -> Option<Time> {
        if self.can_kick { self.books.acks_may_wait() } else { None }
    }

    /// The shortest RTT so far.
    pub(crate) fn min_rtt(&self) -> Option<Span> {
        self.books.rtt().minimum()
    }

    /// The figures.
    pub(crate) fn stats(&self) -> FlowStats {
        let rtt = self.books.rtt();
        FlowStats {
            sent_bytes: self.before + self.books.taken().max(self.at_end.0),
            acked_bytes: self.before + self.books.acked().max(self.at_end.1),
            cwnd: self.books.controller().cwnd(),
            tcp_cwnd: self.tcp_cwnd,
            tcp_unsent: self.tcp_unsent,
            in_flight: self.books.in_flight(),
            srtt: rtt.smoothed(),
            min_rtt: rtt.minimum(),
            retransmissions: self.retransmissions,
            segment_bytes: self.books.segment(),
            kicks: self.kicks,
            ..FlowStats::default()
        }
    }
}

/// What most systems have for plain TCP: the kernel driver bounds the flow by nothing but its controller.
fn in_place_of_failed(mss: u64, start: Time) -> Box<dyn Controller> {
    let cubic: ControllerSpec = "cubic".parse().expect("it is registered, and needs no file");
    cubic.build(Setup { mss, start, random: Random::seeded(0, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    use cellpace_base::Random;
    use cellpace_cc::{ControllerSpec, Setup};
    use cellpace_kernel::{RecordKind, RecoveryState};
    use proptest::prelude::*;

    const MSS: u32 = 1448;

    fn kernel_flow(cc: &str) -> KernelFlow {
        let spec: ControllerSpec = cc.parse().unwrap();
        let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
        KernelFlow::new(spec.build(setup), Time::ZERO, MSS.into(), 52, 1)
    }

    /// What TCP reports when `acked` packets have been acknowledged and `outstanding` are on their
    /// way.
    fn record(acked: u64, outstanding: u32, rtt_ms: u32) -> KernelRecord {
        KernelRecord {
            cookie: 7,
            time_ns: 0,
            bytes_acked: 1 + acked * u64::from(MSS),
            kind: RecordKind::Ack,
            recovery: RecoveryState::Open,
            fallback: false,
            prompt: false,
            acked: 1,
            rtt_us: rtt_ms * 1000,
            delivered: acked as u32,
            retransmitted: 0,
            unsent: 100_000,
            mss: MSS,
            cwnd: 10,
            outstanding: outstanding * MSS,
            sacked: 0,
            highest_sacked: 0,
        }
    }

    #[test]
    fn the_kernel_gets_a_window_once() {
        let mut kernel_flow = kernel_flow("fixed:cwnd=20pkts");
        let (control, _) = kernel_flow.news(Time::ZERO, false).unwrap();
        assert_eq!(control.window, 20 * u64::from(MSS));
        assert_eq!(control.pacing, None);
        assert_eq!(kernel_flow.news(Time::ZERO, false), None);
        kernel_flow.on_record(Time::from_millis(40), &record(1, 19, 40));
        let news = kernel_flow.news(Time::from_millis(40), false);
        assert_eq!(news, None, "in flight and room are still twenty together");
    }

    #[test]
    fn a_connection_whose_only_record_is_its_end_has_its_bytes_and_no_rtt() {
        let mut kernel_flow = kernel_flow("verus:r=2");
        kernel_flow.on_release(&KernelRecord { rtt_us: 0, ..record(3, 1, 0) });
        let stats = kernel_flow.stats();
        assert_eq!((stats.sent_bytes, stats.acked_bytes), (4 * 1448, 3 * 1448));
        assert_eq!((stats.srtt, stats.in_flight), (None, 0));
        kernel_flow.count_from_start();
        assert_eq!(kernel_flow.stats().acked_bytes, 1 + 3 * 1448);
    }

    #[test]
    fn what_follows_on_silence_was_sent_an_rtt_before_its_ack() {
        let mut kernel_flow = kernel_flow("fixed:cwnd=20pkts");
        kernel_flow.on_record(Time::from_millis(9_040), &record(1, 0, 40));
        assert_eq!(kernel_flow.stats().srtt, Some(Span::from_millis(40)));
        // All is sent. A second of silence, and ten packets of which one is acknowledged.
        kernel_flow
            .on_record(Time::from_millis(9_041), &KernelRecord { unsent: 0, ..record(1, 0, 40) });
        kernel_flow.on_record(Time::from_millis(10_050), &record(2, 9, 50));
        assert_eq!(kernel_flow.stats().in_flight, 9 * 1500);
        // While something is in flight, packets follow on acks.
        kernel_flow.on_record(Time::from_millis(10_055), &record(11, 5, 55));
        kernel_flow.on_record(Time::from_millis(10_105), &record(16, 0, 50));
        assert_eq!(kernel_flow.stats().min_rtt, Some(Span::from_millis(40)));
        assert_eq!(kernel_flow.stats().in_flight, 0);
    }

    #[test]
    fn a_controller_runs_on_while_tcp_has_more_to_send() {
        let mut kernel_flow = kernel_flow("verus:r=2");
        kernel_flow.on_record(Time::from_millis(40), &record(2, 0, 40));
        assert!(kernel_flow.next_deadline().is_some(), "two more have left by now");
        kernel_flow
            .on_record(Time::from_millis(80), &KernelRecord { unsent: 0, ..record(4, 0, 40) });
        assert_eq!(kernel_flow.next_deadline(), None);
    }

    #[test]
    fn tcp_is_told_to_send_unless_the_next_ack_is_near() {
        let kicked_with_gaps_of = |micros: u64, silence: u64| {
            let mut kernel_flow = kernel_flow("fixed:cwnd=20pkts,max=60pkts,every=1s");
            kernel_flow.can_kick(true);
            kernel_flow.news(Time::ZERO, false);
            let (mut now, mut acked) = (Time::from_millis(40), 0);
            let mut kicks = [0, 0];
            while now < Time::from_secs(20) {
                now += Span::from_micros(micros);
                acked += 1;
                kernel_flow.on_record(now, &record(acked, 19, 40));
                let later = now + Span::from_micros(silence);
                while kernel_flow.next_deadline().is_some_and(|due| due <= later) {
                    kernel_flow.on_timer(later);
                }
                if let Some((_, kick)) = kernel_flow.news(later, false) {
                    kicks[usize::from(kick)] += 1;
                }
            }
            kicks
        };
        let [quiet, kicked] = kicked_with_gaps_of(250, 100);
        assert!(quiet >= 15 && kicked == 0, "{quiet} {kicked}");
        // About half of the windows are larger than the one before.
        for (gap, silence) in [(2500, 100), (900, 2500)] {
            let [quiet, kicked] = kicked_with_gaps_of(gap, silence);
            assert!(quiet >= 4 && kicked >= 4, "{gap} {silence}: {quiet} {kicked}");
        }
    }

    #[test]
    fn within_a_burst_of_acks_the_next_ack_is_not_taken_to_be_near() {
        let mut kernel_flow = kernel_flow("fixed:cwnd=20pkts");
        let mut now = Time::from_millis(40);
        for burst in 0..20 {
            now += Span::from_millis(8);
            for at in 1..=5 {
                kernel_flow.on_record(now, &record(5 * burst + at, 15, 40));
                assert!(!kernel_flow.expects_ack_soon(now), "{burst} {at}");
            }
        }
        for at in 101..140 {
            now += Span::from_micros(250);
            kernel_flow.on_record(now, &record(at, 15, 40));
        }
        assert!(kernel_flow.expects_ack_soon(now), "{:?}", kernel_flow.gap);
        assert!(!kernel_flow.expects_ack_soon(now + SOON * 2), "it should have come");
    }

    /// Verus with a budget, after some RTTs of slow start.
    fn budgeted() -> (KernelFlow, Time, u64) {
        let mut kernel_flow = kernel_flow("verus:r=2");
        kernel_flow.can_kick(true);
        let (mut now, mut acked) = (Time::ZERO, 0);
        for _ in 0..4 {
            now += Span::from_millis(40);
            acked += 2;
            assert!(kernel_flow.on_record(now, &record(acked, 2, 40)), "it grows with each ack");
            kernel_flow.on_timer(now);
        }
        (kernel_flow, now, acked)
    }

    fn so_far(acked: u64, outstanding: u64) -> TcpProgress {
        let mss = u64::from(MSS);
        TcpProgress { acked: 1 + acked * mss, outstanding: outstanding * mss, waiting: 100_000 }
    }

    #[test]
    fn a_kick_reports_what_was_sent_whatever_was_acknowledged_meanwhile() {
        let (mut kernel_flow, now, acked) = budgeted();
        let before = kernel_flow.stats().sent_bytes;
        // Of the two in flight one is acknowledged, and three more have left.
        kernel_flow.on_kicked(now, so_far(acked + 1, 4));
        assert_eq!(kernel_flow.stats().sent_bytes, before + 3 * u64::from(MSS));
        // The ack's record, from before that, is no news of anything sent.
        kernel_flow.on_record(now, &record(acked + 1, 1, 40));
        assert_eq!(kernel_flow.stats().sent_bytes, before + 3 * u64::from(MSS));
        assert_eq!(kernel_flow.stats().acked_bytes, (acked + 1) * u64::from(MSS));
    }

    #[test]
    fn tcp_is_asked_before_a_portion_is_added_to_one_that_it_has_not_told_of() {
        let (mut kernel_flow, now, acked) = budgeted();
        let epoch = kernel_flow.books.controller_deadline().unwrap();
        assert!(epoch > now && !kernel_flow.is_behind(now), "nothing is due");
        assert!(kernel_flow.budget() > Some(kernel_flow.books.taken()));
        assert!(kernel_flow.is_behind(epoch));
        let room = kernel_flow.budget().unwrap() - kernel_flow.books.taken();
        kernel_flow.on_kicked(epoch, so_far(acked, 2 + room / u64::from(MSS)));
        assert!(!kernel_flow.is_behind(epoch), "all of it has left");
        kernel_flow.can_kick(false);
        assert!(
            !kernel_flow.is_behind(kernel_flow.books.packet_deadline().unwrap()),
            "nobody to ask"
        );
    }

    #[test]
    fn what_tcp_sent_to_find_out_whether_anybody_listens_is_told_before_the_timeout() {
        let (mut kernel_flow, _, acked) = budgeted();
        kernel_flow.on_kicked(kernel_flow.reported_at, so_far(acked, 10));
        let gives_up = kernel_flow.books.packet_deadline().unwrap();
        assert!(kernel_flow.is_behind(gives_up));
        kernel_flow.on_kicked(gives_up, so_far(acked, 11));
        kernel_flow.on_timer(gives_up);
        let stats = kernel_flow.stats();
        assert_eq!(stats.sent_bytes, (acked + 11) * u64::from(MSS));
        assert_eq!(stats.in_flight, 0, "it is given up with the others");
    }

    #[test]
    fn a_budget_that_is_some_rtts_old_wants_to_be_pushed_and_a_window_does_not() {
        let mut verus = kernel_flow("verus:r=2");
        let mut copa = kernel_flow("copa");
        for round in 1..=20 {
            let at = Time::from_millis(40 * round);
            for flow in [&mut verus, &mut copa] {
                flow.on_record(at, &record(2 * round, 2, 40));
            }
            assert_eq!(verus.wants_kick(at), round >= 8, "round {round}");
            assert!(!copa.wants_kick(at), "acks make room for it");
        }
        let at = Time::from_millis(801);
        let nothing_left = TcpProgress { acked: 1, outstanding: 0, waiting: 0 };
        verus.can_kick(true);
        assert!(!verus.wants_kick(at), "it is kicked already");
        verus.on_kicked(at, nothing_left);
        assert_eq!(verus.stats().kicks, 1);
        verus.can_kick(false);
        assert!(!verus.wants_kick(at), "nothing to send");
    }

    #[test]
    fn a_hole_is_a_loss() {
        let mut kernel_flow = kernel_flow("newreno");
        kernel_flow.on_record(Time::from_millis(40), &record(1, 19, 40));
        let before = kernel_flow.stats().cwnd;
        let hole = KernelRecord { sacked: 4, highest_sacked: 5 * MSS, ..record(1, 19, 40) };
        kernel_flow.on_record(Time::from_millis(45), &hole);
        assert!(kernel_flow.stats().cwnd < before, "{before}");
    }

    /// TCP on a path of 40 ms, with as much in flight as the kernel was told to have; it is told
    /// anew every half millisecond. Returns packets acknowledged in the last of `seconds`.
    fn on_a_path(cc: &str, seconds: u64) -> u64 {
        let mut kernel_flow = kernel_flow(cc);
        let mut on_path: VecDeque<Time> = VecDeque::new();
        let (mut acked, mut before, mut window) = (0, 0, 2);
        for tick in 0..seconds * 2000 {
            let now = Time::from_micros(tick * 500);
            if tick == (seconds - 1) * 2000 {
                before = acked;
            }
            while on_path.front().is_some_and(|due| *due <= now) {
                let due = on_path.pop_front().unwrap();
                acked += 1;
                kernel_flow.on_record(due, &record(acked, on_path.len() as u32, 40));
                while on_path.len() < window {
                    on_path.push_back(due + Span::from_millis(40));
                }
            }
            while kernel_flow.next_deadline().is_some_and(|due| due <= now) {
                kernel_flow.on_timer(now);
            }
            if let Some((control, _)) = kernel_flow.news(now, false) {
                window = (control.window / u64::from(MSS)).clamp(2, 1000) as usize;
            }
            while on_path.len() < window.min(2) {
                on_path.push_back(now + Span::from_millis(40));
            }
        }
        // Whatever timers did meanwhile: a packet's RTT begins when it left.
        assert_eq!(kernel_flow.stats().min_rtt, Some(Span::from_millis(40)), "{cc}");
        acked - before
    }

    #[test]
    fn controllers_open_the_window_on_an_empty_path() {
        for cc in ["verus:r=2", "copa", "cubic", "newreno", "vegas", "bbr", "bbr3", "ledbat", "mdi"]
        {
            let reached = on_a_path(cc, 3);
            assert!(reached > 500, "{cc}: {reached} packets in a second");
        }
    }

    proptest! {
        /// A path of any RTT with a window that the kernel holds: all that is sent is accounted
        /// for, never more than once, and the RTT is the path's.
        #[test]
        fn the_books_balance_on_any_path(rtt in 2u64..200, window in 2u32..60, acks in 1usize..400) {
            let mut kernel_flow = kernel_flow("fixed:cwnd=20pkts");
            let mut on_path: VecDeque<u64> = (0..u64::from(window)).map(|_| rtt * 1000).collect();
            let mut acked = 0;
            for _ in 0..acks {
                let at = on_path.pop_front().unwrap();
                acked += 1;
                let report = record(acked, on_path.len() as u32, rtt as u32);
                kernel_flow.on_record(Time::from_micros(at), &report);
                // What the ack released is sent then.
                on_path.push_back(at + rtt * 1000);
            }
            let stats = kernel_flow.stats();
            prop_assert_eq!(stats.acked_bytes, acked * u64::from(MSS));
            prop_assert_eq!(stats.in_flight, (stats.sent_bytes - stats.acked_bytes) / u64::from(MSS) * 1500);
            prop_assert_eq!(stats.min_rtt, Some(Span::from_millis(rtt)));
            prop_assert!(stats.srtt.unwrap() < Span::from_millis(rtt) + Span::from_micros(1));
        }
    }
}
