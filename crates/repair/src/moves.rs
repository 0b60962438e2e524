//! What is known about moves of a target's partitions.

use std::io::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use straddle_audit::examine::{Examiner, is_in_partitions, read_present};
use straddle_audit::{MoveJournal, Moves, Planned, PlannedCopy, ShrinkFirst, Unfinished};
use straddle_device::claim::is_locked;
use straddle_device::image::Format;
use straddle_device::shown::{is_hidden, quote_path};
use straddle_device::{Assume, DeviceKind, Medium, ReadError, Target};
use straddle_layout::{Damage, Stack};
use straddle_units::{ByteCount, ByteOffset};

use crate::realign::Unplanned;
use crate::{Request, Seed, Situation, in_the_way_of_copies, realign};

/// No table with more partitions is planned for: a GPT has 128 entries as a rule, and orders of moves take time.
const MAX_PARTITIONS: usize = 128;

/// Returns the unfinished move on the device or image at `path`; `None` if there is none, or it is not one of those.
///
/// # Errors
///
/// A read of the target failed before a move was found, so there may be one.
pub fn unfinished(path: &Path) -> Result<Option<Unfinished>, ReadError> {
    let options = straddle_device::Options::default();
    let Ok(mut target) = straddle_device::open(path, &options) else { return Ok(None) };
    let failed = Arc::new(OnceLock::new());
    let noted = Arc::clone(&failed);
    target.medium = target.medium.map(|medium| Box::new(Noting { medium, failed: noted }) as Box<dyn Medium>);
    let stack = read_present(&mut target, &options);
    let found = stack.ok().flatten().and_then(|stack| found(&target, &stack, path));
    match failed.get() {
        Some((at, errno)) if found.is_none() => {
            let source = errno.map_or_else(|| Error::other("it failed"), Error::from_raw_os_error);
            Err(ReadError::Io { at: *at, source })
        }
        _ => Ok(found),
    }
}

/// A medium that notes the first read that the system failed: what looks for signatures goes on without.
struct Noting {
    medium: Box<dyn Medium>,
    failed: Arc<OnceLock<(ByteOffset, Option<i32>)>>,
}

impl Medium for Noting {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let read = self.medium.read_at(at, buf);
        if let Err(ReadError::Io { at, source }) = &read {
            let _ = self.failed.set((*at, source.raw_os_error()));
        }
        read
    }
}

/// The unfinished move by its marker; or, without a table, by its journal, if that can be: in a compressed file, reading
/// before the end takes all of it, and from a server that is many requests.
///
/// Of a move that is being made, the journal and the data change while they are read.
fn found(target: &Target, stack: &Stack, path: &Path) -> Option<Unfinished> {
    let medium = target.medium.as_deref()?;
    let is_whole = target.through.is_none() && target.address.is_none();
    let look = || {
        let marked = realign::unfinished(medium, stack).ok()?;
        let has_ends = is_whole && target.partition.is_none();
        marked.or_else(|| has_ends.then(|| realign::unmarked(medium, stack)).flatten())
    };
    let unfinished = look()?;
    let disk = target.node.as_deref().unwrap_or(path);
    if is_whole && is_locked(disk) {
        let (is_copy, stage) = match unfinished.journal {
            MoveJournal::Inside(stage) | MoveJournal::Unmarked { stage, .. } => (false, Some(stage)),
            MoveJournal::Copy => (true, None),
            _ => (false, None),
        };
        return Some(Unfinished { journal: MoveJournal::Locked { is_copy, stage }, ..unfinished });
    }
    if !matches!(unfinished.journal, MoveJournal::Unusable(_)) {
        return Some(unfinished);
    }
    // It may have ended meanwhile.
    medium.forget();
    look()
}

/// Returns what is known about moves.
pub fn of(examiner: &Examiner, name: &str, target: &Target, stack: &Stack) -> Moves {
    let declares_sectors = examiner.options().open.logical.is_some();
    let moves = Moves { options: attached(examiner, target), declares_sectors, ..Moves::default() };
    if let Some(unfinished) = found(target, stack, Path::new(name)) {
        return Moves { unfinished: Some(unfinished), ..moves };
    }
    if target.medium.is_none() || examiner.options().without_fixes {
        return moves;
    }
    let not_converted = not_converted(target, stack);
    let moves = Moves { in_the_way: in_the_way(target, stack), not_converted, ..moves };
    // A damaged table is mended first.
    let is_listed = (1..=MAX_PARTITIONS).contains(&stack.partitions.len());
    if target.zoned.is_some() || !stack.problems.is_empty() || !is_listed {
        return moves;
    }
    match planned(examiner, target, stack) {
        Ok(planned) => Moves { planned: Some(planned), ..moves },
        Err(why) => {
            let must = must_move(target, stack);
            let moves = Moves { copy: copy(examiner, name, target, stack, &must), ..moves };
            match why {
                Unplanned::Refused(why) => Moves { refused: Some(why), ..moves },
                Unplanned::Shrink(partition, to) => {
                    let numbers = numbers(&must);
                    let shrink = ShrinkFirst { numbers, partition, to, options: options(examiner, target) };
                    Moves { shrink: Some(shrink), ..moves }
                }
                Unplanned::Other => moves,
            }
        }
    }
}

