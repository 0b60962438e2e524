//! A target with everything found on it.

use straddle_audit::{Asked, Context, Finding, Fix, Judgement, Kind, Place, Recognised, Reported};
use straddle_device::{DeviceKind, Target};
use straddle_layout::live::Disagreement;
use straddle_layout::{Stack, TableKind};

use crate::gone::{gone, gone_soon};
use crate::{ExamineError, Examiner, connected, in_use, member, read, recognised, sectors};

/// A target with everything found on it.
pub struct Examined {
    /// The target as it was named.
    pub name: String,
    /// Its sectors and what else is known of the device; its medium is closed.
    pub target: Target,
    /// What is written on it: of a partition, that one only.
    pub stack: Stack,
    /// The number of partitions in the table, whichever was asked for.
    pub in_table: usize,
    /// Every finding, wherever it is reported.
    pub findings: Vec<Finding>,
    /// What each of them costs, where that was asked for and can be computed.
    pub costs: Vec<Option<Cost>>,
    /// The verdict of all findings.
    pub judgement: Judgement,
    /// The command that the last of the target's remarks ends with, where one does.
    pub ready: Option<String>,
    /// Whether its bytes could not be read at all.
    pub is_unread: bool,
}

/// How many times as long writes take as on the boundaries.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The drive that was modelled, or probed.
    pub drive: String,
    /// Whether it was measured; otherwise it is derived from the model.
    pub measured: bool,
    /// Distance in bytes from the drive's boundary before.
    pub past: u64,
    /// Random writes: of 4096 bytes on a model, of a unit each made durable where it was measured.
    pub random_write: f64,
    /// Writes of 4096 bytes one after the other, each with an fsync.
    pub sequential_write: Option<f64>,
}

/// Prices findings, by a model or by a measurement.
pub trait Price: Send + Sync {
    /// What the finding costs; `None` where it misses no boundary, or there is no such place on the drive.
    fn price(&self, finding: &Finding) -> Option<Cost>;
}

impl Cost {
    /// Its source.
    pub const fn source(&self) -> &'static str {
        if self.measured { "measured" } else { "derived from the model" }
    }
}

impl Examined {
    /// Whether it is an image.
    pub fn is_image(&self) -> bool {
        self.target.kind == DeviceKind::Image
    }

    /// Why it is not judged, where it is not.
    pub fn not_judged(&self) -> Option<&str> {
        self.judgement.not_judged.as_deref()
    }

    /// The kinds of the findings that make the status, in order.
    pub fn kinds(&self) -> &[Kind] {
        &self.judgement.kinds
    }

    /// The findings that are reported here, each with its cost.
    pub fn reported(&self) -> impl Iterator<Item = (&Finding, Option<&Cost>)> {
        let listed = self.findings.iter().zip(&self.costs);
        listed
            .filter(|(finding, _)| finding.reported == Reported::Here)
            .map(|(finding, cost)| (finding, cost.as_ref()))
    }

    /// What is to be known of it besides findings, with where those are reported that another target shows as well.
    pub fn remarks(&self) -> Vec<String> {
        let elsewhere = self.findings.iter().filter_map(|finding| match &finding.reported {
            Reported::At(Place::Target(name)) => {
                let layer = finding.layer.last().map_or(String::new(), |step| format!(" ({})", step.called));
                Some(format!("{}{layer} is reported at {name}", finding.rule.code))
            }
            _ => None,
        });
        self.target.remarks.iter().cloned().chain(elsewhere).collect()
    }
}

