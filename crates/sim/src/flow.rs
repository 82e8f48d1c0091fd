//! A flow: connections one after the other, or cross traffic without any.

use cellpace_base::{Random, Rate, Span, Time};
use cellpace_measure::{MeasuredWindow, PlayerFigures, VideoFigures, VideoFrame};
use cellpace_path::{OPPORTUNITY_BYTES, Packet};

use crate::chain_spec::LinkRoute;
use crate::connection::{Connection, EndRules, WrapController};
use crate::ends::{FlowEnds, FlowSample, SenderTotals};
use crate::host::HostShare;
use crate::pieces::PieceSource;
use crate::sampler::SampledFlow;
use crate::transfer_tally::SenderCounts;
use crate::transfers::{Demand, Leg, Transfers};
use crate::{FlowSpec, FlowTraffic};

/// One flow at run time.
pub(crate) struct SimFlow {
    index: u32,
    /// Looked at when something begins: with very many flows the room between what is looked at for
    /// each packet costs time.
    spec: Box<FlowSpec>,
    /// When it stops sending.
    stop: Time,
    ends: EndRules,
    random: Random,
    /// The present connection is the last one; transfers may have others beside it.
    pub(crate) connections: Vec<Connection>,
    opened: u16,
    /// Whether its controllers may fail.
    pub(crate) may_fail: bool,
    transfers: Option<Box<Transfers>>,
    /// When the flow itself has something to do: start, stop, begin or end of a file, the next
    /// packet of cross traffic.
    next: Option<Time>,
    cross: CrossTraffic,
    /// What the senders of connections that are over have done.
    past: SenderCounts,
    /// Its own delay in each direction, on top of the path's.
    pub(crate) own_delay: OwnDelay,
    /// The links over which its connections lead: with a proxy, those in front of it.
    pub(crate) route: LinkRoute,
    /// Its ends, where they are not our own sender and receiver.
    pub(crate) other_ends: Option<Box<dyn FlowEnds>>,
    /// What it has in the host's queue, where the bottleneck is there.
    pub(crate) host: Option<HostShare>,
}

/// A flow's own delay in each direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnDelay {
    pub(crate) forward: Span,
    pub(crate) reverse: Span,
}

impl OwnDelay {
    pub(crate) const NONE: Self = Self { forward: Span::ZERO, reverse: Span::ZERO };

    /// Half of this in each direction, or all of it on the way back.
    pub(crate) fn of(rtt: Span, is_behind: bool) -> Self {
        match is_behind {
            true => Self { forward: Span::ZERO, reverse: rtt },
            false => Self { forward: rtt / 2, reverse: rtt / 2 },
        }
    }
}

/// The random stream of a flow's frames.
const VIDEO_STREAM: u64 = 1;

/// An ON period that takes no time would end and begin again for ever in one instant.
const MIN_ON: Span = Span::from_millis(1);

#[derive(Default)]
struct CrossTraffic {
    packets: u64,
}

impl SimFlow {
    pub(crate) fn new(
        index: u32,
        spec: FlowSpec,
        ends: EndRules,
        (route, own_delay): (LinkRoute, OwnDelay),
        host: Option<HostShare>,
        random: Random,
        transfers: Random,
    ) -> Self {
        let next = Some(spec.start);
        let transfers = match &spec.traffic {
            FlowTraffic::Transfers(of) => {
                let transfers = Transfers::new(of.clone(), index as usize, spec.name(), transfers);
                Some(Box::new(transfers))
            }
            _ => None,
        };
        Self {
            index,
            stop: spec.stop,
            may_fail: spec.cc.as_ref().is_some_and(cellpace_cc::ControllerSpec::may_fail),
            spec: Box::new(spec),
            ends,
            random,
            connections: Vec::new(),
            opened: 0,
            transfers,
            next,
            cross: CrossTraffic::default(),
            past: SenderCounts::default(),
            own_delay,
            route,
            other_ends: None,
            host,
        }
    }

