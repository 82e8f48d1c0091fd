//! Relative change, forward and back, in integers.
//!
//! The measure of docs/spec/mdi.md 3: `(100 new / old - 100) * log10(old)`, a change
//! in percent weighted by the size of what changes. Logarithms come from a table of 257 values,
//! so that runtimes without floating point compute the same bits.

/// Windows in 1/65536 packets, at most 65535 packets.
pub type WindowQ16 = u32;

/// One packet as a [`WindowQ16`].
pub(crate) const ONE_PACKET: WindowQ16 = 1 << 16;

/// log2(1 + i/256) in 1/65536, rounded to nearest, for i in 0..=256.
pub const LOG2_TABLE: [u32; 257] = LOG2;

/// log10(2) in 2^-32, rounded to nearest.
const LOG10_OF_2_Q32: u64 = 1_292_913_986;

/// log10(1000) in 1/65536.
const LOG10_OF_1000_Q16: u32 = 3 << 16;

/// log10(65536) in 1/65536, rounded to nearest.
const LOG10_OF_65536_Q16: u32 = 315_653;

/// Ratios beyond, in 1/10000, count as this: a thousandfold.
const LARGEST_RATIO: u64 = 10_000_000;

/// log10(x) in 1/65536 for a whole number `x`; 0 for 0. Linear between the entries of
/// [`LOG2_TABLE`]; wrong by at most 2/65536.
pub fn log10_q16(x: u32) -> u32 {
    if x == 0 {
        return 0;
    }
    let exponent = 31 - x.leading_zeros();
    // The bits below the leading one, as a fraction of 2^31.
    let fraction = (x << (31 - exponent)) & 0x7fff_ffff;
    let index = (fraction >> 23) as usize;
    let rest = u64::from(fraction & 0x007f_ffff);
    let low = u64::from(LOG2_TABLE[index]);
    let high = u64::from(LOG2_TABLE[index + 1]);
    // Interpolated in 2^-24 of an entry, to round once at the end.
    let log2_q39 = (u64::from(exponent) << 39) + (low << 23) + (high - low) * rest;
    (((log2_q39 >> 15) * LOG10_OF_2_Q32 + (1 << 39)) >> 40) as u32
}

/// log10 of a delay in microseconds, of its milliseconds, in 1/65536.
fn log10_of_delay(delay_us: u32) -> u32 {
    log10_q16(delay_us).saturating_sub(LOG10_OF_1000_Q16)
}

/// log10 of a window in packets, in 1/65536.
fn log10_of_window(window: WindowQ16) -> u32 {
    log10_q16(window).saturating_sub(LOG10_OF_65536_Q16)
}

/// Change of a delay, both in microseconds, in thousandths of the measure of section 3.
/// Delays below 1 ms count as 1 ms.
pub(crate) fn delay_change(new: u32, old: u32) -> i64 {
    let (new, old) = (new.max(1000), old.max(1000));
    relative_change(new, old, log10_of_delay(old))
}

/// Change of a window, in thousandths of the measure of section 3. Windows below 1 count as 1.
pub(crate) fn window_change(new: WindowQ16, old: WindowQ16) -> i64 {
    let (new, old) = (new.max(ONE_PACKET), old.max(ONE_PACKET));
    relative_change(new, old, log10_of_window(old))
}

/// `(100 new / old - 100) * log10(old)` in thousandths, the ratio first rounded to four decimals
/// (docs/spec/mdi.md 3). `log` is log10(old) in 1/65536; `old` is not 0.
pub fn relative_change(new: u32, old: u32, log: u32) -> i64 {
    let old = u64::from(old);
    let ratio = ((u64::from(new) * 10_000 + old / 2) / old).min(LARGEST_RATIO);
    // In 1/10000; times 100 percent, times 1000 for the thousandths: times 10.
    let size = (ratio.abs_diff(10_000) * u64::from(log) * 10 + (1 << 15)) >> 16;
    if ratio < 10_000 { -(size as i64) } else { size as i64 }
}

/// The window that differs from `base` by `change` thousandths of the measure (section 6 step 5
/// of the specification, clamped to -50..100 % as its section 10 asks), at least one packet.
pub fn relative_step(base: WindowQ16, change: i64) -> WindowQ16 {
    let base = base.max(ONE_PACKET);
    // log10(base) is 0 at 1; the specification takes log10(base + 1) there.
    let log = match base {
        ONE_PACKET => log10_of_window(2 * ONE_PACKET),
        _ => log10_of_window(base),
    };
    let limit: u64 = if change < 0 { 50 << 16 } else { 100 << 16 };
    // change / 1000 / log in percent, in 1/65536.
    let percent = match u64::from(log) * 1000 {
        0 => limit,
        divisor => ((change.unsigned_abs().min(1 << 30) << 32) / divisor).min(limit),
    };
    let percent = if change == 0 { 0 } else { percent };
    let moved = (u64::from(base) * percent / 100 + (1 << 15)) >> 16;
    let next = match change < 0 {
        true => u64::from(base) - moved,
        false => (u64::from(base) + moved).min(u64::from(u32::MAX)),
    };
    (next as WindowQ16).max(ONE_PACKET)
}

