//! Rules about the partition table: damage, limits, and tables written for another sector size.

use straddle_layout::format::mbr;
use straddle_layout::{Damage, Problem, Role, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, LbaCount, Span};

use crate::Context;
use crate::catalogue::{self as rules, Code};
use crate::finding::{About, Command, Effect, Finding, Fix, Risk, Rule, Severity, Subject};
use crate::shell::{file_about, operand};

/// A disk may extend this far beyond an MBR's reach without a finding.
const NEGLIGIBLE: ByteCount = ByteCount::new(1 << 20);

pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // The partitions of a hybrid ISO image are windows on a single file system.
    let by_design = |problem: &&Problem| {
        context.stack.is_hybrid_iso()
            && matches!(
                problem,
                Problem::Overlap { .. }
                    | Problem::HybridDiffers { .. }
                    | Problem::TableInside { .. }
                    | Problem::OtherBlockSize { .. }
            )
    };
    let problems = context.stack.problems.iter().filter(|problem| !by_design(problem));
    findings.extend(problems.map(|problem| from_problem(context, problem)));
    check_mbr_reach(context, findings);
    check_past_reach(context, findings);
    findings.extend(context.disagreements.iter().map(|differs| {
        let at = differs.on_disk.or(differs.live).map(Span::start);
        Finding::on_disk(rules::VIEWS_DISAGREE, at, differs.to_string()).fixed_by(Fix::advice(
            "make the kernel reread the table (partx -u, or reboot) before anything else is written",
        ))
    }));
}

fn from_problem(context: &Context<'_>, problem: &Problem) -> Finding {
    let (rule, at) = rule_of(problem);
    let subject = match problem {
        Problem::Overlap { first: number, .. }
        | Problem::OutOfRange { number, .. }
        | Problem::TableInside { number, .. } => Subject::Partition(*number),
        Problem::Unreadable { number: Some(number), .. } | Problem::CutShort { number: Some(number), .. } => {
            Subject::Partition(*number)
        }
        _ => Subject::Disk,
    };
    if matches!(problem, Problem::NoProtectiveMbr { .. }) && context.stack.kind == TableKind::Mbr {
        return beside_mbr(at);
    }
    if matches!(problem, Problem::GptBackupMisplaced { .. }) && context.stack.is_hybrid_iso() {
        let message = format!("{problem}; this is harmless for an ISO 9660 image on a larger medium");
        return Finding { severity: Severity::Advice, ..Finding::on_disk(rule, Some(at), message) };
    }
    let (fix, alternative) = fix_of(context, problem);
    Finding { at: Some(at), fix: Some(fix), alternative, ..Finding::new(rule, subject, problem.to_string()) }
}

fn beside_mbr(at: ByteOffset) -> Finding {
    let message = format!(
        "the MBR (byte {at}) lists partitions and has no protective entry, although both copies of the GPT \
         are intact. The kernel, parted and fdisk use the MBR; sgdisk asks which table to use"
    );
    let fix = Fix::advice(
        "remove the leftover table. If the MBR is correct, sgdisk --zap removes the GPT; if the GPT is \
         correct, load it with gdisk, which writes a protective MBR",
    );
    let finding = Finding::on_disk(rules::PROTECTIVE_MBR, Some(at), message).fixed_by(fix);
    Finding { severity: Severity::Warning, ..finding }
}

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
        Problem::TableInside { at, .. } => (rules::TABLE_INSIDE, *at),
        Problem::BadEntry { at, .. } => (rules::BAD_ENTRY, *at),
        Problem::Unreadable { at, .. } => (rules::UNREADABLE, *at),
        Problem::CutShort { at, .. } => (rules::CUT_SHORT, *at),
    }
}

