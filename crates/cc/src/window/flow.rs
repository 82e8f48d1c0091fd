//! What the window-based controllers share: the window itself, slow start, one reduction per loss
//! event, growth only while the window is the limit, and the way back from a loss or timeout that
//! was none. A controller of this family is a [`WindowLaw`] inside a [`WindowFlow`].
//!
//! Windows here are in packets and may be fractional, as the RFCs and papers write them; across
//! the seam they are bytes.

use cellpace_base::{Span, Time, Window, params, words};

use crate::{
    Ack, AckedPacket, Controller, Ecn, Event, Events, Loss, Mark, Permit, Phase, SentPacket, Setup,
    Spurious, Stamp, Timeout,
};

params! {
    /// The parameters of all window-based controllers.
    pub(crate) struct WindowParams {
        /// Initial window, also after a change of path
        initial_window: Window = "10pkts", from "RFC 6928 section 2", logarithmic;
        /// Most that the flow keeps in flight, as a socket buffer bounds it
        max_window: Option<Window> = "",
            from "RFC 9293 section 3.8.6 (usable window); Linux tcp_wmem", logarithmic;
        /// Ask queues for marks in place of drops: packets leave as ECT(0), and a mark reduces as a
        /// loss does
        ecn: bool = "false", from "RFC 3168 section 6.1";
    }
}

words! {
    /// What a loss event takes its share of, for laws that RFCs define by the flight.
    pub(crate) enum ReductionBase {
        RecentFlight = "flight",
        Window = "window",
    }
}

impl ReductionBase {
    /// Returns the packets that a loss event reduces.
    pub(crate) fn packets(self, window: &CongestionWindow, flight: f64) -> f64 {
        match self {
            Self::RecentFlight => flight,
            Self::Window => window.cwnd,
        }
    }
}

/// What an unset ssthresh is shown as: finite for logs, and recognised by people as "unset".
const UNSET_SSTHRESH: f64 = 0x7fff_ffff as f64;

/// No window grows beyond this many bytes, so that sums of windows stay exact in `f64` and `u64`.
const MAX_BYTES: f64 = (1_u64 << 50) as f64;

/// Below this no reduction goes (RFC 5681 equation 4). A timeout goes to one packet.
pub(crate) const MIN_SSTHRESH: f64 = 2.0;

/// Slow start and congestion window of one flow, in packets.
#[derive(Debug, Clone)]
pub(crate) struct CongestionWindow {
    mss: f64,
    limit: f64,
    initial: f64,
    /// The flow's own bound on its flight. The window may be above it, as it may be above what
    /// an application has to send.
    most: f64,
    pub(crate) cwnd: f64,
    pub(crate) ssthresh: f64,
    recovering: bool,
}

impl CongestionWindow {
    fn new(initial_bytes: u64, mss: u64) -> Self {
        let mss = mss.max(1) as f64;
        let limit = (MAX_BYTES / mss).max(1.0);
        let initial = (initial_bytes as f64 / mss).clamp(1.0, limit);
        let (most, ssthresh) = (f64::INFINITY, f64::INFINITY);
        Self { mss, limit, initial, most, cwnd: initial, ssthresh, recovering: false }
    }

    /// Whether the window is below ssthresh (RFC 5681 section 3.1).
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether a loss event is being repaired: no packet sent after the reduction was acked yet.
    pub(crate) fn recovering(&self) -> bool {
        self.recovering
    }

    /// Slow start: one packet per packet acked, at most `limit` per ack, not beyond ssthresh.
    /// Returns how many of the acked packets are left for congestion avoidance.
    pub(crate) fn slow_start(&mut self, acked: f64, limit: f64) -> f64 {
        if !self.in_slow_start() {
            return acked;
        }
        let step = acked.min(limit).min(self.ssthresh - self.cwnd); // RFC 5681 Eq. 2, RFC 3465 2.2
        self.cwnd += step;
        if self.in_slow_start() { 0.0 } else { acked - step }
    }

