//! The Python module beside polars, DuckDB and PySpark. The scripts in `benches/python` measure, in the environment that
//! `scripts/python` makes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::samples::Samples;

/// Runs a script of `benches/python`, which prints its figures. `is_cluster` is whether it needs Spark.
pub(crate) fn run(script: &str, is_cluster: bool) -> Result<Vec<Samples>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let mut install = Command::new(root.join("scripts/python"));
    if is_cluster {
        install.arg("--cluster");
    }
    let made = install.args(["--release", "--install"]).stderr(Stdio::inherit()).output()?;
    let python = String::from_utf8(made.stdout)?;
    if !made.status.success() {
        bail!("scripts/python failed");
    }
    let done = Command::new(python.trim()).arg(root.join("benches/python").join(script)).status()?;
    if !done.success() {
        bail!("{script} failed");
    }
    Ok(Vec::new())
}