fn fix_of(context: &Context<'_>, problem: &Problem) -> (Fix, Option<Fix>) {
    if let Some(fix) = cut_off(context, problem) {
        return (fix, None);
    }
    if let Some(at) = context.moves.in_the_way.filter(|_| is_of_copies(problem) && has_copy(context)) {
        let advice = format!(
            "none that is safe, because a copy of the table would overwrite the data at byte {at}, perhaps a \
             boot loader; if that data is a leftover, overwrite it with straddle plan --repair \
             --relocate-backup --wipe"
        );
        return (Fix::advice(advice), None);
    }
    if is_of_copies(problem) && has_copy(context) {
        let advice = "fix the other problems of the table first, then rewrite the protective MBR and both \
                      copies of the GPT from the good one (straddle plan --repair --relocate-backup)";
        return (rewrite(context).unwrap_or_else(|| Fix::advice(advice)), None);
    }
    let of_rule = |rule: &Rule| Fix::advice(as_clause(&rule.fix));
    let fix = match problem {
        Problem::OtherBlockSize { table, device, .. } => return other_size(context, *table, *device),
        Problem::CutShort { number: None, .. } => Fix::advice(
            "if the contents are in use, copy the whole disk or image again; if they are left over, \
             erase their signatures with wipefs",
        ),
        Problem::CutShort { number: Some(number), recorded, .. } => {
            regrow(context, *number, *recorded).unwrap_or_else(|| of_rule(rules::CUT_SHORT))
        }
        Problem::ProtectiveWithoutGpt { .. } => of_rule(rules::GPT_UNUSABLE),
        _ => of_rule(rule_of(problem).0),
    };
    (fix, None)
}

const fn is_of_copies(problem: &Problem) -> bool {
    matches!(problem.damage(), Damage::Copies | Damage::Protection)
}

/// The form that follows "fix:".
fn as_clause(sentence: &str) -> String {
    let mut characters = sentence.trim_end_matches('.').chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    match characters.clone().next() {
        // The sentence begins with an abbreviation.
        Some(second) if second.is_uppercase() => sentence.trim_end_matches('.').to_owned(),
        _ => first + characters.as_str(),
    }
}

fn has_copy(context: &Context<'_>) -> bool {
    let is_none =
        |problem: &Problem| matches!(problem, Problem::GptUnusable { .. } | Problem::GptPastEnd { .. });
    !context.stack.problems.iter().any(is_none)
}

/// From the first copy, which the MBR announces. Otherwise no tool may write: sgdisk would create an empty table, or
/// the one from an earlier disk's backup, and sfdisk would change the MBR.
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

pub(crate) fn mend_first(context: &Context<'_>, findings: &mut [Finding]) {
    let stack = context.stack;
    if stack.problems.iter().any(|problem| matches!(problem, Problem::GptBackupMisplaced { .. })) {
        // What ends at the old end of the disk has room after it then.
        hold_back(
            findings,
            |finding| finding.rule.about == About::Placement,
            "first move the backup GPT to the end of the disk (S034), which makes the space after it usable, \
             then check again",
        );
    }
    if stack.cut_short().next().is_some() {
        // Free space may be data.
        let of_size = [Code::CUT_SHORT, Code::GPT_PAST_END, Code::OUT_OF_RANGE];
        hold_back(
            findings,
            |finding| !of_size.contains(&finding.rule.code),
            "fix S048 (contents reach past the end of their partition) first, then check again",
        );
    }
    let is_inside = |problem: &Problem| matches!(problem, Problem::TableInside { .. });
    if !stack.is_hybrid_iso() && stack.problems.iter().any(is_inside) {
        // Tools would write the table into a partition.
        let advice = "fix S049 (the table itself is inside a partition) first, then check again";
        hold_back(findings, |_| true, advice);
    }
    let is_alike = is_read_alike(context);
    for fix in findings.iter_mut().flat_map(Finding::fixes_mut) {
        // straddle's own commands read the table as this program does.
        let mends = fix.commands.iter().all(|one| one.tool == "straddle" || one.effect == Effect::Other);
        if !is_alike && !mends && fix.writes_table() {
            fix.without_commands();
            fix.summary += ", after the table is repaired";
        }
    }
}

/// In place of fixes that write the table or say where a partition belongs.
fn hold_back(findings: &mut [Finding], waits: impl Fn(&Finding) -> bool, advice: &str) {
    for finding in findings.iter_mut().filter(|finding| waits(finding)) {
        finding.alternative = None;
        let is_placed = finding.rule.about == About::Placement;
        if let Some(fix) = finding.fix.as_mut().filter(|fix| is_placed || fix.writes_table()) {
            *fix = Fix::advice(advice);
        }
    }
}

