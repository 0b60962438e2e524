//! `straddle check`: opens each target, reads what is on it, audits it, and prints what was found.

mod below;
mod connected;
mod in_use;
mod member;
mod sectors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use straddle_audit::{
    Asked, Context, Cure, Finding, Judgement, Kind, Place, Recognised, Seen, Severity, Told,
};
use straddle_device::image::Limits;
use straddle_device::live::{LiveDevice, Machine};
use straddle_device::topology::Source;
use straddle_device::{DeviceKind, OpenError, Options, ReadError, Target};
use straddle_layout::live::Disagreement;
use straddle_layout::{Beside, Neighbour, Problem, Stack, TableKind};

use crate::args::CheckArguments;
use crate::cost::Cost;
use crate::drive_target;
use crate::exit::{Exit, UsageError};
use crate::limited;
use crate::output::{self, Styles};
use crate::overlay;
use crate::report::{Status, TargetReport};
use crate::schema::{self, Summary};
use crate::text;

/// So many targets are audited at a time, and printed before the next ones: memory does not grow with their number.
const BATCH: usize = 512;

/// From so many targets on they are spread over the cores; below, starting threads costs more than it saves.
const PARALLEL_FROM: usize = 16;

/// What is printed of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `check`: its partitions, and the findings with their cures.
    Audit,
    /// `map`: the layers drawn, with the codes of the findings beside them.
    Map,
}

/// A target with everything found on it.
pub(crate) struct Audited {
    /// The target as it was named.
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) stack: Stack,
    /// How many partitions the table has, whichever was asked for.
    pub(crate) in_table: usize,
    /// Everything found on it, wherever it is told.
    pub(crate) findings: Vec<Finding>,
    /// What each of them costs, where that was asked for and can be told.
    pub(crate) costs: Vec<Option<Cost>>,
    /// What all of them make of it.
    pub(crate) judgement: Judgement,
    /// The command that the last of the target's remarks ends with, where one does.
    pub(crate) ready: Option<String>,
    /// Whether its bytes could not be read at all.
    is_unread: bool,
}

impl Audited {
    pub(crate) fn is_image(&self) -> bool {
        self.target.kind == DeviceKind::Image
    }

    pub(crate) fn status(&self) -> Status {
        self.judgement.status.into()
    }

    /// Why it is not judged, where it is not.
    pub(crate) fn not_judged(&self) -> Option<&str> {
        self.judgement.not_judged.as_deref()
    }

    /// The kinds of the findings that make the status, in order.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.judgement.kinds
    }

    /// The findings that are told here, each with what it costs.
    pub(crate) fn told(&self) -> impl Iterator<Item = (&Finding, Option<&Cost>)> {
        let listed = self.findings.iter().zip(&self.costs);
        listed
            .filter(|(finding, _)| finding.told == Told::Here)
            .map(|(finding, cost)| (finding, cost.as_ref()))
    }

    /// What is to be known of it besides findings, with where those are told that another target shows as well.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let elsewhere = self.findings.iter().filter_map(|finding| match &finding.told {
            Told::At(Place::Target(name)) => {
                let layer = finding.layer.last().map_or(String::new(), |step| format!(" ({})", step.called));
                Some(format!("{}{layer} is reported at {name}", finding.rule.code))
            }
            _ => None,
        });
        self.target.remarks.iter().cloned().chain(elsewhere).collect()
    }
}

/// One target's part of the output, and what it adds to the exit status.
struct Outcome {
    text: String,
    /// Goes to stderr.
    complaint: Option<String>,
    status: Status,
    exit: Exit,
    worst: Vec<Severity>,
}

/// What all targets of a run share.
struct Run {
    options: Options,
    arguments: CheckArguments,
    form: Form,
    styles: Styles,
    /// The kernel's block devices: read once, and only when a target is one of them.
    machine: OnceLock<Machine>,
}

impl Run {
    fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| Machine::read(self.options.sysroot.as_deref()))
    }

    /// Whether root would see more of this machine's disks.
    fn is_as_user(&self) -> bool {
        self.options.sysroot.is_none() && !is_root()
    }
}

