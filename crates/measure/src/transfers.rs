//! Transfers: downloads of a known size, and how long they took.

use cellpace_base::statistics::{mean, quantile};
use serde::{Deserialize, Serialize};

/// One transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its flow, from 0, in the order of the scenario.
    pub flow: usize,
    /// The flow's controller.
    pub cc: String,
    /// Its number within the flow, from 0.
    pub index: u64,
    /// What is downloaded, in bytes without headers.
    pub size_bytes: u64,
    /// When it began, in seconds: its first packet in either direction.
    pub start_s: f64,
    /// When the first data was at the receiver.
    pub first_byte_s: Option<f64>,
    /// When the last byte was at the receiver, or it was given up.
    pub end_s: Option<f64>,
    /// From the start to the last byte at the receiver; `null` unless it is complete.
    pub completion_ms: Option<f64>,
    /// Size by completion time.
    pub goodput_mbps: Option<f64>,
    /// From SYN to SYN-ACK, where its connection began with them.
    pub handshake_rtt_ms: Option<f64>,
    /// Smallest RTT of its packets.
    pub min_rtt_ms: Option<f64>,
    /// Mean RTT of its packets.
    pub mean_rtt_ms: Option<f64>,
    /// Mean of what RTTs were above that of the handshake, or above the smallest where the
    /// connection began without one.
    pub self_inflicted_ms: Option<f64>,
    /// The most that was in flight, in packets.
    pub largest_window_packets: f64,
    /// From its first data to 90 % of the largest window.
    pub ramp_s: Option<f64>,
    /// Data packets sent for it, those sent again included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that an ack of what had been sent before showed to be wrong.
    pub spurious_timeouts: u64,
    /// Median of the retransmission timeout.
    pub rto_ms: Option<f64>,
    /// Handovers between its start and its end.
    pub handovers: u64,
    /// Different cells that served between its start and its end; on a radio layer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<u32>,
    /// Mean SINR between its start and its end, in dB (the mean of decibels); on a radio layer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_sinr_db: Option<f64>,
    /// How it ended.
    pub outcome: TransferOutcome,
}

impl Transfer {
    /// One that began and of which nothing is known yet: cut off until it is told otherwise.
    pub fn begun(flow: usize, cc: &str, index: u64, size_bytes: u64, start_s: f64) -> Self {
        Self {
            flow,
            cc: cc.to_owned(),
            index,
            size_bytes,
            start_s,
            first_byte_s: None,
            end_s: None,
            completion_ms: None,
            goodput_mbps: None,
            handshake_rtt_ms: None,
            min_rtt_ms: None,
            mean_rtt_ms: None,
            self_inflicted_ms: None,
            largest_window_packets: 0.0,
            ramp_s: None,
            packets_sent: 0,
            retransmitted: 0,
            timeouts: 0,
            spurious_timeouts: 0,
            rto_ms: None,
            handovers: 0,
            cells: None,
            mean_sinr_db: None,
            outcome: TransferOutcome::CutOff,
        }
    }
}

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferOutcome {
    /// The last byte arrived.
    Complete,
    /// It was given up.
    Timeout,
    /// The flow or the run ended before.
    CutOff,
}

impl TransferOutcome {
    /// The word for logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Timeout => "timeout",
            Self::CutOff => "cut_off",
        }
    }
}

/// Transfers of a flow, or of all flows of a controller, taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// The controller.
    pub cc: String,
    /// Transfers that began.
    pub count: u64,
    /// Those that are complete; the figures below are theirs.
    pub complete: u64,
    /// Those that were given up.
    pub timeout: u64,
    /// Those that the end of the flow or the run cut off.
    pub cut_off: u64,
    /// Completion time.
    pub completion_ms: Spread,
    /// Size by completion time.
    pub goodput_mbps: Spread,
}

/// Mean, standard deviation and percentiles of a set of values; all zero when it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (of a sample: by n - 1).
    pub sd: f64,
    /// 5th percentile.
    pub p5: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl Spread {
    /// The figures of `values`.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_by(f64::total_cmp);
        let average = mean(values.iter().copied());
        let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
        let at = |level| round(quantile(&values, level));
        Self {
            mean: round(average),
            sd: round((squares / (values.len() as f64 - 1.0).max(1.0)).sqrt()),
            p5: at(0.05),
            p25: at(0.25),
            p50: at(0.50),
            p75: at(0.75),
            p95: at(0.95),
        }
    }
}

/// More digits would only pretend.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

impl TransferSummary {
    /// The transfers of `records` under the name `cc`; `None` where there are none.
    pub fn of<'a>(cc: &str, records: impl Iterator<Item = &'a Transfer>) -> Option<Self> {
        let mut summary = Self {
            cc: cc.to_owned(),
            count: 0,
            complete: 0,
            timeout: 0,
            cut_off: 0,
            completion_ms: Spread::default(),
            goodput_mbps: Spread::default(),
        };
        let (mut completion, mut goodput) = (Vec::new(), Vec::new());
        for record in records {
            summary.count += 1;
            match record.outcome {
                TransferOutcome::Complete => summary.complete += 1,
                TransferOutcome::Timeout => summary.timeout += 1,
                TransferOutcome::CutOff => summary.cut_off += 1,
            }
            completion.extend(record.completion_ms);
            goodput.extend(record.goodput_mbps);
        }
        summary.completion_ms = Spread::of(completion);
        summary.goodput_mbps = Spread::of(goodput);
        (summary.count > 0).then_some(summary)
    }

    /// A summary for each controller, in the order of their first transfers.
    pub fn per_cc(records: &[Transfer]) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        for record in records {
            if !names.contains(&record.cc.as_str()) {
                names.push(&record.cc);
            }
        }
        let of = |cc: &&str| Self::of(cc, records.iter().filter(|record| record.cc == *cc));
        names.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cc: &str, completion_ms: Option<f64>, outcome: TransferOutcome) -> Transfer {
        let goodput_mbps = completion_ms.map(|ms| 8e3 / ms);
        let begun = Transfer::begun(0, cc, 0, 1_000_000, 0.0);
        Transfer { completion_ms, goodput_mbps, outcome, ..begun }
    }

    #[test]
    fn what_was_cut_off_is_counted_and_in_no_figure() {
        let complete = |cc, ms| record(cc, Some(ms), TransferOutcome::Complete);
        let records = [
            complete("cubic", 1000.0),
            complete("bbr", 500.0),
            complete("cubic", 3000.0),
            record("cubic", None, TransferOutcome::CutOff),
            record("cubic", None, TransferOutcome::Timeout),
        ];
        let summaries = TransferSummary::per_cc(&records);
        let cubic = &summaries[0];
        let counts = (cubic.count, cubic.complete, cubic.timeout, cubic.cut_off);
        assert_eq!((cubic.cc.as_str(), counts), ("cubic", (4, 2, 1, 1)));
        assert_eq!(cubic.completion_ms.mean, 2000.0);
        assert_eq!(cubic.completion_ms.sd, 1_414.213_562);
        assert_eq!(summaries[1].goodput_mbps.p50, 16.0);
        assert_eq!(TransferSummary::of("copa", [].iter()), None);
    }
}
