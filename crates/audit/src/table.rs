//! Rules about the partition table: damage, limits, and tables written for another sector size.

use straddle_layout::{Problem, Role, TableKind};
use straddle_units::{ByteCount, ByteOffset, LbaCount};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Finding, Fix, Risk, Rule, Subject};
use crate::shell::operand;

/// The number of blocks that an MBR entry can address with its 32-bit fields.
const MBR_REACH: LbaCount = LbaCount::new(1 << 32);

/// If the disk extends beyond an MBR's reach by no more than this, it is not worth reporting.
const NEGLIGIBLE: ByteCount = ByteCount::new(1 << 20);

/// Adds all findings about the table.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // The partitions of an ISO image that is also a disk image are windows on a single file system.
    let by_design = |problem: &&Problem| {
        context.stack.is_hybrid_iso
            && matches!(problem, Problem::Overlap { .. } | Problem::HybridDiffers { .. })
    };
    let problems = context.stack.problems.iter().filter(|problem| !by_design(problem));
    findings.extend(problems.map(|problem| from_problem(context, problem)));
    check_mbr_reach(context, findings);
    check_past_reach(context, findings);
}

/// The finding for a problem of the table.
fn from_problem(context: &Context<'_>, problem: &Problem) -> Finding {
    let (rule, at) = rule_of(problem);
    let subject = match problem {
        Problem::Overlap { first: number, .. } | Problem::OutOfRange { number, .. } => {
            Subject::Partition(*number)
        }
        Problem::Unreadable { number: Some(number), .. } => Subject::Partition(*number),
        _ => Subject::Disk,
    };
    let fix = fix_of(context, problem);
    Finding { at: Some(at), fix, ..Finding::new(rule, subject, problem.to_string()) }
}

/// The rule that a problem breaks, and the offset at which it shows.
fn rule_of(problem: &Problem) -> (&'static Rule, ByteOffset) {
    match problem {
        Problem::GptPrimaryDamaged { at, .. } => (rules::GPT_PRIMARY_DAMAGED, *at),
        Problem::GptBackupDamaged { at, .. } => (rules::GPT_BACKUP_DAMAGED, *at),
        Problem::GptUnusable { at, .. } => (rules::GPT_UNUSABLE, *at),
        Problem::GptBackupMisplaced { at, .. } => (rules::GPT_BACKUP_MISPLACED, *at),
        Problem::GptPastEnd { at } => (rules::GPT_PAST_END, *at),
        Problem::GptCopiesDiffer { at } => (rules::GPT_COPIES_DIFFER, *at),
        Problem::ProtectiveWithoutGpt { at } | Problem::NoProtectiveMbr { at } => {
            (rules::PROTECTIVE_MBR, *at)
        }
        Problem::HybridDiffers { at, .. } => (rules::HYBRID_DIFFERS, *at),
        Problem::OtherBlockSize { at, .. } => (rules::OTHER_SECTOR_SIZE, *at),
        Problem::EbrLoop { at } | Problem::EbrOutOfRange { at, .. } | Problem::EbrBadSignature { at } => {
            (rules::EBR_DAMAGED, *at)
        }
        Problem::TooManyPartitions { at } => (rules::TOO_MANY, *at),
        Problem::Overlap { at, .. } => (rules::OVERLAP, *at),
        Problem::OutOfRange { at, .. } => (rules::OUT_OF_RANGE, *at),
        Problem::BadEntry { at, .. } => (rules::BAD_ENTRY, *at),
        Problem::Unreadable { at, .. } => (rules::UNREADABLE, *at),
    }
}

/// The fix for a problem, if there is a more specific one than the rule's.
fn fix_of(context: &Context<'_>, problem: &Problem) -> Option<Fix> {
    let fix = match problem {
        Problem::GptPrimaryDamaged { .. }
        | Problem::GptBackupDamaged { .. }
        | Problem::GptBackupMisplaced { .. }
        | Problem::GptCopiesDiffer { .. }
        | Problem::NoProtectiveMbr { .. }
            if has_copy(context) =>
        {
            rewrite_gpt(context)
        }
        Problem::OtherBlockSize { table, device, .. } => Fix::advice(format!(
            "connect the disk the way it was partitioned (with {table}-byte sectors; an enclosure or controller \
             probably showed it so), or have the table rewritten in place, which refuses where what is inside depends on \
             the sectors: straddle plan {} --convert-table {device} --save plan.json",
            operand(context.target)
        )),
        _ => Fix::advice(as_clause(rule_of(problem).0.fix)),
    };
    Some(fix)
}