    /// NewReno's whole growth rule: slow start, then one packet per window acked.
    pub(crate) fn grow_as_reno(&mut self, acked: f64, limit: f64) {
        let left = self.slow_start(acked, limit);
        self.cwnd += left / self.cwnd; // RFC 5681 Eq. 3
    }

    /// Linux' slow start after idle (tcp_cwnd_restart): the window is halved for each `rto` of
    /// `idle`, not below the initial one, and slow start goes back to three quarters of it.
    pub(crate) fn restart_after(&mut self, idle: Span, rto: Span) {
        if idle < rto || self.cwnd <= self.initial {
            return;
        }
        self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(64) as i32;
        self.cwnd = (self.cwnd * 0.5_f64.powi(halvings)).max(self.initial);
    }

    /// A size in bytes as a number of packets.
    pub(crate) fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss
    }

    /// What the flow may keep in flight.
    fn bytes(&self) -> u64 {
        (self.cwnd.min(self.most) * self.mss) as u64
    }

    fn restart(&mut self) {
        self.cwnd = self.initial;
        self.ssthresh = f64::INFINITY;
        self.recovering = false;
    }
}

/// What an ack means to a law, in packets of the MSS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    /// All packets of the ack.
    pub(crate) packets: f64,
    /// Those that may open the window: none while a loss event is repaired or while the
    /// application, or the flow's own bound, rather than the window is the limit.
    pub(crate) growth: f64,
    /// In flight before the acks of this instant.
    pub(crate) flight: f64,
    /// The highest packet number of the ack.
    pub(crate) newest: u64,
}

/// How one algorithm moves the window. Everything around it is [`WindowFlow`].
pub(crate) trait WindowLaw: Send {
    /// What a reduction overwrites and an undo brings back. Measurements do not belong to it: an
    /// undo must not forget what was seen meanwhile.
    type Memory: Copy + Send;

    /// Packets arrived. Called in recovery, too, for the sake of measurements.
    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked);

    /// A loss event began, with `flight` packets in flight: the new ssthresh.
    fn on_loss(&mut self, window: &CongestionWindow, flight: f64) -> f64;

    /// A queue has marked in place of dropping: the new ssthresh.
    fn on_mark(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.on_loss(window, flight)
    }

    /// The retransmission timer fired, for the first time in a row: the new ssthresh.
    fn on_timeout(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.on_loss(window, flight)
    }

    /// Something is sent again after `idle` in which there was nothing to send.
    fn on_idle(&mut self, window: &mut CongestionWindow, idle: Span) {
        let _ = (window, idle);
    }

    /// Forget what was learnt about the path.
    fn on_path_change(&mut self) {}

    /// Whether the delays that [`on_ack`](Self::on_ack) has just seen call for a window of one packet.
    fn empties_window(&mut self) -> bool {
        false
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called, if ever.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The deadline passed.
    fn on_deadline(&mut self, now: Time) {
        let _ = now;
    }

    /// Whether the window grows exponentially now.
    fn in_slow_start(&self, window: &CongestionWindow) -> bool {
        window.in_slow_start()
    }

    fn memory(&self) -> Self::Memory;

    fn recall(&mut self, memory: Self::Memory);

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let _ = show;
    }
}

/// A window-based controller: the shared rules around a [`WindowLaw`].
pub(crate) struct WindowFlow<L: WindowLaw> {
    pub(crate) window: CongestionWindow,
    pub(crate) law: L,
    ecn: Ecn,
    flight: RecentFlight,
    /// Packets numbered below this were sent before the last reduction; their loss belongs to it
    /// (`recover` of RFC 6582, one higher).
    recover: u64,
    next_number: u64,
    loss: Option<UndoableLoss<L::Memory>>,
    before_timeout: Option<SavedWindow<L::Memory>>,
    phase: Phase,
    events: Events,
}

/// The state in front of a reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SavedWindow<M> {
    pub(crate) cwnd: f64,
    pub(crate) ssthresh: f64,
    pub(crate) recovering: bool,
    pub(crate) recover: u64,
    pub(crate) memory: M,
}

