//! What the figures are in a run, whether it was real or simulated.

use cellpace_measure::jain_index;
use cellpace_report::Run;

use crate::Figure;
use crate::scenario::{Fetch, Sender, Trial};

/// The share of the link that counts as being back.
const RECOVERED: f64 = 0.8;
/// The time over which that is looked at, in seconds.
const RECOVERY_WINDOW_S: f64 = 0.5;

impl Figure {
    /// Returns its value in a run of `trial`; `None` where the run does not have it: nothing was
    /// delivered, the link was never full again, or the flows are not those of the scenario.
    pub fn of(self, trial: &Trial, run: &Run) -> Option<f64> {
        let figures = &run.figures;
        if figures.packets == 0 {
            return None;
        }
        match self {
            Self::Utilization => Some(100.0 * figures.utilization),
            Self::Delivered => delivered(trial, run),
            Self::QueueP95 => Some(figures.queue_delay_ms.p95),
            Self::Loss => {
                let came = figures.packets + figures.lost;
                Some(100.0 * figures.lost as f64 / came as f64)
            }
            Self::Recovery => recovery(trial, run),
            Self::Share => share(trial, run),
            Self::Jain => rates(trial, run).map(|rates| jain_index(&rates)),
            Self::RateRatio => {
                rates(trial, run).filter(|rates| rates[1] > 0.0).map(|rates| rates[0] / rates[1])
            }
            Self::Completion => completion(trial, run),
        }
    }
}

fn fetch(trial: &Trial) -> Option<Fetch> {
    trial.flows.iter().find_map(|flow| flow.fetch)
}

fn delivered(trial: &Trial, run: &Run) -> Option<f64> {
    let fetch = fetch(trial).filter(Fetch::is_kept)?;
    // Another connection for each piece would be another question.
    if run.figures.per_flow.iter().filter(|flow| flow.throughput_mbps > 0.0).count() != 1 {
        return None;
    }
    let asked = fetch.bytes as f64 * 8.0 / 1e6 / fetch.every.as_secs_f64();
    // What leaves the link has headers as well, some 4 %.
    Some((100.0 * run.figures.throughput_mbps / asked).min(100.0))
}

/// From the event to the first window from then on in which enough of the link is used.
fn recovery(trial: &Trial, run: &Run) -> Option<f64> {
    let series = run.series.as_ref()?;
    let width = (RECOVERY_WINDOW_S / series.bin_s).round().max(1.0) as usize;
    let first = (trial.at.as_secs_f64() / series.bin_s).round() as usize;
    let bins = series.throughput_mbps.len().min(series.capacity_mbps.len());
    let sum = |values: &[f32], from: usize| -> f64 {
        values[from..from + width].iter().map(|value| f64::from(*value)).sum()
    };
    let is_back = |from: &usize| {
        let offered = sum(&series.capacity_mbps, *from);
        offered > 0.0 && sum(&series.throughput_mbps, *from) >= RECOVERED * offered
    };
    let back = (first..(bins + 1).saturating_sub(width)).find(is_back)?;
    Some((back - first) as f64 * series.bin_s)
}

/// The rates of the flows of a scenario, in the order of their starts.
fn rates(trial: &Trial, run: &Run) -> Option<Vec<f64>> {
    let rates = run.figures.per_flow.iter().map(|flow| flow.throughput_mbps);
    let rates: Vec<f64> = rates.filter(|rate| *rate > 0.0).collect();
    (rates.len() == trial.flows.len()).then_some(rates)
}

/// What the first flow left of the link, which is the kernel's Cubic.
fn share(trial: &Trial, run: &Run) -> Option<f64> {
    let rival = trial.flows.iter().position(|flow| flow.who == Sender::Cubic)?;
    let rates: Vec<f64> = run.figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect();
    let (all, rival) = (rates.iter().sum::<f64>(), *rates.get(rival)?);
    (all > 0.0).then(|| 100.0 * (1.0 - rival / all))
}