/// Whether this is root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

pub(crate) fn run(arguments: &CheckArguments, form: Form, styles: Styles) -> Result<Exit> {
    let targets = targets(arguments)?;
    let options = Options {
        sysroot: arguments.sysroot.clone(),
        assume: arguments.assume.clone().or_else(|| arguments.measured.clone()).unwrap_or_default(),
        logical: arguments.logical,
        format: arguments.format,
        allow_backing: arguments.allow_backing.clone(),
        read_through: Some(Limits::default()),
    };
    let run = Run { options, arguments: arguments.clone(), form, styles, machine: OnceLock::new() };
    let run = Arc::new(run);
    let bar = progress(targets.len());
    let mut out = output::stdout();
    let mut summary = Summary::default();
    let mut severities = [0_usize; 3];
    let mut exit = Exit::Aligned;
    let mut readable = 0_usize;
    if arguments.json {
        out.write_all(schema::opening().as_bytes())?;
    }
    for batch in targets.chunks(BATCH) {
        let is_parallel = targets.len() >= PARALLEL_FROM;
        let mut audited = audit_all(batch, &run, is_parallel);
        if let Some(machine) = run.machine.get().filter(|_| batch.len() > 1) {
            let mut live: Vec<&mut Audited> =
                audited.iter_mut().filter_map(|(_, audited)| audited.as_mut().ok()).collect();
            merge_causes(&mut live, machine);
        }
        readable +=
            audited.iter().filter(|(_, audited)| audited.as_ref().is_ok_and(|a| !a.is_unread)).count();
        let told = |(name, audited): (String, Result<Audited>)| outcome(name, audited, &run);
        let outcomes: Vec<Outcome> = match is_parallel {
            true => audited.into_par_iter().map(told).collect(),
            false => audited.into_iter().map(told).collect(),
        };
        for outcome in outcomes {
            if arguments.json {
                out.write_all(if summary.targets == 0 { b"\n" } else { b",\n" })?;
            } else if !arguments.quiet && summary.targets > 0 && !outcome.text.is_empty() {
                out.write_all(b"\n")?;
            }
            out.write_all(outcome.text.as_bytes())?;
            if let Some(complaint) = &outcome.complaint {
                // In order with what was printed before.
                out.flush()?;
                output::complain(complaint);
            }
            summary.add(outcome.status);
            outcome.worst.iter().for_each(|severity| severities[severity_index(*severity)] += 1);
            exit = exit.max(outcome.exit);
        }
        bar.inc(u64::try_from(batch.len()).unwrap_or(0));
    }
    bar.finish_and_clear();
    if arguments.targets.is_empty() && readable == 0 && summary.targets > 0 && run.is_as_user() {
        output::complain(
            "this user may read none of the disks: what is judged is what the kernel lists; run as root",
        );
    }
    if arguments.json {
        writeln!(out, "{}", schema::closing(summary)?)?;
    } else if !arguments.quiet {
        writeln!(out, "\n{}", text::summary(summary, severities, styles))?;
    }
    out.flush()?;
    Ok(exit)
}

/// Audits a batch of targets, in order. A device that does not answer holds up neither the others nor the list.
fn audit_all(batch: &[PathBuf], run: &Arc<Run>, in_parallel: bool) -> Vec<(String, Result<Audited>)> {
    let limit = Duration::from_secs(run.arguments.time_limit);
    let is_device = |path: &PathBuf| run.options.sysroot.is_none() && limited::is_device(path);
    let mut pending = Vec::new();
    for path in batch.iter().filter(|path| is_device(path)) {
        let (run, device) = (Arc::clone(run), path.clone());
        pending.push(limited::Pending::start(limit, move || audit(&device, &run)));
    }
    let single = |path: &PathBuf| (!is_device(path)).then(|| audit(path, run));
    let files: Vec<Option<Result<Audited>>> =
        if in_parallel { batch.par_iter().map(single).collect() } else { batch.iter().map(single).collect() };
    let mut devices = pending.into_iter().map(|pending| {
        let late = || Err(anyhow::anyhow!("gave no answer in {} seconds (--time-limit)", limit.as_secs()));
        pending.wait().unwrap_or_else(late)
    });
    let audited = files.into_iter().filter_map(|file| file.or_else(|| devices.next()));
    batch.iter().map(|path| path.display().to_string()).zip(audited).collect()
}

