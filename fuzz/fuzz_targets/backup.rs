//! See `straddle_fuzz::backup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::backup(data));
