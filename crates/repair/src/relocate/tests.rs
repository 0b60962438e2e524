//! The engine on machines that crash.

mod errors;
mod exhaustive;
mod format;
mod machine;
mod planted;
mod shapes;

/// The number of cases of a long test: a quarter with `make quick`.
fn cases(all: usize) -> usize {
    if std::env::var_os("STRADDLE_QUICK").is_some() { all / 4 } else { all }
}