fn severity_index(severity: Severity) -> usize {
    match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Advice => 2,
    }
}

/// The targets named, or every disk.
fn targets(arguments: &CheckArguments) -> Result<Vec<PathBuf>> {
    if !arguments.targets.is_empty() {
        if arguments.all {
            let message = "--all widens the search for disks: give it without targets";
            return Err(UsageError(message.to_owned()).into());
        }
        return Ok(arguments.targets.clone());
    }
    let found = straddle_device::discover(arguments.sysroot.as_deref(), arguments.all)
        .context("cannot list the disks of this machine")?;
    found.remarks.iter().for_each(|remark| output::complain(&output::printable(remark)));
    if found.disks.is_empty() {
        output::complain("no disk found; --all also looks at loop, ram and zram devices");
    }
    Ok(found.disks)
}

/// A bar on stderr for long work, where it disturbs nothing: on a terminal that stdout does not share.
fn progress(targets: usize) -> ProgressBar {
    if targets <= BATCH || io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(u64::try_from(targets).ok(), ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_secs(1));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} targets, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn outcome(name: String, audited: Result<Audited>, run: &Run) -> Outcome {
    let arguments = &run.arguments;
    match audited {
        Ok(audited) => {
            let worst: Vec<Severity> = audited.told().map(|(finding, _)| finding.severity).collect();
            let counts = |f: &Finding| matches!(f.told, Told::Here | Told::At(_));
            let fails = audited.findings.iter().filter(|f| counts(f));
            let fails = fails.map(|f| f.severity).any(|severity| severity >= arguments.fail_on.severity());
            let unknown = audited.not_judged().filter(|_| !arguments.allow_unknown);
            // The text says it in its place; a list of findings has none for it.
            let told = audited.not_judged().filter(|_| arguments.quiet);
            Outcome {
                text: render(&audited, run),
                complaint: told.map(|why| output::printable(&format!("{name}: not judged: {why}"))),
                status: audited.status(),
                exit: match (unknown.is_some() || audited.judgement.is_unread, fails) {
                    (true, _) => Exit::Failed,
                    (false, true) => Exit::Findings,
                    (false, false) => Exit::Aligned,
                },
                worst,
            }
        }
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::NotRead { .. })) => {
            let reason = format!("it {error:#}");
            let json = || to_json(&TargetReport::not_read(name.clone(), reason.clone()));
            Outcome {
                text: if arguments.json { json() } else { String::new() },
                complaint: Some(output::printable(&format!("{name}: not judged: {reason}"))),
                status: Status::NotJudged,
                exit: Exit::Failed,
                worst: Vec::new(),
            }
        }
        Err(error) => {
            let verb = if run.form == Form::Map { "map" } else { "check" };
            let ready = overlay::command(&error, verb, Path::new(&name), &arguments.allow_backing);
            failed(name, format!("{error:#}"), ready, arguments)
        }
    }
}

/// A target of which nothing can be told but `message`, and the command that is `ready` to be run instead.
fn failed(name: String, message: String, ready: Option<String>, arguments: &CheckArguments) -> Outcome {
    let complaint = output::printable(&format!("{name}: {message}"));
    let line = ready.as_deref().map(|line| format!(":\n    {}", output::printable(line))).unwrap_or_default();
    let message = message + &ready.map(|line| format!(": {line}")).unwrap_or_default();
    let json = || to_json(&TargetReport::failed(name.clone(), message.clone()));
    Outcome {
        text: if arguments.json { json() } else { String::new() },
        complaint: Some(complaint + &line),
        status: Status::Failed,
        exit: Exit::Failed,
        worst: Vec::new(),
    }
}

fn render(audited: &Audited, run: &Run) -> String {
    let styles = run.styles;
    if run.arguments.json {
        to_json(&TargetReport::of(audited))
    } else if run.arguments.quiet {
        text::lines(audited)
    } else if run.form == Form::Map {
        text::map(audited, styles)
    } else {
        text::target(audited, run.arguments.verbose, styles)
    }
}

