//! Whether a drive is in standby, by commands that leave it there.

use std::os::fd::AsFd;

use super::{IoctlError, Sense, ata, scsi_read};
use crate::identify::{PowerMode, is_stopped, returned_count};

/// Sends CHECK POWER MODE, which transfers no data. Needs `CAP_SYS_RAWIO`. Returns `None` where the drive
/// does not know the command, or its answer does not arrive.
pub(crate) fn ata_power_mode(fd: impl AsFd) -> Result<Option<PowerMode>, IoctlError> {
    const WHAT: &str = "ATA CHECK POWER MODE";
    /// The drive ended the command with an error.
    const ABORTED_COMMAND: u8 = 0x0b;
    match scsi_read(fd.as_fd(), WHAT, &ata::check_power_mode(), 16, &mut []) {
        Ok((_, sense)) => Ok(returned_count(&sense).map(PowerMode::from_count)),
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
