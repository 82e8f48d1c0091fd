//! Links that serve sparse and saturating traffic differently, after CellReplay (NSDI 2025).

use std::io::BufRead;
use std::sync::Arc;

use cellpace_base::{Span, Time};

use super::Schedule;
use super::lines::LineReader;
use super::step_file::parse_delay;
use super::trace::{MAX_OPPORTUNITIES, Replay, Trace, parse_millis};
use crate::error::TraceError;
use crate::steps::Steps;

/// A pair of recordings of one radio link: what it delivers to short trains of packets that come
/// after a pause ("light"), and what it delivers to a saturating sender ("heavy").
///
/// Modelled after the README of CellReplay; when it switches is our reading:
/// - A packet that arrives after the link was idle for `gap` finds it inactive. It is served by
///   the light train recorded last before that time of the trace; the offsets of the train count
///   from the arrival.
/// - When the train is used up, the link goes on with the heavy trace, at its own time.
/// - The link stays active until it was idle for `gap` again.
///
/// Not modelled: the extra delay by packet size; trains that end early when traffic pauses for
/// less than `gap` (their unused opportunities pass as on any link).
///
/// The heavy recording is a Mahimahi file. The light one, too, which is then cut into trains wherever two
/// opportunities lie at least `gap` apart; or [`LightTrains`], CellReplay's own file of trains and base delays.
#[derive(Debug, Clone, PartialEq)]
pub struct CellReplay {
    heavy: Arc<Trace>,
    trains: Vec<Train>,
    /// Offsets of all trains, one behind the other, from the first of each.
    offsets: Vec<Span>,
    /// After which the trains repeat.
    period: Span,
    gap: Span,
}

/// Trains of packets, and the base delay over time, in the one file in which CellReplay has both: a line is
/// `TIME BASE_DELAY OFFSET OFFSET ...` in milliseconds, with blanks between. From TIME on the base delay holds, and a
/// train that begins gets its packets through so long after its first one. The last line holds as long as the one
/// before it; then all repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct LightTrains {
    trains: Vec<Train>,
    offsets: Vec<Span>,
    period: Span,
    delays: Steps<Span>,
}

/// A line with some hundred packets.
const MAX_TRAIN_LINE: usize = 8192;
const TRAIN_FORM: &str =
    "a line needs at least three numbers: TIME BASE_DELAY OFFSET OFFSET ..., in milliseconds";

impl LightTrains {
    /// Whether a file is one of trains, by its first line: it has several numbers.
    pub(crate) fn is_one(beginning: &[u8]) -> bool {
        let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.trim_ascii().iter().any(|byte| b" \t".contains(byte))
    }

