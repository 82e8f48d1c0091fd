//! A drive through a radio layer.

use std::collections::VecDeque;
use std::sync::Arc;

use cellpace_base::{Random, Rate, Span, Time};

use super::harq::{Harq, Repetition};
use super::mobility::{EventA3, LinkMonitor, MEASUREMENT_MS, filter_weight};
use super::params::{HandoverBuffer, RadioParams, RadioSpec};
use super::propagation::{
    Fading, Shadow, decibels, doppler, fading_correlation, path_loss, ratio, shadow_correlation,
};
use super::rate::{CqiTable, share_of_peak};
use super::sample::{DriveSummary, RadioEvent, RadioSample, STEP};
use crate::OPPORTUNITY_BYTES;
use crate::handover::Handover;
use crate::profile::normal::Normal;
use crate::schedule::{MAX_OPPORTUNITIES, Trace};
use cellpace_base::math::exp;

/// The streams of draws, one per random part; those of cells follow the last. Far from those of
/// paths and flows.
const STREAMS: u64 = 1 << 40;
const START_STREAM: u64 = STREAMS;
const FADING_STREAM: u64 = STREAMS + 1;
const USERS_STREAM: u64 = STREAMS + 2;
const HANDOVER_STREAM: u64 = STREAMS + 3;
const SHARED_SHADOW_STREAM: u64 = STREAMS + 4;
const CELL_STREAMS: u64 = STREAMS + 16;

/// Cells on either side whose signals are computed.
const CELLS_AHEAD: i64 = 3;

/// Milliseconds of a step.
const STEP_MS: u64 = STEP.as_nanos() / 1_000_000;

/// What one seed makes of a radio layer: opportunities, handovers, and the series behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    trace: Arc<Trace>,
    samples: Vec<RadioSample>,
    events: Vec<RadioEvent>,
    handovers: Vec<Handover>,
    length: Span,
    mean_rate: Rate,
}

impl Drive {
    /// Draws `length` of a drive, rounded to whole steps of 10 ms and at least one. Of two lengths
    /// with the same seed one begins as the other. It ends earlier where a trace can have no more
    /// opportunities.
    pub fn generate(spec: &RadioSpec, seed: u64, length: Span) -> Self {
        let steps = (length.as_nanos() / STEP.as_nanos()).max(1);
        let mut road = Road::new(spec.params(), seed);
        // A step must not pass the bound in its middle: a million are far more than 10 ms can
        // offer.
        while road.now_ms < steps * STEP_MS && road.millis.len() < MAX_OPPORTUNITIES - 1_000_000 {
            road.step();
        }
        road.finish()
    }

    /// The delivery opportunities. Its period is the length of the drive.
    pub const fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// What the radio was like, every 10 ms from time zero.
    pub fn samples(&self) -> &[RadioSample] {
        &self.samples
    }

    /// Handovers and failures, in the order of time.
    pub fn events(&self) -> &[RadioEvent] {
        &self.events
    }

    /// Mean rate over the length that the radio layer has by itself, or all of the drive if that is shorter.
    pub const fn mean_rate(&self) -> Rate {
        self.mean_rate
    }

    /// Length of the drive; after it everything repeats.
    pub const fn length(&self) -> Span {
        self.length
    }

    /// What the handovers and failures that begin before `until` are to a path, lap after lap.
    pub fn handovers(&self, until: Time) -> Vec<Handover> {
        let mut handovers = Vec::new();
        let mut lap = Span::ZERO;
        while !self.handovers.is_empty() && Time::ZERO + lap < until {
            let shifted = self.handovers.iter().map(|h| Handover { at: h.at + lap, ..*h });
            handovers.extend(shifted.take_while(|handover| handover.at < until));
            lap += self.length;
        }
        handovers
    }

    /// What the radio was like between two times of the first lap; `None` where nothing of it lies
    /// between them.
    pub fn summary(&self, from: Time, to: Time) -> Option<DriveSummary> {
        let index = |time: Time| (time.as_nanos() / STEP.as_nanos()) as usize;
        let (first, last) = (index(from), index(to).min(self.samples.len().saturating_sub(1)));
        let samples = self.samples.get(first..=last)?;
        let events = self.events.iter().filter(|event| event.start >= from && event.start < to);
        DriveSummary::of(samples.iter(), events)
    }
}

/// A cell near the phone.
#[derive(Debug)]
struct MeasuredCell {
    number: i64,
    shadow: Shadow,
    /// Received power in dBm over the whole band, without fading.
    power: f64,
    /// The filtered measurement.
    filtered: Option<f64>,
}

