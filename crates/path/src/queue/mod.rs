//! Queues in front of the link: plain and managed (AQM).

mod codel;
mod discipline;
mod drophead;
mod droptail;
mod dualpi2;
mod fifo;
mod fq;
mod fq_codel;
mod limit;
mod pie;
mod policer;
mod red;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use cellpace_base::{
    Param, ParamSet, Random, RegisterError, check_own_names, nearest, params, parse_window,
    split_name,
};

use crate::error::PathError;

use codel::{Codel, CodelQueueParams};
use dualpi2::{DualPi2, DualPi2Params};
use fq::{Fq, FqParams};
use fq_codel::{FqCodel, FqCodelParams};
use pie::{Pie, PieParams};
use policer::{Policer, PolicerParams};
use red::{Red, RedConfig, RedParams};

pub use discipline::{Drops, Queue};
pub use drophead::DropHead;
pub use droptail::DropTail;
pub use limit::{Bottleneck, Limit};
use limit::{DEFAULT_LIMIT, Size};

/// A kind of queue, for help and for reading its written form.
#[derive(Debug)]
pub struct QueueInfo {
    /// The name in front of the colon.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// How it is written.
    pub example: &'static str,
    table: fn() -> &'static [Param],
    /// Of the name and what is behind the colon.
    read: fn(&str, &str) -> Result<QueueKind, PathError>,
}

impl QueueInfo {
    /// The queue that the parameters `P` build, with its name (lower-case letters, digits, `-` and `_`), what it is in
    /// one line, and how it is written.
    pub const fn new<P>(name: &'static str, summary: &'static str, example: &'static str) -> Self
    where
        P: ParamSet + QueueParams + 'static,
    {
        let read = |name: &str, rest: &str| {
            let params: Arc<dyn QueueParams> = Arc::new(P::parse(name, rest)?);
            Ok(QueueKind::Own(OwnQueue(params)))
        };
        Self { name, summary, example, table: P::table, read }
    }

    /// Describes its parameters; none for those that take a size or nothing.
    pub fn params(&self) -> &'static [Param] {
        (self.table)()
    }
}

params! {
    /// No parameters at all.
    struct NoParams {}
}

/// Parameters of a queue in another crate, which build it. See [`register`].
pub trait QueueParams: fmt::Debug + Send + Sync {
    /// The queue, empty. `random` is for queues that drop or hash at random.
    fn build(&self, random: Random) -> Box<dyn Queue>;
}

/// All kinds of queues of this process, in the order in which they are shown: those of cellpace, and behind them what
/// was registered.
pub fn queue_infos() -> impl Iterator<Item = &'static QueueInfo> {
    INFOS.iter().chain(OWN.get().copied().unwrap_or_default())
}

/// What the program registered.
static OWN: OnceLock<&[QueueInfo]> = OnceLock::new();

/// Adds a program's own queues to those that a [`QueueSpec`] knows, for as long as the process lives.
///
/// # Errors
/// When a name is taken or is none, or something was registered before.
pub fn register(own: &'static [QueueInfo]) -> Result<(), RegisterError> {
    let names: Vec<&str> = own.iter().map(|info| info.name).collect();
    check_own_names(&names, &INFOS.iter().map(|info| info.name).collect::<Vec<_>>())?;
    OWN.set(own).map_err(|_| RegisterError::Twice)
}

