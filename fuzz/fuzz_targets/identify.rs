//! See `straddle_fuzz::identify`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::identify(data));