    /// Is the flow of other ends, which begin and stop by themselves.
    pub(crate) fn set_ends(&mut self, ends: Box<dyn FlowEnds>) {
        self.other_ends = Some(ends);
        self.next = None;
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        let mut next = or_never(self.next);
        for connection in &self.connections {
            next = next.min(or_never(connection.next_deadline()));
        }
        if let Some(transfers) = &self.transfers {
            next = next.min(or_never(transfers.next_deadline()));
        }
        (next != Time::MAX).then_some(next)
    }

    /// The same for all that an arrival at the receiver of the connection with this generation can
    /// have moved: nothing of the sender.
    #[inline]
    pub(crate) fn receiving_deadline(&mut self, generation: u16) -> Option<Time> {
        let transfers = self.transfers.as_ref().and_then(|transfers| transfers.next_deadline());
        let connection = self.connection_of(generation);
        let receiver = connection.and_then(|connection| connection.receiver.next_deadline());
        transfers.into_iter().chain(receiver).min()
    }

    /// Runs the timers that are due and sends packets; `send` returns whether there is room for more.
    pub(crate) fn on_timer(
        &mut self,
        now: Time,
        send: &mut impl FnMut(Packet) -> bool,
        connect: &mut WrapController<'_>,
    ) {
        if self.next.is_some_and(|time| time <= now) {
            self.next = None;
            self.step(now, send, connect);
        }
        self.step_transfers(now, connect);
        for connection in &mut self.connections {
            connection.on_timer(now);
        }
        self.pump(now, send);
    }

    /// Sends what may leave, and ends files that have arrived.
    pub(crate) fn pump(&mut self, now: Time, send: &mut impl FnMut(Packet) -> bool) {
        let mut place = 0;
        // By place, since a connection that is done leaves the list during the loop.
        while let Some(connection) = self.connections.get_mut(place) {
            if now >= self.stop {
                // An ack may come at that very instant, before the flow's own timer.
                connection.close();
            }
            connection.pump(now, self.index, &mut self.host, send);
            if connection.is_done() {
                self.end_connection(place, now);
            } else {
                place += 1;
            }
        }
    }

    /// The connection with this generation, if it still exists.
    #[inline]
    pub(crate) fn connection_of(&mut self, generation: u16) -> Option<&mut Connection> {
        let is_it = |connection: &Connection| connection.generation == generation;
        // From the end: packets nearly always belong to the newest connection.
        let place = self.connections.iter().rposition(is_it)?;
        self.connections.get_mut(place)
    }

