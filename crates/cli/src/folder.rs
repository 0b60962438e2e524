//! The files below a folder.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Returns the files below `folder`, in order; `failed` receives each folder that cannot be listed. Links to folders are not
/// followed.
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
