//! `straddle probe`: finds out what a drive really is, by timing.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_measure::bench::{Description, Modelled, Progress, Surface, Target, TargetError};
use straddle_measure::probe::{
    Budget, Claims, Confidence, Finding, PhaseScan, ProbeError, Report, Rmw, RmwCost, Rotation, Sustained,
    WriteCache, probe,
};
use straddle_measure::real::{Contents, Intent, Io, Prepared, Saved, Scope, Settings};
use straddle_units::io::Nanos;
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::args::positive_size;
use crate::commands::bench::real::{compared, journals, refused, warn_of_journals};
use crate::exit::{Exit, usage};
use crate::measured::Measured;
use crate::output::{paint, printable, quote_path, style};
use crate::progress::{Bar, on_interrupt};
use crate::shared::{SharedReport, claims};
use crate::target::{TargetSpec, targets};
use crate::view::chart::bar;
use crate::view::json::{Document, SchemaOf};
use crate::view::text::{clock, folded, headed, plain_table, wrap};
use crate::{exit, output, output_file};

const EXAMPLES: &str = "\
Examples:
  straddle probe wd10ears                 # it reports 512-byte sectors
  straddle probe wd10ears,jumper=on --save wd.json
  straddle check --measured wd.json disk.img          # use the result
  straddle probe qlc-64k --max-write 32MiB --time 60
  straddle probe drive:./my-drive.toml --seed 7 --json
  straddle probe /dev/sdb                 # a real disk: unallocated space only
  straddle probe /dev/sdb --used          # unmounted; contents preserved
  straddle probe /dev/sdb --share sdb.json    # anonymous result";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct ProbeArguments {
    /// Drive to probe: a block device, a file, or a modelled drive (NAME, NAME,OPTION or drive:FILE.toml; see
    /// 'straddle drive list'). On a device or file, only the unallocated space between partitions is used. A
    /// device or file without a partition table needs --used.
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub(crate) target: TargetSpec,

    /// Also probe areas that hold data. The target must not be in use.
    ///
    /// The contents are preserved, because every write restores the bytes that were read from the same
    /// position.
    #[arg(long)]
    pub(crate) used: bool,

    /// Directory for a journal with the target's original contents, preferably on another disk [default:
    /// ~/.local/state/straddle]. After a crash, 'straddle bench --restore' restores the contents from this
    /// journal.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) journals: Option<PathBuf>,

    /// Maximum number of bytes to write.
    #[arg(long, value_name = "BYTES", value_parser = positive_size, default_value_t = ByteCount::new(Budget::MAX_WRITE))]
    pub(crate) max_write: ByteCount,

    /// Maximum duration of the probe (in virtual time if the drive is modelled).
    #[arg(long, value_name = "SECONDS", default_value_t = Budget::MAX_TIME.seconds(), value_parser = crate::commands::bench::seconds)]
    pub(crate) time: f64,

    /// Seed for all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = Budget::SEED)]
    pub(crate) seed: u64,

    /// Also save the result to this file, for 'straddle check --measured'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Also write an anonymous version of the result to this file, for sharing or for 'straddle drive
    /// compare'. The file contains the drive's size, the values that the drive reports, and the measurements.
    /// No model name, serial number, path or host name is included (see `straddle schema probe-share`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) share: Option<PathBuf>,

    /// Also show the measurements behind each result.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print JSON (see `straddle schema probe`).
    #[arg(long)]
    pub(crate) json: bool,
}

const MAX_REQUEST: u64 = 16 << 20;

