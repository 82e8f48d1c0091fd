//! The view of a running link on the terminal: capacity, throughput, queue delay, and the last
//! lines of the program's output.

use std::collections::VecDeque;
use std::io::{IsTerminal, Stderr, stderr};

use cellpace_base::Time;
use cellpace_emu::{LinkChange, LinkDirection, SeenPacket};
use cellpace_path::schedule::{Schedule, capacity_between};
use cellpace_path::{Fate, TraceSpec};
use cellpace_report::short;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::CrosstermBackend;
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};
use ratatui::{Frame, Terminal};

use crate::error::CommandError;
use crate::link_output::ProgramOutput;

/// Time that is shown.
const SHOWN: cellpace_base::Span = cellpace_base::Span::from_secs(60);
/// Width of a point.
const BIN: cellpace_base::Span = cellpace_base::Span::from_millis(200);

/// The view.
pub(crate) struct LiveView {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    state: LinkView,
    seed: u64,
    output: ProgramOutput,
}

/// What is shown, without the terminal.
struct LinkView {
    title: String,
    /// What the link offers from the last bin on; `None`: without limit.
    schedule: Option<Box<dyn Schedule>>,
    /// Bins, the newest last.
    bins: VecDeque<Bin>,
    current: Bin,
    dropped: u64,
    now: Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    end: Time,
    offered: u64,
    delivered: u64,
    packets: u64,
    /// Sum of the queue delays, in ms.
    delay_ms: f64,
}

impl LiveView {
    /// Takes the terminal over until it is dropped.
    pub(crate) fn start(
        title: String,
        trace: Option<&TraceSpec>,
        seed: u64,
        output: ProgramOutput,
    ) -> Result<Self, CommandError> {
        let schedule =
            trace.map(|trace| trace.build(seed)).transpose().map_err(CommandError::usage)?;
        let state = LinkView {
            title,
            schedule,
            bins: VecDeque::new(),
            current: Bin { end: Time::ZERO + BIN, ..Bin::default() },
            dropped: 0,
            now: Time::ZERO,
        };
        let terminal = || {
            execute!(stderr(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(stderr()))
        };
        let terminal =
            terminal().map_err(|error| CommandError::failed(format!("--live: {error}")))?;
        Ok(Self { terminal, state, seed, output })
    }

    pub(crate) fn record(&mut self, seen: &SeenPacket) {
        self.state.record(seen);
    }

    /// Shows the capacity of the changed link from now on.
    pub(crate) fn change(&mut self, change: &LinkChange) {
        if let Some(trace) = &change.paths[0].trace {
            // It was built for the link before.
            self.state.schedule = trace.build(self.seed).ok();
        }
        self.state.title += &format!(" {}", change.settings.join(" "));
    }

    pub(crate) fn draw(&mut self, now: Time) {
        self.state.advance(now);
        let (state, lines) = (&self.state, self.output.last_lines(100));
        // A terminal that went away does not end the run.
        let _ = self.terminal.draw(|frame| state.draw(frame, &lines));
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

impl LinkView {
    fn record(&mut self, seen: &SeenPacket) {
        if seen.direction == LinkDirection::Up {
            return;
        }
        let packet = &seen.record.packet;
        self.advance(packet.departed_at);
        if seen.record.fate == Fate::Duplicate {
            return;
        }
        if seen.record.fate != Fate::Delivered {
            self.dropped += 1;
            return;
        }
        self.current.delivered += u64::from(packet.size);
        self.current.packets += 1;
        self.current.delay_ms += seen.record.queue_delay().as_millis_f64();
    }

    /// Closes the bins that are over by `now`.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while self.current.end < now {
            let end = self.current.end;
            if let Some(schedule) = &mut self.schedule {
                self.current.offered = capacity_between(schedule.as_mut(), end - BIN, end);
            }
            self.bins.push_back(self.current);
            if self.bins.len() as u64 > SHOWN.as_nanos() / BIN.as_nanos() {
                self.bins.pop_front();
            }
            self.current = Bin { end: end + BIN, ..Bin::default() };
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, lines: &[String]) {
        let wanted = if lines.is_empty() { 0 } else { 8 };
        let parts = [
            Constraint::Length(1),
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(wanted),
        ];
        let [head, rates, delays, output] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        self.draw_rates(frame, rates);
        self.draw_delays(frame, delays);
        let room = usize::from(output.height.saturating_sub(2));
        let last = lines[lines.len().saturating_sub(room)..].iter().map(|line| Line::raw(&**line));
        let lines: Vec<Line<'_>> = last.collect();
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("output")), output);
    }

