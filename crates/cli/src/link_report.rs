//! What `cellpace link` prints and writes at the end.

use std::collections::BTreeMap;
use std::path::Path;

use cellpace_base::{Span, Time};
use cellpace_emu::{LinkOutcome, LinkTally};
use cellpace_measure::Series;
use cellpace_path::schedule::capacity_between;
use cellpace_path::{PathSpec, Schedule};
use cellpace_report::{Comparison, RealTime, RealTimeDirection, Run, short};

use crate::error::CommandError;
use crate::link_watch::LinkWatch;
use crate::options::Verbosity;
use crate::output::{command_line, write};
use crate::path_options::Directions;
use crate::report::write_report;

/// What is printed and written at the end.
pub(crate) struct LinkReport<'a> {
    /// The program's.
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// The trace towards the program, as shown.
    pub(crate) trace: String,
    pub(crate) directions: &'a Directions,
    pub(crate) ended: &'a LinkOutcome<LinkWatch>,
}

/// One of the two directions.
struct LinkLane<'a> {
    which: usize,
    /// As it was at the start.
    path: &'a PathSpec,
    tally: &'a LinkTally,
}

impl LinkReport<'_> {
    fn lanes(&self) -> [LinkLane<'_>; 2] {
        let (link, watch) = (&self.directions.link, &self.ended.observer);
        [
            LinkLane { which: 0, path: &link.down, tally: &watch.down },
            LinkLane { which: 1, path: &link.up, tally: &watch.up },
        ]
    }

    /// Prints how exact the link was, and what went wrong.
    pub(crate) fn print_summary(&self, verbosity: Verbosity) {
        verbosity.note(&self.line());
        let lost = self.ended.lost;
        if lost.packets() > 0 {
            verbosity.note(&format!(
                "warning: {} packets were lost by the devices, not by the model; the machine is too \
                 slow or too busy for this link",
                lost.packets()
            ));
        }
        if lost.unseen > 0 {
            verbosity.note(&format!(
                "warning: {} packets are missing from figures and logs, which were too slow",
                lost.unseen
            ));
        }
        for (lane, direction) in self.lanes().iter().zip(["down", "up"]) {
            self.print_flows(verbosity, direction, lane);
        }
    }

    fn print_flows(&self, verbosity: Verbosity, direction: &str, lane: &LinkLane<'_>) {
        let skip = Time::ZERO + self.directions.skip;
        for flow in &lane.tally.finish(self.end(), self.capacity(lane, skip)).per_flow {
            verbosity.detail(|| {
                let (rate, delay) = (short(flow.throughput_mbps), short(flow.queue_delay_ms.p95));
                format!(
                    "flow {direction} from {:.3} s to {:.3} s: {rate} Mbit/s, queue delay p95 {delay} ms, \
                     {} packets dropped",
                    flow.start_s, flow.stop_s, flow.lost
                )
            });
        }
    }

    /// One line: how exact it was.
    fn line(&self) -> String {
        let ended = self.ended;
        let late = |quantile| short(ended.lateness.quantile_ms(quantile) * 1e3);
        let [down, up] = self.lanes();
        let mut rates = self.rates("down", &down);
        if self.offers(&up).iter().any(LinkOffer::has_limit) {
            rates += &format!(", {}", self.rates("up", &up));
        }
        format!(
            "link: late p50 {} p99 {} max {} us{}; {rates}; dropped {} by the model, {} by devices",
            late(0.5),
            late(0.99),
            late(1.0),
            if ended.realtime { "" } else { " (no real-time priority)" },
            down.tally.totals().lost + up.tally.totals().lost,
            ended.lost.packets(),
        )
    }

    /// What was asked of a direction and what was reached, over the whole run.
    fn rates(&self, name: &str, lane: &LinkLane<'_>) -> String {
        match self.mbps(lane) {
            (None, reached) => format!("{name} {} Mbit/s of unlimited", short(reached)),
            (Some(asked), reached) => {
                format!("{name} {} of {} Mbit/s asked", short(reached), short(asked))
            }
        }
    }

    /// The same in Mbit/s; `None` was asked of a direction without a limit.
    fn mbps(&self, lane: &LinkLane<'_>) -> (Option<f64>, f64) {
        let seconds = self.ended.duration.as_secs_f64().max(1e-9);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
        // Where a limit was set later on, the whole has none either.
        let has_limit = lane.path.trace.is_some();
        let asked = has_limit.then(|| mbps(self.capacity(lane, Time::ZERO)));
        (asked, mbps(lane.tally.totals().bytes))
    }

    fn end(&self) -> Time {
        Time::ZERO + self.ended.duration
    }

    /// The paths of a direction, each with the time for which it was used.
    fn offers<'a>(&'a self, lane: &LinkLane<'a>) -> Vec<LinkOffer<'a>> {
        let changes = self.ended.observer.changes.iter();
        let later =
            changes.map(|change| (change.at, [&change.link.down, &change.link.up][lane.which]));
        let all: Vec<(Time, &PathSpec)> =
            [(Time::ZERO, lane.path)].into_iter().chain(later).collect();
        let ends = all[1..].iter().map(|(at, _)| *at).chain([self.end()]);
        let is_reverse = lane.which == 1;
        all.iter()
            .zip(ends)
            .map(|(&(from, path), to)| LinkOffer { from, to, path, is_reverse })
            .collect()
    }

    /// Bytes that a direction offered from `from` to the end; 0 where it had no limit for a while.
    fn capacity(&self, lane: &LinkLane<'_>, from: Time) -> u64 {
        let offers = self.offers(lane);
        if !offers.iter().all(LinkOffer::has_limit) {
            return 0;
        }
        let offers = offers.into_iter();
        offers.map(|offer| offer.bytes(self.seed, &mut [(from, self.end())].into_iter())).sum()
    }

    /// Writes the files that are wanted.
    pub(crate) fn write(
        &self,
        json: Option<&Path>,
        report: Option<&Path>,
    ) -> Result<(), CommandError> {
        if json.is_none() && report.is_none() {
            return Ok(());
        }
        let [down, up] = self.lanes();
        let mut runs = vec![self.run(&self.trace, &down, "")];
        if let Some(uplink) = &up.path.trace {
            let trace = cellpace_lab::shown_name(&uplink.to_string());
            runs.push(self.run(&trace, &up, " (uplink)"));
        }
        let comparison = Comparison { command: command_line(), ..Comparison::of(runs) };
        let document = cellpace_report::to_json(&comparison);
        if let Some(file) = json {
            write(file, &document)?;
        }
        report.map_or(Ok(()), |file| write_report(file, &[&document]))
    }

    fn run(&self, trace: &str, lane: &LinkLane<'_>, which: &str) -> Run {
        let skip = Time::ZERO + self.directions.skip;
        let figures = lane.tally.finish(self.end(), self.capacity(lane, skip));
        Run {
            cc: format!("{}{which}", self.name),
            trace: format!("{trace}{}", self.changes_text()),
            seed: self.seed,
            rtt_ms: self.directions.rtt().as_millis_f64(),
            queue: lane.path.queue.to_string(),
            loss: lane.path.loss.mean_until(self.ended.duration),
            flows: figures.per_flow.len(),
            duration_s: self.ended.duration.as_secs_f64(),
            skip_s: self.directions.skip.as_secs_f64(),
            path: BTreeMap::new(),
            figures,
            wall_s: Some(self.ended.duration.as_secs_f64()),
            series: Some(self.series(lane)),
            transfers: Vec::new(),
            transfer_summary: Vec::new(),
            real_time: Some(self.real_time(lane)),
        }
    }

    fn real_time(&self, lane: &LinkLane<'_>) -> RealTime {
        let late = |quantile| self.ended.lateness.quantile_ms(quantile) * 1e3;
        let (asked, reached) = self.mbps(lane);
        RealTime {
            direction: if lane.which == 0 {
                RealTimeDirection::Down
            } else {
                RealTimeDirection::Up
            },
            late_p50_us: late(0.5),
            late_p99_us: late(0.99),
            late_max_us: late(1.0),
            asked_mbps: asked,
            reached_mbps: reached,
            lost_by_devices: self.ended.lost.packets(),
            has_priority: self.ended.realtime,
        }
    }

    /// The changes of a running link, for the name of its trace.
    fn changes_text(&self) -> String {
        let changes = self.ended.observer.changes.iter();
        let text = |change: &cellpace_emu::LinkChange| {
            let at = (change.at - Time::ZERO).as_secs_f64();
            format!(", from {at:.2}s {}", change.settings.join(" "))
        };
        changes.map(text).collect()
    }

    fn series(&self, lane: &LinkLane<'_>) -> Series {
        let mut series = lane.tally.series(self.end());
        let bin = Span::from_secs_f64(series.bin_s);
        let bins = series.throughput_mbps.len() as u64;
        let times = (0..bins).map(|n| (Time::ZERO + bin * n, Time::ZERO + bin * (n + 1)));
        series.capacity_mbps = vec![0.0; bins as usize];
        for offer in self.offers(lane) {
            let bytes = offer.bytes_each(self.seed, &mut times.clone());
            for (sum, bytes) in series.capacity_mbps.iter_mut().zip(bytes) {
                *sum += (bytes as f64 * 8.0 / 1e6 / series.bin_s) as f32;
            }
        }
        series
    }
}

