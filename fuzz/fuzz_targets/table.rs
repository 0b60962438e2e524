//! See `straddle_fuzz::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::table(data));
