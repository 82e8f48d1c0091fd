//! How much the gate gives to TCP in one call.

use cellpace_base::{Span, Time};

use super::Books;

/// Packets that go to TCP in one call at most: fewer calls, and fewer time stamps to read, than
/// one by one.
pub(crate) const MAX_PER_CALL: u64 = 10;

/// What goes to TCP in one call occupies the path no longer than this: the gate learns that it arrived
/// as a whole.
const CALL_SPAN: Span = Span::from_millis(1);

/// Where that is fewer packets, on links of up to 36 Mbit/s, they go one by one. A full segment
/// that ends a call carries PSH, and Linux as a receiver (others too) acknowledges it at once when
/// the application has read it, instead of every second segment: controllers learn of each arrival
/// then, as above UDP. On faster links there are acks enough, and a call costs as much as several
/// packets in it.
const MIN_TOGETHER: u64 = 3;

/// Decides how much goes to TCP in one call, and remembers the call in progress.
#[derive(Debug, Default)]
pub(crate) struct CallRule {
    /// Offset at which the call ends: a packet is not longer than what was let through.
    call_end: u64,
}

impl CallRule {
    /// Returns the most bytes that go to TCP in one call.
    pub(crate) fn longest_call(books: &Books) -> u64 {
        MAX_PER_CALL * books.segment
    }

    /// Returns how many bytes TCP may hold unsent (`TCP_NOTSENT_LOWAT`) before it refuses more. What
    /// waits there is delay that the controller would take for the path's, so it is a small part of its
    /// own window; a constant would be too much for short paths and too little for long ones.
    pub(crate) fn unsent_allowed(cwnd: u64, segment: u64) -> u64 {
        (cwnd / 8).clamp(2 * segment, (64 * segment).max(1 << 20))
    }

    /// Returns how many of `queued` waiting bytes go to TCP now, in one call: none if the controller
    /// has them wait.
    pub(crate) fn next_call(&mut self, books: &mut Books, now: Time, queued: usize) -> usize {
        // Whether the pacer holds it is asked anew below. Where the window does, nothing may be left of an
        // earlier release: it would be a deadline in the past, for ever.
        books.sender.rest();
        if queued == 0 {
            return 0;
        }
        // A packet stays the current one until its last byte is taken.
        let owed = books.owed();
        let bytes = if owed > 0 { owed } else { allowed(books, now, queued as u64) };
        self.call_end = books.taken + bytes;
        bytes as usize
    }

    /// TCP took `count` bytes of the `queued` ones.
    pub(crate) fn on_taken(&self, books: &mut Books, now: Time, count: usize, queued: usize) {
        books.on_taken(now, count as u64, queued as u64, self.call_end);
    }
}

fn allowed(books: &mut Books, now: Time, queued: u64) -> u64 {
    let window = books.sender.remaining() / books.packet_bytes();
    let most = packets_per_call(books).min(queued.div_ceil(books.segment));
    let packets = most.min(window);
    if packets == 0 {
        return allowed_below_a_packet(books, now, queued);
    }
    // Each call's ack lets the next call through, and a short one a short one, for ever.
    if 2 * packets < most && books.acks_open() {
        return 0;
    }
    // A paced call waits until all of it may leave: packet by packet would cost a timer each.
    let bytes = queued.min(packets * books.segment);
    if books.sender.ready(now, bytes + packets * books.overhead) { bytes } else { 0 }
}

/// Windows below one segment (loopback's segments are huge) still let something through.
fn allowed_below_a_packet(books: &mut Books, now: Time, queued: u64) -> u64 {
    if completes_a_packet(books, queued) {
        return queued;
    }
    let allowed = books.sender.remaining();
    if books.in_flight() > 0 || allowed <= books.overhead {
        return 0;
    }
    let bytes = queued.min(books.segment).min(allowed - books.overhead);
    if books.sender.ready(now, bytes + books.overhead) { bytes } else { 0 }
}

/// Whether what waits and what is in flight would have been a single packet, had the application written it at
/// once: a response's header and its body, say. A window of one packet has room for both. Without this
/// the body waits for the ack of the header, which a receiver without an answer delays by 40 ms.
fn completes_a_packet(books: &Books, queued: u64) -> bool {
    let in_flight = books.in_flight();
    in_flight > 0 && in_flight + books.overhead + queued <= books.packet_bytes()
}

/// One while nothing is known of the path.
fn packets_per_call(books: &Books) -> u64 {
    let Some(srtt) = books.rtt().smoothed() else { return 1 };
    let cwnd = books.controller().cwnd();
    let in_span =
        u128::from(cwnd) * u128::from(CALL_SPAN.as_nanos()) / u128::from(srtt.as_nanos().max(1));
    let in_span = u64::try_from(in_span).unwrap_or(u64::MAX);
    let paced = books.controller().pacing().map_or(u64::MAX, |pacing| {
        (pacing.rate.as_bytes_per_sec() * CALL_SPAN.as_secs_f64()) as u64
    });
    let packets = in_span.min(paced).min(cwnd / 8) / books.packet_bytes();
    if packets < MIN_TOGETHER { 1 } else { packets.min(MAX_PER_CALL) }
}
