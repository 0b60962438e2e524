//! What the scripts read: generated data that is the same to the byte on every machine. It is generated once, into a folder of the cache that appears complete or not at all.

mod tarball;
mod text;
mod trees;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use straddle_measure::bench::Progress;

use crate::reproduce::experiment::Input;

/// Increased when the same numbers give different bytes.
const VERSION: u32 = 1;
/// File in each folder that says what the folder holds; written last.
const STAMP: &str = "stamp";
const UNFINISHED: &str = ".making-";

/// Where inputs come from.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The folder in which generated inputs are cached.
    pub cache: PathBuf,
    /// Seed of the generated data.
    pub seed: u64,
}

/// An input that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The folder that the guest sees.
    pub folder: PathBuf,
    /// The environment variable by which the script finds it there, and its value.
    pub environment: (String, String),
    /// A one-line description.
    pub description: String,
}

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum InputError {
    #[error("cannot create the input in {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

straddle_units::error_kind! {
    InputError: Failed;
}

impl Inputs {
    /// Finds the input, or generates it.
    pub fn prepare(&self, input: &Input, progress: &mut dyn Progress) -> Result<Prepared, InputError> {
        let (key, variable, value, description) = described(input, self.seed);
        let folder = self.cache.join(&key);
        let unwritable = |source| InputError::Unwritable { path: self.cache.clone(), source };
        let prepared = Prepared { environment: (variable.to_owned(), value.to_owned()), description, folder };
        if !is_whole(&prepared.folder, &key) {
            fs::create_dir_all(&self.cache).map_err(unwritable)?;
            self.sweep();
            let unfinished = self.cache.join(format!("{UNFINISHED}{}-{key}", std::process::id()));
            let made = self.make(input, &unfinished, &key, progress);
            let made = made.and_then(|()| replace(&unfinished, &prepared.folder, &key));
            if made.is_err() {
                let _ = fs::remove_dir_all(&unfinished);
            }
            made.map_err(unwritable)?;
        }
        Ok(prepared)
    }

    fn make(&self, input: &Input, into: &Path, key: &str, progress: &mut dyn Progress) -> io::Result<()> {
        fs::create_dir_all(into)?;
        let done = &mut |share| progress.advance(share);
        let size = match *input {
            Input::Tarball { mebibytes, files, folders } => {
                let total = u64::from(mebibytes) << 20;
                let mut out = BufWriter::with_capacity(1 << 20, File::create(into.join("linux.tar"))?);
                tarball::Plan::new(files, folders, total, self.seed).write(&mut out, done)?;
                out.flush()?;
                out.get_ref().metadata()?.len()
            }
            Input::Trees { files, folders, mebibytes } => {
                let total = u64::from(mebibytes) << 20;
                trees::Plan::new(files, folders, total, self.seed).write(into, done)?;
                0
            }
        };
        fs::write(into.join(STAMP), stamp(key, size))
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(pid) = name.strip_prefix(UNFINISHED).and_then(|rest| rest.split('-').next()) else {
                continue;
            };
            if !Path::new("/proc").join(pid).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn described(input: &Input, seed: u64) -> (String, &'static str, &'static str, String) {
    match input {
        Input::Tarball { mebibytes, files, folders } => (
            format!("tarball-{mebibytes}m-{files}-{folders}-s{seed}-v{VERSION}"),
            "TARBALL",
            "linux.tar",
            format!(
                "generated sources: {files} files in {folders} directories, a tarball of {mebibytes} MiB, \
                seed {seed}"
            ),
        ),
        Input::Trees { files, folders, mebibytes } => (
            format!("trees-{mebibytes}m-{files}-{folders}-s{seed}-v{VERSION}"),
            "TREE",
            ".",
            format!(
                "generated trees: {files} files in {folders} directories that take {mebibytes} MiB, seed \
                {seed}"
            ),
        ),
    }
}

fn stamp(key: &str, size: u64) -> String {
    format!("{key} {size}\n")
}

fn is_whole(folder: &Path, key: &str) -> bool {
    let size = fs::metadata(folder.join("linux.tar")).map_or(0, |file| file.len());
    fs::read_to_string(folder.join(STAMP)).is_ok_and(|text| text == stamp(key, size))
}

/// Renames the finished folder to its final name, unless another run has already done so.
fn replace(unfinished: &Path, folder: &Path, key: &str) -> io::Result<()> {
    if folder.exists() && !is_whole(folder, key) {
        fs::remove_dir_all(folder)?;
    }
    match fs::rename(unfinished, folder) {
        Err(_) if is_whole(folder, key) => fs::remove_dir_all(unfinished),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;

    use crate::reproduce::experiment::Input;
    use straddle_measure::bench::{Progress, Silent};

    use super::Inputs;

    const TARBALL: Input = Input::Tarball { mebibytes: 2, files: 100, folders: 10 };
    const TREES: Input = Input::Trees { files: 50, folders: 8, mebibytes: 1 };

    fn inputs(dir: &tempfile::TempDir) -> Inputs {
        Inputs { cache: dir.path().join("cache"), seed: 1 }
    }

    #[test]
    fn an_input_is_made_once_and_again_when_it_was_damaged() {
        struct Count(usize);
        impl Progress for Count {
            fn advance(&mut self, share: f64) {
                assert!((0.0..=1.0).contains(&share));
                self.0 += 1;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let inputs = inputs(&dir);
        let unfinished = inputs.cache.join(".making-999999999-tarball");
        fs::create_dir_all(&unfinished).unwrap();
        let mut count = Count(0);
        let prepared = inputs.prepare(&TARBALL, &mut count).unwrap();
        let (made, file) = (count.0, prepared.folder.join(&prepared.environment.1));
        assert!(made > 0 && !unfinished.exists());
        let bytes = fs::read(&file).unwrap();
        assert_eq!(inputs.prepare(&TARBALL, &mut count).unwrap(), prepared);
        assert_eq!(count.0, made, "it was there");
        fs::write(&file, &bytes[..1000]).unwrap();
        inputs.prepare(&TARBALL, &mut count).unwrap();
        assert!(count.0 > made && fs::read(&file).unwrap() == bytes);
        assert_eq!(fs::read_dir(&inputs.cache).unwrap().count(), 1, "nothing unfinished is left");
        let trees = inputs.prepare(&TREES, &mut Silent).unwrap();
        assert!(trees.folder.join("old").is_dir() && trees.folder.join("new").is_dir());
    }
}
