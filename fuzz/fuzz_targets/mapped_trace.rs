//! See `straddle_fuzz::mapped_trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::mapped_trace(data));
