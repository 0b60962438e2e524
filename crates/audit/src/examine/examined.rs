//! A target with everything found on it.

use std::collections::BTreeSet;

use crate::{
    Asked, Command, Context, Effect, Finding, Findings, Fix, Judgement, Kind, Moves, Place, Reason,
    Recognised, Reported,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::{DeviceKind, Medium, ReadError, Remembered, Target};
use straddle_drive::FirmwareRange;
use straddle_layout::live::Disagreement;
use straddle_layout::{Role, Stack, TableKind};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::examine::{
    ExamineError, Examiner, Options, connected, exception, guest, in_use, member, object, read, recognised,
    sectors,
};

/// The longest span in which data are looked for: commands of other programs move partitions by less.
const LOOK: ByteCount = ByteCount::new(64 * MIB);

/// The usual size of the entries of a GPT, which follow two logical sectors.
const ENTRIES: usize = 16 << 10;
const SECTOR: usize = 512;

/// A target with everything found on it. Only [`Examiner`] makes one, and nothing changes it.
///
/// ```compile_fail,E0616
/// fn pass(examined: &mut straddle_audit::examine::Examined, other: straddle_audit::examine::Examined) {
///     examined.judgement = other.judgement;
/// }
/// ```
pub struct Examined {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) stack: Stack,
    in_table: usize,
    pub(crate) findings: Findings,
    costs: Vec<Option<Cost>>,
    exceptions: BTreeSet<usize>,
    judgement: Judgement,
    unseen: Option<String>,
    nothing: Option<&'static str>,
    ready: Vec<String>,
    is_unread: bool,
}

/// The cost of a missed boundary: the time that writes take, and on an SSD the bytes written to flash,
/// relative to aligned writes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// The modelled drive, or the one that was probed.
    pub drive: String,
    /// Where the ratios come from.
    pub source: CostSource,
    /// The distance in bytes from the previous boundary of the drive's own unit.
    #[serde(rename = "past_bytes")]
    pub past: u64,
    /// The size of each random write: 4096 bytes on a modelled disk, otherwise the drive's unit.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// The ratio for random writes: with a full buffer on a modelled SSD; for durable or sustained writes if
    /// measured.
    #[serde(rename = "random_write_ratio")]
    pub random_write: f64,
    /// The range of that ratio over the plausible firmware of a modelled disk; absent if the firmware makes
    /// no difference.
    #[serde(rename = "random_write_firmware_range", skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareRange>,
    /// The ratio of the bytes written to flash (wear); absent on a disk.
    #[serde(rename = "wear_ratio", skip_serializing_if = "Option::is_none")]
    pub wear: Option<f64>,
    /// The ratio for sequential writes of 4096 bytes, each with an fsync; absent on an SSD, or if the costs
    /// were measured.
    #[serde(rename = "sequential_write_ratio", skip_serializing_if = "Option::is_none")]
    pub sequential_write: Option<f64>,
}

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// A model of the drive.
    Modelled,
    /// A probe of the drive.
    Measured,
}

impl std::fmt::Display for CostSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Modelled => "modelled",
            Self::Measured => "measured",
        })
    }
}

/// Prices positions on a drive, by its model or by a measurement.
pub trait Price: Send + Sync {
    /// The cost of what is written from byte `at` on; `None` if the drive has no such position.
    fn price(&self, at: ByteOffset) -> Option<Cost>;
}

impl Examined {
    /// The target's name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target's sector sizes and what else is known of the device. Its medium is closed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What the target holds; if a partition was asked for, only that.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The number of partitions in the table, even if only one partition was asked for.
    pub fn in_table(&self) -> usize {
        self.in_table
    }

    /// Every finding, wherever it is reported.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The verdict over all findings.
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The exceptions of the options, by index, that are about a finding here, wherever it is reported.
    pub fn exceptions(&self) -> &BTreeSet<usize> {
        &self.exceptions
    }

    /// The commands at the ends of remarks.
    pub fn ready(&self) -> impl Iterator<Item = &str> {
        self.ready.iter().map(String::as_str)
    }

