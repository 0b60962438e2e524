//! See `straddle_fuzz::layers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::layers(data));