/// Reads and audits an open target.
pub(crate) fn examine(
    examiner: &Examiner,
    name: String,
    mut target: Target,
) -> Result<Examined, ExamineError> {
    let options = examiner.options();
    let mut stack = read::read(&mut target, &options.open)?;
    if let Some(node) = gone(&target, options) {
        return Err(ExamineError::Gone(node.to_owned()));
    }
    if let Some(in_use) = in_use::stack(&target, examiner, &stack)? {
        stack = in_use;
    }
    let disagreements = attach_live(&mut target, examiner, &mut stack);
    target.remarks.extend(sectors::in_question(&target, &stack));
    sectors::adopt(&mut target, &stack);
    let beside = recognised::beside(&target, &stack);
    let remarks = recognised::remarks_beside(&target, &stack, &beside);
    target.remarks.extend(remarks);

    let mut findings = audit(&name, &target, &stack, &disagreements, options);
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
        return Err(ExamineError::Gone(node.to_owned()));
    }
    read_through(&mut target, &findings);

    let recognised = recognised::recognised(&target, &stack, examiner);
    if !matches!(stack.kind, TableKind::Foreign(_) | TableKind::Kernel | TableKind::None)
        && matches!(recognised, Recognised::Nothing(_))
    {
        // What is written for the one that is left over goes over the other.
        findings.iter_mut().filter_map(|f| f.fix.as_mut()).for_each(Fix::without_commands);
    }
    let hidden = match &recognised {
        Recognised::Part(why) => Some(why.clone()),
        _ => None,
    };
    let judgement = Judgement::of(&stack, &findings, recognised);
    // What is found counts, and the status has no room for the rest.
    target.remarks.extend(hidden.filter(|_| judgement.not_judged.is_none()));
    let is_unread = target.medium.is_none();
    // A run may keep thousands of these; their files need not be open for that.
    target.medium = None;
    let price = |finding: &Finding| {
        options.price.as_ref().filter(|_| finding.reported == Reported::Here)?.price(finding)
    };
    let costs = findings.iter().map(price).collect();
    let in_table = stack.partitions.len();
    if let Some(number) = target.partition {
        stack.partitions.retain(|p| p.number == number);
    }
    Ok(Examined { name, target, stack, in_table, findings, costs, judgement, ready, is_unread })
}

/// Every finding, each with where it is reported.
fn audit(
    name: &str,
    target: &Target,
    stack: &Stack,
    disagreements: &[Disagreement],
    options: &crate::Options,
) -> Vec<Finding> {
    let file = target.through.as_ref().map_or(name, |through| &through.unpacked);
    let node = target.node.as_ref().map_or_else(|| file.to_owned(), |node| node.display().to_string());
    let in_container = target.container.is_some();
    let mut findings = straddle_audit::run(&Context {
        // Partitioning tools would write over the format of an image that is not raw: it has to be connected first.
        target: if in_container { connected::NODE } else { &node },
        file: name,
        is_image: target.kind == DeviceKind::Image && !in_container,
        kind: target.kind,
        size: target.size,
        topology: &target.topology,
        model: target.identity.model.as_deref(),
        stack,
        container: target.container.as_ref(),
        disagreements,
        page: options.page,
    });
    let (only, ignore) = (options.only.clone(), options.ignore.clone());
    straddle_audit::ask(&mut findings, &Asked { only, ignore, partition: target.partition });
    findings
}

/// Puts the kernel's view of a device beside what was read from it; returns where they differ.
fn attach_live(target: &mut Target, examiner: &Examiner, stack: &mut Stack) -> Vec<Disagreement> {
    let Some(name) = &target.kernel_name else { return Vec::new() };
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let (disagreements, remarks) = straddle_layout::live::attach(examiner.machine(), name, listed, stack);
    target.remarks.extend(remarks);
    disagreements
}

/// Says of a compressed image that it was read through, and how it is unpacked where commands are printed for it.
fn read_through(target: &mut Target, findings: &[Finding]) {
    let Some(through) = &target.through else { return };
    let (what, command) = (through.packing.a_file(), &through.command);
    let has_commands = findings.iter().filter_map(|f| f.fix.as_ref()).any(|fix| !fix.commands.is_empty());
    let unpack =
        if has_commands { format!("; for the commands below unpack it: {command}") } else { String::new() };
    target.remarks.insert(0, format!("it was read through: what is judged is in {what}{unpack}"));
}
