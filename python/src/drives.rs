//! The modelled drives.

use pyo3::prelude::*;
use straddle_drive::Profile;
use straddle_drive::form::DrivesReport;

use crate::{as_python, errors};

/// Return the modelled drives, as ``straddle drive list --json`` prints them.
///
/// >>> import straddle_align
/// >>> "wd10ears" in [drive["name"] for drive in straddle_align.drives() if drive["misreports"]]
/// True
#[pyfunction]
pub(crate) fn drives(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let profiles: Vec<Profile> = Profile::names()
        .map(Profile::open)
        .collect::<Result<_, _>>()
        .map_err(|error| errors::input(&error))?;
    as_python(py, &DrivesReport::of(&profiles, false))?.get_item("drives")
}

/// Return a modelled drive with its mechanics and the source of each number, as ``straddle drive show --json``
/// prints it.
///
/// ``name`` may have options after commas, or be the path of a profile.
///
/// >>> import straddle_align
/// >>> straddle_align.drive("wd10ears")["truth"]["unit_bytes"]
/// 4096
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn drive<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let specification = name.strip_prefix(straddle_audit::examine::DRIVE).unwrap_or(name);
    let profile = Profile::open(specification).map_err(|error| errors::input(&error))?;
    as_python(py, &DrivesReport::of(std::slice::from_ref(&profile), true))?.get_item("drives")?.get_item(0)
}