/// A path, and the time for which it was used.
struct LinkOffer<'a> {
    from: Time,
    to: Time,
    path: &'a PathSpec,
    /// It is that from the program: its randomness has another seed.
    is_reverse: bool,
}

impl LinkOffer<'_> {
    fn has_limit(&self) -> bool {
        self.path.trace.is_some()
    }

    /// The opportunities that drove the link.
    fn schedule(&self, seed: u64) -> Option<Box<dyn Schedule>> {
        let schedule = match self.is_reverse {
            true => self.path.schedule_reverse(seed),
            false => self.path.schedule(seed),
        };
        // It was built once already, for the run.
        schedule.ok().flatten()
    }

    /// Bytes that it offered between two times each, which must be in order.
    fn bytes_each(&self, seed: u64, times: &mut dyn Iterator<Item = (Time, Time)>) -> Vec<u64> {
        let Some(mut schedule) = self.schedule(seed) else { return Vec::new() };
        let between = |(from, to): (Time, Time)| {
            let (from, to) = (from.max(self.from), to.min(self.to));
            if from < to { capacity_between(schedule.as_mut(), from, to) } else { 0 }
        };
        times.map(between).collect()
    }

    fn bytes(&self, seed: u64, times: &mut dyn Iterator<Item = (Time, Time)>) -> u64 {
        self.bytes_each(seed, times).into_iter().sum()
    }
}