    /// Whether none of the target's bytes could be read.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Why the target is not judged, if it is not.
    pub fn not_judged(&self) -> Option<&str> {
        self.judgement.not_judged()
    }

    /// Why there is nothing to judge, if it is blank or its table has no partitions.
    pub fn nothing_to_judge(&self) -> Option<&'static str> {
        self.nothing
    }

    /// Whether all of its contents are seen and judged.
    pub(crate) fn is_seen(&self) -> bool {
        self.unseen.is_none() && self.not_judged().is_none()
    }

    /// Judges it as a whole, because the target `other` shows what it does not show itself.
    pub(crate) fn judge_with(&mut self, other: &str) {
        let Some(unseen) = self.unseen.take() else { return };
        let remarks = &mut self.target.remarks;
        remarks.retain(|remark| *remark != unseen);
        remarks.push(format!("the array is checked through {other}, the member that shows its contents"));
        self.judgement = Judgement::of(&self.findings, Recognised::Known);
    }

    /// Judges it again with what other targets show of the sectors below its contents.
    pub(crate) fn fit_again(&mut self, options: &Options) {
        let (target, stack) = (&self.target, &self.stack);
        let context = Context::of(&self.name, target.kind, target.size, &target.topology, stack);
        crate::fit_again(&Context { page: options.page, ..context }, &mut self.findings);
        crate::ask(&mut self.findings, &asked(options, &self.name, target));
        self.costs = costs(options, &self.findings);
        self.exceptions = exception::met(&options.exceptions, &self.name, &self.findings);
        let recognised = match (self.unseen.clone(), self.not_judged()) {
            (Some(why), _) => Recognised::Part(why),
            (None, Some(why)) => Recognised::Nothing(why.to_owned()),
            (None, None) => Recognised::Known,
        };
        self.judgement = Judgement::of(&self.findings, recognised);
    }

    /// The findings reported at this target, each with its cost.
    pub fn reported(&self) -> impl Iterator<Item = (&Finding, Option<&Cost>)> {
        let listed = self.findings.iter().zip(self.costs.iter().map(Option::as_ref));
        listed.filter(|(finding, _)| finding.reported == Reported::Here)
    }

    /// The findings that do not count, each with its reason.
    pub fn ignored(&self) -> impl Iterator<Item = (&Finding, &Reason)> {
        self.findings.iter().filter_map(|finding| match &finding.reported {
            Reported::Ignored(reason) => Some((finding, &**reason)),
            _ => None,
        })
    }

    /// What to know of the target besides its findings, and where the findings are reported that another
    /// target shows as well.
    pub fn remarks(&self) -> Vec<String> {
        let elsewhere = self.findings.iter().filter_map(|finding| match &finding.reported {
            Reported::At(Place::Target(name)) => {
                let layer = finding.layer.last().map_or(String::new(), |step| format!(" ({})", step.called));
                Some(format!("{}{layer} is reported for {name}", finding.rule.code))
            }
            _ => None,
        });
        self.target.remarks.iter().cloned().chain(elsewhere).collect()
    }
}

