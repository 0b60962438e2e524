//! For an image whose data is in another file: the command that reads that file too.

use std::path::{Path, PathBuf};

use straddle_device::image::ImageError;
use straddle_device::shown::quote_path;

/// Returns a command with which `target` can be read, if `error` is that another file is not opened and that
/// file exists: `verb` with the files in `allowed` and this one, and `words`, which name the target.
pub(crate) fn command(
    error: &anyhow::Error,
    verb: &str,
    target: &Path,
    words: &str,
    allowed: &[PathBuf],
) -> Option<String> {
    let beside = needed(error.chain(), target)?;
    let files = allowed.iter().chain([&beside]).map(|file| format!(" --allow-backing {}", quote_path(file)));
    Some(format!("straddle {verb}{} {words}", files.collect::<String>()))
}

/// Returns the file that the image at `target` needs and that was not opened, if that is one of these `causes`.
pub(crate) fn needed<'a>(
    mut causes: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>,
    target: &Path,
) -> Option<PathBuf> {
    let name = causes.find_map(missing)?;
    // A relative name in an image is relative to the image's folder.
    Some(target.parent().unwrap_or(Path::new("")).join(name)).filter(|beside| beside.is_file())
}

/// Returns the file that was not opened, as the image names it.
fn missing<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
    let boxed = || cause.downcast_ref::<Box<ImageError>>().map(AsRef::as_ref);
    match cause.downcast_ref::<ImageError>().or_else(boxed)? {
        ImageError::NotOpened { name, .. } => Some(name),
        _ => None,
    }
}
