//! Images that are broken or malicious. Every request returns bytes, or an error that names a byte of the
//! file. There is no panic and no hang, and no buffer is sized by what an image says.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tests::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{chain, noise, present, put, qemu_img, sign_vhd, sign_vhdx};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use straddle_device::image::{Access, Allowed, Opened, open};
use straddle_device::{Medium, MemoryMedium};
use straddle_units::ByteOffset;
use tempfile::TempDir;

/// The address space limit of the test process, in KiB: 128 MiB, which includes the program itself.
const LIMIT: &str = "131072";
/// Set in the process with the limit, to the folder with the images. qemu-img itself needs more memory than
/// that.
const LIMITED: &str = "STRADDLE_TEST_LIMITED";

/// Opens the image `bytes` and reads in several places. Returns the first error.
fn use_bytes(bytes: Vec<u8>) -> Option<String> {
    let allowed = Allowed::default();
    let access = Access::new("image".as_ref(), &allowed);
    let image = match open(Box::new(MemoryMedium::new(bytes)), &access) {
        Ok(Opened::Image(image)) => image,
        Ok(Opened::Raw(_)) => return Some("raw".to_owned()),
        Err(error) => return Some(chain(&error)),
    };
    let placement = &image.container().placement;
    assert_eq!(placement.units() > 0, placement.alignment().is_some());
    let len = image.len().get();
    let mut first = None;
    for at in [0, 4096, len / 3, len / 2, len.saturating_sub(8192), len.saturating_sub(512), u64::MAX - 5] {
        let mut buffer = [0; 8192];
        for want in [512, 8192] {
            if let Err(error) = image.read_at(ByteOffset::new(at), &mut buffer[..want])
                && at.checked_add(want as u64).is_some_and(|end| end <= len)
            {
                first.get_or_insert(chain(&error));
            }
        }
        let _ = image.place(ByteOffset::new(at));
    }
    first.or_else(|| image.remarks().first().cloned())
}

/// Formats, with qemu-img's name and options for each.
const KINDS: [(&str, &str, &[&str]); 15] = [
    ("qcow2", "qcow2", &[]),
    ("qcow2", "qcow2", &["-o", "extended_l2=on,cluster_size=16k"]),
    ("qcow2", "qcow2", &["-c", "-o", "cluster_size=4k"]),
    ("qcow2", "qcow2", &["-c", "-o", "compression_type=zstd"]),
    ("vmdk", "vmdk", &[]),
    ("vmdk", "vmdk", &["-o", "subformat=streamOptimized"]),
    ("vmdk", "vmdk", &["-o", "subformat=monolithicFlat"]),
    ("vhd", "vpc", &[]),
    ("vhd", "vpc", &["-o", "subformat=fixed"]),
    ("vhdx", "vhdx", &["-o", "block_size=1M"]),
    ("vdi", "vdi", &[]),
    ("vdi", "vdi", &["-o", "static=on"]),
    ("qed", "qed", &[]),
    ("qed", "qed", &["-o", "cluster_size=4k"]),
    ("parallels", "parallels", &["-o", "cluster_size=64k"]),
];

/// Creates a small image of every kind in `dir`, named by its number.
fn make_seeds(dir: &Path) {
    let mut raw = vec![0; 5 << 20];
    for (seed, at) in [0, 70_000, 1 << 20, (3 << 20) - 5000, (5 << 20) - 512].into_iter().enumerate() {
        let bytes: Vec<u8> = noise(seed as u64 + 1).take(512).collect();
        put(&mut raw, at, &bytes);
    }
    fs::write(dir.join("raw"), raw).unwrap();
    for (index, (_, format, options)) in KINDS.into_iter().enumerate() {
        let name = index.to_string();
        qemu_img(dir, &[&["convert", "-O", format], options, &["raw", &name]].concat());
    }
}

/// Returns the images that [`make_seeds`] created.
fn seeds(dir: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let read = |index: usize| fs::read(dir.join(index.to_string())).unwrap();
    KINDS.into_iter().enumerate().map(|(index, (kind, ..))| (kind, read(index))).collect()
}

/// Returns the offsets of the words of `image` that are not zero, which is where its structures are.
fn telling(image: &[u8]) -> Vec<usize> {
    let words = image.chunks(8).enumerate().filter(|(_, word)| word.iter().any(|byte| *byte != 0));
    words.map(|(index, _)| index * 8).collect()
}

