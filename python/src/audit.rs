//! Audits of disks and images.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use rayon::prelude::*;
use straddle_audit::Code;
use straddle_audit::examine::{Alongside, DRIVE, ExamineError, Examined, Examiner, Named, Options};
use straddle_audit::form::check::{Report, TargetReport};
use straddle_device::Assume;
use straddle_device::image::Limits;

use crate::{as_python, errors};

/// Targets that are examined before the next ones are, so that memory does not grow with their number.
const BATCH: usize = 512;

/// Codes of rules: one, or several.
#[derive(FromPyObject)]
pub(crate) enum Codes {
    One(String),
    Several(Vec<String>),
}

impl Default for Codes {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Codes {
    fn codes(self) -> PyResult<Vec<Code>> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        };
        let code = |text: &String| {
            let known = straddle_audit::rule(text).map(|rule| rule.code);
            known.ok_or_else(|| errors::wrong(format!("{text}: no such rule")))
        };
        texts.iter().map(code).collect()
    }
}

/// Why a target cannot be examined.
enum Failure {
    /// It cannot be opened or read.
    Examine(ExamineError),
    /// Its name means nothing.
    Name(String),
}

/// Audit a disk, an image or a modelled drive (``drive:NAME``), and return what ``straddle check --json``
/// prints.
///
/// ``assume`` declares the kind of drive (``"512e"``, ``"physical=16384"``). ``only`` and ``ignore`` take one
/// or more rule codes. ``allow_backing`` lists the files that an image may open: backing files, parents,
/// extents. A target that cannot be opened or read raises ``TargetError``, an ``OSError``. Nothing is
/// written.
///
/// >>> import straddle_align, tempfile
/// >>> with tempfile.NamedTemporaryFile() as image:
/// ...     _ = image.truncate(1 << 20)
/// ...     straddle_align.check(image.name)["targets"][0]["status"]
/// 'blank'
#[pyfunction]
#[pyo3(
    signature = (path, /, *, assume=None, only=Codes::default(), ignore=Codes::default(), allow_backing=Vec::new()),
    text_signature = "(path, /, *, assume=None, only=(), ignore=(), allow_backing=())"
)]
pub(crate) fn check<'py>(
    py: Python<'py>,
    path: PathBuf,
    assume: Option<&str>,
    only: Codes,
    ignore: Codes,
    allow_backing: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let examiner = examiner(assume, only, ignore, allow_backing, vec![path.clone()])?;
    let name = path.display().to_string();
    let target = py.detach(|| match examine(&examiner, &path) {
        Ok(examined) => Ok(TargetReport::of(&examined)),
        Err(Failure::Examine(error)) if error.not_judged().is_some() => {
            Ok(TargetReport::unexamined(name.clone(), &error))
        }
        Err(Failure::Examine(error)) => Err(errors::target(&name, &error)),
        Err(Failure::Name(message)) => Err(errors::wrong(message)),
    })?;
    as_python(py, &Report::of(vec![target]))
}

/// Audit several targets, on all cores, and return what ``straddle check --json`` prints.
///
/// A target that cannot be opened or read has the status ``"failed"``, and the others are still audited.
/// Disks of one array that are audited together are judged together.
///
/// >>> import straddle_align
/// >>> straddle_align.check_all(["/no/such/image", "drive:wd10ears"])["summary"]["failed"]
/// 1
#[pyfunction]
#[pyo3(
    signature = (paths, /, *, assume=None, only=Codes::default(), ignore=Codes::default(), allow_backing=Vec::new()),
    text_signature = "(paths, /, *, assume=None, only=(), ignore=(), allow_backing=())"
)]
pub(crate) fn check_all<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    assume: Option<&str>,
    only: Codes,
    ignore: Codes,
    allow_backing: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyAny>> {
    let examiner = examiner(assume, only, ignore, allow_backing, paths.clone())?;
    let report = py.detach(|| {
        let mut targets = Vec::with_capacity(paths.len());
        for batch in paths.chunks(BATCH) {
            let mut examined: Vec<_> = batch.par_iter().map(|path| examine(&examiner, path)).collect();
            examiner.merge(&mut examined.iter_mut().filter_map(|one| one.as_mut().ok()).collect::<Vec<_>>());
            targets.extend(batch.iter().zip(examined).map(|(path, examined)| reported(path, examined)));
        }
        Report::of(targets)
    });
    as_python(py, &report)
}

/// Audit each target separately, and return its name, its status and its part of ``straddle check --json`` as
/// text. Each task on a cluster calls this function.
#[pyfunction]
#[pyo3(
    signature = (paths, /, *, assume=None, only=Codes::default(), ignore=Codes::default(), allow_backing=Vec::new()),
    text_signature = "(paths, /, *, assume=None, only=(), ignore=(), allow_backing=())"
)]
pub(crate) fn check_each(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    assume: Option<&str>,
    only: Codes,
    ignore: Codes,
    allow_backing: Vec<PathBuf>,
) -> PyResult<Vec<(String, String, String)>> {
    let examiner = examiner(assume, only, ignore, allow_backing, Vec::new())?;
    let rows = py.detach(|| {
        let row = |path: &PathBuf| {
            let target = reported(path, examine(&examiner, path));
            let status = serde_json::to_value(target.status)?;
            let text = serde_json::to_string(&target)?;
            Ok((target.target, status.as_str().unwrap_or_default().to_owned(), text))
        };
        paths.iter().map(row).collect::<Result<_, serde_json::Error>>()
    });
    rows.map_err(|error| errors::input(&error))
}

/// Returns the report of a target that was examined, or was to be.
fn reported(path: &Path, examined: Result<Examined, Failure>) -> TargetReport {
    let name = || path.display().to_string();
    match examined {
        Ok(examined) => TargetReport::of(&examined),
        Err(Failure::Examine(error)) => TargetReport::unexamined(name(), &error),
        Err(Failure::Name(message)) => TargetReport::failed(name(), message),
    }
}

fn examine(examiner: &Examiner, path: &Path) -> Result<Examined, Failure> {
    let name = |error: &dyn std::error::Error| Failure::Name(straddle_device::shown::with_causes(error));
    match Named::parse(path).map_err(|error| name(&error))? {
        Named::Modelled { specification, profile } => {
            let open = &examiner.options().open;
            let target = straddle_audit::examine::blank_drive(&profile, &open.assume, open.logical);
            let target = target.map_err(|error| name(&error))?;
            examiner.examine_target(format!("{DRIVE}{specification}"), target).map_err(Failure::Examine)
        }
        Named::Object(address) => examiner.examine_object(&address).map_err(Failure::Examine),
        Named::Path(path) => examiner.examine(&path).map_err(Failure::Examine),
    }
}

fn examiner(
    assume: Option<&str>,
    only: Codes,
    ignore: Codes,
    allow_backing: Vec<PathBuf>,
    alongside: Vec<PathBuf>,
) -> PyResult<Examiner> {
    let assume: Assume = match assume {
        Some(text) => straddle_audit::examine::assume(text).map_err(errors::wrong)?,
        None => Assume::default(),
    };
    let read_through = Some(Limits::default());
    let open = straddle_device::Options { assume, allow_backing, read_through, ..Default::default() };
    Ok(Examiner::new(Options {
        open,
        only: only.codes()?,
        ignore: ignore.codes()?,
        alongside: Alongside::These(alongside),
        moves: Some(straddle_repair::moves::of),
        ..Options::default()
    }))
}
