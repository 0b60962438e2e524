//! `straddle plan`: turns a request into a plan for one disk. It writes nothing but the plan.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use straddle_device::{Options, Target};
use straddle_repair::other_tools::{Free, Peer, peers};
use straddle_repair::{Depth, Document, Present};
use straddle_repair::{Plan, Request, Seed, from_sfdisk, make, parse_file, to_sfdisk};
use straddle_units::{ByteOffset, Lba};

use super::saved::save;
use crate::args::PlanArguments;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output;
use crate::output_file;
use crate::random;
use crate::view::text;

/// The largest request in bytes: enough for tens of thousands of partitions.
const LARGEST_REQUEST: u64 = 1 << 20;

/// A plan, with what is printed beside it.
pub(crate) struct Planned {
    /// The target as given.
    pub(crate) name: String,
    /// The same, with all of its bytes.
    pub(crate) target: PathBuf,
    pub(crate) plan: Plan,
    /// Where other tools would put each new partition, by its number.
    pub(crate) peers: Vec<(u32, Vec<Peer>)>,
}

pub(crate) fn run(arguments: &PlanArguments) -> Result<Exit> {
    let request = request(arguments)?;
    let options = Options {
        assume: arguments.sectors.topology(),
        // In a conversion this size is the table's, not the target's.
        logical: arguments.logical.filter(|_| arguments.convert_table.is_none()),
        format: arguments.format,
        ..Options::default()
    };
    let name = arguments.target.display().to_string();
    let depth = match arguments.convert_table {
        Some(size) => Depth::OtherSectors { former: arguments.logical, new: size },
        None => Depth::Contents,
    };
    let present = Present::to_change(&arguments.target, &options, depth).with_context(|| name.clone())?;
    let plan = make(&present.situation(), &request).with_context(|| name.clone())?;
    if let Some(path) = &arguments.save {
        let inputs = [Some(&arguments.target), arguments.file.as_ref(), arguments.from_sfdisk.as_ref()];
        let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
        save(path, &(plan.to_json()? + "\n"), &inputs)?;
    }
    let peers = if arguments.explain { all_peers(present.target(), &plan) } else { Vec::new() };
    let planned = Planned { name, target: arguments.target.clone(), plan, peers };
    if arguments.json {
        output::print_json(&Document::of(&planned.plan))?;
        return Ok(Exit::Success);
    }
    let text = if arguments.to_sfdisk {
        to_sfdisk(&planned.plan, &planned.name)
    } else {
        text::plan::plan(&planned, output_file::named(arguments.save.as_ref()), arguments.explain)
    };
    output::print(&text)?;
    Ok(Exit::Success)
}

/// Returns the request made by the command line and its files.
fn request(arguments: &PlanArguments) -> Result<Request> {
    let mut request = Request::new(match arguments.seed {
        Some(seed) => seed,
        None => random_seed()?,
    });
    request.table = arguments.table.map(Into::into);
    request.allow_misaligned = arguments.allow_misaligned;
    request.grain = arguments.grain;
    request.wipe = arguments.wipe;
    request.convert = arguments.convert_table.is_some();
    (request.repair, request.relocate_backup) = (arguments.repair, arguments.relocate_backup);
    let read = |path: &Path| {
        let text = input::open(path).and_then(|file| input::text_of(file, LARGEST_REQUEST));
        text.with_context(|| format!("{}: cannot read the request", path.display()))
    };
    if let Some(path) = &arguments.file {
        parse_file(&read(path)?, &mut request).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &arguments.from_sfdisk {
        from_sfdisk(&read(path)?, &mut request).with_context(|| path.display().to_string())?;
    }
    request.parts.extend(arguments.part.iter().chain(&arguments.add).cloned());
    UsageError::unless_once("--delete", arguments.delete.iter().copied())?;
    request.delete.extend(&arguments.delete);
    request.grow.extend(&arguments.grow);
    if let Some(start) = arguments.start {
        let first = request.parts.first_mut();
        first
            .ok_or_else(|| {
                UsageError("--start applies to a partition: give --part or --add as well".to_owned())
            })?
            .start = Some(start);
    }
    Ok(request)
}

pub(super) fn random_seed() -> Result<Seed> {
    Ok(Seed(u128::from_be_bytes(random::bytes("cannot read random numbers")?)))
}

/// Returns where the other tools would put each new partition.
fn all_peers(target: &Target, plan: &Plan) -> Vec<(u32, Vec<Peer>)> {
    let block = target.topology.logical.value();
    let byte = |lba: Lba| lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX));
    let entries = &plan.table.partitions;
    let of = |entry: &straddle_repair::Entry| {
        // They begin at the start of the free space before the partition.
        let before =
            entries.iter().filter(|e| e.slot != straddle_repair::Slot::Extended && e.start < entry.start);
        let free = match before.map(straddle_repair::Entry::end).max() {
            None if plan.fresh => Free::Front(plan.table.format),
            behind => Free::From(plan.table.format, byte(behind.unwrap_or(plan.table.first_usable))),
        };
        (entry.number, peers(&target.topology, target.size, free))
    };
    entries
        .iter()
        .filter(|e| e.change == straddle_repair::Change::New && e.slot != straddle_repair::Slot::Extended)
        .map(of)
        .collect()
}
