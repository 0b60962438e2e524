//! See `straddle_fuzz::volume`.
#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    if straddle_fuzz::volume(data, &["DM_integrity", "DM_verity_hash", "bcache"]) {
        Corpus::Keep
    } else {
        Corpus::Reject
    }
});