    /// Reads such a file; `name` is for errors. Keeps eight bytes of each number.
    ///
    /// # Errors
    /// When a line does not read, times do not increase, or offsets decrease; they name the line.
    pub fn read(name: &str, reader: impl BufRead) -> Result<Self, TraceError> {
        let (mut trains, mut offsets): (Vec<Train>, Vec<Span>) = (Vec::new(), Vec::new());
        let mut delays = Vec::new();
        LineReader::new(name).longest(MAX_TRAIN_LINE).read(reader, |line, text| {
            let wrong = |problem: String| TraceError::line(name, line, problem);
            let mut fields =
                text.split(|byte| b" \t".contains(byte)).filter(|field| !field.is_empty());
            let start = fields.next().ok_or_else(|| wrong(TRAIN_FORM.into()))?;
            let start = Span::from_millis(parse_millis(start).map_err(&wrong)?.into());
            if trains.last().is_some_and(|before| start <= before.start) {
                return Err(wrong(format!("time {start} does not come after the one before it")));
            }
            let delay = fields.next().and_then(|field| str::from_utf8(field).ok());
            let delay = delay.ok_or_else(|| wrong(TRAIN_FORM.into()))?;
            delays.push(parse_delay(delay, TRAIN_FORM).map_err(&wrong)?);
            let first = offsets.len();
            for field in fields {
                let offset = Span::from_millis(parse_millis(field).map_err(&wrong)?.into());
                if offsets[first..].last().is_some_and(|before| offset < *before) {
                    return Err(wrong(format!("offset {offset} is before the one in front of it")));
                }
                if offsets.len() == MAX_OPPORTUNITIES {
                    return Err(TraceError::TooLong {
                        name: name.to_owned(),
                        limit: MAX_OPPORTUNITIES,
                    });
                }
                offsets.push(offset);
            }
            if offsets.len() == first {
                return Err(wrong(TRAIN_FORM.into()));
            }
            trains.push(Train { start, first, end: offsets.len() });
            Ok(())
        })?;
        let [.., before, last] = trains.as_slice() else {
            let problem = "needs at least two lines, to know how long one holds".to_owned();
            return Err(TraceError::Unreadable { name: name.to_owned(), problem });
        };
        let period = last.start + (last.start - before.start);
        let ends = trains.iter().skip(1).map(|train| train.start).chain([period]);
        let starts = std::iter::once(Span::ZERO).chain(trains.iter().skip(1).map(|it| it.start));
        let lengths = ends.zip(starts).map(|(end, start)| end - start);
        let delays = Steps::cycle(delays.into_iter().zip(lengths))
            .expect("times are whole milliseconds and increase");
        Ok(Self { trains, offsets, period, delays })
    }

