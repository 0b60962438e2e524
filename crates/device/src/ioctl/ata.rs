//! ATA commands through a SCSI disk: ATA PASS-THROUGH(16) (SAT-4).

use std::os::fd::AsFd;

use super::{IoctlError, Sense, scsi_read};
use crate::identify::{FAILED, is_standby, is_stopped, registers, returned_count};

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

/// Page 0. Drives may count it as an error if log 00h, the directory, does not list the log.
pub(crate) fn ata_log(fd: impl AsFd, address: u8) -> Result<Box<[u8; 512]>, IoctlError> {
    read(fd, "ATA READ LOG EXT", &read_log(address))
}

fn check_power_mode() -> [u8; 16] {
    let mut cdb = [0u8; 16];
    cdb[0] = 0x85; // ATA PASS-THROUGH(16), SAT-4
    cdb[1] = 3 << 1; // PROTOCOL: non-data
    cdb[2] = 0b0010_0000; // CK_COND: return the registers
    cdb[14] = 0xe5; // COMMAND: CHECK POWER MODE
    cdb
}

/// Needs `CAP_SYS_RAWIO`. `None` where the drive gives no answer.
pub(crate) fn ata_is_standby(fd: impl AsFd) -> Result<Option<bool>, IoctlError> {
    const WHAT: &str = "ATA CHECK POWER MODE";
    const ABORTED_COMMAND: u8 = 0x0b;
    match scsi_read(fd.as_fd(), WHAT, &check_power_mode(), 16, &mut []) {
        Ok((_, sense)) => Ok(returned_count(&sense).map(is_standby)),
        Err(IoctlError::Sense { sense, .. }) if sense.is_unsupported() || sense.key == ABORTED_COMMAND => {
            Ok(None)
        }
        Err(IoctlError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends TEST UNIT READY and REQUEST SENSE, which access no medium.
pub(crate) fn scsi_is_stopped(fd: impl AsFd) -> Result<bool, IoctlError> {
    const READY: &str = "SCSI TEST UNIT READY";
    const SENSE: &str = "SCSI REQUEST SENSE";
    const ALLOCATION: u8 = 64;
    let stopped = |sense: Sense| is_stopped(sense.key, sense.asc, sense.ascq);
    match scsi_read(fd.as_fd(), READY, &[0; 16], 6, &mut []) {
        Err(IoctlError::Sense { sense, .. }) if stopped(sense) => return Ok(true),
        // Any other reason not to be ready is reported when the disk is read.
        Ok(_) | Err(IoctlError::Sense { .. }) => {}
        Err(IoctlError::Unsupported { .. }) => return Ok(false),
        Err(error) => return Err(error),
    }
    let mut cdb = [0; 16];
    (cdb[0], cdb[4]) = (0x03, ALLOCATION);
    let mut data = vec![0; usize::from(ALLOCATION)];
    match scsi_read(fd.as_fd(), SENSE, &cdb, 6, &mut data) {
        Ok((len, _)) => Ok(data.get(..len).and_then(Sense::parse).is_some_and(stopped)),
        Err(IoctlError::Sense { .. } | IoctlError::Unsupported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
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
