//! The bottleneck: a queue served at the opportunities of a schedule.

use cellpace_base::Time;

use crate::queue::{Drops, Queue};
use crate::schedule::Schedule;
use crate::{DropReason, Fate, OPPORTUNITY_BYTES, Packet, PacketRecord};

/// A link takes packets from its queue and gives them the bytes of its opportunities: several
/// small packets share one, a large packet takes several. What an opportunity leaves over while
/// the queue is empty is lost, as on a radio link.
pub struct Link {
    queue: Box<dyn Queue>,
    schedule: Box<dyn Schedule>,
    /// The packet in service and the bytes it still needs.
    in_service: Option<(Packet, u32)>,
    drops: Drops,
    /// When something will leave, or `Time::MAX`: asked for far more often than it changes.
    next: Time,
}

/// A link that several users share, each with a queue of its own, in place of a [`Link`]: a cell.
pub trait SharedLink: Send {
    /// A packet reaches its queue at `now`, up to which the link has been advanced.
    fn push_at(&mut self, now: Time, packet: Packet, fates: &mut Vec<PacketRecord>);

    /// When something may leave, if anything waits.
    fn next_deadline(&self) -> Option<Time>;

    /// Delivers what leaves up to `now`.
    fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>);

    /// Empties all queues at `now`, packets in service included.
    fn take_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) -> Vec<Packet>;

    /// Bytes in all queues and in service.
    fn backlog(&self) -> u64;

    /// Packets in all queues and in service.
    fn packets(&self) -> usize;
}

/// What a path ends at: a link of its own, or one that several users share.
pub(crate) enum PathEnd {
    Own(Link),
    Shared(Box<dyn SharedLink>),
}

impl PathEnd {
    #[inline]
    pub(crate) fn push_at(&mut self, now: Time, packet: Packet, fates: &mut Vec<PacketRecord>) {
        match self {
            Self::Own(link) => link.push_at(now, packet, fates),
            Self::Shared(link) => link.push_at(now, packet, fates),
        }
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Own(link) => link.next_deadline(),
            Self::Shared(link) => link.next_deadline(),
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        match self {
            Self::Own(link) => link.advance(now, fates),
            Self::Shared(link) => link.advance(now, fates),
        }
    }

    /// Empties it of everything that waits, packets in service included.
    pub(crate) fn take_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) -> Vec<Packet> {
        match self {
            Self::Own(link) => link.take_all(now, fates),
            Self::Shared(link) => link.take_all(now, fates),
        }
    }

    /// Drops everything that waits, packets in service included.
    pub(crate) fn drop_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        match self {
            Self::Own(link) => link.drop_all(now, fates),
            Self::Shared(link) => {
                for mut packet in link.take_all(now, fates) {
                    // Times after a drop repeat that of the drop (see `PacketRecord`).
                    (packet.dequeued_at, packet.departed_at) = (now, now);
                    fates.push(PacketRecord { packet, fate: Fate::Dropped(DropReason::Handover) });
                }
            }
        }
    }

    pub(crate) fn backlog(&self) -> u64 {
        match self {
            Self::Own(link) => link.backlog(),
            Self::Shared(link) => link.backlog(),
        }
    }

    pub(crate) fn packets(&self) -> usize {
        match self {
            Self::Own(link) => link.packets(),
            Self::Shared(link) => link.packets(),
        }
    }
}

impl Link {
    /// An idle link at time zero.
    pub fn new(queue: Box<dyn Queue>, schedule: Box<dyn Schedule>) -> Self {
        Self { queue, schedule, in_service: None, drops: Drops::new(), next: Time::MAX }
    }

    /// A packet reaches the queue at `packet.enqueued_at`, which must not lie before a time the
    /// link was advanced to. Opportunities up to that instant are gone.
    #[inline]
    pub fn push(&mut self, packet: Packet, fates: &mut Vec<PacketRecord>) {
        self.push_at(packet.enqueued_at, packet, fates);
    }

    /// The same at `now` for a packet that has waited elsewhere since it was enqueued.
    pub(crate) fn push_at(&mut self, now: Time, packet: Packet, fates: &mut Vec<PacketRecord>) {
        // Opportunities that passed while the queue was empty must not serve this packet.
        if self.is_idle() {
            self.schedule.skip_through(now);
        }
        self.queue.enqueue(now, packet, &mut self.drops);
        self.schedule.on_backlog(now, self.queue.bytes());
        self.report_drops(now, fates);
        self.look_ahead();
    }

