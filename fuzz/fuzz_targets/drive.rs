//! See `straddle_fuzz::drive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::drive(data));
