//! The audit: a topology and what is written on the device, in; findings, out.
//!
//! The law of this crate: it is pure (no file, no clock, no environment), each rule is one function and one code,
//! and the different boundaries (physical sector, minimum I/O, indirection unit, stripe, erase block, grain, atomic
//! unit) are never mixed into one.

mod catalogue;
mod container;
mod cure;
mod device;
mod efficiency;
mod filesystems;
mod finding;
mod hidden;
mod kind;
mod layers;
mod live;
mod makeup;
mod optimum;
mod picture;
mod placement;
mod rebuild;
mod reformat;
mod repeated;
mod rmw;
mod table;
mod weigh;

use straddle_device::DeviceKind;
use straddle_device::image::Container;
use straddle_device::topology::Topology;
use straddle_layout::live::Disagreement;
use straddle_layout::{Partition, Role, Stack};
use straddle_units::ByteCount;

pub use catalogue::{RULES, UNREADABLE_CODE, rule};
pub use cure::operand;
pub use efficiency::{Format, format_efficiency};
pub use finding::{Command, Cure, Finding, Miss, Risk, Rule, Severity, Subject};
pub use kind::Kind;
pub use layers::{called, level_name};
pub use optimum::bogus_io_opt;
pub use picture::picture;
pub use placement::{ATOMIC_UNIT, GRAIN, named_boundaries};
pub use repeated::shared_file_system;
pub use rmw::{Io, LISTED, RmwCount, count_rmw};

/// What is audited.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// How the target is called in commands: a device node, a raw image's path, or the node under which an image of
    /// another format can be connected.
    pub target: &'a str,
    /// The image's path, where the target is an image.
    pub file: &'a str,
    /// Whether the commands work on an image file.
    pub is_image: bool,
    /// What kind of device it is: who can move its first boundary, and who lists its partitions.
    pub kind: DeviceKind,
    /// Its size in bytes.
    pub size: ByteCount,
    /// Its sectors.
    pub topology: &'a Topology,
    /// Its model, where it says one.
    pub model: Option<&'a str>,
    /// What is written on it.
    pub stack: &'a Stack,
    /// The file format around an image's disk.
    pub container: Option<&'a Container>,
    /// Where the running kernel and the disk disagree.
    pub disagreements: &'a [Disagreement],
    /// The page of a database that is to live on it.
    pub page: Option<ByteCount>,
}

/// What the findings make of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// An extended partition: it holds one-sector structures, and cannot be misaligned in a way that matters.
    Container,
    /// Every boundary that is known is met.
    Aligned,
    /// Only advice is given: the physical sector is met, or missed where nothing is written.
    AlignedWithAdvice,
    /// A boundary that costs on some workloads is missed.
    Off,
    /// It straddles.
    Misaligned,
    /// Its entry is damaged, or contradicts another one.
    Damaged,
}

/// Runs every rule and returns what they find: the disk's findings first, then each partition's, the worst first.
pub fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    device::check(context, &mut findings);
    table::check(context, &mut findings);
    container::check(context, &mut findings);
    placement::check_whole_disk(context, &mut findings);
    for partition in &context.stack.partitions {
        placement::check(context, partition, &mut findings);
        hidden::check(context, partition, &mut findings);
    }
    if context.target.contains(char::is_control) {
        findings.iter_mut().filter_map(|f| f.cure.as_mut()).for_each(Cure::without_commands);
    }
    layers::check(context, &mut findings);
    repeated::merge(&mut findings);
    live::check(context, &mut findings);
    weigh::contents(context, &mut findings);
    if context.stack.is_hybrid_iso {
        // What any tool changes in it, it changes in the file system.
        findings.iter_mut().filter_map(|f| f.cure.as_mut()).for_each(Cure::without_commands);
    }
    findings.sort_by_key(|f| (f.subject, std::cmp::Reverse(f.severity), f.rule.code));
    findings
}

/// Whether a finding on the device leaves no partition on it aligned.
fn is_hopeless(finding: &Finding) -> bool {
    finding.rule == &catalogue::KERNEL_MISALIGNED
}

/// What `findings` make of the placement of `partition`; what stands on it is another matter ([`inside`]).
pub fn verdict(partition: &Partition, findings: &[Finding]) -> Verdict {
    if partition.role == Role::Extended {
        return Verdict::Container;
    }
    // Where no start can be aligned for all members, none is.
    let placed = |f: &Finding| f.subject == Subject::Partition(partition.number) && f.layer.is_none();
    let concerns = |f: &&Finding| placed(f) || is_hopeless(f);
    // Of two that are equally bad, the one about alignment.
    let worst =
        findings.iter().filter(concerns).map(|f| (f.severity, f.rule.kind() == Kind::Alignment)).max();
    match worst {
        None => Verdict::Aligned,
        Some((Severity::Advice, _)) => Verdict::AlignedWithAdvice,
        Some((_, false)) => Verdict::Damaged,
        Some((Severity::Warning, true)) => Verdict::Off,
        Some((Severity::Error, true)) => Verdict::Misaligned,
    }
}

/// The worst that was found in the layers on `partition`.
pub fn inside<'a>(partition: &Partition, findings: &'a [Finding]) -> Option<&'a Finding> {
    let own = |f: &&Finding| f.subject == Subject::Partition(partition.number) && f.layer.is_some();
    findings.iter().filter(own).max_by_key(|f| f.severity)
}
