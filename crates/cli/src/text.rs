//! An audit as text for people.

pub(crate) mod bench;
pub(crate) mod drive;
pub(crate) mod fit;
pub(crate) mod lab;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod reproduce;
pub(crate) mod serve;
pub(crate) mod sim;

use std::fmt::Write;

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use straddle_audit::{ATOMIC_UNIT, Cause, Cure, Finding, OfPartition, Severity, Subject, Verdict, picture};
use straddle_device::identify::RotationRate;
use straddle_device::topology::{AlignmentOffset, AtomicWrites, Figure, SectorFormat, Source, Topology};
use straddle_layout::{Content, Partition, PartitionType, Problem, Stack, TableKind, types};
use straddle_units::{BlockSize, ByteCount, Span};
use textwrap::WordSplitter;

use crate::commands::check::Audited;
use crate::cost::Cost;
use crate::output::{self, Styles, paint, plural, printable, width};
use crate::report::Status;
use crate::schema::Summary;
use crate::tree;

/// The block in which most file systems write; what a picture shows of a partition's start.
const FILE_SYSTEM_BLOCK: ByteCount = ByteCount::new(4096);

/// A table without lines.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// A table's lines without the blanks behind them.
pub(crate) fn trimmed(table: &Table) -> String {
    table.trim_fmt()
}

/// `text` in lines of at most `width`, each behind `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    wrap_after(text, width, indent, indent)
}

/// The same with another indent before the first line.
pub(crate) fn wrap_after(text: &str, width: usize, first: &str, indent: &str) -> String {
    let options = textwrap::Options::new(width).initial_indent(first).subsequent_indent(indent);
    // Sizes such as 4096-byte, and command lines, stay whole.
    textwrap::fill(text, options.break_words(false).word_splitter(WordSplitter::NoHyphenation))
}

/// The style of a severity.
pub(crate) fn severity_style(severity: Severity, styles: Styles) -> Style {
    match severity {
        Severity::Error => styles.error,
        Severity::Warning => styles.warning,
        Severity::Advice => styles.advice,
    }
}

/// A target's findings, a line each: `vm.img: error S001 partition 1: starts at …`
pub(crate) fn lines(audited: &Audited) -> String {
    let mut text = String::new();
    for (finding, _) in audited.told() {
        let rule = finding.rule;
        let _ = writeln!(
            text,
            "{}: {} {} {}",
            printable(&audited.name),
            finding.severity,
            rule.code,
            about(finding)
        );
    }
    text
}

/// What a finding says, with what it is about in front; one on a layer begins with the way to it by itself.
fn about(finding: &Finding) -> String {
    match finding.layer.is_empty() {
        false => printable(&finding.sentence()),
        true => printable(&format!("{}: {}", subject(finding.subject), finding.sentence())),
    }
}

fn subject(subject: Subject) -> String {
    match subject {
        Subject::Disk => "disk".to_owned(),
        Subject::Partition(number) => format!("partition {number}"),
    }
}

/// A target in full: what it is, its partitions with their verdicts, and each finding with its cure.
pub(crate) fn target(audited: &Audited, verbose: bool, styles: Styles) -> String {
    let mut text = heading(audited, styles);
    let topology = &audited.target.topology;
    if verbose {
        text += &every_figure(topology);
    } else {
        let _ = writeln!(text, "{}", sectors(topology));
    }
    let _ = writeln!(text, "{}\n{}", table_line(audited), status_line(audited, styles));
    for remark in &audited.remarks() {
        // A command is not wrapped.
        let ready = audited.ready.as_deref().filter(|line| remark.ends_with(*line));
        let told = ready.and_then(|line| remark.strip_suffix(line)).unwrap_or(remark).trim_end();
        let note = wrap(&format!("note: {}", printable(told)), width(), "  ");
        let _ = writeln!(text, "{}", paint(styles.faint, &note));
        if let Some(line) = ready {
            let _ = writeln!(text, "    {}", paint(styles.heading, &printable(line)));
        }
    }
    if !audited.stack.partitions.is_empty() {
        let _ = writeln!(text, "\n{}", partitions(audited, styles));
    }
    if verbose {
        let _ = write!(text, "\n{}", tree::draw(audited, styles));
    }
    let told: Vec<(&Finding, Option<&Cost>)> = audited.told().collect();
    for at in 0..told.len() {
        text += &finding_text(audited, &told, at, styles);
    }
    text
}

