use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use super::*;
use crate::identify::{
    AtaIdentify, FormatNvm, NvmeIdentifyNamespace, ReadCapacity16, SECTOR_LOG, block_lengths, has_log,
    optimal_transfer, rotation_rate,
};

#[test]
fn structures_are_those_of_the_kernel() {
    #[cfg(target_pointer_width = "64")]
    assert_eq!(size_of::<SgIoHdr>(), 88);
    assert_eq!(size_of::<NvmeAdminCmd>(), 72);
    assert_eq!((NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD), (0x4e40, 0xc048_4e41));
}

/// Sends every request, and returns its answer as text.
fn ask(file: &File) -> Vec<(&'static str, Result<String, IoctlError>)> {
    vec![
        ("ATA", ata_identify(file).map(|d| format!("{:?}", AtaIdentify::parse(&d)))),
        ("LOG", ata_log(file, 0).map(|d| format!("logs {}", has_log(&d, SECTOR_LOG)))),
        ("RC16", scsi_read_capacity_16(file).map(|d| format!("{:?}", ReadCapacity16::parse(&d)))),
        ("B0", scsi_inquiry_vpd(file, 0xb0).map(|d| format!("{:?}", optimal_transfer(&d)))),
        ("B1", scsi_inquiry_vpd(file, 0xb1).map(|d| format!("{:?}", rotation_rate(&d)))),
        ("B4", scsi_inquiry_vpd(file, 0xb4).map(|d| format!("{:?}", block_lengths(&d)))),
        ("NS", nvme_identify_namespace(file).map(|d| format!("{:?}", NvmeIdentifyNamespace::parse(&d)))),
        ("CTRL", nvme_identify_controller(file).map(|d| format!("{:?}", FormatNvm::parse(&d)))),
    ]
}

#[test]
fn other_files_are_refused() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let mut files = vec![File::open("/").unwrap()];
    files.extend(File::open(source)); // absent where the test binary runs far from its source
    for file in files {
        assert_eq!(kernel_limits(&file), KernelLimits::default());
        for (name, answer) in ask(&file) {
            let error = answer.unwrap_err();
            assert_eq!(error.os_kind(), io::ErrorKind::Unsupported, "{name}: {error}");
            assert!(error.to_string().ends_with("not supported by this device") && error.source().is_none());
        }
    }
    // A character device that is not a disk: block requests are not sent to it, and it does not know the
    // others.
    for (name, answer) in ask(&File::open("/dev/null").unwrap()) {
        assert_eq!(answer.unwrap_err().os_kind(), io::ErrorKind::Unsupported, "{name}");
    }
}

/// Tests `STRADDLE_TEST_DEVICE`, or one of the disks usual on test machines. Where none can be opened, the
/// test says that it was skipped.
#[test]
fn a_device_answers_or_says_why_not() {
    let named = std::env::var_os("STRADDLE_TEST_DEVICE").map(PathBuf::from);
    let must = named.is_some();
    let usual = ["/dev/vda", "/dev/sda", "/dev/nvme0n1"].map(PathBuf::from);
    let mut candidates = named.map_or(usual.to_vec(), |path| vec![path]).into_iter();
    let Some((path, file)) = candidates.find_map(|path| File::open(&path).ok().map(|file| (path, file)))
    else {
        assert!(!must, "STRADDLE_TEST_DEVICE cannot be opened");
        // Not every machine allows its tests to open its disks.
        use std::io::Write as _;
        let _ = writeln!(io::stderr(), "NOT RUN: no block device can be opened here");
        return;
    };
    let answers = ask(&file);
    for (name, answer) in &answers {
        match answer {
            Ok(text) => eprintln!("{}: {name}: {text}", path.display()),
            Err(error) => eprintln!("{}: {name}: {:?}: {error}", path.display(), error.os_kind()),
        }
    }
    // The kernel answers for every block device; drives may not answer.
    let limits = kernel_limits(&file);
    eprintln!("{}: {limits:?}", path.display());
    assert!([limits.logical, limits.physical, limits.io_min, limits.io_opt].iter().all(Option::is_some));
    assert!(limits.alignment_offset.is_some());
    if let Ok(expected) = std::env::var("STRADDLE_TEST_EXPECT") {
        let said = answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok())
            .any(|text| text.contains(&expected));
        assert!(said, "nothing says {expected}");
    }
}

#[test]
fn sense_data() {
    let mut fixed = [0u8; 18];
    (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 0x05, 0x24, 0x00);
    let sense = Sense::parse(&fixed).unwrap();
    assert_eq!(sense.to_string(), "illegal request (sense 5h, code 24h/00h)");
    assert!(sense.is_unsupported() && !sense.is_success() && !sense.is_attention());
    assert_eq!(IoctlError::Sense { what: "X", sense }.os_kind(), io::ErrorKind::Unsupported);

    let mut descriptor = [0u8; 22];
    descriptor[..4].copy_from_slice(&[0x72, 0x01, 0x00, 0x1d]);
    assert!(Sense::parse(&descriptor).unwrap().is_success());
    assert_eq!((Sense::parse(&[]), Sense::parse(&[0x00; 18])), (None, None));
    assert_eq!(Sense::parse(&[0x70]), Some(Sense { key: 0, asc: 0, ascq: 0 }));
}

#[test]
fn errors_keep_the_kind_and_do_not_repeat_their_source() {
    use rustix::io::Errno;
    let refused = IoctlError::os("SG_IO", Errno::PERM);
    assert_eq!(refused.os_kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(refused.to_string(), "SG_IO failed");
    assert!(refused.source().is_some());
    for errno in [Errno::NOTTY, Errno::OPNOTSUPP] {
        assert_eq!(IoctlError::os("SG_IO", errno).os_kind(), io::ErrorKind::Unsupported);
    }
}