pub(crate) fn planned(context: &Context<'_>, options: &str) -> Vec<Command> {
    let (target, plan) = (operand(context.target), file_about(context.file, "plan.json"));
    let lines = [
        format!("straddle plan {target}{options} --save {plan}"),
        format!("straddle apply {plan} --write {target}"),
    ];
    lines.map(|line| Command::of_table("straddle", line)).into()
}

/// `None` if this run sees another problem of the table.
fn rewrite(context: &Context<'_>) -> Option<Fix> {
    let is_mended = |problem: &Problem| is_of_copies(problem) || problem.damage() == Damage::Hybrid;
    let seen = context.moves.options.as_ref()?;
    context.stack.problems.iter().all(is_mended).then_some(())?;
    let commands = planned(context, &format!("{seen} --repair --relocate-backup"));
    Some(Fix {
        summary: "rewrite the protective MBR and both copies of the GPT from the good one".to_owned(),
        commands,
        risk: Some(Risk::Backup),
        caution: Some(
            "review the changes that the first command lists; the second command writes them and prints how \
             to revert them"
                .to_owned(),
        ),
    })
}

/// A size that has all of what the problem says is past the end.
fn recorded(context: &Context<'_>, problem: &Problem) -> Option<u64> {
    let end_of = |number: u32| {
        let end = context.partition(number)?.span.end().get();
        (end > context.size.get()).then_some(end)
    };
    match problem {
        Problem::GptPastEnd { at } => at.get().checked_add(context.stack.block.get()),
        Problem::OutOfRange { number, .. } | Problem::CutShort { number: Some(number), .. } => {
            end_of(*number)
        }
        Problem::CutShort { number: None, recorded, .. } => Some(recorded.get()),
        _ => None,
    }
}

/// Gives back the former size. Only the first such problem has the fix.
fn cut_off(context: &Context<'_>, problem: &Problem) -> Option<Fix> {
    let problems = &context.stack.problems;
    recorded(context, problem).filter(|_| context.is_image && context.container.is_none())?;
    let is_gpt = |one: &&Problem| matches!(one, Problem::GptPastEnd { .. });
    let is_recorded = |one: &&Problem| recorded(context, one).is_some();
    let first = problems.iter().find(is_gpt).or_else(|| problems.iter().find(is_recorded))?;
    if first != problem {
        return Some(Fix::advice(format!("see {}: the end of the image is missing", rule_of(first).0.code)));
    }
    let size = problems.iter().filter_map(|one| recorded(context, one)).max()?;
    let has_all = problems.iter().all(|one| is_gpt(&one) || !is_recorded(&one));
    let again = if has_all { "" } else { "copy the whole image again; if the original is gone, " };
    let mut commands =
        vec![Command::other("truncate", format!("truncate -s {size} {}", operand(context.target)))];
    let is_alone = problems.iter().all(|one| is_recorded(&one));
    let seen = context.moves.options.as_ref().filter(|_| is_alone && is_gpt(&first));
    commands.extend(seen.into_iter().flat_map(|seen| planned(context, &format!("{seen} --repair"))));
    let then = if seen.is_some() { ", and write the backup GPT" } else { "" };
    Some(Fix {
        summary: format!("{again}extend the image to the {size} bytes that its contents record{then}"),
        commands,
        risk: Some(Risk::Backup),
        caution: (!has_all).then(|| {
            "the missing part then reads as zeros, so check the contents with the tool for their format \
             before mounting them"
                .to_owned()
        }),
    })
}

fn regrow(context: &Context<'_>, number: u32, recorded: ByteCount) -> Option<Fix> {
    let seen = context.moves.options.as_ref()?;
    let is_cut_short =
        |problem: &Problem| matches!(problem, Problem::CutShort { number: Some(one), .. } if *one == number);
    context.stack.problems.iter().all(is_cut_short).then_some(())?;
    let partition = context.partition(number)?;
    let needed = Span::new(partition.span.start(), recorded)?;
    context.stack.free_around(partition, context.size)?.contains(needed).then_some(())?;
    let commands = planned(context, &format!("{seen} --grow {number}={}", recorded.get()));
    Some(Fix {
        summary: format!(
            "if the contents of partition {number} are in use, grow the partition to their size; if they are \
             left over from an earlier partition, erase their signatures with wipefs"
        ),
        commands,
        risk: Some(Risk::Backup),
        caution: Some(
            "before mounting the contents, check them with the tool for their format, because other data may \
             have been written past the end in the meantime"
                .to_owned(),
        ),
    })
}