/// A target drawn: what it is, and its layers with the codes of their findings.
pub(crate) fn map(audited: &Audited, styles: Styles) -> String {
    let mut text = heading(audited, styles);
    let _ = writeln!(
        text,
        "{}\n{}\n{}",
        sectors(&audited.target.topology),
        table_line(audited),
        status_line(audited, styles)
    );
    text + &tree::draw(audited, styles)
}

fn heading(audited: &Audited, styles: Styles) -> String {
    let target = &audited.target;
    let mut parts = Vec::new();
    let identity = [&target.identity.vendor, &target.identity.model];
    let model: Vec<&str> = identity.into_iter().flatten().map(String::as_str).collect();
    if !model.is_empty() {
        parts.push(model.join(" "));
    }
    parts.push(format!("{} ({} bytes)", target.size, target.size.get()));
    if let Some(RotationRate::Rpm(rpm)) = target.identity.rotation {
        parts.push(format!("{rpm} rpm"));
    }
    let format = match target.topology.format() {
        SectorFormat::Other => "neither 512n, 512e nor 4Kn".to_owned(),
        format => format.to_string(),
    };
    let kind = match &target.container {
        Some(container) => format!("{} image ({})", container.format, container.variant),
        None => "image".to_owned(),
    };
    let kind = match &target.through {
        Some(through) => format!("{kind} in {}", through.packing.a_file()),
        None => kind,
    };
    if let Some(zoned) = &target.zoned {
        parts.push(format!("{} zoned, zones of {}", printable(&zoned.model), zoned.zone));
    }
    if target.read_only {
        parts.push("read-only".to_owned());
    }
    parts.push(if audited.is_image() { format!("{kind}, judged as if on {format}") } else { format });
    if let (Some(number), Some(node)) = (target.partition, &target.node) {
        parts.push(format!("partition {number} of {}", printable(&node.display().to_string())));
    }
    let name = printable(&audited.name);
    let told = format!("{name}: {}", parts.join(", "));
    let told = if output::fits(told.chars().count()) { told } else { wrap_after(&told, width(), "", "  ") };
    match told.strip_prefix(&name) {
        Some(rest) => format!("{}{rest}\n", paint(styles.heading, &name)),
        // The name itself was wrapped.
        None => told + "\n",
    }
}

/// A figure with its source, and whoever disagrees.
fn sourced<T: Copy + PartialEq>(figure: &Figure<T>, value: impl Fn(T) -> String) -> String {
    let mut text = format!("{} [{}", value(figure.value()), figure.source());
    if *figure.source() == Source::Assumed {
        text += "; --assume says otherwise";
    }
    let others: Vec<String> =
        figure.disagreeing().map(|claim| format!("{} says {}", claim.source, value(claim.value))).collect();
    if !others.is_empty() {
        let _ = write!(text, "; {}", others.join(", "));
    }
    if let Some(why) = figure.why().filter(|why| !why.is_empty()) {
        let _ = write!(text, "; {why}");
    }
    text + "]"
}

fn bytes(count: ByteCount) -> String {
    if count.get() < 65536 { count.get().to_string() } else { format!("{count} ({})", count.get()) }
}

fn offset(offset: AlignmentOffset) -> String {
    match offset {
        AlignmentOffset::Bytes(bytes) => bytes.get().to_string(),
        AlignmentOffset::Misaligned => "-1".to_owned(),
    }
}

/// Logical and physical sector, and whatever else makes this device special.
fn sectors(topology: &Topology) -> String {
    let mut parts = vec![
        format!("logical sector {}", sourced(&topology.logical, |block| block.to_string())),
        format!("physical sector {}", sourced(&topology.physical, bytes)),
    ];
    if topology.alignment_offset.value() != AlignmentOffset::Bytes(ByteCount::ZERO) {
        parts.push(format!("alignment offset {}", sourced(&topology.alignment_offset, offset)));
    }
    let special = [
        ("indirection unit", &topology.indirection_unit),
        ("RAID chunk", &topology.chunk),
        ("stripe", &topology.stripe),
        ("erase block", &topology.erase_block),
    ];
    for (name, figure) in special {
        if let Some(figure) = figure {
            parts.push(format!("{name} {}", sourced(figure, bytes)));
        }
    }
    wrap(&parts.join(", "), width(), "  ")
}

/// What every source besides the chosen one says.
fn claims<T: Copy + PartialEq>(figure: &Figure<T>, value: impl Fn(T) -> String) -> Vec<String> {
    figure.others().iter().map(|claim| format!("{} [{}]", value(claim.value), claim.source)).collect()
}

