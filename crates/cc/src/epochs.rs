//! What controllers share that decide in fixed epochs and release a window in parts: Verus, and
//! the Markov tables that are learnt from it.

/// Returns how many packets leave in an epoch: Eq. 5 of Verus, with the packets in flight in place of
/// the current window, as the original program has it. `window` and `in_flight` are in packets, `n` is
/// the number of epochs per RTT.
///
/// The product is truncated to whole packets before it is subtracted. That is at most one packet
/// more than without, but it decides whether a flow with a window of one to five packets keeps two
/// in flight, and below two Verus takes its base delay for too low and raises it.
pub(crate) fn share(window: f64, in_flight: f64, n: u64) -> f64 {
    let kept = match n {
        0 | 1 => in_flight,
        _ => (in_flight * (n - 2) as f64 / (n - 1) as f64).trunc(), // Eq. 5, Verus
    };
    (window - kept).max(0.0).floor()
}

#[cfg(test)]
mod tests {
    use super::share;

    /// With a window of two packets, the second leaves while the first is in flight.
    #[test]
    fn a_window_of_two_keeps_two_in_flight() {
        assert_eq!(share(2.0, 1.0, 10), 2.0);
        assert_eq!(share(2.0, 2.0, 10), 1.0);
        assert_eq!(share(2.0, 3.0, 10), 0.0);
    }
}
