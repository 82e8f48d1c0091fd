//! The forwarding thread: packets from one device through the model to the other.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::{Span, Time};
use cellpace_measure::DelaySketch;
use cellpace_path::{DropReason, Fate, Packet, PacketRecord, Path, PathChange};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

use crate::beyond::{Beyond, DeliveryVerdict};
use crate::observe::{Capture, LinkChange, LinkDirection, LinkSide, SeenBatch, SeenPacket};
use crate::slab::Slab;
use crate::tun::Tun;
use crate::wire::{self, FlowNumbers, PacketKind};

/// Maximum number of packets read from a device before the model is polled again.
const READ_AT_ONCE: usize = 32;
/// Memory for the bytes of waiting packets, in both directions together.
const PACKET_MEMORY: usize = 512 << 20;

/// Time since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock(Instant);

impl RunClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed().into()
    }
}

/// A change of both directions that the thread is to make.
pub(crate) struct ChangeOrder {
    /// Towards the inside, and back.
    pub(crate) changes: [PathChange; 2],
    /// What the observer learns of it; its time is set when it is made.
    pub(crate) change: LinkChange,
    /// Gets the time when it is made.
    pub(crate) done: SyncSender<Time>,
}

/// How others change and end what the thread does.
pub(crate) struct ForwardControl {
    orders: Mutex<Vec<ChangeOrder>>,
    ordered: AtomicBool,
    drain: AtomicBool,
    stop: AtomicBool,
    wake: EventFd,
}

impl ForwardControl {
    pub(crate) fn new() -> nix::Result<Self> {
        let wake = EventFd::from_flags(nix::sys::eventfd::EfdFlags::EFD_CLOEXEC)?;
        Ok(Self {
            orders: Mutex::new(Vec::new()),
            ordered: AtomicBool::new(false),
            drain: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake,
        })
    }

    /// Has the thread make a change.
    pub(crate) fn order(&self, order: ChangeOrder) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.ordered.store(true, Ordering::Release);
        self.wake();
    }

    /// The orders that came since the last call.
    fn orders(&self) -> Vec<ChangeOrder> {
        if !self.ordered.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends when nothing more comes from inside.
    pub(crate) fn drain(&self) {
        self.drain.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Ends now.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = self.wake.write(1);
    }
}

/// What the thread returns at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forwarded {
    /// How long after its theoretical departure each packet was handed to the kernel.
    pub(crate) lateness: DelaySketch,
    /// Packets that the kernel did not accept, and those for which there was no memory.
    pub(crate) refused: u64,
    /// Records lost because the observer was too slow.
    pub(crate) unseen: u64,
}

/// The thread's state.
pub(crate) struct Forwarder {
    /// The far side's device and that inside.
    tuns: [Tun; 2],
    /// The way that begins at the device of the same number.
    lanes: [ForwardedDirection; 2],
    slab: Slab,
    flows: FlowNumbers,
    /// What cannot be reached from the far side.
    beyond: Beyond,
    clock: RunClock,
    control: Arc<ForwardControl>,
    feed: ObserverFeed,
    fates: Vec<PacketRecord>,
    /// Packets so far.
    number: u64,
    /// When the last packet arrived from the inside.
    last_inside: Time,
    /// How long the inside must be silent before a drained link ends, and the longest wait for
    /// that.
    quiet: Span,
    patience: Span,
    drain_began: Option<Time>,
    done: Forwarded,
}

struct ForwardedDirection {
    path: Path,
    direction: LinkDirection,
    /// The device may have packets.
    readable: bool,
}

/// Everything the thread needs.
pub(crate) struct ForwarderParts {
    pub(crate) tuns: [Tun; 2],
    /// Towards the inside, and back.
    pub(crate) paths: [Path; 2],
    pub(crate) mtu: usize,
    pub(crate) beyond: Beyond,
    pub(crate) clock: RunClock,
    pub(crate) control: Arc<ForwardControl>,
    pub(crate) batches: SyncSender<SeenBatch>,
    /// Bytes of each packet that the observer wants to see, if any.
    pub(crate) capture: Option<usize>,
    pub(crate) quiet: Span,
    pub(crate) patience: Span,
}

