//! See `straddle_fuzz::mbr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::mbr(data));
