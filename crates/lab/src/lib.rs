//! Modelled drives with contents, served to guests and other programs in virtual or wall-clock time.

pub mod guest;
pub mod media;
pub mod reproduce;
pub mod serve;
pub mod vhost;

#[cfg(test)]
extern crate self as straddle_lab;
#[cfg(test)]
#[path = "../tests/lab/mod.rs"]
mod tests;