/// Every figure on a line of its own, with all its sources.
fn every_figure(topology: &Topology) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String, claims: Vec<String>| {
        let _ = writeln!(text, "    {name:18} {value}");
        for claim in claims {
            let _ = writeln!(text, "    {:18} {claim}", "");
        }
    };
    let show = |f: &Figure<ByteCount>| sourced(f, bytes);
    let sizes = |f: &Figure<ByteCount>| claims(f, bytes);
    let logical = |block: BlockSize| block.to_string();
    line("logical sector", sourced(&topology.logical, logical), claims(&topology.logical, logical));
    line("physical sector", show(&topology.physical), sizes(&topology.physical));
    let shift = &topology.alignment_offset;
    line("alignment offset", sourced(shift, offset), claims(shift, offset));
    let optional = [
        ("minimum I/O", &topology.io_min),
        ("optimal I/O", &topology.io_opt),
        ("indirection unit", &topology.indirection_unit),
        ("RAID chunk", &topology.chunk),
        ("stripe", &topology.stripe),
        ("erase block", &topology.erase_block),
    ];
    for (name, figure) in optional {
        match figure {
            Some(figure) => line(name, show(figure), sizes(figure)),
            None => line(name, "not known".to_owned(), Vec::new()),
        }
    }
    let sizes = |a: AtomicWrites| {
        let (min, max, boundary) = (a.unit_min.get(), a.unit_max.get(), a.boundary.get());
        format!("{min} to {max}, boundary {boundary}")
    };
    match &topology.atomic {
        Some(figure) => line("atomic writes", sourced(figure, sizes), claims(figure, sizes)),
        None => line("atomic writes", "not known".to_owned(), Vec::new()),
    }
    text
}

/// `  status: error (alignment, table damage)`
fn status_line(audited: &Audited, styles: Styles) -> String {
    let status = audited.status();
    let style = match status {
        Status::Ok | Status::Blank => styles.good,
        Status::Advice => styles.advice,
        Status::Warning => styles.warning,
        Status::Error | Status::NotJudged | Status::Failed => styles.error,
    };
    let kinds: Vec<String> = audited.kinds().iter().map(ToString::to_string).collect();
    let why = match (audited.not_judged(), kinds.as_slice()) {
        (Some(why), _) => format!(": {why}"),
        (None, []) => String::new(),
        (None, kinds) => format!(" ({})", kinds.join(", ")),
    };
    let through = audited.target.through.as_ref();
    let through = through.map_or_else(String::new, |t| format!(", read through {}", t.packing.name()));
    format!("  status: {}{}{through}", paint(style, status.word()), printable(&why))
}

fn table_line(audited: &Audited) -> String {
    let stack: &Stack = &audited.stack;
    let count = plural(audited.in_table, "partition");
    let block = stack.block;
    match stack.kind {
        TableKind::Gpt => format!("  GPT in {block}-byte sectors, {count}"),
        TableKind::HybridMbr => format!("  GPT with a hybrid MBR, in {block}-byte sectors, {count}"),
        TableKind::Mbr => format!("  MBR in {block}-byte sectors, {count}"),
        TableKind::Content(_) | TableKind::None if stack.layer.is_some() => {
            let kind = stack.layer.as_ref().map_or("", |layer| layer.kind.name());
            format!("  no partition table: {kind} on the whole disk")
        }
        TableKind::Content(name) => format!("  no partition table: {name} on the whole disk"),
        TableKind::Foreign(name) => format!("  a partition table of the kind {name}"),
        TableKind::None => "  no partition table and no known content".to_owned(),
        TableKind::Kernel if is_unread(stack) && stack.partitions.is_empty() => {
            "  the partition table cannot be read".to_owned()
        }
        TableKind::Kernel if stack.partitions.is_empty() => {
            "  no partitions, as the kernel lists it: what uses the whole disk starts at byte 0".to_owned()
        }
        TableKind::Kernel => format!("  {count} by the kernel's list"),
    }
}

/// Whether the disk's own first bytes could not be read.
fn is_unread(stack: &Stack) -> bool {
    stack.problems.iter().any(|problem| matches!(problem, Problem::Unreadable { number: None, .. }))
}

/// The columns of the table of partitions that go, one after the other, where the terminal is too narrow for all.
const DISPENSABLE: [&str; 4] = ["START BYTE", "SECTORS", "TYPE", "SIZE"];

