//! See `straddle_fuzz::assume`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::assume(data));
