//! `straddle probe`: what a drive really is, by timing.

use std::fs;
use std::io::Write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use straddle_bench::{Modelled, TargetError};
use straddle_device::topology::AlignmentOffset;
use straddle_drive::Nanos;
use straddle_drive::profile::{Body, Profile};
use straddle_probe::{Budget, Claims, ProbeError, Surface, probe};

use straddle_real::{Access, Areas, Before, Contents, Give, Io, Opened, Others, Real, Settings, areas};
use straddle_units::Span;

use crate::args::ProbeArguments;
use crate::commands::bench::real::in_use;
use crate::commands::lab::on_interrupt;
use crate::exit::{Exit, RefusedError, UsageError};
use crate::keep;
use crate::measured::Measured;
use crate::modelled;
use crate::output::{self, Styles};
use crate::progress::Bar;
use crate::report::probe::ProbeReport;
use crate::text;

/// No request of a probe is larger.
const LARGEST: u64 = 16 << 20;

pub(crate) fn run(arguments: &ProbeArguments, styles: Styles) -> Result<Exit> {
    if let Some(path) = &arguments.save {
        keep::may_replace(path, &[Path::new(&arguments.target)])?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let Probed { mut surface, claims, regions, others } = open(arguments, &stop)?;
    let budget = Budget {
        regions,
        max_write: arguments.max_write.get(),
        max_time: Nanos::from_seconds(arguments.time).unwrap_or_default(),
        seed: arguments.seed,
    };
    let mut bar = Bar::new();
    let done = AtomicBool::new(false);
    let (probed, is_disturbed) = std::thread::scope(|scope| {
        let (done, stop) = (&done, &*stop);
        let watch = others.map(|others| scope.spawn(move || watch(others, done, stop)));
        let probed = probe(surface.as_mut(), &budget, claims, &mut bar);
        done.store(true, Ordering::Relaxed);
        (probed, watch.is_some_and(|watch| watch.join().unwrap_or(true)))
    });
    if is_disturbed {
        let text = format!(
            "{}: somebody else had it open for writing during the run, which was stopped: look at what they wrote, some of it \
             may have been written over with what stood there before",
            arguments.target
        );
        return Err(RefusedError(text).into());
    }
    let report = match probed {
        Err(ProbeError::Target(TargetError::Interrupted)) => return Ok(Exit::INTERRUPTED),
        report => report.map_err(told)?,
    };
    drop(bar);
    let interrupted = stop.load(Ordering::Relaxed);
    let exit = if interrupted { Exit::INTERRUPTED } else { Exit::Aligned };
    if interrupted {
        output::complain("interrupted: this is what is known so far, and nothing is saved");
    } else if let Some(path) = &arguments.save {
        match Measured::of(&arguments.target, &report) {
            Some(measured) => {
                keep::write(path, measured.to_json()?.as_bytes(), &[Path::new(&arguments.target)])?;
            }
            None => output::complain(&format!("{}: not written: the unit cannot be told", path.display())),
        }
    }
    if arguments.json {
        output::print_json(&ProbeReport::of(surface.description(), &report))?;
        return Ok(exit);
    }
    let mut out = output::stdout();
    out.write_all(text::probe::report(surface.description(), &report, output::width(), styles).as_bytes())?;
    out.flush()?;
    Ok(exit)
}

/// What is probed, what it claims, and where it may be written.
struct Probed {
    surface: Box<dyn Surface>,
    claims: Claims,
    /// Everywhere, if there are none.
    regions: Option<Vec<Span>>,
    /// Where data that are kept are written over with themselves.
    others: Option<Others>,
}

/// How often others are looked out for.
const LOOK: Duration = Duration::from_millis(20);

/// Looks out for others until the probe is `done`, which it stops when there are some; whether there were.
fn watch(mut others: Others, done: &AtomicBool, stop: &AtomicBool) -> bool {
    loop {
        let is_last = done.load(Ordering::Relaxed);
        if others.have_written() {
            stop.store(true, Ordering::Relaxed);
            return true;
        }
        if is_last {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

fn open(arguments: &ProbeArguments, stop: &Arc<AtomicBool>) -> Result<Probed> {
    let target = &arguments.target;
    if !target.starts_with(modelled::PREFIX) {
        return open_real(Path::new(target), arguments.used, stop);
    }
    if arguments.used {
        return Err(UsageError(format!("--used is for real disks, not for {target}")).into());
    }
    let profile = modelled::profile_of_target(target, "probe")?;
    Ok(Probed {
        surface: Box::new(Modelled::new(target, &profile)),
        claims: claims(&profile),
        regions: None,
        others: None,
    })
}

/// A file or a block device: in its free space, unless it is given wholly.
fn open_real(path: &Path, used: bool, stop: &Arc<AtomicBool>) -> Result<Probed> {
    on_interrupt(stop).context("signals")?;
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let give = if used { Give::Used } else { Give::Free };
    let access = if give == Give::Used { Access::Claim } else { Access::Share };
    let opened = Opened::open(path, access, Io::Direct).map_err(in_use)?;
    // Whoever comes from now on is noticed: before anything is read that is to be written back.
    let others = Others::of(&opened).filter(|_| give == Give::Used);
    let wanted = Areas { give, regions: 0, bytes: u64::MAX };
    let regions = areas(&opened, wanted).map_err(crate::commands::bench::real::refused)?;
    let rotates = Before::look(&opened).rotates();
    let topology = straddle_device::open(path, &straddle_device::Options::default())?.topology;
    let phase = match topology.alignment_offset.value() {
        AlignmentOffset::Bytes(bytes) => Some(bytes.get()),
        AlignmentOffset::Misaligned => None,
    };
    let unit = topology.indirection_unit.map_or_else(|| topology.physical.value(), |unit| unit.value());
    // A file claims nothing.
    let claims = Claims {
        unit: (!is_file).then(|| unit.get()),
        phase: phase.filter(|_| !is_file),
        rotational: (!is_file).then_some(rotates),
    };
    let title = crate::commands::bench::real::title(path, &opened);
    let settings = Settings { depth: 1, largest: LARGEST };
    let real = Real::new(opened, title, &Contents::Kept(Vec::new()), settings, Arc::clone(stop))?;
    Ok(Probed { surface: Box::new(real), claims, regions: Some(regions), others })
}

fn claims(profile: &Profile) -> Claims {
    let told = &profile.claims;
    let unit = match profile.body {
        Body::Disk(_) => told.physical_sector,
        Body::Ssd(_) => told.minimum_io.unwrap_or(told.physical_sector),
    };
    Claims { unit: Some(unit), phase: Some(told.alignment_offset), rotational: Some(told.rotational) }
}

/// A target that is too small is the command line's fault; the rest is the target's.
fn told(error: ProbeError) -> anyhow::Error {
    match error {
        ProbeError::Target(_) => error.into(),
        ProbeError::TooSmall { .. } | ProbeError::Sector(_) => UsageError(error.to_string()).into(),
    }
}
