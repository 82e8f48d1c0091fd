//! A controller that is watched: one sample per epoch for a Markov model to learn from.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::{Span, Time};
use cellpace_mdi::{Chain, Sample};

use crate::{
    Ack, Block, Controller, Event, Loss, Pacing, Profile, SentPacket, Setup, Spurious, Stamp,
    Timeout,
};

/// Where the chains of watched controllers go, each when it ends.
pub type Chains = Arc<Mutex<Vec<Chain>>>;

/// Events further apart than this are no outage but two uses of one controller. It bounds what
/// one event can add to the log.
const LONGEST_SILENCE: Span = Span::from_secs(600);

/// One packet as a window of a [`Sample`].
const ONE_PACKET: u32 = 1 << 16;

/// Wraps any controller, behaves exactly like it, and logs one [`Sample`] per epoch (section 3 of
/// the MDI specification).
///
/// Epochs end on an absolute grid from the start of the connection. What happens at the very
/// instant of an end still belongs to that epoch: acks, the controller's own deadline, and what
/// its decision releases at once. The epoch under way when the controller is dropped is left out.
///
/// A chain ends where the next epoch says nothing about the one before: at a change of the path,
/// and where the sender has nothing to send and nothing is in flight. The log goes on with the
/// first epoch in which a packet is acked; epochs before the first ack are not logged.
pub struct EpochLog {
    inner: Box<dyn Controller>,
    sink: Chains,
    epoch: Span,
    mss: u64,
    chain: Chain,
    /// End of the epoch under way. It is closed by the first event after it and not by a deadline
    /// of its own: one more wake-up would be one more time at which the datapath asks the
    /// controller and fills its pacer, and the run would no longer be the teacher's, bit for bit.
    end: Time,
    /// The largest RTT acked in the epoch under way.
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
    /// The epoch of the teachers and of the model (section 6 of the specification).
    pub const EPOCH: Span = Span::from_millis(5);

    /// Watches `inner`, which was built with `setup`. An epoch is at least a microsecond.
    pub fn new(inner: Box<dyn Controller>, setup: &Setup, epoch: Span, sink: Chains) -> Self {
        let epoch = epoch.max(Span::from_micros(1));
        Self {
            inner,
            sink,
            epoch,
            mss: setup.mss.max(1),
            chain: Chain::new(),
            end: setup.start + epoch,
            longest_rtt: None,
            sent: 0,
            last_ack: None,
            in_flight: 0,
            app_limited: false,
        }
    }

    /// Closes all epochs that ended before `now`.
    fn close_until(&mut self, now: Time) {
        if now - self.end > LONGEST_SILENCE {
            self.end_chain();
        }
        while self.end < now {
            self.close();
            if self.last_ack.is_none() {
                // Nothing to log: on to the epoch of `now`.
                let behind = now - self.end;
                self.end += self.epoch * behind.as_nanos().div_ceil(self.epoch.as_nanos());
                return;
            }
            self.end += self.epoch;
        }
    }

    fn close(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        let acked = self.longest_rtt.take();
        let Some(last_ack) = self.last_ack else { return };
        if acked.is_none() && sent == 0 && self.in_flight == 0 && self.app_limited {
            // The time since the last ack grows here because nobody has anything to say. A model
            // would take it for an outage. While packets are in flight it may well be one, and
            // a controller that holds back by its own choice is to be imitated in that too.
            self.end_chain();
            return;
        }
        // Section 3 of the specification: the largest RTT acked, else max(previous, silence).
        let before = self.chain.last().map_or(0, |sample| sample.delay_us);
        let delay_us = match acked {
            Some(rtt) => micros(rtt),
            None => before.max(micros(self.end - last_ack)),
        };
        self.chain.push(Sample { delay_us, window: self.window(), sent });
    }

    /// The window in 1/65536 packets; what the controller answers now, as nothing has happened
    /// since the end of the epoch.
    fn window(&self) -> u32 {
        let window = u128::from(self.inner.cwnd()) * u128::from(ONE_PACKET) / u128::from(self.mss);
        u32::try_from(window).unwrap_or(u32::MAX).max(ONE_PACKET)
    }

    fn end_chain(&mut self) {
        self.last_ack = None;
        self.longest_rtt = None;
        let chain = std::mem::take(&mut self.chain);
        if !chain.is_empty() {
            // Whoever panicked with the sink in hand left whole chains in it.
            self.sink.lock().unwrap_or_else(PoisonError::into_inner).push(chain);
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
            // How much is in flight again is not said; something is.
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

    fn on_path_change(&mut self, now: Time) {
        self.close_until(now);
        self.end_chain();
        self.inner.on_path_change(now);
    }

    fn cwnd(&self) -> u64 {
        self.inner.cwnd()
    }

    fn allowance(&self, in_flight: u64) -> u64 {
        self.inner.allowance(in_flight)
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

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.inner.poll_event()
    }

    fn snapshot(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.inner.snapshot(show);
    }

    fn profile(&self) -> Option<Profile> {
        self.inner.profile()
    }
}
