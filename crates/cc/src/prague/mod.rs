//! Prague: a sender for queues of low delay (L4S, RFC 9330). It asks for marks by ECT(1) and
//! reduces by half of the smoothed share of packets that come marked, as DCTCP does; a loss halves
//! the window; below an RTT of 25 ms it grows as if the RTT were that long, so that flows with
//! different short RTTs share a link by halves.
//!
//! RFC 9331 section 4 (what a sender in the L4S service must do), RFC 8257 (DCTCP), and what the
//! deployed programs do; `docs/spec/l4s.md` section 6 has the law.

mod params;
#[cfg(test)]
mod tests;

use cellpace_base::{Ecn, Rate, Span, Time};

use crate::window::flow::{SavedWindow, UndoableLoss};
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, Loss, Mark, Pacing, Permit,
    Phase, Setup, Spurious, Timeout,
};

pub(crate) use params::PragueParams;

impl ControllerParams for PragueParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Prague::new(self.clone(), &setup))
    }
}

/// No window grows beyond this many bytes, so that sums of windows stay exact.
const MAX_BYTES: f64 = (1_u64 << 50) as f64;

/// What an unset ssthresh is shown as: finite for logs.
const UNSET_SSTHRESH: f64 = 0x7fff_ffff as f64;

/// The smallest ssthresh after a timeout, in packets (RFC 5681 equation 4).
const MIN_SSTHRESH: f64 = 2.0;

/// Above this multiple of the window, ssthresh is far enough for the pacing of slow start.
const FAR_FROM_SSTHRESH: f64 = 2.0;

struct Prague {
    params: PragueParams,
    mss: u64,
    /// In packets, with fractions.
    cwnd: f64,
    ssthresh: f64,
    marks: MarkShare,
    /// Virtual round trips so far.
    rounds: u64,
    /// The present virtual round trip; none before the first ack.
    round: Option<Round>,
    /// When and from which packet number on a mark may reduce again.
    reduced_until: Time,
    reduced_before: u64,
    /// Packets numbered below this were sent before the last loss was found.
    recover: u64,
    recovering: bool,
    loss: Option<UndoableLoss<f64>>,
    before_timeout: Option<SavedWindow<f64>>,
    next_number: u64,
    srtt: Option<Span>,
    /// The share of the rate by which it swings is added in the first half of a round.
    first_half: bool,
    phase: Phase,
    events: Events,
}

/// The smoothed share of packets that come marked.
#[derive(Debug, Clone, Copy)]
struct MarkShare {
    /// alpha of RFC 8257 section 3.3
    alpha: f64,
    /// Nothing is learnt before the first mark: alpha stays at what the flow begins with.
    seen: bool,
    /// Since the last update.
    acked: u64,
    marked: u64,
    /// Marks that the last ack named, for datapaths that report more than they name.
    named: u64,
}

#[derive(Debug, Clone, Copy)]
struct Round {
    /// Over when this number is acked and a virtual RTT has passed since `start`.
    end: u64,
    start: Time,
    /// The most that was in flight in this round and the one before, in packets.
    peak: f64,
    last_peak: f64,
}

impl Prague {
    fn new(params: PragueParams, setup: &Setup) -> Self {
        let mss = setup.mss.max(1);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        let mut prague = Self {
            mss,
            cwnd: 0.0,
            ssthresh: f64::INFINITY,
            marks: MarkShare { alpha: 0.0, seen: false, acked: 0, marked: 0, named: 0 },
            rounds: 0,
            round: None,
            reduced_until: Time::ZERO,
            reduced_before: 0,
            recover: 0,
            recovering: false,
            loss: None,
            before_timeout: None,
            next_number: 0,
            srtt: None,
            first_half: true,
            phase: Phase::SlowStart,
            events,
            params,
        };
        prague.start_over();
        prague
    }

    /// Forgets what was learnt about the path.
    fn start_over(&mut self) {
        let initial = self.params.initial_window.bytes(self.mss) as f64 / self.mss as f64;
        self.cwnd = initial.clamp(self.min_window(), self.max_window());
        self.ssthresh = f64::INFINITY;
        let alpha = self.params.initial_alpha;
        self.marks = MarkShare { alpha, seen: false, acked: 0, marked: 0, named: 0 };
        (self.rounds, self.round, self.srtt) = (0, None, None);
        (self.reduced_until, self.reduced_before) = (Time::ZERO, self.next_number);
        (self.recover, self.recovering) = (self.next_number, false);
        (self.loss, self.before_timeout) = (None, None);
    }

    fn min_window(&self) -> f64 {
        (self.params.min_window.bytes(self.mss) as f64 / self.mss as f64).max(1.0)
    }