    fn head(&self) -> Line<'_> {
        let last = self.bins.back().copied().unwrap_or_default();
        let delay = if last.packets > 0 { last.delay_ms / last.packets as f64 } else { 0.0 };
        Line::from(vec![
            self.title.as_str().bold(),
            format!(
                "  {:.0} s  {} Mbit/s  queue {} ms  dropped {}",
                self.now.as_secs_f64(),
                short(mbps(last.delivered)),
                short(delay),
                self.dropped
            )
            .into(),
        ])
    }

    fn draw_rates(&self, frame: &mut Frame<'_>, area: Rect) {
        let offered = self.points(|bin| Some(mbps(bin.offered)));
        let delivered = self.points(|bin| Some(mbps(bin.delivered)));
        let mut lines: Vec<ViewCurve<'_>> = vec![("throughput", Color::Green, &delivered)];
        if self.schedule.is_some() {
            lines.insert(0, ("capacity", Color::DarkGray, &offered));
        }
        self.draw_chart(frame, area, "Mbit/s:", &lines);
    }

    fn draw_delays(&self, frame: &mut Frame<'_>, area: Rect) {
        let delays =
            self.points(|bin| (bin.packets > 0).then(|| bin.delay_ms / bin.packets as f64));
        self.draw_chart(frame, area, "queue delay, ms:", &[("mean", Color::Yellow, &delays)]);
    }

    fn points(&self, value: impl Fn(&Bin) -> Option<f64>) -> Vec<(f64, f64)> {
        let point = |bin: &Bin| Some((bin.end.as_secs_f64(), value(bin)?));
        self.bins.iter().filter_map(point).collect()
    }

    fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect, title: &str, lines: &[ViewCurve<'_>]) {
        let most = lines.iter().flat_map(|line| line.2.iter()).map(|point| point.1);
        let top = most.fold(0.0, f64::max).max(1e-3) * 1.05;
        let (to, shown) = (self.now.as_secs_f64(), SHOWN.as_secs_f64());
        let from = (to - shown).max(0.0);
        let to = to.max(from + 10.0);
        let datasets = lines.iter().map(|(_, color, points)| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::default().fg(*color))
                .data(points)
        });
        // A legend in the chart would be left out where there is little room.
        let mut title = vec![Span::raw(title.to_owned())];
        for (name, color, _) in lines {
            title.push(Span::styled(format!(" {name}"), *color));
        }
        let seconds = [from, to].map(|at| format!("{at:.0} s"));
        let chart = Chart::new(datasets.collect())
            .block(Block::bordered().title(Line::from(title)))
            .x_axis(Axis::default().bounds([from, to]).labels(seconds))
            .y_axis(Axis::default().bounds([0.0, top]).labels(["0".to_owned(), short(top)]));
        frame.render_widget(chart, area);
    }
}

/// A line of a chart: name, color, points.
type ViewCurve<'a> = (&'a str, Color, &'a [(f64, f64)]);

fn mbps(bytes: u64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / BIN.as_secs_f64()
}

/// Refuses what cannot be shown.
pub(crate) fn check() -> Result<(), CommandError> {
    if stderr().is_terminal() {
        return Ok(());
    }
    Err(CommandError::usage("--live: standard error is not a terminal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_path::{DropReason, Packet, PacketRecord};
    use ratatui::backend::TestBackend;

    fn seen(ms: u64, delay: u64, fate: Fate) -> SeenPacket {
        let at = Time::from_millis(ms);
        let packet = Packet {
            enqueued_at: at - cellpace_base::Span::from_millis(delay),
            dequeued_at: at,
            departed_at: at,
            ..Packet::new(0, 0, 1500, at - cellpace_base::Span::from_millis(delay))
        };
        let record = PacketRecord { packet, fate };
        SeenPacket { direction: LinkDirection::Down, record, written: at, after_end: false }
    }

    fn state() -> LinkView {
        let trace: TraceSpec = "constant:12mbit".parse().unwrap();
        LinkView {
            title: "constant:12mbit".to_owned(),
            schedule: Some(trace.build(1).unwrap()),
            bins: VecDeque::new(),
            current: Bin { end: Time::ZERO + BIN, ..Bin::default() },
            dropped: 0,
            now: Time::ZERO,
        }
    }

    #[test]
    fn the_view_tells_rates_delay_and_drops() {
        let mut state = state();
        for ms in 1..=600 {
            state.record(&seen(ms, 30, Fate::Delivered));
        }
        state.record(&seen(600, 0, Fate::Dropped(DropReason::Overflow)));
        state.advance(Time::from_millis(601));
        assert_eq!(state.bins.len(), 3);
        let last = state.bins.back().unwrap();
        assert_eq!((last.offered, last.delivered), (300_000, 300_000));
        let mut terminal = Terminal::new(TestBackend::new(90, 30)).unwrap();
        terminal.draw(|frame| state.draw(frame, &["hello".to_owned()])).unwrap();
        let shown = terminal.backend().to_string();
        for part in
            ["constant:12mbit", "12 Mbit/s", "queue 30 ms", "dropped 1", "capacity", "hello"]
        {
            assert!(shown.contains(part), "no {part} in\n{shown}");
        }
    }

    #[test]
    fn only_the_last_minute_is_kept_and_small_terminals_do_no_harm() {
        let mut state = state();
        state.advance(Time::from_secs(600));
        assert_eq!(state.bins.len(), 300);
        for (width, height) in [(1, 1), (10, 3), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| state.draw(frame, &["x".to_owned()])).unwrap();
        }
    }
}
