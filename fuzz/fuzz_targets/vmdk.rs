//! See `straddle_fuzz::image`.
#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    if straddle_fuzz::image(data, straddle_device::image::Format::Vmdk) {
        Corpus::Keep
    } else {
        Corpus::Reject
    }
});
