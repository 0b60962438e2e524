//! `straddle bench` on a file or a block device.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;
use straddle_device::shown::quote_path;
use straddle_measure::bench::{
    Ended, FEWEST_ROUNDS, Host, Interval, Order, Progress, RunError, Sweep, TargetError, Turn, WarmUp, Watch,
    Workload, rounds,
};
use straddle_measure::real::{
    AreaError, Contents, Finished, Intent, Io, JournalError, LaterWrites, Made, OpenError, Prepared,
    Restored, Saved, Scope, SessionError, Settings, Verdict, describe_spans, left, restore,
};
use straddle_units::Span;
use straddle_units::io::Nanos;

use crate::commands::bench::BenchArguments;
use crate::exit::{Exit, RefusedError, UsageError, refuse, usage};
use crate::output::printable;
use crate::output_file::OutputFile;
use crate::progress::{Bar, on_interrupt};
use crate::view::json::bench::{self, Bench, Turns, WorkloadReport};
use crate::{durability, output, output_file, target};

const TURN: Nanos = Nanos::new(500_000_000);
const RUNTIME: f64 = 60.0;
/// Default precision of a ratio, in percent.
const PRECISION: f64 = 5.0;
const AREA: u64 = 256 << 20;

pub(super) fn run(arguments: &BenchArguments, path: &Path, workload: &Workload) -> Result<Exit> {
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("signals")?;
    let named = arguments.real.journals.as_deref();
    let journals = journals(named)?;
    let made = make_unless_there(path, arguments)?;
    let mut bar = Bar::new();
    bar.tell("preparing");
    let (intent, kept) = intent(arguments, path, workload, made.as_ref(), journals);
    let note = target::unfinished(path);
    let mut prepared = Prepared::open(&intent, &stop).map_err(|error| refused(error, named))?;
    if let Contents::Preserved(scope, _) = intent.contents {
        warn_of_journals(scope, &intent.journals, path);
    }
    note.iter().for_each(|note| output::complain(note));
    let order = order(arguments, prepared.regions());
    let mut watch = Watching { bar: &mut bar, export: None, failed: None };
    let of_workload = bench::workload(workload, prepared.surface().capacity().get());
    let measured = match Export::open(arguments, of_workload, &order) {
        Ok(export) => {
            watch.export = export;
            Ok(rounds(prepared.surface(), workload, Host::default(), &order, &mut watch))
        }
        Err(error) => Err(error),
    };
    let failed = watch.failed.take();
    bar.tell("verifying contents");
    let real = compared(prepared.end(), named)?;
    let measured = measured?;
    drop(bar);
    let measured = match measured {
        Err(RunError::Target { source: TargetError::Interrupted, .. }) => {
            output::complain("interrupted before the end of the first round, so there are no results");
            return Ok(Exit::INTERRUPTED);
        }
        measured => measured?,
    };
    let warnings = real.warnings(workload, &measured);
    let turns = Turns {
        rounds: measured.rounds,
        requests: measured.requests,
        ended: measured.ended,
        precision: order.precision,
        seed: order.seed,
        io: real.io(),
        contents: kept,
        areas: &order.regions,
        warnings: &warnings,
    };
    let bench = Bench {
        target: real.description(),
        capacity: real.capacity().get(),
        logical_sector: real.logical_sector(),
        workload,
        host: Host::default(),
        warm_up: WarmUp::Runs(arguments.warmup.unwrap_or(0)),
        sweep: &measured.sweep,
        firmware: None,
        turns: Some(&turns),
    };
    super::show(&bench, arguments)?;
    drop(made);
    if let Some(error) = failed {
        return Err(error).context("cannot export the samples");
    }
    Ok(if measured.ended == Ended::Interrupted { Exit::INTERRUPTED } else { Exit::Success })
}

/// The error has the command that restores the target. `named` is the folder of journals, if one was given.
pub(crate) fn compared(
    ended: Result<(Finished, Option<Verdict>), SessionError>,
    named: Option<&Path>,
) -> Result<Finished> {
    let (finished, verdict) = ended.map_err(|error| match error {
        SessionError::Uncompared { .. } | SessionError::Unwritten { .. } => {
            anyhow!("{:#}; once this is fixed, run {}", anyhow::Error::from(error), restore_command(named))
        }
        error => error.into(),
    })?;
    match verdict.and_then(|verdict| verdict.refusal()) {
        Some(text) => refuse(text),
        None => Ok(finished),
    }
}

pub(crate) fn journals(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    // Without HOME, this is the folder in the system's user database.
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    match state.or_else(home) {
        Some(folder) => Ok(folder.join("straddle")),
        None => usage(
            "no default directory for journals, because there is no home directory and XDG_STATE_HOME is not \
             set; choose a directory with --journals",
        ),
    }
}

