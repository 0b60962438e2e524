//! What the name of a target means, to every program that takes one. Nothing but the file of a profile is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use straddle_device::shown::{printable, with_causes};
use straddle_device::{Address, AddressError, Assume, Scheme};
use straddle_drive::{Profile, ProfileError};

/// The prefix that names a modelled drive. That of a shipped one needs it only where a file has its name.
pub const DRIVE: &str = "drive:";

/// A target, by its name.
#[derive(Clone, Debug)]
pub enum Named {
    /// A file or a device of this machine.
    Path(PathBuf),
    /// `NAME`, `NAME,OPTION` or `drive:FILE.toml`.
    Modelled {
        /// Without the prefix.
        specification: String,
        /// The drive's profile.
        profile: Arc<Profile>,
    },
    /// An object on a server.
    Object(Address),
}

/// Why a name means nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum NameError {
    #[error(transparent)]
    Drive(#[from] ProfileError),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("there is no such file, and the scheme {scheme}:// is not supported; use one of {}", schemes())]
    Scheme { scheme: String },
}

straddle_units::error_kind! {
    NameError: Failed;
    Self::Drive(error) => error.kind(),
    Self::Address(error) => error.kind(),
}

fn schemes() -> String {
    let known: Vec<String> = Scheme::ALL.iter().map(|scheme| format!("{}://", scheme.name())).collect();
    known.join(", ")
}

impl Named {
    /// Finds what `path` names.
    ///
    /// # Errors
    ///
    /// If it begins like the name of a modelled drive or an address, and is none.
    pub fn parse(path: &Path) -> Result<Self, NameError> {
        let text = path.to_str();
        if let Some(address) = text.and_then(Address::parse) {
            return Ok(Self::Object(address?));
        }
        if let Some(scheme) = text.and_then(Scheme::unknown).filter(|_| !path.exists()) {
            return Err(NameError::Scheme { scheme: printable(scheme) });
        }
        match specification(path) {
            Some(specification) => Ok(Self::Modelled {
                specification: specification.to_owned(),
                profile: Arc::new(Profile::open(specification)?),
            }),
            None => Ok(Self::Path(path.to_owned())),
        }
    }
}

/// Returns the modelled drive that `path` names: with the prefix, or a shipped one if no file has that name.
pub fn specification(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let bare = || (Profile::is_shipped(text) && !path.exists()).then_some(text);
    text.strip_prefix(DRIVE).or_else(bare)
}

/// Parses what is to be assumed of a target: sectors in the form of [`Assume`], or a modelled drive.
///
/// # Errors
///
/// What is wrong with it.
pub fn assume(text: &str) -> Result<Assume, String> {
    assume_with(text, Profile::open)
}

/// As [`assume`], for text not written by the user: a drive's profile must be in `folder` or below it.
pub fn assume_below(folder: &Path, text: &str) -> Result<Assume, String> {
    assume_with(text, |specification| Profile::open_below(folder, specification))
}

fn assume_with(
    text: &str,
    open: impl FnOnce(&str) -> Result<Profile, ProfileError>,
) -> Result<Assume, String> {
    let assume = match text.strip_prefix(DRIVE).or_else(|| Profile::is_shipped(text).then_some(text)) {
        Some(specification) => {
            let profile = open(specification).map_err(|error| with_causes(&error))?;
            crate::examine::assume_drive(&profile)
        }
        None => text.parse(),
    };
    assume.map_err(|error| with_causes(&error))
}
