//! What to do about an image whose bytes are in another file: the command that has that file read too.

use std::path::{Path, PathBuf};

use straddle_device::image::ImageError;
use straddle_device::shown::quote_path;

/// The command after which `target` can be read, where `error` is that another file is not opened and that file is there:
/// `verb` with the files in `allowed` and this one.
pub(crate) fn command(
    error: &anyhow::Error,
    verb: &str,
    target: &Path,
    allowed: &[PathBuf],
) -> Option<String> {
    let name = error.chain().find_map(missing)?;
    // What an image names is beside it, where it is no whole path.
    let beside = target.parent().unwrap_or(Path::new("")).join(name);
    if !beside.is_file() {
        return None;
    }
    let files = allowed.iter().chain([&beside]).map(|file| format!(" --allow-backing {}", quote_path(file)));
    Some(format!("straddle {verb}{} {}", files.collect::<String>(), quote_path(target)))
}

/// The file that is not opened, as the image names it.
fn missing<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
    let boxed = || cause.downcast_ref::<Box<ImageError>>().map(AsRef::as_ref);
    match cause.downcast_ref::<ImageError>().or_else(boxed)? {
        ImageError::NotOpened { name, .. } => Some(name),
        _ => None,
    }
}
