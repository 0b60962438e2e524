//! The boundaries of a device, each with its name and the rule that a misaligned start breaks.

use straddle_device::topology::{Figure, Source, Topology, USUAL_PHYSICAL};
use straddle_units::{Boundary, ByteCount, MIB};

use crate::catalogue::{self as rules, Code, Rule, Severity};

/// The grain that every current partitioning tool uses: 1 MiB.
pub const GRAIN: ByteCount = ByteCount::new(MIB);

pub(crate) const CHUNK: &str = "RAID chunk";

/// The name of the atomic write boundary in a [`Miss`](crate::Miss).
pub const ATOMIC_UNIT: &str = "atomic write unit";

/// A boundary with its name and the rule that a misaligned start breaks.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name of the boundary.
    pub name: &'static str,
    /// The boundary.
    pub boundary: Boundary,
    /// The rule that a start off this boundary breaks.
    pub rule: &'static Rule,
    /// The severity of a start that misses it.
    pub severity: Severity,
}

/// Larger than any block that every system mounts, so that each block is a read-modify-write.
pub(crate) fn outgrows_blocks(unit: ByteCount) -> bool {
    unit > USUAL_PHYSICAL
}

/// Writes of less than 4 KiB could be larger.
pub(crate) fn severity_of_writes(size: ByteCount) -> Severity {
    if size < USUAL_PHYSICAL { Severity::Warning } else { Severity::Advice }
}

/// Every boundary that a start can miss on this device, the finest first, none twice.
pub fn named_boundaries(topology: &Topology) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    let is_hint = topology.io_min.as_ref().is_some_and(|figure| *figure.source() == Source::HINT);
    let mut add = |name, size: Option<ByteCount>, rule: &'static Rule| {
        let Some(boundary) = size.and_then(|size| topology.boundary_of(size)) else { return };
        if !named.iter().any(|n| n.boundary.size() == boundary.size()) {
            let severity = match rule.code {
                Code::OFF_IO_MIN if is_hint => Severity::Advice,
                Code::START_STRADDLES if outgrows_blocks(boundary.size()) => Severity::Warning,
                _ => rule.severity,
            };
            named.push(Named { name, boundary, rule, severity });
        }
    };
    let value = |figure: &Option<Figure<ByteCount>>| figure.as_ref().map(Figure::value);
    let physical = topology.physical.value();
    let io_opt = crate::optimum::boundary(topology);
    add("physical sector", Some(physical), rules::START_STRADDLES);
    add("indirection unit", value(&topology.indirection_unit), rules::OFF_INDIRECTION_UNIT);
    add(CHUNK, value(&topology.chunk), rules::OFF_STRIPE);
    add("stripe", value(&topology.stripe), rules::OFF_STRIPE);
    add("minimum I/O size", value(&topology.io_min).filter(|min| *min > physical), rules::OFF_IO_MIN);
    add("optimal I/O size", io_opt.filter(|opt| *opt > physical), rules::OFF_IO_OPT);
    add("erase block", value(&topology.erase_block), rules::OFF_ERASE_BLOCK);
    add("1 MiB grain", Some(GRAIN), rules::OFF_GRAIN);
    named
}

/// More than advice, combined, with the atomic unit, if they agree.
pub(crate) fn required(topology: &Topology) -> Option<Boundary> {
    let atomic = topology.atomic.as_ref().and_then(|figure| figure.value().start_boundary());
    let costly = named_boundaries(topology).into_iter().filter(|named| named.severity > Severity::Advice);
    Boundary::meet_all(costly.map(|named| named.boundary).chain(atomic))
}
