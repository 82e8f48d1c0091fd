//! Figures over time, for plots.

use cellpace_base::statistics::{mean, nearest_rank};
use cellpace_base::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize};

use crate::FlowEvents;

/// Runs with more flows than that keep less of each: percentiles of single flows are within 1 %
/// in place of 0.1 %, and no flow has figures over time. Those of all flows together stay exact.
/// Otherwise a flow would take ten times the memory of its connection.
pub const MANY_FLOWS: usize = 256;

/// Percentiles of the bands of [`Series::flow_bands_mbps`].
pub const BAND_LEVELS: [u8; 5] = [5, 25, 50, 75, 95];

/// One run over time, in equal bins from the start of the run. All vectors have one entry a bin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Width of a bin in seconds.
    pub bin_s: f64,
    /// What the link offered, in Mbit/s.
    #[serde(deserialize_with = "null_as_nan")]
    pub capacity_mbps: Vec<f32>,
    /// What left the link, in Mbit/s, all flows together.
    #[serde(deserialize_with = "null_as_nan")]
    pub throughput_mbps: Vec<f32>,
    /// The same for each flow. This and what else there is of each flow over time is left out where
    /// there are more than [`MANY_FLOWS`](crate::MANY_FLOWS).
    #[serde(deserialize_with = "nulls_as_nan")]
    pub flow_throughput_mbps: Vec<Vec<f32>>,
    /// Median queue delay of the packets that left, in ms; NaN where none did.
    #[serde(deserialize_with = "null_as_nan")]
    pub queue_delay_p50_ms: Vec<f32>,
    /// 95th percentile of the same.
    #[serde(deserialize_with = "null_as_nan")]
    pub queue_delay_p95_ms: Vec<f32>,
    /// Mean queue delay of each flow's packets, in ms, where there are several flows; NaN where none
    /// left.
    #[serde(default, deserialize_with = "nulls_as_nan", skip_serializing_if = "Vec::is_empty")]
    pub flow_queue_delay_mean_ms: Vec<Vec<f32>>,
    /// 95th percentile of the same.
    #[serde(default, deserialize_with = "nulls_as_nan", skip_serializing_if = "Vec::is_empty")]
    pub flow_queue_delay_p95_ms: Vec<Vec<f32>>,
    /// Where a document keeps no figures of single flows, the percentiles [`BAND_LEVELS`] of their
    /// throughputs, of those that are on, second by second; NaN where none is.
    #[serde(default, deserialize_with = "nulls_as_nan", skip_serializing_if = "Vec::is_empty")]
    pub flow_bands_mbps: Vec<Vec<f32>>,
    /// In these documents, Jain's index of the flows that are on; NaN where fewer than two are.
    #[serde(default, deserialize_with = "null_as_nan", skip_serializing_if = "Vec::is_empty")]
    pub flow_jain: Vec<f32>,
    /// Retransmission timeout of each flow at the end of the bin, in ms; NaN while it is off.
    #[serde(default, deserialize_with = "nulls_as_nan", skip_serializing_if = "Vec::is_empty")]
    pub rto_ms: Vec<Vec<f32>>,
    /// Distributions of delays over the part of the run that counts.
    #[serde(default, skip_serializing_if = "Quantiles::is_empty")]
    pub quantiles: Quantiles,
    /// Congestion window of each flow at the end of the bin, in packets; NaN while it is off.
    #[serde(deserialize_with = "nulls_as_nan")]
    pub cwnd_packets: Vec<Vec<f32>>,
    /// What the controller shows of itself at the end of each bin, where it has the link alone.
    #[serde(default)]
    pub inspected: Vec<InspectedSeries>,
    /// Width of the bins of `inspected` in seconds, where they are wider than `bin_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspected_bin_s: Option<f64>,
    /// Learnt delay profiles at several times, for controllers that have one.
    pub profiles: Vec<ProfileSample>,
    /// What happened to the flows and what their controllers decided, where there are at most 16
    /// flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<FlowEvents>,
}

