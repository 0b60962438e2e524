//! `straddle lab`, `serve`, `reproduce` and `drive fit`: another program's commands, which this one starts.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::exit::{Exit, UsageError};

const PROGRAM: &str = "straddle-lab";

/// Runs `straddle-lab` in place of this program, with its arguments: the one beside it, or else on the PATH. It returns
/// only if that fails.
pub(super) fn start() -> Result<Exit> {
    let beside =
        std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.map_or_else(|| PROGRAM.into(), OsString::from);
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    if error.kind() == ErrorKind::NotFound {
        let message =
            "straddle-lab, which runs this command, is not installed next to straddle or on the PATH";
        return Err(UsageError(message.to_owned()).into());
    }
    Err(error).with_context(|| format!("{}: cannot be started", program.display()))
}
