//! Moves of partitions, unfinished or planned by crate `repair`, as findings and fixes.

use std::collections::BTreeSet;

use straddle_layout::{Marker, Partition, PartitionType, Role, Unclaimed};
use straddle_units::{ByteCount, ByteOffset, Lba};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Finding, Fix, Risk};
use crate::fix::{is_known, shrinking};
use crate::shell::{file_about, operand};

/// What is known about moves on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moves {
    /// The options, each after a space, with which other commands see the disk as this run, if any do.
    pub options: Option<String>,
    /// Whether one of these options gives the sectors of the disk.
    pub declares_sectors: bool,
    /// The move that has begun.
    pub unfinished: Option<Unfinished>,
    /// The move that `straddle realign` plans.
    pub planned: Option<Planned>,
    /// What has to be shrunk before `straddle realign` can plan a move.
    pub shrink: Option<ShrinkFirst>,
    /// The copy that `straddle realign --to` plans, where nothing can be moved in place.
    pub copy: Option<PlannedCopy>,
    /// Why no program may move anything in place, other than for lack of room.
    pub refused: Option<String>,
    /// The first byte of data that rewriting the copies of a damaged GPT would destroy.
    pub in_the_way: Option<ByteOffset>,
    /// Why a table for another logical sector size cannot be converted, if it cannot.
    pub not_converted: Option<String>,
}

impl Default for Moves {
    fn default() -> Self {
        Self {
            options: Some(String::new()),
            declares_sectors: false,
            unfinished: None,
            planned: None,
            shrink: None,
            copy: None,
            refused: None,
            in_the_way: None,
            not_converted: None,
        }
    }
}

/// An unfinished move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The entry that marks the disk; `None` if it has no table.
    pub marker: Option<Marker>,
    /// Its journal.
    pub journal: Journal,
}

/// The journal of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Journal {
    /// In the space that the marker covers.
    Inside(Stage),
    /// In a file.
    InFile,
    /// On the disk, and damaged.
    Unusable(String),
    /// On a disk that another program has locked: it may change while it is read.
    Locked {
        /// Whether it is a copy to the disk.
        is_copy: bool,
        /// How far a move is, if that could be read.
        stage: Option<Stage>,
    },
    /// There is none: the marker is that of a copy to this disk.
    Copy,
    /// On the disk, which has no table.
    Unmarked {
        /// How far the move is.
        stage: Stage,
        /// Its first byte.
        at: ByteOffset,
    },
}

pub(crate) struct Ways {
    forward: Option<String>,
    back: Option<String>,
}

impl Ways {
    fn sentence(&self) -> String {
        match (&self.forward, &self.back) {
            (Some(forward), Some(back)) => format!("{forward} resumes it, and {back} rolls it back"),
            (Some(forward), None) => format!("{forward} completes it"),
            (None, Some(back)) => format!("{back} completes the rollback"),
            (None, None) => {
                "its journal is unusable; write nothing to the disk, and copy it as it is".to_owned()
            }
        }
    }
}

fn locked(is_copy: bool, stage: Option<Stage>) -> String {
    let what = if is_copy { "a copy to it" } else { "a move of its partitions" };
    let stage = stage.map_or_else(String::new, |stage| format!("; {}", stage.sentence()));
    format!(
        "{what} is unfinished, and another process, perhaps a running straddle, has locked the disk{stage}"
    )
}

const WAIT: &str = "wait until straddle has finished, or end the other process, and check again";

impl Journal {
    /// What is unfinished on the target `operand`, which is quoted for a shell, and which commands end it.
    pub fn note(&self, operand: &str) -> String {
        let what = match self {
            Self::Locked { is_copy, stage } => return format!("{}; {WAIT}", locked(*is_copy, *stage)),
            Self::Copy => "an unfinished copy to it",
            Self::Inside(_) | Self::Unmarked { .. } | Self::InFile | Self::Unusable(_) => {
                "an unfinished move of its partitions"
            }
        };
        format!("{what}: {}", self.ways(operand).sentence())
    }

