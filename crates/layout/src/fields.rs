//! Fields of on-disk structures: those of the device crate, under the name that every reader here uses.

pub(crate) use straddle_device::fields::{array, be16, be32, be64, byte, has, le16, le32, le64};
