//! What mvfst-rl collects at each ack and loss, and summarises per step.

use cellpace_base::Span;

use crate::{Ack, Loss, SentPacket};

/// Fields of a state of the transport.
pub(super) const FIELDS: usize = 20;

/// Rows of a summary: sum, mean, standard deviation, minimum, maximum.
pub(super) const ROWS: usize = 5;

/// Unit of times in the fields (`norm_ms` of mvfst-rl).
const NORM_MS: f64 = 100.0;
/// Unit of sizes in the fields (`norm_bytes` of mvfst-rl).
pub(super) const NORM_BYTES: f64 = 1000.0;

/// Fields whose sum means nothing and is 0 (`stateSummary` of mvfst-rl): RTTs, window, flight.
const FIELDS_WITHOUT_SUM: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

/// The states of one step, summed up. A state is taken at each ack and at each loss, with the
/// fields of `NetworkState::Field` of mvfst-rl in their order:
///
/// | | field | unit |
/// |---|---|---|
/// | 0 | least RTT of the connection | 100 ms |
/// | 1 | standing RTT, here the least of the step | 100 ms |
/// | 2, 3, 4 | latest RTT, smoothed RTT, its variation | 100 ms |
/// | 5 | delay: latest less least RTT | 100 ms |
/// | 6, 7, 8 | window, in flight, what the window still permits | 1000 B |
/// | 9, 10, 11 | sent, received (0: data goes one way), sent again, since the last state | 1000 B |
/// | 12, 13 | timeouts in a row, timeouts since the last state | |
/// | 14, 15 | packets sent again, and those by timeouts, since the last state | |
/// | 16 | acknowledged | 1000 B |
/// | 17 | throughput: window over standing RTT | 1000 B per 100 ms |
/// | 18 | lost | 1000 B |
/// | 19 | persistent congestion (0: not declared here) | |
#[derive(Debug, Clone)]
pub(super) struct SignalStatistics {
    states: f64,
    sum: [f64; FIELDS],
    squares: [f64; FIELDS],
    min: [f64; FIELDS],
    max: [f64; FIELDS],
    standing: Option<Span>,
    sent: f64,
    sent_again: f64,
    packets_again: f64,
    packets_after_timeout: f64,
    timeouts: f64,
    in_a_row: f64,
}

impl Default for SignalStatistics {
    fn default() -> Self {
        Self {
            states: 0.0,
            sum: [0.0; FIELDS],
            squares: [0.0; FIELDS],
            min: [f64::INFINITY; FIELDS],
            max: [f64::NEG_INFINITY; FIELDS],
            standing: None,
            sent: 0.0,
            sent_again: 0.0,
            packets_again: 0.0,
            packets_after_timeout: 0.0,
            timeouts: 0.0,
            in_a_row: 0.0,
        }
    }
}

fn in_norm_ms(span: Span) -> f64 {
    span.as_millis_f64() / NORM_MS
}

impl SignalStatistics {
    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        self.sent += packet.bytes as f64;
        if packet.retransmission {
            self.sent_again += packet.bytes as f64;
            self.packets_again += 1.0;
            self.packets_after_timeout += f64::from(u8::from(self.in_a_row > 0.0));
        }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, window: u64) {
        self.in_a_row = 0.0;
        let standing = self.standing.map_or(ack.min_rtt(), |before| before.min(ack.min_rtt()));
        self.standing = Some(standing);
        let mut state = self.state(window, ack.in_flight, ack.rtt);
        state[16] = ack.bytes() as f64 / NORM_BYTES;
        state[17] = state[6] / in_norm_ms(standing).max(1e-6);
        self.take(&state);
    }

    pub(super) fn on_loss(&mut self, loss: &Loss<'_>, window: u64) {
        let mut state = self.state(window, loss.in_flight, loss.rtt);
        state[18] = loss.bytes() as f64 / NORM_BYTES;
        self.take(&state);
    }

    pub(super) fn on_timeout(&mut self) {
        self.timeouts += 1.0;
        self.in_a_row += 1.0;
    }

    fn state(&mut self, window: u64, in_flight: u64, rtt: &crate::RttEstimator) -> [f64; FIELDS] {
        let least = rtt.minimum().unwrap_or(Span::ZERO);
        let latest = rtt.latest().max(least);
        let count = |value: &mut f64| std::mem::take(value);
        let mut state = [0.0; FIELDS];
        state[0] = in_norm_ms(least);
        state[1] = in_norm_ms(self.standing.unwrap_or(least));
        state[2] = in_norm_ms(latest);
        state[3] = in_norm_ms(rtt.smoothed().unwrap_or(Span::ZERO));
        state[4] = in_norm_ms(rtt.variation());
        state[5] = in_norm_ms(latest - least);
        state[6] = window as f64 / NORM_BYTES;
        state[7] = in_flight as f64 / NORM_BYTES;
        state[8] = window.saturating_sub(in_flight) as f64 / NORM_BYTES;
        state[9] = count(&mut self.sent) / NORM_BYTES;
        state[11] = count(&mut self.sent_again) / NORM_BYTES;
        state[12] = self.in_a_row;
        state[13] = count(&mut self.timeouts);
        state[14] = count(&mut self.packets_again);
        state[15] = count(&mut self.packets_after_timeout);
        state
    }

    fn take(&mut self, state: &[f64; FIELDS]) {
        self.states += 1.0;
        for (field, value) in state.iter().enumerate() {
            self.sum[field] += value;
            self.squares[field] += value * value;
            self.min[field] = self.min[field].min(*value);
            self.max[field] = self.max[field].max(*value);
        }
    }

    /// The rows of the step, all zero without a state; the deviation is the corrected one
    /// (`torch::std_mean(unbiased)`).
    pub(super) fn summary(&self) -> [[f64; FIELDS]; ROWS] {
        let mut rows = [[0.0; FIELDS]; ROWS];
        if self.states == 0.0 {
            return rows;
        }
        for (field, sum) in self.sum.iter().enumerate() {
            let mean = sum / self.states;
            let spread = (self.squares[field] - sum * mean).max(0.0);
            rows[0][field] = *sum;
            rows[1][field] = mean;
            rows[2][field] = (spread / (self.states - 1.0).max(1.0)).sqrt();
            rows[3][field] = self.min[field];
            rows[4][field] = self.max[field];
        }
        FIELDS_WITHOUT_SUM.iter().for_each(|field| rows[0][*field] = 0.0);
        rows
    }

    pub(super) fn begin(&mut self) {
        *self = Self {
            sent: self.sent,
            sent_again: self.sent_again,
            packets_again: self.packets_again,
            packets_after_timeout: self.packets_after_timeout,
            timeouts: self.timeouts,
            in_a_row: self.in_a_row,
            ..Self::default()
        };
    }
}