pub(crate) fn run(arguments: &ProbeArguments) -> Result<Exit> {
    for path in arguments.save.iter().chain(&arguments.share) {
        output_file::check(path, arguments.target.path().as_slice())?;
    }
    if let (Some(_), Some(path)) = (&arguments.share, arguments.target.path().filter(|path| path.is_file())) {
        let file = format!(
            "{} is a file, so the probe would also measure the layers below the file",
            path.display()
        );
        return usage(format!("--share requires a drive, but {file}"));
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
    let capacity = subject.surface().capacity();
    bar.tell("verifying contents");
    let description = subject.end(arguments.journals.as_deref())?;
    let report = match probed {
        Err(ProbeError::Target(TargetError::Interrupted)) => return Ok(Exit::INTERRUPTED),
        report => report?,
    };
    drop(bar);
    let interrupted = stop.load(Ordering::Relaxed);
    if interrupted {
        output::complain("interrupted; the results are incomplete, and nothing was saved");
    } else {
        save(arguments, &report)?;
        if let Some(path) = &arguments.share {
            let shared = SharedReport::of(description.clock, capacity.get(), &report);
            output_file::write(path, shared.to_json()?.as_bytes(), arguments.target.path().as_slice())?;
        }
    }
    let printed = if arguments.json {
        let misreports = report.misreports();
        let report = ProbeReport { target: &description, notes: &notes, report: &report, misreports };
        Document::of(SchemaOf::Probe, report).print()?
    } else {
        output::print(&described(&description, &report, &notes, arguments))?
    };
    Ok(if interrupted { Exit::INTERRUPTED } else { printed })
}

fn save(arguments: &ProbeArguments, report: &Report) -> Result<()> {
    let Some(path) = &arguments.save else { return Ok(()) };
    match Measured::of(&arguments.target.to_string(), report) {
        Some(measured) => {
            output_file::write(path, measured.to_json()?.as_bytes(), arguments.target.path().as_slice())
        }
        None => {
            output::complain(&format!(
                "{}: not written, because the size of the drive's physical sector or other unit could not be \
                 determined",
                path.display()
            ));
            Ok(())
        }
    }
}

struct Probed {
    subject: Subject,
    claims: Claims,
    regions: Option<Vec<Span>>,
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

    /// Compares the target with its previous contents. `named` is the folder of journals, if one was given.
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
        return usage(format!("{option} applies only to real disks, not to {drive}"));
    }
    let profile = &drive.profile;
    let claims = claims(profile);
    let subject = Subject::Modelled(Box::new(Modelled::new(&drive.to_string(), profile)));
    Ok(Probed { subject, claims, regions: None, notes: Vec::new() })
}

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

/// What `straddle probe --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeReport<'a> {
    /// The target that was probed.
    target: &'a Description,
    /// Remarks on the figures, such as what was measured if the target is a file.
    notes: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
    /// Whether the drive reports a different unit from the one found; absent if that cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    misreports: Option<bool>,
}

/// The most phases that are drawn as bars; more are drawn as a curve.
const MOST_BARS: usize = 16;
/// Characters of the longest bar, and width and height of a curve.
const BAR: usize = 40;
/// The byte at which partitions began before 2009: 63 sectors of 512 bytes.
const OLD_START: u64 = 63 * 512;

fn described(target: &Description, report: &Report, notes: &[String], arguments: &ProbeArguments) -> String {
    let mut text = format!(
        "{}\n{}\n",
        paint(style::HEADING, &wrap(&verdict(report), "")),
        wrap(&consequence(report), "")
    );
    if let Some(path) = arguments.target.path().filter(|_| report.unit.value.is_some()) {
        let path = quote_path(path);
        text += &match &arguments.save {
            _ if report.misreports() == Some(false) => format!("Next: straddle check {path}\n"),
            Some(file) => format!("Next: straddle check --measured {} {path}\n", quote_path(file)),
            None => format!("Next: repeat with --save FILE, then straddle check --measured FILE {path}\n"),
        };
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrap(&format!("note: {note}"), ""));
    }
    let _ = write!(text, "\n{}", table(report));
    if arguments.verbose {
        text.push('\n');
        let cache = report.cache.value.map(|_| ("Cache", &report.cache.why));
        for (name, why) in
            [("Unit", &report.unit.why), ("Rotation", &report.rotation.why)].into_iter().chain(cache)
        {
            let _ = writeln!(text, "{}", wrap(&format!("{name}: {why}."), ""));
        }
        let _ = writeln!(text, "\n{}", evidence(report).trim_end());
    }
    let spent = format!(
        "{} ({}); {}; seed {}: {} requests and {} written in {}.",
        printable(&target.name),
        printable(&target.title),
        clock(target.clock),
        report.seed,
        report.requests,
        ByteCount::new(report.written),
        report.elapsed
    );
    let _ = writeln!(text, "\n{}", paint(style::FAINT, &wrap(&spent, "")));
    text
}

