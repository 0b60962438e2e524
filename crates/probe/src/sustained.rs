//! Sustained writes without a flush: what a cache hides shows when it is full.

use straddle_units::Boundary;

/// Seconds for each write of sustained series, of each kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Sustained {
    /// The unit and where it begins.
    pub unit: Boundary,
}
