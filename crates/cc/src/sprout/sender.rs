//! The sender's half: sends as much as will leave the queue in time by the newest forecast.

use crate::{Ack, Controller, Permit, SentPacket, Setup, Span, Stamp, Time};

use super::belief::{Belief, Forecast};
use super::model::{HORIZON, ModelSpec, SproutModel};
use super::params::SproutParams;
use super::wire::{Next, SproutReport, Word};

/// Packets sent this long ago or longer have arrived or never will when a newer one has arrived.
const REORDER_LIMIT: Span = Span::from_millis(10);

/// A flow that may send nothing sends one packet after this time, or it would never learn of a
/// link that has come back.
const HEARTBEAT: Span = Span::from_millis(50);
const HEARTBEAT_MS: u8 = 50;

/// A report this many ticks older than the newest one is no late one: the receiver, or its count,
/// has started over.
const STARTED_OVER: u32 = 1000;

/// The sender's half of Sprout. Bytes.
pub(super) struct Sprout {
    params: SproutParams,
    mss: u64,
    /// Before anything is known.
    prior: Forecast,
    forecast: Forecast,
    /// When the forecast came; `None` before the first packet.
    forecast_at: Option<Time>,
    /// Ticks since the forecast came, up to the last that it covers.
    ticks: usize,
    newest_report: Option<u32>,
    /// Bytes in the queue and in flight.
    queued: u64,
    next_sequence: u64,
    recent: RecentPackets,
    last_sent: Option<Time>,
    heartbeat: bool,
}

impl Sprout {
    pub(super) fn new(params: &SproutParams, setup: &Setup) -> Self {
        let prior = Belief::uniform(SproutModel::shared(&ModelSpec::new(params)))
            .forecast(params.confidence);
        Self {
            params: params.clone(),
            mss: setup.mss.max(1),
            prior,
            forecast: prior,
            forecast_at: None,
            ticks: 0,
            newest_report: None,
            queued: 0,
            next_sequence: 0,
            recent: RecentPackets::default(),
            last_sent: None,
            heartbeat: false,
        }
    }

    /// The queue drains as forecast.
    fn advance(&mut self, now: Time) {
        let Some(since) = self.forecast_at else { return };
        let ticks = now.since(since).as_nanos() / self.params.tick.as_nanos();
        let ticks = ticks.min(HORIZON as u64 - 1) as usize;
        while self.ticks < ticks {
            self.queued = self.queued.saturating_sub(self.drains_in(self.ticks));
            self.ticks += 1;
        }
    }

    /// Bytes that leave the queue in a tick. The forecast is cumulative, which the original
    /// forgets here.
    fn drains_in(&self, tick: usize) -> u64 {
        let before = tick.checked_sub(1).map_or(0, |before| self.forecast[before]);
        u64::from(self.forecast[tick].saturating_sub(before)) * self.mss
    }

    /// Bytes that the forecast lets be in flight: what leaves the queue within the look-ahead.
    /// Sprout section 3.5
    fn budget(&self) -> u64 {
        let horizon = (self.ticks + self.params.look_ahead as usize).min(HORIZON - 1);
        let packets = self.forecast[horizon].saturating_sub(self.forecast[self.ticks]);
        u64::from(packets) * self.mss
    }

    /// The part that is not used yet.
    fn window(&self) -> u64 {
        self.budget().saturating_sub(self.queued)
    }

    fn take_forecast(&mut self, now: Time, forecast: Forecast) {
        self.forecast = forecast;
        self.forecast_at = Some(now);
        self.ticks = 0;
    }

    /// Whether a report comes too late to be of use.
    fn is_stale(&self, tick: u32) -> bool {
        self.newest_report.is_some_and(|newest| newest.wrapping_sub(tick) < STARTED_OVER)
    }

