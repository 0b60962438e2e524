//! What is known about moves of a target's partitions.

use std::io::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use straddle_audit::examine::{Examiner, is_in_partitions, read_present};
use straddle_audit::{MoveJournal, Moves, PlannedCopy, ShrinkFirst, Unfinished};
use straddle_device::claim::is_locked;
use straddle_device::image::Format;
use straddle_device::shown::{is_hidden, quote_path};
use straddle_device::{Assume, DeviceKind, Medium, ReadError, Target};
use straddle_layout::{Damage, Stack};
use straddle_units::{ByteCount, ByteOffset};

use crate::realign::Unplanned;
use crate::{Request, Seed, Situation, in_the_way_of_copies, realign};

/// No table with more partitions is planned for: orders of moves take time.
const MAX_PARTITIONS: usize = 128;

/// Returns the unfinished move on the device or image at `path`; `None` if there is none, or `path` is neither.
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

/// A medium that records the first read that failed: a search for signatures goes on after it.
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

/// The unfinished move by its marker; or, without a table, by its journal, which is not looked for in
/// compressed files or on servers: that takes long. The journal of a running move changes while it is read.
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
    // The move may have ended meanwhile.
    medium.forget();
    look()
}

/// Returns what is known about moves.
pub fn of(examiner: &Examiner, name: &str, target: &Target, stack: &Stack) -> Moves {
    let run = examiner.options();
    let declares_sectors = run.open.logical.is_some();
    let moves = Moves { options: attached(examiner, target), declares_sectors, ..Moves::default() };
    if let Some(unfinished) = found(target, stack, Path::new(name)) {
        return Moves { unfinished: Some(unfinished), ..moves };
    }
    let Some(medium) = target.medium.as_deref().filter(|_| !run.without_fixes) else { return moves };
    let situation = Situation { medium, topology: &target.topology, stack, serial: None };
    let has = |damages: &[Damage]| stack.problems.iter().any(|problem| damages.contains(&problem.damage()));
    let in_the_way = has(&[Damage::Copies, Damage::Protection, Damage::End])
        .then(|| in_the_way_of_copies(&situation))
        .flatten();
    let convert = Request { convert: true, ..Request::new(Seed(0)) };
    let not_converted = has(&[Damage::Sectors]).then(|| crate::make(&situation, &convert).err()).flatten();
    let not_converted = not_converted.map(|error| error.to_string());
    let moves = Moves { in_the_way, not_converted, ..moves };
    let is_listed = (1..=MAX_PARTITIONS).contains(&stack.partitions.len());
    if target.zoned.is_some() || !stack.problems.is_empty() || !is_listed {
        return moves;
    }
    let options = options(examiner, target);
    let (in_use, is_remote) = (is_in_partitions(target, examiner), target.address.is_some());
    let planned = realign::planned(&situation, &options, (in_use, is_remote));
    // Only the bytes of a raw image are written to.
    let is_raw = target.container.is_none() && target.through.is_none();
    let why = match planned {
        Ok(planned) if is_raw => return Moves { planned: Some(planned), ..moves },
        Err(why @ Unplanned::Refused(_)) => why,
        Err(why) if is_raw => why,
        _ => Unplanned::Other,
    };
    let must = realign::must_move(&situation).unwrap_or_default();
    let numbers: Vec<u32> = must.iter().map(|(number, _)| *number).collect();
    let can_be_copied = !must.is_empty() && crate::copy::can_be_copied(&situation);
    let copy = can_be_copied.then(|| {
        let data = must.iter().filter_map(|(number, data)| Some((*number, (*data)?))).collect();
        copy(examiner, name, target, (numbers.clone(), data, in_use))
    });
    let moves = Moves { copy: copy.flatten(), ..moves };
    match why {
        Unplanned::Refused(why) => Moves { refused: Some(why), ..moves },
        Unplanned::Shrink(partition, to) => {
            Moves { shrink: Some(ShrinkFirst { numbers, partition, to, options }), ..moves }
        }
        Unplanned::Other => moves,
    }
}

fn copy(
    examiner: &Examiner,
    name: &str,
    target: &Target,
    (numbers, data, in_use): (Vec<u32>, Vec<(u32, ByteOffset)>, bool),
) -> Option<PlannedCopy> {
    let source = target.node.as_ref().map_or_else(|| name.to_owned(), |node| node.display().to_string());
    if source.contains(is_hidden) {
        return None;
    }
    let open = &examiner.options().open;
    let backing: String =
        open.allow_backing.iter().map(|file| format!(" --allow-backing {}", quote_path(file))).collect();
    let options = options(examiner, target) + &backing;
    let from = open.format.map_or_else(String::new, |format| format!(" --from-format {format}")) + &backing;
    let container = target.container.as_ref().map(|container| container.format);
    let compressed = target.through.as_ref().map(|_| "compressed".to_owned());
    let format = container.map(|format| format.to_string()).or(compressed);
    let new = match format {
        Some(_) => crate::copy::raw_name(Path::new(&source)).display().to_string(),
        None => "NEW".to_owned(),
    };
    let raw = quote_path(Path::new(&new));
    let back =
        (container == Some(Format::Qcow2)).then(|| format!("qemu-img convert -O qcow2 {raw} NEW.qcow2"));
    Some(PlannedCopy { numbers, data, source, new, options, from, format, back, in_use })
}

/// The options that make `straddle realign` see the topology of this run, each after a space.
fn options(examiner: &Examiner, target: &Target) -> String {
    let mut open = examiner.options().open.clone();
    // The default for images is left out.
    if target.kind == DeviceKind::Image && open.assume.is_512e() {
        open.assume = Assume::default();
    }
    open.declared()
}

/// For commands on an image of another format, attached as a device.
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
