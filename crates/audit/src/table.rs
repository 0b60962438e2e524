//! Rules about the partition table: damage, limits, and tables written for another sector size.

use straddle_layout::{Problem, Role, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, LbaCount};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Cure, Finding, Subject};

/// How many blocks an MBR entry can address: its fields have 32 bits.
const MBR_REACH: LbaCount = LbaCount::new(1 << 32);

/// A disk may be this little beyond an MBR's reach before it is worth a word.
const NEGLIGIBLE: ByteCount = ByteCount::new(1 << 20);

/// Finds everything about the table.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for problem in &context.stack.problems {
        findings.push(from_problem(context, problem));
    }
    check_mbr_reach(context, findings);
}

fn on(number: u32, finding: Finding) -> Finding {
    Finding { subject: Subject::Partition(number), ..finding }
}

/// The finding that a problem of the table is.
fn from_problem(context: &Context<'_>, problem: &Problem) -> Finding {
    gpt_problem(context, problem).unwrap_or_else(|| partition_problem(problem))
}

fn rewrite_gpt(context: &Context<'_>) -> Cure {
    Cure {
        summary: "write both copies anew from the good one, at their places".to_owned(),
        commands: vec![Command { tool: "sgdisk", line: format!("sgdisk -e {}", crate::cure::quote(context.target)) }],
        caution: Some("look at the table first (sgdisk -p): what it lists is what will be written".to_owned()),
    }
}

fn gpt_problem(context: &Context<'_>, problem: &Problem) -> Option<Finding> {
    let finding = match problem {
        Problem::GptPrimaryDamaged { at, why } => Finding::on_disk(
            &rules::GPT_PRIMARY_DAMAGED,
            Some(*at),
            format!("the primary GPT at byte {at} is damaged: {why}; the backup was used"),
        )
        .cured_by(rewrite_gpt(context)),
        Problem::GptBackupDamaged { at, why } => Finding::on_disk(
            &rules::GPT_BACKUP_DAMAGED,
            Some(*at),
            format!("the backup GPT at byte {at} is damaged or missing: {why}"),
        )
        .cured_by(rewrite_gpt(context)),
        Problem::GptUnusable { at, why } => Finding::on_disk(
            &rules::GPT_UNUSABLE,
            Some(*at),
            format!("neither copy of the GPT can be used (primary at byte {at}): {why}"),
        )
        .cured_by(Cure::advice("restore the table from a backup, or search for lost partitions (testdisk)")),
        Problem::GptBackupMisplaced { at, expected } => Finding::on_disk(
            &rules::GPT_BACKUP_MISPLACED,
            Some(*at),
            format!("the backup GPT is at byte {at}, not at byte {expected}, the last block: the disk has grown"),
        )
        .cured_by(rewrite_gpt(context)),
        Problem::GptPastEnd { at } => Finding::on_disk(
            &rules::GPT_PAST_END,
            Some(*at),
            format!(
                "the GPT was made for a larger disk: its last block would be at byte {at}, the disk ends at byte {}",
                context.size.get()
            ),
        )
        .cured_by(Cure::advice("copy the whole image or disk again, or shrink the partitions and run sgdisk -e")),
        Problem::GptCopiesDiffer { at } => Finding::on_disk(
            &rules::GPT_COPIES_DIFFER,
            Some(*at),
            format!("primary and backup GPT are both intact but list different partitions (first at byte {at})"),
        )
        .cured_by(rewrite_gpt(context)),
        Problem::ProtectiveWithoutGpt { at } => Finding::on_disk(
            &rules::PROTECTIVE_MBR,
            Some(*at),
            format!("the MBR announces a GPT, but there is none at byte {at} nor at the end"),
        )
        .cured_by(Cure::advice("restore the GPT from a backup, or make a new table")),
        Problem::NoProtectiveMbr { at } => Finding::on_disk(
            &rules::PROTECTIVE_MBR,
            Some(*at),
            format!("a GPT without a protective MBR (byte {at}): the kernel and other tools do not see it"),
        )
        .cured_by(rewrite_gpt(context)),
        Problem::OtherBlockSize { table, device, at } => other_block_size(*table, *device, *at),
        _ => return None,
    };
    Some(finding)
}

