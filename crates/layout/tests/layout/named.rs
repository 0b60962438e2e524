//! Everything that libblkid names is recognised here by the same name: by its own list, by constructed
//! images, and by tables from the tools that write them.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

#[path = "../../../../tests/tools/made.rs"]
mod made;
#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use skip::present;
use straddle_device::FileMedium;
use straddle_layout::{TableKind, read_stack};
use straddle_units::ByteCount;
use straddle_units::io::SplitMix64;
use tempfile::TempDir;

/// The size of every image: minimal UDF, VMFS and OCFS2 volumes are smaller.
const LEN: u64 = 64 << 20;

/// An offset, from the end if negative, and the bytes there.
type Write<'a> = (i64, &'a [u8]);

/// A name, and bytes that suffice for it.
type Known<'a> = (&'a str, &'a [Write<'a>]);

const BCACHEFS: &[u8] = b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF";
const BCACHE: &[u8] = b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81";

/// Contents for which no Debian mkfs is used below.
const CONTENTS: &[Known<'_>] = &[
    ("ddf_raid_member", &[(-512, b"\xDE\x11\xDE\x11")]),
    ("ddf_raid_member", &[(-257 * 512, b"\x11\xDE\x11\xDE")]),
    ("isw_raid_member", &[(-1024, b"Intel Raid ISM Cfg Sig. 1.3.00")]),
    ("lsi_mega_raid_member", &[(-512, b"$XIDE$")]),
    ("via_raid_member", &[(-512, b"\x55\xAA\x01"), (-512 + 50, b"\x00")]),
    ("nvidia_raid_member", &[(-1024, b"NVIDIA  \x1E\0\0\0")]),
    ("promise_fasttrack_raid_member", &[(-63 * 512, b"Promise Technology, Inc.")]),
    ("promise_fasttrack_raid_member", &[(-3087 * 512, b"Promise Technology, Inc.")]),
    ("hpt45x_raid_member", &[(-11 * 512, b"\xF3\x16\x78\x5A")]),
    ("hpt37x_raid_member", &[(4640, b"\xF0\x16\x78\x5A")]),
    ("adaptec_raid_member", &[(-512, b"\x37\xFC\x4D\x1E"), (-256, b"DPTM")]),
    ("jmicron_raid_member", &[(-512, b"JM\x01\x00"), (-512 + 4, b"\xB5\xB2")]),
    ("bcachefs", &[(4096 + 24, BCACHEFS), (4096 + 104, b"\x08"), (4096 + 122, b"\0\x01")]),
    // Its first versions have the magic of bcache.
    ("bcachefs", &[(4096 + 24, BCACHE), (4096 + 104, b"\x08"), (4096 + 122, b"\x01\x02")]),
    ("ceph_bluestore", &[(0, b"bluestore block device\n")]),
    ("drbd", &[(-4096 + 60, b"\x83\x74\x02\x6B")]),
    ("drbd", &[(-4096 + 60, b"\x83\x74\x02\x6D")]),
    ("drbdmanage_control_volume", &[(0, b"$DRBDmgr=q0123456789abcdef0123456789abcdef\n")]),
    ("drbdproxy_datalog", &[(16, b"DRBDdlh*")]),
    ("LVM1_member", &[(0, b"HM\x01\0")]),
    ("DM_snapshot_cow", &[(0, b"SnAp\x01\0\0\0\x01\0\0\0\x08\0\0\0")]),
    ("VMFS_volume_member", &[(1 << 20, b"\x0D\xD0\x01\xC0")]),
    ("VMFS", &[(2 << 20, b"\x5E\xF1\xAB\x2F")]),
    ("ubi", &[(0, b"UBI#\x01")]),
    ("ubifs", &[(0, b"\x31\x18\x10\x06")]),
    ("vdo", &[(0, b"dmvdo001")]),
    ("stratis", &[(512 + 4, b"!Stra0tis\x86\xFF\x02^\x41rh")]),
    ("swsuspend", &[(4086, b"S1SUSPEND\0")]),
    ("exfs", &[(0, b"EXFS")]),
    ("apfs", &[(24, b"\x01\0"), (32, b"NXSB\0\x10\0\0")]),
    ("udf", &[(32769, b"BEA01\x01"), (32768 + 2049, b"NSR03\x01"), (32768 + 4097, b"TEA01\x01")]),
    ("hfsplus", &[(1024, b"H+\0\x04"), (1024 + 40, b"\0\0\x10\0")]),
    ("hfs", &[(1024, b"BD"), (1024 + 20, b"\0\0\x10\0")]),
    ("ufs", &[(8192 + 1372, b"\x54\x19\x01\0")]),
    ("ufs", &[(65536 + 1372, b"\x19\x01\x54\x19")]),
    ("ufs", &[(262_144 + 1372, b"\x19\x54\x01\x19")]),
    ("hpfs", &[(8192, b"\x49\xE8\x95\xF9")]),
    ("sysv", &[(1016, b"\x20\x7E\x18\xFD")]),
    ("sysv", &[(10_232, b"\xFD\x18\x7E\x20")]),
    ("xenix", &[(2048, b"\x2B\x55\x44")]),
    ("ReFS", &[(0, b"\0\0\0ReFS\0")]),
    ("cramfs", &[(0, b"\x45\x3D\xCD\x28")]),
    ("romfs", &[(0, b"-rom1fs-")]),
    ("gfs", &[(65536, b"\x01\x16\x19\x70"), (65536 + 24, b"\0\0\x05\x1D")]),
    ("gfs2", &[(65536, b"\x01\x16\x19\x70"), (65536 + 24, b"\0\0\x07\x09")]),
    ("ocfs", &[(8192, b"OracleCFS")]),
    ("ocfs2", &[(4096, b"OCFSV2")]),
    ("oracleasm", &[(32, b"ORCLDISK")]),
    ("vxfs", &[(1024, b"\xF5\xFC\x01\xA5")]),
    ("squashfs3", &[(0, b"hsqs"), (28, b"\x03")]),
    ("nss", &[(4096, b"SPB5")]),
    ("befs", &[(32, b"1SFB")]),
    ("mpool", &[(0, b"mpoolDev")]),
    ("zonefs", &[(0, b"SFOZ")]),
    ("scoutfs_data", &[(65540, b"\x8B\x42\x3C\x10")]),
    ("cs_fvault2", &[(8, b"\x01\0\x10\0"), (88, b"CS\x01\0\0\0")]),
    ("opensvc_hb", &[(4, b"\x3D\xC1\x3C\x87\xC0\x5B\xE3\xB6")]),
];