/// Distributions of delays in ms, all flows together: the values below which 0, 0.5, ..., 100 % lie,
/// 201 of each; none where nothing was delivered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// From arrival at the queue to leaving the link.
    pub queue_delay_ms: Vec<f32>,
    /// Queue delay and the fixed delay of this direction.
    pub one_way_delay_ms: Vec<f32>,
    /// RTT as the senders saw it.
    pub rtt_ms_seen: Vec<f32>,
}

impl Quantiles {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One of the values that a controller shows of itself, over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InspectedSeries {
    /// Its name, whose end is its unit (`set_point_ms`).
    pub name: String,
    /// One value a bin; NaN while the flow is off.
    #[serde(deserialize_with = "null_as_nan")]
    pub values: Vec<f32>,
}

/// A learnt delay profile at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSample {
    /// When, in seconds from the start of the run.
    pub at_s: f64,
    /// The flow it belongs to.
    pub flow: usize,
    /// Measured points: window in packets, delay in ms.
    pub points: Vec<(f64, f64)>,
    /// The fitted curve in the same units.
    pub curve: Vec<(f64, f64)>,
}

/// JSON has no NaN; `null` stands for it.
fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let values = Vec::<Option<f32>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect())
}

/// The same for the series of several flows.
fn nulls_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<f32>>, D::Error> {
    let flows = Vec::<Vec<Option<f32>>>::deserialize(deserializer)?;
    let known = |values: Vec<Option<f32>>| {
        values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect()
    };
    Ok(flows.into_iter().map(known).collect())
}

/// Fills the bins of a [`Series`] from departures in the order of time.
#[derive(Debug)]
pub(crate) struct Binner {
    bin: Span,
    current: usize,
    /// Where the current bin begins and ends, so that most packets take no division.
    from: Time,
    to: Time,
    /// Of each flow, or of all together where there are too many.
    delays_us: Vec<Vec<u32>>,
    bytes: Vec<u64>,
    series: Series,
}

impl Binner {
    /// Bins of width `bin` up to `end` for `flows` flows.
    pub(crate) fn new(bin: Span, end: Time, flows: usize) -> Self {
        let bins = end.as_nanos().div_ceil(bin.as_nanos().max(1)) as usize;
        let (flows, groups) = if flows > MANY_FLOWS { (0, 1) } else { (flows, flows) };
        // One flow is the total.
        let several = vec![vec![f32::NAN; bins]; if flows > 1 { flows } else { 0 }];
        let series = Series {
            bin_s: bin.as_secs_f64(),
            throughput_mbps: vec![0.0; bins],
            flow_throughput_mbps: vec![vec![0.0; bins]; flows],
            queue_delay_p50_ms: vec![f32::NAN; bins],
            queue_delay_p95_ms: vec![f32::NAN; bins],
            flow_queue_delay_mean_ms: several.clone(),
            flow_queue_delay_p95_ms: several,
            ..Series::default()
        };
        let delays_us = vec![Vec::new(); groups];
        let (from, to) = (Time::ZERO, Time::ZERO + bin);
        Self { bin, current: 0, from, to, delays_us, bytes: vec![0; groups], series }
    }

    /// A packet of `flow` left the link at `at`.
    #[inline]
    pub(crate) fn departure(&mut self, at: Time, flow: usize, bytes: u32, queue_delay: Span) {
        // A bin includes its end, as for the link's capacity.
        if at <= self.from || at > self.to {
            self.enter_bin(at);
        }
        let flow = if self.series.flow_throughput_mbps.is_empty() { 0 } else { flow };
        self.bytes[flow] += u64::from(bytes);
        self.delays_us[flow]
            .push(u32::try_from(queue_delay.as_nanos() / 1_000).unwrap_or(u32::MAX));
    }

    pub(crate) fn finish(mut self) -> Series {
        self.close_bin();
        self.series
    }

