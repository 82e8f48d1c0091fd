//! Windows and learnt profiles over time, for the series of a run.

use cellpace_base::{Span, Time};
use cellpace_measure::{InspectedSeries, MANY_FLOWS, ProfileSample};
use cellpace_path::OPPORTUNITY_BYTES;

use crate::ends::FlowSample;

/// What the sampler looks at.
pub(crate) trait SampledFlow {
    /// Shows the present connection, if there is one.
    fn look(&self, show: &mut dyn FnMut(FlowSample<'_>));
    /// Whether it sends.
    fn is_open(&self) -> bool;
}

/// Looks at the controllers at the end of each bin.
pub(crate) struct SeriesSampler {
    bin: Span,
    end: Time,
    pub(crate) next: Time,
    profile_every: Span,
    next_profile: Time,
    /// One of each flow, or none where there are too many flows.
    pub(crate) cwnd: Vec<Vec<f32>>,
    pub(crate) rto_ms: Vec<Vec<f32>>,
    pub(crate) inspected: Vec<InspectedSeries>,
    pub(crate) profiles: Vec<ProfileSample>,
}

impl SeriesSampler {
    /// Delay profiles shown per run.
    const PROFILES: u64 = 6;

    pub(crate) fn new(bin: Span, end: Time, flows: usize) -> Self {
        // A window for each flow and bin would be most of the memory of such a run.
        let shown = if flows > MANY_FLOWS { 0 } else { flows };
        let profile_every = (end - Time::ZERO) / (Self::PROFILES + 1);
        Self {
            bin,
            end,
            next: Time::ZERO + bin,
            profile_every,
            next_profile: Time::ZERO + profile_every,
            cwnd: vec![Vec::new(); shown],
            rto_ms: vec![Vec::new(); shown],
            inspected: Vec::new(),
            profiles: Vec::new(),
        }
    }

    /// The last bin may be shorter than the others; it ends with the run.
    pub(crate) fn finish(&mut self, flows: &[impl SampledFlow]) {
        if self.next > self.end && self.next < self.end + self.bin {
            self.take_windows(flows);
        }
    }

    fn take_windows(&mut self, flows: &[impl SampledFlow]) {
        for ((cwnds, rtos), flow) in self.cwnd.iter_mut().zip(&mut self.rto_ms).zip(flows) {
            // A bin without a connection has no value, which is not the same as zero.
            let (mut cwnd, mut rto_ms) = (f32::NAN, f32::NAN);
            if flow.is_open() {
                flow.look(&mut |sample| {
                    let packets = sample.controller.cwnd() as f64 / f64::from(OPPORTUNITY_BYTES);
                    (cwnd, rto_ms) = (packets as f32, sample.rto.as_millis_f64() as f32);
                });
            }
            cwnds.push(cwnd);
            rtos.push(rto_ms);
        }
        // Internal values of one flow only: they would be a chart each for every flow.
        if let [flow] = flows {
            self.inspect(flow);
        }
    }

    /// Adds a bin to each value of the only flow.
    fn inspect(&mut self, flow: &impl SampledFlow) {
        let bins = self.cwnd.first().map_or(0, Vec::len);
        flow.look(&mut |sample| {
            let mut at = 0;
            sample.controller.inspect(&mut |name, value| {
                // Controllers always show the same names in the same order. The first time comes
                // after the bins in which the flow was off.
                if at == self.inspected.len() {
                    let values = vec![f32::NAN; bins - 1];
                    self.inspected.push(InspectedSeries { name: name.to_owned(), values });
                }
                let series = &mut self.inspected[at];
                if series.name == name {
                    series.values.push(value as f32);
                    at += 1;
                }
            });
        });
        for series in &mut self.inspected {
            // A value that was not shown in this bin keeps its place in time.
            series.values.resize(bins, f32::NAN);
        }
    }

    pub(crate) fn take(&mut self, flows: &[impl SampledFlow]) {
        self.take_windows(flows);
        if self.next >= self.next_profile {
            self.next_profile += self.profile_every;
            let shown = &flows[..self.cwnd.len()];
            self.profiles.extend(shown.iter().enumerate().filter_map(|(index, flow)| {
                let mut profile = None;
                flow.look(&mut |sample| profile = sample.controller.profile());
                let profile = profile?;
                Some(ProfileSample {
                    at_s: self.next.as_secs_f64(),
                    flow: index,
                    points: profile.points,
                    curve: profile.curve,
                })
            }));
        }
        self.next += self.bin;
    }
}