fn verdict(report: &Report) -> String {
    let Some(unit) = report.unit.value else {
        return format!("Inconclusive: the physical sector size cannot be determined ({}).", report.unit.why);
    };
    let noun = if is_flash(report) { "write units" } else { "physical sectors" };
    let (size, first) = (unit.size(), unit.phase().get());
    match (report.misreports(), report.claims.unit.filter(|claimed| *claimed != size)) {
        (Some(true), Some(claimed)) => format!(
            "MISREPORTS: the drive claims {}-byte {noun}, but they are {} bytes long; the first is at byte \
             {first}.",
            claimed.get(),
            size.get()
        ),
        (Some(true), None) => format!(
            "MISREPORTS: the drive's first {}-byte boundary is at byte {first}, not at byte {} as claimed.",
            size.get(),
            report.claims.phase.unwrap_or_default().get()
        ),
        (Some(false), _) => {
            format!("As claimed, the drive has {}-byte {noun}; the first is at byte {first}.", size.get())
        }
        (None, _) => format!("The drive has {}-byte {noun}; the first is at byte {first}.", size.get()),
    }
}

fn is_flash(report: &Report) -> bool {
    matches!(report.rotation.value, Some(Rotation::None))
}

fn table(report: &Report) -> String {
    let claims = &report.claims;
    let size = |size: ByteCount| format!("{} bytes", size.get());
    let first = |phase: ByteCount| format!("byte {}", phase.get());
    let turns = |turns: bool| if turns { "rotates" } else { "does not rotate" }.to_owned();
    let rows = [
        row("unit", &report.unit, |unit| size(unit.size()), claims.unit.map(size)),
        row("first boundary", &report.unit, |unit| first(unit.phase()), claims.phase.map(first)),
        row("rotation", &report.rotation, rotation, claims.rotational.map(turns)),
        row("write cache", &report.cache, cache, None),
        row("partial unit", &report.rmw, rmw, None),
        row("merge window", &report.merge, window, None),
        row("cache depth", &report.depth, |writes| format!("{writes} writes"), None),
    ];
    let mut table = plain_table(&["PROPERTY", "FOUND", "CONFIDENCE", "CLAIMED"]);
    // Neither found nor claimed.
    table
        .add_rows(rows.into_iter().filter(|[_, _, confidence, claimed]| confidence != "-" || claimed != "-"));
    folded(&mut table);
    headed(&table, style::HEADING) + "\n"
}

fn row<T: Copy>(
    name: &str,
    finding: &Finding<T>,
    shown: impl Fn(T) -> String,
    claimed: Option<String>,
) -> [String; 4] {
    let found = finding.value.map_or_else(|| "cannot tell".to_owned(), shown);
    let confidence = match finding.confidence {
        Confidence::None => "-",
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    };
    [name.to_owned(), found, confidence.to_owned(), claimed.unwrap_or_else(|| "-".to_owned())]
}

fn rotation(rotation: Rotation) -> String {
    match rotation {
        Rotation::Period(period) => format!("{period}, {:.0} rpm", 60.0 / period.seconds()),
        Rotation::None => "does not rotate".to_owned(),
    }
}