    /// The base delay over time.
    pub const fn delays(&self) -> &Steps<Span> {
        &self.delays
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Train {
    start: Span,
    first: usize,
    end: usize,
}

impl CellReplay {
    /// Cuts the light recording into trains. A `gap` of zero makes every opportunity a train.
    pub fn new(heavy: Arc<Trace>, light: &Trace, gap: Span) -> Self {
        let mut trains: Vec<Train> = Vec::new();
        let mut offsets = Vec::new();
        let mut last = Span::ZERO;
        for (index, at) in light.millis().iter().enumerate() {
            let at = Span::from_millis(u64::from(*at));
            if index == 0 || at - last >= gap {
                trains.push(Train { start: at, first: index, end: index });
            }
            // A train was pushed for the first opportunity at the latest.
            if let Some(train) = trains.last_mut() {
                offsets.push(at - train.start);
                train.end = index + 1;
            }
            last = at;
        }
        Self { heavy, trains, offsets, period: light.period(), gap }
    }

    /// Takes trains as they were recorded.
    pub fn of_trains(heavy: Arc<Trace>, light: LightTrains, gap: Span) -> Self {
        let LightTrains { trains, offsets, period, .. } = light;
        Self { heavy, trains, offsets, period, gap }
    }

    /// A link without light trains: whatever comes is served by the heavy trace.
    pub const fn saturated(heavy: Arc<Trace>) -> Self {
        Self { heavy, trains: Vec::new(), offsets: Vec::new(), period: Span::MAX, gap: Span::MAX }
    }

    /// What a saturating sender gets.
    pub const fn heavy(&self) -> &Arc<Trace> {
        &self.heavy
    }

    /// The schedule from time zero, idle. Before the first packet it offers the heavy
    /// trace, which is its capacity.
    pub fn schedule(self: &Arc<Self>) -> CellReplaySchedule {
        CellReplaySchedule {
            heavy: Replay::new(Arc::clone(&self.heavy)),
            link: Arc::clone(self),
            busy_at: None,
            light: None,
        }
    }

    /// The train recorded last before `now`; before the first, the first. `None`: there are none.
    fn train_at(&self, now: Time) -> Option<Train> {
        let within =
            Span::from_nanos((now - Time::ZERO).as_nanos() % self.period.as_nanos().max(1));
        let after = self.trains.partition_point(|train| train.start <= within);
        self.trains.get(after.saturating_sub(1)).copied()
    }
}

/// A running [`CellReplay`].
#[derive(Debug, Clone)]
pub struct CellReplaySchedule {
    link: Arc<CellReplay>,
    heavy: Replay,
    /// When the link last had something to do.
    busy_at: Option<Time>,
    light: Option<Light>,
}

/// The train in service.
#[derive(Debug, Clone, Copy)]
struct Light {
    activated: Time,
    next: usize,
    end: usize,
}

impl CellReplaySchedule {
    fn activate(&mut self, now: Time) {
        self.light = self.link.train_at(now).map(|train| Light {
            activated: now,
            next: train.first,
            end: train.end,
        });
    }

    /// Leaves the train if it is used up; the heavy trace goes on after `now`.
    fn leave_used_train(&mut self, now: Time) {
        if self.light.is_some_and(|light| light.next == light.end) {
            self.light = None;
            self.heavy.skip_through(now);
        }
    }
}

impl Schedule for CellReplaySchedule {
    fn peek(&self) -> Option<Time> {
        match self.light {
            Some(light) => Some(light.activated + self.link.offsets[light.next]),
            None => self.heavy.peek(),
        }
    }

    fn take(&mut self) {
        let Some(now) = self.peek() else { return };
        match &mut self.light {
            Some(light) => {
                light.next += 1;
                self.leave_used_train(now);
            }
            None => self.heavy.take(),
        }
    }

    fn skip_through(&mut self, now: Time) {
        if let Some(light) = &mut self.light {
            let left = &self.link.offsets[light.next..light.end];
            light.next += left.partition_point(|offset| light.activated + *offset <= now);
            self.leave_used_train(now);
        }
        if self.light.is_none() {
            self.heavy.skip_through(now);
        }
    }

    fn on_backlog(&mut self, now: Time, bytes: u64) {
        let inactive = self.busy_at.is_none_or(|busy| now - busy >= self.link.gap);
        if bytes > 0 && inactive {
            self.activate(now);
        }
        self.busy_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{DropTail, Limit};
    use crate::{Link, Packet};

    const GAP: Span = Span::from_millis(50);

    fn link(heavy: &[u32], light: &[u32]) -> Arc<CellReplay> {
        let heavy = Arc::new(Trace::from_millis(heavy.to_vec()).unwrap());
        Arc::new(CellReplay::new(heavy, &Trace::from_millis(light.to_vec()).unwrap(), GAP))
    }

    /// When packets that arrive at these milliseconds leave.
    fn departures(replay: &Arc<CellReplay>, arrivals: &[u64]) -> Vec<f64> {
        let queue = Box::new(DropTail::new(Limit::None));
        let mut link = Link::new(queue, Box::new(replay.schedule()));
        let mut fates = Vec::new();
        for at in arrivals {
            let now = Time::from_millis(*at);
            link.advance(now, &mut fates);
            link.push(Packet::new(0, 0, 1500, now), &mut fates);
        }
        link.advance(Time::from_secs(100), &mut fates);
        fates.iter().map(|record| record.packet.departed_at.as_millis_f64()).collect()
    }

    /// One a millisecond, for a second.
    fn every_milli() -> Vec<u32> {
        (1..=1000).collect()
    }

    #[test]
    fn the_light_file_is_cut_into_trains_at_gaps() {
        let replay = link(&[10], &[0, 2, 5, 100, 101, 200]);
        let starts = replay.trains.iter().map(|train| train.start.as_millis_f64());
        assert_eq!(starts.collect::<Vec<_>>(), [0.0, 100.0, 200.0]);
        let millis = replay.offsets.iter().map(|offset| offset.as_millis_f64());
        assert_eq!(millis.collect::<Vec<_>>(), [0.0, 2.0, 5.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn trains_and_delays_of_one_file_are_read() {
        let text = "0 25 0 1 1 2\n50 28 0 2\n100 25.5 0 7 9\n";
        let light = LightTrains::read("l", text.as_bytes()).unwrap();
        let delays: Steps<Span> =
            Steps::parse("step:25ms/50ms,28ms/50ms,25.5ms/50ms", "d").unwrap();
        assert_eq!(light.delays(), &delays);
        let heavy = Arc::new(Trace::from_millis(every_milli()).unwrap());
        let replay = Arc::new(CellReplay::of_trains(heavy, light, GAP));
        assert_eq!(departures(&replay, &[60; 2]), [60.0, 62.0]);
        assert_eq!(departures(&replay, &[110; 3]), [110.0, 117.0, 119.0]);
        // All repeats after 150 ms.
        assert_eq!(departures(&replay, &[151; 4]), [151.0, 152.0, 152.0, 153.0]);
        assert!(LightTrains::is_one(text.as_bytes()) && !LightTrains::is_one(b"0\n3 \n"));
    }

    #[test]
    fn bad_files_of_trains_are_refused_with_their_line() {
        for (text, part) in [
            ("0 25 0\n", "needs at least two lines"),
            ("0 25 0\n50 25\n", "line 2: a line needs at least three numbers"),
            ("0 25 0\n0 25 0\n", "line 2: time 0s does not come after"),
            ("0 25 0\n50 25 3 1\n", "line 2: offset 1ms is before"),
            ("0 25 0\n50 -1 0\n", "line 2: the delay -1 is not between"),
            ("0 25 0\n50 25 x\n", "line 2: `x` is not a whole number"),
        ] {
            let message = LightTrains::read("l", text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_sparse_packet_is_served_by_its_train_from_its_arrival() {
        let replay = link(&every_milli(), &[0, 7, 100, 104, 200]);
        // At 130 ms the train of 100 ms holds: offsets 0 and 4.
        assert_eq!(departures(&replay, &[130]), [130.0]);
        assert_eq!(departures(&replay, &[130, 130]), [130.0, 134.0]);
    }

    #[test]
    fn a_used_train_gives_way_to_the_heavy_trace() {
        let replay = link(&every_milli(), &[0, 7, 100, 104, 200]);
        assert_eq!(departures(&replay, &[130; 5]), [130.0, 134.0, 135.0, 136.0, 137.0]);
    }

    #[test]
    fn the_link_stays_active_until_it_was_idle_for_the_gap() {
        let replay = link(&every_milli(), &[0, 20, 1000, 1020]);
        // The third packet comes 49 ms after the second left: heavy. The fourth comes 50 ms
        // after the third left: a train again.
        assert_eq!(departures(&replay, &[5, 5, 74, 125, 125]), [5.0, 25.0, 75.0, 125.0, 145.0]);
    }

    #[test]
    fn trains_repeat_with_the_light_trace() {
        let replay = link(&every_milli(), &[0, 7, 100, 104, 200]);
        assert_eq!(departures(&replay, &[2 * 200 + 130; 2]), [530.0, 534.0]);
    }

    #[test]
    fn capacity_is_that_of_the_heavy_trace() {
        let replay = link(&every_milli(), &[0, 100, 200]);
        let bytes = crate::schedule::capacity_between(
            &mut replay.schedule(),
            Time::ZERO,
            Time::from_secs(2),
        );
        assert_eq!(bytes, 3_000_000);
    }

    #[test]
    fn skipping_is_taking_inside_a_train() {
        let replay = link(&every_milli(), &[0, 3, 3, 9, 1000]);
        for micros in [0, 100, 3_000, 5_000, 9_000, 12_500] {
            let (mut skipping, mut taking) = (replay.schedule(), replay.schedule());
            skipping.on_backlog(Time::from_millis(2), 1500);
            taking.on_backlog(Time::from_millis(2), 1500);
            let now = Time::from_millis(2) + Span::from_micros(micros);
            skipping.skip_through(now);
            while taking.peek().unwrap() <= now {
                taking.take();
            }
            assert_eq!(skipping.peek(), taking.peek(), "{micros}");
        }
    }
}
