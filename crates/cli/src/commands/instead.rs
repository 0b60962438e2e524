//! The parts of `straddle realign` that do not move partitions in place: `--wrap` and `--to`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use straddle_audit::file_about;
use straddle_device::OpenError;
use straddle_examine::{ChangeError, Present};
use straddle_layout::{Content, FsKind, TableKind, VolumeKind};
use straddle_repair::realign::{self, Realign, RealignError, Shrink, Wrap};
use straddle_repair::{Format, Seed, Situation, TargetError};

use super::copy::how_opened;
use super::plan::random_seed;
use super::realign::opened;
use crate::args::RealignArguments;
use crate::exit::RefusedError;
use crate::output::quote_path;
use crate::overlay;

/// Plans a partition around what fills the target.
pub(super) fn wrap(situation: &Situation<'_>, arguments: &RealignArguments, name: &str) -> Result<Realign> {
    let format = arguments.instead.table.map_or(Format::Gpt, Into::into);
    let wipe = arguments.instead.wipe;
    let wanted = Wrap { format, grain: arguments.grain, seed: random_seed()?, wipe };
    let made = realign::wrap(situation, &wanted);
    if let Err(error @ RealignError::WrapRoom { shrink, .. }) = &made {
        let operand = quote_path(&arguments.target);
        let larger = format!(
            "to copy it to a larger disk: straddle realign {operand}{} --wrap --to NEW",
            how_seen(arguments)
        );
        let is_file = arguments.target.metadata().is_ok_and(|metadata| metadata.is_file());
        let size = is_file.then(|| situation.medium.len().get());
        let first = shrinking(shrink, &operand, size).map_or_else(
            || match shrink.is_possible() {
                Some(false) => "no tool makes it smaller".to_owned(),
                _ => "no command is known here that makes it smaller".to_owned(),
            },
            |command| format!("to make it smaller: {command}"),
        );
        let text = format!("{error}: {first}; {larger}");
        return Err(RefusedError(text)).with_context(|| name.to_owned());
    }
    made.with_context(|| name.to_owned())
}

/// Returns the command that makes the contents smaller; `size` is that of a file.
fn shrinking(shrink: &Shrink, operand: &str, size: Option<u64>) -> Option<String> {
    let command = shrink.command.as_ref()?;
    let Some(size) = size else { return Some(command.replace("DEVICE", operand)) };
    Some(match shrink.content? {
        // LVM takes devices only.
        Content::Volume(VolumeKind::Pv) => {
            let command = command.replace("DEVICE", "\"$loop\"");
            format!("loop=$(losetup --find --show {operand}) && {command}; losetup --detach \"$loop\"")
        }
        // resize2fs cuts a file off behind the file system.
        Content::FileSystem(FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4) => {
            format!("{} && truncate -s {size} {operand}", command.replace("DEVICE", operand))
        }
        _ => command.replace("DEVICE", operand),
    })
}

/// Adds the option for a disk without a table, if it can be given a partition, and the copy for one without room.
pub(super) fn hint(
    error: RealignError,
    situation: &Situation<'_>,
    arguments: &RealignArguments,
) -> anyhow::Error {
    let target = arguments.target.as_path();
    if error.lacks_room() {
        let options = how_seen(arguments);
        let operand = quote_path(target);
        let plan = file_about(&target.display().to_string(), "copy.json");
        let text = format!(
            "{error}; to copy it to another disk: straddle realign {operand}{options} --to NEW --save {plan}"
        );
        return RefusedError(text).into();
    }
    let why = match situation.stack.kind {
        TableKind::Content(content) => format!("{content} fills it, without a table"),
        TableKind::None => "it has no partition table".to_owned(),
        _ => return error.into(),
    };
    let wanted = Wrap { format: Format::Gpt, grain: None, seed: Seed(0), wipe: false };
    let text = match realign::wrap(situation, &wanted) {
        Ok(_) | Err(RealignError::WrapRoom { .. }) => {
            format!("{why}: straddle realign {}{} --wrap", quote_path(target), how_seen(arguments))
        }
        Err(RealignError::Immovable { why: asleep, .. }) => format!("{why}: {asleep}"),
        Err(_) => format!("{why}: there is nothing to realign"),
    };
    RefusedError(text).into()
}

/// The options that say what the target is, each after a space.
fn how_seen(arguments: &RealignArguments) -> String {
    opened(arguments).declared()
}

/// Says how to realign an image that is not raw.
pub(super) fn of_container(error: ChangeError, arguments: &RealignArguments) -> anyhow::Error {
    let (kind, is_qcow2) = match &error {
        ChangeError::Target(TargetError::NotRaw(format)) => {
            (format!("a {format} image"), *format == straddle_device::image::Format::Qcow2)
        }
        ChangeError::Target(TargetError::Open(OpenError::NotRead { what, packing: Some(_), .. })) => {
            ((*what).to_owned(), false)
        }
        _ => return error.into(),
    };
    let operand = quote_path(&arguments.target);
    let raw = quote_path(&straddle_repair::copy::raw_name(&arguments.target));
    let wrap = if arguments.instead.wrap { " --wrap" } else { "" };
    let plan = file_about(&arguments.target.display().to_string(), "copy.json");
    // No file that an image names is opened unasked: of a chain of them, the first is known.
    let backing = Present::to_copy(&arguments.target, &opened(arguments))
        .err()
        .and_then(|error| overlay::needed(anyhow::Error::from(error).chain(), &arguments.target));
    let backing: Vec<PathBuf> = backing.into_iter().collect();
    let (seen, read) =
        (how_seen(arguments) + &how_opened(None, &backing), how_opened(arguments.format, &backing));
    let text = format!(
        "it is {kind}, in which nothing is moved in place: straddle realign {operand}{seen}{wrap} --to {raw} --save {plan} && straddle \
         apply {plan} --from {operand}{read} --write {raw}"
    );
    let back = if is_qcow2 {
        format!("; qemu-img convert -O qcow2 {raw} NEW.qcow2 makes it {kind} again")
    } else {
        String::new()
    };
    RefusedError(text + &back).into()
}
