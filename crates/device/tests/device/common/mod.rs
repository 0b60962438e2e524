//! Shared by the tests of image formats: qemu-img, a disk to convert, and reading through our own readers.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

#[path = "../../../../../tests/tools/skip.rs"]
pub(crate) mod skip;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use straddle_device::image::{Access, Allowed, Image, ImageError, Opened, open};
use straddle_device::{FileMedium, Medium};
use straddle_units::io::SplitMix64;
use straddle_units::{ByteCount, ByteOffset};

pub(crate) use skip::present;

/// The disk's size, which is not a multiple of any format's block.
pub(crate) const DISK: u64 = 33 * (1 << 20) + 3 * 512;

/// Runs qemu-img in `dir`. It must succeed.
pub(crate) fn qemu_img(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("qemu-img").args(args).current_dir(dir).output().expect("qemu-img runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "qemu-img {args:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns pseudo-random bytes, the same for the same seed.
pub(crate) fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut random = SplitMix64::new(seed);
    std::iter::repeat_with(move || random.next().to_le_bytes()[3])
}

/// Returns a disk with noise at both ends, across block boundaries, in single sectors and in long runs.
pub(crate) fn disk() -> Vec<u8> {
    let mut disk = vec![0; usize::try_from(DISK).expect("it fits memory")];
    let end = disk.len();
    let runs = [
        (0, 512),
        (4096, 4096),
        (65_536 + 512, 1024),
        ((1 << 20) - 512, 1024),
        (3 << 20, 200_000),
        ((8 << 20) - 100_000, 250_000),
        ((17 << 20) + 7, 3),
        (25 << 20, 1 << 20),
        (end - 512, 512),
    ];
    for (seed, (start, len)) in (1..).zip(runs) {
        disk[start..start + len].iter_mut().zip(noise(seed)).for_each(|(byte, noise)| *byte = noise);
    }
    // Compressible data beside the noise.
    disk[20 << 20..(20 << 20) + 300_000].fill(0x55);
    disk
}

/// Opens `path`, with permission to open `allowed`.
pub(crate) fn open_with(path: &Path, allowed: &[PathBuf]) -> Result<Opened, ImageError> {
    let allowed = Allowed::new(allowed).expect("the files that are allowed are there");
    let file = File::open(path).expect("the image is there");
    let len = ByteCount::new(file.metadata().expect("it has a size").len());
    open(Box::new(FileMedium::new(file, len)), &Access::new(path, &allowed))
}

/// Opens a container.
pub(crate) fn image_with(path: &Path, allowed: &[PathBuf]) -> Image {
    match open_with(path, allowed) {
        Ok(Opened::Image(image)) => *image,
        Ok(Opened::Raw(_)) => panic!("{}: taken for a raw image", path.display()),
        Err(error) => panic!("{}: {}", path.display(), chain(&error)),
    }
}

/// Returns an error with all of its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Reads `len` bytes of `medium` from `at`, or returns the error.
pub(crate) fn read(medium: &dyn Medium, at: u64, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0xA5; len];
    medium.read_at(ByteOffset::new(at), &mut bytes).map_err(|error| chain(&error))?;
    Ok(bytes)
}

/// Compares every byte of `medium` with `disk`, in pieces that match no block size. Past the end of `disk` it
/// must be zeros.
pub(crate) fn assert_holds(medium: &dyn Medium, disk: &[u8], what: &str) {
    let len = usize::try_from(medium.len().get()).expect("it fits memory");
    assert!(len >= disk.len(), "{what}: {len} bytes");
    let mut at = 0;
    for piece in [1, 511, 70_001, 4096, 1_500_000].into_iter().cycle() {
        let piece = piece.min(len - at);
        let bytes = read(medium, at as u64, piece).unwrap_or_else(|error| panic!("{what}: {error}"));
        for (index, byte) in bytes.iter().enumerate() {
            let wanted = disk.get(at + index).copied().unwrap_or(0);
            assert_eq!(*byte, wanted, "{what}: byte {}", at + index);
        }
        at += piece;
        if at == len {
            break;
        }
    }
    assert!(read(medium, len as u64, 1).is_err(), "{what}: there is a byte past the end");
}

/// Returns every file in `dir` except `image`.
pub(crate) fn others(dir: &Path, image: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the folder is there");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path != image).collect()
}

/// Writes the CRC-32C of a structure as the specification of VHDX requires: over the structure, with zeros
/// for the checksum. It is computed bit by bit.
pub(crate) fn sign_vhdx(structure: &mut [u8]) {
    structure[4..8].fill(0);
    let mut crc = u32::MAX;
    for byte in structure.iter() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    structure[4..8].copy_from_slice(&(!crc).to_le_bytes());
}

/// Writes the checksum of a VHD footer (at 64) or header (at 36).
pub(crate) fn sign_vhd(structure: &mut [u8], at: usize) {
    structure[at..at + 4].fill(0);
    let sum = structure.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    structure[at..at + 4].copy_from_slice(&(!sum).to_be_bytes());
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
