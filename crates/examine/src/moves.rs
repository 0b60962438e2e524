//! What is known about moves of a target's partitions.

use std::path::Path;

use straddle_audit::{Context, Moves, Planned, Unfinished};
use straddle_device::{DeviceKind, Target};
use straddle_layout::Stack;
use straddle_repair::{Situation, realign};

use crate::{Examiner, in_use, sectors};

/// No table with more partitions is planned for: a GPT has 128 entries as a rule, and orders of moves take time.
const MOST: usize = 128;

/// Returns the unfinished move on the device or image at `path`; `None` if there is none, or nothing can be
/// read there.
pub fn unfinished(path: &Path) -> Option<Unfinished> {
    let options = straddle_device::Options::default();
    let mut target = straddle_device::open(path, &options).ok()?;
    let stack = sectors::read_table(&mut target, &options).ok()??;
    found(&target, &stack)
}

/// The unfinished move by its marker; or by its journal, if that can be: in a compressed file, reading before
/// the end takes all of it.
fn found(target: &Target, stack: &Stack) -> Option<Unfinished> {
    let medium = target.medium.as_deref()?;
    let marked = realign::unfinished(medium, stack).ok()?;
    let has_ends = target.through.is_none() && target.partition.is_none();
    marked.or_else(|| has_ends.then(|| realign::displaced(medium, stack)).flatten())
}

/// Returns what is known about moves; `context` is that of the audit, without it.
pub(crate) fn of(examiner: &Examiner, target: &Target, stack: &Stack, context: &Context<'_>) -> Moves {
    if target.medium.is_none() {
        return Moves::default();
    }
    if let Some(unfinished) = found(target, stack) {
        return Moves { unfinished: Some(unfinished), planned: None };
    }
    Moves { unfinished: None, planned: planned(examiner, target, stack, context) }
}

/// Returns what `straddle realign` would plan for the target, if it takes such targets.
fn planned(examiner: &Examiner, target: &Target, stack: &Stack, context: &Context<'_>) -> Option<Planned> {
    let medium = target.medium.as_deref()?;
    // Arrays and mappings have no table of their own as a rule, and an archive is not written to.
    let is_disk = !matches!(target.kind, DeviceKind::Md | DeviceKind::DeviceMapper | DeviceKind::Modelled);
    if !is_disk || target.container.is_some() || target.through.is_some() || target.zoned.is_some() {
        return None;
    }
    // A damaged table is mended first.
    if !stack.problems.is_empty() {
        return None;
    }
    let numbers = straddle_audit::to_move(context);
    if numbers.is_empty() || stack.partitions.len() > MOST {
        return None;
    }
    let situation = Situation { medium, topology: &target.topology, stack, serial: None };
    let options = options(examiner, target)?;
    let in_use = in_use::is_in_partitions(target, examiner);
    realign::planned(&situation, &numbers, &options, in_use)
}

/// The options that make `straddle realign` see the topology of this run, each after a space. `None` if
/// none do.
fn options(examiner: &Examiner, target: &Target) -> Option<String> {
    let open = &examiner.options().open;
    let mut options = String::new();
    let is_usual = target.kind == DeviceKind::Image && open.assume.is_512e();
    if !is_usual {
        let assumed = open.assume.words()?;
        if !assumed.is_empty() {
            options += &format!(" --assume {assumed}");
        }
    }
    if let Some(logical) = open.logical {
        options += &format!(" --logical {logical}");
    }
    if let Some(format) = open.format {
        options += &format!(" --format {}", format.name());
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::Options;

    #[test]
    fn the_format_is_the_one_that_the_option_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let target = straddle_device::open(&path, &straddle_device::Options::default()).unwrap();
        for format in straddle_device::image::Format::ALL {
            let mut run = Options::default();
            run.open.format = Some(*format);
            let options = options(&Examiner::new(run), &target).unwrap();
            let (_, name) = options.split_once("--format ").unwrap();
            assert_eq!(name.parse(), Ok(*format));
        }
    }
}