    /// Whether a report covers what was never sent. Within the reorder limit the receiver adds up
    /// sizes, which a datapath may take for a little more than they were.
    fn is_impossible(&self, received_or_lost: u64) -> bool {
        received_or_lost > self.next_sequence.saturating_add(Word::FARTHEST)
    }
}

impl Controller for Sprout {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let now = packet.now;
        self.forecast_at.get_or_insert(now);
        self.advance(now);
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(packet.bytes);
        self.queued = self.queued.saturating_add(packet.bytes);
        self.recent.push(sequence, now);
        self.last_sent = Some(now);
        self.heartbeat = false;
        let next = match (packet.app_limited, self.window() < self.mss) {
            (true, _) => Next::Unknown,
            (false, true) => Next::Within(HEARTBEAT_MS),
            (false, false) => Next::Within(0),
        };
        let word = Word { sequence, throwaway: sequence - self.recent.oldest(), next };
        Stamp { wire: word.encode(), ..Stamp::default() }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.advance(ack.now);
    }

    fn on_report(&mut self, now: Time, report: &[u8]) {
        let Some(report) = SproutReport::decode(report) else { return };
        if self.is_stale(report.tick) || self.is_impossible(report.received_or_lost) {
            return;
        }
        self.newest_report = Some(report.tick);
        self.queued = self.next_sequence.saturating_sub(report.received_or_lost);
        self.take_forecast(now, report.forecast);
    }

    fn on_path_change(&mut self, now: Time) {
        if self.forecast_at.is_some() {
            self.take_forecast(now, self.prior);
        }
    }

    /// What the forecast lets be in flight, used or not: zero when the forecast is used up.
    fn cwnd(&self) -> u64 {
        self.budget().max(if self.heartbeat { self.mss } else { 0 })
    }

    /// The sender's own estimate of what is in flight counts, not the datapath's: it knows of
    /// packets that have left the queue before their acks come.
    fn permit(&self) -> Permit {
        Permit::Budget(self.window().max(if self.heartbeat { self.mss } else { 0 }))
    }

    fn next_deadline(&self) -> Option<Time> {
        let since = self.forecast_at?;
        let tick =
            (self.ticks < HORIZON - 1).then(|| since + self.params.tick * (self.ticks as u64 + 1));
        let heartbeat = self.last_sent.filter(|_| !self.heartbeat).map(|sent| sent + HEARTBEAT);
        tick.into_iter().chain(heartbeat).min()
    }

    fn on_deadline(&mut self, now: Time) {
        self.advance(now);
        self.heartbeat |= self.last_sent.is_some_and(|sent| sent + HEARTBEAT <= now);
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let packets = |bytes: u64| bytes as f64 / self.mss as f64;
        show("budget_pkts", packets(self.budget()));
        show("queued_pkts", packets(self.queued));
        show("forecast_age_ticks", self.ticks as f64);
        show("forecast_1_pkts", f64::from(self.forecast[0]));
        show("forecast_8_pkts", f64::from(self.forecast[HORIZON - 1]));
    }
}

/// Sequence numbers of the packets within the reorder limit; packets within half a millisecond
/// count as sent together, so that there are never many.
#[derive(Debug, Clone, Default)]
struct RecentPackets {
    /// First sequence number, first and last time of sending.
    groups: [(u64, Time, Time); Self::GROUPS],
    first: usize,
    count: usize,
}

impl RecentPackets {
    const GROUPS: usize = 24;
    const TOGETHER: Span = Span::from_micros(500);

    fn push(&mut self, sequence: u64, now: Time) {
        while self.count > 0 && self.groups[self.first].2 + REORDER_LIMIT <= now {
            self.first = (self.first + 1) % Self::GROUPS;
            self.count -= 1;
        }
        let last = (self.first + self.count + Self::GROUPS - 1) % Self::GROUPS;
        if self.count > 0 && now < self.groups[last].1 + Self::TOGETHER {
            self.groups[last].2 = now;
            return;
        }
        // 20 groups of half a millisecond and the one that is being filled: there is room.
        if self.count < Self::GROUPS {
            self.groups[(self.first + self.count) % Self::GROUPS] = (sequence, now, now);
            self.count += 1;
        }
    }

