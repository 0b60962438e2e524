//! The commands that work on disks and images of this machine only.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use straddle_device::Address;

use crate::args::Command;
use crate::exit::RefusedError;

/// Refuses a command that writes, or plans to, if what it is to work on is on a server. The address is shown
/// without secrets.
pub(super) fn refuse_servers(command: &Command) -> Result<(), RefusedError> {
    let (name, paths): (&str, Vec<&Path>) = match command {
        Command::Plan(plan) => ("plan", vec![&plan.target]),
        Command::Apply(apply) => (
            "apply",
            [&apply.write]
                .into_iter()
                .chain(&apply.from)
                .chain(&apply.allow_backing)
                .map(AsRef::as_ref)
                .collect(),
        ),
        Command::Realign(realign) => {
            let instead = &realign.instead;
            let paths = [&realign.target].into_iter().chain(&instead.to).chain(&instead.allow_backing);
            ("realign", paths.map(AsRef::as_ref).collect())
        }
        Command::Resume(resume) => ("resume", vec![&resume.target]),
        Command::Undo(undo) => ("undo", vec![&undo.write]),
        Command::Bench(bench) => ("bench", bench.target.iter().filter_map(|target| target.path()).collect()),
        Command::Probe(probe) => ("probe", probe.target.path().into_iter().collect()),
        Command::Serve(serve) => {
            ("serve", serve.target.path().into_iter().chain(serve.store.as_deref()).collect())
        }
        Command::Reproduce(reproduce) => {
            ("reproduce", reproduce.on.iter().chain(&reproduce.destroy_data).map(AsRef::as_ref).collect())
        }
        _ => return Ok(()),
    };
    let found = paths.into_iter().find_map(|path| address(path.as_os_str()));
    let Some((shown, fetch)) = found else { return Ok(()) };
    let fetch = fetch.map_or_else(String::new, |command| format!(": {command}"));
    Err(RefusedError(format!(
        "{shown}: is on a server: straddle {name} works on disks and images of this machine; fetch it first{fetch}"
    )))
}

/// Returns the first address among these files, without its secrets.
pub(super) fn address_among(files: &[PathBuf]) -> Option<String> {
    files.iter().find_map(|file| address(file.as_os_str())).map(|(shown, _)| shown)
}

/// Returns an address without its secrets, and the command that fetches what it names, if that shows none.
fn address(text: &OsStr) -> Option<(String, Option<String>)> {
    let text = text.to_str()?;
    let fetch = Address::parse(text)?.ok().and_then(|address| address.fetch_command());
    Some((Address::redacted(text), fetch))
}
