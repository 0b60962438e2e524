//! The audit: a topology and what is written on the device, in; findings, out.
//!
//! The law of this crate: it is pure (no file, no clock, no environment), each rule is one function and one code,
//! and the different boundaries (physical sector, minimum I/O, indirection unit, stripe, erase block, grain, atomic
//! unit) are never mixed into one.
//!
//! Its modules stand on each other in this order, and none uses one further on; a test holds them to it:
//!
//! - what a rule is and what it finds: catalogue, names, way, finding
//! - the boundaries of a device: optimum, boundaries
//! - what stands on it, and what that needs: shell, makeup, weigh, hidden
//! - fixes: reformat, rebuild, fix
//! - the rules: filesystems, layers, placement, table, container, device, live
//! - what the findings come to: causes, repeated, member, judgement
//! - arithmetic and pictures for `explain`: efficiency, picture, rmw

mod boundaries;
mod catalogue;
mod causes;
mod container;
mod device;
mod efficiency;
mod filesystems;
mod finding;
mod fix;
mod hidden;
mod judgement;
mod layers;
mod live;
mod makeup;
mod member;
mod names;
mod optimum;
mod picture;
mod placement;
mod rebuild;
mod reformat;
mod repeated;
mod rmw;
mod shell;
mod table;
mod way;
mod weigh;

#[cfg(test)]
mod order;

use straddle_device::DeviceKind;
use straddle_device::image::Container;
use straddle_device::topology::Topology;
use straddle_layout::Stack;
use straddle_layout::live::Disagreement;
use straddle_units::ByteCount;

pub use boundaries::{ATOMIC_UNIT, GRAIN, named_boundaries};
pub use catalogue::{About, Code, Kind, RULES, Rule, Severity, rule};
pub use causes::Seen;
pub use efficiency::{Format, format_efficiency};
pub use finding::{Cause, Command, Finding, Fix, Miss, Place, Reported, Risk, Subject};
pub use judgement::{Judgement, OfPartition, Recognised, Status, Verdict};
pub use member::unseen;
pub use names::{called, level_name};
pub use optimum::bogus_io_opt;
pub use picture::picture;
pub use repeated::merge_targets;
pub use rmw::{Io, LISTED, RmwCount, count_rmw};
pub use way::{Step, StepKind};

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

/// What of all that is found was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The rules asked for, by code; all of them where none is given.
    pub only: Vec<Code>,
    /// The rules not to be reported, by code.
    pub ignore: Vec<Code>,
    /// The partition asked for, where it is one and not the disk.
    pub partition: Option<u32>,
}

impl Asked {
    fn reported(&self, finding: &Finding) -> Reported {
        let code = finding.rule.code;
        match finding.subject {
            Subject::Partition(number) if self.partition.is_some_and(|asked| asked != number) => {
                Reported::Outside
            }
            // What cannot be read is no matter of choice: nothing is known of what was asked for.
            _ if finding.rule.kind == Kind::Unreadable => Reported::Here,
            _ if self.ignore.contains(&code) => Reported::NotAsked,
            _ if self.only.is_empty() || self.only.contains(&code) => Reported::Here,
            _ => Reported::NotAsked,
        }
    }
}

/// Runs every rule and returns all that they find: the disk's findings first, then each partition's, the worst first.
/// [`ask`] says which of them are reported, [`Judgement::of`] what all of them make of the target.
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
    if context.target.contains(straddle_device::shown::is_hidden) {
        findings.iter_mut().filter_map(|f| f.fix.as_mut()).for_each(Fix::without_commands);
    }
    layers::check(context, &mut findings);
    live::check(context, &mut findings);
    weigh::contents(context, &mut findings);
    if context.stack.is_hybrid_iso {
        // What any tool changes in it, it changes in the file system.
        findings.iter_mut().filter_map(|f| f.fix.as_mut()).for_each(Fix::without_commands);
    }
    table::mend_first(context, &mut findings);
    findings.sort_by_key(|f| (f.subject, std::cmp::Reverse(f.severity), f.rule.code));
    causes::suspect(context, &mut findings);
    findings
}

/// Determines for each finding on a target where it is reported. None is dropped: a verdict is about what is true.
pub fn ask(findings: &mut [Finding], asked: &Asked) {
    findings.iter_mut().for_each(|finding| finding.reported = asked.reported(finding));
    repeated::merge(findings);
    causes::settle(findings);
}