/// Whether the phone is served.
#[derive(Debug, Clone, Copy)]
enum Service {
    Connected,
    /// A neighbour was reported; the interruption begins at this time.
    Preparing {
        target: i64,
        start_ms: u64,
    },
    /// Until the time of its end; a failure ends in the strongest cell.
    Interrupted {
        until_ms: u64,
        is_failure: bool,
    },
}

/// The drive as it is drawn.
struct Road<'a> {
    params: &'a RadioParams,
    seed: u64,
    now_ms: u64,
    position: f64,
    cells: VecDeque<MeasuredCell>,
    shared_shadow: Shadow,
    shadow_rho: f64,
    serving: i64,
    service: Service,
    a3: EventA3,
    monitor: LinkMonitor,
    fading: Fading,
    harq: Harq,
    table: CqiTable,
    /// SINRs of the last milliseconds, the oldest first: what reports of CQI say.
    reported: VecDeque<f64>,
    margin: f64,
    noise_mw: f64,
    /// From the power of the band to that of one subcarrier, in dB.
    per_subcarrier: f64,
    users: Users,
    handover_random: Random,
    /// Bytes that were delivered and do not make an opportunity yet.
    left_over: f64,
    millis: Vec<u32>,
    samples: Vec<RadioSample>,
    events: Vec<RadioEvent>,
    handovers: Vec<Handover>,
}

impl<'a> Road<'a> {
    fn new(params: &'a RadioParams, seed: u64) -> Self {
        let start = Random::seeded(seed, START_STREAM).unit() * params.spacing;
        let per_ms = fading_correlation(doppler(params.speed, params.frequency), 0.001);
        let millis = |span: Span| span.as_nanos() / 1_000_000;
        let mut road = Self {
            params,
            seed,
            now_ms: 0,
            position: start,
            cells: VecDeque::new(),
            shared_shadow: Shadow::new(Random::seeded(seed, SHARED_SHADOW_STREAM)),
            shadow_rho: shadow_correlation(
                params.speed * STEP.as_secs_f64(),
                params.shadow_distance,
            ),
            serving: 0,
            service: Service::Connected,
            a3: EventA3::new(params.hysteresis, millis(params.time_to_trigger)),
            monitor: LinkMonitor::new(params.out_of_sync, params.in_sync, millis(params.t310)),
            fading: Fading::new(params.diversity, per_ms, Random::seeded(seed, FADING_STREAM)),
            harq: Harq::new(Repetition {
                rtt_ms: millis(params.harq_rtt),
                retries: params.harq_retries,
                rlc_ms: millis(params.rlc_delay),
            }),
            table: CqiTable::new(params.ber),
            reported: VecDeque::new(),
            margin: ratio(-params.backoff),
            // Thermal noise: -174 dBm/Hz.
            noise_mw: ratio(-174.0 + decibels(params.bandwidth * 1e6) + params.noise_figure),
            // Subcarriers of 15 kHz.
            per_subcarrier: -decibels(params.bandwidth * 1e6 / 15e3),
            users: Users::new(params, Random::seeded(seed, USERS_STREAM)),
            handover_random: Random::seeded(seed, HANDOVER_STREAM),
            left_over: 0.0,
            millis: Vec::new(),
            samples: Vec::new(),
            events: Vec::new(),
            handovers: Vec::new(),
        };
        road.update_cells();
        road.serving = road.strongest();
        road
    }

    /// One step of 10 ms.
    fn step(&mut self) {
        self.update_cells();
        self.measure();
        let mean_sinr = self.mean_sinr();
        self.watch(decibels(mean_sinr));
        let (mut sinrs, mut bytes, mut cqi) = (0.0, 0.0, 0);
        // The serving cell, and so the mean SINR, changes at most once in a step.
        let mut mean = mean_sinr;
        for _ in 0..STEP_MS {
            if self.change_service() {
                mean = self.mean_sinr();
            }
            self.fading.advance();
            let sinr = mean * self.fading.power();
            sinrs += sinr;
            let (delivered, sent) = self.transmit(sinr);
            bytes += delivered;
            cqi = sent.unwrap_or(cqi);
            self.now_ms += 1;
            self.offer(delivered);
        }
        self.samples.push(RadioSample {
            position_m: self.position as f32,
            cell: self.serving as i32,
            rsrp_dbm: (self.power(self.serving) + self.per_subcarrier) as f32,
            sinr_db: decibels(sinrs / STEP_MS as f64) as f32,
            bytes: bytes as u32,
            cqi,
            users: self.users.number.min(255) as u8,
        });
        self.position += self.params.speed * STEP.as_secs_f64();
        self.shared_shadow.advance(self.shadow_rho);
        for cell in &mut self.cells {
            cell.shadow.advance(self.shadow_rho);
        }
        self.users.advance();
    }

