//! Re-exports the device crate's access to fields of on-disk structures under one name for every reader here.

pub(crate) use straddle_device::fields::{array, be16, be32, be64, byte, has, le16, le32, le64};

/// Formats bytes in hexadecimal; empty if all of them are zero.
pub(crate) fn hex(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    straddle_device::hex::encode(bytes)
}
