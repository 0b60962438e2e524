//! Which files are one trace.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The files of a trace: one, or those that blktrace wrote for each processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What the trace is called.
    pub name: String,
    /// Its files.
    pub files: Vec<PathBuf>,
}

impl Recording {
    /// Groups paths into traces, in order. Files `NAME.blktrace.0`, `NAME.blktrace.1` and so on are one; a path that
    /// does not exist stands for all files of a recording of this name, as it does for blkparse.
    pub fn group(paths: &[PathBuf]) -> Vec<Self> {
        let mut all: Vec<(Self, Option<PathBuf>)> = Vec::new();
        for path in paths {
            let files = if path.exists() { Vec::new() } else { of_all_processors(path) };
            let (stem, files) = match files.is_empty() {
                true => (stem(path), vec![path.clone()]),
                false => (Some(path.clone()), files),
            };
            let known = stem.is_some().then(|| all.iter_mut().find(|(_, known)| *known == stem)).flatten();
            match known {
                Some((recording, _)) => {
                    recording.files.extend(files);
                    recording.name = stem.as_deref().unwrap_or(path).display().to_string();
                }
                None => {
                    let several = if files.len() > 1 { stem.as_deref().unwrap_or(path) } else { path };
                    all.push((Self { name: several.display().to_string(), files }, stem));
                }
            }
        }
        all.into_iter().map(|(recording, _)| recording).collect()
    }
}

/// Returns what comes before `.blktrace.` and the processor's number.
fn stem(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = bytes.get(..bytes.len() - digits)?;
    let stem = rest.strip_suffix(b".blktrace.").filter(|stem| digits > 0 && !stem.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(stem.to_vec())))
}

fn of_all_processors(stem: &Path) -> Vec<PathBuf> {
    const MAX_PROCESSORS: u32 = 4096;
    let name = |number: u32| {
        let mut name = stem.as_os_str().to_owned();
        name.push(format!(".blktrace.{number}"));
        PathBuf::from(name)
    };
    (0..MAX_PROCESSORS).map(name).take_while(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_recording_are_one_trace() {
        let paths = ["a.csv", "d/sda.blktrace.1", "sdb.blktrace.0", "d/sda.blktrace.0", "x.blktrace.", "-"];
        let grouped = Recording::group(&paths.map(PathBuf::from));
        let names: Vec<(&str, usize)> =
            grouped.iter().map(|recording| (recording.name.as_str(), recording.files.len())).collect();
        let expected = [("a.csv", 1), ("d/sda", 2), ("sdb.blktrace.0", 1), ("x.blktrace.", 1), ("-", 1)];
        assert_eq!(names, expected);
    }
}
