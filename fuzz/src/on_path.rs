//! Two endpoints with a key, and somebody on the path between them who does not have it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::LazyLock;

use cellpace_base::{Span, Time};
use cellpace_udp::{
    CloseCode, Endpoint, EndpointConfig, FlowEvent, FlowId, FlowRequest, Listen, Offer, Protection,
};

use crate::script::Script;
use crate::udp::SPROUT;

/// What follows after so many steps is not looked at.
const MAX_STEPS: usize = 96;

/// Datagrams of which somebody keeps a copy.
const MAX_COPIES: usize = 64;

/// The stream that is sent: a few windows of the receiver.
const STREAM_BYTES: usize = 40_000;

/// A receiver buffers so many bytes at most.
const BUFFER: u64 = 16_000;

/// Where somebody is who is neither end.
const STRANGER: usize = 2;

/// A stream under a key, and somebody who may deliver, drop, delay, repeat, change and cut datagrams, put
/// the header of one before the rest of another, and send them from elsewhere. The first byte
/// chooses the controller. Nothing but the bytes of the stream may arrive, in order; whoever does not
/// have the key has no answer to what is changed, and is never sent more than came from there.
pub fn on_path(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut path = OnPath::new(script.byte());
    for _ in 0..MAX_STEPS {
        let Some(step) = script.next() else { break };
        path.step(step, &mut script);
    }
    for _ in 0..100 {
        while path.deliver() {}
        if !path.wait_for_timer() {
            break;
        }
    }
    path.check();
}

struct OnPath {
    now: Time,
    ends: [Endpoint; 2],
    flows: [Option<FlowId>; 2],
    /// How each end says that it is over.
    ended: [Option<bool>; 2],
    written: usize,
    read: Vec<u8>,
    is_finished: bool,
    /// Datagrams on their way: from which end, and what.
    waiting: VecDeque<(usize, Vec<u8>)>,
    copies: Vec<(usize, Vec<u8>)>,
    /// Bytes from and to [`STRANGER`].
    from_stranger: usize,
    to_stranger: usize,
}

impl OnPath {
    fn new(choice: u8) -> Self {
        let protection = Protection::transfer(&[3; 32]);
        let config = EndpointConfig { buffer: BUFFER, protection, ..EndpointConfig::default() };
        let ends = [1_000, 2_000].map(|first: u64| {
            let mut next = first;
            Endpoint::new(config.clone(), [first as u8; 32], move || {
                next += 1;
                next
            })
        });
        let mut path = Self {
            now: Time::from_millis(1),
            ends,
            flows: [None; 2],
            ended: [None; 2],
            written: 0,
            read: Vec::new(),
            is_finished: false,
            waiting: VecDeque::new(),
            copies: Vec::new(),
            from_stranger: 0,
            to_stranger: 0,
        };
        path.ends[1].listen(Listen { most_flows: 2, max_per_client: None, offer: Offer::Receive });
        let controller = ["cubic", SPROUT, "fixed:cwnd=4pkts", "bbr"][usize::from(choice & 3)];
        let controller = controller.parse().expect("it is in the registry");
        let request = FlowRequest { controller: Some(controller), unreliable: false };
        path.flows[0] = Some(path.ends[0].connect(path.now, address(1), 0, &request));
        path.settle();
        path
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        match step & 7 {
            0..=2 => {
                self.deliver();
            }
            3 => drop(self.waiting.pop_front()),
            4 => {
                let Some((from, copy)) = self.copy(script) else { return };
                let source = if step & 8 == 0 { from } else { STRANGER };
                let to = if step & 16 == 0 { 1 - from } else { from };
                self.hand_over(source, to, &copy);
            }
            5 => self.forge(step, script),
            6 => self.waiting.rotate_left(usize::from(!self.waiting.is_empty())),
            _ => {
                self.now += Span::from_millis(1 << (step >> 4));
                self.settle();
            }
        }
    }

    fn copy(&self, script: &mut Script<'_>) -> Option<(usize, Vec<u8>)> {
        let index = usize::from(script.byte());
        self.copies.get(index % self.copies.len().max(1)).cloned()
    }

