//! Requests to the kernel and, through it, to drives. All `unsafe` of this crate is here. Commands only read, and are
//! sent to block and character devices only.
//!
//! Requests and structures are those of the kernel's `include/uapi/linux/fs.h`, `linux/blkdev.h`,
//! `linux/nvme_ioctl.h` and of `scsi/sg.h`.
#![allow(unsafe_code)]

mod ata;
pub(crate) mod dm;
pub(crate) mod lock;
pub(crate) mod loops;
pub mod names;

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, fstat};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use straddle_units::ByteCount;

use crate::fields::be16;

pub(crate) use ata::{ata_identify, ata_is_standby, ata_log, scsi_is_stopped};

/// The kernel then aborts a command.
const TIMEOUT_MS: u32 = 5_000;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum IoctlError {
    #[error("{what} is not supported by this device")]
    Unsupported { what: &'static str },
    #[error("{what} failed")]
    Os {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{what} was refused by the device: {sense}")]
    Sense { what: &'static str, sense: Sense },
    #[error("{what} did not reach the drive (SCSI status {status:#04x}, host {host:#x}, driver {driver:#x})")]
    Transport { what: &'static str, status: u8, host: u16, driver: u16 },
    #[error("{what} failed, because the drive reported an error or sent too short a response")]
    Failed { what: &'static str },
}

straddle_units::error_kind!(IoctlError: Failed);

impl IoctlError {
    /// The operating system's own kind where it reported one.
    pub fn os_kind(&self) -> io::ErrorKind {
        match self {
            Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            Self::Os { source, .. } => source.kind(),
            Self::Sense { sense, .. } if sense.is_unsupported() => io::ErrorKind::Unsupported,
            Self::Sense { .. } | Self::Transport { .. } | Self::Failed { .. } => io::ErrorKind::Other,
        }
    }

    fn os(what: &'static str, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS => Self::Unsupported { what },
            _ => Self::Os { what, source: errno.into() },
        }
    }
}

/// The SENSE KEY, ADDITIONAL SENSE CODE and its QUALIFIER of SCSI sense data, which name the error (SPC-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    key: u8,
    asc: u8,
    ascq: u8,
}

impl Sense {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
        match bytes.first()? & 0x7f {
            0x70 | 0x71 => Some(Self { key: at(2) & 0x0f, asc: at(12), ascq: at(13) }),
            0x72 | 0x73 => Some(Self { key: at(1) & 0x0f, asc: at(2), ascq: at(3) }),
            _ => None,
        }
    }

    fn is_unsupported(self) -> bool {
        self.key == 5
    }

    /// ATA PASS THROUGH INFORMATION AVAILABLE (1h, 00h/1Dh; SAT-4) is reported this way too.
    fn is_success(self) -> bool {
        self.key <= 1
    }

    /// UNIT ATTENTION: the command was not carried out and may be sent again.
    fn is_attention(self) -> bool {
        self.key == 6
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.key {
            0x0 => "no sense",
            0x1 => "recovered error",
            0x2 => "not ready",
            0x3 => "medium error",
            0x4 => "hardware error",
            0x5 => "illegal request",
            0x6 => "unit attention",
            0x7 => "data protect",
            0xb => "aborted command",
            _ => "other sense key",
        };
        write!(f, "{name} (sense {:x}h, code {:02x}h/{:02x}h)", self.key, self.asc, self.ascq)
    }
}

struct Request<'a, T: ?Sized> {
    opcode: Opcode,
    argument: Option<&'a mut T>,
}

// SAFETY: `as_ptr` returns a pointer to a live, writable `T` (or null for requests without argument),
// borrowed for as long as the request lives. The caller of `call` guarantees that `T` is what the opcode
// takes. The output is the system call's own return value, so no pointer is read.
unsafe impl<T: ?Sized> Ioctl for Request<'_, T> {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
            .as_deref_mut()
            .map_or(std::ptr::null_mut(), |argument| std::ptr::from_mut(argument).cast())
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(out)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Meant {
    Block,
    BlockOrCharacter,
}

/// # Safety
///
/// `opcode` must be a request that takes a pointer to a `T` (or no argument where there is none) and that
/// writes only valid values into it. Every pointer inside the `T` must be valid for the accesses that the
/// request makes through it.
unsafe fn call<T: ?Sized>(
    fd: BorrowedFd<'_>,
    meant: Meant,
    what: &'static str,
    opcode: Opcode,
    argument: Option<&mut T>,
) -> Result<IoctlOutput, IoctlError> {
    let stat = fstat(fd).map_err(|errno| IoctlError::os(what, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => {}
        FileType::CharacterDevice if meant == Meant::BlockOrCharacter => {}
        _ => return Err(IoctlError::Unsupported { what }),
    }
    // SAFETY: the caller guarantees what `Request` needs.
    unsafe { rustix::ioctl::ioctl(fd, Request { opcode, argument }) }
        .map_err(|errno| IoctlError::os(what, errno))
}

/// BLKSSZGET and the like, as far as each succeeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelLimits {
    pub(crate) logical: Option<ByteCount>,
    pub(crate) physical: Option<ByteCount>,
    pub(crate) io_min: Option<ByteCount>,
    /// Zero for none.
    pub(crate) io_opt: Option<ByteCount>,
    /// In bytes, or -1 for a device that is itself misaligned.
    pub(crate) alignment_offset: Option<i32>,
}

pub(crate) fn kernel_limits(fd: impl AsFd) -> KernelLimits {
    let int = |what, number| {
        let mut value = 0i32;
        // SAFETY: the requests below all write one C int (or unsigned int) through the pointer.
        unsafe { call(fd.as_fd(), Meant::Block, what, opcode::none(0x12, number), Some(&mut value)) }
            .ok()
            .map(|_| value)
    };
    let bytes =
        |what, number| int(what, number).map(|value| ByteCount::new(u64::from(value.cast_unsigned())));
    KernelLimits {
        logical: bytes("BLKSSZGET", 104),
        physical: bytes("BLKPBSZGET", 123),
        io_min: bytes("BLKIOMIN", 120),
        io_opt: bytes("BLKIOOPT", 121),
        alignment_offset: int("BLKALIGNOFF", 122),
    }
}

/// Makes the kernel reread the partition table of the disk `fd`, unless a partition is in use. Needs root.
pub fn reread_partitions(fd: impl AsFd) -> Result<(), IoctlError> {
    // SAFETY: BLKRRPART takes no argument and touches no memory of ours.
    unsafe { call::<()>(fd.as_fd(), Meant::Block, "BLKRRPART", opcode::none(0x12, 95), None) }.map(|_| ())
}

#[repr(C)]
#[derive(Default)]
struct SgIoHdr {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut c_void,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: u32,
    flags: u32,
    pack_id: i32,
    usr_ptr: *mut c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration: u32,
    info: u32,
}

/// Its number is older than the encoding scheme of the others.
const SG_IO: Opcode = 0x2285;
const FROM_DEVICE: i32 = -3;
const NO_DATA: i32 = -1;
/// Ignored in a row; the next one fails the command.
const ATTENTIONS: usize = 2;
/// Kernels since 5.14 always leave it 0.
const DRIVER_SENSE: u16 = 0x08;

type Answer = (usize, Vec<u8>);

fn scsi_read(
    fd: BorrowedFd<'_>,
    what: &'static str,
    cdb: &[u8; 16],
    len: u8,
    data: &mut [u8],
) -> Result<Answer, IoctlError> {
    for _ in 0..ATTENTIONS {
        match scsi_read_once(fd, what, cdb, len, data) {
            Err(IoctlError::Sense { sense, .. }) if sense.is_attention() => {}
            answer => return answer,
        }
    }
    scsi_read_once(fd, what, cdb, len, data)
}

/// Sense data that reports success is not an error.
fn scsi_read_once(
    fd: BorrowedFd<'_>,
    what: &'static str,
    cdb: &[u8; 16],
    len: u8,
    data: &mut [u8],
) -> Result<Answer, IoctlError> {
    let mut sense = [0u8; 64];
    let wanted = u32::try_from(data.len()).unwrap_or(0);
    let mut header = SgIoHdr {
        interface_id: i32::from(b'S'),
        dxfer_direction: if data.is_empty() { NO_DATA } else { FROM_DEVICE },
        cmd_len: len.min(16),
        mx_sb_len: 64,
        dxfer_len: wanted,
        dxferp: data.as_mut_ptr().cast(),
        cmdp: cdb.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout: TIMEOUT_MS,
        ..SgIoHdr::default()
    };
    // SAFETY: SG_IO takes an sg_io_hdr, which `SgIoHdr` mirrors. The kernel reads `cmd_len` (at most 16)
    // bytes at `cmdp`, writes at most `dxfer_len` bytes at `dxferp` and at most `mx_sb_len` at `sbp`. The
    // three buffers are that long and outlive the call, which returns only when the command has ended.
    unsafe { call(fd, Meant::BlockOrCharacter, what, SG_IO, Some(&mut header)) }?;

    let sense = sense[..usize::from(header.sb_len_wr).min(sense.len())].to_vec();
    let arrived = header.host_status == 0 && header.driver_status & !DRIVER_SENSE == 0;
    match Sense::parse(&sense) {
        _ if arrived && header.status == 0 => {}
        Some(short) if arrived && short.is_success() => {}
        Some(short) if arrived => return Err(IoctlError::Sense { what, sense: short }),
        _ => {
            let (status, host, driver) = (header.status, header.host_status, header.driver_status);
            return Err(IoctlError::Transport { what, status, host, driver });
        }
    }
    let missing = usize::try_from(header.resid).unwrap_or(0);
    Ok((data.len().saturating_sub(missing), sense))
}

pub(crate) fn scsi_read_capacity_16(fd: impl AsFd) -> Result<Vec<u8>, IoctlError> {
    let mut cdb = [0u8; 16];
    let mut data = vec![0u8; 32];
    (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
    let (len, _) = scsi_read(fd.as_fd(), "SCSI READ CAPACITY(16)", &cdb, 16, &mut data)?;
    data.truncate(len);
    Ok(data)
}

/// At most 255 bytes: old devices ignore the high byte of the allocation length.
pub(crate) fn scsi_inquiry_vpd(fd: impl AsFd, page: u8) -> Result<Vec<u8>, IoctlError> {
    const WHAT: &str = "SCSI INQUIRY";
    let mut cdb = [0u8; 16];
    (cdb[0], cdb[1], cdb[2], cdb[4]) = (0x12, 0x01, page, u8::MAX);
    let mut data = vec![0u8; usize::from(u8::MAX)];
    let (len, _) = scsi_read(fd.as_fd(), WHAT, &cdb, 6, &mut data)?;
    data.truncate(len.min(4 + usize::from(be16(&data, 2))));
    // A device without the page may answer with its standard INQUIRY data instead.
    if data.get(1) != Some(&page) {
        return Err(IoctlError::Unsupported { what: WHAT });
    }
    Ok(data)
}

#[repr(C)]
#[derive(Default)]
struct NvmeAdminCmd {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// It takes no argument and returns the namespace's number.
const NVME_IOCTL_ID: Opcode = opcode::none(b'N', 0x40);
const NVME_IOCTL_ADMIN_CMD: Opcode = opcode::read_write::<NvmeAdminCmd>(b'N', 0x41);

/// The SCSI disk driver returns EINVAL where others return ENOTTY.
fn not_nvme(error: IoctlError) -> IoctlError {
    match error {
        IoctlError::Os { what, source } if source.kind() == io::ErrorKind::InvalidInput => {
            IoctlError::Unsupported { what }
        }
        other => other,
    }
}

fn nvme_identify(
    fd: BorrowedFd<'_>,
    what: &'static str,
    nsid: u32,
    cns: u32,
) -> Result<Box<[u8; 4096]>, IoctlError> {
    let mut data = Box::new([0u8; 4096]);
    let address = data.as_mut_ptr().expose_provenance();
    let mut command = NvmeAdminCmd {
        opcode: 0x06,
        nsid,
        addr: u64::try_from(address).unwrap_or(0),
        data_len: 4096,
        cdw10: cns,
        timeout_ms: TIMEOUT_MS,
        ..NvmeAdminCmd::default()
    };
    // SAFETY: NVME_IOCTL_ADMIN_CMD takes an nvme_admin_cmd, which `NvmeAdminCmd` mirrors. Identify writes
    // `data_len` bytes at `addr`, where the box has that length and outlives the call. There is no metadata.
    let status =
        unsafe { call(fd, Meant::BlockOrCharacter, what, NVME_IOCTL_ADMIN_CMD, Some(&mut command)) }?;
    if status == 0 { Ok(data) } else { Err(IoctlError::Failed { what }) }
}

pub(crate) fn nvme_identify_namespace(fd: impl AsFd) -> Result<Box<[u8; 4096]>, IoctlError> {
    const WHAT: &str = "NVMe Identify Namespace";
    let fd = fd.as_fd();
    // SAFETY: NVME_IOCTL_ID takes no argument and touches no memory of ours.
    let nsid =
        unsafe { call::<()>(fd, Meant::BlockOrCharacter, WHAT, NVME_IOCTL_ID, None) }.map_err(not_nvme)?;
    nvme_identify(fd, WHAT, nsid.cast_unsigned(), 0)
}

pub(crate) fn nvme_identify_controller(fd: impl AsFd) -> Result<Box<[u8; 4096]>, IoctlError> {
    nvme_identify(fd.as_fd(), "NVMe Identify Controller", 0, 1)
}

#[cfg(test)]
mod tests;
