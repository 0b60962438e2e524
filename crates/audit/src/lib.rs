//! The audit: takes a topology and what is written on a device, and returns findings.
//!
//! Invariants: it is pure (no file, no clock, no environment), and the different boundaries (physical sector,
//! minimum I/O, indirection unit, stripe, erase block, grain, atomic unit) are never mixed into one.
//!
//! The modules in order of dependency; none uses one that comes later, which a test enforces:
//!
//! - what a rule is and what it finds: catalogue, way, finding
//! - the boundaries of a device: optimum, boundaries
//! - what stands on it, and what that needs: shell, compensation, severity, hidden
//! - fixes: reformat, rebuild, fix, moves
//! - the rules: fit, layers, placement, table, container, device
//! - what the findings come to: causes, repeated, judgement
//! - for `straddle explain`: explain
//!
//! The types hold what a verdict is about. Findings are read, and a verdict takes all of them:
//!
//! ```
//! # use straddle_audit::{Asked, Context, Judgement, Recognised, ask, run};
//! fn judge(context: &Context<'_>, asked: &Asked) -> Judgement {
//!     let mut findings = run(context);
//!     ask(&mut findings, asked);
//!     for finding in &findings {
//!         println!("{} {}", finding.rule.code, finding.message);
//!     }
//!     Judgement::of(&findings, Recognised::Known)
//! }
//! ```
//!
//! No other list is judged, neither one that was filtered nor one that was put together:
//!
//! ```compile_fail,E0308
//! # use straddle_audit::{Context, Finding, Judgement, Recognised, Severity, run};
//! fn judge(context: &Context<'_>) -> Judgement {
//!     let errors = |finding: &&Finding| finding.severity == Severity::Error;
//!     let findings: Vec<Finding> = run(context).iter().filter(errors).cloned().collect();
//!     Judgement::of(&findings, Recognised::Known)
//! }
//! ```
//!
//! ```compile_fail,E0451
//! # use straddle_audit::Findings;
//! fn none() -> Findings {
//!     Findings { list: Vec::new(), partitions: Vec::new() }
//! }
//! ```
//!
//! A finding cannot be made or changed outside this crate, nor a verdict:
//!
//! ```compile_fail,E0639
//! # use straddle_audit::{Finding, Severity};
//! fn milder(finding: Finding) -> Finding {
//!     Finding { severity: Severity::Advice, ..finding }
//! }
//! ```
//!
//! ```compile_fail,E0596
//! # use straddle_audit::{Context, Severity, run};
//! fn milder(context: &Context<'_>) {
//!     let mut findings = run(context);
//!     findings.iter_mut().for_each(|finding| finding.severity = Severity::Advice);
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use straddle_audit::{Judgement, Status};
//! fn pass(judgement: &mut Judgement) {
//!     judgement.status = Status::Ok;
//! }
//! ```

mod boundaries;
mod catalogue;
mod causes;
mod compensation;
mod container;
mod device;
pub mod examine;
mod explain;
mod finding;
mod fit;
mod fix;
pub mod form;
mod hidden;
mod judgement;
mod layers;
mod moves;
mod optimum;
mod placement;
mod rebuild;
mod reformat;
mod repeated;
mod severity;
mod shell;
mod table;
mod way;

#[cfg(test)]
extern crate self as straddle_audit;
#[cfg(test)]
#[path = "../tests/audit/mod.rs"]
mod tests;

use std::sync::{Arc, LazyLock};

use straddle_device::DeviceKind;
use straddle_device::image::Container;
use straddle_device::topology::Topology;
use straddle_layout::live::Disagreement;
use straddle_layout::{Partition, Stack};
use straddle_units::{ByteCount, ByteOffset, Span};