    fn ways(&self, operand: &str) -> Ways {
        let resume = format!("straddle resume {operand}");
        let both = |options: &str| Ways {
            forward: Some(format!("{resume}{options}")),
            back: Some(format!("{resume}{options} --rollback")),
        };
        match self {
            Self::Inside(stage) | Self::Unmarked { stage, .. } if stage.can_go_on() => both(""),
            Self::Inside(_) | Self::Unmarked { .. } => {
                Ways { forward: None, back: Some(format!("{resume} --rollback")) }
            }
            Self::InFile => both(" --journal FILE"),
            Self::Copy => Ways {
                forward: Some(format!("straddle apply PLAN --from SOURCE --write {operand}")),
                back: None,
            },
            Self::Locked { .. } | Self::Unusable(_) => Ways { forward: None, back: None },
        }
    }
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No data have moved.
    NotBegun,
    /// Some data have moved.
    Moving {
        /// The bytes that have.
        done: ByteCount,
        /// The bytes that will.
        total: ByteCount,
    },
    /// All data have moved; the new table is not complete.
    Moved,
    /// It is being rolled back.
    RollingBack,
    /// All data are back; the old table is not complete.
    Back,
}

/// A move that `straddle realign` plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The partitions that move, with their new starts.
    pub places: Vec<(u32, Lba)>,
    /// The partitions that lose bytes that their contents do not use, and how many.
    pub shorter: Vec<(u32, ByteCount)>,
    /// The partitions that move for the data of a layer in them, and where on the drive these begin now.
    pub data: Vec<(u32, ByteOffset)>,
    /// What has to be done by hand afterwards, so that the disk boots again, by partition.
    pub after: Vec<(u32, &'static str)>,
    /// The options that the plan needs, each after a space.
    pub options: String,
    /// The size of the journal, if it has to be in a file.
    pub journal: Option<ByteCount>,
    /// Whether the disk is in use.
    pub in_use: bool,
}

/// What has to be shrunk before `straddle realign` has room for a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShrinkFirst {
    /// The partitions that have to move.
    pub numbers: Vec<u32>,
    /// The partition whose contents have to be smaller.
    pub partition: u32,
    /// How many bytes they may use then.
    pub to: ByteCount,
    /// The options that the plan needs, each after a space.
    pub options: String,
}

/// A copy that `straddle realign --to` plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCopy {
    /// The partitions that have to move.
    pub numbers: Vec<u32>,
    /// The partitions placed for the data of a layer in them, and where on the drive these begin.
    pub data: Vec<(u32, ByteOffset)>,
    /// The disk or image to copy.
    pub source: String,
    /// The new image, or a word for the new disk.
    pub new: String,
    /// The options of the first command, each after a space.
    pub options: String,
    /// The options with which the second command opens the source, each after a space.
    pub from: String,
    /// The format of the image, if that is why nothing is moved in place.
    pub format: Option<String>,
    /// The command that makes the new image one of the old format again, if there is one.
    pub back: Option<String>,
    /// Whether the disk is in use.
    pub in_use: bool,
}