fn to_json(report: &TargetReport) -> String {
    // Strings, numbers and vectors of them: serialising cannot fail.
    output::json_escaped(&serde_json::to_string(report).unwrap_or_default())
}

/// Opens, reads and audits one target.
fn audit(path: &Path, run: &Run) -> Result<Audited> {
    let (options, arguments) = (&run.options, &run.arguments);
    let mut target = match drive_target::specification(path) {
        Some(name) => drive_target::target(name, &options.assume, options.logical)?,
        None => straddle_device::open(path, options)?,
    };
    let mut stack = read(&mut target, options)?;
    if let Some(node) = gone(&target, options) {
        anyhow::bail!("{} was unplugged or removed while it was read", node.display());
    }
    if let Some(in_use) = in_use::stack(&target, run, &stack)? {
        stack = in_use;
    }
    let disagreements = attach_live(&mut target, run, &mut stack);
    target.remarks.extend(sectors::in_question(&target, &stack));
    if matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr) {
        target.topology.adopt_table_block(stack.block);
    }
    let beside = beside(&target, &stack);
    let told = told_beside(&target, &stack, &beside);
    target.remarks.extend(told);
    let name = path.display().to_string();
    let file = target.through.as_ref().map_or(&name, |through| &through.unpacked).clone();
    let node = target.node.as_ref().map_or_else(|| file.clone(), |node| node.display().to_string());
    let in_container = target.container.is_some();
    let context = Context {
        // Partitioning tools would write over the format of an image that is not raw: it has to be connected first.
        target: if in_container { connected::NODE } else { &node },
        file: &name,
        is_image: target.kind == DeviceKind::Image && !in_container,
        kind: target.kind,
        size: target.size,
        topology: &target.topology,
        model: target.identity.model.as_deref(),
        stack: &stack,
        container: target.container.as_ref(),
        disagreements: &disagreements,
        page: arguments.page,
    };
    let mut findings = straddle_audit::run(&context);
    let asked =
        Asked { only: arguments.only.clone(), ignore: arguments.ignore.clone(), partition: target.partition };
    straddle_audit::ask(&mut findings, &asked);
    member::spare(&stack, &beside, &mut findings);
    let mut ready = None;
    if let Some(container) = &target.container
        && let Some((remark, line)) = connected::prepare(&name, container, &mut findings)
    {
        target.remarks.push(format!("{remark}: {line}"));
        ready = Some(line);
    }
    // Removed between those reads, or not yet out of sysfs when the first of them failed.
    let has_failed = findings.iter().any(|finding| finding.rule.kind == Kind::Unreadable);
    if has_failed && let Some(node) = gone_soon(&target, options) {
        anyhow::bail!("{} was unplugged or removed while it was read", node.display());
    }
    if let Some(through) = &target.through {
        let (what, command) = (through.packing.a_file(), &through.command);
        let commands = findings.iter().filter_map(|f| f.cure.as_ref()).any(|cure| !cure.commands.is_empty());
        let unpack =
            if commands { format!("; for the commands below unpack it: {command}") } else { String::new() };
        target.remarks.insert(0, format!("it was read through: what is judged is in {what}{unpack}"));
    }
    let is_unread = target.medium.is_none();
    let recognised = recognised(&target, &stack, run);
    if !matches!(stack.kind, TableKind::Foreign(_) | TableKind::Kernel | TableKind::None)
        && matches!(recognised, Recognised::Nothing(_))
    {
        // What is written for the one that is left over goes over the other.
        findings.iter_mut().filter_map(|f| f.cure.as_mut()).for_each(Cure::without_commands);
    }
    let hidden = match &recognised {
        Recognised::Part(why) => Some(why.clone()),
        _ => None,
    };
    let judgement = Judgement::of(&stack, &findings, recognised);
    // What is found counts, and the status has no room for the rest.
    target.remarks.extend(hidden.filter(|_| judgement.not_judged.is_none()));
    // A batch of targets waits for its last one; their files need not be open for that.
    target.medium = None;
    let price = |finding: &Finding| {
        let pricing = arguments.cost.as_ref().filter(|_| finding.told == Told::Here)?;
        pricing.of(finding)
    };
    let costs = findings.iter().map(price).collect();
    let in_table = stack.partitions.len();
    let mut audited = Audited { name, target, stack, in_table, findings, costs, judgement, ready, is_unread };
    if let Some(number) = audited.target.partition {
        audited.stack.partitions.retain(|p| p.number == number);
    }
    Ok(audited)
}