/// The last loss event: one reduction, however many packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoableLoss<M> {
    /// Declared lost and not seen since. When all turn up late, there was no loss.
    pub(crate) missing: u64,
    pub(crate) saved: SavedWindow<M>,
}

impl<L: WindowLaw> WindowFlow<L> {
    /// `max_window` bounds what is in flight. The window sees that through the rule about windows
    /// that are not used: in slow start it stops at twice the bound, elsewhere at the bound.
    pub(crate) fn new(law: L, params: &WindowParams, setup: &Setup) -> Self {
        let mut window = CongestionWindow::new(params.initial_window.bytes(setup.mss), setup.mss);
        if let Some(most) = params.max_window {
            window.most = window.packets(most.bytes(setup.mss)).max(1.0);
        }
        let phase = phase(&law, &window);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(phase));
        Self {
            window,
            law,
            ecn: if params.ecn { Ecn::Ect0 } else { Ecn::NotEct },
            flight: RecentFlight::default(),
            recover: 0,
            next_number: 0,
            loss: None,
            before_timeout: None,
            phase,
            events,
        }
    }

    fn acked(&mut self, ack: &Ack<'_>) -> Acked {
        let (mut bytes, mut unlimited, mut newest) = (0_u64, 0_u64, 0);
        for packet in ack.packets {
            bytes = bytes.saturating_add(packet.bytes);
            unlimited = unlimited.saturating_add(if packet.app_limited { 0 } else { packet.bytes });
            newest = newest.max(packet.number);
        }
        let window = &self.window;
        let flight = window.packets(self.flight.at(ack.now, ack.prior_in_flight));
        self.flight.observe(ack, newest, flight + 1.0 > window.cwnd);
        // A window that is not used does not probe the path; growing it would allow a burst
        // later (RFC 9438 section 5.8). Slow start may run on half the window, because the flight
        // of a round is half of what the window is at its end. Nor does an ack that brings a mark.
        let growth = if window.recovering || ack.marked() > 0 {
            0
        } else if self.law.in_slow_start(window) {
            let peak = window.packets(self.flight.peak());
            if 2.0 * peak > window.cwnd { bytes } else { 0 }
        } else {
            let useful = self.flight.filled_window() && window.cwnd < window.most;
            if useful { unlimited } else { 0 }
        };
        Acked { packets: window.packets(bytes), growth: window.packets(growth), flight, newest }
    }

    /// Reduces to what the law says for congestion that packets numbered below `next_number` have
    /// met.
    fn reduce(
        &mut self,
        now: Time,
        prior_in_flight: u64,
        next_number: u64,
        ssthresh: impl FnOnce(&mut L, &CongestionWindow, f64) -> f64,
    ) {
        let flight = self.window.packets(self.flight.at(now, prior_in_flight));
        let from = self.window.bytes();
        let ssthresh = ssthresh(&mut self.law, &self.window, flight);
        self.window.ssthresh = ssthresh;
        // Never up: after a timeout the window may already be below.
        self.window.cwnd = self.window.cwnd.min(ssthresh);
        self.window.recovering = true;
        self.recover = next_number;
        self.events.push(now, Event::Reduced { from, to: self.window.bytes() });
    }

    /// As for a loss, but down to one packet, with nothing to send again and nothing to take back.
    fn empty(&mut self, now: Time) {
        let from = self.window.bytes();
        self.window.ssthresh = self.law.on_loss(&self.window, self.window.cwnd);
        self.window.cwnd = 1.0;
        (self.loss, self.before_timeout) = (None, None);
        self.events.push(now, Event::Reduced { from, to: self.window.bytes() });
    }

    /// The lost packets that no earlier reduction answers for.
    fn count(&self, loss: &Loss<'_>) -> u64 {
        loss.packets.iter().filter(|packet| packet.number >= self.recover).count() as u64
    }

    fn saved(&self) -> SavedWindow<L::Memory> {
        SavedWindow {
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            recovering: self.window.recovering,
            recover: self.recover,
            memory: self.law.memory(),
        }
    }

    /// Takes a reduction back (RFC 4015 section 3.4, RFC 9438 section 4.9). What the window has
    /// grown meanwhile stays. Losses found later are news again, so `recover` goes back, too.
    fn undo(&mut self, now: Time, saved: SavedWindow<L::Memory>) {
        self.window.cwnd = self.window.cwnd.max(saved.cwnd);
        self.window.ssthresh = saved.ssthresh;
        self.window.recovering = saved.recovering;
        self.recover = saved.recover;
        self.law.recall(saved.memory);
        self.events.push(now, Event::Undone);
    }

    fn undo_timeout(&mut self, now: Time) {
        if let Some(saved) = self.before_timeout.take() {
            self.undo(now, saved);
        }
    }

    /// The reduction is taken back once every packet of its loss event has turned up. It stays
    /// undoable until the next reduction, timeout or path.
    fn late_packet(&mut self, now: Time, packet: &AckedPacket) {
        let recover = self.recover;
        let Some(loss) = self.loss.as_mut() else { return };
        if !(loss.saved.recover..recover).contains(&packet.number) {
            return;
        }
        loss.missing = loss.missing.saturating_sub(1);
        if loss.missing > 0 {
            return;
        }
        let saved = loss.saved;
        self.loss = None;
        self.undo(now, saved);
    }

    fn settle(&mut self, now: Time) {
        self.window.cwnd = self.window.cwnd.clamp(1.0, self.window.limit);
        let phase = phase(&self.law, &self.window);
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }
}