/// As `CONTENTS`, for partition tables.
const TABLES: &[Known<'_>] = &[
    ("dasd", &[(8192 + 4, b"\xE5\xD6\xD3\xF1")]),
    ("dasd", &[(8192, b"\xD3\xD5\xE7\xF1")]),
    ("ultrix", &[(16312, b"\x57\x29\x03\0")]),
    ("aix", &[(0, b"\xC9\xC2\xD4\xC1")]),
    ("solaris", &[(512 + 12, b"\xEE\xDE\x0D\x60")]),
    ("amiga", &[(15 * 512, b"RDSK")]),
];

/// Names on blkid's list that other tests of this crate cover with the tools that write them.
const ELSEWHERE: [&str; 5] = ["linux_raid_member", "LVM2_member", "DM_integrity", "BitLocker", "zfs_member"];

/// Names on the list that are not used here, and why.
const NOT_OURS: [(&str, &str); 2] = [
    ("ext4dev", "the kernel takes it for ext4"),
    ("silicon_medley_raid_member", "it has a sum; see the test of its own"),
];

fn image(dir: &Path, writes: &[Write<'_>]) -> File {
    let path = dir.join("image");
    let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(LEN).unwrap();
    for (at, bytes) in writes {
        let at = if *at < 0 { LEN - at.unsigned_abs() } else { at.unsigned_abs() };
        file.write_all_at(bytes, at).unwrap();
    }
    file
}

fn kind(dir: &Path) -> TableKind {
    let file = File::open(dir.join("image")).unwrap();
    let len = file.metadata().unwrap().len();
    read_stack(&FileMedium::new(file, ByteCount::new(len)), None, None).unwrap().kind
}

/// blkid's TYPE and PTTYPE of the image; empty if it checks more than a magic (a checksum).
fn blkid(dir: &Path) -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    for tag in ["TYPE", "PTTYPE"] {
        let output = Command::new("/usr/sbin/blkid")
            .args(["-p", "-o", "value", "-s", tag])
            .arg(dir.join("image"))
            .output();
        let output = output.unwrap();
        said.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    }
    said
}

