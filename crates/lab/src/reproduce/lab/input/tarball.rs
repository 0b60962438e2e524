//! A tarball like that of a kernel's sources.
//!
//! Linux 2.6.32 has about 30,500 files, 3.4 about 39,000. R. W. Smith's tarballs had 365 and 451 MiB. Sizes are drawn
//! from a log-normal distribution (sigma 1.4) and scaled to the total. The order is folder by folder, as with `git
//! archive`; a ustar header is enough for every entry.

use std::io::{self, Write};

use straddle_units::io::SplitMix64;
use tar::{Builder, EntryType, Header};

use super::text::Text;

/// The log-normal quantiles exp(1.4 z): out of 10,000 files, and the size in thousandths of the median.
const SIZES: [(u64, u64); 11] = [
    (0, 5),
    (100, 38),
    (1000, 166),
    (2500, 389),
    (5000, 1000),
    (7500, 2571),
    (9000, 6014),
    (9500, 10003),
    (9900, 25973),
    (9990, 75690),
    (10000, 300_000),
];
const DEPTH: usize = 9;
/// The modification time of every entry: 13 February 2010, noon.
const TIME: u64 = 1_266_062_400;
/// tar's block: a header is one, contents are padded to whole ones, and two empty ones end the archive.
const BLOCK: u64 = 512;

pub(crate) struct Plan {
    folders: Vec<Folder>,
    bytes: u64,
    seed: u64,
}

#[derive(Default)]
struct Folder {
    name: String,
    folders: Vec<usize>,
    files: Vec<(String, u64)>,
}

impl Plan {
    pub(crate) fn new(files: u32, folders: u32, total: u64, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut plan = Self { folders: tree(&mut random, folders), bytes: 0, seed };
        let structure = (u64::from(files) + u64::from(folders) + 2) * BLOCK;
        // Padding is half a block per file on average.
        let contents = total.saturating_sub(structure + u64::from(files) * BLOCK / 2);
        let weights: Vec<u64> = (0..files).map(|_| weight(&mut random)).collect();
        let sum: u128 = weights.iter().copied().map(u128::from).sum();
        for (number, weight) in weights.into_iter().enumerate() {
            let size = u128::from(weight) * u128::from(contents) / sum.max(1);
            let size = u64::try_from(size).expect("a part of the whole");
            let folder = plan.crowded(&mut random);
            let ending = ["c", "c", "c", "h", "h", "S", "txt"][random.index(7)];
            plan.folders[folder].files.push((format!("file-{number:05}.{ending}"), size));
            plan.bytes += size;
        }
        plan
    }

    /// Chooses a folder for a file. Every second file goes to a tenth of the folders: those of drivers are larger.
    fn crowded(&self, random: &mut SplitMix64) -> usize {
        let len = self.folders.len();
        if random.once_in(2) { random.index(len.div_ceil(10)) } else { random.index(len) }
    }

    pub(crate) fn write(&self, out: &mut dyn Write, done: &mut dyn FnMut(f64)) -> io::Result<()> {
        let text = Text::new(self.seed);
        let mut builder = Builder::new(out);
        let mut written = 0;
        let mut stack = vec![(0, "linux".to_owned())];
        while let Some((index, path)) = stack.pop() {
            let folder = &self.folders[index];
            let mut header = header(EntryType::Directory, 0o755, 0);
            builder.append_data(&mut header, format!("{path}/"), io::empty())?;
            for (name, size) in &folder.files {
                self.file(&mut builder, &text, &format!("{path}/{name}"), *size)?;
                written += size;
            }
            done(share(written, self.bytes));
            let below = folder.folders.iter().rev();
            stack.extend(below.map(|index| (*index, format!("{path}/{}", self.folders[*index].name))));
        }
        builder.finish()
    }

    fn file(
        &self,
        builder: &mut Builder<&mut dyn Write>,
        text: &Text,
        path: &str,
        size: u64,
    ) -> io::Result<()> {
        let mut header = header(EntryType::Regular, 0o644, size);
        header.set_path(path)?;
        header.set_cksum();
        let out = builder.get_mut();
        out.write_all(header.as_bytes())?;
        // Files of the same size differ, and a path has the same contents in every tarball of this seed.
        let from = path
            .bytes()
            .fold(self.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        text.write(*out, from, size)?;
        let filling = size.next_multiple_of(BLOCK) - size;
        out.write_all(&[0; 512][..usize::try_from(filling).unwrap_or(0)])
    }
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    let thousandths = u32::try_from(u128::from(part) * 1000 / u128::from(whole.max(1))).unwrap_or(1000);
    f64::from(thousandths) / 1000.0
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(TIME);
    header.set_size(size);
    header
}

/// Returns the folders, the first of which holds all others. Names and order are sorted.
fn tree(random: &mut SplitMix64, count: u32) -> Vec<Folder> {
    let mut folders: Vec<Folder> = vec![Folder { name: "linux".to_owned(), ..Folder::default() }];
    let mut depths = vec![0];
    for number in 1..count {
        // Choose among the first quarter: fewer folders get more children, five or six levels deep.
        let parent = loop {
            let parent = random.index(folders.len().div_ceil(4));
            if depths[parent] < DEPTH {
                break parent;
            }
        };
        let index = folders.len();
        folders.push(Folder { name: format!("dir-{number:04}"), ..Folder::default() });
        folders[parent].folders.push(index);
        depths.push(depths[parent] + 1);
    }
    folders
}

/// Draws a file's size, in units of 1/1024000 of the median.
fn weight(random: &mut SplitMix64) -> u64 {
    let at = random.below(10_000 * 1024);
    let above = SIZES.iter().position(|(share, _)| share * 1024 > at).unwrap_or(SIZES.len() - 1);
    let ((low, least), (high, most)) = (SIZES[above - 1], SIZES[above]);
    least * 1024 + (most - least) * (at - low * 1024) / (high - low)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;

    use super::Plan;

    fn tarball(files: u32, folders: u32, total: u64, seed: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Plan::new(files, folders, total, seed).write(&mut bytes, &mut |_| ()).unwrap();
        bytes
    }

    #[test]
    fn counts_and_size_are_those_asked_for() {
        for (files, folders, total) in [(3050, 188, 36_500_000), (3900, 240, 45_100_000), (1, 1, 100_000)] {
            let bytes = tarball(files, folders, total, 7);
            let off = (bytes.len() as u64).abs_diff(total);
            assert!(off * 200 < total, "{} instead of {total}", bytes.len());
            let mut archive = tar::Archive::new(&bytes[..]);
            let (mut dirs, mut paths, mut largest) = (0, BTreeSet::new(), 0);
            for entry in archive.entries().unwrap() {
                let entry = entry.unwrap();
                if entry.header().entry_type().is_dir() {
                    dirs += 1;
                } else {
                    assert!(paths.insert(entry.path().unwrap().to_path_buf()));
                    largest = largest.max(entry.size());
                }
            }
            assert_eq!((paths.len(), dirs), (files as usize, folders));
            assert!(files == 1 || largest > 15 * total / u64::from(files), "{largest}: some are large");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_others() {
        let of = |seed| tarball(200, 20, 1_000_000, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert!(
            !of(1).chunks(4096).skip(1).any(|block| block.len() == 4096 && block.iter().all(|b| *b == 0))
        );
    }
}
