//! See `straddle_fuzz::volume`.
#![no_main]

use libfuzzer_sys::Corpus;
use straddle_layout::VolumeKind;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    if straddle_fuzz::volume(data, &[VolumeKind::Luks]) { Corpus::Keep } else { Corpus::Reject }
});