fn phase<L: WindowLaw>(law: &L, window: &CongestionWindow) -> Phase {
    if window.recovering {
        return Phase::Recovery;
    }
    if law.in_slow_start(window) { Phase::SlowStart } else { Phase::Avoidance }
}

impl<L: WindowLaw> Controller for WindowFlow<L> {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.next_number = packet.number.saturating_add(1);
        if packet.in_flight <= packet.bytes {
            self.law.on_idle(&mut self.window, packet.now.since(self.flight.now));
        }
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.packets.is_empty() {
            return;
        }
        let acked = self.acked(ack);
        self.next_number = ack.next_number;
        if acked.newest >= self.recover {
            // A packet sent after the reduction arrived: the timeout was real, the repair is over.
            self.before_timeout = None;
            self.window.recovering = false;
        }
        self.law.on_ack(&mut self.window, ack, acked);
        if self.law.empties_window() {
            self.empty(ack.now);
        }
        self.settle(ack.now);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.next_number = loss.next_number;
        let fresh = self.count(loss);
        if fresh > 0 {
            self.loss = Some(UndoableLoss { missing: fresh, saved: self.saved() });
            self.reduce(loss.now, loss.prior_in_flight, loss.next_number, L::on_loss);
            return self.settle(loss.now);
        }
        if let Some(event) = self.loss.as_mut() {
            let start = event.saved.recover;
            let more = loss.packets.iter().filter(|packet| packet.number >= start).count();
            event.missing += more as u64;
        }
    }

    /// As a loss, but for a packet that arrived: there is nothing to send again, and nothing that
    /// could turn out to be none (RFC 3168 section 6.1.2).
    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.next_number = mark.next_number;
        // A packet sent before the last reduction: the mark belongs to it.
        if mark.newest < self.recover {
            return;
        }
        self.loss = None;
        self.reduce(mark.now, mark.prior_in_flight, mark.next_number, L::on_mark);
        self.settle(mark.now);
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.events.push(now, Event::EcnFailed);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.next_number = timeout.next_number;
        // RFC 5681 section 3.1: ssthresh is held when the timer fires again for the same data,
        // and what an undo goes back to is the state in front of the first.
        if timeout.in_a_row <= 1 || self.before_timeout.is_none() {
            self.before_timeout = Some(self.saved());
            let flight = self.window.packets(timeout.prior_in_flight);
            self.window.ssthresh = self.law.on_timeout(&self.window, flight);
        }
        self.loss = None;
        self.window.cwnd = 1.0; // RFC 5681 section 3.1, loss window
        self.window.recovering = false;
        self.recover = timeout.next_number;
        self.events.push(timeout.now, Event::Timeout);
        self.settle(timeout.now);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let now = match *spurious {
            Spurious::Timeout { now } => {
                self.undo_timeout(now);
                now
            }
            Spurious::Loss { now, packet } => {
                self.late_packet(now, packet);
                now
            }
        };
        self.settle(now);
    }

    /// Back to the initial window (RFC 9000 section 9.4). Losses of what is still in flight on
    /// the old path do not count against the new one.
    fn on_path_change(&mut self, now: Time) {
        self.window.restart();
        self.law.on_path_change();
        self.flight = RecentFlight::default();
        self.loss = None;
        self.before_timeout = None;
        self.recover = self.next_number;
        self.events.push(now, Event::Restart);
        self.settle(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.window.bytes())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.law.next_deadline()
    }

    fn on_deadline(&mut self, now: Time) {
        self.law.on_deadline(now);
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.window.cwnd);
        show("ssthresh_pkts", self.window.ssthresh.min(UNSET_SSTHRESH));
        self.law.inspect(show);
    }
}