/// Panics unless the image is recognised by `name`, and blkid says the same if it says anything.
fn judge(dir: &Path, name: &str, is_table: bool, what: &str, agreed: &mut usize) {
    let found = kind(dir);
    let ours = match &found {
        TableKind::Content(content) if !is_table => content.name(),
        TableKind::Foreign(name) if is_table => *name,
        other => panic!("{name}: {what}: {other:?}"),
    };
    assert_eq!(ours, name, "{what}");
    // Names that blkid does not know.
    let is_parteds = matches!(name, "amiga" | "pc98" | "loop");
    let theirs = if present(&["blkid"]) && !is_parteds { blkid(dir) } else { BTreeSet::new() };
    assert!(theirs.is_empty() || theirs.contains(name), "{name}: {what}: blkid says {theirs:?}");
    *agreed += usize::from(!theirs.is_empty());
}

#[test]
fn made_images_have_the_names_that_blkid_gives() {
    let dir = TempDir::new().unwrap();
    let mut agreed = 0;
    for (is_table, known) in [(false, CONTENTS), (true, TABLES)] {
        for (name, writes) in known {
            let mut writes = writes.to_vec();
            let sum;
            if *name == "via_raid_member" {
                sum = [0x55_u8.wrapping_add(0xAA).wrapping_add(1)];
                writes.push((-512 + 50, &sum));
            }
            drop(image(dir.path(), &writes));
            judge(dir.path(), name, is_table, &format!("{writes:02x?}"), &mut agreed);
        }
    }
    assert!(!present(&["blkid"]) || agreed > 40, "blkid agreed to only {agreed}");
}

#[test]
fn what_tools_make_has_the_name_that_blkid_gives() {
    let (mut judged, mut tried) = (0, 0);
    for (is_table, made) in [(false, made::CONTENTS), (true, made::TABLES)] {
        for (name, tool, command) in made {
            if !present(&[tool]) {
                continue;
            }
            let dir = TempDir::new().unwrap();
            drop(image(dir.path(), &[]));
            let command = command.replace("IMAGE", "image");
            let line = format!("PATH=$PATH:/usr/sbin:/sbin; {command}");
            let output = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{command}: {errors}");
            tried += 1;
            judge(dir.path(), name, is_table, &command, &mut judged);
        }
    }
    // blkid does not recognise amiga, pc98 and loop, nor bsd alone.
    assert!(!present(&["blkid"]) || judged + 4 >= tried, "blkid agreed to {judged} of {tried}");
}

/// Everything on blkid's own list is known here.
#[test]
fn nothing_on_blkids_list_is_missing() {
    if !present(&["blkid"]) {
        return;
    }
    let output = Command::new("/usr/sbin/blkid").arg("-k").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let made = made::CONTENTS.iter().map(|(name, ..)| *name);
    let mut ours: BTreeSet<&str> = made.chain(ELSEWHERE).collect();
    let dir = TempDir::new().unwrap();
    for (_, writes) in CONTENTS {
        drop(image(dir.path(), writes));
        if let TableKind::Content(content) = kind(dir.path()) {
            ours.insert(content.name());
        }
    }
    ours.extend(NOT_OURS.iter().map(|(name, _)| *name));
    let missing: Vec<&str> = list.lines().filter(|name| !ours.contains(name)).collect();
    assert!(list.lines().count() > 60 && missing.is_empty(), "not known here: {missing:?}");
}

/// A member of a Silicon Image RAID has a checksum over the bytes before it.
#[test]
fn silicon_medley_by_its_sum() {
    let mut sector = [0_u8; 512];
    sector[0x60..0x64].copy_from_slice(&0x2F00_0000_u32.to_le_bytes());
    sector[0x2E..0x34].copy_from_slice(b"SI3112");
    let sum = sector[..0x13E].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let sum = sum.fold(0_u16, u16::wrapping_add).wrapping_neg();
    sector[0x13E..0x140].copy_from_slice(&sum.to_le_bytes());
    let dir = TempDir::new().unwrap();
    drop(image(dir.path(), &[(-512, &sector)]));
    judge(dir.path(), "silicon_medley_raid_member", false, "its last sector", &mut 0);
    sector[0x13E] ^= 1;
    drop(image(dir.path(), &[(-512, &sector)]));
    assert_eq!(kind(dir.path()), TableKind::None);
}

/// Nothing is recognised on a blank medium, nor in noise, except in a few of many tries.
#[test]
fn noise_is_nothing() {
    let dir = TempDir::new().unwrap();
    let mut random = SplitMix64::new(1);
    let mut noise = vec![0_u8; 256 << 10];
    for round in 0..200 {
        random.fill(&mut noise);
        drop(image(dir.path(), &[(0, &noise), (-(256 << 10), &noise)]));
        assert_eq!(kind(dir.path()), TableKind::None, "round {round}");
    }
}