/// What the target holds besides what the stack says.
fn beside(target: &Target, stack: &Stack) -> Vec<Beside> {
    if matches!(stack.kind, TableKind::Kernel | TableKind::None) {
        return Vec::new();
    }
    let found = target.medium.as_deref().map(|medium| straddle_layout::beside(medium, stack));
    found.and_then(Result::ok).unwrap_or_default()
}

/// The same in a sentence each.
fn told_beside(target: &Target, stack: &Stack, found: &[Beside]) -> Vec<String> {
    let is_of_member = matches!(stack.kind, TableKind::Content(content) if content.is_array_member());
    let rival = || target.medium.as_deref().map(|medium| straddle_layout::rival_table(medium, stack));
    let may_be_arrays = || is_of_member && matches!(rival(), Some(Ok(None)));
    let told = |found: &Beside| match found.what {
        Neighbour::Table(name) if may_be_arrays() => format!(
            "it also has a partition table ({name}), the array's own or one that is left over: check the array for its partitions"
        ),
        Neighbour::Table(name) => format!("it also has a partition table ({name})"),
        Neighbour::Content(content) => format!("it also holds {content}"),
    };
    found.iter().map(told).collect()
}

/// Whether there is something on the target that could be judged.
fn recognised(target: &Target, stack: &Stack, run: &Run) -> Recognised {
    let is_captured = run.options.sysroot.is_some();
    let is_closed = target.medium.is_none() && !is_captured;
    match (target.kind, &stack.kind) {
        // It holds nothing, and is what was asked about.
        (DeviceKind::Modelled, _) => Recognised::Known,
        // What the kernel set up says where it lies, but not what else is there: of a real disk its bytes have to.
        (_, TableKind::Kernel) if is_closed && stack.partitions.is_empty() => {
            Recognised::Nothing(unread(is_captured))
        }
        (_, TableKind::Content(content)) if content.is_array_member() => {
            match in_use::arrays(target, run, *content).as_slice() {
                [] => member::recognised(target, stack, *content),
                arrays => member::of_running(stack, arrays, &run.arguments.targets),
            }
        }
        (_, TableKind::Content(content)) if !in_use::is_content(target, run) => {
            member::rival(target, stack, *content).map_or(Recognised::Known, Recognised::Nothing)
        }
        (_, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr)
            if !in_use::is_in_partitions(target, run) =>
        {
            member::beside_table(target, stack).map_or(Recognised::Known, Recognised::Nothing)
        }
        _ => Recognised::of(stack, || is_blank(target, is_captured)),
    }
}

/// Why nothing can be judged where nothing can be read.
fn unread(is_captured: bool) -> String {
    let hint = if is_captured || is_root() { "" } else { "; run as root" };
    format!("its bytes cannot be read, and the kernel lists no partitions{hint}")
}

/// Whether a target on which nothing is recognised is blank; why that is not known, where it is not.
fn is_blank(target: &Target, is_captured: bool) -> Result<bool, String> {
    let Some(medium) = &target.medium else {
        return Err(unread(is_captured));
    };
    straddle_layout::is_blank(medium.as_ref()).map_err(|error| {
        let error = anyhow::Error::from(error);
        format!("nothing on it is recognised, and not all can be read: {error:#}")
    })
}

/// Has what several targets show of the same thing told at one of them.
fn merge_causes(audited: &mut [&mut Audited], machine: &Machine) {
    let mut seen: Vec<Seen<'_>> = Vec::new();
    for one in audited {
        let (above, on) = all_above(machine, one);
        let below =
            one.target.kernel_name.as_deref().map(|name| below::disks(machine, name)).unwrap_or_default();
        let Audited { name, target, findings, .. } = &mut **one;
        seen.push(Seen { name, device: target.kernel_name.as_deref(), above, on, below, findings });
    }
    straddle_audit::merge_targets(&mut seen);
}

