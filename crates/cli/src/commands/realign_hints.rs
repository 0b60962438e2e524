//! What `straddle realign` says of targets in which nothing moves in place.

use std::path::PathBuf;

use straddle_audit::file_about;
use straddle_device::OpenError;
use straddle_layout::{Problem, TableKind};
use straddle_repair::realign::RealignError;
use straddle_repair::{ChangeError, Present, Situation, TargetError};

use super::copy::how_opened;
use super::realign::opened;
use crate::args::RealignArguments;
use crate::exit::RefusedError;
use crate::output::quote_path;
use crate::overlay;

/// Adds why a disk without a table is as it should be, and the copy for one without room.
pub(super) fn hint(
    error: RealignError,
    situation: &Situation<'_>,
    arguments: &RealignArguments,
) -> anyhow::Error {
    let target = arguments.target.as_path();
    let is_misplaced = |problem: &Problem| matches!(problem, Problem::GptBackupMisplaced { .. });
    if error.lacks_room() {
        let options = how_seen(arguments);
        let operand = quote_path(target);
        if situation.stack.problems.iter().any(is_misplaced) {
            let plan = file_about(&target.display().to_string(), "plan.json");
            return RefusedError(format!(
                "its GPT was made for a smaller disk, and has no room there; move the backup to the end first: straddle plan \
                 {operand}{options} --relocate-backup --save {plan} && straddle apply {plan} --write {operand}"
            ))
            .into();
        }
        let plan = file_about(&target.display().to_string(), "copy.json");
        let text = format!(
            "{error}; to copy it to another disk: straddle realign {operand}{options} --to NEW --save {plan}"
        );
        return RefusedError(text).into();
    }
    match situation.stack.kind {
        TableKind::Content(content) => RefusedError(format!(
            "there is nothing to realign: {content} fills it from byte 0 on, which is aligned"
        ))
        .into(),
        TableKind::None => {
            RefusedError("there is nothing to realign: it has no partition table".to_owned()).into()
        }
        _ => error.into(),
    }
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
    let plan = file_about(&arguments.target.display().to_string(), "copy.json");
    // No file that an image names is opened unasked: of a chain of them, the first is known.
    let backing = Present::to_copy(&arguments.target, &opened(arguments))
        .err()
        .and_then(|error| overlay::needed(anyhow::Error::from(error).chain(), &arguments.target));
    let backing: Vec<PathBuf> = backing.into_iter().collect();
    let (seen, read) =
        (how_seen(arguments) + &how_opened(None, &backing), how_opened(arguments.format, &backing));
    let text = format!(
        "it is {kind}, whose partitions cannot be moved in place: straddle realign {operand}{seen} --to \
         {raw} --save {plan} && straddle apply {plan} --from {operand}{read} --write {raw}"
    );
    let back = if is_qcow2 {
        format!("; qemu-img convert -O qcow2 {raw} NEW.qcow2 converts it back to {kind}")
    } else {
        String::new()
    };
    RefusedError(text + &back).into()
}
