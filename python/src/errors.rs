//! Errors as Python's exceptions, which `straddle_align/_errors.py` defines.

use std::error::Error;
use std::path::Path;

use pyo3::prelude::*;
use straddle_device::shown::{system_error, with_causes};

pyo3::import_exception!(straddle_align._errors, InputError);
pyo3::import_exception!(straddle_align._errors, TargetError);

/// What messages say of options of the command line, and what they say of arguments.
const WORDS: [(&str, &str); 6] = [
    ("--columns op=", "columns=op="),
    ("--columns", "columns"),
    ("any format that --format accepts", "any known format"),
    ("--format raw", "straddle check --format raw"),
    ("--allow-backing", "allow_backing"),
    (" (--time-limit)", ""),
];

fn message(error: &dyn Error) -> String {
    WORDS.iter().fold(with_causes(error), |text, (option, argument)| text.replace(option, argument))
}

/// Returns the exception for an argument, a table or bytes that cannot be used.
pub(crate) fn input(error: &dyn Error) -> PyErr {
    InputError::new_err(message(error))
}

/// Returns the exception for what is wrong with an argument.
pub(crate) fn wrong(message: String) -> PyErr {
    InputError::new_err(message)
}

/// Returns the exception for a target that cannot be opened or read.
pub(crate) fn target(name: &str, error: &(dyn Error + 'static)) -> PyErr {
    TargetError::new_err((format!("{name}: {}", message(error)), system_error(error), name.to_owned()))
}

/// Returns the exception for a trace that cannot be opened, read or understood.
pub(crate) fn trace(path: &Path, error: &(dyn Error + 'static)) -> PyErr {
    match system_error(error) {
        Some(number) => TargetError::new_err((message(error), number, path.display().to_string())),
        None => input(error),
    }
}