fn cache(cache: WriteCache) -> String {
    match cache {
        WriteCache::None => "none: writes wait for the medium",
        WriteCache::Volatile => "volatile; flushes work",
        WriteCache::Unflushed => "flushes have no effect (a protected cache, or flushes are ignored)",
    }
    .to_owned()
}

fn rmw(cost: RmwCost) -> String {
    let when = match cost.when {
        Rmw::None => return "none".to_owned(),
        Rmw::Immediate => "at once",
        Rmw::Deferred => "from the cache",
    };
    format!("completed {when}; one adds {}, two add {}", millis(cost.one), millis(cost.two))
}

fn window(seconds: f64) -> String {
    if seconds > 0.0 { format!("at least {}", millis(seconds)) } else { "none".to_owned() }
}

fn millis(seconds: f64) -> String {
    if seconds < 0.001 { format!("{:.0} µs", seconds * 1e6) } else { format!("{:.1} ms", seconds * 1e3) }
}

fn evidence(report: &Report) -> String {
    if let Some(sustained) = &report.sustained {
        return series(sustained);
    }
    report.scans.last().map_or_else(String::new, phases)
}

fn phases(scan: &PhaseScan) -> String {
    let medians: Vec<(u64, f64)> = scan.medians().collect();
    let most = medians.iter().map(|phase| phase.1).fold(0.0, f64::max);
    let mut text = format!("Median time of durable {}-byte writes, by offset:\n", scan.size);
    for (phase, seconds) in medians.iter().copied().step_by(medians.len().div_ceil(MOST_BARS).max(1)) {
        let _ = writeln!(text, "{phase:>7}  {:>9}  {}", millis(seconds), bar(seconds / most, BAR));
    }
    text + "\n"
}

fn exact(bytes: u64) -> f64 {
    u32::try_from(bytes).map_or(f64::MAX, f64::from)
}

fn series(sustained: &Sustained) -> String {
    let size = sustained.unit.size().get();
    let names = match sustained.straddling {
        true => ["across a boundary", "within a unit", "at its middle"],
        false => ["between boundaries", "on the boundaries", "half a unit away"],
    };
    let mean = |times: &Vec<f64>| times.iter().sum::<f64>() / exact(times.len() as u64).max(1.0);
    let means = [&sustained.dear, &sustained.cheap, &sustained.half].map(mean);
    let most = means.into_iter().fold(0.0, f64::max);
    let mut text = format!(
        "Mean time of {} consecutive writes with a full cache, for {size}-byte units:\n",
        sustained.length
    );
    for (name, mean) in names.into_iter().zip(means) {
        let _ = writeln!(text, "  {name:<18}  {:>9}  {}", millis(mean), bar(mean / most, BAR));
    }
    text + "\n"
}

fn consequence(report: &Report) -> String {
    let Some(unit) = report.unit.value else {
        return "Align partitions to 1 MiB, which suits nearly every drive.".to_owned();
    };
    let size = unit.size().get();
    if size == report.logical {
        return "Any start is aligned.".to_owned();
    }
    let phase = match unit.phase().get() {
        0 => String::new(),
        phase => format!(" plus {phase} (first aligned LBA: {})", phase / report.logical),
    };
    let aligned = |start: u64| if unit.is_aligned(ByteOffset::new(start)) { "aligned" } else { "misaligned" };
    let mut text = format!(
        "Align partitions to multiples of {size} bytes{phase}. A start at 1 MiB is {}, and a start at \
         512-byte sector 63 is {}.",
        aligned(1 << 20),
        aligned(OLD_START)
    );
    if let Some(ratio) = report.cost() {
        let kind = if report.proof.is_some() { "durable" } else { "sustained" };
        text += &match is_flash(report) {
            true => format!(
                " A misaligned {kind} write takes {ratio:.2} times as long, and writes twice the bytes to \
                 flash."
            ),
            false => format!(
                " Without seeks, misaligned {kind} writes take {ratio:.2} times as long as aligned ones; \
                 with seeks, the ratio is smaller."
            ),
        };
    }
    text
}