const INFOS: &[QueueInfo] = &[
    QueueInfo {
        name: "droptail",
        summary: "first in, first out; what does not fit is dropped",
        example: "droptail:2MB or droptail:100pkts or droptail:500ms or droptail:2bdp or droptail",
        table: NoParams::table,
        read: |_, rest| Ok(QueueKind::DropTail(Size::parse(rest, "droptail")?)),
    },
    QueueInfo {
        name: "infinite",
        summary: "first in, first out, without an end",
        example: "infinite",
        table: NoParams::table,
        read: |_, rest| {
            NoParams::parse("infinite", rest)?;
            Ok(QueueKind::DropTail(Size::Fixed(Limit::None)))
        },
    },
    QueueInfo {
        name: "drophead",
        summary: "first in, first out; the oldest make room for what does not fit",
        example: "drophead:2MB or drophead:100pkts or drophead:500ms or drophead:2bdp or drophead",
        table: NoParams::table,
        read: |_, rest| Ok(QueueKind::DropHead(Size::parse(rest, "drophead")?)),
    },
    QueueInfo {
        name: "red",
        summary: "random early detection by the average queue (Floyd and Jacobson 1993)",
        example: "red:min=3mbit,max=9mbit,p=0.1 or red:classic",
        table: RedParams::table,
        read: |_, rest| Ok(QueueKind::Red(RedConfig::read(rest)?)),
    },
    QueueInfo {
        name: "codel",
        summary: "controlled delay: drops when packets wait too long for too long (RFC 8289)",
        example: "codel:target=5ms,interval=100ms",
        table: CodelQueueParams::table,
        read: |_, rest| Ok(QueueKind::Codel(CodelQueueParams::parse("codel", rest)?)),
    },
    QueueInfo {
        name: "pie",
        summary: "proportional integral controller of the queue delay (RFC 8033)",
        example: "pie:target=15ms",
        table: PieParams::table,
        read: |_, rest| Ok(QueueKind::Pie(PieParams::parse("pie", rest)?)),
    },
    QueueInfo {
        name: "fq_codel",
        summary: "a fair queue for each flow, each under CoDel (RFC 8290)",
        example: "fq_codel:quantum=300B",
        table: FqCodelParams::table,
        read: |_, rest| Ok(QueueKind::FqCodel(FqCodelParams::parse("fq_codel", rest)?)),
    },
    QueueInfo {
        name: "dualpi2",
        summary: "low delay for L4S beside a queue for others, coupled so that rates are equal (RFC 9332)",
        example: "dualpi2 or dualpi2:step=10ms or dualpi2:ramp=800us..1200us",
        table: DualPi2Params::table,
        read: |_, rest| Ok(QueueKind::DualPi2(DualPi2Params::parse("dualpi2", rest)?)),
    },
    QueueInfo {
        name: "fq",
        summary: "a queue for each flow, served in turn by bytes (deficit round robin, 1995)",
        example: "fq:limit=1000pkts,quantum=1514B",
        table: FqParams::table,
        read: |_, rest| Ok(QueueKind::Fq(FqParams::parse("fq", rest)?)),
    },
    QueueInfo {
        name: "policer",
        summary: "drops what comes faster than a token bucket fills, in front of a FIFO",
        example: "policer:rate=10mbit,burst=100kB",
        table: PolicerParams::table,
        read: |_, rest| Ok(QueueKind::Policer(PolicerParams::parse("policer", rest)?)),
    },
];

/// A queue by its written form: `droptail:2MB`, `codel`, `red:min=3mbit,max=9mbit,p=0.1`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSpec {
    text: String,
    kind: QueueKind,
}

#[derive(Debug, Clone, PartialEq)]
enum QueueKind {
    DropTail(Size),
    DropHead(Size),
    Red(RedConfig),
    Codel(CodelQueueParams),
    Pie(PieParams),
    FqCodel(FqCodelParams),
    DualPi2(DualPi2Params),
    Fq(FqParams),
    Policer(PolicerParams),
    Own(OwnQueue),
}

/// A queue of another crate.
#[derive(Debug, Clone)]
struct OwnQueue(Arc<dyn QueueParams>);

/// The text beside it says whether two are the same.
impl PartialEq for OwnQueue {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl QueueSpec {
    /// The queue itself. `random` is used by queues that drop or hash at random; `bottleneck` is
    /// asked for sizes in time and in BDP only, since a mean rate may take a whole trace to find.
    pub fn build(&self, random: Random, bottleneck: impl FnOnce() -> Bottleneck) -> Box<dyn Queue> {
        match &self.kind {
            QueueKind::Own(own) => own.0.build(random),
            QueueKind::DropTail(size) => Box::new(DropTail::new(size.limit(bottleneck))),
            QueueKind::DropHead(size) => Box::new(DropHead::new(size.limit(bottleneck))),
            QueueKind::Red(config) => Box::new(Red::new(*config, random)),
            QueueKind::Codel(params) => Box::new(Codel::new(*params)),
            QueueKind::Pie(config) => Box::new(Pie::new(*config, random)),
            QueueKind::FqCodel(config) => Box::new(FqCodel::new(*config, random)),
            QueueKind::DualPi2(config) => Box::new(DualPi2::new(*config, random)),
            QueueKind::Fq(config) => Box::new(Fq::new(*config)),
            QueueKind::Policer(config) => Box::new(Policer::new(*config)),
        }
    }
}

impl QueueSpec {
    /// Whether its size depends on the rate of the link or on the RTT.
    pub const fn is_relative(&self) -> bool {
        match self.kind {
            QueueKind::DropTail(size) | QueueKind::DropHead(size) => size.is_relative(),
            _ => false,
        }
    }
}

impl Default for QueueSpec {
    /// Two megabytes, drop-tail.
    fn default() -> Self {
        Self { text: "droptail:2MB".into(), kind: QueueKind::DropTail(Size::Fixed(DEFAULT_LIMIT)) }
    }
}

impl FromStr for QueueSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let split = split_name(text);
        let Some(info) = queue_infos().find(|info| info.name == split.name) else {
            let names: Vec<&str> = queue_infos().map(|info| info.name).collect();
            let near = nearest(split.name, names.iter().copied());
            let mut error = PathError::unknown("queue", split.name, near, &names);
            if let (Ok(_), PathError::Unknown { hint, .. }) = (parse_window(text), &mut error) {
                *hint = format!("; a size is written `droptail:{}`", text.trim());
            }
            return Err(error);
        };
        Ok(Self { text: text.trim().to_owned(), kind: (info.read)(split.name, split.rest)? })
    }
}

