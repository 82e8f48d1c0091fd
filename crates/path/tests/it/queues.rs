//! What every queue owes to whoever drives it, whatever happens: each packet comes out once, the
//! sums are right, a flow keeps its order, limits hold, nothing panics.

use std::collections::HashMap;

use cellpace_base::{Ecn, Random, Rate, Span, Time};
use cellpace_path::queue::{Bottleneck, Drops, queue_infos};
use cellpace_path::{DropReason, Packet, Queue, QueueSpec};
use proptest::prelude::*;

/// Queues and what they hold at most: bytes, packets.
const QUEUES: &[(&str, u64, usize)] = &[
    ("droptail:20kB", 20_000, usize::MAX),
    ("droptail:10pkts", u64::MAX, 10),
    ("droptail:20ms", 30_000, usize::MAX),
    ("drophead:0.5bdp", 30_000, usize::MAX),
    ("infinite", u64::MAX, usize::MAX),
    ("drophead:20kB", 20_000, usize::MAX),
    ("drophead:10pkts", u64::MAX, 10),
    ("red", 2_250_000, usize::MAX),
    ("red:min=3pkts,max=9pkts,p=0.5,wq=0.2", u64::MAX, 18),
    ("red:min=5kB,max=15kB,wq=1,gentle=false,mode=byte,rate=1mbit,limit=20kB", 20_000, usize::MAX),
    ("codel", u64::MAX, 1000),
    ("codel:target=1us,interval=2us,limit=20kB", 20_000, usize::MAX),
    ("pie", u64::MAX, 1000),
    ("pie:target=1ms,burst=0s,derandomize=true,limit=20kB", 20_000, usize::MAX),
    ("pie:delay=rate,tupdate=100us,burst=0s,alpha=1000,beta=1000", u64::MAX, 1000),
    ("pie:alpha=0,beta=0", u64::MAX, 1000),
    ("fq_codel", 32 << 20, 10_240),
    ("fq_codel:flows=2,quantum=64B,limit=10pkts,batch=2", 32 << 20, 10),
    ("fq_codel:target=1us,interval=2us,memory=20kB", 20_000, 10_240),
    ("codel:target=1us,interval=2us,ecn=true,ce_threshold=1ms", u64::MAX, 1000),
    ("pie:target=1ms,burst=0s,ecn=true,ecn_threshold=0.5", u64::MAX, 1000),
    ("red:min=3pkts,max=9pkts,p=0.5,wq=0.2,ecn=true", u64::MAX, 18),
    ("fq_codel:flows=2,target=1us,interval=2us,ecn=true,limit=10pkts", 32 << 20, 10),
    ("dualpi2", u64::MAX, 10_000),
    (
        "dualpi2:limit=20kB,step=1us,target=1us,tupdate=100us,alpha=1000,beta=1000",
        20_000,
        usize::MAX,
    ),
    ("dualpi2:limit=10pkts,ramp=1us..1ms,floor=0,overload=mark,any_ect=true,k=50", u64::MAX, 10),
    ("dualpi2:alpha=0,beta=0,protection=100%", u64::MAX, 10_000),
    ("fq", u64::MAX, 1000),
    ("fq:limit=20kB,quantum=64B", 20_000, usize::MAX),
    ("policer", 2_000_000, usize::MAX),
    ("policer:rate=1mbit,burst=3kB,limit=20kB", 20_000, usize::MAX),
];

#[derive(Debug, Clone)]
enum Step {
    Wait(Span),
    Arrive { flow: u32, ecn: Ecn, sizes: Vec<u32> },
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = (0_u32..42, 1_u64..10).prop_map(|(shift, nanos)| {
        Step::Wait(Span::from_nanos(nanos << shift).min(Span::from_secs(3600)))
    });
    let size = prop_oneof![8 => 40_u32..=1500, 1 => Just(1500), 1 => 1501_u32..=65_535];
    let arrive = (0_u32..5, 0_u8..4, prop::collection::vec(size, 1..20))
        .prop_map(|(flow, bits, sizes)| Step::Arrive { flow, ecn: Ecn::from_bits(bits), sizes });
    let leave = (1_usize..20).prop_map(Step::Leave);
    prop::collection::vec(prop_oneof![wait, arrive, leave], 0..100)
}

/// A queue and the contents that a plain count expects in it.
struct Account {
    name: &'static str,
    queue: Box<dyn Queue>,
    most: (u64, usize),
    now: Time,
    drops: Drops,
    next_id: u64,
    inside: HashMap<u64, Packet>,
    bytes: u64,
    /// The last packet of each flow and codepoint that left.
    left: HashMap<(u32, Ecn), u64>,
    /// Whether the queue may mark, by its name.
    marks: bool,
}

