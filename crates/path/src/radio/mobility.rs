//! When a phone leaves its cell: filtered measurements, event A3, radio link failure.

use cellpace_base::math::exp;

/// Time between two filtered measurements, in milliseconds (3GPP TS 36.133: 200 ms).
pub const MEASUREMENT_MS: u64 = 200;

/// The weight of a new measurement, `a = 1/2^(k/4)` (3GPP TS 36.331, section 5.5.3.2).
pub fn filter_weight(k: u64) -> f64 {
    exp(-(k as f64) / 4.0 * std::f64::consts::LN_2)
}

/// Event A3: a neighbour is better than the serving cell by the hysteresis, for the time to trigger
/// (3GPP TS 36.331, section 5.5.4.4, without offsets).
#[derive(Debug, Clone)]
pub struct EventA3 {
    hysteresis: f64,
    time_to_trigger_ms: u64,
    /// Since when which neighbour is better.
    better: Vec<(i64, u64)>,
}

impl EventA3 {
    /// With a hysteresis in dB and a time to trigger in milliseconds.
    pub fn new(hysteresis: f64, time_to_trigger_ms: u64) -> Self {
        Self { hysteresis, time_to_trigger_ms, better: Vec::new() }
    }

    /// These RSRPs, in dB, count from `now_ms` on up to `until_ms`. Returns the cell that is reported
    /// by then, and when.
    pub fn update(
        &mut self,
        (now_ms, until_ms): (u64, u64),
        serving: f64,
        neighbours: impl Iterator<Item = (i64, f64)>,
    ) -> Option<(i64, u64)> {
        let mut better = Vec::new();
        let mut reported: Option<(i64, u64)> = None;
        for (cell, _) in neighbours.filter(|(_, rsrp)| *rsrp >= serving + self.hysteresis) {
            let known = self.better.iter().find(|(known, _)| *known == cell);
            // A neighbour that was worse in between is not in the list, so that its time starts
            // anew.
            let since = known.map_or(now_ms, |(_, since)| *since);
            better.push((cell, since));
            let at = (since + self.time_to_trigger_ms).max(now_ms);
            // The earliest within the step: with steps of 10 ms the report is still exact to 1 ms.
            if at < until_ms && reported.is_none_or(|(_, earliest)| at < earliest) {
                reported = Some((cell, at));
            }
        }
        self.better = better;
        reported
    }

    /// Forgets all conditions: the serving cell is another one.
    pub fn reset(&mut self) {
        self.better.clear();
    }
}

/// Radio link failure by T310 (3GPP TS 36.331, section 5.3.11).
#[derive(Debug, Clone)]
pub struct LinkMonitor {
    out_of_sync: f64,
    in_sync: f64,
    t310_ms: u64,
    /// Since when T310 runs.
    running: Option<u64>,
}

impl LinkMonitor {
    /// With the thresholds in dB and T310 in milliseconds.
    pub fn new(out_of_sync: f64, in_sync: f64, t310_ms: u64) -> Self {
        Self { out_of_sync, in_sync, t310_ms, running: None }
    }

    /// The SINR in dB at `now_ms`. Returns whether the link has failed.
    pub fn update(&mut self, now_ms: u64, sinr: f64) -> bool {
        if sinr > self.in_sync {
            self.running = None;
        // Between the two thresholds T310 goes on as it was.
        } else if sinr < self.out_of_sync {
            self.running = self.running.or(Some(now_ms));
        }
        self.running.is_some_and(|since| now_ms - since >= self.t310_ms)
    }

    /// Stops T310: the cell is another one.
    pub fn reset(&mut self) {
        self.running = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports while the serving cell falls and a neighbour rises by 1 dB per 100 ms.
    fn report(step_ms: u64) -> (i64, u64) {
        let mut a3 = EventA3::new(3.0, 256);
        let mut now = 0;
        loop {
            let rise = now as f64 / 100.0;
            if let Some(report) = a3.update((now, now + step_ms), -rise, [(1, rise)].into_iter()) {
                return report;
            }
            now += step_ms;
        }
    }

    #[test]
    fn radio_g4_a3_without_filter() {
        // The condition holds from 150 ms on.
        assert_eq!(report(1), (1, 406));
        assert_eq!(report(10), (1, 406));
    }

    #[test]
    fn a_neighbour_that_falls_back_starts_anew() {
        let mut a3 = EventA3::new(3.0, 256);
        let mut at = |now: u64, rsrp: f64| a3.update((now, now + 10), 0.0, [(1, rsrp)].into_iter());
        assert_eq!(at(0, 4.0), None);
        assert_eq!(at(100, 2.9), None);
        assert_eq!(at(110, 3.0), None);
        assert_eq!(at(256, 3.0), None);
        assert_eq!(at(360, 3.0), Some((1, 366)));
    }

    #[test]
    fn weights_of_the_filter() {
        assert!((filter_weight(4) - 0.5).abs() < 1e-12);
        assert_eq!(filter_weight(0), 1.0);
    }

    #[test]
    fn a_link_fails_after_t310_unless_it_recovers() {
        let mut monitor = LinkMonitor::new(-8.0, -6.0, 1000);
        assert!(!monitor.update(0, -9.0));
        assert!(!monitor.update(990, -7.0), "between the thresholds T310 goes on");
        assert!(monitor.update(1000, -7.0));
        assert!(!monitor.update(1010, -5.0));
        assert!(!monitor.update(1020, -9.0));
        assert!(!monitor.update(2010, -9.0));
    }
}
