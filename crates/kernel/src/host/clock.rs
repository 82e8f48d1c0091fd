//! The clock of the programs in the kernel, and random numbers.

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds, which is the clock of `bpf_ktime_get_ns`.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Bits that another process would hardly guess or have.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => now_ns() ^ u64::from(std::process::id()),
    }
}
