//! Rules about an image as a whole: its size, and where the guest's blocks lie in the container's file.

use std::fmt;
use std::str::FromStr;

use straddle_device::DeviceKind;
use straddle_device::image::{Container, Format};
use straddle_device::topology::Source;
use straddle_layout::TableKind;
use straddle_units::{Boundary, ByteCount, ByteOffset, GIB, KERNEL_SECTOR, MIB};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Finding, Fix, Miss, Risk, Severity};
use crate::shell::operand;
use crate::table;

/// A platform that accepts only images of certain formats and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Microsoft Azure: fixed VHDs of whole MiB.
    Azure,
    /// Google Compute Engine: a raw disk of whole GiB.
    Gce,
}

struct Demand {
    name: &'static str,
    unit: u64,
    sentence: &'static str,
    conversion: &'static str,
}

impl Platform {
    const ALL: [Self; 2] = [Self::Azure, Self::Gce];

    const fn demand(self) -> Demand {
        match self {
            Self::Azure => Demand {
                name: "azure",
                unit: MIB,
                sentence: "Azure accepts only fixed VHDs whose size is a whole number of MiB",
                conversion: "qemu-img convert -O vpc -o subformat=fixed,force_size",
            },
            Self::Gce => Demand {
                name: "gce",
                unit: GIB,
                sentence: "Google Compute Engine accepts only a raw image named disk.raw whose size is a \
                           whole number of GiB",
                conversion: "qemu-img convert -O raw",
            },
        }
    }

    fn takes(self, container: Option<&Container>) -> bool {
        let is_fixed = |one: &Container| one.format == Format::Vhd && one.variant == "fixed";
        match self {
            Self::Azure => container.is_some_and(is_fixed),
            Self::Gce => container.is_none(),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.demand().name)
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|platform| platform.demand().name.eq_ignore_ascii_case(text));
        let names = Self::ALL.map(|platform| platform.demand().name);
        named.ok_or_else(|| format!("unknown platform: use {}", names.join(" or ")))
    }
}

pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    if context.kind == DeviceKind::Image {
        // An unrecognised file may be no disk.
        if context.stack.kind != TableKind::None {
            check_size(context, findings);
        }
        findings.extend(context.platform.and_then(|platform| for_platform(context, platform)));
    }
    let Some(container) = context.container else { return };
    check_placement(context, container, findings);
    let physical = context.topology.physical.value();
    if container.block < physical && container.block != ByteCount::ZERO {
        let message = format!(
            "{} ({}) allocates {} bytes at a time, less than the host's {}-byte physical sector",
            container.format,
            container.variant,
            container.block.get(),
            physical.get()
        );
        let fix = convert(context, "qcow2 -o cluster_size=64k");
        findings.push(Finding::on_disk(rules::CONTAINER_UNIT_SMALL, None, message).fixed_by(fix));
    }
}

/// Compares the size with declared, table and 512-byte sectors; assumed ones do not count.
fn check_size(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let (logical, physical) = (context.topology.logical.value().bytes(), &context.topology.physical);
    let (unit, name, severity, effect) =
        if !context.size.is_multiple_of(logical) && logical > KERNEL_SECTOR.bytes() {
            let effect = "on storage with such sectors, the incomplete last sector is inaccessible, and QEMU \
                          does not open the image for uncached writing";
            (logical, "logical sector", Severity::Warning, effect)
        } else if !context.size.is_multiple_of(logical) {
            (logical, "sector", Severity::Advice, "a loop device omits the bytes after the last whole sector")
        } else if *physical.source() == Source::Declared && !context.size.is_multiple_of(physical.value()) {
            let effect = "tools that use sectors of that size (QEMU without a cache on a 4Kn host, fastboot) \
                          refuse the image";
            (physical.value(), "physical sector", Severity::Advice, effect)
        } else {
            return;
        };
    let called = format!("the {}-byte {name}", unit.get());
    let Some((miss, too_long)) = past_multiple(context, unit, &called) else { return };
    let end = ByteOffset::new(context.size.get());
    let finding = Finding::on_disk(rules::IMAGE_SIZE, Some(end), format!("{too_long}: {effect}"));
    let finding = finding.missing(Miss { name, ..miss }).fixed_by(grow(context, ByteCount::new(MIB)));
    findings.push(Finding { severity, ..finding });
}

