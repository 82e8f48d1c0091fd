//! The gate with its socket: what waits on either side, and what the kernel reports of acks.

use std::io;
use std::os::fd::BorrowedFd;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Controller, Setup};
use cellpace_recovery::{Unbounded, WindowMember};

use crate::books::{Books, CallRule};
use crate::options::{FlowOptions, RelayOptions};
use crate::relay::ack_stamps::{self, AckStamps};
use crate::relay::byte_queue::{AT_HAND, ByteQueue};
use crate::relay::congestion_control::{CongestionControlName, RenoStart};
use crate::relay::local_socket::LocalSocket;
use crate::socket::{self, TcpInfo};
use crate::{FlowStats, TcpError, thread};

/// How often the kernel is asked while something is in flight, although it stamps acks: selective
/// acks and lost stamps show in no other way.
const POLL: Span = Span::from_millis(2);

/// How often it is asked where it stamps nothing.
const POLL_WITHOUT_STAMPS: Span = Span::from_millis(1);

/// An answer is good for so long.
const FRESH: Span = Span::from_millis(1);

/// Acks that can let nothing through are left waiting no longer than this, as what the peer sends
/// waits with them; and not at all if it has sent something a short time ago.
const MAX_NAP: Span = Span::from_millis(10);
const QUIET: Span = Span::from_millis(100);

/// The lower half of a flow whose peer knows nothing of it.
pub(crate) struct GateHalf {
    books: Books,
    rule: CallRule,
    /// From the application, on its way to TCP.
    queue: ByteQueue,
    /// From TCP, on its way to the application, which has not read what came before.
    back: Vec<u8>,
    stamps: Option<AckStamps>,
    info: TcpInfo,
    asked_at: Time,
    /// When the peer last sent something.
    received_at: Time,
    /// `bytes_acked` of the kernel when the first byte of this flow was yet to be written.
    base: u64,
    received: u64,
    member: Option<WindowMember>,
    start: RenoStart,
    below: CongestionControlName,
    /// Memory for bytes that came could not be allocated.
    starved: bool,
}

impl GateHalf {
    /// Above a TCP connection that was not written to since it is not to be controlled. With a
    /// `member` the controller is that of its group.
    pub(crate) fn new(
        tcp: BorrowedFd<'_>,
        options: &FlowOptions,
        relay: &RelayOptions,
        join: impl FnOnce(Setup) -> Option<WindowMember>,
        now: Time,
    ) -> Result<Self, TcpError> {
        let setup = |what| move |source: io::Error| TcpError::Setup { what, source };
        let (info, base) = baseline(tcp).map_err(setup("TCP_INFO"))?;
        let (segment, overhead) = socket::packet_sizes(tcp, &info)?;
        let random = Random::seeded(options.seed, 0);
        let cc = Setup { mss: segment + overhead, start: now, random };
        let member = join(cc.clone());
        let controller = match &member {
            Some(member) => Box::new(member.clone()),
            None => options.cc.build_deferred(cc),
        };
        let start = RenoStart::new(tcp, &relay.below, &info);
        let stamps = ack_stamps::stamp_acks(tcp).is_ok().then(AckStamps::new);
        Ok(Self {
            books: Books::new(controller, now, segment, overhead),
            rule: CallRule::default(),
            queue: ByteQueue::new(relay.queue),
            back: Vec::new(),
            stamps,
            info,
            asked_at: now,
            received_at: now,
            base,
            received: 0,
            member,
            start,
            below: CongestionControlName::of(tcp),
            starved: false,
        })
    }

    /// Goes on where a connection began that turned out to be plain: with the bytes that
    /// wait for TCP and for the application.
    pub(crate) fn take_over(&mut self, waiting: &[u8], arrived: Vec<u8>) {
        // What waits fits: both have the same bound.
        let copy = |spare: &mut [u8]| {
            spare.copy_from_slice(&waiting[..spare.len()]);
            Ok::<_, std::convert::Infallible>(spare.len())
        };
        let Ok(_) = self.queue.fill(waiting.len(), copy);
        self.received = arrived.len() as u64;
        self.back = arrived;
    }

