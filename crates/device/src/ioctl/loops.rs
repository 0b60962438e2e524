//! The file behind a loop device (LOOP_GET_STATUS64, `include/uapi/linux/loop.h`).

use std::os::fd::AsFd;

use super::{IoctlError, Meant, call};

/// LOOP_GET_STATUS64. Its number dates from before request numbers encoded sizes.
const GET_STATUS64: u32 = 0x4C05;

/// `struct loop_info64`.
#[repr(C)]
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
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// The file behind a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The device of the file's file system, as in stat(2).
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// If the file is itself a device, that device's number; otherwise 0.
    pub of_device: u64,
}

/// Returns the file behind the loop device `fd`. Fails with ENXIO where the loop device is not set up.
pub fn backing(fd: impl AsFd) -> Result<Backing, IoctlError> {
    let mut info = Info {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    // SAFETY: the request writes one `struct loop_info64`, which consists of integers only, through the
    // pointer.
    unsafe { call(fd.as_fd(), Meant::Block, "LOOP_GET_STATUS64", GET_STATUS64, Some(&mut info)) }?;
    // Encoded by huge_encode_dev (include/linux/kdev_t.h), as the numbers of stat(2) are.
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
