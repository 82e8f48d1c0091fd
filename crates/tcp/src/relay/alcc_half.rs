//! A connection with acks inside the stream, with its socket.

use std::os::fd::BorrowedFd;

use cellpace_base::Time;
use cellpace_cc::Controller;

use crate::books::{CallRule, MAX_PER_CALL};
use crate::options::{ClientServerOptions, FlowOptions};
use crate::relay::byte_queue::AT_HAND;
use crate::relay::congestion_control::CongestionControlName;
use crate::relay::local_socket::LocalSocket;
use crate::socket::{TcpInfo, packet_sizes};
use crate::{FlowStats, TcpError};
use cellpace_alcc::{AlccConfig, AlccConnection, AlccError};

/// The lower half of a flow whose peer speaks the protocol, or may.
pub(crate) struct AlccHalf {
    connection: AlccConnection,
    /// What the connection counts as sent and TCP has not taken: from `taken` on.
    pending: Vec<u8>,
    taken: usize,
    /// Bytes from TCP that the connection did not take, because the connection is plain.
    left: Vec<u8>,
    info: TcpInfo,
    segment: usize,
    packet: u64,
    queue: usize,
}

impl AlccHalf {
    pub(crate) fn new(
        tcp: BorrowedFd<'_>,
        options: &FlowOptions,
        driver: &ClientServerOptions,
        now: Time,
    ) -> Result<Self, TcpError> {
        let info = TcpInfo::of(tcp).map_err(TcpError::NotTcp)?;
        let (segment, overhead) = packet_sizes(tcp, &info)?;
        let limits = &driver.limits;
        let config = AlccConfig {
            segment: u16::try_from(segment).unwrap_or(u16::MAX),
            overhead: u16::try_from(overhead).unwrap_or(u16::MAX),
            outgoing: driver.relay.queue,
            incoming: limits.incoming,
            answer_within: limits.answer_within,
            ack_within: limits.ack_within,
            halves: limits.halves,
            ..AlccConfig::new(options.cc.clone(), options.seed)
        };
        let segment = usize::from(config.segment);
        Ok(Self {
            connection: AlccConnection::new(now, driver.role, &config).map_err(TcpError::Alcc)?,
            pending: Vec::new(),
            taken: 0,
            left: Vec::new(),
            info,
            segment,
            packet: segment as u64 + overhead,
            queue: driver.relay.queue,
        })
    }

    pub(crate) fn on_timer(&mut self, now: Time) -> Result<(), AlccError> {
        if self.connection.error().is_some() {
            return Ok(());
        }
        self.connection.on_timer(now)
    }

    pub(crate) fn wanted(&self) -> usize {
        let room = self.connection.room();
        if self.queue - room.min(self.queue) < AT_HAND { room } else { 0 }
    }

    pub(crate) fn fill(&mut self, most: usize, local: &mut LocalSocket, scratch: &mut [u8]) {
        let most = most.min(scratch.len());
        let count = local.read(&mut scratch[..most]);
        // `most` was within the room.
        self.connection.write(&scratch[..count]);
    }

    pub(crate) fn next_call(&mut self, now: Time) -> &[u8] {
        // What is pending counts as sent: it goes to TCP whole before anything else is asked for.
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
            self.connection.poll_output(
                now,
                &mut self.pending,
                MAX_PER_CALL as usize * self.segment,
            );
        }
        &self.pending[self.taken..]
    }

    pub(crate) fn on_taken(&mut self, count: usize) {
        self.taken += count;
    }

    /// As for the gate, a block is news only if TCP's own window is the reason.
    pub(crate) fn on_refused(&mut self, now: Time, tcp: BorrowedFd<'_>) {
        self.ask(tcp);
        if self.info.in_network >= self.info.cwnd {
            self.connection.on_block(now);
        }
    }

    fn ask(&mut self, tcp: BorrowedFd<'_>) {
        if let Ok(info) = TcpInfo::of(tcp) {
            self.info = info;
        }
    }

    pub(crate) fn unsent_allowed(&self) -> u64 {
        CallRule::unsent_allowed(self.connection.stats().cwnd, self.segment as u64)
    }

    pub(crate) fn handle_input(&mut self, now: Time, bytes: &[u8]) -> Result<(), AlccError> {
        let taken = self.connection.handle_input(now, bytes)?;
        // Kept for the gate, which goes on where a connection turns out to be plain.
        self.left.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    pub(crate) fn handle_eof(&mut self) -> Result<(), AlccError> {
        self.connection.handle_eof()
    }

    pub(crate) fn hand_over(&mut self, local: &mut LocalSocket) {
        loop {
            let (first, _) = self.connection.readable();
            if first.is_empty() {
                return;
            }
            let given = local.give(first);
            if given == 0 {
                return;
            }
            self.connection.consume(given);
        }
    }

    pub(crate) fn is_read(&self) -> bool {
        self.connection.is_read()
    }

    /// Whether the application has taken all that came, be it the end or not.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.connection.readable().0.is_empty()
    }

    pub(crate) fn finish(&mut self) {
        self.connection.finish();
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.connection.is_drained() && self.taken == self.pending.len()
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.connection.is_delivered()
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.holds_output() && self.connection.stats().in_flight == 0
    }

    pub(crate) fn holds_output(&self) -> bool {
        self.taken < self.pending.len() || self.connection.stats().queued_bytes > 0
    }

    pub(crate) fn rest(&mut self) {
        self.connection.shrink();
        (self.pending, self.taken) = (Vec::new(), 0);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.connection.next_deadline()
    }

    /// Whether the peer turned out not to frame.
    pub(crate) fn is_plain(&self) -> bool {
        self.connection.is_plain()
    }

    /// What a plain connection begins with: bytes for TCP, and bytes for the application.
    pub(crate) fn take_plain(&mut self, now: Time) -> (Vec<u8>, Vec<u8>) {
        // A listening end says nothing before it knows, so nothing is pending.
        let mut waiting = Vec::new();
        self.connection.poll_output(now, &mut waiting, usize::MAX);
        let (first, second) = self.connection.readable();
        (waiting, [first, second, &self.left].concat())
    }

    pub(crate) fn stats(&mut self, tcp: BorrowedFd<'_>) -> FlowStats {
        self.ask(tcp);
        let stats = self.connection.stats();
        FlowStats {
            sent_bytes: stats.sent_bytes,
            acked_bytes: stats.acked_bytes,
            received_bytes: stats.received_bytes,
            queued_bytes: stats.queued_bytes,
            cwnd: stats.cwnd,
            tcp_cc: CongestionControlName::of(tcp),
            tcp_cwnd: u64::from(self.info.cwnd) * self.packet,
            tcp_ssthresh: self.info.known_ssthresh().map(|it| it * self.packet),
            tcp_unsent: self.info.unsent.into(),
            in_flight: stats.in_flight,
            srtt: stats.srtt,
            min_rtt: stats.min_rtt,
            retransmissions: u64::from(self.info.retransmissions),
            segment_bytes: self.segment as u64,
            blocks: stats.blocks,
            kicks: 0,
            // The caller that publishes the figures has it from the events.
            phase: None,
        }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.connection.controller_failure()
    }

    pub(crate) fn controller_mut(&mut self) -> Option<&mut dyn Controller> {
        self.connection.controller_mut()
    }
}
