//! What the usual tools pack is unpacked to the same bytes, whatever it is. Damaged or endless input ends in
//! an error.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use std::process::{Command, Stdio};

use proptest::prelude::*;
use straddle_units::io::SplitMix64;

use super::*;
use crate::skip;

const TOOLS: [(Packing, &str); 4] =
    [(Packing::Gzip, "gzip"), (Packing::Xz, "xz"), (Packing::Zstd, "zstd"), (Packing::Bzip2, "bzip2")];

const KIB: u64 = 1024;

/// Packs `bytes` with a tool.
fn pack(tool: &str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut command = Command::new(tool);
    let mut child = command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut into, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || into.write_all(&bytes));
    let packed = child.wait_with_output().unwrap().stdout;
    writer.join().unwrap().unwrap();
    packed
}

fn unpacked(packing: Packing, packed: &[u8], limits: Limits) -> Result<Vec<u8>, UnpackError> {
    let file = scratch().unwrap();
    file.write_all_at(packed, 0).unwrap();
    let medium = unpack(file, packing, limits)?;
    let mut bytes = vec![0; usize::try_from(medium.len().get()).unwrap()];
    medium.read_at(ByteOffset::ZERO, &mut bytes).unwrap();
    Ok(bytes)
}

/// Returns noise and zeros in turn, of the lengths given.
fn bytes(lengths: &[usize]) -> Vec<u8> {
    let mut random = SplitMix64::new(1);
    let mut bytes = Vec::new();
    for (at, length) in lengths.iter().enumerate() {
        for _ in 0..*length {
            let noise = random.next().to_le_bytes()[3];
            bytes.push(if at % 2 == 0 { noise } else { 0 });
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Packed in one piece, and in two that are concatenated.
    #[test]
    fn what_is_packed_comes_back(lengths in proptest::collection::vec(0_usize..200_000, 0..4), at in any::<usize>()) {
        let plain = bytes(&lengths);
        let (head, tail) = plain.split_at(at % (plain.len() + 1));
        for (packing, tool) in TOOLS.iter().filter(|(_, tool)| skip::present(&[tool])) {
            prop_assert!(unpacked(*packing, &pack(tool, &plain), Limits::default()).unwrap() == plain, "{}", tool);
            let packed = [pack(tool, head), pack(tool, tail)].concat();
            prop_assert!(unpacked(*packing, &packed, Limits::default()).unwrap() == plain, "{} in two", tool);
        }
    }

    /// Changed or truncated input gives an error at a byte of the file, or other contents. It never panics,
    /// and never exceeds the limits.
    #[test]
    fn what_is_damaged_ends(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), cut in any::<usize>()) {
        let plain = bytes(&[3000, 70_000, 100]);
        let limits = Limits { len: ByteCount::new(256 * KIB), data: ByteCount::new(256 * KIB) };
        for (packing, tool) in TOOLS.iter().filter(|(_, tool)| skip::present(&[tool])) {
            let mut packed = pack(tool, &plain);
            for (at, byte) in &changes {
                let at = at % packed.len();
                packed[at] = *byte;
            }
            packed.truncate(1 + cut % packed.len());
            match unpacked(*packing, &packed, limits) {
                Ok(bytes) => prop_assert!(bytes.len() <= 256 << 10),
                Err(UnpackError::Damaged { at, .. }) => prop_assert!(at.get() <= packed.len() as u64),
                Err(UnpackError::TooLarge { .. }) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}

#[test]
fn what_is_cut_short_is_not_taken_for_all() {
    let plain = bytes(&[150_000]);
    for (packing, tool) in TOOLS.iter().filter(|(_, tool)| skip::present(&[tool])) {
        let packed = pack(tool, &plain);
        for part in [packed.len() - 1, packed.len() / 2, 20] {
            let cut = unpacked(*packing, &packed[..part], Limits::default());
            assert!(matches!(cut, Err(UnpackError::Damaged { .. })), "{tool}: {part} of {}", packed.len());
        }
    }
}

#[test]
fn nothing_takes_more_than_its_limits() {
    let limits = Limits { len: ByteCount::new(1024 * KIB), data: ByteCount::new(128 * KIB) };
    let zeros = vec![0; 1 << 20];
    let noise = bytes(&[200_000]);
    let too_long = vec![0; (1 << 20) + 1];
    for (packing, tool) in TOOLS.iter().filter(|(_, tool)| skip::present(&[tool])) {
        assert!(unpacked(*packing, &pack(tool, &zeros), limits).unwrap() == zeros, "{tool}");
        for (plain, limit) in [(&noise, limits.data), (&too_long, limits.len)] {
            let error = unpacked(*packing, &pack(tool, plain), limits).unwrap_err();
            assert!(
                matches!(error, UnpackError::TooLarge { limit: reached, .. } if reached == limit),
                "{tool}: {error}"
            );
        }
    }
    // Needs a window of 1 GiB: more memory than a decoder gets.
    if skip::present(&["zstd", "xz"]) {
        for (packing, line) in [
            // From a pipe, whose length zstd does not know, so that it does not choose a smaller window.
            (Packing::Zstd, "head -c 100000 /dev/zero | zstd -q -1 --long=30 -c --no-check"),
            (Packing::Xz, "head -c 100000 /dev/zero | xz --lzma2=preset=0,dict=512MiB -c"),
        ] {
            let packed = Command::new("sh").args(["-c", line]).output().unwrap().stdout;
            let error = unpacked(packing, &packed, Limits::default()).unwrap_err();
            assert!(matches!(error, UnpackError::Damaged { .. }), "{packing:?}: {error}");
        }
    }
}

/// Zeros take no room.
#[test]
fn a_disk_of_zeros_is_sparse() {
    use std::os::unix::fs::MetadataExt;
    if !skip::present(&["zstd"]) {
        return;
    }
    let packed = pack("zstd", &[bytes(&[1000]), vec![0; 32 << 20]].concat());
    let file = scratch().unwrap();
    file.write_all_at(&packed, 0).unwrap();
    let (kept, _) = sparse(file, Packing::Zstd, Limits::default()).unwrap();
    let metadata = kept.metadata().unwrap();
    assert_eq!(metadata.len(), (32 << 20) + 1000);
    assert!(metadata.blocks() * 512 <= 1 << 20, "{} bytes", metadata.blocks() * 512);
    assert_eq!(metadata.nlink(), 0);
}
