//! The command for an image whose bytes are in another file, which was not named.

use std::path::Path;

use straddle_audit::operand;
use straddle_device::image::ImageError;

use super::Form;

/// The command line that opens the other file too, where `error` is about that.
pub(super) fn command(form: Form, image: &Path, error: &anyhow::Error) -> Option<String> {
    let of = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<ImageError>() {
        None => cause.downcast_ref::<Box<ImageError>>().and_then(|error| missing(error)),
        Some(error) => missing(error),
    };
    let name = error.chain().find_map(of)?;
    // A name is relative to the image that gives it, and a URL is no file.
    let path = image.parent()?.join(&name);
    if !path.is_file() {
        return None;
    }
    let command = match form {
        Form::Audit => "check",
        Form::Map => "map",
    };
    let (other, image) = (operand(path.to_str()?), operand(image.to_str()?));
    Some(format!("straddle {command} --allow-backing {other} {image}"))
}

/// The other file's name. One that is not printable was changed, and is the name of no file.
fn missing(error: &ImageError) -> Option<String> {
    match error {
        ImageError::NotOpened { name, .. } => Some(name.clone()),
        _ => None,
    }
}
