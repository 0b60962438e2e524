//! `straddle bench`: a workload at one offset after the other.

mod fio;
pub(crate) mod real;
mod restore;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use straddle_bench::{
    Dd, Host, Modelled, RandomRead, RandomWrite, RunError, SequentialRead, SequentialWrite, StridedWrite,
    Target, Workload, sweep,
};

use crate::args::{BenchArguments, Kind};
use crate::exit::{Exit, UsageError};
use crate::keep;
use crate::modelled;
use crate::output::{self, Styles};
use crate::progress::Bar;
use crate::view::json::bench::{Bench, BenchReport};
use crate::view::text;

pub(crate) fn run(arguments: &BenchArguments, styles: Styles) -> Result<Exit> {
    if arguments.real.restore {
        return restore::restore_all(arguments);
    }
    if let Some(path) = &arguments.real.import_fio {
        return fio::import(arguments, path, styles);
    }
    if let Some(path) = &arguments.svg {
        keep::may_replace(path, &target(arguments))?;
    }
    // Required, unless one of the two above is given.
    let (Some(kind), Some(target)) = (arguments.workload, arguments.target.as_deref()) else {
        return Err(UsageError("what to run, and on what, must be given".into()).into());
    };
    refuse_foreign(arguments, kind, target)?;
    let workload = workload(arguments, kind, target);
    if let Some(path) = &arguments.real.emit_fio {
        return fio::emit(arguments, target, &workload, path);
    }
    if target.starts_with(modelled::PREFIX) {
        on_model(arguments, target, &workload, styles)
    } else {
        real::run(arguments, Path::new(target), &workload, styles)
    }
}

fn on_model(arguments: &BenchArguments, target: &str, workload: &Workload, styles: Styles) -> Result<Exit> {
    let profile = modelled::profile_of_target(target, "bench")?;
    let host = Host { overhead_ns: arguments.host_overhead };
    let fresh = || Modelled::new(target, &profile);
    let mut bar = Bar::new();
    let sweep = sweep(fresh, workload, &arguments.offsets.0, host, &mut bar).map_err(told)?;
    drop(bar);
    let target = fresh();
    let bench = Bench {
        target: target.description(),
        capacity: target.capacity(),
        logical_sector: target.logical_sector(),
        workload,
        host,
        sweep: &sweep,
        turns: None,
    };
    show(&bench, arguments, styles)?;
    Ok(Exit::Aligned)
}

/// What must not be written over, as far as it is a file.
fn target(arguments: &BenchArguments) -> Vec<&Path> {
    arguments.target.as_deref().map(Path::new).into_iter().collect()
}