    pub(crate) fn learn(&mut self, now: Time, tcp: BorrowedFd<'_>, stamps: bool) {
        let was_idle = self.books.is_idle();
        if stamps && let Some(stamps) = &mut self.stamps {
            while let Some(stamped) = stamps.next(tcp) {
                self.books.on_acked(stamped.when, stamped.offset);
            }
        }
        // An idle flow asks no more: statistics keep what TCP reported with the last ack.
        let is_fresh = now.since(self.asked_at) < FRESH;
        let is_known = if self.books.is_idle() { was_idle } else { is_fresh };
        if is_known {
            return;
        }
        self.ask(now, tcp);
    }

    /// Whether acks need not be reported before the next deadline.
    pub(crate) fn naps(&self, now: Time) -> bool {
        if self.stamps.is_none() || self.member.is_some() || !self.info.is_open {
            return false;
        }
        let until = self.books.acks_may_wait();
        until.is_some_and(|until| until <= now + MAX_NAP && now >= self.received_at + QUIET)
    }

    /// Asks the kernel what was acknowledged.
    fn ask(&mut self, now: Time, tcp: BorrowedFd<'_>) {
        let Ok(info) = TcpInfo::of(tcp) else { return };
        let before = std::mem::replace(&mut self.asked_at, now);
        // The turn may have begun some time ago, and what is acknowledged now have been sent since:
        // with an ack that is dated too early the path would look shorter than it is.
        let now = thread::now();
        // Path MTU discovery may change the segment at any time.
        if info.mss != self.info.mss {
            self.books.resegment(u64::from(info.mss));
        }
        self.info = info;
        if self.start.on_info(tcp, &info) {
            self.below = CongestionControlName::of(tcp);
        }
        self.books.on_acked(now, info.bytes_acked.saturating_sub(self.base));
        if info.sacked > 0 {
            // Something is missing in front of what is selectively acknowledged, whatever TCP takes
            // for lost.
            let holes = info.lost.max(1) as usize;
            self.books.on_sacked(now, holes, info.sacked as usize);
        }
        self.books.on_retransmitted(before, info.retransmissions.into());
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        self.books.replace_failed(|| Box::new(Unbounded));
        self.books.on_timer(now);
    }