/// How much was in flight lately.
///
/// One look at the bytes in flight is not enough: when several acks come at the same instant,
/// those behind the first see a flight that only looks unused because nothing could be sent in
/// between.
#[derive(Debug, Clone, Default)]
struct RecentFlight {
    now: Time,
    before: u64,
    round_end: u64,
    /// The most in this round, and in the one before.
    peak: u64,
    last_peak: u64,
    /// Whether the window was full at any time in this round, and in the one before. Remembered,
    /// because the acks of one instant open the window above a flight that cannot follow yet.
    filled: bool,
    last_filled: bool,
}

impl RecentFlight {
    fn observe(&mut self, ack: &Ack<'_>, newest: u64, full: bool) {
        self.before = self.at(ack.now, ack.prior_in_flight);
        self.now = ack.now;
        if newest >= self.round_end {
            self.round_end = ack.next_number;
            self.last_peak = self.peak;
            self.peak = 0;
            self.last_filled = self.filled;
            self.filled = false;
        }
        self.peak = self.peak.max(self.before);
        self.filled |= full;
    }

    /// In flight before the first ack of the instant `now`.
    fn at(&self, now: Time, bytes: u64) -> u64 {
        if now == self.now { self.before.max(bytes) } else { bytes }
    }

    fn peak(&self) -> u64 {
        self.peak.max(self.last_peak)
    }

    fn filled_window(&self) -> bool {
        self.filled || self.last_filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Boxed, ControllerFeed, MSS, feed};
    use crate::{Random, RttEstimator};
    use cellpace_base::Span;

    const FAMILY: [&str; 5] = ["newreno", "cubic", "vegas", "bic", "ledbat"];

    #[test]
    fn a_mark_reduces_as_a_loss_does_and_once_per_round_trip() {
        for name in FAMILY {
            let (mut marked, mut lossy) = (feed(name), feed(name));
            for feed in [&mut marked, &mut lossy] {
                feed.acks(20, 30, 100.0);
                feed.ack(30, 100.0);
            }
            marked.mark(30, 100.0);
            lossy.ack_marked(30, 100.0);
            lossy.lose(30);
            assert_eq!(marked.flow.permit(), lossy.flow.permit(), "{name}");
            let reduced = marked.flow.cwnd();
            marked.mark(29, 100.0);
            assert_eq!(marked.flow.cwnd(), reduced, "{name}: sent before the reduction");
            marked.finish_recovery(12, 100.0);
            marked.wait_ms(100.0);
            let before = marked.flow.cwnd();
            marked.mark(12, 100.0);
            assert!(marked.flow.cwnd() < before, "{name}: the next round trip");
        }
    }