    fn max_window(&self) -> f64 {
        (MAX_BYTES / self.mss as f64).max(self.min_window())
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// How long a round trip counts: never less than `virtual_rtt`, unless the RTT is so long
    /// that it is left alone.
    fn virtual_rtt(&self) -> Span {
        let srtt = self.srtt.unwrap_or(self.params.virtual_rtt);
        if srtt >= self.params.max_scaled_rtt { srtt } else { srtt.max(self.params.virtual_rtt) }
    }

    /// What a packet's growth is multiplied with, so that a flow with a short RTT grows as fast
    /// as one with the virtual RTT: its rate by one packet per virtual RTT in each of these.
    fn growth_scale(&self) -> f64 {
        let Some(srtt) = self.srtt else { return 1.0 };
        if self.rounds < self.params.transition || srtt >= self.params.max_scaled_rtt {
            return 1.0;
        }
        let ratio = srtt.as_secs_f64() / self.virtual_rtt().as_secs_f64();
        ratio * ratio
    }

    /// At the end of a virtual round trip alpha moves towards the round's share of marks.
    fn count_round(&mut self, ack: &Ack<'_>, newest: u64) {
        let flight = ack.prior_in_flight as f64 / self.mss as f64;
        let virtual_rtt = self.virtual_rtt();
        let Some(round) = &mut self.round else {
            let (end, start) = (ack.next_number, ack.now);
            self.round = Some(Round { end, start, peak: flight, last_peak: flight });
            return;
        };
        round.peak = round.peak.max(flight);
        if newest < round.end || ack.now - round.start < virtual_rtt {
            return;
        }
        let (end, start) = (ack.next_number, ack.now);
        *round = Round { end, start, peak: flight, last_peak: round.peak };
        self.rounds += 1;
        self.marks.update(self.params.gain);
    }

    /// Unmarked packets of an ack open the window: by one each in slow start, by one per window
    /// elsewhere, and not while it is not used.
    fn grow(&mut self, ack: &Ack<'_>) {
        let peak = self.round.map_or(0.0, |round| round.peak.max(round.last_peak));
        if self.recovering || 2.0 * peak <= self.cwnd {
            return;
        }
        let counts = |packet: &&AckedPacket| {
            !packet.ecn.is_marked() && (self.in_slow_start() || !packet.app_limited)
        };
        let bytes: u64 = ack.packets.iter().filter(counts).map(|packet| packet.bytes).sum();
        let mut packets = bytes as f64 / self.mss as f64;
        if self.in_slow_start() {
            let step = packets.min(self.ssthresh - self.cwnd);
            self.cwnd += step;
            packets -= step;
        }
        self.cwnd += packets * self.growth_scale() / self.cwnd;
    }

    /// A mark reduces once per window and virtual round trip.
    fn reduce_by_share(&mut self, mark: &Mark<'_>) {
        if mark.now < self.reduced_until || mark.newest < self.reduced_before {
            return;
        }
        // RFC 8257 section 3.3: cwnd = cwnd * (1 - alpha / 2)
        let cwnd = self.cwnd * (1.0 - self.marks.alpha / 2.0);
        self.reduce_to(mark.now, cwnd.max(self.min_window()));
        self.reduced_until = mark.now + self.virtual_rtt();
        self.reduced_before = mark.next_number;
    }

    fn reduce_to(&mut self, now: Time, cwnd: f64) {
        let from = self.window();
        self.cwnd = self.cwnd.min(cwnd);
        self.ssthresh = self.cwnd;
        self.events.push(now, Event::Reduced { from, to: self.window() });
    }

    /// The window in bytes: whole packets.
    fn window(&self) -> u64 {
        (self.cwnd.floor().max(self.min_window()) as u64).saturating_mul(self.mss)
    }

    fn saved(&self) -> SavedWindow<f64> {
        let Self { cwnd, ssthresh, recover, recovering, .. } = *self;
        SavedWindow { cwnd, ssthresh, recovering, recover, memory: self.marks.alpha }
    }

    fn undo(&mut self, now: Time, saved: SavedWindow<f64>) {
        self.cwnd = self.cwnd.max(saved.cwnd);
        (self.ssthresh, self.recover) = (saved.ssthresh, saved.recover);
        (self.recovering, self.marks.alpha) = (saved.recovering, saved.memory);
        self.events.push(now, Event::Undone);
    }

    fn late_packet(&mut self, now: Time, packet: &AckedPacket) {
        let Some(event) = self.loss.as_mut() else { return };
        if !(event.saved.recover..self.recover).contains(&packet.number) {
            return;
        }
        event.missing = event.missing.saturating_sub(1);
        if event.missing == 0 {
            let saved = event.saved;
            self.loss = None;
            self.undo(now, saved);
        }
    }

    fn settle(&mut self, now: Time) {
        self.cwnd = self.cwnd.clamp(self.min_window(), self.max_window());
        let phase = match (self.recovering, self.in_slow_start()) {
            (true, _) => Phase::Recovery,
            (false, true) => Phase::SlowStart,
            (false, false) => Phase::Avoidance,
        };
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }
}

impl MarkShare {
    fn count(&mut self, acked: u64, marked: u64) {
        self.acked += acked;
        self.marked += marked;
        self.named = marked;
        self.seen |= marked > 0;
    }

