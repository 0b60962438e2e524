//! Fields of on-disk structures: those of the device crate, under the name that every reader here uses.

pub(crate) use straddle_device::fields::{array, be16, be32, be64, byte, has, le16, le32, le64};

/// Bytes as hexadecimal digits; nothing where all of them are zero.
pub(crate) fn hex(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
