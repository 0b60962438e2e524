//! `straddle probe`: finds out what a drive really is, by timing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use straddle_drive::Profile;
use straddle_measure::bench::{Description, Modelled, Progress, Surface, Target, TargetError};
use straddle_measure::probe::{Budget, Claims, ProbeError, probe};
use straddle_measure::real::{Contents, Intent, Io, Prepared, Saved, Scope, Settings};
use straddle_units::io::Nanos;
use straddle_units::{ByteCount, Span};

use crate::args::{ProbeArguments, SchemaOf};
use crate::commands::bench::real::{compared, journals, refused, warn_of_journals};
use crate::exit::{Exit, UsageError};
use crate::interrupt::on_interrupt;
use crate::measured::Measured;
use crate::output;
use crate::output_file;
use crate::progress::Bar;
use crate::target::TargetSpec;
use crate::view::json::Document;
use crate::view::json::probe::ProbeReport;
use crate::view::text;

const MAX_REQUEST: u64 = 16 << 20;

pub(crate) fn run(arguments: &ProbeArguments) -> Result<Exit> {
    if let Some(path) = &arguments.save {
        output_file::check(path, arguments.target.path().as_slice())?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let Probed { mut subject, claims, regions, notes } = open(arguments, &stop)?;
    let budget = Budget {
        regions,
        max_write: arguments.max_write.get(),
        max_time: Nanos::from_seconds(arguments.time).unwrap_or_default(),
        seed: arguments.seed,
    };
    let mut bar = Bar::new();
    let probed = probe(subject.surface(), &budget, claims, &mut bar);
    bar.tell("verifying contents");
    let description = subject.end(arguments.journals.as_deref())?;
    let report = match probed {
        Err(ProbeError::Target(TargetError::Interrupted)) => return Ok(Exit::INTERRUPTED),
        report => report?,
    };
    drop(bar);
    let interrupted = stop.load(Ordering::Relaxed);
    let exit = if interrupted { Exit::INTERRUPTED } else { Exit::Success };
    if interrupted {
        output::complain("interrupted: partial results, nothing saved");
    } else if let Some(path) = &arguments.save {
        match Measured::of(&arguments.target.to_string(), &report) {
            Some(measured) => {
                let inputs = arguments.target.path();
                output_file::write(path, measured.to_json()?.as_bytes(), inputs.as_slice())?;
            }
            None => {
                output::complain(&format!("{}: not written: the unit cannot be determined", path.display()))
            }
        }
    }
    if arguments.json {
        Document::of(SchemaOf::Probe, ProbeReport::of(&description, &report, &notes)).print()?;
        return Ok(exit);
    }
    output::print(&text::probe::report(&description, &report, &notes, arguments.verbose))?;
    Ok(exit)
}

/// The target of a probe, its claims, and where it may be written.
struct Probed {
    subject: Subject,
    claims: Claims,
    /// `None` for everywhere.
    regions: Option<Vec<Span>>,
    /// What to know of the figures, in sentences.
    notes: Vec<String>,
}

enum Subject {
    Modelled(Box<Modelled>),
    Real(Box<Prepared>),
}

impl Subject {
    fn surface(&mut self) -> &mut dyn Surface {
        match self {
            Self::Modelled(drive) => &mut **drive,
            Self::Real(prepared) => prepared.surface(),
        }
    }

    /// Compares the target with its previous contents, and returns its description. `named` is the folder of
    /// journals, if one was given.
    fn end(self, named: Option<&Path>) -> Result<Description> {
        match self {
            Self::Modelled(drive) => Ok(drive.description().clone()),
            Self::Real(prepared) => Ok(compared(prepared.end(), named)?.description().clone()),
        }
    }
}

fn open(arguments: &ProbeArguments, stop: &Arc<AtomicBool>) -> Result<Probed> {
    let drive = match &arguments.target {
        TargetSpec::Path(path) => return open_real(path, arguments, stop),
        TargetSpec::Modelled(drive) => drive,
    };
    let of_real = [("--used", arguments.used), ("--journals", arguments.journals.is_some())];
    if let Some((option, _)) = of_real.iter().find(|(_, given)| *given) {
        return Err(UsageError(format!("{option} is for real disks, not for {drive}")).into());
    }
    Ok(Probed {
        subject: Subject::Modelled(Box::new(Modelled::new(&drive.to_string(), &drive.profile))),
        claims: claims(&drive.profile),
        regions: None,
        notes: Vec::new(),
    })
}

/// Opens a file or a block device: its free space, or all of it with `--used`.
fn open_real(path: &Path, arguments: &ProbeArguments, stop: &Arc<AtomicBool>) -> Result<Probed> {
    on_interrupt(stop).context("signals")?;
    let journals = journals(arguments.journals.as_deref())?;
    let scope = if arguments.used { Scope::Whole } else { Scope::FreeSpace };
    let intent = Intent {
        path,
        contents: Contents::Preserved(scope, Saved::AsPrepared),
        io: Io::Direct,
        regions: Some(0),
        bytes: u64::MAX,
        seed: arguments.seed,
        settings: Settings { depth: 1, largest: MAX_REQUEST },
        journals,
    };
    let prepared =
        Prepared::open(&intent, stop).map_err(|error| refused(error, arguments.journals.as_deref()))?;
    warn_of_journals(scope, &intent.journals, path);
    let (claims, notes) = (prepared.claims(), prepared.notes().to_vec());
    let regions = Some(prepared.regions().to_vec());
    Ok(Probed { subject: Subject::Real(Box::new(prepared)), claims, regions, notes })
}

fn claims(profile: &Profile) -> Claims {
    let claims = &profile.claims;
    Claims {
        unit: Some(ByteCount::new(profile.claimed_unit())),
        phase: Some(ByteCount::new(claims.alignment_offset)),
        rotational: Some(claims.rotational),
    }
}
