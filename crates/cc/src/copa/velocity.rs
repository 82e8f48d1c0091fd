//! How fast Copa's window moves (spec section 6): the paper's rule and the original code's.

use crate::{Span, Time};

/// The velocity `v`, at least 1.
pub(super) struct Velocity {
    value: u64,
    capped: bool,
    rule: Rule,
}

enum Rule {
    PaperVelocity(PaperVelocity),
    CodeVelocity(CodeVelocity),
}

/// Doubles after some windows of net movement in one direction.
struct PaperVelocity {
    direction: Option<WindowDirection>,
    same: u64,
    window_start: u64,
    /// The ack of this packet or a later one ends the current window.
    window_end: Option<u64>,
}

/// Doubles from the first RTT of net movement in one direction.
struct CodeVelocity {
    direction: WindowDirection,
    /// Increases minus decreases since the last check.
    net: i64,
    checked_at: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowDirection {
    Up,
    Down,
}

/// Where the flow stands when a packet is acked.
pub(super) struct Moment {
    pub(super) now: Time,
    pub(super) rtt: Span,
    /// In 2^-32 packets.
    pub(super) window: u64,
    /// The acked packet.
    pub(super) number: u64,
    /// The next packet to be sent.
    pub(super) next_number: u64,
}

impl Velocity {
    /// Far above anything of use; keeps the uncapped rule finite.
    const MAX: u64 = 1 << 20;

    /// Windows of net movement in one direction before the paper's rule doubles.
    const WINDOWS: u64 = 3;

    pub(super) fn paper(capped: bool) -> Self {
        let paper = PaperVelocity { direction: None, same: 0, window_start: 0, window_end: None };
        Self { value: 1, capped, rule: Rule::PaperVelocity(paper) }
    }

    pub(super) fn code(capped: bool) -> Self {
        // The net counter starts at 1, so the first check, which comes at once, doubles.
        let code = CodeVelocity { direction: WindowDirection::Up, net: 1, checked_at: None };
        Self { value: 1, capped, rule: Rule::CodeVelocity(code) }
    }

    /// Mid-flight: `value` in `direction`.
    #[cfg(test)]
    pub(super) fn at(value: u64, direction: WindowDirection) -> Self {
        let mut velocity = Self::paper(true);
        velocity.value = value;
        if let Rule::PaperVelocity(paper) = &mut velocity.rule {
            paper.direction = Some(direction);
        }
        velocity
    }

    pub(super) fn restart(&mut self) {
        *self = match &self.rule {
            Rule::PaperVelocity(_) => Self::paper(self.capped),
            Rule::CodeVelocity(_) => Self::code(self.capped),
        };
    }

    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// The velocity for a step of `packets` in `direction`, with `kept` = 1/delta in 2^-16 packets.
    pub(super) fn step(
        &mut self,
        moment: &Moment,
        direction: WindowDirection,
        packets: u64,
        kept: u64,
    ) -> u64 {
        self.value = match &mut self.rule {
            Rule::PaperVelocity(paper) => paper.step(self.value, moment, direction),
            Rule::CodeVelocity(code) => code.step(self.value, moment, direction, packets),
        };
        // Section 6: above W delta it is halved, once per ack.
        if self.capped && self.value * kept > moment.window >> 16 {
            self.value /= 2;
        }
        self.value = self.value.clamp(1, Self::MAX);
        self.value
    }
}

impl PaperVelocity {
    fn step(&mut self, velocity: u64, moment: &Moment, direction: WindowDirection) -> u64 {
        let velocity = self.check(velocity, moment);
        // Section 6: the target crossed over; do not wait for the window to end.
        if self.direction.is_some_and(|known| known != direction) { 1 } else { velocity }
    }

    fn check(&mut self, velocity: u64, moment: &Moment) -> u64 {
        let Some(end) = self.window_end else {
            self.open_window(moment);
            return velocity;
        };
        if moment.number < end {
            return velocity;
        }
        let moved = if moment.window > self.window_start {
            WindowDirection::Up
        } else {
            WindowDirection::Down
        };
        self.open_window(moment);
        if self.direction != Some(moved) {
            self.direction = Some(moved);
            self.same = 0;
            return 1;
        }
        self.same += 1;
        if self.same >= Velocity::WINDOWS { velocity * 2 } else { velocity }
    }