    /// Takes in cells that come near, leaves out those far behind, and computes their powers.
    fn update_cells(&mut self) {
        let here = (self.position / self.params.spacing) as i64;
        let behind = here - CELLS_AHEAD;
        // The serving cell stays in the list, however late the handover comes.
        while self.cells.front().is_some_and(|cell| cell.number < behind.min(self.serving)) {
            self.cells.pop_front();
        }
        let next = self.cells.back().map_or(behind, |cell| cell.number + 1);
        for number in next..=here + CELLS_AHEAD + 1 {
            // By the cell's number, so that a cell has the same shadowing whenever it comes near.
            let stream = CELL_STREAMS.wrapping_add_signed(number + CELLS_AHEAD);
            let shadow = Shadow::new(Random::seeded(self.seed, stream));
            self.cells.push_back(MeasuredCell { number, shadow, power: 0.0, filtered: None });
        }
        let p = self.params;
        let shared = p.shadow_shared.sqrt() * self.shared_shadow.value();
        // The squares of both weights add up to 1, so that shadowing keeps its deviation.
        let own = (1.0 - p.shadow_shared).sqrt();
        for cell in &mut self.cells {
            let along = self.position - cell.number as f64 * p.spacing;
            let distance = (along * along + p.offset * p.offset).sqrt().max(p.min_distance);
            let shadow = p.shadow * (shared + own * cell.shadow.value());
            let loss = path_loss(p.path_loss, p.path_slope, distance);
            cell.power = p.eirp - p.car_loss - loss + shadow;
        }
    }

    fn power(&self, number: i64) -> f64 {
        let cell = self.cells.iter().find(|cell| cell.number == number);
        cell.map_or(f64::NEG_INFINITY, |cell| cell.power)
    }

    fn strongest(&self) -> i64 {
        let cell = self.cells.iter().max_by(|a, b| a.power.total_cmp(&b.power));
        cell.map_or(0, |cell| cell.number)
    }

    /// SINR of the serving cell as a ratio, without fading.
    fn mean_sinr(&self) -> f64 {
        // All other cells send in the same band, each for the share `load` of the time.
        let others = self.cells.iter().filter(|cell| cell.number != self.serving);
        let interference: f64 = others.map(|cell| ratio(cell.power)).sum();
        ratio(self.power(self.serving)) / (self.noise_mw + self.params.load * interference)
    }

    /// Filters the measurements of RSRP (3GPP TS 36.331, section 5.5.3.2).
    fn measure(&mut self) {
        // Without a filter (k = 0) each sample counts as it is.
        let due = self.now_ms.is_multiple_of(MEASUREMENT_MS) || self.params.filter_k == 0;
        let weight = filter_weight(self.params.filter_k);
        for cell in &mut self.cells {
            cell.filtered = match cell.filtered {
                None => Some(cell.power),
                Some(old) if due => Some((1.0 - weight) * old + weight * cell.power),
                old => old,
            };
        }
    }

    /// Looks whether the link has failed or a neighbour is to be reported.
    fn watch(&mut self, sinr_db: f64) {
        if matches!(self.service, Service::Interrupted { .. }) {
            return;
        }
        // Before A3: a link that has failed reports no neighbour any more.
        if self.monitor.update(self.now_ms, sinr_db) {
            self.fail();
            return;
        }
        if !matches!(self.service, Service::Connected) {
            return;
        }
        let filtered = |cell: &MeasuredCell| (cell.number, cell.filtered.unwrap_or(cell.power));
        let serving = self.cells.iter().map(filtered).find(|(number, _)| *number == self.serving);
        let Some((_, serving_rsrp)) = serving else { return };
        let neighbours = self.cells.iter().map(filtered).filter(|(n, _)| *n != self.serving);
        let times = (self.now_ms, self.now_ms + STEP_MS);
        if let Some((target, at)) = self.a3.update(times, serving_rsrp, neighbours) {
            let start_ms = at + self.params.preparation.as_nanos() / 1_000_000;
            self.service = Service::Preparing { target, start_ms };
        }
    }