pub use boundaries::{ATOMIC_UNIT, GRAIN, named_boundaries};
pub use catalogue::{Code, Kind, RULES, Rule, Severity, rule};
pub use container::Platform;
pub use explain::{Format, Io, LISTED, RmwCount, count_rmw, format_efficiency, picture};
pub use finding::{
    Cause, Command, Effect, Finding, Findings, Fix, Miss, Place, Reason, Reported, Risk, Subject,
};
pub use fit::{sectors_above, unfit};
pub use fix::{can_shrink, shrinking};
pub use judgement::{Judgement, OfPartition, Recognised, Status, Verdict};
pub use moves::{Journal as MoveJournal, Moves, Planned, PlannedCopy, ShrinkFirst, Stage, Unfinished};
pub use optimum::bogus_io_opt;
pub use placement::{OfStart, starts};
pub use shell::file_about;
pub use way::{Step, called};

/// The input of an audit.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The target's name in commands: a device node, a raw image's path, or the node under which an image of
    /// another format can be attached.
    pub target: &'a str,
    /// The image's path, if the target is an image.
    pub file: &'a str,
    /// Whether the commands work on an image file.
    pub is_image: bool,
    /// The kind of device.
    pub kind: DeviceKind,
    /// The size of its zones; `None` if it is not a zoned device.
    pub zone: Option<ByteCount>,
    /// Its size in bytes.
    pub size: ByteCount,
    /// Its sectors.
    pub topology: &'a Topology,
    /// Its model, if it reports one.
    pub model: Option<&'a str>,
    /// Its partition table and contents.
    pub stack: &'a Stack,
    /// The file format around an image's disk.
    pub container: Option<&'a Container>,
    /// Where the running kernel and the disk disagree.
    pub disagreements: &'a [Disagreement],
    /// What is known about moves of its partitions.
    pub moves: &'a Moves,
    /// Returns the first byte of a span that is written, and neither zeros nor erased; its first byte if that
    /// is not known. No command of a fix writes outside of its partition without asking.
    pub written: &'a dyn Fn(Span) -> Option<ByteOffset>,
    /// The page size of a database that is to be stored on it.
    pub page: Option<ByteCount>,
    /// The platform that an image is meant for.
    pub platform: Option<Platform>,
}

impl<'a> Context<'a> {
    pub(crate) fn partition(&self, number: u32) -> Option<&'a Partition> {
        self.stack.partitions.iter().find(|partition| partition.number == number)
    }

    /// A target of which no more is known. All unallocated space counts as empty.
    pub fn of(
        target: &'a str,
        kind: DeviceKind,
        size: ByteCount,
        topology: &'a Topology,
        stack: &'a Stack,
    ) -> Self {
        static MOVES: LazyLock<Moves> = LazyLock::new(Moves::default);
        Self {
            target,
            file: target,
            is_image: kind == DeviceKind::Image,
            kind,
            zone: None,
            size,
            topology,
            model: None,
            stack,
            container: None,
            disagreements: &[],
            moves: &MOVES,
            written: &|_| None,
            page: None,
            platform: None,
        }
    }
}

/// Findings that do not count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Their rule.
    pub code: Code,
    /// The partition they are on; any, and the disk itself, if `None`.
    pub partition: Option<u32>,
    /// Why they do not count, and where that is written.
    pub reason: Arc<Reason>,
}

impl Exception {
    pub(crate) fn covers(&self, finding: &Finding) -> bool {
        let is_there = self.partition.is_none_or(|number| finding.subject == Subject::Partition(number));
        is_there && self.code == finding.rule.code
    }
}

/// Which findings were asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The rules to report, by code; empty for all rules.
    pub only: Vec<Code>,
    /// The rules not to be reported, by code.
    pub ignore: Vec<Code>,
    /// The findings that do not count. Of several exceptions the first applies.
    pub exceptions: Vec<Exception>,
    /// The partition asked for, if not the whole disk.
    pub partition: Option<u32>,
}

