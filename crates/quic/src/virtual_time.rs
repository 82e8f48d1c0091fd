//! Whole QUIC connections, real TLS included, over the modelled path in virtual time: no socket, no
//! thread, a minute of LTE in less than a second. Same seed, same packets (the bytes of TLS differ,
//! their sizes do not).

mod ends;
mod error;
mod tls;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cellpace_base::{Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_path::{Fate, Packet, PacketRecord, Path};

pub use ends::Stack;
use ends::{Conditions, Datagram, End};
pub use error::VirtualTimeError;

use crate::Factory;

/// What one sender does over one path.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The library.
    pub stack: Stack,
    /// The controller; `None`: the library's own default, CUBIC.
    pub cc: Option<&'a ControllerSpec>,
    /// Whether the receiver is asked to acknowledge each packet, within a millisecond
    /// (draft-ietf-quic-ack-frequency); otherwise every second one, within 25 ms.
    pub ack_each: bool,
    /// How long it sends.
    pub duration: Span,
    /// Decides what is random.
    pub seed: u64,
}

/// What happened.
#[derive(Debug, Clone)]
pub struct Run {
    /// Every datagram of the sender and its fate, UDP and IP headers in its size.
    pub packets: Vec<PacketRecord>,
    /// Bytes of the stream that the receiver's application has read.
    pub delivered: u64,
    /// Datagrams of the receiver.
    pub answers: u64,
    /// The library's words if the connection ended before its time.
    pub ended: Option<String>,
}

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// More turns than any connection needs at one instant.
const MOST_TURNS: u32 = 100_000;

/// A sender transmits over `forward` as much as it may; acks come back over `reverse`.
///
/// # Errors
/// When the controller cannot run inside QUIC, or the library fails.
pub fn transfer(plan: &Plan<'_>, forward: Path, reverse: Path) -> Result<Run, VirtualTimeError> {
    let factory = plan.cc.map(|cc| Factory::new(cc.clone(), plan.seed)).transpose()?;
    let zero = Instant::now();
    let conditions = Conditions { factory, ack_each: plan.ack_each, seed: plan.seed };
    let [sender, receiver] = ends::pair(plan.stack, &conditions, zero)?;
    let mut bed = Bed {
        zero,
        now: Time::ZERO,
        ends: [sender, receiver],
        paths: [forward, reverse],
        on_the_way: HashMap::new(),
        next_id: 0,
        run: Run { packets: Vec::new(), delivered: 0, answers: 0, ended: None },
    };
    bed.advance(Time::ZERO + plan.duration)?;
    bed.run.delivered = bed.ends[1].delivered();
    bed.run.ended = bed.ends[0].ended().or_else(|| bed.ends[1].ended());
    Ok(bed.run)
}

struct Bed {
    zero: Instant,
    now: Time,
    /// Sender, receiver.
    ends: [Box<dyn End>; 2],
    /// From the end of the same index.
    paths: [Path; 2],
    on_the_way: HashMap<u64, Datagram>,
    next_id: u64,
    run: Run,
}

impl Bed {
    fn advance(&mut self, until: Time) -> Result<(), VirtualTimeError> {
        let mut turns = 0;
        while self.ends[0].ended().is_none() {
            for index in [0, 1] {
                self.act(index);
            }
            let Some(next) = self.next_deadline().filter(|next| *next <= until) else { break };
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > MOST_TURNS {
                return Err(VirtualTimeError::Stuck(self.now));
            }
            self.now = self.now.max(next);
            for index in [0, 1] {
                self.deliver(index);
            }
            let instant = self.instant(self.now);
            for end in &mut self.ends {
                end.on_deadline(instant);
            }
        }
        Ok(())
    }

    /// An end does all that it can do now; its datagrams enter the path.
    fn act(&mut self, index: usize) {
        let now = self.instant(self.now);
        while let Some(datagram) = self.ends[index].poll(now) {
            let size =
                u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX).saturating_add(HEADERS);
            self.paths[index].push(Packet::new(self.next_id, 0, size, self.now));
            self.on_the_way.insert(self.next_id, datagram);
            self.next_id += 1;
            self.run.answers += u64::from(index == 1);
        }
    }

    /// What has crossed a path by now reaches the other end.
    fn deliver(&mut self, index: usize) {
        let mut fates = Vec::new();
        self.paths[index].advance(self.now, &mut fates);
        let now = self.instant(self.now);
        for record in &fates {
            let id = record.packet.id;
            match record.fate {
                Fate::Delivered => {
                    if let Some(datagram) = self.on_the_way.remove(&id) {
                        self.ends[1 - index].receive(now, datagram);
                    }
                }
                Fate::Duplicate => {
                    if let Some(Datagram { ecn, bytes }) = self.on_the_way.get(&id) {
                        let copy = Datagram { ecn: *ecn, bytes: bytes.clone() };
                        self.ends[1 - index].receive(now, copy);
                    }
                }
                Fate::Dropped(_) => {
                    self.on_the_way.remove(&id);
                }
            }
        }
        if index == 0 {
            self.run.packets.append(&mut fates);
        }
    }

    fn next_deadline(&mut self) -> Option<Time> {
        let zero = self.zero;
        let time = |instant: Instant| {
            let nanos = instant.saturating_duration_since(zero).as_nanos();
            Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let ends = self.ends.iter_mut().filter_map(|end| end.next_deadline()).map(time);
        ends.chain(self.paths.iter().filter_map(Path::next_deadline)).min()
    }

    fn instant(&self, time: Time) -> Instant {
        self.zero + Duration::from_nanos(time.as_nanos())
    }
}
