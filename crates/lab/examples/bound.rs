//! How good a sender could be that knows the statistics of a trace, but not its future
//! (docs/spec/pace.md, section 1):
//!
//! ```text
//! cargo run --release -p cellpace-lab --no-default-features --example bound TRACE...
//! ```
//!
//! For each Mahimahi file: the smallest p95 of the queue delay at some utilizations, of windows that
//! are chosen by what the link delivered in the last 400 ms, as known one base RTT of 40 ms later.
//! The choice is made with the statistics of the whole file, and counts as if the link were never
//! idle, so a sender that has to learn them gets less.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fs;

/// Half of the base RTT in ms.
const HALF: usize = 20;
const SEEN: usize = 400;
const STATES_PER_E: f64 = 7.0;
const LIMITS_MS: [usize; 9] = [15, 20, 30, 40, 50, 70, 100, 150, 200];
const PRICES: [f64; 6] = [0.1, 0.2, 0.4, 0.7, 1.0, 2.0];
const UTILIZATIONS: [f64; 5] = [0.90, 0.93, 0.95, 0.97, 0.98];
const SECONDS: usize = 120;
/// Left out of the figures at the start, in ms.
const SKIP: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let shares = UTILIZATIONS.map(|share| format!("{:>6.0} %", share * 100.0));
    println!("{:28}{}", "p95 in ms at", shares.concat());
    for file in std::env::args().skip(1) {
        let delivered = cumulative(&fs::read_to_string(&file)?);
        let mut points = Vec::new();
        for limit in LIMITS_MS {
            for price in PRICES {
                points.push(run(&delivered, &windows(&delivered, limit, price)));
            }
        }
        let row = UTILIZATIONS.map(|share| match smallest_delay(&points, share) {
            Some(p95) => format!("{p95:>8.0}"),
            None => format!("{:>8}", "-"),
        });
        println!("{:28}{}", file.rsplit('/').next().unwrap_or(&file), row.concat());
    }
    Ok(())
}

/// Opportunities before each millisecond.
fn cumulative(text: &str) -> Vec<usize> {
    let end = 1000 * SECONDS;
    let mut before = vec![0; end + 1];
    let times = text.lines().filter_map(|line| line.trim().parse::<usize>().ok());
    for at in times.take_while(|at| *at < end) {
        before[at + 1] += 1;
    }
    for at in 0..end {
        before[at + 1] += before[at];
    }
    before
}

/// The window of each millisecond: as many packets as it takes for the next to be worth its price,
/// in each state of what was seen.
fn windows(delivered: &[usize], limit: usize, price: f64) -> Vec<u64> {
    let last = delivered.len() - 1;
    let between = |from: usize, to: usize| delivered[to.min(last)] - delivered[from.min(last)];
    let state = |at: usize| {
        let known = at.saturating_sub(2 * HALF);
        let seen = between(known.saturating_sub(SEEN), known);
        ((seen as f64 + 1.0).ln() * STATES_PER_E) as usize
    };
    // What the link can take in a base RTT, and until the limit.
    let mut states: HashMap<usize, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for at in (2 * HALF + SEEN)..(last - limit) {
        let (soon, later) = states.entry(state(at)).or_default();
        soon.push(between(at - 2 * HALF, at));
        later.push(between(at - 2 * HALF, at + limit));
    }
    let chosen: HashMap<usize, u64> = states
        .into_iter()
        .map(|(state, (soon, later))| (state, choose(soon, later, price)))
        .collect();
    (0..last).map(|at| chosen.get(&state(at)).copied().unwrap_or(2).max(1)).collect()
}

/// The smallest F at which P(soon >= F) is no more than `price` times P(later < F).
fn choose(mut soon: Vec<usize>, mut later: Vec<usize>, price: f64) -> u64 {
    soon.sort_unstable();
    later.sort_unstable();
    let most = soon.last().copied().unwrap_or(0);
    let enough = (1..=most).find(|packets| {
        let idle = soon.len() - soon.partition_point(|count| count < packets);
        let late = later.partition_point(|count| count < packets);
        idle as f64 <= price * late as f64
    });
    enough.unwrap_or(most + 1) as u64
}

/// Utilization, and p95 of the queue delay in ms, of a sender with these windows over a queue
/// without an end. In steps of a millisecond.
fn run(delivered: &[usize], windows: &[u64]) -> (f64, f64) {
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut left: VecDeque<usize> = VecDeque::new();
    let (mut delays, mut offered) = (Vec::new(), 0);
    for (now, window) in windows.iter().enumerate() {
        // Those that left a base RTT ago are known to have done so.
        while left.front().is_some_and(|at| at + 2 * HALF <= now) {
            left.pop_front();
        }
        while ((queue.len() + left.len()) as u64) < *window {
            queue.push_back(now);
        }
        let counts = now >= SKIP;
        let opportunities = delivered[now + 1] - delivered[now];
        offered += if counts { opportunities } else { 0 };
        for sent_at in queue.drain(..opportunities.min(queue.len())) {
            left.push_back(now);
            if counts {
                delays.push(now - sent_at);
            }
        }
    }
    delays.sort_unstable();
    let p95 = delays.get(delays.len() * 95 / 100).copied().unwrap_or(0);
    (delays.len() as f64 / offered.max(1) as f64, p95 as f64)
}

/// The p95 on the line between the points that no other beats in both.
fn smallest_delay(points: &[(f64, f64)], share: f64) -> Option<f64> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut above: Option<(f64, f64)> = None;
    for point in sorted {
        match above {
            Some(kept) if point.1 >= kept.1 => {}
            Some(kept) if point.0 < share => {
                let part = (share - point.0) / (kept.0 - point.0);
                return Some(point.1 + part * (kept.1 - point.1));
            }
            None if point.0 < share => return None,
            _ => above = Some(point),
        }
    }
    above.map(|kept| kept.1)
}