impl Forwarder {
    pub(crate) fn new(parts: ForwarderParts) -> Self {
        let [down, up] = parts.paths;
        let lane = |path, direction| ForwardedDirection { path, direction, readable: true };
        Self {
            tuns: parts.tuns,
            lanes: [lane(down, LinkDirection::Down), lane(up, LinkDirection::Up)],
            slab: Slab::new(parts.mtu, PACKET_MEMORY),
            flows: FlowNumbers::default(),
            beyond: parts.beyond,
            clock: parts.clock,
            control: parts.control,
            feed: ObserverFeed::new(parts.batches, parts.capture),
            fates: Vec::with_capacity(256),
            number: 0,
            last_inside: Time::ZERO,
            quiet: parts.quiet,
            patience: parts.patience,
            drain_began: None,
            done: Forwarded::default(),
        }
    }

    /// Forwards until asked to end. Returns the devices too, because their counters are read later.
    pub(crate) fn run(mut self) -> (Forwarded, [Tun; 2]) {
        while !self.is_over() {
            for order in self.control.orders() {
                self.change(order);
            }
            // The model catches up before it gets new input.
            self.deliver_due(0);
            self.deliver_due(1);
            self.take_in(0);
            self.take_in(1);
            if !self.lanes.iter().any(|lane| lane.readable) {
                self.sleep();
            }
            self.feed.flush_if_due(self.clock.now());
        }
        self.feed.flush();
        self.done.unseen = self.feed.unseen;
        (self.done, self.tuns)
    }

    /// Changes both directions now; what has left before leaves as it would have.
    fn change(&mut self, order: ChangeOrder) {
        let now = self.clock.now();
        let mut fates = std::mem::take(&mut self.fates);
        for (which, change) in order.changes.into_iter().enumerate() {
            self.lanes[which].path.advance(now, &mut fates);
            self.lanes[which].path.change(now, change, &mut fates);
            for record in fates.drain(..) {
                self.deliver(which, &record);
            }
        }
        self.fates = fates;
        self.feed.changed(LinkChange { at: now, ..order.change });
        // Nobody waits for the answer where this fails.
        let _ = order.done.try_send(now);
    }

    fn is_over(&mut self) -> bool {
        if self.control.stop.load(Ordering::Relaxed) {
            return true;
        }
        if !self.control.drain.load(Ordering::Relaxed) {
            return false;
        }
        let now = self.clock.now();
        let began = *self.drain_began.get_or_insert(now);
        let quiet_since = self.last_inside.max(began);
        now.since(quiet_since) > self.quiet || now.since(began) > self.patience
    }

    /// Writes the packets that have left the link to their devices.
    fn deliver_due(&mut self, which: usize) {
        let now = self.clock.now();
        let mut fates = std::mem::take(&mut self.fates);
        self.lanes[which].path.advance(now, &mut fates);
        for record in fates.drain(..) {
            self.deliver(which, &record);
        }
        self.fates = fates;
    }

    fn deliver(&mut self, which: usize, record: &PacketRecord) {
        let slot = record.packet.tag;
        // What the path has changed of the header.
        if wire::ecn(self.slab.bytes(slot)) != record.packet.ecn {
            wire::set_ecn(self.slab.bytes_mut(slot), record.packet.ecn);
        }
        let mut written = record.packet.departed_at;
        if record.fate == Fate::Dropped(DropReason::Corrupt) {
            wire::corrupt(self.slab.bytes_mut(slot));
            // The receiver's checksums find it.
            self.tuns[1 - which].write(self.slab.bytes(slot));
        } else if matches!(record.fate, Fate::Delivered | Fate::Duplicate) {
            if !self.tuns[1 - which].write(self.slab.bytes(slot)) {
                self.done.refused += 1;
            }
            written = self.clock.now();
            self.done.lateness.record(written.since(record.packet.departed_at));
            self.feed.capture(LinkSide::of_device(1 - which), written, self.slab.bytes(slot));
        }
        if record.fate != Fate::Duplicate {
            self.slab.free(slot);
        }
        let direction = self.lanes[which].direction;
        self.feed.push(SeenPacket { direction, record: *record, written, after_end: false });
    }

    /// Reads packets that wait at a device, a few at a time.
    fn take_in(&mut self, which: usize) {
        if !self.lanes[which].readable {
            return;
        }
        for _ in 0..READ_AT_ONCE {
            let mut drain = [0; 1];
            let (buffer, is_spare) = match self.slab.spare() {
                Some(buffer) => (buffer, true),
                // No memory: the packet is read and lost, and counted.
                None => (drain.as_mut_slice(), false),
            };
            let Ok(Some(length)) = self.tuns[which].read(buffer) else {
                self.lanes[which].readable = false;
                return;
            };
            if is_spare {
                self.admit(which, length);
            } else {
                self.done.refused += 1;
            }
        }
    }

