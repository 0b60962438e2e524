//! The file behind a loop device (LOOP_GET_STATUS64, `include/uapi/linux/loop.h`).

use std::os::fd::AsFd;

use super::{IoctlError, Meant, call};

/// Its number dates from before request numbers encoded sizes.
const GET_STATUS64: u32 = 0x4C05;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Default)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    // Three texts of bytes, as words of the same length.
    file_name: [u64; 8],
    crypt_name: [u64; 8],
    encrypt_key: [u64; 4],
    init: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// As in stat(2).
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// 0 if the file is not a device.
    pub(crate) of_device: u64,
}

pub(crate) fn backing(fd: impl AsFd) -> Result<Backing, IoctlError> {
    let mut info = Info::default();
    // SAFETY: the request writes one `struct loop_info64`, which consists of integers, through the pointer.
    unsafe { call(fd.as_fd(), Meant::Block, "LOOP_GET_STATUS64", GET_STATUS64, Some(&mut info)) }?;
    Ok(Backing { device: info.device, inode: info.inode, of_device: info.rdevice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernels() {
        assert_eq!(size_of::<Info>(), 232);
    }
}