    /// Why the connection has no controller any more.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.books.failure()
    }

    pub(crate) fn wanted(&self) -> usize {
        // A few calls' worth is enough to begin with: fewer, larger reads.
        let enough = (AT_HAND / 4).max(CallRule::longest_call(&self.books) as usize).min(AT_HAND);
        if self.queue.len() < enough { self.queue.room() } else { 0 }
    }

    pub(crate) fn fill(&mut self, most: usize, local: &mut LocalSocket) {
        let read = |spare: &mut [u8]| Ok::<_, std::convert::Infallible>(local.read(spare));
        let Ok(_) = self.queue.fill(most, read);
    }

    pub(crate) fn next_call(&mut self, now: Time) -> &[u8] {
        if let Some(member) = &self.member {
            member.set_waiting(now, self.queue.len() as u64);
        }
        // An idle flow has noted here that nothing waits.
        let count = self.rule.next_call(&mut self.books, now, self.queue.len());
        &self.queue.bytes()[..count]
    }

    pub(crate) fn on_taken(&mut self, now: Time, count: usize) {
        if self.books.is_idle() {
            // What was known of an idle TCP is true until now.
            self.asked_at = now;
        }
        self.rule.on_taken(&mut self.books, now, count, self.queue.len());
        self.queue.consume(count);
    }

    /// That is for the controller to know if TCP's own window is the reason; for a moment it also
    /// happens when TCP paces, or has not come round to sending.
    pub(crate) fn on_refused(&mut self, now: Time, tcp: BorrowedFd<'_>) {
        self.ask(now, tcp);
        if self.info.in_network >= self.info.cwnd {
            self.books.on_block(now);
        }
        if let Some(member) = &self.member {
            // Others may have what TCP does not take.
            member.set_waiting(now, 0);
        }
    }

    pub(crate) fn unsent_allowed(&self) -> u64 {
        CallRule::unsent_allowed(self.books.controller().cwnd(), self.books.segment())
    }

    pub(crate) fn takes_input(&self) -> bool {
        self.back.is_empty()
    }

    pub(crate) fn handle_input(&mut self, now: Time, bytes: &[u8], local: &mut LocalSocket) {
        self.received_at = now;
        self.received += bytes.len() as u64;
        let rest = &bytes[local.give(bytes)..];
        match self.back.try_reserve(rest.len()) {
            Ok(()) => self.back.extend_from_slice(rest),
            Err(_) => self.starved = true,
        }
    }

    /// Whether memory for what came from either side could not be allocated. The flow cannot continue.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved || self.queue.is_starved()
    }

    pub(crate) fn hand_over(&mut self, local: &mut LocalSocket) {
        if self.back.is_empty() {
            return;
        }
        let given = local.give(&self.back);
        self.back.drain(..given);
        if self.back.is_empty() {
            // Memory is given back: an application that read slowly once must not keep it.
            self.back = Vec::new();
        }
    }

    /// Whether nothing waits for TCP.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the connection is over and the peer does not have everything that TCP took.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.info.is_closed && !self.books.is_idle()
    }

    /// Whether the peer has everything that TCP took.
    pub(crate) fn is_idle(&self) -> bool {
        self.books.is_idle()
    }

    pub(crate) fn rest(&mut self) {
        self.books.rest();
    }

    pub(crate) fn next_deadline(&self, now: Time, tcp_writable: bool) -> Option<Time> {
        // What TCP refuses waits for TCP, not for the controller's pacer.
        let waits = !self.queue.is_empty() && tcp_writable;
        let controller = self.books.next_deadline(waits);
        let span = if self.stamps.is_some() { POLL } else { POLL_WITHOUT_STAMPS };
        let poll = (!self.books.is_idle() && !self.naps(now)).then(|| self.asked_at + span);
        [controller, poll].into_iter().flatten().min()
    }

    /// The flow's part of a group, if it is in one.
    pub(crate) fn member(&self) -> Option<&WindowMember> {
        self.member.as_ref()
    }

    pub(crate) fn stats(&self) -> FlowStats {
        let rtt = self.books.rtt();
        FlowStats {
            sent_bytes: self.books.taken(),
            acked_bytes: self.books.acked(),
            received_bytes: self.received,
            queued_bytes: self.queue.len() as u64,
            cwnd: self.books.controller().cwnd(),
            tcp_cc: self.below,
            tcp_cwnd: u64::from(self.info.cwnd) * self.books.packet_bytes(),
            tcp_ssthresh: self.info.known_ssthresh().map(|it| it * self.books.packet_bytes()),
            tcp_unsent: self.info.unsent.into(),
            in_flight: self.books.in_flight(),
            srtt: rtt.smoothed(),
            min_rtt: rtt.minimum(),
            retransmissions: u64::from(self.info.retransmissions),
            segment_bytes: self.books.segment(),
            blocks: self.books.blocks(),
            kicks: 0,
            // The caller that publishes the figures has it from the events.
            phase: None,
        }
    }

    pub(crate) fn controller_mut(&mut self) -> Option<&mut dyn Controller> {
        Some(self.books.controller_mut())
    }
}

/// The kernel's count of acknowledged bytes when all that was written so far is acknowledged. Acks
/// may come between two questions: they are asked until nothing moved.
fn baseline(tcp: BorrowedFd<'_>) -> io::Result<(TcpInfo, u64)> {
    let mut info = TcpInfo::of(tcp)?;
    loop {
        let open = socket::unacknowledged(tcp)?;
        let again = TcpInfo::of(tcp)?;
        if again.bytes_acked == info.bytes_acked {
            return Ok((again, again.bytes_acked + open));
        }
        info = again;
    }
}
