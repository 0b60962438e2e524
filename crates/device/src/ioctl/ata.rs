//! ATA commands through a SCSI disk: ATA PASS-THROUGH(16) (SAT-4).

use std::os::fd::AsFd;

use super::{IoctlError, scsi_read};
use crate::identify::{FAILED, registers};

/// A command that reads one block by PIO.
fn pass_through() -> [u8; 16] {
    let mut cdb = [0u8; 16];
    cdb[0] = 0x85; // ATA PASS-THROUGH(16), SAT-4
    cdb[1] = 4 << 1; // PROTOCOL: PIO data-in
    cdb[2] = 0b0000_1110; // T_DIR from the device, BYT_BLOK blocks, T_LENGTH in COUNT
    cdb[6] = 1; // COUNT: one block of 512 bytes
    cdb
}

/// Needs `CAP_SYS_RAWIO`.
fn read(fd: impl AsFd, what: &'static str, cdb: &[u8; 16]) -> Result<Box<[u8; 512]>, IoctlError> {
    let mut data = Box::new([0u8; 512]);
    let (len, sense) = scsi_read(fd.as_fd(), what, cdb, 16, data.as_mut_slice())?;
    let is_failed = registers(&sense).is_some_and(|(status, _)| status & FAILED != 0);
    if is_failed || len < data.len() { Err(IoctlError::Failed { what }) } else { Ok(data) }
}

pub(crate) fn ata_identify(fd: impl AsFd) -> Result<Box<[u8; 512]>, IoctlError> {
    let mut cdb = pass_through();
    cdb[14] = 0xec; // COMMAND: IDENTIFY DEVICE
    read(fd, "ATA IDENTIFY DEVICE", &cdb)
}

/// Reads page 0 of a log. A drive without the log may count that as an error: the directory, log 00h, shows
/// which logs it has.
pub(crate) fn ata_log(fd: impl AsFd, address: u8) -> Result<Box<[u8; 512]>, IoctlError> {
    read(fd, "ATA READ LOG EXT", &read_log(address))
}

/// CHECK POWER MODE, whose answer is in the registers.
pub(super) fn check_power_mode() -> [u8; 16] {
    let mut cdb = [0u8; 16];
    cdb[0] = 0x85; // ATA PASS-THROUGH(16), SAT-4
    cdb[1] = 3 << 1; // PROTOCOL: non-data
    cdb[2] = 0b0010_0000; // CK_COND: return the registers
    cdb[14] = 0xe5; // COMMAND: CHECK POWER MODE
    cdb
}

fn read_log(address: u8) -> [u8; 16] {
    let mut cdb = pass_through();
    cdb[1] |= 1; // EXTEND: 48-bit registers
    cdb[8] = address; // LBA 7:0: the log's address; the page is in LBA 15:8 and 39:32
    cdb[14] = 0x2f; // COMMAND: READ LOG EXT
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `sg_sat_read_gplog --log=0x2f` of sg3-utils 1.46 sends.
    #[test]
    fn a_log_is_read_as_sg3_utils_reads_it() {
        assert_eq!(read_log(0x2f), [0x85, 0x09, 0x0e, 0, 0, 0, 1, 0, 0x2f, 0, 0, 0, 0, 0, 0x2f, 0]);
    }

    /// What smartd sends, as it stands in kernel logs.
    #[test]
    fn the_power_mode_is_queried_as_smartd_queries_it() {
        assert_eq!(check_power_mode(), [0x85, 0x06, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe5, 0]);
    }
}