    /// The present connection.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connections.last()
    }

    /// A packet of the connection with this generation is at the receiver.
    pub(crate) fn on_data(&mut self, now: Time, generation: u16) {
        if self.transfers.is_none() {
            return;
        }
        let below = self.connection_of(generation).map(|connection| connection.received_below());
        if let Some(below) = below {
            self.on_received(now, generation, below);
        }
    }

    /// All pieces below `below` of the connection with this generation are at the receiver.
    pub(crate) fn on_received(&mut self, now: Time, generation: u16, below: u64) {
        if let Some(transfers) = &mut self.transfers {
            transfers.on_data(now, generation, below);
        }
    }

    /// Whether its transfers begin with a SYN.
    pub(crate) fn begins_with_syn(&self) -> bool {
        matches!(&self.spec.traffic, FlowTraffic::Transfers(transfers) if transfers.handshake)
    }

    /// A packet of a handshake or a request is at the other end.
    pub(crate) fn on_leg(&mut self, now: Time, leg: Leg) {
        if let Some(transfers) = &mut self.transfers {
            transfers.on_leg(now, leg);
        }
    }

    /// Packets of handshakes and requests that are to leave.
    pub(crate) fn take_legs(&mut self) -> Vec<Leg> {
        self.transfers.as_mut().map(|transfers| transfers.take_legs()).unwrap_or_default()
    }

    /// The transfers of the flow, which is over.
    pub(crate) fn finish_transfers(&mut self) -> Vec<cellpace_measure::Transfer> {
        let Some(mut transfers) = self.transfers.take() else { return Vec::new() };
        for connection in &mut self.connections {
            let counts = connection.counts();
            transfers.on_close(connection.generation, connection.take_tally(), counts);
        }
        transfers.finish()
    }

    /// What a viewer saw up to `end`, where its transfers are chunks of a video.
    pub(crate) fn player(&mut self, end: Time) -> Option<PlayerFigures> {
        let end = end.min(self.stop);
        self.transfers.as_mut().and_then(|transfers| transfers.player(end))
    }

    /// The figures of its frames, where it is a video.
    pub(crate) fn video(&self, window: MeasuredWindow) -> Option<VideoFigures> {
        let FlowTraffic::Video(video) = &self.spec.traffic else { return None };
        let frames = self.connections.iter().flat_map(Connection::frames);
        let frames = frames.map(|frame| VideoFrame {
            captured: frame.captured,
            bytes: frame.bytes,
            complete: frame.complete,
            discarded: frame.discarded,
            rate: frame.rate,
        });
        let end = window.end.min(self.stop);
        Some(VideoFigures::of(frames, MeasuredWindow { end, ..window }, video.fps, video.deadline))
    }

    /// Begins, answers and gives up what is due of the transfers.
    fn step_transfers(&mut self, now: Time, connect: &mut WrapController<'_>) {
        // Taken out, since opening a connection needs the flow while the transfers are asked.
        let Some(mut transfers) = self.transfers.take() else { return };
        while let Some(demand) = transfers.poll(now, !self.connections.is_empty()) {
            match demand {
                Demand::Send { transfer, bytes, handshake_rtt } => {
                    // A kept connection carries the next transfer with the window that it has
                    // learnt.
                    if !transfers.keeps() || self.connections.is_empty() {
                        self.open(now, PieceSource::transfers(transfers.keeps()), connect);
                    }
                    let Some(connection) = self.connections.last_mut() else { continue };
                    let (generation, counts) = (connection.generation, connection.counts());
                    transfers.on_close(generation, connection.take_tally(), counts);
                    let end_piece = connection.append_transfer(bytes, handshake_rtt);
                    transfers.on_open(transfer, generation, end_piece);
                }
                Demand::Close(generation) => {
                    let is_it = |connection: &Connection| connection.generation == generation;
                    if let Some(place) = self.connections.iter().position(is_it) {
                        let mut connection = self.forget_connection(place);
                        let counts = connection.counts();
                        transfers.on_close(generation, connection.take_tally(), counts);
                    }
                }
            }
        }
        self.transfers = Some(transfers);
    }

    /// The flow's own next step.
    fn step(
        &mut self,
        now: Time,
        send: &mut impl FnMut(Packet) -> bool,
        connect: &mut WrapController<'_>,
    ) {
        if now >= self.stop {
            self.stop();
            return;
        }
        match self.spec.traffic.clone() {
            FlowTraffic::ConstantRate(rate) => self.send_cross(now, rate, send),
            FlowTraffic::Bulk => {
                self.open(now, PieceSource::endless(), connect);
                self.next = Some(self.stop);
            }
            FlowTraffic::Video(video) => {
                if self.connections.is_empty() {
                    self.open(now, PieceSource::transfers(true), connect);
                    let random = Random::seeded(self.random.bits(), VIDEO_STREAM);
                    if let Some(connection) = self.connections.last_mut() {
                        connection.begin_video(&video, now, random);
                    }
                }
                // A frame is captured whatever the network does; the source drops what it cannot
                // send in time.
                let next = self.connections.last_mut().and_then(|video| video.capture(now));
                self.next = Some(next.unwrap_or(Time::MAX).min(self.stop));
            }
            FlowTraffic::Transfers(_) => {
                if let Some(transfers) = &mut self.transfers {
                    transfers.start(now);
                }
                self.next = Some(self.stop);
            }
            FlowTraffic::OnOffFiles(onoff) if self.connections.is_empty() => {
                let file = onoff.file(&mut self.random);
                // The file is drawn all the same: both forms of the model have the same draws.
                let timed = onoff.rate.map(|rate| now + rate.time_for(file).max(MIN_ON));
                let file =
                    if timed.is_some() { PieceSource::endless() } else { PieceSource::file(file) };
                self.open(now, file, connect);
                self.next = Some(timed.unwrap_or(Time::MAX).min(self.stop));
            }
            FlowTraffic::OnOffFiles(_) => self.end_connection(0, now),
        }
    }

    fn open(&mut self, now: Time, source: PieceSource, connect: &mut WrapController<'_>) {
        let Some(cc) = &self.spec.cc else { return };
        // 65 536 connections later a number comes again, when no packet of its first is in flight.
        self.opened = self.opened.wrapping_add(1);
        let generation = self.opened;
        let connection =
            Connection::new(cc, now, source, self.ends, generation, &mut self.random, connect);
        self.connections.push(connection);
    }

    /// All that the connection at this place had to send has arrived, or the time of its file is
    /// over.
    fn end_connection(&mut self, place: usize, now: Time) {
        let mut connection = self.forget_connection(place);
        if let Some(transfers) = &mut self.transfers {
            let counts = connection.counts();
            transfers.on_close(connection.generation, connection.take_tally(), counts);
        }
        if let FlowTraffic::OnOffFiles(onoff) = &self.spec.traffic {
            // An ON period is over; the next one begins after a pause.
            self.next = Some(now + onoff.pause(&mut self.random));
        }
    }

    fn stop(&mut self) {
        self.connections.iter_mut().for_each(Connection::close);
        if let Some(transfers) = &mut self.transfers {
            transfers.stop();
        }
        self.next = None;
    }

    fn forget_connection(&mut self, place: usize) -> Connection {
        let connection = self.connections.remove(place);
        self.past += connection.own_counts();
        connection
    }

    /// One packet of cross traffic; the times are computed from the count, so they do not drift.
    fn send_cross(&mut self, now: Time, rate: Rate, send: &mut impl FnMut(Packet) -> bool) {
        let bytes = u64::from(OPPORTUNITY_BYTES);
        if self.host.as_mut().is_none_or(|host| host.admit_plain(bytes)) {
            send(Packet::new(self.cross.packets, self.index, OPPORTUNITY_BYTES, now));
        }
        self.cross.packets += 1;
        let sent = self.cross.packets.saturating_mul(u64::from(OPPORTUNITY_BYTES));
        // Also for a packet that the host refused: an application sends at its rate whatever
        // happens.
        self.next = Some((self.spec.start + rate.time_for(sent)).min(self.stop));
    }

    /// What its senders have done so far, if they count it.
    pub(crate) fn counts(&self) -> Option<SenderCounts> {
        if let Some(ends) = &self.other_ends {
            return ends.totals().map(SenderCounts::from);
        }
        let mut counts = self.past;
        self.connections.iter().for_each(|connection| counts += connection.own_counts());
        Some(counts)
    }

    /// Packets that it keeps in memory.
    pub(crate) fn remembered(&self) -> u64 {
        self.connections.iter().map(Connection::remembered).sum()
    }
}

impl From<SenderTotals> for SenderCounts {
    fn from(totals: SenderTotals) -> Self {
        let SenderTotals { retransmitted, timeouts, spurious_timeouts, spurious_losses } = totals;
        Self { sent: 0, retransmitted, timeouts, spurious_timeouts, spurious_losses }
    }
}

impl SampledFlow for SimFlow {
    fn look(&self, show: &mut dyn FnMut(FlowSample<'_>)) {
        match (&self.other_ends, self.connection()) {
            (Some(ends), _) => ends.look(show),
            (None, Some(connection)) => show(FlowSample {
                controller: connection.controller(),
                in_flight: connection.in_flight(),
                rtt: connection.rtt(),
                rto: connection.rto(),
            }),
            (None, None) => {}
        }
    }

    fn is_open(&self) -> bool {
        self.other_ends.is_some() || self.connection().is_some_and(Connection::is_open)
    }
}