/// With runs as ranges: `1-5, 7`.
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers.collect::<BTreeSet<_>>() {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

const NAMED: usize = 4;

/// Or the fix that makes room for the move first.
pub(crate) fn fix(context: &Context<'_>, number: u32) -> Option<Fix> {
    let Some(planned) = &context.moves.planned else { return shrink_first(context, number) };
    planned.places.iter().find(|(moved, _)| *moved == number)?;
    let Planned { places, shorter, options, journal, in_use, .. } = planned;
    let to: Vec<String> =
        places.iter().map(|(number, to)| format!("partition {number} to LBA {to}")).collect();
    let summary = match to.as_slice() {
        [one] => format!("move {one}, with its data"),
        [first @ .., last] if to.len() <= NAMED => {
            format!("move {} and {last}, with their data", first.join(", "))
        }
        _ => {
            let numbers = ranges(places.iter().map(|(number, _)| *number));
            format!("move partitions {numbers} to aligned starts, with their data")
        }
    };
    let mut caution = "after a power cut, straddle resume continues the move without data loss".to_owned();
    if let Some(size) = journal {
        caution += &format!(
            "; the disk has no room for the journal ({} bytes): store {} on another disk, and keep it until \
             the move is complete",
            size.get(),
            file_about(context.target, "move.journal")
        );
    }
    for (number, by) in shorter {
        caution += &format!(
            "; the last {} bytes of partition {number}, which its contents do not use, are cut off",
            by.get()
        );
    }
    caution += &after(context);
    if *in_use {
        caution += "; the disk is in use: before the second command, unmount it and stop the arrays and \
                    volumes on it, or boot another system";
    }
    let commands = commands(context, options, journal.is_some()).into();
    Some(Fix { summary, commands, risk: Some(Risk::Backup), caution: Some(caution) })
}

fn commands(context: &Context<'_>, options: &str, in_file: bool) -> [Command; 2] {
    let target = operand(context.target);
    let (plan, kept) = (file_about(context.target, "move.json"), file_about(context.target, "move.journal"));
    let file = if in_file { format!(" --journal {kept}") } else { String::new() };
    [
        format!("straddle realign {target}{options} --save {plan}"),
        format!("straddle apply {plan} --write {target}{file}"),
    ]
    .map(|line| Command::of_table("straddle", line))
}

/// Without room on the disk, the journal is in a file.
fn shrink_first(context: &Context<'_>, number: u32) -> Option<Fix> {
    let ShrinkFirst { numbers, partition, to, options } = context.moves.shrink.as_ref()?;
    let of = context.partition(*partition)?;
    let shrink = shrinking(of.layer.as_ref()?, *to).filter(|_| numbers.contains(&number))?;
    let dir = if shrink.line.contains(" DIR ") { ", DIR with an empty directory" } else { "" };
    let caution = format!(
        "replace DEVICE with partition {partition}, unmounted{dir}; if the first command fails, stop, \
         because there is no room for the move. Store {} on another disk, and keep it until the move is \
         complete; after a power cut, straddle resume continues the move without data loss{}",
        file_about(context.target, "move.journal"),
        after(context)
    );
    let s = if numbers.len() == 1 { "" } else { "s" };
    Some(Fix {
        summary: format!(
            "shrink the contents of partition {partition} (the first command) to make room, then move \
             partition{s} {} to an aligned start, with the data",
            ranges(numbers.iter().copied())
        ),
        commands: std::iter::once(shrink).chain(commands(context, options, true)).collect(),
        risk: Some(Risk::Backup),
        caution: Some(caution),
    })
}

/// Each item follows a semicolon.
pub(crate) fn after(context: &Context<'_>) -> String {
    let planned = context.moves.planned.as_ref();
    let mut said = BTreeSet::new();
    let all = planned.iter().flat_map(|planned| &planned.after);
    all.filter(|(_, what)| said.insert(*what))
        .map(|(number, what)| format!("; after the move, partition {number}: {what}"))
        .collect()
}

pub(crate) fn of_data(context: &Context<'_>, at: ByteOffset) -> Option<Fix> {
    let Moves { planned, copy: copied, .. } = context.moves;
    let moved = planned.iter().flat_map(|planned| &planned.data);
    let copied = copied.iter().flat_map(|copy| &copy.data);
    let (number, _) = moved.chain(copied).find(|(_, data)| *data == at)?;
    fix(context, *number).or_else(|| copy(context, *number))
}

pub(crate) fn copy(context: &Context<'_>, number: u32) -> Option<Fix> {
    let planned = context.moves.copy.as_ref()?;
    let PlannedCopy { numbers, source, new, options, from, format, back, in_use, .. } = planned;
    numbers.contains(&number).then_some(())?;
    let (plan, source, new) = (file_about(source, "copy.json"), operand(source), operand(new));
    let summary = match format {
        Some(_) => "copy it to a raw image with aligned partitions".to_owned(),
        None if context.moves.refused.is_some() => {
            "copy the disk to another one, NEW, with aligned partitions".to_owned()
        }
        None => "copy the disk to another one, NEW, with aligned partitions, because there is not enough \
                 room to align them here"
            .to_owned(),
    };
    let mut caution =
        "the source is opened read-only; the copy has the same UUIDs, so do not use both at the same time; \
         data outside partitions is not copied"
            .to_owned();
    if let Some(why) = &context.moves.refused {
        caution += &format!("; the partitions cannot be moved in place: {why}");
    }
    let is_blank =
        |of: &Partition| of.role == Role::Primary && !is_known(of) && of.unclaimed == Unclaimed::Nothing;
    let lacks_room = format.is_none() && context.moves.refused.is_none();
    if lacks_room && numbers.len() == 1 && context.partition(number).is_some_and(is_blank) {
        caution += &format!(
            "; nothing was found in partition {number}: if it holds no data, recreate it instead (straddle \
             plan {source}{options} --delete {number} --add rest --save {table}, then straddle apply {table} \
             --write {source})",
            table = file_about(context.target, "plan.json")
        );
    }
    if let Some(back) = back {
        caution += &format!("; {back} converts it back to {}", format.as_deref().unwrap_or_default());
    }
    if *in_use {
        caution += "; the disk is in use: before the first command, unmount it and stop the arrays and \
                    volumes on it, or boot another system";
    }
    let lines = [
        format!("straddle realign {source}{options} --to {new} --save {plan}"),
        format!("straddle apply {plan} --from {source}{from} --write {new}"),
    ];
    Some(Fix {
        summary,
        commands: lines.map(Command::of_copy).into(),
        risk: Some(Risk::Safe),
        caution: Some(caution),
    })
}

pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(Unfinished { marker, journal }) = &context.moves.unfinished else { return };
    let (at, message) = match (journal, marker) {
        (Journal::Unmarked { stage, at }, _) => {
            let message = format!(
                "the journal of an unfinished move of partitions starts at byte {at}, but there is no \
                 partition table, because it was damaged by a power cut or removed by another program; {}",
                stage.sentence()
            );
            (Some(*at), message)
        }
        (Journal::Copy, _) => {
            let message = "a copy to this disk is unfinished (marker in the first sector): the disk has no \
                           partition table until all data is copied; the source is unchanged";
            (Some(ByteOffset::ZERO), message.to_owned())
        }
        (Journal::Locked { is_copy, stage }, _) => {
            (marker.map(|marker| marker.span.start()), locked(*is_copy, *stage))
        }
        (_, None) => return,
        (Journal::Inside(stage), Some(marker)) => {
            let said = format!("its journal starts at byte {}: {}", marker.span.start(), stage.sentence());
            of_marker(context, *marker, &said)
        }
        (Journal::InFile, Some(marker)) => {
            let start = marker.span.start();
            let said = format!(
                "there is no journal at byte {start}, because it is in the file specified with --journal"
            );
            of_marker(context, *marker, &said)
        }
        (Journal::Unusable(why), Some(marker)) => {
            let said = format!("the journal at byte {} is unusable: {why}", marker.span.start());
            of_marker(context, *marker, &said)
        }
    };
    let (fix, alternative) = fixes_of(context, journal);
    let finding = Finding::on_disk(rules::UNFINISHED_MOVE, at, message).fixed_by(fix);
    findings.push(Finding { alternative, ..finding });
}