/// The table of partitions, as wide as stdout takes it.
fn partition_table(audited: &Audited) -> String {
    let all = ["  #", "START LBA", "START BYTE", "SECTORS", "SIZE", "TYPE", "CONTENT", "VERDICT"];
    let rows: Vec<[String; 8]> = audited.stack.partitions.iter().map(|p| row(p, audited)).collect();
    let drawn = |left_out: &[&str]| {
        let shown: Vec<usize> = (0..all.len()).filter(|index| !left_out.contains(&all[*index])).collect();
        let mut table = plain_table(&shown.iter().map(|index| all[*index]).collect::<Vec<_>>());
        for row in &rows {
            table.add_row(shown.iter().map(|index| row[*index].clone()));
        }
        for (at, _) in shown.iter().enumerate().filter(|(_, index)| **index < 5) {
            if let Some(column) = table.column_mut(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        trimmed(&table)
    };
    let fits = |text: &String| text.lines().all(|line| output::fits(line.chars().count()));
    let mut tried = (0..DISPENSABLE.len()).map(|count| drawn(&DISPENSABLE[..count]));
    tried.find(fits).unwrap_or_else(|| drawn(&DISPENSABLE))
}

/// A partition's line in the table.
fn row(partition: &Partition, audited: &Audited) -> [String; 8] {
    let kind = types::name(&partition.kind).map(str::to_owned).unwrap_or_else(|| match partition.kind {
        PartitionType::Guid(guid) => types::guid_text(guid),
        PartitionType::Mbr(kind) => format!("{kind:#04x}"),
        PartitionType::Unknown => "-".to_owned(),
    });
    [
        partition.number.to_string(),
        partition.start.to_string(),
        partition.span.start().to_string(),
        partition.count.to_string(),
        partition.span.len().to_string(),
        kind,
        partition.content.map_or("-", Content::name).to_owned(),
        verdict_text(partition, audited),
    ]
}

fn partitions(audited: &Audited, styles: Styles) -> String {
    // Styled line by line: the table counts escape sequences as text.
    let mut lines = partition_table(audited).lines().map(str::to_owned).collect::<Vec<_>>();
    if let Some(header) = lines.first_mut() {
        *header = paint(styles.faint, header);
    }
    for (line, partition) in lines.iter_mut().skip(1).zip(&audited.stack.partitions) {
        let (of, inside) = judged(partition, audited);
        let style = match of.verdict {
            Verdict::Aligned | Verdict::AlignedWithAdvice
                if inside.is_some_and(|f| f.severity > Severity::Advice) =>
            {
                styles.warning
            }
            Verdict::Misaligned | Verdict::Damaged | Verdict::Unreadable => styles.error,
            Verdict::Off | Verdict::BootSector => styles.warning,
            Verdict::Aligned | Verdict::AlignedWithAdvice => styles.good,
            Verdict::Container => styles.faint,
        };
        let plain = verdict_text(partition, audited);
        if let Some(head) = line.strip_suffix(&plain) {
            *line = format!("{head}{}", paint(style, &plain));
        }
    }
    lines.join("\n")
}

/// What is made of a partition, and the worst of what stands on it.
fn judged<'a>(partition: &Partition, audited: &'a Audited) -> (OfPartition, Option<&'a Finding>) {
    let nothing = OfPartition { verdict: Verdict::Aligned, decisive: None, inside: None, made_up: None };
    let of = audited.judgement.partition(partition.number).copied().unwrap_or(nothing);
    (of, of.inside.and_then(|at| audited.findings.get(at)))
}

/// The verdict on a partition, and on what stands on it. It counts every finding, told here or not.
fn verdict_text(partition: &Partition, audited: &Audited) -> String {
    let (of, inside) = judged(partition, audited);
    let decisive = of.decisive.and_then(|at| audited.findings.get(at));
    let own = placement_text(partition, of.verdict, decisive);
    match inside {
        Some(worst) if worst.severity > Severity::Advice => {
            format!("{own}, but {} inside", worst.rule.code)
        }
        _ => match of.made_up.and_then(|at| audited.findings.get(at)) {
            Some(made_up) if own == ALIGNED => format!("{own} ({})", made_up.rule.code),
            _ => own,
        },
    }
}

/// The verdict on a partition of which nothing is to be said.
const ALIGNED: &str = "aligned";

/// Whether a finding would be more than advice, were anything written there.
fn costs_nothing(finding: &Finding) -> bool {
    finding.severity < finding.rule.severity
}

/// The verdict on a partition's placement in a few words, with the finding that makes it.
fn placement_text(partition: &Partition, verdict: Verdict, decisive: Option<&Finding>) -> String {
    let Some(finding) = decisive.filter(|_| verdict != Verdict::Container) else {
        let is_container = verdict == Verdict::Container;
        return if is_container { "container of logical partitions" } else { ALIGNED }.to_owned();
    };
    let code = finding.rule.code;
    match (verdict, finding.miss.as_ref()) {
        (_, _) if finding.subject == Subject::Disk => format!("misaligned, as the device is ({code})"),
        (Verdict::AlignedWithAdvice, Some(miss)) if costs_nothing(finding) => {
            let end = if finding.at == Some(partition.span.end()) { "end off" } else { "off" };
            format!("{end} by {} bytes, harmless ({code})", miss.past.get())
        }
        (Verdict::AlignedWithAdvice, _) => format!("{ALIGNED} ({code})"),
        (Verdict::Misaligned, Some(miss)) => format!("STRADDLES by {} bytes ({code})", miss.past.get()),
        (Verdict::Off, Some(miss)) if finding.at == Some(partition.span.end()) => {
            format!("end off by {} bytes ({code})", miss.past.get())
        }
        (Verdict::Off, Some(miss)) => format!("off the {} by {} bytes ({code})", miss.name, miss.past.get()),
        (Verdict::Container | Verdict::Aligned, _) => ALIGNED.to_owned(),
        (
            Verdict::Off | Verdict::Misaligned | Verdict::BootSector | Verdict::Damaged | Verdict::Unreadable,
            _,
        ) => format!("{} ({code})", finding.rule.title),
    }
}

/// `on wd10ears: random 4 KiB writes take 3.2 times as long, … (derived from the model)`
fn cost_text(cost: &Cost) -> String {
    let drive = printable(&cost.drive);
    let source = cost.source();
    if cost.past == 0 {
        return format!("on {drive}: no slowdown, for it is a boundary of that drive ({source})");
    }
    let what = if cost.measured { "durable random writes of a unit" } else { "random 4 KiB writes" };
    let mut text = format!("on {drive}: {what} take {:.2} times as long", cost.random_write);
    if let Some(ratio) = cost.sequential_write {
        let _ = write!(text, ", sequential ones with an fsync each {ratio:.2} times");
    }
    text + &format!(" ({source})")
}

/// The finding number `at` of those that are `told`, its cost, and its cure, which is told once for all that share it.
fn finding_text(audited: &Audited, told: &[(&Finding, Option<&Cost>)], at: usize, styles: Styles) -> String {
    let (before, rest) = told.split_at(at.min(told.len()));
    let Some(((finding, cost), after)) = rest.split_first() else { return String::new() };
    let style = severity_style(finding.severity, styles);
    let mark = format!("{} {}", finding.severity, finding.rule.code);
    let behind_mark = " ".repeat(mark.len() + 1);
    let told_of = wrap_after(&about(finding), width(), &behind_mark, "  ");
    let mut text = format!("\n{} {}\n", paint(style, &mark), told_of.trim_start());
    if let Some(drawn) = drawing(audited, finding) {
        let _ = writeln!(text, "  {drawn}");
    }
    if let Some(cost) = cost {
        let _ = writeln!(text, "{}", wrap(&cost_text(cost), width(), "  "));
    }
    if let Some(from) = follows_text(finding) {
        let _ = writeln!(text, "{}", wrap(&from, width(), "  "));
    }
    let shares = |other: &&Finding| other.cure == finding.cure;
    if let Some(cure) = finding.cure.as_ref().filter(|_| !before.iter().any(|(other, _)| shares(other))) {
        let others: Vec<&Finding> = after.iter().map(|(other, _)| *other).filter(shares).collect();
        text += &cure_text(cure, &sharing(finding, &others), styles);
    }
    text
}

/// `follows from S001 of partition 1 of /dev/sda: see there for the fix`.
fn follows_text(finding: &Finding) -> Option<String> {
    let of = |cause: &Cause| match &cause.target {
        Some(target) => format!("{} of {} of {}", cause.code, subject(cause.subject), printable(target)),
        None => format!("{} of {}", cause.code, subject(cause.subject)),
    };
    let causes: Vec<String> = finding.follows.iter().map(of).collect();
    (!causes.is_empty()).then(|| format!("follows from {}: see there for the fix", causes.join(" and ")))
}

/// So many of the findings that share a cure are named.
const NAMED: usize = 6;

/// `, for S002 and S041 of partition 2 as well`: what else the cure of `finding` is for.
fn sharing(finding: &Finding, others: &[&Finding]) -> String {
    let of = |other: &&Finding| match other.way() {
        Some(way) if other.layer != finding.layer => format!("{} of {}", other.rule.code, printable(&way)),
        None if other.subject != finding.subject => {
            format!("{} of {}", other.rule.code, subject(other.subject))
        }
        _ => other.rule.code.to_string(),
    };
    let mut names: Vec<String> = others.iter().map(of).collect();
    names.dedup();
    if names.len() > NAMED {
        let left_out = names.split_off(NAMED - 1).len();
        names.push(format!("{left_out} more"));
    }
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => format!(", for {last} as well"),
        Some((last, rest)) => format!(", for {} and {last} as well", rest.join(", ")),
    }
}

