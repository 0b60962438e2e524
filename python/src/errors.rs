//! Errors as Python's exceptions, which `straddle/_errors.py` defines.

use std::error::Error;

use pyo3::prelude::*;
use straddle_device::shown::{system_error, with_causes};

pyo3::import_exception!(straddle._errors, InputError);
pyo3::import_exception!(straddle._errors, TargetError);

/// Returns the exception for an argument, a table or bytes that cannot be used.
pub(crate) fn input(error: &dyn Error) -> PyErr {
    InputError::new_err(with_causes(error))
}

/// Returns the exception for what is wrong with an argument.
pub(crate) fn wrong(message: String) -> PyErr {
    InputError::new_err(message)
}

/// Returns the exception for a target that cannot be opened or read.
pub(crate) fn target(name: &str, error: &(dyn Error + 'static)) -> PyErr {
    TargetError::new_err((format!("{name}: {}", with_causes(error)), system_error(error), name.to_owned()))
}