impl Account {
    fn new(name: &'static str, bytes: u64, packets: usize, seed: u64) -> Self {
        let spec: QueueSpec = name.parse().expect("the table of queues is right");
        let link = || Bottleneck { rate: Rate::from_mbps(12.0), rtt: Span::from_millis(40) };
        Self {
            name,
            queue: spec.build(Random::seeded(seed, 1), link),
            most: (bytes, packets),
            now: Time::ZERO,
            drops: Drops::new(),
            next_id: 0,
            inside: HashMap::new(),
            bytes: 0,
            left: HashMap::new(),
            marks: ["ecn=", "ce_threshold=", "dualpi2"].iter().any(|key| name.contains(key)),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(span) => self.now += *span,
            Step::Arrive { flow, ecn, sizes } => {
                for size in sizes {
                    self.arrive(*flow, *ecn, *size);
                }
            }
            Step::Leave(count) => {
                for _ in 0..*count {
                    self.leave();
                }
            }
        }
    }

    fn arrive(&mut self, flow: u32, ecn: Ecn, size: u32) {
        let packet = Packet { ecn, ..Packet::new(self.next_id, flow, size, self.now) };
        self.next_id += 1;
        self.inside.insert(packet.id, packet);
        self.bytes += u64::from(size);
        self.queue.enqueue(self.now, packet, &mut self.drops);
        self.settle();
    }

    fn leave(&mut self) -> bool {
        let left = self.queue.dequeue(self.now, &mut self.drops);
        match left {
            Some(packet) => {
                let sent = self.take_out(packet);
                // A fair queue goes by flows, DualPI2 by codepoints: within both all keep the order.
                let last = self.left.insert((packet.flow, sent.ecn), packet.id);
                assert!(last.is_none_or(|last| last < packet.id), "{}: order", self.name);
            }
            None => assert_eq!(self.queue.packets(), 0, "{}: keeps packets back", self.name),
        }
        self.settle();
        left.is_some()
    }

    fn settle(&mut self) {
        for (packet, reason) in std::mem::take(&mut self.drops) {
            assert!(matches!(reason, DropReason::Overflow | DropReason::Aqm));
            let sent = self.take_out(packet);
            assert_eq!(packet, sent, "{}: a packet is marked or dropped", self.name);
        }
        assert_eq!(self.queue.packets(), self.inside.len(), "{}: packets", self.name);
        assert_eq!(self.queue.bytes(), self.bytes, "{}: bytes", self.name);
        assert!(self.bytes <= self.most.0, "{}: {} bytes", self.name, self.bytes);
        assert!(self.inside.len() <= self.most.1, "{}: limit", self.name);
    }

    /// Returns the packet as it went in: what comes out is the same, or marked where its sender
    /// understands that, and no mark vanishes.
    fn take_out(&mut self, packet: Packet) -> Packet {
        let sent = self.inside.remove(&packet.id);
        let sent = sent.unwrap_or_else(|| panic!("{}: came out twice", self.name));
        let expected = match packet.marked {
            true => Packet { ecn: Ecn::Ce, marked: true, ..sent },
            false => sent,
        };
        assert_eq!(packet, expected, "{}", self.name);
        assert!(!packet.marked || self.marks && matches!(sent.ecn, Ecn::Ect0 | Ecn::Ect1));
        self.bytes -= u64::from(packet.size);
        sent
    }
}

#[test]
fn every_kind_of_queue_is_in_the_list() {
    for info in queue_infos() {
        assert!(QUEUES.iter().any(|(name, ..)| name.split(':').next() == Some(info.name)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_packet_comes_out_once_and_the_sums_are_right(steps in steps(), seed: u64) {
        for &(name, bytes, packets) in QUEUES {
            let mut account = Account::new(name, bytes, packets, seed);
            for step in &steps {
                account.step(step);
            }
            while account.leave() {}
            prop_assert!(account.inside.is_empty());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_fates(steps in steps(), seed: u64) {
        for &(name, bytes, packets) in QUEUES {
            let fates = || {
                let mut account = Account::new(name, bytes, packets, seed);
                for step in &steps {
                    account.step(step);
                }
                (account.inside, account.left)
            };
            prop_assert_eq!(fates(), fates());
        }
    }
}

#[test]
fn the_end_of_time_is_a_time_like_any_other() {
    for &(name, bytes, packets) in QUEUES {
        let mut account = Account::new(name, bytes, packets, 1);
        for _ in 0..3 {
            account.step(&Step::Arrive { flow: 1, ecn: Ecn::NotEct, sizes: vec![1500; 30] });
            account.step(&Step::Leave(5));
            account.now = Time::MAX;
        }
        while account.leave() {}
        assert!(account.inside.is_empty());
    }
}
