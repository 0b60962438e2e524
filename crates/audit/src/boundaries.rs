//! The boundaries of a device, each with its name and the rule that a misaligned start breaks.
//!
//! The law of this module: boundaries are never mixed; a boundary that another one already covers is not
//! listed again.

use straddle_device::topology::Topology;
use straddle_units::{Boundary, ByteCount, MIB};

use crate::catalogue::{self as rules, Rule, Severity};

/// The grain that every current partitioning tool uses: 1 MiB.
pub const GRAIN: ByteCount = ByteCount::new(MIB);

/// The name of the atomic write boundary in a [`Miss`].
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
}

/// Every boundary that a start can miss on this device, the finest first. A boundary that another one already
/// covers (the minimum I/O size of an SSD that is its indirection unit) is not listed twice.
pub fn named_boundaries(topology: &Topology) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    let mut add = |name, size: Option<ByteCount>, rule| {
        let Some(boundary) = size.and_then(|size| topology.boundary_of(size)) else { return };
        if !named.iter().any(|n| n.boundary.size() == boundary.size()) {
            named.push(Named { name, boundary, rule });
        }
    };
    let value =
        |figure: &Option<straddle_device::topology::Figure<ByteCount>>| figure.as_ref().map(|f| f.value());
    let physical = topology.physical.value();
    // An optimal I/O size that cannot be true is not a boundary.
    let io_opt = crate::optimum::boundary(topology);
    add("physical sector", Some(physical), rules::START_STRADDLES);
    add("indirection unit", value(&topology.indirection_unit), rules::OFF_INDIRECTION_UNIT);
    add("RAID chunk", value(&topology.chunk), rules::OFF_STRIPE);
    add("stripe", value(&topology.stripe), rules::OFF_STRIPE);
    add("minimum I/O size", value(&topology.io_min).filter(|min| *min > physical), rules::OFF_IO_MIN);
    add("optimal I/O size", io_opt.filter(|opt| *opt > physical), rules::OFF_IO_OPT);
    add("erase block", value(&topology.erase_block), rules::OFF_ERASE_BLOCK);
    add("1 MiB grain", Some(GRAIN), rules::OFF_GRAIN);
    named
}

/// The boundary that a good start is on: all boundaries whose rules are more than advice, and that of the
/// atomic unit, combined. `None` if they contradict each other.
pub(crate) fn required(topology: &Topology) -> Option<Boundary> {
    let atomic = topology.atomic.as_ref().and_then(|figure| figure.value().start_boundary());
    let costly =
        named_boundaries(topology).into_iter().filter(|named| named.rule.severity > Severity::Advice);
    Boundary::meet_all(costly.map(|named| named.boundary).chain(atomic))
}