/// Recomputes the checksums, so that the checks that follow them are reached.
fn sign(kind: &str, image: &mut [u8]) {
    let end = image.len();
    match kind {
        "vhd" => {
            sign_vhd(&mut image[end - 512..], 64);
            sign_vhd(&mut image[..512], 64);
            sign_vhd(&mut image[512..1536], 36);
        }
        "vhdx" => {
            for (at, len) in
                [(64 << 10, 4 << 10), (128 << 10, 4 << 10), (192 << 10, 64 << 10), (256 << 10, 64 << 10)]
            {
                sign_vhdx(&mut image[at..at + len]);
            }
        }
        _ => {}
    }
}

/// Changes to an image: which word, which byte of it, and the new bytes.
fn changes() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..=8),
        Just(vec![0xFF; 8]),
        Just(vec![0xFF; 4]),
        Just(vec![0; 8]),
        Just(vec![0x7F, 0xFF, 0xFF, 0xFF]),
        Just(vec![0, 0, 0, 0x80]),
        (0_u32..64).prop_map(|bit| (1_u64 << bit).to_le_bytes().to_vec()),
        (0_u32..64).prop_map(|bit| (1_u64 << bit).to_be_bytes().to_vec()),
    ];
    // Headers come first, so small numbers matter most.
    let place = prop_oneof![3 => 0_usize..64, 1 => any::<usize>()];
    prop::collection::vec((place, 0_usize..8, value), 1..5)
}

