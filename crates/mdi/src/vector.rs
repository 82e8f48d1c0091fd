//! Test vectors: the same table and the same events must give the same windows and releases in every
//! runtime.

use crate::{Draws, Flat, WindowQ16};

/// One event of a test vector, and what there is after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorStep {
    /// What happens.
    pub event: VectorEvent,
    /// The window after it.
    pub window: WindowQ16,
    /// Packets that may leave after it.
    pub credit: u32,
}

/// What can happen to a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorEvent {
    /// An epoch: a [step](crate::TableWalk::step) and a [release](crate::TableWalk::release).
    Epoch {
        /// The delay in microseconds.
        delay_us: u32,
        /// Whether there was an ack.
        acked: bool,
        /// Packets of the credit that have left since the event before.
        sent: u32,
        /// Packets in flight.
        in_flight: u32,
        /// Epochs in a round trip.
        epochs: u32,
    },
    /// The window is set from outside, as losses and timeouts do.
    Set {
        /// The new window.
        window: WindowQ16,
        /// Whether the change that led to it is forgotten.
        forget: bool,
    },
}

/// Makes a vector of as many events. Delays wander as on a cellular link, jump at times, and acks
/// stay out now and then; the sender mostly has data.
pub fn test_vector(flat: &Flat, seed: u64, steps: usize) -> Vec<VectorStep> {
    let mut walk = flat.clone().walk(seed);
    let mut draws = Draws::seeded(seed ^ 0x7665_6374_6f72);
    let (mut delay_us, mut credit): (u32, u32) = (40_000, 0);
    let mut step = |_| {
        let event = draw_event(&mut draws, &mut delay_us, walk.window(), credit);
        match event {
            VectorEvent::Epoch { delay_us, acked, sent, in_flight, epochs } => {
                walk.step(delay_us, acked);
                credit = walk.release(credit - sent, in_flight, epochs);
            }
            VectorEvent::Set { window, forget } => walk.set_window(window, forget),
        }
        VectorStep { event, window: walk.window(), credit }
    };
    (0..steps).map(&mut step).collect()
}

fn draw_event(
    draws: &mut Draws,
    delay_us: &mut u32,
    window: WindowQ16,
    credit: u32,
) -> VectorEvent {
    let [kind, size] = [draws.bits() % 64, draws.bits()];
    let (delay_us, acked) = match kind {
        0 => return VectorEvent::Set { window: size >> 6, forget: size % 2 == 1 },
        1 => (size >> 8, true),
        2..8 => (*delay_us + size % 60_000, false),
        _ => {
            let drift = *delay_us / 20 + 1;
            *delay_us = (*delay_us - drift / 2 + size % drift).clamp(10_000, 2_000_000);
            (*delay_us, true)
        }
    };
    let [sent, in_flight, epochs] = [0; 3].map(|_: u32| draws.bits());
    VectorEvent::Epoch {
        delay_us,
        acked,
        // A sender without data leaves a part of the credit.
        sent: if sent % 8 == 0 { (sent >> 3) % (credit + 1) } else { credit },
        in_flight: in_flight % ((window >> 16) * 5 / 4 + 2),
        epochs: epochs % 40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Axis, Counts, Empty, OutOfRange, Relative, States, Table, TableShape, TransitionCount,
    };

    #[test]
    fn a_test_vector_visits_everything() {
        let axis = |name, end: i64| Axis::new(name, -end, end, 2000).unwrap();
        let (d, w) = (axis("delay", 10_000), axis("window", 20_000));
        let cell = |from, to, count| TransitionCount { from, to, count };
        let cells = (0..231).flat_map(|s| [cell(s, s, 5), cell(s, (s * 7) % 231, 2)]);
        let counts = Counts::from_cells(cells.collect());
        let flat = Flat {
            table: Table::new(States::Relative(Relative { d, w }), &counts, TableShape::default()),
            epoch_us: 5000,
            empty: Empty::Near,
            out_of_range: OutOfRange::default(),
            loss_factor: 45_875,
        };
        let vector = test_vector(&flat, 1, 2000);
        let is_set = |step: &VectorStep| matches!(step.event, VectorEvent::Set { .. });
        assert!(vector.iter().filter(|step| is_set(step)).count() > 10);
        assert_eq!(vector, test_vector(&flat, 1, 2000));
        let mut windows: Vec<_> = vector.iter().map(|step| step.window).collect();
        windows.sort_unstable();
        windows.dedup();
        assert!(windows.len() > 200, "{}", windows.len());
    }
}
