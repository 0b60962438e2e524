//! The kinds of failure that all errors share.

use crate::{BlockSizeError, ParseSizeError};

/// The kind of a failure, on which the exit code depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request cannot be understood, or contradicts itself.
    Usage,
    /// Refused for safety.
    Refused,
    /// The attempt did not succeed.
    Failed,
    /// The user ended it.
    Interrupted,
}

/// Gives an error a method `kind`: the [`ErrorKind`] of its variants, but for those of the patterns.
///
/// `error_kind! { TargetError: Failed; Self::Interrupted => Interrupted, Self::Plan(error) => error.kind() }`
#[macro_export]
macro_rules! error_kind {
    ($error:ty: $usual:ident $(; $($(#[$attribute:meta])* $pattern:pat => $kind:expr),* $(,)?)?) => {
        impl $error {
            /// Returns the kind of failure.
            pub fn kind(&self) -> $crate::ErrorKind {
                #[allow(unused_imports, clippy::enum_glob_use)]
                use $crate::ErrorKind::{Failed, Interrupted, Refused, Usage};
                #[allow(unreachable_patterns)]
                match self {
                    $($($(#[$attribute])* $pattern => $kind,)*)?
                    _ => $usual,
                }
            }
        }
    };
}

error_kind!(BlockSizeError: Usage);
error_kind!(ParseSizeError: Usage);
