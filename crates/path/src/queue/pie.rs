//! PIE, RFC 8033: drops at random on arrival, with a probability that a controller sets every
//! 15 ms so that the delay stays at its target.

use cellpace_base::{Args, Kind, Param, Random, Span, Time};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, OPPORTUNITY_BYTES, Packet, PathError};

/// The parameters of PIE.
pub const PIE_PARAMS: &[Param] = &[
    Param {
        key: "target",
        kind: Kind::Span(Span::from_micros(1), Span::from_secs(60)),
        default: "15ms",
        unit: "",
        help: "queue delay to be held (QDELAY_REF)",
        source: "RFC 8033 section 4.2",
    },
    Param {
        key: "tupdate",
        kind: Kind::Span(Span::from_micros(100), Span::from_secs(60)),
        default: "15ms",
        unit: "",
        help: "how often the drop probability is set; alpha and beta belong to it",
        source: "RFC 8033 section 4.2, T_UPDATE",
    },
    Param {
        key: "alpha",
        kind: Kind::Number(0.0, 1000.0),
        default: "0.125",
        unit: "1/s",
        help: "weight of the distance from the target",
        source: "RFC 8033 section 4.2",
    },
    Param {
        key: "beta",
        kind: Kind::Number(0.0, 1000.0),
        default: "1.25",
        unit: "1/s",
        help: "weight of the change since the last update",
        source: "RFC 8033 section 4.2",
    },
    Param {
        key: "burst",
        kind: Kind::Span(Span::ZERO, Span::from_secs(60)),
        default: "150ms",
        unit: "",
        help: "how long a burst out of calm passes without drops (MAX_BURST)",
        source: "RFC 8033 section 4.4",
    },
    Param {
        key: "delay",
        kind: Kind::Word(&["timestamp", "rate"]),
        default: "timestamp",
        unit: "",
        help: "measure the delay on packets, or as backlog over departure rate",
        source: "RFC 8033 sections 4.3 and 5.2",
    },
    Param {
        key: "derandomize",
        kind: Kind::Bool,
        default: "false",
        unit: "",
        help: "keep drops neither too close together nor too far apart",
        source: "RFC 8033 section 5.4",
    },
    Param {
        key: "cap",
        kind: Kind::Bool,
        default: "true",
        unit: "",
        help: "from a drop probability of 10% on, raise it by at most 2% at a time",
        source: "RFC 8033 section 5.5",
    },
    Param {
        key: "limit",
        kind: Kind::Window,
        default: "1000pkts",
        unit: "",
        help: "hard limit, bytes or packets",
        source: "own choice, as in Linux tc",
    },
];

/// How PIE decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieConfig {
    target: Span,
    update: Span,
    alpha: f64,
    beta: f64,
    burst: Span,
    /// Delay from the departure rate; else from time stamps.
    by_rate: bool,
    derandomize: bool,
    cap: bool,
    limit: Limit,
}

impl PieConfig {
    pub(super) fn read(rest: &str) -> Result<Self, PathError> {
        let args = Args::parse("pie", rest, PIE_PARAMS)?;
        Ok(Self {
            target: args.span("target"),
            update: args.span("tupdate"),
            alpha: args.number("alpha"),
            beta: args.number("beta"),
            burst: args.span("burst"),
            by_rate: args.word("delay") == "rate",
            derandomize: args.flag("derandomize"),
            cap: args.flag("cap"),
            limit: Limit::of(args.window("limit"), "pie: limit")?,
        })
    }
}

/// A FIFO under PIE.
#[derive(Debug)]
pub struct Pie {
    config: PieConfig,
    fifo: Fifo,
    random: Random,
    control: Control,
    next_update: Time,
    /// Drop probability gathered since the last drop (RFC 8033 section 5.4).
    gathered: f64,
    /// Sojourn time of the last packet that left, for the delay by time stamps.
    last_sojourn: Span,
    departures: Departures,
}

/// What the controller of RFC 8033 section 4.2 remembers from update to update.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Control {
    drop_prob: f64,
    old_delay: Span,
    burst_left: Span,
}

impl Pie {
    /// An empty queue.
    pub fn new(config: PieConfig, random: Random) -> Self {
        Self {
            config,
            fifo: Fifo::new(),
            random,
            control: Control { drop_prob: 0.0, old_delay: Span::ZERO, burst_left: config.burst },
            next_update: Time::ZERO + config.update,
            gathered: 0.0,
            last_sojourn: Span::ZERO,
            departures: Departures::default(),
        }
    }

    /// The drop probability, from 0 to 1.
    pub fn drop_probability(&self) -> f64 {
        self.control.drop_prob
    }

    /// Makes the updates that were due up to `now`. Nothing entered or left between them, so
    /// that most of a long silence changes nothing; what a minute's updates (of 15 ms) have not
    /// settled is left as it is, to bound the work.
    fn catch_up(&mut self, now: Time) {
        const MOST_UPDATES: u32 = 4096;
        if now < self.next_update {
            return;
        }
        let delay = self.delay();
        for _ in 0..MOST_UPDATES {
            let before = self.control;
            self.control.update(&self.config, delay);
            self.next_update += self.config.update;
            if now < self.next_update {
                return;
            }
            if self.control == before {
                break;
            }
        }
        let period = self.config.update.as_nanos();
        let missed = (now - self.next_update).as_nanos() / period;
        self.next_update += self.config.update * missed.saturating_add(1);
    }