/// The physical sectors (or units) at a partition's start, and its first file-system block over them.
fn drawing(audited: &Audited, finding: &Finding) -> Option<String> {
    let (Subject::Partition(number), Some(miss)) = (finding.subject, &finding.miss) else { return None };
    // Advice costs nothing, and what is lost with atomic writes is no read-modify-write.
    if finding.severity == Severity::Advice || miss.name == ATOMIC_UNIT {
        return None;
    }
    let partition = audited.stack.partitions.iter().find(|p| p.number == number)?;
    if finding.at != Some(partition.span.start()) {
        return None;
    }
    let unit = miss.boundary.size();
    let block = Span::new(partition.span.start(), unit.max(FILE_SYSTEM_BLOCK))?;
    let line = picture(miss.boundary, block)?;
    let coverage = miss.boundary.coverage(block);
    let told = format!(
        "the first {} over {} of {} bytes: writing it takes {}",
        block.len(),
        plural(usize::try_from(coverage.touched).ok()?, miss.name),
        unit.get(),
        plural(usize::try_from(coverage.partial).ok()?, "read-modify-write")
    );
    // What is drawn is ASCII.
    Some(if output::fits(2 + line.len() + 2 + told.len()) {
        format!("{line}  {told}")
    } else {
        format!("{line}\n{}", wrap(&told, width(), "  "))
    })
}