fn of_marker(context: &Context<'_>, marker: Marker, said: &str) -> (Option<ByteOffset>, String) {
    let of_marker = context.partition(marker.number);
    let kind = match of_marker.is_some_and(|entry| matches!(entry.kind, PartitionType::Mbr(_))) {
        true => straddle_layout::MARKER_MBR.to_uppercase(),
        false => straddle_layout::MARKER_GUID.to_owned(),
    };
    let copies = marker.only_in.map_or_else(String::new, |at| {
        format!("; only the GPT copy at byte {at}, which is incomplete, has this entry")
    });
    let message = format!(
        "entry {} of the table (type {kind}) is the marker of an unfinished move, so the table lists neither \
         the old partitions nor the new ones; {said}{copies}",
        marker.number
    );
    (Some(marker.span.start()), message)
}

impl Stage {
    fn sentence(self) -> String {
        match self {
            Self::NotBegun => "no data has been moved yet".to_owned(),
            Self::Moving { done, total } => {
                format!("{done} of {total} have been moved")
            }
            Self::Moved => "all data has been moved, but the new table has not been written yet".to_owned(),
            Self::RollingBack => "it is being rolled back".to_owned(),
            Self::Back => {
                "all data has been moved back, but the old table has not been written yet".to_owned()
            }
        }
    }