    /// A packet that was read enters the model, if it is one for the link.
    fn admit(&mut self, which: usize, length: usize) {
        let Some(slot) = self.slab.keep(length) else { return };
        let bytes = self.slab.bytes(slot);
        let PacketKind::Flow(key) = wire::read(bytes, which == 1) else {
            self.slab.free(slot);
            return;
        };
        let now = self.clock.now();
        if which == 1 {
            self.last_inside = now;
            if let DeliveryVerdict::Beyond(beyond) = self.beyond.judge(now, bytes) {
                if let Some(answer) = &beyond.answer {
                    self.tuns[1].write(answer);
                    self.feed.unreachable(beyond.destination);
                }
                self.slab.free(slot);
                return;
            }
        }
        self.feed.capture(LinkSide::of_device(which), now, bytes);
        let (flow, is_new) = self.flows.number(key);
        if is_new {
            self.feed.named(flow, key.to_string());
        }
        let packet = Packet {
            tag: slot,
            ecn: wire::ecn(bytes),
            ..Packet::new(self.number, flow, length as u32, now)
        };
        self.number += 1;
        self.lanes[which].path.push(packet);
    }

    /// Waits for the next departure, a packet, or the end.
    fn sleep(&mut self) {
        let deadline = self.lanes.iter().filter_map(|lane| lane.path.next_deadline()).min();
        let now = self.clock.now();
        let mut wait = deadline.map_or(Span::MAX, |deadline| deadline.since(now));
        if wait.is_zero() {
            return;
        }
        if wait > ObserverFeed::PATIENCE {
            self.feed.flush();
        }
        if self.drain_began.is_some() || self.control.drain.load(Ordering::Relaxed) {
            wait = wait.min(self.quiet.min(Span::from_millis(5)));
        }
        let timeout = (wait < Span::MAX).then(|| TimeSpec::from_duration(Duration::from(wait)));
        let [far, inside] = &self.tuns;
        let mut polled = [far.as_fd(), inside.as_fd(), self.control.wake.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // An interrupted or failed wait only means to look around once more.
        let _ = ppoll(&mut polled, timeout, None);
        let readable = polled.map(|fd| fd.any().unwrap_or(false));
        self.lanes[0].readable = readable[0];
        self.lanes[1].readable = readable[1];
        if readable[2] {
            let _ = self.control.wake.read();
        }
    }
}

/// Sends records to the observer's thread in batches.
struct ObserverFeed {
    batches: SyncSender<SeenBatch>,
    batch: SeenBatch,
    began: Time,
    capture: Option<usize>,
    unseen: u64,
}

impl ObserverFeed {
    const MAX_PACKETS: usize = 256;
    const MAX_BYTES: usize = 1 << 18;
    /// Maximum time that a record waits for others.
    const PATIENCE: Span = Span::from_millis(20);

    fn new(batches: SyncSender<SeenBatch>, capture: Option<usize>) -> Self {
        Self { batches, batch: SeenBatch::default(), began: Time::ZERO, capture, unseen: 0 }
    }

    fn push(&mut self, seen: SeenPacket) {
        if self.batch.seen.is_empty() {
            self.began = seen.written;
        }
        self.batch.seen.push(seen);
        if self.batch.seen.len() >= Self::MAX_PACKETS {
            self.flush();
        }
    }

    fn capture(&mut self, side: LinkSide, at: Time, bytes: &[u8]) {
        let Some(most) = self.capture else { return };
        let kept = &bytes[..bytes.len().min(most)];
        let from = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(kept);
        let range = from..self.batch.bytes.len();
        self.batch.captures.push(Capture { side, at, length: bytes.len() as u32, range });
        if self.batch.bytes.len() >= Self::MAX_BYTES {
            self.flush();
        }
    }

    fn changed(&mut self, change: LinkChange) {
        self.batch.changes.push(change);
        self.flush();
    }

    /// A flow begins.
    fn named(&mut self, flow: u32, name: String) {
        self.batch.flows.push((flow, name));
    }

    /// Something inside sent to where the far side has no way.
    fn unreachable(&mut self, destination: SocketAddr) {
        self.batch.unreachable.get_or_insert(destination);
    }

    fn flush_if_due(&mut self, now: Time) {
        if now.since(self.began) > Self::PATIENCE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let room = self.batch.seen.capacity();
        let batch = std::mem::replace(&mut self.batch, SeenBatch::with_room(room));
        // Waiting for a slow disk would make packets late: records are lost instead, and counted.
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.batches.try_send(batch)
        {
            self.unseen += batch.seen.len() as u64;
        }
    }
}
