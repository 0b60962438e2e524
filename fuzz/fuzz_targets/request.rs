//! See `straddle_fuzz::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::request(data));