    const fn can_go_on(self) -> bool {
        matches!(self, Self::NotBegun | Self::Moving { .. } | Self::Moved)
    }
}

/// The second restores the old layout. A line has one command: broken in the middle, it may do something else.
fn fixes_of(context: &Context<'_>, journal: &Journal) -> (Fix, Option<Fix>) {
    let target = operand(context.target);
    let Ways { forward, back } = journal.ways(&target);
    let fix = |summary: &str, line: Option<String>| {
        let commands = line.map(|line| Command::other("straddle", line)).into_iter().collect();
        Fix { commands, risk: Some(Risk::Safe), ..Fix::advice(summary) }
    };
    match journal {
        Journal::Inside(_) | Journal::Unmarked { .. } if forward.is_some() => {
            (fix("resume the move", forward), Some(fix("restore the old layout", back)))
        }
        Journal::Inside(_) | Journal::Unmarked { .. } => {
            (fix("complete the rollback, which cannot be undone", back), None)
        }
        Journal::InFile => {
            let resume = "resume the move (replace FILE with its journal file); if you did not start a move, \
                          another program uses this partition type, so change the type";
            (fix(resume, forward), Some(fix("restore the old layout, with the same file", back)))
        }
        Journal::Copy => {
            let repeat = "to complete the copy, rerun the command that started it, with the same PLAN and \
                          SOURCE; or use the disk for something else";
            (fix(repeat, forward), None)
        }
        Journal::Locked { .. } => (Fix::advice(WAIT), None),
        Journal::Unusable(_) => {
            let summary = format!(
                "write nothing to this disk, and copy it as it is; straddle resume {target} refuses to run \
                 until the journal is readable"
            );
            (Fix::advice(summary), None)
        }
    }
}

/// Kernels up to 2019 ignore partitions off zone boundaries (`part_zone_aligned`, block/partition-generic.c).
pub(crate) fn between_zones(zone: ByteCount) -> Fix {
    let place = if zone == ByteCount::ZERO {
        "at the start of a zone".to_owned()
    } else {
        format!("at the start of a zone (a multiple of {} bytes)", zone.get())
    };
    Fix::advice(format!(
        "data on a zoned disk cannot be moved in place: copy the contents to another disk, recreate the \
         partition {place}, and copy them back"
    ))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_of_numbers_are_ranges() {
        assert_eq!(ranges([7, 1, 2, 3, 5, 6].into_iter()), "1-3, 5-7");
        assert_eq!(ranges([4, 2].into_iter()), "2, 4");
        assert_eq!(ranges([u32::MAX].into_iter()), u32::MAX.to_string());
    }
}