fn other_block_size(table: BlockSize, device: BlockSize, at: ByteOffset) -> Finding {
    let message = format!(
        "the table (byte {at}) counts in {table}-byte sectors, but here the disk has {device}-byte ones: other tools \
         see no partition table, or a wrong one. It was probably written with the disk behind another controller or \
         USB enclosure"
    );
    let cure = Cure::advice(format!(
        "connect the disk the way it was partitioned ({table}-byte sectors), or copy the data off and partition anew"
    ));
    Finding::on_disk(&rules::OTHER_SECTOR_SIZE, Some(at), message).cured_by(cure)
}

fn partition_problem(problem: &Problem) -> Finding {
    match problem {
        Problem::EbrLoop { at } => ebr(*at, format!("the extended boot record at byte {at} links back to an earlier one")),
        Problem::EbrOutOfRange { at, to } => ebr(
            *at,
            format!("the extended boot record at byte {at} links to byte {to}, outside the extended partition or the disk"),
        ),
        Problem::EbrBadSignature { at } => {
            ebr(*at, format!("the extended boot record at byte {at} has no 0x55AA signature"))
        }
        Problem::TooManyPartitions { at } => Finding::on_disk(
            &rules::TOO_MANY,
            Some(*at),
            format!(
                "there are more than {} partitions; those from byte {at} on are not listed",
                straddle_layout::MAX_PARTITIONS
            ),
        ),
        Problem::Overlap { first, second, at } => on(
            *first,
            Finding::on_disk(
                &rules::OVERLAP,
                Some(*at),
                format!("overlaps partition {second} from byte {at} on: writing to one destroys the other"),
            ),
        ),
        Problem::OutOfRange { number, at } => on(
            *number,
            Finding::on_disk(
                &rules::OUT_OF_RANGE,
                Some(*at),
                format!("reaches past the end of the disk, from byte {at} on"),
            ),
        ),
        Problem::BadEntry { number, at, why } => Finding::on_disk(
            &rules::BAD_ENTRY,
            Some(*at),
            format!("entry {number}, at byte {at}, cannot be used: {why}"),
        ),
        // Everything else is the GPT's, and was told before.
        other => Finding::on_disk(&rules::BAD_ENTRY, None, format!("{other:?}")),
    }
}

fn ebr(at: ByteOffset, message: String) -> Finding {
    Finding::on_disk(&rules::EBR_DAMAGED, Some(at), format!("{message}; logical partitions behind it are not seen"))
}

fn check_mbr_reach(context: &Context<'_>, findings: &mut Vec<Finding>) {
    if context.stack.kind != TableKind::Mbr {
        return;
    }
    let Some(reach) = MBR_REACH.to_bytes(context.stack.block) else { return };
    let beyond = context.size - reach;
    if beyond > NEGLIGIBLE && !context.stack.partitions.is_empty() {
        let message = format!(
            "an MBR reaches {reach} of this {} disk: the last {beyond} ({} bytes) cannot be used",
            context.size,
            beyond.get()
        );
        let cure = Cure {
            summary: "convert the table to GPT".to_owned(),
            commands: vec![Command {
                tool: "sgdisk",
                line: format!("sgdisk -g {}", crate::cure::quote(context.target)),
            }],
            caution: Some(
                "back up first; a BIOS boot loader needs a BIOS boot partition and has to be installed again".to_owned(),
            ),
        };
        findings.push(
            Finding::on_disk(&rules::MBR_REACH, Some(ByteOffset::new(reach.get())), message).cured_by(cure),
        );
    }
    let past = |p: &&straddle_layout::Partition| p.span.end().get() > reach.get() && p.role != Role::Extended;
    for partition in context.stack.partitions.iter().filter(past) {
        let message = format!(
            "ends at byte {}, past sector 2^32 (byte {}): systems that count sectors in 32 bits see it shorter, or \
             write over the disk's start",
            partition.span.end(),
            reach.get()
        );
        findings.push(Finding::on_partition(
            &rules::PAST_2_32,
            partition.number,
            ByteOffset::new(reach.get()),
            message,
        ));
    }
}