impl Asked {
    fn reported(&self, finding: &Finding) -> Reported {
        let code = finding.rule.code;
        match Option::<u32>::from(finding.subject) {
            Some(number) if self.partition.is_some_and(|asked| asked != number) => Reported::Outside,
            // Unreadable data is always reported: nothing is known about what was asked for.
            _ if finding.rule.kind == Kind::Unreadable => Reported::Here,
            _ if self.ignore.contains(&code) => Reported::NotAsked,
            _ if !self.only.is_empty() && !self.only.contains(&code) => Reported::NotAsked,
            _ => match self.exceptions.iter().find(|exception| exception.covers(finding)) {
                Some(exception) => Reported::Ignored(Arc::clone(&exception.reason)),
                None => Reported::Here,
            },
        }
    }
}

/// Runs every rule and returns all findings: the disk's first, then those of each partition, the worst first.
/// [`ask`] selects which are reported; [`Judgement::of`] derives the verdict on the target from all of them.
pub fn run(context: &Context<'_>) -> Findings {
    let mut findings = Vec::new();
    device::check(context, &mut findings);
    table::check(context, &mut findings);
    moves::check(context, &mut findings);
    container::check(context, &mut findings);
    placement::check_whole_disk(context, &mut findings);
    // The marker of an unfinished move is where its journal has room.
    let judged = |partition: &&Partition| !straddle_layout::is_marker(partition);
    for partition in context.stack.partitions.iter().filter(judged) {
        placement::check(context, partition, &mut findings);
        hidden::check(context, partition, &mut findings);
    }
    // Another file may have the name that stands for one that is not UTF-8.
    let is_lossy = context.target.contains(char::REPLACEMENT_CHARACTER);
    if is_lossy || context.target.contains(straddle_device::shown::is_hidden) {
        // The way out of an unfinished move is always needed: nothing in a quoted name is hidden.
        let is_other = |finding: &&mut Finding| is_lossy || finding.rule.code != Code::UNFINISHED_MOVE;
        let others = findings.iter_mut().filter(is_other);
        others.flat_map(Finding::fixes_mut).for_each(Fix::without_commands);
    }
    layers::check(context, &mut findings);
    fit::check(context, &mut findings);
    severity::contents(context, &mut findings);
    if context.stack.is_hybrid_iso() {
        // Such a change would hit the file system that contains the table.
        for fix in findings.iter_mut().flat_map(Finding::fixes_mut) {
            if fix.writes_table() {
                fix.summary += ". No command is printed, because other tools damage hybrid ISO images. \
                                Recreate the partition there by hand, and copy its contents back";
            }
            fix.without_commands();
        }
    }
    table::mend_first(context, &mut findings);
    if context.moves.unfinished.is_some() {
        // Unallocated space has the data of an unfinished move: nothing else may be written first.
        let others = findings.iter_mut().filter(|finding| finding.rule.code != Code::UNFINISHED_MOVE);
        others.for_each(Finding::unfixed);
    }
    if context.is_image {
        findings.iter_mut().flat_map(Finding::fixes_mut).for_each(|fix| fix::attach(context, fix));
    }
    for finding in &mut findings {
        finding.alternative.take_if(|fix| fix.commands.is_empty());
    }
    sort(&mut findings);
    causes::suspect(context, &mut findings);
    Findings::of(findings, &context.stack.partitions)
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (f.subject, std::cmp::Reverse(f.severity), f.rule.code));
}

/// For sectors of which `context` knows more than in [`run`].
pub(crate) fn fit_again(context: &Context<'_>, findings: &mut Findings) {
    fit::check(context, &mut findings.list);
    sort(&mut findings.list);
}

/// Determines for each finding on a target where it is reported. None is dropped.
pub fn ask(findings: &mut Findings, asked: &Asked) {
    let findings = &mut findings.list[..];
    findings.iter_mut().for_each(|finding| finding.reported = asked.reported(finding));
    repeated::merge(findings);
    repeated::merge_advice(findings);
    causes::settle(findings);
}