/// A rule's sentence in the form that follows "fix:".
fn as_clause(sentence: &str) -> String {
    let mut characters = sentence.trim_end_matches('.').chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    match characters.clone().next() {
        // The sentence begins with an abbreviation.
        Some(second) if second.is_uppercase() => sentence.trim_end_matches('.').to_owned(),
        _ => first + characters.as_str(),
    }
}

/// Whether the table was read from a backup copy that is right for this disk.
fn has_copy(context: &Context<'_>) -> bool {
    let is_none =
        |problem: &Problem| matches!(problem, Problem::GptUnusable { .. } | Problem::GptPastEnd { .. });
    !context.stack.problems.iter().any(is_none)
}

/// Whether every tool reads the same table as this program: from the first copy, which the MBR announces. If
/// not, no tool may write: sgdisk would create an empty table, or the one from an earlier disk's backup, and
/// sfdisk would change the MBR.
fn is_read_alike(context: &Context<'_>) -> bool {
    let is_other = |problem: &Problem| {
        matches!(
            problem,
            Problem::GptPrimaryDamaged { .. }
                | Problem::GptCopiesDiffer { .. }
                | Problem::NoProtectiveMbr { .. }
        )
    };
    has_copy(context) && !context.stack.problems.iter().any(is_other)
}

/// Removes the commands that change a table, if their tools read it differently or not at all.
pub(crate) fn mend_first(context: &Context<'_>, findings: &mut [Finding]) {
    let is_alike = is_read_alike(context);
    for fix in findings.iter_mut().flat_map(Finding::fixes_mut) {
        if context.stack.has_long_entries {
            // Commands of other tools remain; sgdisk does not read long entries.
            fix.commands.retain(|command| command.tool != "sgdisk");
        }
        if !is_alike && fix.writes_table() {
            fix.without_commands();
            fix.summary += ", when the table is mended";
        }
    }
}

fn rewrite_gpt(context: &Context<'_>) -> Fix {
    if !is_read_alike(context) || context.stack.has_long_entries {
        return Fix::advice(format!(
            "have the protective MBR and both copies rewritten from the good one: straddle plan {} --repair --relocate-backup --save plan.json",
            operand(context.target)
        ));
    }
    let command = Command { tool: "sgdisk", line: format!("sgdisk -e {}", operand(context.target)) };
    Fix {
        summary: "rewrite both copies from the good one, at their places".to_owned(),
        // sgdisk has no option for an image's sector size.
        commands: if context.is_image && context.stack.block.get() != 512 {
            Vec::new()
        } else {
            vec![command]
        },
        risk: Risk::Backup,
        caution: Some(
            "look at the table first (sgdisk -p): what it lists is what will be written".to_owned(),
        ),
    }
}

fn check_mbr_reach(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(reach) = reach(context) else { return };
    // A disk that an MBR can address to its end has nothing beyond its reach.
    let beyond = context.size.saturating_sub(reach);
    if beyond <= NEGLIGIBLE || context.stack.partitions.is_empty() {
        return;
    }
    let message = format!(
        "an MBR reaches {reach} of this {} disk: the last {beyond} ({} bytes) cannot be used",
        context.size,
        beyond.get()
    );
    let fix = Fix {
        summary: "convert the table to GPT".to_owned(),
        commands: vec![Command { tool: "sgdisk", line: format!("sgdisk -g {}", operand(context.target)) }],
        risk: Risk::Backup,
        caution: Some(
            "a BIOS boot loader needs a BIOS boot partition and has to be installed again".to_owned(),
        ),
    };
    findings
        .push(Finding::on_disk(rules::MBR_REACH, Some(ByteOffset::new(reach.get())), message).fixed_by(fix));
}

/// How much of the disk its MBR can address, if it has one.
fn reach(context: &Context<'_>) -> Option<ByteCount> {
    (context.stack.kind == TableKind::Mbr).then(|| MBR_REACH.to_bytes(context.stack.block)).flatten()
}

fn check_past_reach(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(reach) = reach(context) else { return };
    let past = |p: &&straddle_layout::Partition| p.span.end().get() > reach.get() && p.role != Role::Extended;
    for partition in context.stack.partitions.iter().filter(past) {
        let message = format!(
            "ends at byte {}, past sector 2^32 (byte {}): systems that count sectors in 32 bits see it shorter, or \
             write over the disk's start",
            partition.span.end(),
            reach.get()
        );
        let at = ByteOffset::new(reach.get());
        findings.push(Finding::on_partition(rules::PAST_2_32, partition.number, at, message));
    }
}
