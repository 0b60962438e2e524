//! Where a partition starts on a drive.

use super::Profile;

/// A start, in the unit in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// In bytes.
    Bytes(u64),
    /// In logical sectors of the drive.
    Sectors(u64),
}

/// Why no partition can start there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum StartError {
    #[error("byte {byte} is inside a logical sector of {drive} ({sector} bytes)")]
    InsideSector { byte: u64, drive: String, sector: u64 },
    #[error("past the end of {drive}")]
    PastEnd { drive: String },
}

straddle_units::error_kind!(StartError: Usage);

impl Profile {
    /// Returns the byte of a partition's start: the first of one of the drive's logical sectors.
    pub fn start_byte(&self, start: Start) -> Result<u64, StartError> {
        let (sector, drive) = (self.claims.logical_sector, || self.name.clone());
        let byte = match start {
            Start::Bytes(bytes) => Some(bytes),
            Start::Sectors(sectors) => sectors.checked_mul(sector),
        };
        match byte {
            Some(byte) if byte % sector != 0 => {
                Err(StartError::InsideSector { byte, drive: drive(), sector })
            }
            Some(byte) if byte < self.claims.capacity => Ok(byte),
            _ => Err(StartError::PastEnd { drive: drive() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_sector_of_the_drive() {
        let drive = Profile::open("wd10ears").unwrap();
        let (sector, capacity) = (drive.claims.logical_sector, drive.claims.capacity);
        assert_eq!(drive.start_byte(Start::Sectors(63)), Ok(63 * sector));
        assert_eq!(drive.start_byte(Start::Bytes(63 * sector)), Ok(63 * sector));
        assert_eq!(drive.start_byte(Start::Bytes(capacity - sector)), Ok(capacity - sector));
        let inside = drive.start_byte(Start::Bytes(sector + 1)).unwrap_err();
        assert!(matches!(inside, StartError::InsideSector { byte, .. } if byte == sector + 1), "{inside}");
        for past in [Start::Bytes(capacity), Start::Sectors(capacity / sector), Start::Sectors(u64::MAX)] {
            assert!(matches!(drive.start_byte(past), Err(StartError::PastEnd { .. })), "{past:?}");
        }
    }
}
