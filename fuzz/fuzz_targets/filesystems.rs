//! See `straddle_fuzz::filesystems`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::filesystems(data));