    /// Begins and ends interruptions. Returns whether the serving cell is another one.
    fn change_service(&mut self) -> bool {
        match self.service {
            Service::Preparing { target, start_ms } if start_ms <= self.now_ms => {
                let length = interruption(self.params, &mut self.handover_random);
                let lost = self.params.buffer == HandoverBuffer::Lose;
                self.interrupt(length, target, lost, false);
                true
            }
            Service::Interrupted { until_ms, is_failure } if until_ms <= self.now_ms => {
                self.service = Service::Connected;
                if !is_failure {
                    return false;
                }
                let strongest = self.strongest();
                if let Some(event) = self.events.last_mut() {
                    event.to = strongest as i32;
                }
                self.enter(strongest);
                true
            }
            _ => false,
        }
    }

    fn fail(&mut self) {
        let (min, max) = (self.params.outage_min, self.params.outage_max);
        let outage = min + (max - min).mul_f64(self.handover_random.unit());
        self.interrupt(outage, self.serving, true, true);
    }

    /// The link is interrupted from now on.
    fn interrupt(&mut self, length: Span, target: i64, queue_lost: bool, is_failure: bool) {
        // Whole milliseconds, in which the drive is simulated and traces are written.
        let length = Span::from_millis(length.as_nanos() / 1_000_000);
        let start = Time::from_millis(self.now_ms);
        let end = start + length;
        let from = self.serving as i32;
        self.events.push(RadioEvent { start, end, from, to: target as i32, is_failure });
        let signal = self.params.signal;
        self.handovers.push(Handover { length, queue_lost, signal, ..Handover::at(start) });
        // What has arrived out of order is handed up as the link is left.
        let bytes = self.harq.reset(self.now_ms);
        self.offer(bytes);
        self.enter(target);
        let until_ms = end.as_nanos() / 1_000_000;
        self.service = Service::Interrupted { until_ms, is_failure };
    }

    fn enter(&mut self, cell: i64) {
        self.serving = cell;
        self.a3.reset();
        self.monitor.reset();
        self.users.meet_others();
    }

    /// One millisecond of the link. Returns the bytes delivered and the CQI of a new block.
    fn transmit(&mut self, sinr: f64) -> (f64, Option<u8>) {
        let delay = (self.params.cqi_delay.as_nanos() / 1_000_000) as usize;
        self.reported.push_back(sinr);
        let reported = match self.reported.len() > delay {
            true => self.reported.pop_front().unwrap_or(sinr),
            false => *self.reported.front().unwrap_or(&sinr),
        };
        if matches!(self.service, Service::Interrupted { .. }) {
            // Nothing is sent, but the SINR was noted above: reports go on with the new cell.
            return (0.0, Some(0));
        }
        // A repetition takes the millisecond that a new block would have had.
        if self.harq.is_taken(self.now_ms) {
            self.harq.repeat(self.now_ms, sinr, &self.table);
            return (self.harq.deliver(self.now_ms), None);
        }
        // The base station knows only what was reported `cqi_delay` ago, and keeps a margin.
        let cqi = self.table.cqi(reported * self.margin);
        if cqi > 0 {
            let share = 1.0 / (1.0 + self.users.number as f64);
            let rate = self.params.peak.as_bps() as f64 * share_of_peak(cqi) * share;
            self.harq.send(self.now_ms, rate / 8.0 / 1000.0, cqi, sinr, &self.table);
        }
        (self.harq.deliver(self.now_ms), Some(cqi))
    }

    /// Makes opportunities of bytes that are delivered by now.
    fn offer(&mut self, bytes: f64) {
        self.left_over += bytes;
        while self.left_over >= f64::from(OPPORTUNITY_BYTES) {
            self.left_over -= f64::from(OPPORTUNITY_BYTES);
            self.millis.push(self.now_ms as u32);
        }
    }

    fn finish(mut self) -> Drive {
        let end = self.now_ms as u32;
        // The last line of a trace sets its period.
        if self.millis.last() != Some(&end) {
            self.millis.push(end);
        }
        // Before the opportunities move into the trace.
        let mean_rate = self.mean_rate();
        let trace = Trace::from_millis(self.millis);
        Drive {
            trace: Arc::new(trace.expect("times increase up to the end, which is not 0")),
            samples: self.samples,
            events: self.events,
            handovers: self.handovers,
            length: Span::from_millis(u64::from(end)),
            mean_rate,
        }
    }

