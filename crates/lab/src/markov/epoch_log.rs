//! A controller that is watched: one sample per epoch for a Markov model to learn from.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::{Span, Time};
use cellpace_mdi::{Chain, Sample};

use cellpace_cc::{
    Ack, Block, Controller, Ecn, Event, Frame, Loss, Mark, Pacing, Permit, Profile, Rate,
    SentPacket, Setup, Spurious, Stamp, Timeout,
};

/// Events further apart than this are no outage but two uses of one controller. It bounds what
/// one event can add to the log.
const MAX_SILENCE: Span = Span::from_secs(600);

/// One packet as a window of a [`Sample`].
const ONE_PACKET: u32 = 1 << 16;

/// Where the samples of a watched controller go.
pub trait ChainSink: Send {
    /// Samples after which a part of a chain that goes on is passed on; `None`: only whole chains
    /// are.
    fn part(&self) -> Option<usize> {
        None
    }

    /// Takes a chain, or the next part of the present one. Never empty.
    fn take(&mut self, chain: Chain, is_over: bool);
}

/// Keeps whole chains.
impl ChainSink for Arc<Mutex<Vec<Chain>>> {
    fn take(&mut self, chain: Chain, _is_over: bool) {
        // A thread that panicked left whole chains in the sink.
        self.lock().unwrap_or_else(PoisonError::into_inner).push(chain);
    }
}

/// Wraps any controller, behaves exactly like it, and logs one [`Sample`] per epoch (section 3 of
/// the MDI specification).
///
/// Epochs end on an absolute grid from the start of the connection. What happens at the very
/// instant of an end still belongs to that epoch: acks, the controller's own deadline, and what
/// its decision releases at once. The epoch that is not over when the controller is dropped is left out.
///
/// A chain ends where the next epoch says nothing about the one before: at a change of the path,
/// and where the sender has nothing to send and nothing is in flight. The log goes on with the
/// first epoch in which a packet is acked; epochs before the first ack are not logged.
pub struct EpochLog {
    inner: Box<dyn Controller>,
    sink: Box<dyn ChainSink>,
    /// Samples after which a part of a chain goes to the sink.
    part: usize,
    /// The delay of the sample before.
    last_delay_us: u32,
    mss: u64,
    chain: Chain,
    /// End of the current epoch. It is closed by the first event after it and not by a deadline
    /// of its own: one more wake-up would be one more time at which the datapath asks the
    /// controller and fills its pacer, and the run would no longer be the teacher's, bit for bit.
    end: Time,
    /// The largest RTT acked in the current epoch.
    longest_rtt: Option<Span>,
    /// Packets that left in it.
    sent: u32,
    /// The last ack since the chain began; `None`: nothing is logged yet.
    last_ack: Option<Time>,
    in_flight: u64,
    /// Whether there was nothing more to send after the last packet.
    app_limited: bool,
}

impl EpochLog {
    /// The epoch of the teachers and of the model (docs/spec/mdi.md 6).
    pub const EPOCH: Span = Span::from_millis(5);

    /// Watches `inner`, which was built with `setup`. Chains go to `sink`.
    pub fn new(inner: Box<dyn Controller>, setup: &Setup, sink: impl ChainSink + 'static) -> Self {
        Self {
            inner,
            part: sink.part().unwrap_or(usize::MAX),
            sink: Box::new(sink),
            last_delay_us: 0,
            mss: setup.mss.max(1),
            chain: Chain::new(),
            end: setup.start + Self::EPOCH,
            longest_rtt: None,
            sent: 0,
            last_ack: None,
            in_flight: 0,
            app_limited: false,
        }
    }

    /// Closes all epochs that ended before `now`.
    fn close_until(&mut self, now: Time) {
        // A sample per 5 ms of a night in which the laptop slept would be millions.
        if now - self.end > MAX_SILENCE {
            self.end_chain();
        }
        // Strictly before: what happens at the end itself belongs to that epoch.
        while self.end < now {
            self.close();
            if self.last_ack.is_none() {
                // Nothing to log: on to the epoch of `now`.
                let behind = now - self.end;
                self.end += Self::EPOCH * behind.as_nanos().div_ceil(Self::EPOCH.as_nanos());
                return;
            }
            self.end += Self::EPOCH;
        }
    }

    fn close(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        let acked = self.longest_rtt.take();
        let Some(last_ack) = self.last_ack else { return };
        if acked.is_none() && sent == 0 && self.in_flight == 0 && self.app_limited {
            // The time since the last ack grows here because the sender has no data. A model
            // would take it for an outage. While packets are in flight it may well be one, and
            // a controller that holds back by its own choice is to be imitated in that too.
            self.end_chain();
            return;
        }
        // docs/spec/mdi.md 3: the largest RTT acked, else max(previous, silence).
        let delay_us = match acked {
            Some(rtt) => micros(rtt),
            None => self.last_delay_us.max(micros(self.end - last_ack)),
        };
        self.last_delay_us = delay_us;
        self.chain.push(Sample { delay_us, window: self.window(), sent });
        if self.chain.len() >= self.part {
            self.sink.take(std::mem::take(&mut self.chain), false);
        }
    }

