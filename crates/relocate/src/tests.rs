//! The engine on machines that crash.

mod errors;
mod exhaustive;
mod format;
mod machine;
mod planted;
mod shapes;
