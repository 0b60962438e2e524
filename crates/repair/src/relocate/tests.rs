//! The engine on machines that crash.

mod errors;
mod exhaustive;
mod format;
mod machine;
mod planted;
mod shapes;

/// The number of cases of a long test: a quarter, unless every case is tried.
fn cases(all: usize) -> usize {
    if std::env::var_os("STRADDLE_EVERY_CASE").is_some() { all } else { all / 4 }
}
