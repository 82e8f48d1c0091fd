//! See `cellpace_fuzz::quic_stream`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cellpace_fuzz::quic_stream(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    cellpace_fuzz::replay(cellpace_fuzz::quic_stream)
}
