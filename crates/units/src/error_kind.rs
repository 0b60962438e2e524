//! The kinds of failure that errors have in common.

/// What kind of failure an error is. Callers, and the exit code, go by it and not by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for cannot be understood, or contradicts itself.
    Usage,
    /// Refused for safety.
    Refused,
    /// It was tried and did not succeed.
    Failed,
    /// Ended by the user.
    Interrupted,
}