#[test]
fn changed_images_do_no_harm() {
    if !present(&["qemu-img"]) {
        return;
    }
    let Some(dir) = std::env::var_os(LIMITED) else {
        let dir = TempDir::new().unwrap();
        make_seeds(dir.path());
        // Runs this test again, in a process with little memory.
        let own = std::env::current_exe().unwrap();
        let own_name = "tests::hostile_images::changed_images_do_no_harm";
        let line = format!("ulimit -v {LIMIT} && exec \"$0\" --test-threads=1 --exact {own_name}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .arg(own)
            .env(LIMITED, dir.path())
            .env("MALLOC_ARENA_MAX", "1")
            .env("RUST_BACKTRACE", "0");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let too_much = Vec::<u8>::new().try_reserve_exact(128 << 20);
    assert!(too_much.is_err(), "the limit does not hold");
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    for (kind, image) in seeds(Path::new(&dir)) {
        assert_eq!(use_bytes(image.clone()).filter(|error| !error.contains("not opened")), None, "{kind}");
        let places = telling(&image);
        let run = TestRunner::new(config.clone()).run(&(changes(), any::<bool>()), |(changes, signed)| {
            let mut image = image.clone();
            for (place, byte, value) in changes {
                let at = places[place % places.len()] + byte;
                let room = image.len() - at;
                put(&mut image, at, &value[..value.len().min(room)]);
            }
            if signed {
                sign(kind, &mut image);
            }
            use_bytes(image);
            Ok(())
        });
        run.unwrap_or_else(|error| panic!("{kind}: {error}"));
        for len in [0, 1, 4, 72, 511, 512, 513, 1024, 4096, 65_536, 200_000, image.len() / 2] {
            use_bytes(image[..len.min(image.len())].to_vec());
        }
    }
}

/// An offset, and the bytes written there.
type Change = (usize, &'static [u8]);

/// A qcow2 header without tables: version 3, clusters of 64 KiB, a disk of 1 MiB.
fn qcow2() -> Vec<u8> {
    let mut image = vec![0; 128 << 10];
    put(&mut image, 0, b"QFI\xfb");
    put(&mut image, 4, &3_u32.to_be_bytes());
    put(&mut image, 20, &16_u32.to_be_bytes());
    put(&mut image, 24, &(1_u64 << 20).to_be_bytes());
    put(&mut image, 36, &1_u32.to_be_bytes());
    put(&mut image, 40, &(64_u64 << 10).to_be_bytes());
    put(&mut image, 100, &104_u32.to_be_bytes());
    image
}

#[test]
fn absurd_qcow2_headers_are_reported_with_their_byte() {
    assert_eq!(use_bytes(qcow2()), None);
    let two = |a: Change, b: Change| vec![a, b];
    let cases: Vec<(Vec<Change>, &str)> = vec![
        (vec![(4, &[0, 0, 0, 9])], "byte 4: version 9"),
        (vec![(20, &[0, 0, 0, 63])], "byte 20: the cluster size is 2^63 bytes"),
        (vec![(20, &[0, 0, 0, 8])], "byte 20: the cluster size is 2^8 bytes"),
        (vec![(24, &[0xFF; 8])], "byte 24: the disk size (18446744073709551615 bytes) is not valid"),
        (
            vec![(24, &[0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])],
            "byte 36: the L1 table has 1 entries",
        ),
        // The largest disk needs an L1 table of 32 GiB, in a file of 128 KiB.
        (
            two((24, &[0x00, 0x7F]), (36, &[0xFF; 4])),
            "byte 40: the L1 table at byte 65536 is outside the file",
        ),
        (vec![(32, &[0, 0, 0, 1])], "byte 32: an encrypted image (AES)"),
        (vec![(40, &[0xFF; 8])], "byte 40: the L1 table"),
        (
            vec![(40, &[0, 0, 0, 0, 0, 0, 2, 0])],
            "byte 40: the L1 table at byte 512 is outside the file or not on",
        ),
        (vec![(72, &[0x80])], "byte 72: an unknown feature"),
        (vec![(79, &[4])], "byte 72: the external data file has no name"),
        (two((79, &[8]), (104, &[2])), "byte 104: compression type 2"),
        (two((79, &[16]), (20, &[0, 0, 0, 12])), "byte 20: the clusters are too small"),
        (
            two((8, &[0, 0, 0, 0, 0, 0, 1, 0]), (16, &[0xFF; 4])),
            "byte 16: the name of the backing file is 4294967295",
        ),
        (
            two((104, &[0xE2, 0x79, 0x2A, 0xCA]), (108, &[0xFF; 4])),
            "byte 108: a header extension of 4294967295",
        ),
        (vec![(65_536, &[0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0])], "the medium ends at byte 131072"),
        (
            vec![(65_536, &[0, 0, 0, 0, 0, 0, 2, 0])],
            "byte 65536: the L2 table at byte 512 is not on a cluster boundary",
        ),
        // The L1 table is its own L2 table; then its entry is also a compressed cluster.
        (vec![(65_536, &[0, 0, 0, 0, 0, 1, 0, 0])], ""),
        (two((65_536, &[0, 0, 0, 0, 0, 0, 0, 0]), (65_536, &[0x40, 0, 0, 0, 0, 1, 0, 0])), "decompressed"),
    ];
    for (changes, wanted) in cases {
        let mut image = qcow2();
        for (at, value) in &changes {
            put(&mut image, *at, value);
        }
        let error = use_bytes(image).unwrap_or_default();
        assert!(error.contains(wanted), "{changes:?}: '{error}' is not '{wanted}'");
    }
}

#[test]
fn absurd_tables_are_reported_with_their_byte() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    make_seeds(dir.path());
    let seeds = seeds(dir.path());
    let of = |index: usize| seeds[index].clone();
    let cases: Vec<(usize, usize, &[u8], &str)> = vec![
        (4, 12, &[0xFF; 8], "byte 12: the disk size"),
        (4, 20, &[3, 0], "byte 20: the grain size (3 sectors) is not valid"),
        (4, 20, &[0; 8], "byte 20: the grain size (0 sectors) is not valid"),
        (4, 24, &[1], "byte 20: the grain size"),
        (4, 36, &[0xFF; 4], "byte 28: the descriptor is too long"),
        (4, 44, &[0; 4], "byte 44: the grain table size (0 entries) is not valid"),
        (4, 44, &[0xFF; 4], "byte 44: the grain table size (4294967295"),
        (4, 59, &[0xFF; 2], "byte 56: the grain directory at byte"),
        (4, 56, &[0; 8], "byte 56: the position of the grain directory (sector 0) is not valid"),
        (4, 56, &[0xFF; 8], "the footer, which holds the position of the grain directory, is missing"),
        (5, 77, &[9], "byte 77: the combination of compression method 9"),
        (7, 16, &[0xFF; 8], "the medium ends at byte"),
        (7, 512 + 16, &[0xFF; 8], "byte 528: the block table at byte"),
        (7, 512 + 28, &[0; 4], "byte 540: the block table has 0 entries"),
        (7, 512 + 32, &[0; 4], "byte 544: the block size (0 bytes) is not valid"),
        (7, 512 + 32, &[0x80, 0, 0, 0], "byte 544: the block size (2147483648 bytes) is not valid"),
        (7, 512 + 32, &[0, 0, 2, 0], "byte 540: the block table has"),
        (7, 1536, &[0x7F; 4], "byte 1536: the block at byte"),
        (9, (192 << 10) + 16 + 16, &[0xFF; 8], "byte 196640: the position of a region"),
        (10, 0x44, &[0], "byte 68: version 1.0"),
        (10, 0x4C, &[9], "byte 76: the image type 9 is unknown"),
        (10, 0x154, &[0xFF; 4], "byte 340: the block map at byte 4294967295"),
        (10, 0x170, &[0xFF; 8], "byte 368: the disk size"),
        (10, 0x178, &[0; 4], "byte 376: the block size (0 bytes) is not valid"),
        (10, 0x180, &[0; 4], "byte 384: 0 blocks"),
        (10, 0x200, &[0, 0, 0, 0x70], "byte 512: block 1879048192"),
    ];
    for (seed, at, value, wanted) in cases {
        let (kind, mut image) = of(seed);
        put(&mut image, at, value);
        if kind == "vhd" {
            // Both copies of the footer must agree.
            let (end, copy) = (image.len(), image[..512].to_vec());
            put(&mut image, end - 512, &copy);
        }
        sign(kind, &mut image);
        let error = use_bytes(image).unwrap_or_default();
        assert!(error.contains(wanted), "{kind} {at} {value:?}: '{error}' is not '{wanted}'");
    }
}

#[test]
fn a_vdi_block_past_every_number_is_reported() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    make_seeds(dir.path());
    let (_, mut image) = seeds(dir.path()).swap_remove(10);
    // The largest block size, the same length before each block, and the last block number: past 2^64.
    put(&mut image, 0x178, &0xFFFF_FE00_u32.to_le_bytes());
    put(&mut image, 0x17C, &u32::MAX.to_le_bytes());
    put(&mut image, 0x200, &0xFFFF_FFFD_u32.to_le_bytes());
    let error = use_bytes(image).unwrap();
    assert!(error.contains("byte 512: block 4294967293 is past the end of the file"), "{error}");
}

#[test]
fn absurd_descriptors_are_reported_with_their_byte() {
    let first = "# Disk DescriptorFile\n";
    let many = "RW 1 ZERO\n".repeat(20_000);
    let cases = [
        ("RW x FLAT \"a\" 0\n".to_owned(), "byte 22: the extent line"),
        ("RW 1 VMFSRDM \"a\"\n".to_owned(), "byte 22: the extent line"),
        (format!("RW {} FLAT \"a\" 0\n", u64::MAX), "byte 22: the extent line"),
        (format!("RW 1 FLAT \"a\" {}\n", u64::MAX / 512), "byte 22: the extent line"),
        (format!("RW {0} ZERO\nRW {0} ZERO\n", u64::MAX / 1024 - 1), "too many extents"),
        (many, "too many extents"),
        ("#".repeat(2 << 20), "too long for a descriptor"),
        (
            "RW 9 FLAT \"/etc/passwd\" 0\n".to_owned(),
            "needs the extent file /etc/passwd, which is not opened",
        ),
        ("RW 9 FLAT \"\" 0\n".to_owned(), "which is not opened"),
        ("parentCID=1\nRW 9 ZERO\n".to_owned(), "the parent (without a name) was not opened"),
    ];
    for (text, wanted) in cases {
        let error = use_bytes(format!("{first}{text}").into_bytes()).unwrap_or_default();
        assert!(error.contains(wanted), "{:.80}: '{error}' is not '{wanted}'", text);
    }
}

#[test]
fn a_zstd_frame_that_asks_for_much_memory_is_refused() {
    let mut image = qcow2();
    put(&mut image, 79, &[8]);
    put(&mut image, 104, &[1]);
    put(&mut image, 65_536, &[0, 0, 0, 0, 0, 1, 0, 8]);
    image.resize(256 << 10, 0);
    put(&mut image, 65_536, &(128_u64 << 10).to_be_bytes());
    // A compressed cluster at byte 192 KiB, whose frame has a window of 2^41 bytes.
    put(&mut image, 128 << 10, &(1 << 62 | 192_u64 << 10).to_be_bytes());
    for window in [0xF8, 0x60, 0xFF] {
        put(&mut image, 192 << 10, &[0x28, 0xB5, 0x2F, 0xFD, 0x00, window, 0x01, 0x00, 0x00]);
        let error = use_bytes(image.clone()).unwrap();
        assert!(error.contains("byte 196608: a compressed unit cannot be decompressed"), "{error}");
    }
}