/// The devices that stand on a target, or on a partition of it; and those on each of its partitions.
fn all_above(machine: &Machine, audited: &Audited) -> (BTreeSet<String>, BTreeMap<u32, BTreeSet<String>>) {
    let target = &audited.target;
    let above = |name: &str| {
        let mut names = BTreeSet::new();
        if let Some(device) = machine.layers(name).0 {
            add_holders(&device, &mut names);
        }
        names
    };
    let partitions = target.kernel_partitions.iter().flatten();
    let on: BTreeMap<_, _> = partitions.map(|partition| (partition.number, above(&partition.name))).collect();
    let whole = target.kernel_name.as_deref().map(above).unwrap_or_default();
    (on.values().flatten().cloned().chain(whole).collect(), on)
}

fn add_holders(device: &LiveDevice, names: &mut BTreeSet<String>) {
    // A device that is reached again may be followed further on one of the ways only.
    for holder in &device.holders {
        names.insert(holder.name.clone());
        add_holders(holder, names);
    }
}

/// The node of a device that the kernel no longer has.
fn gone<'a>(target: &'a Target, options: &Options) -> Option<&'a Path> {
    let name = target.kernel_name.as_ref().filter(|_| options.sysroot.is_none())?;
    let is_there = Path::new("/sys/block").join(name).exists();
    target.node.as_deref().filter(|_| !is_there)
}

/// The same of a device that fails: the kernel may still be removing it.
fn gone_soon<'a>(target: &'a Target, options: &Options) -> Option<&'a Path> {
    const PAUSE: Duration = Duration::from_millis(100);
    target.kernel_name.as_ref().filter(|_| options.sysroot.is_none())?;
    (0..5).find_map(|_| {
        gone(target, options).or_else(|| {
            std::thread::sleep(PAUSE);
            None
        })
    })
}

/// Puts the kernel's view of a device beside what was read from it; returns where they differ.
fn attach_live(target: &mut Target, run: &Run, stack: &mut Stack) -> Vec<Disagreement> {
    let Some(name) = &target.kernel_name else { return Vec::new() };
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let (disagreements, remarks) = straddle_layout::live::attach(run.machine(), name, listed, stack);
    target.remarks.extend(remarks);
    disagreements
}

/// What is on a target: its table, or the kernel's list of partitions where the table cannot be read or is of a
/// kind that only the kernel knows.
fn read(target: &mut Target, options: &Options) -> Result<Stack> {
    // An image's block size is found from its table, unless it is declared; a device's is what the kernel uses.
    let declared = options.logical.or(options.assume.logical());
    let logical = &target.topology.logical;
    let stated = matches!(logical.source(), Source::Container(_)).then(|| logical.value());
    let device_block = match target.kind {
        // A container may say it as a device does.
        DeviceKind::Image => declared.or(stated),
        _ => Some(target.topology.logical.value()),
    };
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let by_kernel = || straddle_layout::kernel_stack(listed, target.topology.logical.value());
    let Some(medium) = &target.medium else { return Ok(by_kernel()) };
    match straddle_layout::read_all(medium.as_ref(), device_block, options.logical) {
        Ok(stack) if matches!(stack.kind, TableKind::None | TableKind::Foreign(_)) && !listed.is_empty() => {
            Ok(by_kernel())
        }
        Ok(stack) => Ok(stack),
        // The table is not to be had, but the disk's figures are, and the kernel's list.
        Err(ReadError::Io { at, source }) => {
            let mut stack = by_kernel();
            stack.problems.push(Problem::Unreadable { number: None, at, why: source.to_string() });
            Ok(stack)
        }
        Err(error) if listed.is_empty() => Err(error.into()),
        Err(error) => {
            target.remarks.push(format!("{:#}", anyhow::Error::from(error)));
            Ok(by_kernel())
        }
    }
}