/// Not where only free space is written: no table leads to what is lost.
pub(crate) fn warn_of_journals(scope: Scope, journals: &Path, target: &Path) {
    if scope == Scope::Whole {
        durability::warn(("journal", "directory on a disk with --journals"), journals, target);
    }
}

fn restore_command(named: Option<&Path>) -> String {
    let folder = named.map_or_else(String::new, |folder| format!(" --journals {}", quote_path(folder)));
    format!("straddle bench --restore{folder}")
}

fn intent<'a>(
    arguments: &'a BenchArguments,
    path: &'a Path,
    workload: &Workload,
    made: Option<&'a Made>,
    journals: PathBuf,
) -> (Intent<'a>, &'static str) {
    let real = &arguments.real;
    let (contents, kept) = match (made, &real.destroy_data) {
        (Some(made), _) if workload.writes() => (Contents::Made(made), "temporary file, removed afterwards"),
        (Some(_), _) => (Contents::Read, "temporary file, removed afterwards"),
        _ if !workload.writes() => (Contents::Read, "nothing was written"),
        (None, Some(again)) => (Contents::Overwritten(Path::new(again)), "contents overwritten"),
        (None, None) if real.used => (Contents::Preserved(Scope::Whole, Saved::AtOnce), "contents restored"),
        (None, None) => (
            Contents::Preserved(Scope::FreeSpace, Saved::AtOnce),
            "unallocated space only, contents restored",
        ),
    };
    let intent = Intent {
        path,
        contents,
        io: real.io.unwrap_or(Io::Direct),
        regions: real.regions,
        bytes: real.area.map_or(AREA, |area| area.get()),
        seed: seed(arguments),
        settings: Settings { depth: workload.queue_depth, largest: workload.size },
        journals,
    };
    (intent, kept)
}

fn seed(arguments: &BenchArguments) -> u64 {
    u64::from(arguments.seed.unwrap_or(1))
}

fn order(arguments: &BenchArguments, regions: &[Span]) -> Order {
    Order {
        offsets: arguments.offsets.0.clone(),
        regions: regions.to_vec(),
        turn: TURN,
        requests: arguments.count,
        warmup: usize::try_from(arguments.warmup.unwrap_or(0)).unwrap_or(usize::MAX),
        limit: Nanos::from_seconds(arguments.real.runtime.unwrap_or(RUNTIME)).unwrap_or(TURN),
        precision: arguments.real.precision.unwrap_or(PRECISION) / 100.0,
        seed: seed(arguments),
    }
}

/// Returns the error, in terms of the command line. `named` is the folder of journals, if one was given.
pub(crate) fn refused(error: SessionError, named: Option<&Path>) -> anyhow::Error {
    use AreaError::{Damaged, Full, NoTable};
    match error {
        SessionError::Area(error @ (NoTable { .. } | Damaged { .. } | Full { .. })) => RefusedError(format!(
            "{error}; with --used, areas that hold data are also measured, and their contents restored"
        ))
        .into(),
        SessionError::Open(OpenError::NotNamed { path, again }) => {
            let (path, again) = (path.display(), again.display());
            UsageError(format!(
                "--destroy-data must repeat the name of the measured device, {path}, but names {again}"
            ))
            .into()
        }
        error @ SessionError::Unrestored { is_running: false, .. } => {
            RefusedError(format!("{error}; first run {}", restore_command(named))).into()
        }
        error => error.into(),
    }
}

fn make_unless_there(path: &Path, arguments: &BenchArguments) -> Result<Option<Made>> {
    if path.exists() || path.starts_with("/dev") {
        return Ok(None);
    }
    let bytes = arguments.real.area.map_or(AREA, |area| area.get());
    let made = Made::create(path, bytes);
    Ok(Some(made.with_context(|| format!("{}: cannot create the test file", path.display()))?))
}

struct Watching<'a> {
    bar: &'a mut Bar,
    export: Option<Export<'a>>,
    failed: Option<anyhow::Error>,
}

impl Progress for Watching<'_> {
    fn advance(&mut self, share: f64) {
        self.bar.advance(share);
    }
}

impl Watch for Watching<'_> {
    fn round(&mut self, turns: &[Turn], sofar: &Sweep) {
        let ratio = sofar.worst_ratio();
        let line = match ratio.interval {
            Some(Interval { value, low, high, .. }) => {
                let (worst, best) = (sofar.worst().offset, sofar.best().offset);
                format!("{worst} over {best}: {value:.2} ({low:.2} to {high:.2})")
            }
            None => format!("round {} of at least {FEWEST_ROUNDS}", sofar.best().rounds().len()),
        };
        self.bar.tell(&line);
        if let (Some(export), None) = (&mut self.export, &self.failed) {
            self.failed = export.turns(turns).err();
        }
    }
}

