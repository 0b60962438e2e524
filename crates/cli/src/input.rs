//! What a command reads whole: files, the names of files below a folder, random bytes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};

/// Whether `path` stands for standard input: `-`. A file of this name is `./-`.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if is_stdin(path) { Ok(Box::new(io::stdin().lock())) } else { Ok(Box::new(File::open(path)?)) }
}

/// Fails for more than `largest` bytes, without reading the rest.
pub(crate) fn text(path: &Path, largest: u64) -> io::Result<String> {
    text_of(File::open(path)?, largest)
}

pub(crate) fn text_of(file: impl Read, largest: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = file.take(largest + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= largest) {
        return Ok(text);
    }
    let message = format!("the file is larger than the limit of {largest} bytes");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

/// In order; `failed` receives each folder that cannot be listed. Links to folders are not followed.
pub(crate) fn below(folder: &Path, mut failed: impl FnMut(&Path, io::Error)) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let listed = fs::read_dir(&folder).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    files.push(path);
                }
            }
            Ok(())
        });
        if let Err(error) = listed {
            failed(&folder, error);
        }
    }
    files.sort();
    files
}

/// Reads 16 random bytes; `what` they are for is said if that fails.
pub(crate) fn random_bytes(what: &'static str) -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context(what)?;
    Ok(bytes)
}