    /// RFC 8257 section 3.3: alpha = (1 - g) alpha + g M
    fn update(&mut self, gain: f64) {
        if self.seen && self.acked > 0 {
            let share = (self.marked as f64 / self.acked as f64).min(1.0);
            self.alpha += gain * (share - self.alpha);
        }
        (self.acked, self.marked) = (0, 0);
    }
}

impl Controller for Prague {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.packets.is_empty() {
            return;
        }
        let newest = ack.newest().number;
        self.next_number = ack.next_number;
        self.srtt = ack.rtt.smoothed();
        self.marks.count(ack.packets.len() as u64, ack.marked());
        if newest >= self.recover {
            // A packet sent after the reduction arrived: the timeout was real, the repair is over.
            self.before_timeout = None;
            self.recovering = false;
        }
        self.count_round(ack, newest);
        let half = self.virtual_rtt() / 2;
        self.first_half = self.round.is_none_or(|round| ack.now - round.start < half);
        self.grow(ack);
        self.settle(ack.now);
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.next_number = mark.next_number;
        self.marks.marked += mark.packets.saturating_sub(self.marks.named);
        self.marks.named = 0;
        self.marks.seen = true;
        if !self.recovering {
            self.reduce_by_share(mark);
        }
        self.settle(mark.now);
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.events.push(now, Event::EcnFailed);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.next_number = loss.next_number;
        let from =
            |start: u64| loss.packets.iter().filter(|packet| packet.number >= start).count() as u64;
        let fresh = from(self.recover);
        if fresh == 0 {
            if let Some(event) = self.loss.as_mut() {
                event.missing += from(event.saved.recover);
            }
            return;
        }
        self.loss = Some(UndoableLoss { missing: fresh, saved: self.saved() });
        let cwnd = self.cwnd * self.params.loss_factor;
        self.reduce_to(loss.now, cwnd.max(self.min_window()));
        (self.recover, self.recovering) = (loss.next_number, true);
        self.settle(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.next_number = timeout.next_number;
        if timeout.in_a_row <= 1 || self.before_timeout.is_none() {
            self.before_timeout = Some(self.saved());
            self.ssthresh = (self.cwnd * self.params.loss_factor).max(MIN_SSTHRESH);
        }
        self.loss = None;
        self.cwnd = self.min_window();
        self.marks.alpha = 1.0;
        (self.recover, self.recovering) = (timeout.next_number, false);
        self.events.push(timeout.now, Event::Timeout);
        self.settle(timeout.now);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let (Spurious::Timeout { now } | Spurious::Loss { now, .. }) = *spurious;
        match spurious {
            Spurious::Timeout { .. } => {
                if let Some(saved) = self.before_timeout.take() {
                    self.undo(now, saved);
                }
            }
            Spurious::Loss { packet, .. } => self.late_packet(now, packet),
        }
        self.settle(now);
    }

    fn on_path_change(&mut self, now: Time) {
        self.start_over();
        self.events.push(now, Event::Restart);
        self.settle(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.window())
    }

    fn pacing(&self) -> Option<Pacing> {
        let srtt = self.srtt.filter(|srtt| !srtt.is_zero())?.as_secs_f64();
        let swing = self.params.pacing_swing;
        let gain = match self.first_half {
            _ if self.cwnd * FAR_FROM_SSTHRESH < self.ssthresh => 2.0,
            true => 1.0 + swing,
            false => 1.0 - swing,
        };
        let rate = gain * self.cwnd * self.mss as f64 / srtt;
        let burst = (rate * self.params.burst.as_secs_f64()) as u64;
        Some(Pacing { rate: Rate::from_bytes_per_sec(rate), burst: burst.max(self.mss) })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.cwnd);
        show("ssthresh_pkts", self.ssthresh.min(UNSET_SSTHRESH));
        show("ecn_alpha", self.marks.alpha);
        show("pacing_mbps", self.pacing().map_or(0.0, |pacing| pacing.rate.as_mbps()));
        show("rounds", self.rounds as f64);
    }
}