fn other_size(context: &Context<'_>, table: BlockSize, device: BlockSize) -> (Fix, Option<Fix>) {
    let way = format!(
        "connect the disk the way it was connected when it was partitioned (with {table}-byte sectors, \
         probably in an enclosure or behind a controller)"
    );
    if [table, device].iter().any(|size| ![BlockSize::B512, BlockSize::B4096].contains(size)) {
        return (Fix::advice(way), None);
    }
    if let Some(why) = &context.moves.not_converted {
        let summary = format!(
            "{way}, or read the disk through a loop device with those sectors, which writes nothing; {why}"
        );
        return (as_it_was(context, table, summary), None);
    }
    let view = as_it_was(
        context,
        table,
        "read the disk through a loop device with the table's sectors, which writes nothing".to_owned(),
    );
    // With --convert-table, --logical is the size of the table's sectors.
    let seen = context.moves.options.as_ref().filter(|_| !context.moves.declares_sectors);
    let is_alone = matches!(&context.stack.problems[..], [_]);
    let Some(seen) = seen.filter(|_| is_alone) else {
        let rewritten =
            format!("{way}, or convert the table in place (straddle plan --convert-table {device})");
        return (Fix::advice(rewritten), Some(view));
    };
    let fix = Fix {
        summary: format!("{way}, or convert the table in place"),
        commands: planned(context, &format!("{seen} --convert-table {device}")),
        risk: Some(Risk::Backup),
        caution: Some(
            "afterwards the table is no longer valid in the old enclosure or behind the old controller; the \
             second command prints how to revert this"
                .to_owned(),
        ),
    };
    (fix, Some(view))
}

fn as_it_was(context: &Context<'_>, table: BlockSize, summary: String) -> Fix {
    let line = format!(
        "losetup --find --show --read-only --partscan --sector-size {table} {}",
        operand(context.target)
    );
    Fix {
        summary,
        commands: vec![Command::other("losetup", line)],
        risk: Some(Risk::Safe),
        caution: Some(
            "the command prints the name of the loop device; mount its partitions (loop0p1) read-only, and \
             remove it with losetup --detach"
                .to_owned(),
        ),
    }
}

fn check_mbr_reach(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(reach) = reach(context) else { return };
    // A partition may end past the reach.
    let ends = context.stack.partitions.iter().map(|partition| ByteCount::new(partition.span.end().get()));
    let used = ends.max().unwrap_or_default().max(reach);
    let beyond = context.size.saturating_sub(used);
    if beyond <= NEGLIGIBLE || context.stack.partitions.is_empty() {
        return;
    }
    let message = format!(
        "an MBR can address only {reach} of this {} disk: the last {beyond} ({} bytes) are outside all \
         partitions, and no partition can start there",
        context.size,
        beyond.get()
    );
    let fix = Fix {
        summary: "convert the table to GPT".to_owned(),
        commands: vec![Command::of_table("sgdisk", format!("sgdisk -g {}", operand(context.target)))],
        risk: Some(Risk::Backup),
        caution: Some("a BIOS boot loader needs a BIOS boot partition and must be reinstalled".to_owned()),
    };
    let at = ByteOffset::new(used.get());
    findings.push(Finding::on_disk(rules::MBR_REACH, Some(at), message).fixed_by(fix));
}

fn reach(context: &Context<'_>) -> Option<ByteCount> {
    (context.stack.kind == TableKind::Mbr)
        .then(|| LbaCount::new(mbr::LBAS).to_bytes(context.stack.block))
        .flatten()
}

fn check_past_reach(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(reach) = reach(context) else { return };
    let past = |p: &&straddle_layout::Partition| p.span.end().get() > reach.get() && p.role != Role::Extended;
    for partition in context.stack.partitions.iter().filter(past) {
        let message = format!(
            "ends at byte {}, past sector 2^32 (byte {}): systems with 32-bit sector numbers see a shorter \
             partition, or overwrite the start of the disk",
            partition.span.end(),
            reach.get()
        );
        let at = ByteOffset::new(reach.get());
        findings.push(Finding::on_partition(rules::PAST_2_32, partition.number, at, message));
    }
}