    fn open_window(&mut self, moment: &Moment) {
        self.window_start = moment.window;
        self.window_end = Some(moment.next_number);
    }
}

impl CodeVelocity {
    fn step(
        &mut self,
        velocity: u64,
        moment: &Moment,
        direction: WindowDirection,
        packets: u64,
    ) -> u64 {
        let velocity = self.check(velocity, moment);
        self.net += direction.sign() * packets.cast_signed();
        velocity
    }

    fn check(&mut self, velocity: u64, moment: &Moment) -> u64 {
        if self.checked_at.is_some_and(|at| moment.now <= at + moment.rtt) {
            return velocity;
        }
        self.checked_at = Some(moment.now);
        let kept = self.direction.sign() * self.net > 0;
        self.net = 0;
        if kept {
            return 2 * velocity;
        }
        self.direction = self.direction.reverse();
        1
    }
}

impl WindowDirection {
    fn sign(self) -> i64 {
        match self {
            Self::Up => 1,
            Self::Down => -1,
        }
    }

    fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 40;
    /// So few packets kept that no window is a cap.
    const NO_CAP: u64 = 0;
    const PACKET: u64 = 1 << 32;

    /// Runs whole windows of 10 packets whose window moves as in `moves`; returns the velocity at the
    /// end of each.
    fn run(velocity: &mut Velocity, first: u64, moves: &[WindowDirection]) -> Vec<u64> {
        let mut window = 100 * PACKET;
        let mut seen = Vec::new();
        for (index, direction) in moves.iter().enumerate() {
            for packet in 0..10 {
                let number = (first + index as u64) * 10 + packet;
                let now = Time::from_millis((first + index as u64) * (RTT + 1) + packet);
                let moment = Moment {
                    now,
                    rtt: Span::from_millis(RTT),
                    window,
                    number,
                    next_number: number + 10,
                };
                velocity.step(&moment, *direction, 1, NO_CAP);
                window = window.saturating_add_signed(direction.sign() * PACKET as i64);
            }
            seen.push(velocity.value());
        }
        seen
    }

    #[test]
    fn copa_t11_velocity_of_the_paper() {
        use WindowDirection::{Down, Up};
        let mut velocity = Velocity::paper(true);
        // The first window only opens; its end is the first check.
        let seen = run(&mut velocity, 0, &[Up; 7]);
        assert_eq!(seen[1..], [1, 1, 1, 2, 4, 8]);
        let seen = run(&mut velocity, 7, &[Down]);
        assert_eq!(seen, [1]);
    }

    #[test]
    fn copa_t11_velocity_of_the_code() {
        use WindowDirection::{Down, Up};
        let mut velocity = Velocity::code(true);
        assert_eq!(run(&mut velocity, 0, &[Up; 4]), [2, 4, 8, 16]);
        // A window down is seen at the next check.
        assert_eq!(run(&mut velocity, 4, &[Down, Down, Down]), [32, 1, 2]);
    }

    #[test]
    fn copa_t11_a_crossed_target_resets_at_once() {
        let mut velocity = Velocity::paper(true);
        run(&mut velocity, 0, &[WindowDirection::Up; 7]);
        let moment = Moment {
            now: Time::from_secs(1),
            rtt: Span::from_millis(RTT),
            window: 200 * PACKET,
            number: 70,
            next_number: 80,
        };
        assert_eq!(velocity.step(&moment, WindowDirection::Down, 1, NO_CAP), 1);
    }

    #[test]
    fn the_uncapped_velocity_stays_finite() {
        let mut velocity = Velocity::code(false);
        let seen = run(&mut velocity, 0, &[WindowDirection::Up; 100]);
        assert_eq!(seen.last(), Some(&Velocity::MAX));
    }
}
