//! Long-term bandwidth: a token-bucket policer lets a burst through at line rate and then drops
//! at its own. Two stretches of heavy loss with the same delivery rate give it away (Linux 4.9).

use crate::Time;

/// Recognises a policer.
#[derive(Debug, Clone, Default)]
pub(super) struct Policer {
    /// The rate of the last stretch, bytes per second.
    rate: Option<u64>,
    /// Rounds with `rate` in use.
    in_use: Option<u64>,
    stretch: Option<LossyStretch>,
}

#[derive(Debug, Clone)]
struct LossyStretch {
    since: Time,
    delivered: u64,
    lost: u64,
    rounds: u64,
}

/// The flow's counters at an ack.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryProgress {
    pub(super) now: Time,
    /// Bytes delivered so far.
    pub(super) delivered: u64,
    /// Bytes lost so far.
    pub(super) lost: u64,
    /// Whether something was lost since the last ack.
    pub(super) lossy: bool,
    /// Whether the ack begins a round.
    pub(super) round_start: bool,
    pub(super) app_limited: bool,
    /// Whether the flow is in PROBE_BW.
    pub(super) probing: bool,
}

/// What an ack changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicerVerdict {
    Same,
    /// A policer was found; its rate is in use now.
    Found,
    /// The rate was used long enough; look for more bandwidth again.
    Over,
}

impl Policer {
    const MIN_ROUNDS: u64 = 4;
    const MAX_ROUNDS: u64 = 16;
    const ROUNDS_IN_USE: u64 = 48;
    /// 50/256 of what was delivered.
    const LOSS_SHARE: f64 = 50.0 / 256.0;
    /// Two rates agree within this share of the older one, or within 4 kbit/s.
    const RATE_SHARE: f64 = 1.0 / 8.0;
    const RATE_BYTES: f64 = 4000.0 / 8.0;

    /// The policer's rate in bytes per second, while it is in use.
    pub(super) fn rate(&self) -> Option<u64> {
        self.in_use.and(self.rate)
    }

    pub(super) fn on_ack(&mut self, tally: &DeliveryProgress) -> PolicerVerdict {
        if self.in_use.is_some() {
            return self.count_use(tally);
        }
        let Some(stretch) = &mut self.stretch else {
            // The first loss shows that the bucket is empty.
            self.stretch = tally.lossy.then(|| LossyStretch::starting(tally));
            return PolicerVerdict::Same;
        };
        stretch.rounds += u64::from(tally.round_start);
        if tally.app_limited || stretch.rounds > Self::MAX_ROUNDS {
            *self = Self::default();
            return PolicerVerdict::Same;
        }
        if stretch.rounds < Self::MIN_ROUNDS || !tally.lossy {
            return PolicerVerdict::Same;
        }
        match stretch.policed_rate(tally) {
            Some(rate) => self.end_stretch(rate, tally),
            None => PolicerVerdict::Same,
        }
    }

    fn count_use(&mut self, tally: &DeliveryProgress) -> PolicerVerdict {
        let Some(rounds) = self.in_use.as_mut().filter(|_| tally.probing && tally.round_start)
        else {
            return PolicerVerdict::Same;
        };
        *rounds += 1;
        if *rounds < Self::ROUNDS_IN_USE {
            return PolicerVerdict::Same;
        }
        *self = Self::default();
        PolicerVerdict::Over
    }

    fn end_stretch(&mut self, rate: u64, tally: &DeliveryProgress) -> PolicerVerdict {
        let agreed = self.rate.filter(|old| agree(*old, rate));
        if let Some(old) = agreed {
            self.rate = Some(old.midpoint(rate));
            self.in_use = Some(0);
            self.stretch = None;
            return PolicerVerdict::Found;
        }
        self.rate = Some(rate);
        self.stretch = Some(LossyStretch::starting(tally));
        PolicerVerdict::Same
    }
}

impl LossyStretch {
    fn starting(tally: &DeliveryProgress) -> Self {
        Self { since: tally.now, delivered: tally.delivered, lost: tally.lost, rounds: 0 }
    }

    /// The rate since the stretch began, if enough was lost for a policer.
    fn policed_rate(&self, tally: &DeliveryProgress) -> Option<u64> {
        let delivered = tally.delivered.saturating_sub(self.delivered) as f64;
        let lost = tally.lost.saturating_sub(self.lost) as f64;
        let seconds = (tally.now - self.since).as_secs_f64();
        if delivered == 0.0 || lost < Policer::LOSS_SHARE * delivered || seconds < 0.001 {
            return None;
        }
        Some((delivered / seconds) as u64)
    }
}

fn agree(old: u64, new: u64) -> bool {
    let difference = old.abs_diff(new) as f64;
    difference <= Policer::RATE_SHARE * old as f64 || difference <= Policer::RATE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round per step of 100 ms: `delivered` and `lost` bytes in it.
    fn rounds(
        policer: &mut Policer,
        tally: &mut DeliveryProgress,
        count: u64,
        bytes: (u64, u64),
    ) -> PolicerVerdict {
        let mut verdict = PolicerVerdict::Same;
        for _ in 0..count {
            tally.now += crate::Span::from_millis(100);
            tally.delivered += bytes.0;
            tally.lost += bytes.1;
            tally.lossy = bytes.1 > 0;
            verdict = policer.on_ack(tally);
            if verdict != PolicerVerdict::Same {
                break;
            }
        }
        verdict
    }

    fn tally() -> DeliveryProgress {
        DeliveryProgress {
            now: Time::ZERO,
            delivered: 0,
            lost: 0,
            lossy: false,
            round_start: true,
            app_limited: false,
            probing: true,
        }
    }

    #[test]
    fn two_lossy_stretches_of_one_rate_are_a_policer_for_48_rounds() {
        let (mut policer, mut tally) = (Policer::default(), tally());
        assert_eq!(rounds(&mut policer, &mut tally, 8, (10_000, 3_000)), PolicerVerdict::Same);
        assert_eq!(rounds(&mut policer, &mut tally, 1, (10_000, 3_000)), PolicerVerdict::Found);
        assert_eq!(policer.rate(), Some(100_000));
        assert_eq!(rounds(&mut policer, &mut tally, 47, (10_000, 0)), PolicerVerdict::Same);
        assert_eq!(rounds(&mut policer, &mut tally, 1, (10_000, 0)), PolicerVerdict::Over);
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn light_loss_or_rates_that_differ_are_none() {
        let (mut policer, mut light) = (Policer::default(), tally());
        assert_eq!(rounds(&mut policer, &mut light, 100, (10_000, 1_900)), PolicerVerdict::Same);

        let (mut policer, mut uneven) = (Policer::default(), tally());
        for rate in [10_000, 20_000, 10_000, 20_000] {
            // The stretch restarts at its last round.
            assert_eq!(
                rounds(&mut policer, &mut uneven, 4, (rate, rate / 2)),
                PolicerVerdict::Same
            );
        }
    }

    #[test]
    fn running_out_of_data_starts_the_search_over() {
        let (mut policer, mut tally) = (Policer::default(), tally());
        rounds(&mut policer, &mut tally, 8, (10_000, 3_000));
        tally.app_limited = true;
        rounds(&mut policer, &mut tally, 1, (10_000, 3_000));
        tally.app_limited = false;
        assert_eq!(rounds(&mut policer, &mut tally, 8, (10_000, 3_000)), PolicerVerdict::Same);
        assert_eq!(rounds(&mut policer, &mut tally, 1, (10_000, 3_000)), PolicerVerdict::Found);
    }
}