    /// When something will leave, if anything waits.
    pub fn next_deadline(&self) -> Option<Time> {
        (self.next != Time::MAX).then_some(self.next)
    }

    /// Uses all opportunities up to `now`.
    #[inline]
    pub fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        while self.next <= now && self.next != Time::MAX {
            let time = self.next;
            self.schedule.take();
            self.serve(time, fates);
            self.look_ahead();
        }
    }

    /// To be called after each change of the queue or the schedule.
    #[inline]
    fn look_ahead(&mut self) {
        // An idle link has no deadline, or an endless schedule would wake its owner for ever.
        let next = if self.is_idle() { None } else { self.schedule.peek() };
        self.next = next.unwrap_or(Time::MAX);
    }

    /// Bytes in the queue and in service.
    pub fn backlog(&self) -> u64 {
        self.queue.bytes() + self.in_service.map_or(0, |(packet, _)| u64::from(packet.size))
    }

    /// Packets in the queue and in service.
    pub fn packets(&self) -> usize {
        self.queue.packets() + usize::from(self.in_service.is_some())
    }

    /// Delivers at the opportunities of `schedule` after `now` from now on.
    pub(crate) fn change_schedule(&mut self, now: Time, schedule: Box<dyn Schedule>) {
        self.schedule = schedule;
        self.schedule.skip_through(now);
        self.schedule.on_backlog(now, self.queue.bytes());
        self.look_ahead();
    }

    /// Puts `queue`, which must be empty, in place of the present one. What waits moves over; what
    /// has no room in the new queue is dropped.
    pub(crate) fn change_queue(
        &mut self,
        now: Time,
        queue: Box<dyn Queue>,
        fates: &mut Vec<PacketRecord>,
    ) {
        // The packet in service is no longer in the queue, and goes on undisturbed.
        let waiting = std::mem::replace(&mut self.queue, queue).into_packets();
        for packet in waiting {
            self.queue.enqueue(now, packet, &mut self.drops);
        }
        self.report_drops(now, fates);
        self.look_ahead();
    }

    /// Drops everything that waits, the packet in service included.
    pub fn drop_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        for mut packet in self.drain(now) {
            packet.departed_at = now;
            fates.push(PacketRecord { packet, fate: Fate::Dropped(DropReason::Handover) });
        }
        self.report_drops(now, fates);
    }

    /// Empties the link of everything that waits, the packet in service included.
    pub(crate) fn take_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) -> Vec<Packet> {
        let packets = self.drain(now);
        self.report_drops(now, fates);
        packets
    }

    fn drain(&mut self, now: Time) -> Vec<Packet> {
        let mut packets = Vec::new();
        while let Some((packet, _)) = self.in_service.take().or_else(|| self.begin(now)) {
            packets.push(packet);
        }
        // The link is idle from now on, as a schedule that serves trains has to know.
        self.schedule.on_backlog(now, 0);
        self.look_ahead();
        packets
    }

    fn is_idle(&self) -> bool {
        self.in_service.is_none() && self.queue.packets() == 0
    }

    fn serve(&mut self, time: Time, fates: &mut Vec<PacketRecord>) {
        // One opportunity moves 1500 bytes as in Mahimahi: small packets share it.
        let mut bytes = OPPORTUNITY_BYTES;
        while bytes > 0 {
            let Some((mut packet, needs)) = self.in_service.take().or_else(|| self.begin(time))
            else {
                break;
            };
            if needs > bytes {
                // The rest of a packet that does not fit waits for the next opportunity.
                self.in_service = Some((packet, needs - bytes));
                break;
            }
            bytes -= needs;
            packet.departed_at = time;
            fates.push(PacketRecord { packet, fate: Fate::Delivered });
        }
        self.schedule.on_backlog(time, self.queue.bytes());
        self.report_drops(time, fates);
    }

    fn begin(&mut self, time: Time) -> Option<(Packet, u32)> {
        let mut packet = self.queue.dequeue(time, &mut self.drops)?;
        packet.dequeued_at = time;
        Some((packet, packet.size))
    }

    #[inline]
    fn report_drops(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        if !self.drops.is_empty() {
            self.take_drops(now, fates);
        }
    }

    fn take_drops(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        for (mut packet, reason) in self.drops.drain(..) {
            packet.dequeued_at = now;
            packet.departed_at = now;
            fates.push(PacketRecord { packet, fate: Fate::Dropped(reason) });
        }
    }
}