    fn mean_rate(&self) -> Rate {
        let length = self.params.length.min(Span::from_millis(self.now_ms));
        let end_ms = length.as_nanos() / 1_000_000;
        let opportunities = self.millis.partition_point(|ms| u64::from(*ms) <= end_ms) as f64;
        let bytes = opportunities * f64::from(OPPORTUNITY_BYTES);
        Rate::from_bytes_per_sec(bytes / length.as_secs_f64())
    }
}

/// How long a handover interrupts the link: normally distributed, bounded below. Data that is
/// forwarded is in front of everything else, so the link waits for it, too.
fn interruption(params: &RadioParams, random: &mut Random) -> Span {
    let mean = params.interruption.as_millis_f64();
    let drawn = mean + params.interruption_sd.as_millis_f64() * Normal::default().draw(random);
    let least = params.interruption_min.as_millis_f64().min(mean);
    let forwarding = match params.buffer {
        HandoverBuffer::Forward if mean > 0.0 => params.forward_delay,
        _ => Span::ZERO,
    };
    Span::from_millis_f64(drawn.max(least).round()) + forwarding
}

/// The other users of the cell: they come at random and stay an exponential time (M/M/infinity, whose
/// number is Poisson-distributed).
struct Users {
    number: u64,
    mean: f64,
    /// Probability that one leaves within a step.
    leave: f64,
    random: Random,
}

impl Users {
    fn new(params: &RadioParams, random: Random) -> Self {
        let leave = STEP.as_secs_f64() / params.stay.as_secs_f64();
        let mut users = Self { number: 0, mean: params.users, leave, random };
        // Drawn from the long run: a drive does not begin in an empty cell.
        users.meet_others();
        users
    }

    /// Draws the number anew: another cell has other users.
    fn meet_others(&mut self) {
        // Knuth's method: the mean is at most 100.
        let limit = exp(-self.mean);
        let (mut product, mut number) = (self.random.unit(), 0);
        while product > limit {
            product *= self.random.unit();
            number += 1;
        }
        self.number = number;
    }