#[rustfmt::skip]
const LOG2: [u32; 257] = [
    0, 369, 736, 1102, 1466, 1829, 2190, 2551, 2909, 3267, 3623, 3978,
    4331, 4683, 5034, 5384, 5732, 6079, 6425, 6769, 7112, 7454, 7795, 8134,
    8473, 8810, 9146, 9480, 9814, 10146, 10477, 10807, 11136, 11464, 11791, 12116,
    12440, 12764, 13086, 13407, 13727, 14046, 14363, 14680, 14996, 15310, 15624, 15937,
    16248, 16559, 16868, 17177, 17484, 17791, 18096, 18401, 18704, 19007, 19308, 19609,
    19909, 20207, 20505, 20802, 21098, 21393, 21687, 21980, 22272, 22564, 22854, 23144,
    23433, 23720, 24007, 24293, 24579, 24863, 25146, 25429, 25711, 25992, 26272, 26551,
    26830, 27108, 27384, 27660, 27936, 28210, 28484, 28757, 29029, 29300, 29571, 29840,
    30109, 30378, 30645, 30912, 31178, 31443, 31707, 31971, 32234, 32496, 32758, 33019,
    33279, 33538, 33797, 34055, 34312, 34569, 34825, 35080, 35334, 35588, 35841, 36094,
    36346, 36597, 36847, 37097, 37346, 37595, 37842, 38090, 38336, 38582, 38827, 39072,
    39316, 39559, 39802, 40044, 40286, 40527, 40767, 41006, 41246, 41484, 41722, 41959,
    42196, 42432, 42667, 42902, 43137, 43370, 43603, 43836, 44068, 44300, 44530, 44761,
    44990, 45220, 45448, 45676, 45904, 46131, 46357, 46583, 46809, 47034, 47258, 47482,
    47705, 47928, 48150, 48372, 48593, 48813, 49034, 49253, 49472, 49691, 49909, 50127,
    50344, 50560, 50776, 50992, 51207, 51422, 51636, 51850, 52063, 52276, 52488, 52700,
    52911, 53122, 53332, 53542, 53751, 53960, 54169, 54377, 54584, 54791, 54998, 55204,
    55410, 55615, 55820, 56025, 56229, 56432, 56635, 56838, 57040, 57242, 57443, 57644,
    57845, 58045, 58245, 58444, 58643, 58841, 59039, 59237, 59434, 59631, 59827, 60023,
    60219, 60414, 60609, 60803, 60997, 61190, 61384, 61576, 61769, 61961, 62152, 62343,
    62534, 62725, 62915, 63104, 63294, 63483, 63671, 63859, 64047, 64234, 64421, 64608,
    64794, 64980, 65166, 65351, 65536,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole milliseconds.
    fn delays(new: u32, old: u32) -> f64 {
        delay_change(new * 1000, old * 1000) as f64 / 1000.0
    }

    fn stepped(base: f64, change: f64) -> f64 {
        let base = (base * 65536.0) as WindowQ16;
        f64::from(relative_step(base, (change * 1000.0) as i64)) / 65536.0
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value}, not {expected}");
    }

    #[test]
    fn mdi_t1_relative_change() {
        for (new, old, expected) in [
            (55, 50, 16.9897),
            (101, 100, 2.0),
            (20, 20, 0.0),
            (22, 20, 13.0103),
            (2, 1, 0.0),
            (90, 100, -20.0),
        ] {
            assert_near(delays(new, old), expected, 1e-3);
            let windows = window_change(new << 16, old << 16) as f64 / 1000.0;
            assert_near(windows, expected, 1e-3);
        }
    }

    #[test]
    fn mdi_t3_the_step_back() {
        assert_near(stepped(20.0, 14.0), 22.1521, 1e-4);
        assert_near(stepped(100.0, -20.0), 90.0, 1e-4);
        assert_near(stepped(100.0, 20.0), 110.0, 1e-4);
        assert_near(stepped(1.0, 10.0), 1.332_19, 1e-4);
        // Without the clamp at half it would be 0.671, and the floor at 1 gives the same.
        assert_near(stepped(2.0, -20.0), 1.0, 0.0);
    }

    #[test]
    fn steps_near_one_packet_stay_within_the_clamp() {
        // Unclamped, 1.01 packets would become 5.68.
        assert_near(stepped(1.01, 2.0), 2.02, 1e-3);
        assert_near(stepped(1.0 + 1.0 / 65536.0, 2.0), 2.0, 1e-3);
        assert_near(stepped(65_535.9, 60.0), 65_536.0, 1e-3);
        assert_eq!(relative_step(0, 0), ONE_PACKET);
    }

    #[test]
    fn logarithms_agree_with_floating_point() {
        assert_eq!((log10_q16(0), log10_q16(1)), (0, 0));
        assert_eq!(log10_q16(1000), LOG10_OF_1000_Q16);
        assert_eq!(log10_q16(65536), LOG10_OF_65536_Q16);
        let all = (1..2_000_000).chain((1..32).flat_map(|bit| [(1 << bit) - 1, 1 << bit]));
        for x in all.chain([u32::MAX]) {
            let exact = f64::from(x).log10() * 65536.0;
            assert_near(f64::from(log10_q16(x)), exact, 2.0);
        }
    }

    #[test]
    fn a_step_undoes_a_change() {
        for base in [2, 3, 10, 77, 1000] {
            for new in [base - base / 3, base, base + 1, base + base / 2] {
                let change = window_change(new << 16, base << 16);
                let back = f64::from(relative_step(base << 16, change)) / 65536.0;
                assert_near(back, f64::from(new), 0.001 * f64::from(new));
            }
        }
    }

    #[test]
    fn absurd_values_do_not_overflow() {
        assert_eq!(delay_change(u32::MAX, 0), 0);
        assert!(delay_change(u32::MAX, 1001) > 0);
        assert!(delay_change(0, u32::MAX) < 0);
        assert!(window_change(u32::MAX, 0) >= 0);
        for change in [i64::MIN, -1, 0, 1, i64::MAX] {
            for base in [0, 1, ONE_PACKET, ONE_PACKET + 1, u32::MAX] {
                assert!(relative_step(base, change) >= ONE_PACKET);
            }
        }
    }
}
