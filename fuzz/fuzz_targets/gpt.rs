//! See `straddle_fuzz::gpt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::gpt(data));
