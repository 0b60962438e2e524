//! See `straddle_fuzz::disksim`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::disksim(data));