struct Export<'a> {
    path: &'a Path,
    inputs: Vec<&'a Path>,
    begin: Vec<u8>,
    file: Option<OutputFile>,
}

#[derive(Serialize)]
struct Heading<'a> {
    schema: u32,
    straddle: &'a str,
    target: &'a str,
    workload: WorkloadReport,
    offsets_sectors: &'a [u64],
    seed: u64,
}

impl<'a> Export<'a> {
    fn open(arguments: &'a BenchArguments, workload: WorkloadReport, order: &Order) -> Result<Option<Self>> {
        let Some(path) = &arguments.real.export else { return Ok(None) };
        let inputs = super::target(arguments);
        output_file::check(path, &inputs)?;
        let mut begin = Vec::new();
        let target = arguments.target.as_ref().map(ToString::to_string).unwrap_or_default();
        let heading = Heading {
            schema: 1,
            straddle: env!("CARGO_PKG_VERSION"),
            target: &target,
            workload,
            offsets_sectors: &order.offsets,
            seed: order.seed,
        };
        serde_json::to_writer(&mut begin, &heading)?;
        begin.push(b'\n');
        Ok(Some(Self { path, inputs, begin, file: None }))
    }

    fn turns(&mut self, turns: &[Turn]) -> Result<()> {
        let mut lines = std::mem::take(&mut self.begin);
        for turn in turns {
            serde_json::to_writer(&mut lines, turn)?;
            lines.push(b'\n');
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => OutputFile::begin(self.path, &self.inputs)?,
        };
        let file = self.file.insert(file);
        file.write_all(&lines)?;
        Ok(file.flush()?)
    }
}

pub(super) fn restore_all(arguments: &BenchArguments) -> Result<Exit> {
    let folder = journals(arguments.real.journals.as_deref())?;
    let name = printable(&folder.display().to_string());
    let found = left(&folder).with_context(|| format!("{name}: cannot search for journals"))?;
    let mut out = output::stdout();
    if found.is_empty() {
        writeln!(out, "Nothing to restore: no journal in {name}.")?;
    }
    let mut exit = Exit::Success;
    let command = printable(&restore_command(arguments.real.journals.as_deref()));
    let later = if arguments.real.force { LaterWrites::Overwrite } else { LaterWrites::Keep };
    for journal in found {
        match restore(&journal, later) {
            Ok(restored) => {
                let (text, status) = describe(&journal, &restored, &command);
                out.write_all(text.as_bytes())?;
                exit = exit.max(status);
            }
            Err(error) => {
                exit = exit.max(Exit::of_kind(error.kind()));
                let again = match error {
                    JournalError::Damaged { .. } => String::new(),
                    _ => format!("; once this is fixed, run {command} again"),
                };
                output::complain(&printable(&format!("{:#}{again}", anyhow::Error::from(error))));
            }
        }
    }
    out.flush()?;
    Ok(exit)
}

fn describe(journal: &Path, restored: &Restored, command: &str) -> (String, Exit) {
    let shown = |path: &Path| printable(&path.display().to_string());
    let name = shown(journal);
    match restored {
        Restored::Whole { target, bytes } => (
            format!("{}: restored; {bytes} bytes differed or were unreadable.\n", shown(target)),
            Exit::Success,
        ),
        Restored::Changed { target, spans, unreadable, bytes, began } => {
            let target = shown(target);
            let beside = if unreadable.is_empty() {
                String::new()
            } else {
                format!("  {} could not be read, and were not restored.\n", describe_spans(unreadable))
            };
            let text = format!(
                "{target}: another program wrote to {} after the run, so those bytes were not restored; \
                 {bytes} other bytes were restored.\n{beside}  The run started writing at {began}; data that \
                 another program wrote there before the run ended may have been overwritten.\n  The journal \
                 was kept: {name}\n  To restore the contents from before the run: {command} --force (applies \
                 to every journal in that directory)\n  To keep the current contents, remove the journal: rm \
                 {}\n",
                describe_spans(spans),
                quote_path(journal)
            );
            (text, Exit::Refused)
        }
        Restored::Incomplete => (
            format!(
                "{name}: the journal is incomplete, so its run had not yet written to the target; the \
                 journal was removed.\n"
            ),
            Exit::Success,
        ),
        Restored::Running => (
            format!(
                "{name}: the journal's run or another 'bench --restore' is still active, so nothing was \
                 restored.\n"
            ),
            Exit::Refused,
        ),
        Restored::Gone => {
            let why = "its run has ended, or another 'bench --restore' has used it";
            (format!("{name}: the journal is gone ({why}).\n"), Exit::Success)
        }
    }
}
