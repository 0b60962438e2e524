//! The Python module `straddle_align._straddle`: histograms of block traces, audits, drives.
//!
//! Arguments become options, a library is called once without the lock of the interpreter, and its answer becomes
//! Python's values, through the JSON that the command line prints.

mod audit;
mod drives;
mod errors;
mod histogram;
mod trace;

use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Serialize;

/// Returns a published form as Python's dicts, lists and numbers.
fn as_python<'py>(py: Python<'py>, form: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(form).map_err(|error| errors::input(&error))?;
    py.import("json")?.call_method1("loads", (PyString::new(py, &text),))
}

/// The compiled part of the package `straddle_align`.
#[pymodule]
mod _straddle {
    #[pymodule_export]
    use super::audit::{check, check_all, check_each};
    #[pymodule_export]
    use super::drives::{drive, drives};
    #[pymodule_export]
    use super::histogram::{Histogram, needed};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
