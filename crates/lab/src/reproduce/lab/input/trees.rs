//! A tree of many small files, like portage's, and a version of it some days newer.
//!
//! Every file and folder takes at least one block of 4 KiB; the rest of the size goes to randomly chosen files.
//! Categories hold packages, and packages a folder of patches. In the newer tree, 3 % of the files have other
//! contents, 1 % are removed, and 1.5 % are new. Times are fixed, because rsync compares them.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use straddle_units::io::SplitMix64;

use super::tarball::share;
use super::text::Text;

const BLOCK: u64 = 4096;
/// Packages per category: portage had about 150 categories with 13,000 packages.
const PACKAGES: usize = 90;
/// Times of the old tree, 1 November 2012, noon, and of the newer one, four days later.
const TIME: u64 = 1_351_771_200;
const LATER: u64 = TIME + 4 * 86_400;

pub(crate) struct Plan {
    folders: Vec<PathBuf>,
    files: Vec<Planned>,
    seed: u64,
}

struct Planned {
    folder: usize,
    name: String,
    size: u64,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Changed,
    Removed,
    Added,
}

impl Plan {
    pub(crate) fn new(files: u32, folders: u32, total: u64, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let folders = tree(folders as usize);
        let count = files as usize;
        let blocks = (total / BLOCK).saturating_sub(folders.len() as u64);
        let mut sizes = vec![1_u64; count];
        let mut left = blocks.saturating_sub(count as u64);
        while left > 0 {
            let more = (1 + random.below(8)).min(left);
            sizes[random.index(count)] += more;
            left -= more;
        }
        let mut planned = Vec::with_capacity(count + count / 50);
        for (number, blocks) in sizes.into_iter().enumerate() {
            let fate = match random.below(100) {
                0..3 => Fate::Changed,
                3 => Fate::Removed,
                _ => Fate::Kept,
            };
            let size = blocks * BLOCK - random.below(BLOCK - 200);
            let folder = random.index(folders.len());
            planned.push(Planned { folder, name: format!("file-{number:06}.ebuild"), size, fate });
        }
        for number in 0..count * 3 / 200 {
            let (folder, size) = (random.index(folders.len()), BLOCK - random.below(BLOCK - 200));
            let name = format!("new-{number:06}.ebuild");
            planned.push(Planned { folder, name, size, fate: Fate::Added });
        }
        Self { folders, files: planned, seed }
    }

    pub(crate) fn write(&self, into: &Path, done: &mut dyn FnMut(f64)) -> io::Result<()> {
        let text = Text::new(self.seed);
        let whole = 2 * self.files.len() as u64;
        let mut written = 0;
        for (root, newer) in [(into.join("old"), false), (into.join("new"), true)] {
            fs::create_dir_all(&root)?;
            self.folders.iter().try_for_each(|folder| fs::create_dir_all(root.join(folder)))?;
            for (number, file) in self.files.iter().enumerate() {
                written += 1;
                if written % 256 == 0 {
                    done(share(written, whole));
                }
                if file.fate == if newer { Fate::Removed } else { Fate::Added } {
                    continue;
                }
                let changed = newer && matches!(file.fate, Fate::Changed | Fate::Added);
                let path = root.join(&self.folders[file.folder]).join(&file.name);
                let mut out = BufWriter::new(File::create(path)?);
                text.write(&mut out, self.seed ^ (2 * number as u64 + u64::from(changed)), file.size)?;
                out.flush()?;
                date(out.get_ref(), if changed { LATER } else { TIME })?;
            }
            // Last, because creating a file changes them. Otherwise the newer tree's folders would differ.
            for folder in self.folders.iter().map(|folder| root.join(folder)).chain([root.clone()]) {
                date(&File::open(folder)?, TIME)?;
            }
        }
        Ok(())
    }
}

fn date(file: &File, seconds: u64) -> io::Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_modified(time).set_accessed(time))
}

/// Returns categories, packages in them, and a folder below some packages.
fn tree(count: usize) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::with_capacity(count);
    let categories = count.div_ceil(PACKAGES * 2);
    let packages = (count - categories) * 3 / 5;
    folders.extend((0..categories).map(|number| PathBuf::from(format!("category-{number:03}"))));
    for number in 0..packages {
        folders.push(folders[number % categories].join(format!("package-{number:05}")));
    }
    for number in 0..count - categories - packages {
        let parent = if packages == 0 { number % categories } else { categories + number % packages };
        folders.push(folders[parent].join("files"));
    }
    folders
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{BLOCK, Plan};

    type Tree = BTreeMap<PathBuf, Vec<u8>>;

    fn made(plan: &Plan) -> (tempfile::TempDir, Tree, Tree) {
        let dir = tempfile::tempdir().unwrap();
        plan.write(dir.path(), &mut |_| ()).unwrap();
        let (old, new) = (read(&dir.path().join("old")), read(&dir.path().join("new")));
        (dir, old, new)
    }

    /// Returns every file below `root` with its contents, and every folder with none.
    fn read(root: &Path) -> Tree {
        let mut found = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_owned();
                if path.is_dir() {
                    found.insert(name, Vec::new());
                    folders.push(path);
                } else {
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        found
    }

    #[test]
    fn counts_and_size_are_those_asked_for_and_the_newer_differs_a_little() {
        let total = 10_000_000;
        let (_dir, old, new) = made(&Plan::new(1900, 330, total, 5));
        let folders = old.values().filter(|bytes| bytes.is_empty()).count();
        assert_eq!((old.len() - folders, folders), (1900, 330));
        let taken: u64 = old.values().map(|bytes| (bytes.len() as u64).next_multiple_of(BLOCK)).sum();
        let taken = taken + folders as u64 * BLOCK;
        assert!(taken.abs_diff(total) * 200 < total, "{taken}");
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (old.keys().collect(), new.keys().collect());
        let (gone, added) = (before.difference(&after).count(), after.difference(&before).count());
        let changed = before.intersection(&after).filter(|path| old[**path] != new[**path]).count();
        assert!(
            (5..60).contains(&gone) && added == 28 && (20..120).contains(&changed),
            "{gone} {added} {changed}"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_trees() {
        let of = |seed| made(&Plan::new(60, 12, 400_000, seed));
        let ((_a, old, new), (_b, same_old, same_new), (_c, other, _)) = (of(1), of(1), of(2));
        assert!(old == same_old && new == same_new && old != other);
    }
}
