//! `straddle realign DISK --at-boot`: moves partitions before the root file system is mounted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use straddle_repair::Present;
use straddle_repair::boot::{Console, Ended, System};
use straddle_repair::realign::Realign;

use crate::commands::realign::complain_unreadable;
use crate::exit::Exit;
use crate::output::{plural, quote_path};
use crate::progress::{Watcher, on_interrupt};
use crate::{input, output};

pub(super) fn prepare(disk: &Path, realign: &Realign, present: &Present) -> Result<Exit> {
    let name = disk.display().to_string();
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    // Ctrl-C ends the program that makes the initramfs, and then all is removed again.
    on_interrupt(&Arc::default()).context("cannot install the Ctrl-C handler")?;
    let prepared = System::running().prepare(disk, realign, present, &program);
    prepared.with_context(|| name.clone())?;
    let bytes = realign.total();
    let (shown, operand) = (output::printable(&name), quote_path(disk));
    let moved = plural(realign.moves.len(), "partition");
    output::print(&format!(
        "{shown}: prepared; at the next boot, before the root file system is mounted, {bytes} of data in \
         {moved} will be moved
  after a power cut, the next boot resumes the move; nothing else runs until it is done
  if the disk changes before then, nothing is written and the system boots as usual
  to see the result: straddle check {operand}
  to cancel: straddle realign {operand} --at-boot=cancel
"
    ))
}

pub(super) fn cancel(disk: &Path) -> Result<Exit> {
    let name = disk.display().to_string();
    on_interrupt(&Arc::default()).context("cannot install the Ctrl-C handler")?;
    System::running().cancel(disk).with_context(|| name.clone())?;
    output::print(&format!("{}: nothing will be moved at the next boot\n", output::printable(&name)))
}

/// What the initramfs runs: resumes an unfinished move, or begins the one that was prepared.
pub(super) fn now(disk: &Path) -> Result<Exit> {
    let name = disk.display().to_string();
    let id = input::random_bytes("cannot create an identifier for the move")?;
    let mut watcher = Watcher::start("moving")?;
    let mut console = Console {
        watch: &mut |progress| watcher.look(progress),
        list: &mut |bad| {
            complain_unreadable(bad);
            Ok(())
        },
        restart: &mut |why| output::complain(&format!("{name}: {why}; rebooting")),
    };
    let ended = System::running().carry_out(disk, id, &mut console);
    drop(watcher);
    let ended = ended.with_context(|| name.clone())?;
    output::complain(&format!("{name}: {ended}"));
    Ok(match ended {
        Ended::AlreadyDone => Exit::Success,
        Ended::Complete { unreadable: 0, .. } | Ended::Back { unreadable: 0 } => Exit::Success,
        Ended::Complete { .. } | Ended::Back { .. } => Exit::Findings,
        Ended::Paused => Exit::INTERRUPTED,
    })
}

/// What the last start did to one of `targets`, or to any disk if there are none.
pub(super) fn note(targets: &[PathBuf]) -> Option<String> {
    System::running().last(targets)
}