/// As it was written.
impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod testing {
    //! What the tests of all queues need.

    use super::*;
    use crate::Packet;
    use cellpace_base::Time;

    pub(super) fn packet(id: u64, size: u32, now: Time) -> Packet {
        Packet::new(id, 0, size, now)
    }

    /// Enqueues packets (id, size) and returns those that were dropped.
    pub(super) fn arrive(queue: &mut impl Queue, now: Time, packets: &[(u64, u32)]) -> Vec<u64> {
        let mut drops = Drops::new();
        for &(id, size) in packets {
            queue.enqueue(now, packet(id, size, now), &mut drops);
        }
        drops.iter().map(|(packet, _)| packet.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::{Rate, Span, Time};

    fn link() -> Bottleneck {
        Bottleneck { rate: Rate::from_mbps(12.0), rtt: Span::from_millis(40) }
    }

    fn error_of(text: &str) -> String {
        text.parse::<QueueSpec>().unwrap_err().to_string()
    }

    #[test]
    fn every_form_of_the_guide_is_read_and_written_back() {
        for text in [
            "droptail:2MB",
            "droptail:100pkts",
            "droptail:500ms",
            "droptail:0.5bdp",
            "infinite",
            "drophead:2MB",
            "drophead:3mbit",
            "red:min=3mbit,max=9mbit,p=0.1",
            "red:min=3mbit,max=9mbit,p=0.1%",
            "red:min=5pkts,max=15pkts,gentle=off,rate=12mbit,limit=60pkts,mode=byte,wq=0.5",
            "red",
            "red:classic",
            "red:classic,p=10%",
            "codel",
            "codel:target=5ms,interval=100ms,limit=2MB",
            "pie",
            "pie:delay=rate,derandomize=true,cap=false,burst=0s",
            "fq_codel",
            "fq_codel:flows=16,quantum=300B,memory=4MB,limit=100pkts,batch=1",
            "codel:ecn=true,ce_threshold=1ms",
            "pie:ecn=true,ecn_threshold=20%",
            "red:ecn=true",
            "fq_codel:ecn=true",
            "dualpi2",
            "dualpi2:step=10ms,floor=0,protection=20%,overload=mark,any_ect=true,limit=2MB",
            "dualpi2:ramp=800us..1200us",
            "fq",
            "fq:limit=2MB,quantum=300B",
            "policer:rate=12mbit,burst=30kB,limit=100pkts",
        ] {
            let spec: QueueSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(spec.build(Random::seeded(1, 1), link).packets(), 0);
        }
        assert_eq!("droptail:2MB".parse(), Ok(QueueSpec::default()));
    }

    #[test]
    fn sizes_in_time_and_in_bdp_follow_the_rate_and_the_rtt() {
        // 12 Mbit/s are a packet of 1500 bytes each millisecond.
        for (text, packets) in [
            ("droptail:500ms", 500),
            ("droptail:2bdp", 80),
            ("drophead:0.5bdp", 20),
            ("droptail:0.1ms", 1),
            ("droptail:60kB", 40),
        ] {
            let mut queue = text.parse::<QueueSpec>().unwrap().build(Random::seeded(1, 1), link);
            let mut drops = Drops::new();
            for id in 0..600 {
                queue.enqueue(Time::ZERO, testing::packet(id, 1500, Time::ZERO), &mut drops);
            }
            assert_eq!(queue.packets(), packets, "{text}");
        }
    }

    #[test]
    fn every_example_of_the_help_is_read() {
        for info in queue_infos() {
            for text in info.example.split(" or ") {
                assert!(text.starts_with(info.name), "{text}");
                assert!(text.parse::<QueueSpec>().is_ok(), "{text}");
            }
            for param in info.params() {
                assert!(!param.help.is_empty() && !param.source.is_empty(), "{}", param.key);
            }
        }
    }

    #[test]
    fn an_unknown_queue_names_the_nearest() {
        assert_eq!(
            error_of("droptial:2MB"),
            "there is no queue `droptial`; did you mean `droptail`?"
        );
        assert_eq!(error_of("fqcodel"), "there is no queue `fqcodel`; did you mean `fq_codel`?");
        assert_eq!(
            error_of("warp-drive"),
            "there is no queue `warp-drive`; there are droptail, infinite, drophead, red, codel, \
             pie, fq_codel, dualpi2, fq, policer"
        );
    }

    #[test]
    fn names_that_are_taken_or_none_are_not_registered() {
        const fn own(name: &'static str) -> QueueInfo {
            QueueInfo::new::<Nothing>(name, "a test", "a test")
        }
        static TAKEN: [QueueInfo; 2] = [own("own"), own("codel")];
        static REPEATED: [QueueInfo; 2] = [own("own"), own("own")];
        static COLON: [QueueInfo; 1] = [own("own:r")];
        assert_eq!(register(&TAKEN), Err(RegisterError::Taken("codel")));
        assert_eq!(register(&REPEATED), Err(RegisterError::Taken("own")));
        assert_eq!(register(&COLON), Err(RegisterError::Name("own:r")));
        assert!("own".parse::<QueueSpec>().is_err());
    }

    params! {
        struct Nothing {}
    }

    impl QueueParams for Nothing {
        fn build(&self, _random: Random) -> Box<dyn Queue> {
            Box::new(DropTail::new(Limit::None))
        }
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        assert_eq!(error_of("codel:traget=5ms"), {
            "`codel` has no parameter `traget`; did you mean `target`?"
        });
        assert_eq!(error_of("pie:target=15ms,target=1s"), "`pie`: `target` is given twice");
        assert_eq!(error_of("codel:5ms"), "`codel`: `5ms` should be key=value");
        assert_eq!(error_of("infinite:2MB"), "`infinite`: `2MB` should be key=value");
        assert_eq!(
            error_of("infinite:size=2MB"),
            "`infinite` has no parameter `size`; it has none"
        );
        assert_eq!(
            error_of("red:mode=bytes"),
            "`red`: mode=bytes is out of range; allowed: packet, byte"
        );
        assert_eq!(
            error_of("fq_codel:flows=0"),
            "`fq_codel`: flows=0 is out of range; allowed: 1..65535"
        );
    }

    #[test]
    fn a_missing_unit_is_named() {
        assert_eq!(
            error_of("droptail:100"),
            "droptail: `100` needs a unit; write a size like 100pkts, 150kB, 500ms or 2bdp"
        );
        assert_eq!(
            error_of("codel:target=5"),
            "`codel`: target: `5` needs a unit; write a time like 40ms or 60s"
        );
        assert_eq!(
            error_of("red:min=3,max=9"),
            "`red`: min: `3` needs a unit; write a size like 100pkts or 150kB"
        );
    }

    #[test]
    fn a_queue_smaller_than_a_packet_is_refused() {
        let small = "is smaller than one 1500-byte packet, so nothing would get through";
        assert_eq!(error_of("droptail:1499B"), format!("droptail: `1499B` {small}"));
        assert_eq!(error_of("drophead:0pkts"), format!("drophead: `0pkts` {small}"));
        for queue in ["codel", "pie", "red"] {
            assert_eq!(
                error_of(&format!("{queue}:limit=1kB")),
                format!(
                    "`{queue}`: limit=1kB is out of range; allowed: pkts, or bytes for one of \
                     1500B or more"
                )
            );
        }
        let memory = error_of("fq_codel:memory=1kB");
        assert!(memory.starts_with("`fq_codel`: memory=1kB is out of range; allowed: 1500B"));
        assert!("droptail:1500B".parse::<QueueSpec>().is_ok());
    }

    #[test]
    fn thresholds_of_red_belong_together() {
        assert_eq!(
            error_of("red:min=9mbit,max=3mbit"),
            "`red`: max=375kB is out of range; allowed: more than min=1125kB, in the same unit \
             (both packets or both bytes)"
        );
        assert!(error_of("red:min=5pkts,max=9mbit").contains("min=5pkts"));
        assert!(error_of("red:min=5pkts,max=5pkts").contains("max=5pkts"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            ":",
            "droptail:NaNMB",
            "droptail:-1MB",
            "droptail:0bdp",
            "droptail:-2bdp",
            "droptail:NaNbdp",
            "droptail:infbdp",
            "droptail:bdp",
            "droptail:0ms",
            "droptail:2h",
            "codel:limit=2bdp",
            "droptail:1e400MB",
            "red:p=NaN",
            "red:p=1.1",
            "red:wq=NaN",
            "red:wq=0",
            "pie:alpha=NaN",
            "pie:beta=inf",
            "pie:tupdate=0s",
            "codel:interval=0ms",
            "codel:limit=infms",
            "fq_codel:quantum=0B",
            "fq_codel:limit=0pkts",
        ] {
            assert!(text.parse::<QueueSpec>().is_err(), "{text}");
        }
    }
}
