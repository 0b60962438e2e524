//! Whether a drive is in standby, from answers to commands that do not wake it.

/// Whether the medium does not spin, by what ATA CHECK POWER MODE returns in COUNT (ACS-4): 00h Standby (or
/// Standby_z), 01h Standby_y, or 40h, where the non-volatile cache serves requests. Other values are Idle (80h to
/// 83h), Active (FFh), spun up (41h), or not defined.
pub(crate) const fn is_standby(count: u8) -> bool {
    matches!(count, 0x00 | 0x01 | 0x40)
}

/// STATUS: DEVICE FAULT and ERROR.
pub(crate) const FAILED: u8 = 0x20 | 0x01;

/// STATUS and bits 7:0 of COUNT, from the sense data (SAT-4): bytes 13 and 5 of the ATA Status Return
/// descriptor, or bytes 4 and 6 of fixed-format sense data with the code 00h/1Dh.
pub(crate) fn registers(sense: &[u8]) -> Option<(u8, u8)> {
    let at = |index: usize| sense.get(index).copied();
    match at(0)? & 0x7f {
        0x72 | 0x73 => {
            let descriptor = descriptor(sense.get(8..)?, 0x09)?;
            Some((*descriptor.get(13)?, *descriptor.get(5)?))
        }
        0x70 if (at(12)?, at(13)?) == (0x00, 0x1d) => Some((at(4)?, at(6)?)),
        _ => None,
    }
}

/// Bits 7:0 of COUNT; `None` without registers, or if the command failed.
pub(crate) fn returned_count(sense: &[u8]) -> Option<u8> {
    registers(sense).filter(|(status, _)| status & FAILED == 0).map(|(_, count)| count)
}

fn descriptor(mut all: &[u8], kind: u8) -> Option<&[u8]> {
    while let [first, length, ..] = all {
        if *first == kind {
            return Some(all);
        }
        all = all.get(2 + usize::from(*length)..)?;
    }
    None
}

/// The medium does not spin: NOT READY because a START UNIT (04h/02h) or a NOTIFY (ENABLE SPINUP) (04h/11h)
/// is needed, or a standby condition (5Eh; SPC-5).
pub(crate) const fn is_stopped(key: u8, code: u8, qualifier: u8) -> bool {
    const NOT_READY: u8 = 2;
    matches!((key, code, qualifier), (NOT_READY, 0x04, 0x02 | 0x11))
        || matches!((code, qualifier), (0x5e, 0x02 | 0x04 | 0x09 | 0x0a))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sense data as Linux 6.12 builds it (`scsi_build_sense` and `ata_scsi_set_passthru_sense_fields`).
    fn by_descriptor(count: u8, status: u8) -> Vec<u8> {
        let head = [0x72, 0x01, 0x00, 0x1d, 0, 0, 0, 14];
        [&head[..], &[0x09, 0x0c, 0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0x40, status]].concat()
    }

    fn fixed(count: u8, status: u8) -> Vec<u8> {
        vec![0xf0, 0, 0x01, 0, status, 0x40, count, 10, 0, 0, 0, 0, 0x00, 0x1d, 0, 0, 0, 0]
    }

    #[test]
    fn the_mode_is_in_either_format_of_sense_data() {
        for (count, stands_by) in [
            (0x00, true),
            (0x01, true),
            (0x40, true),
            (0x41, false),
            (0x80, false),
            (0x83, false),
            (0xff, false),
        ] {
            for sense in [by_descriptor(count, 0x50), fixed(count, 0x50)] {
                assert_eq!(returned_count(&sense), Some(count), "{sense:x?}");
            }
            assert_eq!(is_standby(count), stands_by, "{count:#x}");
        }
    }

    #[test]
    fn a_descriptor_is_found_behind_others() {
        let (head, ata) = (by_descriptor(0, 0x50)[..8].to_vec(), by_descriptor(0, 0x50)[8..].to_vec());
        let information = [0x00, 0x0a, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f];
        assert_eq!(returned_count(&[&head[..], &information, &ata].concat()), Some(0));
    }

    #[test]
    fn what_does_not_answer_is_not_in_standby() {
        // The drive ended the command with an error: ABORT, whose COUNT is zero too.
        for sense in [by_descriptor(0, 0x51), fixed(0, 0x51)] {
            assert_eq!(returned_count(&sense), None, "{sense:x?}");
        }
        // Sense data of something else, and every truncation.
        let other = [0x70, 0, 0x05, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0x00];
        assert_eq!(returned_count(&other), None);
        for whole in [by_descriptor(0, 0x50), fixed(0, 0x50)[..14].to_vec()] {
            for length in 0..whole.len() {
                assert_eq!(returned_count(&whole[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn stopped_disks_are_not_confused_with_others_that_are_not_ready() {
        for (key, code, qualifier, stopped) in [
            (2, 0x04, 0x02, true),
            (2, 0x04, 0x11, true),
            (2, 0x04, 0x01, false), // becoming ready
            (2, 0x3a, 0x00, false), // no medium
            (0, 0x5e, 0x02, true),
            (0, 0x5e, 0x0a, true),
            (0, 0x5e, 0x01, false), // idle
            (0, 0x5e, 0x08, false), // idle_c
            (0, 0x00, 0x00, false),
        ] {
            assert_eq!(is_stopped(key, code, qualifier), stopped, "{key:x} {code:x} {qualifier:x}");
        }
    }
}