/// The result as it was asked for.
fn show(bench: &Bench<'_>, arguments: &BenchArguments, styles: Styles) -> Result<()> {
    if let Some(path) = &arguments.svg {
        keep::write(path, text::bench::svg(bench).as_bytes(), &target(arguments))?;
    }
    if arguments.json {
        return output::print_json(&BenchReport::of(bench));
    }
    let mut out = output::stdout();
    out.write_all(text::bench::sweep(bench, output::width(), styles).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A workload that does not suit the target is the command line's fault; the rest is the target's.
fn told(error: RunError) -> anyhow::Error {
    match error {
        RunError::Target { .. } => error.into(),
        RunError::Workload(_) | RunError::NoOffsets | RunError::Offset { .. } => {
            UsageError(error.to_string()).into()
        }
    }
}

/// The workload of the options, with its own defaults where they say nothing.
fn workload(arguments: &BenchArguments, kind: Kind, target: &str) -> Workload {
    // The published program's modulus is for disks of its time; on a real one all blocks are chosen from.
    let usual_blocks = |usual: u64| if target.starts_with(modelled::PREFIX) { usual } else { u64::MAX };
    let (count, seconds, queue_depth) = (arguments.count, arguments.time, arguments.queue_depth);
    let (start, sync) = (arguments.start.get(), arguments.sync.map(Into::into).unwrap_or_default());
    let size = |usual: u64| arguments.size.map_or(usual, |size| size.get());
    match kind {
        Kind::RandomWrite => {
            let usual = RandomWrite::default();
            let (size, blocks) =
                (size(usual.size), arguments.blocks.unwrap_or_else(|| usual_blocks(usual.blocks)));
            let seed = arguments.seed;
            Workload::RandomWrite(RandomWrite {
                count,
                seconds,
                size,
                blocks,
                start,
                offset: 0,
                seed,
                sync,
                queue_depth,
            })
        }
        Kind::RandomRead => {
            let usual = RandomRead::default();
            let (size, blocks) =
                (size(usual.size), arguments.blocks.unwrap_or_else(|| usual_blocks(usual.blocks)));
            let seed = arguments.seed;
            Workload::RandomRead(RandomRead {
                count,
                seconds,
                size,
                blocks,
                start,
                offset: 0,
                seed,
                queue_depth,
            })
        }
        Kind::StridedWrite => {
            let usual = StridedWrite::default();
            let stride = arguments.stride.map_or(usual.stride, |stride| stride.get());
            let size = size(usual.size);
            Workload::StridedWrite(StridedWrite {
                count,
                seconds,
                size,
                stride,
                start,
                offset: 0,
                sync,
                queue_depth,
            })
        }
        Kind::SequentialWrite => {
            let usual = SequentialWrite::default();
            let (size, fsync_each) = (size(usual.size), arguments.fsync_each.unwrap_or(usual.fsync_each));
            Workload::SequentialWrite(SequentialWrite {
                count,
                seconds,
                size,
                start,
                offset: 0,
                fsync_each,
                queue_depth,
            })
        }
        Kind::Dd => {
            Workload::Dd(Dd { count, seconds, size: size(Dd::default().size), start, offset: 0, queue_depth })
        }
        Kind::SequentialRead => {
            let size = size(SequentialRead::default().size);
            Workload::SequentialRead(SequentialRead { count, seconds, size, start, offset: 0, queue_depth })
        }
    }
}

/// An option that the workload or the target has no use for is a mistake, and not passed over.
fn refuse_foreign(arguments: &BenchArguments, kind: Kind, target: &str) -> Result<()> {
    const RANDOM: &[Kind] = &[Kind::RandomWrite, Kind::RandomRead];
    const DURABLE: &[Kind] = &[Kind::RandomWrite, Kind::StridedWrite];
    let modelled = target.starts_with(modelled::PREFIX);
    let given = [
        ("--stride", arguments.stride.is_some(), &[Kind::StridedWrite][..]),
        ("--blocks", arguments.blocks.is_some(), RANDOM),
        // The order of turns is random as well.
        ("--seed", arguments.seed.is_some() && modelled, RANDOM),
        ("--sync", arguments.sync.is_some(), DURABLE),
        ("--fsync-each", arguments.fsync_each.is_some(), &[Kind::SequentialWrite][..]),
    ];
    for (option, given, of) in given {
        if given && !of.contains(&kind) {
            let names: Vec<&str> = of.iter().map(|kind| kind.name()).collect();
            let message = format!("{option} is for {}, not for {}", names.join(" and "), kind.name());
            return Err(UsageError(message).into());
        }
    }
    let real = &arguments.real;
    let of_real = [
        ("--runtime", real.runtime.is_some()),
        ("--precision", real.precision.is_some()),
        ("--area", real.area.is_some()),
        ("--regions", real.regions.is_some()),
        ("--io", real.io.is_some()),
        ("--used", real.used),
        ("--destroy-data", real.destroy_data.is_some()),
        ("--export", real.export.is_some()),
        ("--journals", real.journals.is_some()),
    ];
    let of_model = [
        ("--time", arguments.time.is_some()),
        ("--start", arguments.start.get() > 0),
        ("--blocks", arguments.blocks.is_some()),
        ("--host-overhead", arguments.host_overhead > 0),
    ];
    let (foreign, what) =
        if modelled { (&of_real[..], "real disks and files") } else { (&of_model[..], "modelled drives") };
    match foreign.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(UsageError(format!("{option} is for {what}, not for {target}")).into()),
        None => Ok(()),
    }
}
