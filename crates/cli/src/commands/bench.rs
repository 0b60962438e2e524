//! `straddle bench`: runs a workload at several offsets.

mod fio;
pub(crate) mod real;
mod restore;

use std::path::Path;

use anyhow::Result;
use straddle_measure::bench::{
    ForeignParameter, Host, Modelled, Parameters, Pattern, Target, WarmUp, Workload, warm_sweep,
};
use straddle_units::ByteCount;

use crate::args::{BenchArguments, SchemaOf};
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::output_file;
use crate::progress::Bar;
use crate::target::{Drive, TargetSpec};
use crate::view::json::Document;
use crate::view::json::bench::{Bench, BenchReport};
use crate::view::{svg, text};

pub(crate) fn run(arguments: &BenchArguments) -> Result<Exit> {
    if arguments.real.restore {
        return restore::restore_all(arguments);
    }
    if let Some(path) = &arguments.real.import_fio {
        return fio::import(arguments, path);
    }
    if let Some(path) = &arguments.svg {
        output_file::check(path, &target(arguments))?;
    }
    // clap requires both, unless one of the two options above is given.
    let (Some(pattern), Some(target)) = (arguments.workload, &arguments.target) else {
        return Err(UsageError("WORKLOAD and TARGET are required".into()).into());
    };
    let workload = workload(arguments, pattern, target)?;
    refuse_foreign(arguments, target)?;
    if let Some(path) = &arguments.real.emit_fio {
        return fio::emit(arguments, target, &workload, path);
    }
    match target {
        TargetSpec::Modelled(drive) => on_model(arguments, drive, &workload),
        TargetSpec::Path(path) => real::run(arguments, path, &workload),
    }
}

fn on_model(arguments: &BenchArguments, drive: &Drive, workload: &Workload) -> Result<Exit> {
    let name = drive.to_string();
    let host = Host { overhead_ns: arguments.host_overhead };
    let fresh = || Modelled::new(&name, &drive.profile);
    let mut bar = Bar::new();
    let usual = || WarmUp::usual(workload, &drive.profile);
    let warm_up = arguments.warmup.map_or_else(usual, WarmUp::Runs);
    let sweep = warm_sweep(fresh, workload, &arguments.offsets.0, host, warm_up, &mut bar)?;
    drop(bar);
    let target = fresh();
    let bench = Bench {
        target: target.description(),
        capacity: target.capacity().get(),
        logical_sector: target.logical_sector(),
        workload,
        host,
        warm_up,
        sweep: &sweep,
        turns: None,
    };
    show(&bench, arguments)?;
    Ok(Exit::Success)
}

/// Returns the target's path if it is a file or device: output must not overwrite it.
fn target(arguments: &BenchArguments) -> Vec<&Path> {
    arguments.target.iter().filter_map(TargetSpec::path).collect()
}

fn show(bench: &Bench<'_>, arguments: &BenchArguments) -> Result<()> {
    // The figures first: a picture that cannot be written does not cost them.
    if arguments.json {
        Document::of(SchemaOf::Bench, BenchReport::of(bench)).print()?;
    } else {
        output::print(&text::bench::sweep(bench, output::width()))?;
    }
    if let Some(path) = &arguments.svg {
        output_file::write(path, svg::bench(bench).as_bytes(), &target(arguments))?;
    }
    Ok(())
}

/// Returns the workload of the options, with its own defaults for what they leave out. An option that the
/// workload has no use for is an error, not ignored.
fn workload(arguments: &BenchArguments, pattern: Pattern, target: &TargetSpec) -> Result<Workload> {
    let (modelled, random) = (target.is_modelled(), pattern.is_random());
    let given = Parameters {
        stride: arguments.stride.map(ByteCount::get),
        // The published program's modulus suits disks of its time. On a real target, choose from all blocks.
        blocks: arguments.blocks.or_else(|| (random && !modelled).then_some(u64::MAX)),
        // On a real target the order of turns is random too.
        seed: arguments.seed.filter(|_| random || modelled),
        sync: arguments.sync,
        fsync_each: arguments.fsync_each,
    };
    let foreign = |foreign: ForeignParameter| {
        UsageError(format!("--{} {}", foreign.parameter.replace('_', "-"), foreign.reason()))
    };
    let usual = Workload::from(pattern.with(given).map_err(foreign)?);
    let usual = match target {
        TargetSpec::Modelled(drive) => usual.on(&drive.profile),
        TargetSpec::Path(_) => usual,
    };
    Ok(Workload {
        count: arguments.count.or(usual.count.filter(|_| arguments.time.is_none())),
        seconds: arguments.time,
        size: arguments.size.map_or(usual.size, ByteCount::get),
        start: arguments.start.get(),
        queue_depth: arguments.queue_depth.unwrap_or(usual.queue_depth),
        ..usual
    })
}

/// Refuses an option that the target has no use for, rather than ignoring it.
fn refuse_foreign(arguments: &BenchArguments, target: &TargetSpec) -> Result<()> {
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
    let (foreign, what) = if target.is_modelled() {
        (&of_real[..], "real disks and files")
    } else {
        (&of_model[..], "modelled drives")
    };
    match foreign.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(UsageError(format!("{option} is for {what}, not for {target}")).into()),
        None => Ok(()),
    }
}
