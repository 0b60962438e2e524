//! What a device says about its sectors, as text: figures with their sources.

use std::fmt::Write;

use straddle_device::topology::{AlignmentOffset, AtomicWrites, Figure, Source, Topology};
use straddle_units::{BlockSize, ByteCount};

use super::wrap;

/// Returns a figure with its source, and the sources that disagree.
fn sourced<T: Copy + PartialEq>(figure: &Figure<T>, value: impl Fn(T) -> String) -> String {
    let mut text = format!("{} [{}", value(figure.value()), figure.source());
    if *figure.source() == Source::Assumed {
        text += "; --assume changes it";
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

/// Returns the logical and physical sector, and whatever else is special about this device.
pub(super) fn sectors(topology: &Topology) -> String {
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
    wrap(&parts.join(", "), "  ")
}

/// Returns what every source besides the chosen one says.
fn claims<T: Copy + PartialEq>(figure: &Figure<T>, value: impl Fn(T) -> String) -> Vec<String> {
    figure.others().iter().map(|claim| format!("{} [{}]", value(claim.value), claim.source)).collect()
}

/// Returns every known figure on a line of its own, with all its sources.
pub(super) fn every_figure(topology: &Topology) -> String {
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
        if let Some(figure) = figure {
            line(name, show(figure), sizes(figure));
        }
    }
    let sizes = |a: AtomicWrites| {
        let (min, max, boundary) = (a.unit_min.get(), a.unit_max.get(), a.boundary.get());
        format!("{min} to {max}, boundary {boundary}")
    };
    if let Some(figure) = &topology.atomic {
        line("atomic writes", sourced(figure, sizes), claims(figure, sizes));
    }
    text
}