    /// Delivers what nobody with the key has made.
    fn forge(&mut self, step: u8, script: &mut Script<'_>) {
        let Some((from, original)) = self.copy(script) else { return };
        let mut forged = original.clone();
        let place = usize::from(script.byte()) | usize::from(script.byte() & 7) << 8;
        let place = place % original.len();
        match step >> 3 & 3 {
            0 | 1 => forged[place] ^= script.byte().max(1),
            2 => forged.truncate(place),
            _ => {
                let Some((_, other)) = self.copy(script) else { return };
                forged.truncate(place);
                forged.extend(&other[place.min(other.len())..]);
            }
        }
        if self.copies.iter().any(|(_, copy)| *copy == forged) {
            return;
        }
        let source = if step & 32 == 0 { from } else { STRANGER };
        let end = 1 - from;
        let garbage = self.ends[end].strays().garbage;
        self.ends[end].handle_datagram(self.now, address(source), 0, &forged);
        assert_eq!(self.ends[end].strays().garbage, garbage + 1, "who made this has no key");
        assert!(!self.ends[end].has_events());
        self.from_stranger += if source == STRANGER { forged.len() } else { 0 };
        self.settle();
    }

    /// Delivers the oldest datagram; returns whether there was one.
    fn deliver(&mut self) -> bool {
        let Some((from, datagram)) = self.waiting.pop_front() else { return false };
        self.hand_over(from, 1 - from, &datagram);
        true
    }

    fn hand_over(&mut self, source: usize, to: usize, datagram: &[u8]) {
        self.from_stranger += if source == STRANGER { datagram.len() } else { 0 };
        self.ends[to].handle_datagram(self.now, address(source), 0, datagram);
        self.settle();
    }

    /// Lets time pass until something is due; returns whether anything is.
    fn wait_for_timer(&mut self) -> bool {
        let due = self.ends.iter().filter_map(Endpoint::next_deadline).min();
        self.now = self.now.max(due.unwrap_or(self.now));
        self.settle();
        due.is_some()
    }

    /// Does what is due at both ends.
    fn settle(&mut self) {
        for end in 0..2 {
            self.ends[end].on_timer(self.now);
            self.events(end);
            self.stream(end);
            self.transmit(end);
            self.events(end);
        }
        assert!(self.to_stranger <= self.from_stranger, "more than came from there");
    }

    fn stream(&mut self, end: usize) {
        let Some(flow) = self.flows[end].and_then(|id| self.ends[end].flow_mut(id)) else { return };
        if end == 0 {
            self.written += flow.write(&STREAM[self.written..]);
            if self.written == STREAM_BYTES && !self.is_finished {
                flow.finish();
                self.is_finished = true;
            }
            return;
        }
        let (first, second) = flow.readable();
        let count = first.len() + second.len();
        let begins = self.read.len();
        self.read.extend([first, second].concat());
        assert!(self.read.len() <= STREAM_BYTES);
        assert!(self.read[begins..] == STREAM[begins..self.read.len()], "bytes nobody sent");
        flow.consume(count);
    }

    fn transmit(&mut self, end: usize) {
        let mut datagram = Vec::new();
        for _ in 0..1000 {
            let Some(departure) = self.ends[end].poll_transmit(self.now, &mut datagram) else {
                return;
            };
            if departure.to == address(STRANGER) {
                self.to_stranger += datagram.len();
            } else if departure.to == address(1 - end) {
                self.waiting.push_back((end, datagram.clone()));
            } else {
                assert_eq!(departure.to, address(end), "sent to nobody");
            }
            if self.copies.len() < MAX_COPIES {
                self.copies.push((end, datagram.clone()));
            }
            datagram.clear();
        }
        panic!("a thousand datagrams at one instant");
    }

    fn events(&mut self, end: usize) {
        while let Some((id, event)) = self.ends[end].poll_event() {
            match event {
                FlowEvent::Connected(_) if end == 1 => {
                    self.flows[1].get_or_insert(id);
                }
                FlowEvent::Connected(_) => {}
                FlowEvent::Read => {
                    assert_eq!(self.read.len(), STREAM_BYTES);
                    let flow = self.ends[end].flow_mut(id).expect("it has just said so");
                    flow.close(self.now, CloseCode::Done, "");
                }
                FlowEvent::Ended(result) => {
                    if self.flows[end] == Some(id) {
                        self.ended[end] = Some(result.is_ok());
                    }
                    self.ends[end].forget(id);
                }
                _ => {}
            }
        }
    }

    /// A sender that is told that all is there is told the truth.
    fn check(&self) {
        if self.ended[0] == Some(true) {
            assert_eq!(self.read.len(), STREAM_BYTES);
        }
    }
}

/// Every place has a byte of its own.
static STREAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0..STREAM_BYTES as u32).map(|at| at.wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect()
});

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, side as u8 + 1], 1000))
}
