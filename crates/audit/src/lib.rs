//! The audit: takes a topology and what is written on a device, and returns findings.
//!
//! Invariants: it is pure (no file, no clock, no environment), each rule is one function and one code,
//! and the different boundaries (physical sector, minimum I/O, indirection unit, stripe, erase block, grain, atomic
//! unit) are never mixed into one.
//!
//! The modules are listed in order of dependency, and none uses one that comes later; a test enforces this:
//!
//! - what a rule is and what it finds: catalogue, names, way, finding, findings
//! - the boundaries of a device: optimum, boundaries
//! - what stands on it, and what that needs: shell, compensation, severity, hidden
//! - fixes: reformat, rebuild, fix, moves
//! - the rules: fit, filesystems, layers, placement, table, container, device, live
//! - what the findings come to: causes, repeated, member, judgement
//! - arithmetic and pictures for `explain`: efficiency, picture, rmw
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
mod efficiency;
pub mod examine;
mod filesystems;
mod finding;
mod findings;
mod fit;
mod fix;
pub mod form;
mod hidden;
mod judgement;
mod layers;
mod live;
mod member;
mod moves;
mod names;
mod optimum;
mod picture;
mod placement;
mod rebuild;
mod reformat;
mod repeated;
mod rmw;
mod severity;
mod shell;
mod table;
mod way;

#[cfg(test)]
mod order;

use std::sync::{Arc, LazyLock};

use straddle_device::DeviceKind;
use straddle_device::image::Container;
use straddle_device::topology::Topology;
use straddle_layout::Stack;
use straddle_layout::live::Disagreement;
use straddle_units::{ByteCount, ByteOffset, Span};

pub use boundaries::{ATOMIC_UNIT, GRAIN, named_boundaries};
pub use catalogue::{About, Code, Definition, Kind, RULES, Rule, Severity, rule};
pub use causes::Seen;
pub use container::Platform;
pub use efficiency::{Format, format_efficiency};
pub use finding::{Cause, Command, Effect, Finding, Fix, Miss, Place, Reason, Reported, Risk, Subject};
pub use findings::Findings;
pub use fit::{Misfit, Unfit, sectors_above, unfit};
pub use fix::{can_shrink, shrinking};
pub use judgement::{Judgement, OfPartition, Recognised, Status, Verdict};
pub use member::unseen;
pub use moves::{Journal as MoveJournal, Moves, Planned, PlannedCopy, ShrinkFirst, Stage, Unfinished, Ways};
pub use names::called;
pub use optimum::{ALL_ONES, bogus_io_opt};
pub use picture::picture;
pub use placement::{OfStart, starts};
pub use repeated::merge_targets;
pub use rmw::{Io, LISTED, RmwCount, count_rmw};
pub use shell::file_about;
pub use way::{Step, StepKind};

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
    /// The kind of device: it determines whether its first boundary can be moved, and what lists its
    /// partitions.
    pub kind: DeviceKind,
    /// The size of its zones, if it is a zoned device: nothing is moved in place there.
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
    /// Returns what is known of a target of this name and its sectors and contents, and of nothing else: nothing is
    /// known of its model, its container or moves, and all that no partition has counts as empty.
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
    /// Whether it is about this finding.
    pub fn covers(&self, finding: &Finding) -> bool {
        let is_there = match (self.partition, finding.subject) {
            (None, _) => true,
            (Some(number), Subject::Partition(subject)) => number == subject,
            (Some(_), Subject::Disk) => false,
        };
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
        match finding.subject {
            Subject::Partition(number) if self.partition.is_some_and(|asked| asked != number) => {
                Reported::Outside
            }
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
    let judged = |partition: &&straddle_layout::Partition| !straddle_layout::is_marker(partition);
    for partition in context.stack.partitions.iter().filter(judged) {
        placement::check(context, partition, &mut findings);
        hidden::check(context, partition, &mut findings);
    }
    if context.target.contains(straddle_device::shown::is_hidden) {
        // The way out of an unfinished move is needed whatever the disk is called: nothing in its quoted name is hidden.
        let others = findings.iter_mut().filter(|finding| finding.rule.code != Code::UNFINISHED_MOVE);
        others.flat_map(Finding::fixes_mut).for_each(Fix::without_commands);
    }
    layers::check(context, &mut findings);
    fit::check(context, &mut findings);
    live::check(context, &mut findings);
    severity::contents(context, &mut findings);
    if context.stack.is_hybrid_iso() {
        // A tool that changes such an image's table changes the file system that contains it.
        for fix in findings.iter_mut().flat_map(Finding::fixes_mut) {
            if fix.writes_table() {
                fix.summary += ": no command is given, because other tools break a hybrid ISO image; \
                                recreate the partition there, and copy its contents back";
            }
            fix.without_commands();
        }
    }
    table::mend_first(context, &mut findings);
    if context.moves.unfinished.is_some() {
        // What looks unallocated has the data of the partitions that move: nothing else may be written first.
        for finding in findings.iter_mut().filter(|finding| finding.rule.code != Code::UNFINISHED_MOVE) {
            (finding.fix, finding.alternative) = (None, None);
        }
    }
    // The other fix is worth nothing without its commands.
    for finding in &mut findings {
        finding.alternative.take_if(|fix| fix.commands.is_empty());
    }
    sort(&mut findings);
    causes::suspect(context, &mut findings);
    Findings::complete(findings, &context.stack.partitions)
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (f.subject, std::cmp::Reverse(f.severity), f.rule.code));
}

/// Adds the findings on contents that do not fit, where `context` knows more of the sectors below than it did in [`run`].
pub(crate) fn fit_again(context: &Context<'_>, findings: &mut Findings) {
    fit::check(context, findings.completed());
    sort(findings.completed());
}

/// Determines for each finding on a target where it is reported. None is dropped: a verdict is about what is
/// true.
pub fn ask(findings: &mut Findings, asked: &Asked) {
    let findings = findings.marked();
    findings.iter_mut().for_each(|finding| finding.reported = asked.reported(finding));
    repeated::merge(findings);
    repeated::merge_advice(findings);
    causes::settle(findings);
}