    fn enter_bin(&mut self, at: Time) {
        let bin = at.as_nanos().saturating_sub(1) / self.bin.as_nanos().max(1);
        if bin as usize == self.current {
            return;
        }
        self.close_bin();
        self.current = bin as usize;
        self.from = Time::ZERO + self.bin * bin;
        self.to = self.from + self.bin;
    }

    fn close_bin(&mut self) {
        let bin = self.current;
        if bin < self.series.throughput_mbps.len() {
            let to_mbps = 8.0 / 1e6 / self.bin.as_secs_f64();
            let total: u64 = self.bytes.iter().sum();
            self.series.throughput_mbps[bin] = (total as f64 * to_mbps) as f32;
            for (series, bytes) in self.series.flow_throughput_mbps.iter_mut().zip(&self.bytes) {
                series[bin] = (*bytes as f64 * to_mbps) as f32;
            }
            self.close_delays(bin);
        }
        self.bytes.fill(0);
        self.delays_us.iter_mut().for_each(Vec::clear);
    }
}

impl Binner {
    fn close_delays(&mut self, bin: usize) {
        let Some((first, others)) = self.delays_us.split_first_mut() else { return };
        if !others.is_empty() {
            for (flow, delays) in std::iter::once(&mut *first).chain(&mut *others).enumerate() {
                let micros = mean(delays.iter().map(|micros| f64::from(*micros)));
                self.series.flow_queue_delay_mean_ms[flow][bin] = (micros / 1e3) as f32;
                self.series.flow_queue_delay_p95_ms[flow][bin] = percentile_ms(delays, 0.95);
            }
            others.iter().for_each(|delays| first.extend_from_slice(delays));
        }
        self.series.queue_delay_p50_ms[bin] = percentile_ms(first, 0.50);
        self.series.queue_delay_p95_ms[bin] = percentile_ms(first, 0.95);
    }
}

/// The nearest-rank percentile of delays in microseconds, in ms; NaN when there are none.
fn percentile_ms(delays_us: &mut [u32], quantile: f64) -> f32 {
    nearest_rank(delays_us, quantile).map_or(f32::NAN, |value| value as f32 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_fall_into_their_bins() {
        let mut binner = Binner::new(Span::from_millis(100), Time::from_millis(300), 2);
        for ms in 0..10 {
            binner.departure(Time::from_millis(ms), 0, 1500, Span::from_millis(ms));
        }
        binner.departure(Time::from_millis(250), 1, 1250, Span::from_millis(7));
        let series = binner.finish();
        assert_eq!(series.throughput_mbps, [1.2, 0.0, 0.1]);
        assert_eq!(series.flow_throughput_mbps[1], [0.0, 0.0, 0.1]);
        assert_eq!(series.queue_delay_p50_ms[0], 4.0);
        assert_eq!(series.queue_delay_p95_ms[0], 9.0);
        assert!(series.queue_delay_p50_ms[1].is_nan());
        assert_eq!(series.queue_delay_p50_ms[2], 7.0);
        assert_eq!(series.flow_queue_delay_mean_ms[0][0], 4.5);
        assert_eq!(series.flow_queue_delay_p95_ms[0][0], 9.0);
        assert!(series.flow_queue_delay_mean_ms[1][0].is_nan());
        assert_eq!(series.flow_queue_delay_p95_ms[1][2], 7.0);
    }

    #[test]
    fn a_bin_includes_its_end_and_the_last_may_be_short() {
        let mut binner = Binner::new(Span::from_millis(100), Time::from_millis(250), 1);
        for ms in [100, 101, 200, 250] {
            binner.departure(Time::from_millis(ms), 0, 1250, Span::from_millis(ms));
        }
        // After the end of the run: in no bin.
        binner.departure(Time::from_millis(301), 0, 1250, Span::ZERO);
        let series = binner.finish();
        assert_eq!(series.throughput_mbps, [0.1, 0.2, 0.1]);
        assert_eq!(series.queue_delay_p95_ms, [100.0, 200.0, 250.0]);
    }
}
