//! See `straddle_fuzz::nbd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::nbd(data));