/// A cure, with what it is for as well behind what has to be done.
fn cure_text(cure: &Cure, sharing: &str, styles: Styles) -> String {
    let mut text =
        format!("{}\n", wrap(&format!("fix: {}{sharing}", printable(&cure.summary)), width(), "  "));
    // What is pasted is often not read to its end: what it may cost stands before it.
    let warning = cure.risk.warning().filter(|_| !cure.commands.is_empty());
    let before: Vec<&str> = warning.into_iter().chain(cure.caution.as_deref()).collect();
    if !before.is_empty() {
        let _ = writeln!(text, "{}", wrap(&printable(&before.join("; ")), width(), "    "));
    }
    for command in &cure.commands {
        let _ = writeln!(text, "    {}", paint(styles.heading, &printable(&command.line)));
    }
    text
}

/// The last line: `3 targets: 1 ok, 2 with errors (2 errors, 1 warning)`.
pub(crate) fn summary(summary: Summary, severities: [usize; 3], styles: Styles) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, word: &str, style: Style| {
        if count > 0 {
            parts.push(paint(style, &format!("{count} {word}")));
        }
    };
    part(summary.ok, "ok", styles.good);
    part(summary.blank, "blank", styles.good);
    part(summary.advice, "with advice", styles.good);
    part(summary.warning, "with warnings", styles.warning);
    part(summary.error, "with errors", styles.error);
    part(summary.not_judged, "not judged", styles.error);
    part(summary.failed, "failed", styles.error);
    let [errors, warnings, advice] = severities;
    let mut counts = Vec::new();
    for (count, noun) in [(errors, "error"), (warnings, "warning")] {
        if count > 0 {
            counts.push(plural(count, noun));
        }
    }
    if advice > 0 {
        counts.push(format!("{advice} advice"));
    }
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let hint = if errors + warnings + advice > 0 { "; 'straddle explain CODE' tells more" } else { "" };
    let targets = plural(summary.targets, "target");
    if parts.is_empty() {
        return targets;
    }
    wrap(&format!("{targets}: {}{counts}{hint}", parts.join(", ")), width(), "")
}
