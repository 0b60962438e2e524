//! What a command reads whole: files, the names of files below a folder, random bytes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use straddle_trace as trace;
use straddle_trace::{How, Origin, Reader, Recording};

use crate::output;

/// Whether `path` stands for standard input: `-`. A file of this name is `./-`.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens the file or pipe at `path`, or standard input if it is `-`.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if is_stdin(path) { Ok(Box::new(io::stdin().lock())) } else { Ok(Box::new(File::open(path)?)) }
}

/// Opens a trace; `-` is standard input.
pub(crate) fn trace(recording: &Recording, how: &How) -> anyhow::Result<Reader<'static>> {
    let open = |path: &PathBuf| {
        let name = path.display().to_string();
        let input = match is_stdin(path) {
            true => trace::Input::Stream(Box::new(io::stdin())),
            false => trace::Input::File(File::open(path).with_context(|| format!("{name}: cannot open"))?),
        };
        Ok((name, input))
    };
    let mut files = recording.files.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let reader = match files.pop() {
        Some((_, input)) if files.is_empty() => Reader::open(input, &recording.name, how)?,
        last => {
            files.extend(last);
            Reader::merged(files, &recording.name, how)?
        }
    };
    Ok(reader)
}

/// Says what is missing in a recording that has been read to its end.
pub(crate) fn warn(name: &str, origin: Option<&Origin>) {
    let Some(origin) = origin else { return };
    if origin.is_cut_off() {
        output::complain(&format!("{name}: the recording is truncated, so later requests are missing"));
    }
    if let Some(lost) = origin.lost_events.filter(|lost| *lost > 0) {
        let (events, were) = (output::plural(lost, "event"), if lost == 1 { "was" } else { "were" });
        output::complain(&format!(
            "{name}: {events} {were} lost during the recording, so requests are missing"
        ));
    }
}

/// Reads the text of the file or pipe at `path`. Fails if it has more than `largest` bytes, without reading
/// the rest.
pub(crate) fn text(path: &Path, largest: u64) -> io::Result<String> {
    text_of(File::open(path)?, largest)
}

pub(crate) fn text_of(file: impl Read, largest: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = file.take(largest + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= largest) {
        return Ok(text);
    }
    let message = format!("it is larger than {largest} bytes");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

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

/// Reads 16 random bytes; `what` they are for is said if that fails.
pub(crate) fn random_bytes(what: &'static str) -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context(what)?;
    Ok(bytes)
}