    #[test]
    fn app_limited_flow_does_not_grow_in_avoidance() {
        for name in ["newreno", "cubic", "vegas", "bic"] {
            let mut feed = feed(name);
            feed.lose(10);
            feed.finish_recovery(5, 100.0);
            // The window was full before; one round later that is forgotten.
            feed.wait_ms(100.0);
            feed.acks(20, 1, 100.0);
            let before = feed.shown("cwnd_pkts");
            for _ in 0..500 {
                feed.wait_ms(20.0);
                feed.ack(1, 100.0);
            }
            assert_eq!(feed.shown("cwnd_pkts"), before, "{name}, flight of 1");
            feed.app_limited = true;
            for _ in 0..500 {
                feed.wait_ms(20.0);
                feed.ack(before as u64, 100.0);
            }
            assert_eq!(feed.shown("cwnd_pkts"), before, "{name}, out of data");
            feed.app_limited = false;
            for _ in 0..50 {
                feed.wait_ms(20.0);
                feed.ack(before as u64, 100.0);
            }
            assert!(feed.shown("cwnd_pkts") > before, "{name}, window full");
        }
    }

    #[test]
    fn app_limited_flow_stops_at_twice_its_flight_in_slow_start() {
        for name in ["newreno", "cubic", "vegas", "bic"] {
            let mut feed = feed(name);
            for _ in 0..500 {
                feed.wait_ms(10.0);
                feed.ack(10, 100.0);
            }
            assert_eq!(feed.shown("cwnd_pkts"), 20.0, "{name}");
        }
    }

    #[test]
    fn acks_at_one_instant_count_as_one_flight() {
        let mut feed = feed("newreno");
        feed.lose(40);
        feed.finish_recovery(5, 100.0);
        let before = feed.shown("cwnd_pkts");
        for flight in (0..=5).rev() {
            feed.ack(flight, 100.0);
        }
        assert!(feed.shown("cwnd_pkts") > before + 0.9);
        // The flight that halves is the one before the acks that revealed the loss.
        feed.wait_ms(1000.0);
        (1..=30).rev().for_each(|flight| feed.ack(flight, 100.0));
        feed.lose(4);
        assert_eq!(feed.shown("ssthresh_pkts"), 15.0);
    }

    #[test]
    fn undo_of_a_timeout_restores_the_state_before_the_first() {
        for name in FAMILY {
            let mut feed = feed(name);
            feed.lose(10);
            feed.finish_recovery(5, 100.0);
            feed.acks(3, 5, 100.0);
            let before: Vec<f64> = snapshot(&feed);
            feed.events();
            feed.time_out(5, 1);
            feed.time_out(1, 2);
            assert_eq!(feed.flow.cwnd(), MSS, "{name}");
            feed.timeout_was_spurious();
            assert_eq!(snapshot(&feed), before, "{name}");
            assert!(feed.events().contains(&Event::Undone), "{name}");
            feed.timeout_was_spurious();
            assert!(feed.events().is_empty(), "{name}: undone once only");
        }
    }

    fn snapshot(feed: &ControllerFeed<Boxed>) -> Vec<f64> {
        let mut values = Vec::new();
        feed.flow.inspect(&mut |name, value| {
            // A cached or running value, not state.
            if name != "acks_per_pkt" && name != "diff_pkts" {
                values.push(value);
            }
        });
        values
    }

    #[test]
    fn a_timeout_that_was_real_stays() {
        let mut feed = feed("newreno");
        feed.time_out(10, 1);
        feed.ack(1, 100.0);
        feed.timeout_was_spurious();
        assert_eq!(feed.shown("cwnd_pkts"), 2.0);
    }

    #[test]
    fn undo_of_a_loss_needs_all_its_packets_to_turn_up() {
        for name in FAMILY {
            let mut feed = feed(name);
            let (cwnd, ssthresh) = (feed.flow.cwnd(), feed.shown("ssthresh_pkts"));
            let first = feed.lose(10);
            let second = feed.lose(9);
            assert!(feed.flow.cwnd() <= cwnd);
            assert!(feed.shown("ssthresh_pkts") < ssthresh);
            feed.late(first);
            assert!(feed.shown("ssthresh_pkts") < ssthresh, "{name}: one is still missing");
            feed.late(second);
            assert_eq!(feed.flow.cwnd(), cwnd, "{name}");
            assert_eq!(feed.shown("ssthresh_pkts"), ssthresh, "{name}");
            let third = feed.lose(8);
            assert!(feed.shown("ssthresh_pkts") < ssthresh, "{name}: a later loss is news");
            feed.late(third);
            assert_eq!(feed.shown("ssthresh_pkts"), ssthresh, "{name}");
        }
    }

