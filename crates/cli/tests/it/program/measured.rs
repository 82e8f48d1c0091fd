//! Measurements over real time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::sleep;
use std::time::Duration;

const ATTEMPTS: u32 = 3;

/// Measures over real time and judges what was measured, three times at most: what else the machine
/// does may spoil one, while what the code does wrong it does each time.
pub(crate) fn measured(measurement: impl Fn()) {
    for attempt in 1..ATTEMPTS {
        if catch_unwind(AssertUnwindSafe(&measurement)).is_ok() {
            return;
        }
        eprintln!("attempt {attempt} of {ATTEMPTS} failed; measuring again");
        sleep(Duration::from_secs(1));
    }
    measurement();
}
