//! Errors as Python's exceptions, which `straddle/_errors.py` defines.

use std::error::Error;
use std::io;

use pyo3::prelude::*;
use straddle_device::shown::with_causes;

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
    let mut cause = Some(error);
    let mut number = None;
    while let Some(error) = cause {
        number = number.or_else(|| error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error));
        cause = error.source();
    }
    TargetError::new_err((format!("{name}: {}", with_causes(error)), number, name.to_owned()))
}