    #[test]
    fn undo_of_a_loss_is_not_moved_by_packets_of_an_earlier_event() {
        let mut feed = feed("newreno:initial_window=40pkts");
        let old = feed.lose(40);
        let older = feed.lose(39);
        feed.finish_recovery(20, 100.0);
        feed.wait_ms(100.0);
        let new = feed.lose(20);
        let reduced = feed.flow.cwnd();
        feed.late(old);
        feed.late(older);
        assert_eq!(feed.flow.cwnd(), reduced);
        feed.late(new);
        assert!(feed.flow.cwnd() > reduced);
    }

    #[test]
    fn undo_restores_the_laws_memory() {
        for (name, value) in [("cubic", "w_max_pkts"), ("bic", "w_max_pkts")] {
            let mut feed = feed(name);
            feed.lose(10);
            feed.finish_recovery(5, 100.0);
            let before = feed.shown(value);
            let late = feed.lose(5);
            assert_ne!(feed.shown(value), before, "{name}");
            feed.late(late);
            assert_eq!(feed.shown(value), before, "{name}");
        }
    }

    #[test]
    fn undo_keeps_what_grew_meanwhile() {
        let mut feed = feed("newreno");
        feed.time_out(10, 1);
        feed.timeout_was_spurious();
        feed.acks(20, 20, 100.0);
        let grown = feed.flow.cwnd();
        feed.timeout_was_spurious();
        assert_eq!(feed.flow.cwnd(), grown);
    }

    #[test]
    fn max_cwnd_bounds_the_flight_in_slow_start_and_the_window_stops_at_twice_that() {
        for name in ["newreno", "cubic", "vegas", "bic", "ledbat"] {
            let slow_start = if name == "ledbat" { ",slow_start=true" } else { "" };
            let mut feed = feed(&format!("{name}:max_window=100pkts{slow_start}"));
            for _ in 0..1000 {
                // As many as the window allows are in flight.
                let flight = feed.flow.cwnd() / MSS;
                feed.ack(flight, 100.0);
                assert!(feed.flow.cwnd() <= 100 * MSS, "{name}");
            }
            assert_eq!(feed.flow.cwnd(), 100 * MSS, "{name}");
            let window = feed.shown("cwnd_pkts");
            assert!((100.0..=201.0).contains(&window), "{name}: {window}");
        }
    }

    #[test]
    fn max_cwnd_ends_growth_in_avoidance() {
        for name in ["newreno", "cubic", "vegas", "bic", "ledbat"] {
            let mut feed = feed(&format!("{name}:max_window=100pkts"));
            feed.lose(80);
            feed.finish_recovery(80, 100.0);
            for _ in 0..20_000 {
                feed.wait_ms(5.0);
                let flight = feed.flow.cwnd() / MSS;
                feed.ack(flight, 100.0);
            }
            let window = feed.shown("cwnd_pkts");
            assert!(window <= 101.0, "{name}: {window}");
            assert!(feed.flow.cwnd() <= 100 * MSS, "{name}");
        }
    }

    #[test]
    fn max_cwnd_below_the_initial_window_holds_from_the_beginning_and_on_a_new_path() {
        for name in FAMILY {
            let mut feed = feed(&format!("{name}:max_window=2000B,initial_window=10pkts"));
            assert_eq!(feed.flow.cwnd(), 2000, "{name}");
            feed.flow.on_path_change(feed.now);
            assert_eq!(feed.flow.cwnd(), 2000, "{name}");
        }
        assert_eq!(feed("newreno:max_window=1B").flow.cwnd(), MSS, "never less than a packet");
        assert_eq!(feed("newreno").flow.cwnd(), 10 * MSS, "unset: no bound");
    }

