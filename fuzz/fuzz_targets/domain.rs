//! See `straddle_fuzz::domain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::domain(data));