fn completion(trial: &Trial, run: &Run) -> Option<f64> {
    let fetch = fetch(trial)?;
    let mut times: Vec<f64> = match run.transfers.is_empty() {
        // A packet leaves a real link an RTT after the client has opened the connection.
        true => {
            let bulk = trial.flows.iter().filter(|flow| flow.fetch.is_none()).count();
            let short = run.figures.per_flow.iter().skip(bulk);
            short.map(|flow| (flow.stop_s - flow.start_s) * 1e3 + run.rtt_ms).collect()
        }
        false => run.transfers.iter().filter_map(|transfer| transfer.completion_ms).collect(),
    };
    if times.len() as u64 != fetch.count {
        return None;
    }
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{reference, trials};
    use cellpace_base::Span;

    fn trial(name: &str) -> Trial {
        trials().into_iter().find(|trial| trial.name == name).unwrap()
    }

    fn simulated(trial: &Trial, cc: &str) -> Run {
        reference(&[trial], &[cc.parse().unwrap()], &mut ()).unwrap().remove(0).remove(0)
    }

    #[test]
    fn every_figure_of_every_scenario_has_a_value_under_cubic() {
        let trials = trials();
        let all: Vec<&Trial> = trials.iter().collect();
        let runs = reference(&all, &["cubic".parse().unwrap()], &mut ()).unwrap();
        for (trial, runs) in trials.iter().zip(&runs) {
            for check in &trial.checks {
                let value = check.figure.of(trial, &runs[0]);
                assert!(value.is_some_and(f64::is_finite), "{}: {:?}", trial.name, check.figure);
            }
        }
    }

    #[test]
    fn recovery_counts_from_the_event_to_the_first_full_window() {
        let outage = trial("outage");
        let mut run = simulated(&outage, "cubic");
        let series = run.series.as_mut().unwrap();
        assert_eq!(series.bin_s, 0.1);
        // Back at 8.2 s, with a burst of 0.2 s before that.
        for (bin, value) in series.throughput_mbps.iter_mut().enumerate() {
            *value = if (72..74).contains(&bin) || bin >= 82 { 12.0 } else { 0.0 };
        }
        // A window that begins 0.1 s earlier is full to 80 %.
        let value = Figure::Recovery.of(&outage, &run).unwrap();
        assert!((value - 1.1).abs() < 1e-9, "{value}");
        run.series.as_mut().unwrap().throughput_mbps.fill(1.0);
        assert_eq!(Figure::Recovery.of(&outage, &run), None);
    }

    #[test]
    fn shares_ratios_and_jain_are_of_the_flows_of_the_scenario() {
        let against = trial("against-cubic");
        let mut run = simulated(&against, "cubic");
        run.figures.per_flow[0].throughput_mbps = 9.0;
        run.figures.per_flow[1].throughput_mbps = 3.0;
        assert_eq!(Figure::Share.of(&against, &run), Some(25.0));
        assert_eq!(Figure::RateRatio.of(&against, &run), Some(3.0));
        // (9 + 3)^2 / (2 (81 + 9))
        assert_eq!(Figure::Jain.of(&against, &run), Some(0.8));
        run.figures.per_flow.pop();
        assert_eq!(Figure::Jain.of(&against, &run), None);
    }

    #[test]
    fn completion_is_a_median_of_as_many_as_were_asked_for() {
        let short = trial("short-flows");
        let mut run = simulated(&short, "cubic");
        let value = Figure::Completion.of(&short, &run).unwrap();
        assert!((200.0..400.0).contains(&value), "{value}");
        run.transfers.pop();
        assert_eq!(Figure::Completion.of(&short, &run), None);
        // A real run knows connections only.
        let one = run.figures.per_flow[0].clone();
        run.transfers.clear();
        run.figures.per_flow = vec![one; 8];
        for (flow, n) in run.figures.per_flow.iter_mut().zip(0..) {
            flow.start_s = f64::from(n);
            flow.stop_s = flow.start_s + 0.2 + 0.01 * f64::from(n);
        }
        let value = Figure::Completion.of(&short, &run).unwrap();
        assert!((value - 280.0).abs() < 1e-6, "{value}");
    }

    #[test]
    fn nothing_delivered_has_no_figures() {
        let steady = trial("steady");
        let mut run = simulated(&steady, "cubic");
        assert!(Figure::Utilization.of(&steady, &run).unwrap() > 90.0);
        run.figures.packets = 0;
        assert_eq!(Figure::Utilization.of(&steady, &run), None);
        assert_eq!(steady.at, Span::ZERO);
    }
}