    /// The queue delay now, measured one way or the other.
    fn delay(&self) -> Span {
        if self.fifo.is_empty() {
            Span::ZERO
        } else if self.config.by_rate {
            self.departures.time_for(self.fifo.bytes())
        } else {
            self.last_sojourn
        }
    }

    /// RFC 8033 section 4.1: whether this arrival is dropped.
    fn drops_early(&mut self) -> bool {
        const SMALL_BACKLOG: u64 = 2 * OPPORTUNITY_BYTES as u64;
        let Control { drop_prob, old_delay, burst_left } = self.control;
        if drop_prob == 0.0 {
            self.gathered = 0.0;
        }
        // Section 4.4.
        if !burst_left.is_zero() {
            return false;
        }
        // Section 4.1: the link must not run dry.
        let calm = old_delay < self.config.target / 2 && drop_prob < 0.2;
        if calm || self.fifo.bytes() <= SMALL_BACKLOG {
            return false;
        }
        let drops = match self.spread(drop_prob) {
            Some(decided) => decided,
            None => self.random.unit() < drop_prob,
        };
        if drops {
            self.gathered = 0.0;
        }
        drops
    }

    /// RFC 8033 section 5.4: no drop too soon after the last, none too late.
    fn spread(&mut self, drop_prob: f64) -> Option<bool> {
        if !self.config.derandomize {
            return None;
        }
        self.gathered += drop_prob;
        match self.gathered {
            gathered if gathered < 0.85 => Some(false),
            gathered if gathered >= 8.5 => Some(true),
            _ => None,
        }
    }
}

impl Control {
    /// One update (RFC 8033 section 4.2). At its limits 0 and 1 it is a fixed point.
    fn update(&mut self, config: &PieConfig, delay: Span) {
        let error = delay.as_secs_f64() - config.target.as_secs_f64();
        let change = delay.as_secs_f64() - self.old_delay.as_secs_f64();
        let mut step = (config.alpha * error + config.beta * change) * gain(self.drop_prob);
        // Section 5.5.
        if config.cap && self.drop_prob >= 0.1 {
            step = step.min(0.02);
        }
        self.drop_prob += step;
        // Section 4.2: let go exponentially once congestion is over.
        if delay.is_zero() && self.old_delay.is_zero() {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);

        // Section 4.4.
        let half = config.target / 2;
        self.burst_left -= config.update;
        if self.drop_prob == 0.0 && delay < half && self.old_delay < half {
            self.burst_left = config.burst;
        }
        self.old_delay = delay;
    }
}

/// RFC 8033 section 4.2: small drop probabilities are changed in small steps.
fn gain(drop_prob: f64) -> f64 {
    const TABLE: [(f64, f64); 6] = [
        (0.000_001, 2048.0),
        (0.000_01, 512.0),
        (0.000_1, 128.0),
        (0.001, 32.0),
        (0.01, 8.0),
        (0.1, 2.0),
    ];
    TABLE.iter().find(|(below, _)| drop_prob < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

impl Queue for Pie {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) {
        self.catch_up(now);
        if !self.config.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            self.gathered = 0.0;
            return;
        }
        if self.drops_early() {
            drops.push((packet, DropReason::Aqm));
            return;
        }
        if self.fifo.is_empty() {
            // What the last packet before the pause waited says nothing about this one.
            self.last_sojourn = Span::ZERO;
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops) -> Option<Packet> {
        self.catch_up(now);
        let packet = self.fifo.pop()?;
        self.last_sojourn = now - packet.enqueued_at;
        if self.config.by_rate {
            self.departures.on_dequeue(now, packet.size, self.fifo.bytes());
        }
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }
}

/// Departure rate, measured only while there is a backlog (RFC 8033 section 5.2).
#[derive(Debug, Default)]
struct Departures {
    /// When the running measurement began, and the bytes that left since.
    running: Option<(Time, u64)>,
    /// Average time that `THRESHOLD` bytes take, in nanoseconds.
    average: Option<f64>,
}

impl Departures {
    /// DQ_THRESHOLD.
    const THRESHOLD: u64 = 1 << 14;
    /// DQ_THRESHOLD / 2^16.
    const WEIGHT: f64 = 0.25;

    fn on_dequeue(&mut self, now: Time, size: u32, backlog: u64) {
        if let Some((start, bytes)) = self.running {
            let bytes = bytes + u64::from(size);
            self.running = Some((start, bytes));
            if bytes < Self::THRESHOLD {
                return;
            }
            let sample = (now - start).as_nanos() as f64 * Self::THRESHOLD as f64 / bytes as f64;
            self.average = Some(match self.average {
                Some(average) => average + Self::WEIGHT * (sample - average),
                None => sample,
            });
            self.running = None;
        }
        // The packet that starts a measurement took its time before it, so that it does not
        // count into it.
        if self.running.is_none() && backlog >= Self::THRESHOLD {
            self.running = Some((now, 0));
        }
    }

    /// Little's law with the average rate.
    fn time_for(&self, bytes: u64) -> Span {
        let average = self.average.unwrap_or(0.0);
        Span::from_nanos((bytes as f64 * average / Self::THRESHOLD as f64) as u64)
    }
}
