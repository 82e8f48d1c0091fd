//! The figures in which arms are compared.

/// A figure of many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// 95th percentile over connections of each one's 95th percentile of queue delay, in ms.
    QueueDelayP95,
    /// Median over connections of each one's median queue delay, in ms.
    QueueDelayP50,
    /// Median over connections of each one's median RTT, in ms.
    RttP50,
    /// Median goodput of connections, in Mbit/s.
    GoodputP50,
    /// Fifth percentile of it: the slow connections.
    GoodputP5,
    /// Median time from accepting to the first byte for the peer, in ms.
    FirstByteP50,
    /// 95th percentile of that time.
    FirstByteP95,
    /// Bytes that TCP sent again, in percent of what it sent.
    Retransmitted,
    /// Connections that were reset, in percent.
    Errors,
    /// Processor time of the command, for each GB of the connections. Of slots alone: a processor does not say
    /// for which connection it works.
    ProcessorTime,
}

/// How a figure follows from the values of connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureKind {
    /// The quantile at this level, from 0 to 1, of a value of each connection.
    Quantile(f64),
    /// The sum of one value in percent of the sum of another one.
    Share,
    /// The sum of one value for each of another one.
    Rate,
}

impl Figure {
    /// Those of connections, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::QueueDelayP95,
        Self::QueueDelayP50,
        Self::RttP50,
        Self::GoodputP50,
        Self::GoodputP5,
        Self::FirstByteP50,
        Self::FirstByteP95,
        Self::Retransmitted,
        Self::Errors,
    ];

    /// Returns the figure of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::ProcessorTime]);
        all.find(|figure| figure.name() == name)
    }

    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueDelayP95 => "queue_delay_p95",
            Self::QueueDelayP50 => "queue_delay_p50",
            Self::RttP50 => "rtt_p50",
            Self::GoodputP50 => "goodput_p50",
            Self::GoodputP5 => "goodput_p5",
            Self::FirstByteP50 => "first_byte_p50",
            Self::FirstByteP95 => "first_byte_p95",
            Self::Retransmitted => "retransmitted",
            Self::Errors => "errors",
            Self::ProcessorTime => "processor_time",
        }
    }

    /// Returns its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::QueueDelayP95 => "p95 of the queue delay",
            Self::QueueDelayP50 => "median queue delay",
            Self::RttP50 => "median RTT",
            Self::GoodputP50 => "median goodput",
            Self::GoodputP5 => "p5 of the goodput",
            Self::FirstByteP50 => "median time to first byte",
            Self::FirstByteP95 => "p95 of the time to first byte",
            Self::Retransmitted => "retransmitted bytes",
            Self::Errors => "connections reset",
            Self::ProcessorTime => "processor time of the command",
        }
    }

    /// Returns its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::GoodputP50 | Self::GoodputP5 => "Mbit/s",
            Self::Retransmitted | Self::Errors => "%",
            Self::ProcessorTime => "s/GB",
            _ => "ms",
        }
    }

    /// Whether more of it is better.
    pub fn is_better_high(self) -> bool {
        matches!(self, Self::GoodputP50 | Self::GoodputP5)
    }

    /// Returns how it follows from connections.
    pub fn kind(self) -> FigureKind {
        match self {
            Self::Retransmitted | Self::Errors => FigureKind::Share,
            Self::QueueDelayP95 | Self::FirstByteP95 => FigureKind::Quantile(0.95),
            Self::ProcessorTime => FigureKind::Rate,
            Self::GoodputP5 => FigureKind::Quantile(0.05),
            _ => FigureKind::Quantile(0.5),
        }
    }
}

impl FigureKind {
    /// The figure of two sums; none where nothing was counted, and of a quantile.
    pub(crate) fn of_sums(self, (part, all): (f64, f64)) -> Option<f64> {
        let scale = match self {
            Self::Share => 100.0,
            Self::Rate => 1.0,
            Self::Quantile(_) => return None,
        };
        (all > 0.0).then(|| part / all * scale)
    }
}