    #[test]
    fn reduce_takes_its_share_of_the_flight_or_of_the_window() {
        for (text, ssthresh) in [
            ("newreno:max_window=20pkts,initial_window=36pkts", 10.0),
            ("newreno:max_window=20pkts,initial_window=36pkts,reduce=window", 18.0),
            ("cubic:max_window=20pkts,initial_window=40pkts", 14.0),
            ("cubic:max_window=20pkts,initial_window=40pkts,reduce=window", 28.0),
        ] {
            let mut feed = feed(text);
            feed.lose(20);
            assert_eq!(feed.shown("ssthresh_pkts"), ssthresh, "{text}");
        }
    }

    #[test]
    fn events_log_every_phase() {
        let mut feed = feed("newreno");
        feed.lose(10);
        feed.finish_recovery(5, 100.0);
        feed.time_out(5, 1);
        assert_eq!(
            feed.events(),
            [
                Event::Phase(Phase::SlowStart),
                Event::Reduced { from: 15_000, to: 7_500 },
                Event::Phase(Phase::Recovery),
                Event::Phase(Phase::Avoidance),
                Event::Timeout,
                Event::Phase(Phase::SlowStart),
            ]
        );
    }

    #[test]
    fn another_path_starts_over_and_old_losses_do_not_count() {
        for name in FAMILY {
            let mut feed = feed(name);
            let initial = feed.flow.cwnd();
            feed.acks(10, 10, 50.0);
            feed.lose(20);
            feed.flow.on_path_change(feed.now);
            assert_eq!(feed.flow.cwnd(), initial, "{name}");
            feed.lose(feed.next - feed.oldest);
            assert_eq!(feed.flow.cwnd(), initial, "{name}: lost on the old path");
            assert!(feed.events().contains(&Event::Restart));
        }
    }

    fn feed_with(name: &str, mss: u64) -> ControllerFeed<Boxed> {
        let spec: crate::ControllerSpec = name.parse().unwrap();
        let setup = Setup { mss, start: Time::ZERO, random: Random::seeded(1, 0) };
        ControllerFeed::new(Boxed(spec.build(setup)))
    }

    #[test]
    fn extreme_packet_sizes_times_and_rtts_are_survived() {
        for name in FAMILY {
            for mss in [1, 1500, 65_536, u64::from(u32::MAX), 1 << 60] {
                let mut feed = feed_with(name, mss);
                for step in 0..2000_u64 {
                    feed.wait_ms([0.0, 1e-6, 1.0, 3_600_000.0][step as usize % 4]);
                    match step % 97 {
                        40 => drop(feed.lose(1 << 20)),
                        80 => feed.time_out(1 << 20, 1),
                        _ => feed.ack(1 << 20, [0.0, 1e-6, 100.0, 7_200_000.0][step as usize % 4]),
                    }
                    let cwnd = feed.flow.cwnd();
                    assert!(cwnd >= mss, "{name}, mss {mss}: {cwnd}");
                    assert!(cwnd <= (1_u64 << 50).max(mss), "{name}, mss {mss}: {cwnd}");
                    feed.flow.inspect(&mut |what, value| assert!(value.is_finite(), "{what}"));
                }
            }
        }
    }

    #[test]
    fn a_path_without_delay_does_not_divide_by_it() {
        for name in FAMILY {
            let mut feed = feed(name);
            feed.acks(1000, 10, 0.0);
            assert!(feed.flow.cwnd() >= MSS, "{name}");
            feed.flow.inspect(&mut |what, value| assert!(value.is_finite(), "{name} {what}"));
        }
    }

    #[test]
    fn an_empty_ack_is_no_ack() {
        let mut feed = feed("cubic");
        let (now, rtt) = (feed.now, RttEstimator::default());
        feed.flow.on_ack(&Ack {
            now,
            packets: &[],
            prior_in_flight: 0,
            in_flight: 0,
            next_number: 0,
            rtt: &rtt,
        });
        feed.ack(10, 100.0);
        assert_eq!(feed.shown("base_rtt_ms"), Span::from_millis(100).as_millis_f64());
    }
}
