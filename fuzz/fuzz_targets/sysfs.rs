//! See `straddle_fuzz::sysfs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| straddle_fuzz::sysfs(data));
