//! What drives report about themselves, from the raw bytes to the figures.

use std::collections::BTreeMap;

use super::*;
use crate::topology::{Formats, LbaFormats};

/// Attributes with arbitrary bytes.
#[derive(Default)]
struct Bytes(BTreeMap<&'static str, Vec<u8>>);

impl Bytes {
    fn of(texts: &[(&'static str, &str)]) -> Self {
        Self(texts.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect())
    }
}

impl Attributes for Bytes {
    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    fn list(&self, _dir: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A SATA disk for which the kernel shows `physical` and `offset`, and whose IDENTIFY data has these words
/// 106 and 209.
fn sata(physical: &str, offset: &str, words: [u16; 2]) -> Topology {
    let mut identify = [0; 512];
    identify[0] = 0x40;
    identify[2 * 106..][..2].copy_from_slice(&words[0].to_le_bytes());
    identify[2 * 209..][..2].copy_from_slice(&words[1].to_le_bytes());
    let mut device = Bytes::of(&[
        ("alignment_offset", offset),
        ("queue/logical_block_size", "512"),
        ("queue/physical_block_size", physical),
    ]);
    let page: Vec<u8> = [&[0; VPD_89_IDENTIFY][..], &identify].concat();
    device.0.insert("device/vpd_pg89", page);
    combine(DeviceKind::Scsi, &device, Answers::default()).1
}

#[test]
fn a_word_that_is_not_valid_says_nothing() {
    // Every value of the bits that make words 106 and 209 valid, with and without the bits that carry the
    // value.
    for validity in 0..4_u16 {
        let is_valid = validity == 0b01;
        for low in [0, 0x2003] {
            let found = sata("4096", "3584", [validity << 14 | low, 0x4001]);
            let said = found.physical.others().iter().any(|claim| matches!(claim.source, Source::Ata(_)));
            assert_eq!(said, is_valid, "word 106 is {:#06x}", validity << 14 | low);
            assert!(is_valid || found.physical.disagreeing().next().is_none());
        }
        let found = sata("4096", "3584", [0x6003, validity << 14 | 1]);
        let said = found.alignment_offset.others().len();
        assert_eq!(said, usize::from(is_valid), "word 209 is {:#06x}", validity << 14 | 1);
    }
    // A larger physical sector is used, but no offset is invented for it.
    let found = sata("512", "0", [0x6003, 0]);
    assert_eq!(found.physical.value(), ByteCount::new(4096));
    assert!(found.alignment_offset.others().is_empty());
}

/// An NVMe namespace of 512-byte blocks with these 16-bit fields, given by their offsets.
fn nvme(nsfeat: u8, fields: &[(usize, u16)], device: &[(&'static str, &str)]) -> Topology {
    let mut identify = [0; 4096];
    identify[0] = 1;
    identify[24] = nsfeat;
    // Two formats: 512-byte blocks (good), which is in force, and 4096-byte blocks (best).
    identify[25] = 1;
    identify[128..136].copy_from_slice(&[0, 0, 9, 2, 0, 0, 12, 0]);
    for (at, value) in fields {
        identify[*at..][..2].copy_from_slice(&value.to_le_bytes());
    }
    let answers =
        Answers { nvme: Some(NvmeIdentifyNamespace::parse(&identify).unwrap()), ..Answers::default() };
    combine(DeviceKind::Nvme, &Bytes::of(device), answers).1
}

/// NSFEAT.OPTPERF, and with it NSABP.
const OPTPERF: u8 = 1 << 4;
const OPTPERF_AND_NSABP: u8 = 1 << 4 | 1 << 1;

#[test]
fn an_optimum_that_the_kernel_dropped_is_in_force_as_zero() {
    let sectors = [("queue/logical_block_size", "512"), ("queue/physical_block_size", "4096")];
    // NOWS = 1024 blocks. Then: what the kernel shows, what is in force, and the number of other claims.
    for (shown, in_force, others) in
        [(Some("0"), 0, 1), (Some("524288"), 524_288, 1), (Some("4096"), 4096, 1), (None, 524_288, 0)]
    {
        let mut device = sectors.to_vec();
        device.extend(shown.map(|shown| ("queue/optimal_io_size", shown)));
        let figure = nvme(OPTPERF, &[(72, 1023)], &device).io_opt.unwrap();
        assert_eq!((figure.value().get(), figure.others().len()), (in_force, others), "{shown:?}");
    }
    // NOWS = 0 does not mean an optimum of one block, whatever the kernel makes of it.
    assert_eq!(nvme(OPTPERF, &[], &sectors).io_opt, None);
    let shown = [sectors.as_slice(), &[("queue/optimal_io_size", "0")]].concat();
    assert_eq!(nvme(OPTPERF, &[], &shown).io_opt, None);
    // VPD page B0h: 65535 blocks on 4096-byte sectors, which sd does not take.
    let mut device = Bytes::of(&shown);
    let mut page = vec![0; 64];
    (page[1], page[3]) = (0xb0, 60);
    page[12..16].copy_from_slice(&65535_u32.to_be_bytes());
    device.0.insert("device/vpd_pgb0", page);
    let found = combine(DeviceKind::Scsi, &device, Answers::default()).1;
    let figure = found.io_opt.unwrap();
    assert_eq!((figure.value(), figure.others()[0].value.get()), (ByteCount::ZERO, 33_553_920));
    assert!(figure.why().unwrap().contains("rejected"));
}

#[test]
fn a_limit_of_the_kernel_is_no_word_of_the_drive() {
    for (kind, opt, limit, is_limit) in [
        (DeviceKind::Scsi, "1310720", "1280", true),
        (DeviceKind::Scsi, "122880", "120", true),
        (DeviceKind::Scsi, "16773120", "16383", true), // 16776704, rounded to 4096 and to 1024
        (DeviceKind::Scsi, "1310720", "512", false),
        (DeviceKind::Virtual, "1310720", "1280", false),
    ] {
        let device = Bytes::of(&[
            ("queue/logical_block_size", "512"),
            ("queue/physical_block_size", "4096"),
            ("queue/optimal_io_size", opt),
            ("queue/max_sectors_kb", limit),
        ]);
        let found = combine(kind, &device, Answers::default()).1.io_opt.unwrap();
        assert_eq!(found.source() == &Source::KERNEL_LIMIT, is_limit, "{kind:?} {opt} {limit}");
        assert_eq!(found.value().get().to_string(), opt);
    }
}

#[test]
fn what_a_namespace_says_of_atomic_writes_and_formats_is_read() {
    let fields = [(36, 31), (44, 63)]; // NAWUPF: 16 KiB; NABSPF: 32 KiB
    let atomic = |nsfeat, fields: &[(usize, u16)], device: &[_]| {
        let figure = nvme(nsfeat, fields, device).atomic?;
        Some((figure.value(), figure.others().len()))
    };
    let sizes = |unit_min, unit_max, boundary| AtomicWrites {
        unit_min: ByteCount::new(unit_min),
        unit_max: ByteCount::new(unit_max),
        boundary: ByteCount::new(boundary),
    };
    assert_eq!(atomic(OPTPERF_AND_NSABP, &fields, &[]), Some((sizes(512, 16384, 32768), 0)));
    assert_eq!(atomic(OPTPERF, &fields, &[]), None); // the controller's values apply
    assert_eq!(atomic(OPTPERF_AND_NSABP, &[(36, 31), (42, 1)], &[]), None); // shifted by NABO
    let offered =
        [("queue/atomic_write_unit_min_bytes", "512"), ("queue/atomic_write_unit_max_bytes", "4096")];
    assert_eq!(atomic(OPTPERF_AND_NSABP, &fields, &offered), Some((sizes(512, 4096, 0), 1)));

    let Some(Formats::Nvme(formats)) = nvme(0, &[], &[]).formats else { panic!("no formats") };
    let (place, faster) = formats.faster().unwrap();
    assert_eq!((formats.current, place, faster.logical.unwrap()), (0, 1, BlockSize::B4096));
    let in_force = LbaFormats { current: 1, ..formats };
    assert_eq!(in_force.faster(), None);
}

fn read(kind: DeviceKind, attributes: &[(&'static str, &'static str)]) -> Topology {
    combine(kind, &Bytes::of(attributes), Answers::default()).1
}

#[test]
fn a_drive_known_to_misreport_is_overruled() {
    let topology = read(
        DeviceKind::Scsi,
        &[
            ("device/vendor", "ATA     \n"),
            ("device/model", "WDC WD10EARS-00Y\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "512\n"),
        ],
    );
    assert_eq!(topology.physical.value(), ByteCount::new(4096));
    assert!(matches!(topology.physical.source(), Source::Quirk(_)));
    assert_eq!(topology.physical.disagreeing().count(), 1);
}

/// An SSD, a cloud's volume and an SD card that report 512-byte sectors are judged as their images are,
/// unless they name their unit; a spinning disk is not.
#[test]
fn flash_that_reports_512_is_taken_for_more() {
    let physical = |kind, rotational, more: &[(&'static str, &'static str)]| {
        let mut attributes = vec![
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "512\n"),
            ("queue/minimum_io_size", "512\n"),
            ("queue/rotational", rotational),
        ];
        attributes.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        attributes.extend(more);
        let topology = read(kind, &attributes);
        (topology.physical.value().get(), *topology.physical.source() == Source::Assumed)
    };
    for kind in [DeviceKind::Nvme, DeviceKind::Scsi, DeviceKind::Mmc] {
        assert_eq!(physical(kind, "0\n", &[]), (4096, true), "{kind:?}");
        assert_eq!(physical(kind, "1\n", &[]), (512, false), "{kind:?}");
        let sectors = [("queue/physical_block_size", "4096\n"), ("queue/minimum_io_size", "4096\n")];
        assert_eq!(physical(kind, "0\n", &sectors), (4096, false), "{kind:?}");
    }
    assert_eq!(physical(DeviceKind::Nvme, "0\n", &[("queue/minimum_io_size", "16384\n")]), (512, false));
    assert_eq!(physical(DeviceKind::Scsi, "0\n", &[("device/model", "scsi_debug      \n")]), (512, false));
    for (vendor, model) in
        [("QEMU    ", "QEMU HARDDISK   "), ("VMware  ", "Virtual disk    "), ("ATA     ", "QEMU HARDDISK   ")]
    {
        let more = [("device/vendor", vendor), ("device/model", model)];
        assert_eq!(physical(DeviceKind::Scsi, "0\n", &more), (512, false), "{model}");
    }
    assert_eq!(physical(DeviceKind::Md, "0\n", &[]), (512, false));
}

#[test]
fn the_minimum_io_of_nvme_is_its_indirection_unit() {
    let topology = read(
        DeviceKind::Nvme,
        &[
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "512\n"),
            ("queue/minimum_io_size", "16384\n"),
        ],
    );
    assert_eq!(topology.indirection_unit.unwrap().value(), ByteCount::new(16384));
}

#[test]
fn an_arrays_stripe_is_its_chunk_times_its_data_members() {
    let stripe = |level, disks, layout| {
        let attributes = [
            ("md/chunk_size", "65536"),
            ("md/level", level),
            ("md/raid_disks", disks),
            ("md/layout", layout),
        ];
        read(DeviceKind::Md, &attributes).stripe.map(|s| s.value().get() / 65536)
    };
    assert_eq!(stripe("raid0", "3", "0"), Some(3));
    assert_eq!(stripe("raid5", "4", "2"), Some(3));
    assert_eq!(stripe("raid6", "6", "2"), Some(4));
    assert_eq!(stripe("raid10", "4", "258"), Some(2));
    assert_eq!(stripe("raid10", "3", "258"), Some(3));
    assert_eq!(stripe("raid1", "2", "0"), None);
    assert_eq!(stripe("raid6", "1", "0"), None);
}

#[test]
fn minus_one_is_read_in_both_its_forms() {
    for text in ["-1", "4294967295"] {
        assert_eq!(alignment_offset(text), Some(AlignmentOffset::Misaligned));
    }
    assert_eq!(alignment_offset("3584"), Some(AlignmentOffset::Bytes(ByteCount::new(3584))));
    assert_eq!(alignment_offset("-2"), None);
}
