//! `straddle bench`: a workload at one offset after the other.

use std::fs;
use std::io::Write;

use anyhow::{Context, Result};
use straddle_bench::{
    Dd, Host, Modelled, RandomRead, RandomWrite, RunError, SequentialRead, SequentialWrite, StridedWrite,
    Target, Workload, sweep,
};

use crate::args::{BenchArguments, Kind};
use crate::exit::{Exit, UsageError};
use crate::modelled;
use crate::output::{self, Styles};
use crate::progress::Bar;
use crate::report::bench::{Bench, BenchReport};
use crate::text;

pub(crate) fn run(arguments: &BenchArguments, styles: Styles) -> Result<Exit> {
    let workload = workload(arguments)?;
    let profile = modelled::profile_of_target(&arguments.target, "bench")?;
    let host = Host { overhead_ns: arguments.host_overhead };
    let fresh = || Modelled::new(&arguments.target, &profile);
    let mut bar = Bar::new();
    let sweep = sweep(fresh, &workload, &arguments.offsets.0, host, &mut bar).map_err(told)?;
    drop(bar);
    let target = fresh();
    let bench = Bench {
        target: target.description(),
        capacity: target.capacity(),
        logical_sector: target.logical_sector(),
        workload: &workload,
        host,
        sweep: &sweep,
    };
    if let Some(path) = &arguments.svg {
        fs::write(path, text::bench::svg(&bench))
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    if arguments.json {
        output::print_json(&BenchReport::of(&bench))?;
        return Ok(Exit::Aligned);
    }
    let mut out = output::stdout();
    out.write_all(text::bench::sweep(&bench, output::width(), styles).as_bytes())?;
    out.flush()?;
    Ok(Exit::Aligned)
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
fn workload(arguments: &BenchArguments) -> Result<Workload> {
    refuse_foreign(arguments)?;
    let (count, seconds, queue_depth) = (arguments.count, arguments.time, arguments.queue_depth);
    let (start, sync) = (arguments.start.get(), arguments.sync.map(Into::into).unwrap_or_default());
    let size = |usual: u64| arguments.size.map_or(usual, |size| size.get());
    Ok(match arguments.workload {
        Kind::RandomWrite => {
            let usual = RandomWrite::default();
            let (size, blocks) = (size(usual.size), arguments.blocks.unwrap_or(usual.blocks));
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
            let (size, blocks) = (size(usual.size), arguments.blocks.unwrap_or(usual.blocks));
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
    })
}

/// An option that the workload has no use for is a mistake, and not passed over.
fn refuse_foreign(arguments: &BenchArguments) -> Result<()> {
    const RANDOM: &[Kind] = &[Kind::RandomWrite, Kind::RandomRead];
    const DURABLE: &[Kind] = &[Kind::RandomWrite, Kind::StridedWrite];
    let given = [
        ("--stride", arguments.stride.is_some(), &[Kind::StridedWrite][..]),
        ("--blocks", arguments.blocks.is_some(), RANDOM),
        ("--seed", arguments.seed.is_some(), RANDOM),
        ("--sync", arguments.sync.is_some(), DURABLE),
        ("--fsync-each", arguments.fsync_each.is_some(), &[Kind::SequentialWrite][..]),
    ];
    for (option, given, of) in given {
        if given && !of.contains(&arguments.workload) {
            let names: Vec<&str> = of.iter().map(|kind| kind.name()).collect();
            let message =
                format!("{option} is for {}, not for {}", names.join(" and "), arguments.workload.name());
            return Err(UsageError(message).into());
        }
    }
    Ok(())
}