fn situation<'a>(target: &'a Target, stack: &'a Stack) -> Option<Situation<'a>> {
    Some(Situation { medium: target.medium.as_deref()?, topology: &target.topology, stack, serial: None })
}

/// Returns the first byte of data that rewriting a damaged GPT would destroy.
fn in_the_way(target: &Target, stack: &Stack) -> Option<ByteOffset> {
    let is_rewritten = |damage| matches!(damage, Damage::Copies | Damage::Protection | Damage::End);
    stack.problems.iter().any(|problem| is_rewritten(problem.damage())).then_some(())?;
    in_the_way_of_copies(&situation(target, stack)?)
}

/// Returns why the table cannot be converted to the device's sectors, if it counts in others.
fn not_converted(target: &Target, stack: &Stack) -> Option<String> {
    stack.problems.iter().any(|problem| problem.damage() == Damage::Sectors).then_some(())?;
    let request = Request { convert: true, ..Request::new(Seed(0)) };
    crate::make(&situation(target, stack)?, &request).err().map(|error| error.to_string())
}

/// Returns what `straddle realign` would plan for the target, if it takes such targets; or why nothing may move.
fn planned(examiner: &Examiner, target: &Target, stack: &Stack) -> Result<Planned, Unplanned> {
    let situation = situation(target, stack).ok_or(Unplanned::Other)?;
    let options = options(examiner, target);
    let in_use = is_in_partitions(target, examiner);
    let planned = realign::planned(&situation, &options, (in_use, target.address.is_some()));
    // Only the bytes of a raw image are written to.
    let is_raw = target.container.is_none() && target.through.is_none();
    if is_raw || matches!(planned, Err(Unplanned::Refused(_))) { planned } else { Err(Unplanned::Other) }
}

/// A partition that has to move, and the byte where the data of a layer on it begin for which it is placed.
type Must = (u32, Option<ByteOffset>);

fn must_move(target: &Target, stack: &Stack) -> Vec<Must> {
    let situation = situation(target, stack);
    situation.and_then(|situation| realign::must_move(&situation).ok()).unwrap_or_default()
}

fn numbers(must: &[Must]) -> Vec<u32> {
    must.iter().map(|(number, _)| *number).collect()
}

/// Returns the copy that `straddle realign --to` would plan for the target.
fn copy(
    examiner: &Examiner,
    name: &str,
    target: &Target,
    stack: &Stack,
    must: &[Must],
) -> Option<PlannedCopy> {
    let situation = situation(target, stack).filter(|_| !must.is_empty())?;
    let numbers = numbers(must);
    let data = must.iter().filter_map(|(number, data)| Some((*number, (*data)?))).collect();
    let source = target.node.as_ref().map_or_else(|| name.to_owned(), |node| node.display().to_string());
    if source.contains(is_hidden) || !crate::copy::can_be_copied(&situation) {
        return None;
    }
    let mut options = options(examiner, target);
    let mut from = examiner.options().open.format.map_or_else(String::new, |f| format!(" --from-format {f}"));
    for file in &examiner.options().open.allow_backing {
        let file = format!(" --allow-backing {}", quote_path(file));
        options += &file;
        from += &file;
    }
    let format = target.container.as_ref().map(|container| container.format.to_string());
    let format = format.or_else(|| target.through.as_ref().map(|_| "compressed".to_owned()));
    let new = match format {
        Some(_) => crate::copy::raw_name(Path::new(&source)).display().to_string(),
        None => "NEW".to_owned(),
    };
    let is_qcow2 = target.container.as_ref().is_some_and(|container| container.format == Format::Qcow2);
    let raw = quote_path(Path::new(&new));
    let back = is_qcow2.then(|| format!("qemu-img convert -O qcow2 {raw} NEW.qcow2"));
    let in_use = is_in_partitions(target, examiner);
    Some(PlannedCopy { numbers, data, source, new, options, from, format, back, in_use })
}

/// The options that make `straddle realign` see the topology of this run, each after a space.
fn options(examiner: &Examiner, target: &Target) -> String {
    let mut open = examiner.options().open.clone();
    // What images are assumed to be need not be said.
    if target.kind == DeviceKind::Image && open.assume.is_512e() {
        open.assume = Assume::default();
    }
    open.declared()
}

/// The same for commands that work on an image of another format, attached as a device.
fn attached(examiner: &Examiner, target: &Target) -> Option<String> {
    match &target.container {
        None => Some(options(examiner, target)),
        // The device has sectors of 512 bytes.
        Some(_) => examiner.options().open.logical.is_none().then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use straddle_audit::examine::Options;

    #[test]
    fn the_format_is_the_one_that_the_option_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let target = straddle_device::open(&path, &straddle_device::Options::default()).unwrap();
        for format in straddle_device::image::Format::ALL {
            let mut run = Options::default();
            run.open.format = Some(*format);
            let options = options(&Examiner::new(run), &target);
            let (_, name) = options.split_once("--format ").unwrap();
            assert_eq!(name.parse(), Ok(*format));
        }
    }
}