    /// The oldest sequence number. There is one after each [`push`](Self::push).
    fn oldest(&self) -> u64 {
        self.groups[self.first].0
    }
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;
    use crate::drive::{MSS, setup};

    const FORECAST: Forecast = [5, 12, 20, 27, 35, 43, 51, 59];

    fn sprout() -> Sprout {
        Sprout::new(&params(""), &setup())
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn send(flow: &mut Sprout, now: Time, app_limited: bool) -> Word {
        let stamp = flow.on_sent(&SentPacket {
            now,
            number: flow.next_sequence / MSS,
            bytes: MSS,
            in_flight: 0,
            app_limited,
            retransmission: false,
        });
        Word::decode(stamp.wire)
    }

    fn report(flow: &mut Sprout, now: Time, tick: u32, received_or_lost: u64) {
        let mut bytes = Vec::new();
        SproutReport { tick, received_or_lost, forecast: FORECAST }.encode(&mut bytes);
        flow.on_report(now, &bytes);
    }

    /// 1000 packets have been sent, all but ten have arrived by 1 s.
    fn with_ten_outstanding() -> Sprout {
        let mut flow = sprout();
        for i in 0..1000 {
            send(&mut flow, ms(i), false);
        }
        report(&mut flow, ms(1000), 50, 990 * MSS);
        flow
    }

    fn window(flow: &Sprout) -> u64 {
        assert_eq!(flow.permit().remaining(0) % MSS, 0);
        flow.permit().remaining(0) / MSS
    }

    #[test]
    fn sprout_t10_window() {
        let mut flow = with_ten_outstanding();
        assert_eq!(window(&flow), 28);
        flow.on_deadline(ms(1019));
        assert_eq!(window(&flow), 28, "the tick is not over");
        flow.on_deadline(ms(1020));
        assert_eq!((window(&flow), flow.queued / MSS), (34, 5));
        flow.on_deadline(ms(1040));
        assert_eq!((window(&flow), flow.queued), (39, 0));
        let mut late = with_ten_outstanding();
        late.on_deadline(ms(1040));
        assert_eq!(window(&late), 39, "one late call does the same");
        flow.heartbeat = false;
        flow.on_deadline(ms(1139));
        flow.heartbeat = false;
        assert_eq!(window(&flow), 59 - 51, "the forecast's last tick");
        flow.advance(ms(1140));
        assert_eq!(window(&flow), 0);
    }

    #[test]
    fn the_queue_drains_by_what_each_tick_adds() {
        let mut flow = sprout();
        for i in 0..1000 {
            send(&mut flow, ms(i), false);
        }
        report(&mut flow, ms(1000), 50, 940 * MSS);
        let queued = [1020, 1040, 1060, 1140].map(|at| {
            flow.on_deadline(ms(at));
            flow.queued / MSS
        });
        // 60 packets less what is forecast to have left; nothing is forecast for the ninth tick.
        assert_eq!(queued, [60 - 5, 60 - 12, 60 - 20, 60 - 51]);
        flow.on_deadline(ms(5000));
        assert_eq!(flow.queued / MSS, 60 - 51, "an old forecast drains nothing more");
    }

    #[test]
    fn a_flow_begins_with_the_forecast_of_the_uniform_prior() {
        let mut flow = sprout();
        assert_eq!(flow.cwnd(), 5 * MSS);
        assert_eq!(flow.next_deadline(), None, "nothing ages before the first packet");
        let words: Vec<_> = (0..5).map(|_| send(&mut flow, ms(3000), false).next).collect();
        assert_eq!(flow.permit().remaining(0), 0);
        let flight = [Next::Within(0); 4].into_iter().chain([Next::Within(50)]);
        assert_eq!(words, flight.collect::<Vec<_>>(), "the last of a flight is marked");
        assert_eq!(flow.next_deadline(), Some(ms(3020)));
    }

    #[test]
    fn a_sender_without_data_says_so() {
        assert_eq!(send(&mut sprout(), ms(0), true).next, Next::Unknown);
    }

    #[test]
    fn one_packet_leaves_after_50_ms_of_silence() {
        let mut flow = with_ten_outstanding();
        let used_up = ms(1200);
        flow.on_deadline(used_up);
        assert_eq!(flow.permit().remaining(0), MSS, "nothing was sent since 999 ms");
        assert_eq!(flow.cwnd(), MSS);
        assert_eq!(flow.next_deadline(), None);
        assert_eq!(send(&mut flow, used_up, false).next, Next::Within(50));
        assert_eq!((flow.permit().remaining(0), flow.cwnd()), (0, 0));
        assert_eq!(flow.next_deadline(), Some(ms(1250)));
        flow.on_deadline(ms(1249));
        assert_eq!(flow.permit().remaining(0), 0);
        flow.on_deadline(ms(1250));
        assert_eq!(flow.permit().remaining(0), MSS);
    }

    #[test]
    fn sprout_t11_throwaway() {
        let mut flow = sprout();
        let words: Vec<_> = [0, 4, 12].map(|at| send(&mut flow, ms(at), false)).into();
        let sent_words: Vec<_> = words.iter().map(|word| (word.sequence, word.throwaway)).collect();
        assert_eq!(sent_words, [(0, 0), (1500, 1500), (3000, 1500)]);
    }

    #[test]
    fn the_reorder_limit_holds_at_any_rate() {
        for micros in [1, 10, 499, 500, 501, 3000, 20_000] {
            let mut recent = RecentPackets::default();
            for packet in 0..20_000 {
                recent.push(packet, Time::from_micros(packet * micros));
                let age = (packet - recent.oldest()) * micros;
                assert!(age < 10_500, "{age} us at a packet per {micros} us");
                let possible = (packet * micros).min(9_500);
                assert!(age + micros > possible, "{age} us at a packet per {micros} us");
            }
        }
    }

    #[test]
    fn late_and_impossible_reports_are_dropped() {
        let mut flow = with_ten_outstanding();
        report(&mut flow, ms(1001), 50, 0);
        report(&mut flow, ms(1001), 49, 0);
        report(&mut flow, ms(1001), 51, 1001 * MSS + Word::FARTHEST);
        flow.on_report(ms(1001), b"");
        flow.on_report(ms(1001), &[0xff; 1200]);
        assert_eq!(window(&flow), 28);
        report(&mut flow, ms(1001), 51, 995 * MSS);
        assert_eq!(window(&flow), 33);
        report(&mut flow, ms(1021), 52, 1000 * MSS + 40);
        assert_eq!(window(&flow), 38, "sizes a little too large are no reason to stand still");
    }

    #[test]
    fn tick_numbers_wrap_and_a_wrong_one_does_not_lock_the_flow() {
        let mut flow = with_ten_outstanding();
        report(&mut flow, ms(1010), u32::MAX - 2000, 991 * MSS);
        report(&mut flow, ms(1020), u32::MAX, 992 * MSS);
        assert_eq!(window(&flow), 30);
        report(&mut flow, ms(1040), 0, 995 * MSS);
        assert_eq!(window(&flow), 33, "0 follows the largest");
        report(&mut flow, ms(1060), u32::MAX / 2, 996 * MSS);
        report(&mut flow, ms(1080), 3, 997 * MSS);
        assert_eq!(window(&flow), 35);
    }

    #[test]
    fn another_path_begins_with_the_prior_again() {
        let mut flow = with_ten_outstanding();
        flow.on_path_change(ms(1001));
        assert_eq!((flow.cwnd(), flow.queued), (5 * MSS, 10 * MSS));
    }
}