    /// One step of 10 ms.
    fn advance(&mut self) {
        // All rates together are far below one per step; two events at once are left out.
        let draw = self.random.unit();
        let arrive = self.mean * self.leave;
        if draw < arrive {
            self.number += 1;
        } else if draw < arrive + self.number as f64 * self.leave {
            self.number -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::rate::Modulation;

    fn drive(text: &str, seed: u64, seconds: u64) -> Drive {
        Drive::generate(&RadioSpec::parse(text).unwrap(), seed, Span::from_secs(seconds))
    }

    /// The mean SINR in dB at `metres` from the cell at the start of the road.
    fn sinr_at(metres: f64) -> f64 {
        let text = "highway-700,shadow=0,diversity=0,spacing=2400";
        let spec = RadioSpec::parse(text).unwrap();
        let mut road = Road::new(spec.params(), 1);
        road.position = metres;
        road.update_cells();
        road.serving = 0;
        decibels(road.mean_sinr())
    }

    #[test]
    fn radio_g4_sinr_without_shadow_and_fading() {
        for (metres, sinr) in [(300.0, 29.1), (600.0, 18.0), (900.0, 10.0), (1200.0, 2.8)] {
            assert!((sinr_at(metres) - sinr).abs() <= 0.3, "{metres}: {}", sinr_at(metres));
        }
    }

    #[test]
    fn radio_g4_handover_after_preparation() {
        // Without anything random the interruption begins 50 ms after the report and lasts 50 ms.
        let text = "highway-700,spacing=1200,shadow=0,diversity=0,filter_k=0,interruption_sd=0ms,buffer=keep";
        let drive = drive(text, 1, 200);
        assert!(drive.events().len() >= 4);
        for event in drive.events() {
            assert!(!event.is_failure);
            assert_eq!(event.end - event.start, Span::from_millis(50));
            // Signals are equal in the middle; 3 dB later, 256 + 50 ms later, the cell is left.
            let middle = 1200.0 * (f64::from(event.from) + 0.5);
            let index = (event.start.as_nanos() / STEP.as_nanos()) as usize;
            let past = f64::from(drive.samples()[index].position_m) - middle;
            let until_3db = past - 30.0 * 0.306;
            let level = |d: f64| path_loss(94.2, 34.1, (d * d + 1e4).sqrt());
            let difference = level(600.0 + until_3db) - level(600.0 - until_3db);
            assert!((2.9..3.1).contains(&difference), "{difference} dB at the condition");
        }
    }

    #[test]
    fn radio_g4_same_seed_same_drive_and_lengths_are_prefixes() {
        let (short, long) = (drive("highway-700", 3, 50), drive("highway-700", 3, 90));
        assert_eq!(short, drive("highway-700", 3, 50));
        assert_eq!(short.samples(), &long.samples()[..5000]);
        let millis = short.trace().millis();
        // The last line is only there to set the period.
        assert_eq!(millis[..millis.len() - 1], long.trace().millis()[..millis.len() - 1]);
        assert_ne!(short, drive("highway-700", 4, 50));
    }

    #[test]
    fn parts_have_streams_of_their_own() {
        // Other users and interruptions change nothing about signals or handovers.
        let base = drive("highway-700,buffer=keep", 2, 120);
        let other =
            drive("highway-700,buffer=keep,users=4,interruption=50ms,interruption_sd=0ms", 2, 120);
        let radio = |d: &Drive| d.samples().iter().map(|s| s.rsrp_dbm).collect::<Vec<_>>();
        assert_eq!(radio(&base), radio(&other));
        let starts = |d: &Drive| d.events().iter().map(|e| e.start).collect::<Vec<_>>();
        assert_eq!(starts(&base), starts(&other));
    }

    #[test]
    fn bytes_of_the_series_are_those_of_the_trace_and_none_in_an_interruption() {
        for name in super::super::NAMES {
            let drive = drive(name, 1, 300);
            let bytes: u64 = drive.samples().iter().map(|s| u64::from(s.bytes)).sum();
            let offered = drive.trace().millis().len() as f64 * 1500.0;
            // Samples round down.
            assert!((bytes as f64 / offered - 1.0).abs() < 2e-3, "{name}: {bytes} {offered}");
            for event in drive.events() {
                let (start, end) =
                    (event.start.as_nanos() / 1_000_000, event.end.as_nanos() / 1_000_000);
                let inside = |ms: &&u32| u64::from(**ms) > start && u64::from(**ms) < end;
                assert_eq!(drive.trace().millis().iter().find(inside), None, "{name}");
            }
        }
    }

    #[test]
    fn no_modulation_exceeds_its_ceiling() {
        let drive = drive("highway-700,users=0", 1, 600);
        let second = |samples: &[RadioSample]| {
            let most = samples.iter().map(RadioSample::modulation).max().unwrap();
            (most, samples.iter().map(|s| f64::from(s.bytes)).sum::<f64>() * 8.0 / 1e6)
        };
        for (most, mbit) in drive.samples().chunks(100).map(second) {
            let ceiling = match most {
                Modulation::None => 0.1,
                Modulation::Qpsk => 17.0,
                Modulation::Qam16 => 25.0,
                Modulation::Qam64 => 50.1,
            };
            assert!(mbit <= ceiling, "{most:?}: {mbit}");
        }
    }

    #[test]
    fn handovers_repeat_with_the_drive_and_failures_lose_the_queue() {
        let drive = drive("highway-700,length=100s", 1, 100);
        let once = drive.handovers(Time::from_secs(100));
        assert_eq!(once.len(), drive.events().len());
        let twice = drive.handovers(Time::from_secs(200));
        assert_eq!(twice.len(), 2 * once.len());
        assert_eq!(twice[once.len()].at, once[0].at + Span::from_secs(100));
        Handover::check_order(&twice).unwrap();
        for (event, handover) in drive.events().iter().zip(&once) {
            assert_eq!(event.is_failure, handover.queue_lost);
        }
    }

    #[test]
    fn a_hole_in_the_coverage_is_a_failure() {
        let drive = drive("highway-700,spacing=20000,eirp=40", 1, 900);
        let failures = drive.events().iter().filter(|event| event.is_failure).count();
        assert!(failures > 0);
        let lengths = drive.events().iter().filter(|e| e.is_failure).map(|e| e.end - e.start);
        assert!(lengths.clone().all(|l| l >= Span::from_millis(199) && l <= Span::from_secs(1)));
        let summary = drive.summary(Time::ZERO, Time::from_secs(900)).unwrap();
        assert_eq!(summary.failures as usize, failures);
    }

    #[test]
    fn other_users_number_what_was_asked_for() {
        let drive = drive("highway-700,users=2", 1, 3000);
        let mean = drive.samples().iter().map(|s| f64::from(s.users)).sum::<f64>()
            / drive.samples().len() as f64;
        assert!((mean - 2.0).abs() < 0.2, "{mean}");
    }
}