fn past_multiple(context: &Context<'_>, unit: ByteCount, called: &str) -> Option<(Miss, String)> {
    let size = context.size.get();
    let miss = Miss::of("sector", Boundary::multiples_of(unit)?, ByteOffset::new(size))?;
    let past = miss.past.get();
    let message = format!("the image is {size} bytes long, {past} more than a multiple of {called}");
    Some((miss, message))
}

fn for_platform(context: &Context<'_>, platform: Platform) -> Option<Finding> {
    let Demand { unit, sentence: demand, conversion, .. } = platform.demand();
    let unit = ByteCount::new(unit);
    let format = context.container.map_or_else(
        || "raw".to_owned(),
        |container| format!("{} ({})", container.format, container.variant),
    );
    let too_long = past_multiple(context, unit, &unit.get().to_string());
    let (severity, message, fix) = if let Some((_, too_long)) = too_long {
        (Severity::Error, format!("{demand}: {too_long} (format: {format})"), grow(context, unit))
    } else if !platform.takes(context.container) {
        let summary = format!("convert it: {conversion} {} NEW", operand(context.file));
        (
            Severity::Advice,
            format!("{demand}: the size is right, but the format is {format}"),
            Fix::advice(summary),
        )
    } else {
        return None;
    };
    Some(Finding { severity, ..Finding::on_disk(rules::IMAGE_SIZE, None, message).fixed_by(fix) })
}

/// Only a raw image keeps its exact size in every tool.
fn grow(context: &Context<'_>, unit: ByteCount) -> Fix {
    let size = context.size.get().checked_next_multiple_of(unit.get()).unwrap_or(context.size.get());
    let file = operand(context.file);
    let (raw, how) = match context.container {
        None => (file.clone(), String::new()),
        Some(_) => ("NEW.raw".to_owned(), format!("qemu-img convert -O raw {file} NEW.raw && ")),
    };
    let has_backup = matches!(context.stack.kind, TableKind::Gpt | TableKind::HybridMbr);
    let convert = match context.platform {
        Some(platform @ Platform::Azure) => format!("; then {} {raw} NEW.vhd", platform.demand().conversion),
        _ => String::new(),
    };
    let seen = context.moves.options.as_ref().filter(|_| context.stack.problems.is_empty());
    if let (true, None, Some(seen)) = (has_backup, context.container, seen) {
        let mut commands = vec![Command::other("truncate", format!("truncate -s {size} {raw}"))];
        commands.extend(table::planned(context, &format!("{seen} --relocate-backup")));
        let summary =
            format!("extend the image to {size} bytes, and move the backup GPT to its end{convert}");
        return Fix { summary, commands, risk: Some(Risk::Backup), caution: None };
    }
    let backup = if has_backup { "; check it again, and move the backup GPT to its end (S034)" } else { "" };
    Fix::advice(format!("extend the image: {how}truncate -s {size} {raw}{backup}{convert}"))
}

/// The host's physical sectors are assumed to be those of the guest's layout.
fn check_placement(context: &Context<'_>, container: &Container, findings: &mut Vec<Finding>) {
    let physical = context.topology.physical.value();
    let Some(placed) = container.placement.first_below(physical) else { return };
    let Some(boundary) = Boundary::multiples_of(physical) else { return };
    let past = boundary.skew(placed.guest, placed.host);
    // A container block smaller than the boundary may begin inside a guest's sector.
    let what = if boundary.past(placed.host) == past { "" } else { "so the guest's boundaries are " };
    let message = format!(
        "{} ({}) stores byte {} of the guest's disk at byte {} of the file, {what}{} bytes past a {}-byte \
         boundary. Blocks that are aligned in the guest straddle boundaries on the host",
        container.format,
        container.variant,
        placed.guest,
        placed.host,
        past.get(),
        physical.get()
    );
    let finding = Finding::on_disk(rules::CONTAINER_OFF, Some(placed.host), message);
    let finding = finding.missing(Miss { name: "physical sector of the host", boundary, past });
    findings.push(finding.fixed_by(convert(context, "qcow2")));
}

fn convert(context: &Context<'_>, format: &str) -> Fix {
    let (target, new) = (operand(context.file), operand(&format!("{}.new", context.file)));
    let line = format!("qemu-img convert -O {format} {target} {new}");
    Fix {
        summary: "convert the image to a format that keeps blocks aligned (raw, qcow2, VHDX, or a fixed VHD)"
            .to_owned(),
        commands: vec![Command::other("qemu-img", line)],
        risk: Some(Risk::Safe),
        caution: Some(format!(
            "shut down the guest first, and change its configuration to use {new} afterwards; if that file \
             exists, it is overwritten"
        )),
    }
}