pub(crate) fn examine(
    examiner: &Examiner,
    name: String,
    mut target: Target,
) -> Result<Examined, ExamineError> {
    let options = examiner.options();
    target.medium = target.medium.map(|medium| Box::new(Remembered::new(medium)) as Box<dyn Medium>);
    let mut stack = read::read(&mut target, &options.open)?;
    read::check_there(&target, options, 1)?;
    if let Some(in_use) = in_use::stack(&target, examiner, &stack)? {
        stack = in_use;
    }
    let disagreements = attach_live(&mut target, examiner, &mut stack);
    let doubt = sectors::in_question(&target, &stack);
    sectors::adopt(&mut target, &stack);
    let beside = recognised::beside(&target, &stack);
    let remarks = recognised::remarks_beside(&target, &stack, &beside);
    target.remarks.extend(remarks);
    target.remarks.extend(recognised::remark_by_name(&target, &stack));

    let local = object::local_name(&target, &name);
    let mut findings = audit(examiner, (&name, &local), &target, &stack, &disagreements);
    member::spare(&stack, &beside, &mut findings);
    guest::withhold(&mut target, &mut findings);
    let mut ready: Vec<String> = connected::prepare(&mut target, &local, &mut findings).into_iter().collect();
    // The device may have been removed between those reads.
    let has_failed = findings.iter().any(|finding| finding.rule.kind == Kind::Unreadable);
    if has_failed {
        read::check_there(&target, options, 6)?;
    }
    read_through(&mut target, &findings);
    ready.extend(object::remark_copy(&mut target, &findings));

    let unsure = doubt.and_then(|doubt| doubted(doubt, &mut target, &mut findings));
    let recognised = recognised::all(&target, &stack, &beside, examiner, unsure);
    if !matches!(stack.kind, TableKind::Foreign(_) | TableKind::Kernel | TableKind::None)
        && matches!(recognised, Recognised::Nothing(_))
    {
        // What a command writes for the leftover overwrites the other.
        findings.withhold_commands(|_| true);
    }
    let unseen = match &recognised {
        Recognised::Part(why) => Some(why.clone()),
        _ => None,
    };
    let nothing = nothing(&recognised, &stack);
    let judgement = Judgement::of(&findings, recognised);
    // If there are findings, the status reports them and cannot also give this reason: it becomes a remark.
    target.remarks.extend(unseen.clone().filter(|_| judgement.not_judged().is_none()));
    let is_unread = target.medium.is_none();
    // A run may keep thousands of targets; their files need not stay open.
    target.medium = None;
    let costs = costs(options, &findings);
    let exceptions = exception::met(&options.exceptions, &name, &findings);
    let in_table = stack.partitions.iter().filter(|partition| partition.role != Role::Extended).count();
    if let Some(number) = target.partition {
        stack.partitions.retain(|p| p.number == number);
    }
    Ok(Examined {
        name,
        target,
        stack,
        in_table,
        findings,
        costs,
        exceptions,
        judgement,
        unseen,
        nothing,
        ready,
        is_unread,
    })
}

fn costs(options: &Options, findings: &Findings) -> Vec<Option<Cost>> {
    let price = |finding: &Finding| {
        let price = options.price.as_ref().filter(|_| finding.reported == Reported::Here)?;
        price.price(finding.shifting_start()?)
    };
    findings.iter().map(price).collect()
}

/// Why there is nothing to judge, where that is not an error.
fn nothing(recognised: &Recognised, stack: &Stack) -> Option<&'static str> {
    match stack.kind {
        _ if *recognised == Recognised::Blank => Some("nothing to check: no partition table and no contents"),
        TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr if stack.partitions.is_empty() => {
            Some("nothing to check: its table has no partitions")
        }
        _ => None,
    }
}

/// Why the sectors in which the table counts are in doubt, if others explain it better; otherwise that is a
/// remark. In doubt no command writes: it might write into data.
fn doubted(doubt: sectors::Doubt, target: &mut Target, findings: &mut Findings) -> Option<String> {
    findings.withhold_commands(Fix::writes_table);
    if doubt.is_likelier {
        return Some(doubt.why);
    }
    target.remarks.push(doubt.why);
    None
}

/// Returns every finding. `name` is the target's, `local` that of the file that commands are for.
fn audit(
    examiner: &Examiner,
    (name, local): (&str, &str),
    target: &Target,
    stack: &Stack,
    disagreements: &[Disagreement],
) -> Findings {
    let options = examiner.options();
    let file = target.through.as_ref().map_or(local, |through| &through.unpacked);
    let node = target.node.as_ref().map_or_else(|| file.to_owned(), |node| node.display().to_string());
    let in_container = target.container.is_some();
    let moves = options.moves.map_or_else(Moves::default, |of| of(examiner, local, target, stack));
    let written = |span: Span| match options.without_fixes {
        true => Some(span.start()),
        false => first_written(target, stack, span),
    };
    let context = Context {
        // Partitioning tools would overwrite the format of an image that is not raw, so it has to be
        // connected first.
        target: if in_container { connected::NODE } else { &node },
        file,
        is_image: target.kind == DeviceKind::Image && !in_container,
        kind: target.kind,
        zone: target.zoned.as_ref().map(|zoned| zoned.zone),
        size: target.size,
        topology: &target.topology,
        model: target.identity.model.as_deref(),
        stack,
        container: target.container.as_ref(),
        disagreements,
        moves: &moves,
        written: &written,
        page: options.page,
        platform: options.platform,
    };
    let mut findings = crate::run(&context);
    crate::ask(&mut findings, &asked(options, name, target));
    findings
}