    /// The window in 1/65536 packets; what the controller answers now, as nothing has happened
    /// since the end of the epoch.
    fn window(&self) -> u32 {
        // In 128 bits, as a controller without a window answers `u64::MAX`.
        let window = u128::from(self.inner.cwnd()) * u128::from(ONE_PACKET) / u128::from(self.mss);
        u32::try_from(window).unwrap_or(u32::MAX).max(ONE_PACKET)
    }

    fn end_chain(&mut self) {
        self.last_ack = None;
        self.longest_rtt = None;
        // The next chain begins without a delay from before the gap.
        self.last_delay_us = 0;
        let chain = std::mem::take(&mut self.chain);
        if !chain.is_empty() {
            self.sink.take(chain, true);
        }
    }
}

impl Drop for EpochLog {
    fn drop(&mut self) {
        self.end_chain();
    }
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX)
}

impl Controller for EpochLog {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.close_until(packet.now);
        // After the epochs before are closed: this packet belongs to the one that goes on.
        self.sent = self.sent.saturating_add(1);
        self.in_flight = packet.in_flight;
        self.app_limited = packet.app_limited;
        self.inner.on_sent(packet)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.close_until(ack.now);
        // As the model's own delay at run time: acked packets only, not those that were given up
        // for lost and came late.
        let longest = ack.packets.iter().map(|packet| packet.rtt).max();
        self.longest_rtt = self.longest_rtt.max(longest);
        self.last_ack = Some(ack.now);
        self.in_flight = ack.in_flight;
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.close_until(loss.now);
        self.in_flight = loss.in_flight;
        // What is lost waits to be sent again.
        self.app_limited = false;
        self.inner.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.close_until(timeout.now);
        self.in_flight = 0;
        self.app_limited = false;
        self.inner.on_timeout(timeout);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let (Spurious::Timeout { now } | Spurious::Loss { now, .. }) = spurious;
        self.close_until(*now);
        if let Spurious::Timeout { .. } = spurious {
            // The event does not say how much is in flight again; something is.
            self.in_flight = self.in_flight.max(1);
        }
        self.inner.on_spurious(spurious);
    }

    fn on_block(&mut self, block: &Block) {
        self.close_until(block.now);
        self.inner.on_block(block);
    }

    fn on_report(&mut self, now: Time, report: &[u8]) {
        self.close_until(now);
        self.inner.on_report(now, report);
    }

    fn ecn(&self) -> Ecn {
        self.inner.ecn()
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.close_until(now);
        self.inner.on_ecn_failed(now);
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.close_until(mark.now);
        self.inner.on_mark(mark);
    }

    fn on_path_change(&mut self, now: Time) {
        self.close_until(now);
        self.end_chain();
        self.inner.on_path_change(now);
    }

    fn on_frame(&mut self, frame: &Frame) {
        self.inner.on_frame(frame);
    }

    fn target_rate(&self) -> Option<Rate> {
        self.inner.target_rate()
    }

    fn cwnd(&self) -> u64 {
        self.inner.cwnd()
    }

    fn permit(&self) -> Permit {
        self.inner.permit()
    }

    fn pacing(&self) -> Option<Pacing> {
        self.inner.pacing()
    }

    fn rto(&self) -> Option<Span> {
        self.inner.rto()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.inner.next_deadline()
    }

    fn on_deadline(&mut self, now: Time) {
        self.close_until(now);
        self.inner.on_deadline(now);
    }

    fn failure(&self) -> Option<String> {
        self.inner.failure()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.inner.poll_event()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.inner.inspect(show);
    }

    fn profile(&self) -> Option<Profile> {
        self.inner.profile()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::{AckedPacket, ControllerSpec, Random, RttEstimator};
    use proptest::prelude::*;

    const MSS: u64 = 1500;

    type Chains = Arc<Mutex<Vec<Chain>>>;

    fn setup() -> Setup {
        Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) }
    }

    fn ms(ms: f64) -> Time {
        Time::ZERO + Span::from_millis_f64(ms)
    }

    /// A watched controller and its packets in flight.
    struct Watched {
        log: Option<EpochLog>,
        chains: Chains,
        flight: u64,
        rtt: RttEstimator,
    }

    impl Watched {
        fn new(cc: &str) -> Self {
            Self::starting(cc, Time::ZERO)
        }

        fn starting(cc: &str, start: Time) -> Self {
            let chains = Chains::default();
            let setup = Setup { start, ..setup() };
            let log = EpochLog::new(
                cc.parse::<ControllerSpec>().unwrap().build(setup.clone()),
                &setup,
                Arc::clone(&chains),
            );
            Self { log: Some(log), chains, flight: 0, rtt: RttEstimator::default() }
        }

        fn log(&mut self) -> &mut EpochLog {
            self.log.as_mut().unwrap()
        }

        fn send_last(&mut self, at: f64, app_limited: bool) {
            self.flight += 1;
            let packet = SentPacket {
                now: ms(at),
                number: 0,
                bytes: MSS,
                in_flight: self.flight * MSS,
                app_limited,
                retransmission: false,
            };
            self.log().on_sent(&packet);
        }

        fn send(&mut self, at: f64) {
            self.send_last(at, false);
        }

        fn ack(&mut self, at: f64, rtts: &[f64]) {
            let prior_in_flight = self.flight * MSS;
            self.flight = self.flight.saturating_sub(rtts.len() as u64);
            let in_flight = self.flight * MSS;
            let packet = |rtt: &f64| AckedPacket {
                number: 0,
                bytes: MSS,
                sent_at: ms(at - rtt),
                rtt: Span::from_millis_f64(*rtt),
                received_at: None,
                app_limited: false,
                ecn: Default::default(),
                stamp: Stamp::default(),
            };
            let packets: Vec<_> = rtts.iter().map(packet).collect();
            let rtt = self.rtt.clone();
            let now = ms(at);
            self.log().on_ack(&Ack {
                now,
                packets: &packets,
                prior_in_flight,
                in_flight,
                next_number: 9,
                rtt: &rtt,
            });
        }

        fn time_out(&mut self, at: f64) {
            let prior_in_flight = std::mem::take(&mut self.flight) * MSS;
            let (now, in_a_row, next_number) = (ms(at), 1, 9);
            self.log().on_timeout(&Timeout { now, prior_in_flight, in_a_row, next_number });
        }

        /// Something happens that neither sends nor acks.
        fn wake(&mut self, at: f64) {
            self.log().on_report(ms(at), &[]);
        }

        fn chains(mut self) -> Vec<Chain> {
            self.log = None;
            let chains = self.chains.lock().unwrap();
            chains.clone()
        }

        /// Delays in ms and packets sent, of one chain.
        fn chain(self) -> Vec<(f64, u32)> {
            let chains = self.chains();
            assert!(chains.len() <= 1, "{chains:?}");
            chains.into_iter().flatten().map(|s| (f64::from(s.delay_us) / 1e3, s.sent)).collect()
        }
    }

    #[test]
    fn mdi_t13_nothing_is_logged_before_the_first_ack() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        for at in 1..40 {
            watched.wake(f64::from(at));
        }
        watched.ack(41.0, &[41.0]);
        watched.wake(50.1);
        // The epochs that end at 45 and 50; nothing before.
        assert_eq!(watched.chain(), [(41.0, 0), (41.0, 0)]);
    }

    #[test]
    fn the_delay_is_the_largest_rtt_acked_or_else_the_silence() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        (0..4).for_each(|_| watched.send(0.0));
        watched.ack(21.0, &[20.0, 21.0]);
        watched.ack(22.0, &[19.5]);
        // Silent from 22 to 61: 21 ms stay until the silence is longer.
        watched.ack(61.0, &[8.25]);
        watched.wake(65.5);
        let delays: Vec<f64> = watched.chain().into_iter().map(|(delay, _)| delay).collect();
        assert_eq!(delays, [21.0, 21.0, 21.0, 21.0, 23.0, 28.0, 33.0, 38.0, 8.25]);
    }

    #[test]
    fn what_happens_at_the_end_of_an_epoch_belongs_to_it() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        watched.ack(5.0, &[5.0]);
        watched.send(5.0);
        watched.send(5.001);
        watched.send(10.0);
        watched.wake(10.001);
        assert_eq!(watched.chain(), [(5.0, 2), (5.0, 2)]);
    }

    #[test]
    fn the_grid_begins_with_the_connection_and_does_not_drift() {
        let mut watched = Watched::starting("fixed:cwnd=10pkts", ms(3.0));
        watched.send(3.0);
        watched.ack(12.9, &[9.9]);
        watched.ack(18.1, &[15.1]);
        watched.wake(23.1);
        // Epochs end at 13, 18, 23.
        assert_eq!(watched.chain(), [(9.9, 0), (9.9, 0), (15.1, 0)]);
    }

    #[test]
    fn windows_are_at_least_a_packet_and_saturate() {
        for (cwnd, expected) in [
            ("fixed:cwnd=1500B", 1 << 16),
            ("fixed:cwnd=2250B", 3 << 15),
            ("fixed:cwnd=1B", 1 << 16),
            ("fixed:cwnd=1000GB", u32::MAX),
        ] {
            let mut watched = Watched::new(cwnd);
            watched.ack(1.0, &[1.0]);
            watched.wake(6.0);
            assert_eq!(watched.chains()[0][0].window, expected, "{cwnd}");
        }
    }

    /// A window that grows by a packet at each deadline, every 5 ms.
    struct Epochs {
        decided: u64,
    }

    impl Controller for Epochs {
        fn permit(&self) -> Permit {
            Permit::Window((10 + self.decided) * MSS)
        }

        fn next_deadline(&self) -> Option<Time> {
            Some(Time::from_millis(5 * (self.decided + 1)))
        }

        fn on_deadline(&mut self, _now: Time) {
            self.decided += 1;
        }
    }

    #[test]
    fn the_window_is_the_one_after_the_decision_of_the_epoch() {
        let mut watched = Watched::new("fixed");
        let (setup, chains) = (setup(), Arc::clone(&watched.chains));
        let inner = Box::new(Epochs { decided: 0 });
        watched.log = Some(EpochLog::new(inner, &setup, chains));
        watched.ack(1.0, &[1.0]);
        for at in [5, 10, 15] {
            assert_eq!(watched.log().next_deadline(), Some(Time::from_millis(at)));
            watched.log().on_deadline(Time::from_millis(at));
        }
        watched.wake(15.1);
        let windows: Vec<u32> = watched.chains()[0].iter().map(|s| s.window >> 16).collect();
        assert_eq!(windows, [11, 12, 13]);
    }

    #[test]
    fn having_nothing_to_say_ends_the_chain() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        watched.send_last(0.0, true);
        watched.ack(11.0, &[11.0]);
        // Still one in flight: silence is silence.
        watched.ack(24.0, &[24.0]);
        watched.wake(400.0);
        watched.send_last(500.0, true);
        watched.ack(512.0, &[12.0]);
        watched.wake(515.1);
        let delays = |chain: &Chain| chain.iter().map(|s| s.delay_us / 1000).collect::<Vec<_>>();
        let chains = watched.chains();
        assert_eq!(chains.iter().map(delays).collect::<Vec<_>>(), [vec![11, 11, 24], vec![12]]);
    }

    #[test]
    fn silence_of_an_outage_or_by_choice_is_logged() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        watched.send(0.0);
        watched.ack(10.0, &[10.0]);
        watched.time_out(300.0);
        watched.wake(500.1);
        // Nothing is in flight after the timeout, but lost data waits.
        let chain = watched.chain();
        assert_eq!(chain.len(), 99);
        assert_eq!(chain.last(), Some(&(490.0, 0)));
    }

    #[test]
    fn another_path_begins_another_chain() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        watched.send(0.0);
        watched.ack(10.0, &[10.0]);
        watched.log().on_path_change(ms(16.0));
        watched.wake(40.0);
        watched.ack(90.0, &[90.0]);
        watched.wake(90.1);
        let lengths: Vec<usize> = watched.chains().iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1], "epochs ending at 10 and 15; at 90");
    }

    #[test]
    fn a_jump_of_the_clock_costs_nothing() {
        let mut watched = Watched::new("fixed:cwnd=10pkts");
        watched.send(0.0);
        watched.send(0.0);
        watched.ack(1.0, &[1.0]);
        watched.log().on_report(Time::MAX, &[]);
        watched.log().on_report(Time::MAX, &[]);
        assert_eq!(watched.chain().len(), 0, "the current epoch is left out");
    }

    proptest! {
        #[test]
        fn samples_never_outnumber_epochs(
            events in prop::collection::vec((0_u8..7, 0_u32..40_000, 0_u32..90_000), 0..200),
        ) {
            let mut watched = Watched::new("newreno");
            let mut now = 0.0;
            for (kind, wait_us, rtt_us) in events {
                now += f64::from(wait_us) / 1e3;
                match kind {
                    0 | 1 => watched.send_last(now, rtt_us % 2 == 0),
                    2 | 3 => watched.ack(now, &[f64::from(rtt_us) / 1e3]),
                    4 => watched.time_out(now),
                    5 => watched.log().on_spurious(&Spurious::Timeout { now: ms(now) }),
                    _ => watched.log().on_path_change(ms(now)),
                }
            }
            let chains = watched.chains();
            let samples: usize = chains.iter().map(Vec::len).sum();
            prop_assert!(samples as f64 <= now / 5.0, "{samples} in {now} ms");
            prop_assert!(chains.iter().all(|chain| !chain.is_empty()));
            prop_assert!(chains.iter().flatten().all(|s| s.window >= ONE_PACKET));
        }
    }
}
