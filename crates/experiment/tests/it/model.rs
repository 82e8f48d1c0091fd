//! A small model of a shared link with known truth: slots whose load drifts, effects that outlast a
//! slot's border, connections that differ.

use cellpace_base::Random;
use cellpace_base::math::exp;
use cellpace_experiment::ConnectionRecord;

/// What the model is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) slots: u64,
    pub(crate) connections: u64,
    /// Natural logarithm of the ratio of the delays of the second arm and of the first.
    pub(crate) effect: f64,
    /// Share of a slot in which the effect of the slot before lasts.
    pub(crate) carry_over: f64,
    /// Share of a slot that is marked as washout.
    pub(crate) washout: f64,
}

/// Median delay of the first arm in ms.
pub(crate) const MEDIAN_MS: f64 = 50.0;

impl Model {
    /// The connections of a run; each slot's arm is drawn.
    pub(crate) fn run(self, seed: u64) -> Vec<ConnectionRecord> {
        let mut random = Random::seeded(seed, 0);
        let mut records = Vec::new();
        let (mut load, mut before) = (random.normal() * 0.3, random.below(2));
        for slot in 0..self.slots {
            // Autoregressive with a coefficient of 0.6: neighbours are alike.
            load = 0.6 * load + 0.8 * 0.3 * random.normal();
            let arm = random.below(2);
            // As many on the average, and no slot like another.
            let count = self.connections / 2 + random.below(self.connections + 1);
            for _ in 0..count {
                let at = random.unit();
                let acting = if at < self.carry_over { before } else { arm };
                let effect = if acting == 1 { self.effect } else { 0.0 };
                let delay = MEDIAN_MS * exp(load + effect + 0.7 * random.normal());
                let is_error = random.unit() < 0.02;
                records.push(ConnectionRecord {
                    arm: ["plain", "pace"][arm as usize].to_owned(),
                    slot,
                    client: random.below(500).to_string(),
                    start_s: (slot as f64 + at) * 600.0,
                    outcome: if is_error { "reset" } else { "finished" }.to_owned(),
                    washout: at < self.washout,
                    queue_delay_p50_ms: Some(delay),
                    queue_delay_p95_ms: Some(delay * 2.0),
                    goodput_mbps: Some(100.0 / delay),
                    tcp_sent_bytes: 1_000_000,
                    retransmitted_bytes: (10_000.0 * exp(load)) as u64,
                    ..ConnectionRecord::default()
                });
            }
            before = arm;
        }
        records
    }
}