fn asked(options: &Options, name: &str, target: &Target) -> Asked {
    let (only, ignore) = (options.only.clone(), options.ignore.clone());
    let exceptions = exception::on(&options.exceptions, name);
    Asked { only, ignore, exceptions, partition: target.partition }
}

/// The first byte of a span that is written; its first byte if that is not known.
fn first_written(target: &Target, stack: &Stack, span: Span) -> Option<ByteOffset> {
    // Of an object on a server a copy is checked again ([`object::remark_copy`]).
    if target.address.is_some() {
        return None;
    }
    let medium = target.medium.as_deref().filter(|_| span.len() <= LOOK);
    let unknown = Some(span.start());
    medium.map_or(unknown, |medium| written_in(medium, stack, span).unwrap_or(unknown))
}

/// The same, without the remains of an earlier copy of this disk's GPT.
fn written_in(medium: &dyn Medium, stack: &Stack, span: Span) -> Result<Option<ByteOffset>, ReadError> {
    let mut own = Vec::new();
    if stack.kind == TableKind::Gpt {
        let table = usize::try_from(stack.block.get()).unwrap_or(SECTOR) * 2 + ENTRIES;
        own.resize(usize::try_from(medium.len().get()).map_or(table, |len| len.min(table)), 0);
        medium.read_at(ByteOffset::ZERO, &mut own)?;
    }
    let mut rest = span;
    while let Some(at) = straddle_layout::first_written(medium, rest)? {
        let mut sector = [0; SECTOR];
        let behind = ByteOffset::new(at.get().saturating_add(SECTOR as u64));
        let Some(left) = span.end().checked_since(behind).and_then(|len| Span::new(behind, len)) else {
            return Ok(Some(at));
        };
        medium.read_at(at, &mut sector)?;
        let is_of_table = stack.kind == TableKind::Gpt
            && (sector.starts_with(straddle_layout::format::gpt::SIGNATURE)
                || own.chunks_exact(SECTOR).any(|one| one == sector));
        if !is_of_table {
            return Ok(Some(at));
        }
        rest = left;
    }
    Ok(None)
}

/// Attaches the kernel's view of a device to what was read from it; returns where they differ. The host's
/// kernel does not see what a guest writes to its disk.
fn attach_live(target: &mut Target, examiner: &Examiner, stack: &mut Stack) -> Vec<Disagreement> {
    let name = target.kernel_name.as_ref().filter(|_| target.topology.guest.is_none());
    let Some(name) = name else { return Vec::new() };
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let (disagreements, remarks) = straddle_layout::live::attach(examiner.machine(), name, listed, stack);
    target.remarks.extend(remarks);
    disagreements
}

/// Remarks that an image was read through its compression, and how to unpack it for the commands.
fn read_through(target: &mut Target, findings: &Findings) {
    let Some(through) = &target.through else { return };
    let (what, command) = (through.packing.a_file(), &through.command);
    let commands = || findings.iter().flat_map(Finding::fixes).flat_map(|fix| &fix.commands);
    let is_copy = |command: &Command| command.effect == Effect::Copy;
    let unpack = match (commands().any(is_copy), commands().all(is_copy)) {
        (_, true) => String::new(),
        (false, _) => format!("; before running the commands below, unpack it: {command}"),
        (true, _) => {
            format!(
                "; straddle's own commands can read the image as it is; for the other commands below, unpack \
                 it first: {command}"
            )
        }
    };
    target
        .remarks
        .insert(0, format!("checked: the image inside {what}, unpacked to a temporary file{unpack}"));
}
