//! `straddle sim`: replays a block trace on a modelled drive.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_trace::{
    Format, Options, Pace, Reader, Recording, Replayed, Replays, TraceError, replay, replay_volumes,
};
use straddle_units::ByteCount;
use straddle_units::io::{Latency, Nanos, rounded};

use crate::args::place;
use crate::commands::trace::SourceArguments;
use crate::exit::{Exit, UsageError};
use crate::output::{paint, plural, printable, style};
use crate::target::{self, drives};
use crate::view::json::{Document, SchemaOf};
use crate::view::text::{headed, plain_table, right, wrap};
use crate::{exit, input, output};

/// Examples for `sim --help`.
const EXAMPLES: &str = "\
Examples:
  straddle sim web.csv --drive wd10ears             # at the recorded times
  straddle sim web.csv --drive wd10ears --shift 512 # one sector later
  straddle sim web.csv --drive wd10ears --compare   # both, side by side
  straddle sim web.csv --drive wd10ears --started-at 63s --compare
  straddle sim web.csv --drive wd10ears --shift 0,512,32256 --json
  straddle sim big.csv --drive wd10ears --closed-loop --queue-depth 32 --wrap
  straddle sim cheetah9LP.trace --format disksim --drive ./my-drive.toml
  straddle sim cloud.parquet --drive qlc-16k        # a drive for each volume
  straddle sim sda --drive wd10ears                 # sda.blktrace.0 and so on

A CSV trace has a header with the columns time (or time_ms, time_us, time_ns),
op (R, W, F, D), offset and length (bytes). Other columns are ignored:
  time_us,op,offset,length
  0,W,1048576,4096
  150.5,R,0,65536";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(crate::commands::trace::STATUSES)))]
pub(crate) struct SimArguments {
    /// Block trace to replay, optionally compressed (gzip, zstd, xz), or `-` for standard input. If there is
    /// no file NAME, the files NAME.blktrace.0, NAME.blktrace.1 and so on are read.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) trace: PathBuf,

    /// Modelled drive to replay it on (NAME or NAME,OPTION; see 'straddle drive list'), or the path of a profile.
    #[arg(long, value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: target::Drive,

    /// Add this to every offset, as in a partition that starts there: bytes (31KiB) or 512-byte sectors
    /// (63s). --started-at is the same option. Separate several values by commas; each is replayed on a fresh
    /// drive.
    #[arg(long, alias = "started-at", value_name = "OFFSET", value_delimiter = ',', value_parser = place)]
    pub(crate) shift: Vec<ByteCount>,

    /// Also replay without a shift, and report the ratio. Without --shift, the other replay is shifted by one
    /// logical sector.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Send each request at its recorded time, even if the drive is busy [default for CSV].
    #[arg(long, conflicts_with = "closed_loop")]
    pub(crate) open_loop: bool,

    /// Send each request when the previous one completes, plus the delay recorded in the trace, if any
    /// [default for DiskSim traces].
    #[arg(long)]
    pub(crate) closed_loop: bool,

    /// Maximum number of outstanding requests [default: 32 with --open-loop, 1 with --closed-loop].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) queue_depth: Option<u32>,

    /// Wrap requests past the end of the drive around to its beginning, with the same alignment. Without this
    /// option, such requests are an error.
    #[arg(long)]
    pub(crate) wrap: bool,

    /// Replay all volumes on a single drive instead of one drive per volume.
    #[arg(long)]
    pub(crate) one_drive: bool,

    #[command(flatten)]
    pub(crate) source: SourceArguments,

    /// Print JSON (see `straddle schema sim`).
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &SimArguments) -> Result<Exit> {
    let target::Drive { specification, profile } = &arguments.drive;
    let shifts = shifts(arguments, profile)?;
    let trace = arguments.trace.display().to_string();
    if shifts.len() > 1 && input::is_stdin(&arguments.trace) {
        let message = "standard input can be read only once, but each shift reads the trace again: save it \
                       to a file";
        return Err(UsageError(message.to_owned()).into());
    }
    let recordings = Recording::group(std::slice::from_ref(&arguments.trace));
    let runs = shifts.into_iter().flat_map(|shift| recordings.iter().map(move |trace| (trace, shift)));
    let runs =
        runs.map(|(trace, shift)| one(arguments, profile, trace, shift)).collect::<Result<Vec<Run>>>()?;
    let sim = Sim { trace: &trace, drive: specification, profile, runs: &runs };
    if arguments.json {
        Document::of(SchemaOf::Sim, sim.report()).print()?;
        return Ok(Exit::Success);
    }
    output::print(&described(&sim))?;
    Ok(Exit::Success)
}

/// Returns the shifts of all runs in bytes, in order.
fn shifts(arguments: &SimArguments, profile: &Profile) -> Result<Vec<u64>> {
    let sector = profile.claims.logical_sector;
    let mut shifts: Vec<u64> = arguments.shift.iter().map(|shift| shift.get()).collect();
    if let Some(shift) = shifts.iter().find(|shift| !shift.is_multiple_of(sector)) {
        let message = format!("--shift {shift}: this drive has {sector}-byte logical sectors");
        return Err(UsageError(message).into());
    }
    if shifts.is_empty() {
        shifts.push(if arguments.compare { sector } else { 0 });
    }
    if arguments.compare && shifts[0] != 0 {
        shifts.insert(0, 0);
    }
    Ok(shifts)
}

fn one(arguments: &SimArguments, profile: &Profile, trace: &Recording, shift: u64) -> Result<Run> {
    let mut reader = input::trace(trace, &arguments.source.how(true))?;
    let pace = match (arguments.open_loop, arguments.closed_loop) {
        (true, _) => Some(Pace::Open),
        (_, true) => Some(Pace::Closed),
        _ => None,
    };
    // Once, and not for each shift.
    let first = if arguments.compare { 0 } else { arguments.shift.first().map_or(0, |first| first.get()) };
    let warn = |reader: &Reader<'_>| {
        if shift == first {
            input::warn(&trace.name, reader.origin());
        }
    };
    let options = Options { pace, shift, depth: arguments.queue_depth, wrap: arguments.wrap };
    if arguments.one_drive {
        let replayed = replay(profile, &mut reader, &options, &mut |_| {})?;
        warn(&reader);
        return Ok(Run::of_one(shift, Read::of(&mut reader)?, replayed));
    }
    let replays = replay_volumes(profile, &mut reader, &options)?;
    warn(&reader);
    Ok(Run::of_volumes(shift, Read::of(&mut reader)?, replays))
}

/// What `straddle sim --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SimReport<'a> {
    /// The trace.
    trace: Trace<'a>,
    /// The drive on which it was replayed. All times are the model's.
    drive: Drive<'a>,
    /// One run for each shift, in the order of the shifts, each on a fresh drive.
    runs: Vec<RunReport<'a>>,
}

/// A trace.
#[derive(Debug, Serialize, JsonSchema)]
struct Trace<'a> {
    /// The trace as named on the command line.
    name: &'a str,
    /// The format, by its name for `--format`; absent if the trace is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

/// A modelled drive.
#[derive(Debug, Serialize, JsonSchema)]
struct Drive<'a> {
    /// The drive as named on the command line.
    name: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
    /// The size in bytes.
    capacity_bytes: u64,
    /// The logical sector size in bytes.
    logical_sector_bytes: u64,
    /// The true physical sector (or indirection unit) in bytes, whatever the drive reports.
    physical_sector_bytes: u64,
}

/// A replay with one shift.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunReport<'a> {
    /// The number of bytes added to every offset.
    shift_bytes: u64,
    /// The number of requests that arrive earlier than one before them: they were replayed as of that one's time.
    late_requests: u64,
    #[serde(flatten)]
    replay: Replay<'a>,
    /// The volumes, each on a drive of its own, in the order in which they occur in the trace; absent if there is one
    /// only, or one drive for all of them. Above them are their sums, and the longest of times that pass at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeReport<'a>>,
}

/// A volume of the trace on a drive of its own.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
struct VolumeReport<'a> {
    /// Its name; absent if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(flatten)]
    replay: Replay<'a>,
}

/// What was replayed.
#[derive(Debug, Serialize, JsonSchema)]
struct Replay<'a> {
    #[serde(flatten)]
    replayed: &'a Replayed,
    /// `misaligned_requests` as a fraction of all reads and writes; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    misaligned_share: Option<f64>,
    /// The sum of the latencies of reads, writes and flushes, in nanoseconds.
    busy_ns: u64,
    /// `busy_ns` relative to the first run. If one of the two diverges, it depends on the length of the
    /// trace.
    ratio: f64,
    /// Whether the drive cannot keep up with the times of the trace, so that requests wait longer and longer.
    diverges: bool,
}

/// What was seen of a trace when it was read.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) format: Option<Format>,
    /// Requests that are earlier than one before them.
    pub(crate) late: u64,
}

impl Read {
    pub(crate) fn of(reader: &mut Reader<'_>) -> Result<Self, TraceError> {
        Ok(Self { format: reader.detect()?, late: reader.late() })
    }
}

/// A replay with one shift.
pub(crate) struct Run {
    pub(crate) shift: u64,
    pub(crate) read: Read,
    pub(crate) replayed: Replayed,
    /// The volumes, if each had a drive of its own.
    pub(crate) volumes: Vec<(String, Replayed)>,
}

impl Run {
    /// Creates the run of a trace on one drive.
    pub(crate) const fn of_one(shift: u64, read: Read, replayed: Replayed) -> Self {
        Self { shift, read, replayed, volumes: Vec::new() }
    }

    /// Creates the run of a trace with a drive for each volume.
    pub(crate) fn of_volumes(shift: u64, read: Read, replays: Replays) -> Self {
        match <[_; 1]>::try_from(replays.volumes) {
            Ok([(_, replayed)]) => Self::of_one(shift, read, replayed),
            Err(volumes) => Self { shift, read, replayed: replays.total, volumes },
        }
    }

    /// Returns the number of requests that were replayed later than they arrived: if they are at their times at all.
    pub(crate) fn late(&self) -> u64 {
        if self.replayed.pace == Pace::Open { self.read.late } else { 0 }
    }

    /// Whether a drive does not keep up with the times of the trace.
    pub(crate) fn diverges(&self) -> bool {
        match &self.volumes[..] {
            [] => self.replayed.diverges(),
            volumes => volumes.iter().any(|(_, replayed)| replayed.diverges()),
        }
    }
}

/// The runs of a replay, to be reported.
pub(crate) struct Sim<'a> {
    pub(crate) trace: &'a str,
    pub(crate) drive: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) runs: &'a [Run],
}

impl<'a> Sim<'a> {
    /// Returns the total time of a run's requests relative to that of the first run.
    pub(crate) fn ratio(&self, run: &Run) -> f64 {
        ratio(&run.replayed, self.runs.first().map(|first| &first.replayed))
    }

    /// Returns the published form.
    pub(crate) fn report(&self) -> SimReport<'a> {
        let (claims, sectors) = (&self.profile.claims, self.profile.sectors);
        SimReport {
            trace: Trace {
                name: self.trace,
                format: self.runs.iter().find_map(|run| run.read.format).map(Format::name),
            },
            drive: Drive {
                name: self.drive,
                title: &self.profile.title,
                capacity_bytes: claims.capacity,
                logical_sector_bytes: claims.logical_sector,
                physical_sector_bytes: sectors.physical,
            },
            runs: self.runs.iter().map(|run| self.run(run)).collect(),
        }
    }

    fn run(&self, run: &'a Run) -> RunReport<'a> {
        let first = self.runs.first();
        let volume = |(name, replayed): &'a (String, Replayed)| {
            let first = first.and_then(|run| run.volumes.iter().find(|(known, _)| known == name));
            VolumeReport {
                name: Some(name.as_str()).filter(|name| !name.is_empty()),
                replay: Replay::of(replayed, first.map(|(_, first)| first), replayed.diverges()),
            }
        };
        RunReport {
            shift_bytes: run.shift,
            late_requests: run.late(),
            replay: Replay::of(&run.replayed, first.map(|first| &first.replayed), run.diverges()),
            volumes: run.volumes.iter().map(volume).collect(),
        }
    }
}

impl<'a> Replay<'a> {
    fn of(replayed: &'a Replayed, first: Option<&Replayed>, diverges: bool) -> Self {
        Self {
            replayed,
            misaligned_share: replayed.misaligned_share(),
            busy_ns: replayed.busy().get(),
            ratio: ratio(replayed, first),
            diverges,
        }
    }
}

fn ratio(replayed: &Replayed, first: Option<&Replayed>) -> f64 {
    let first = first.map_or(0.0, |first| first.busy().seconds());
    if first > 0.0 { replayed.busy().seconds() / first } else { 1.0 }
}

/// Returns the verdict, and the tables.
pub(crate) fn described(sim: &Sim<'_>) -> String {
    let mut text = String::new();
    let mut style = style::HEADING;
    for sentence in verdicts(sim) {
        let _ = writeln!(text, "{}", paint(style, &wrap(&sentence, "")));
        style = anstyle::Style::new();
    }
    for note in sim.runs.first().map(notes).unwrap_or_default() {
        let _ = writeln!(text, "{}", wrap(&note, ""));
    }
    let _ = write!(text, "\n{}\n\n{}\n", table(sim), totals(sim));
    if sim.runs.iter().any(|run| run.volumes.len() > 1) {
        let _ = write!(text, "\n{}", volumes(sim));
    }
    let _ = writeln!(text, "\n{}", paint(style::FAINT, &wrap(&headline(sim), "")));
    text
}

/// Returns what was replayed, on which drive, and by which clock.
fn headline(sim: &Sim<'_>) -> String {
    let pace = sim.runs.first().map(|run| match run.replayed.pace {
        Pace::Open => format!("requests at their times, at most {} outstanding", run.replayed.depth),
        Pace::Closed => format!("{} outstanding", plural(depth(run), "request")),
    });
    let (trace, title) = (printable(sim.trace), printable(&sim.profile.title));
    let name = printable(sim.drive);
    let volumes = sim.runs.first().map_or(0, |run| run.volumes.len());
    let each = if volumes > 1 {
        format!(", each of {volumes} volumes on a drive of its own")
    } else {
        String::new()
    };
    format!("{trace} on {title} (drive:{name}){each}: {}; modelled, virtual time.", pace.unwrap_or_default())
}

fn depth(run: &Run) -> usize {
    usize::try_from(run.replayed.depth).unwrap_or(usize::MAX)
}

fn table(sim: &Sim<'_>) -> String {
    let mut table = plain_table(&["SHIFT", "OP", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"]);
    for run in sim.runs {
        let replayed = &run.replayed;
        let mut shift = run.shift.to_string();
        for (op, times) in
            [("read", &replayed.reads), ("write", &replayed.writes), ("flush", &replayed.flushes)]
        {
            if times.count() > 0 {
                table.add_row(row(std::mem::take(&mut shift), op, times));
            }
        }
    }
    right(&mut table, [0].into_iter().chain(2..9));
    headed(&table, style::HEADING)
}

/// The most volumes listed by name.
const LISTED: usize = 10;

/// Returns the table of volumes, those whose requests take longest in all first.
fn volumes(sim: &Sim<'_>) -> String {
    let Some(first) = sim.runs.first() else { return String::new() };
    let mut volumes: Vec<_> = first.volumes.iter().collect();
    volumes.sort_by_key(|(_, replayed)| std::cmp::Reverse(replayed.busy()));
    let shifts: Vec<String> = sim.runs.iter().map(|run| format!("SHIFT {}", run.shift)).collect();
    let mut table = plain_table(
        &["VOLUME", "REQUESTS"].into_iter().chain(shifts.iter().map(String::as_str)).collect::<Vec<_>>(),
    );
    for (name, replayed) in volumes.iter().take(LISTED) {
        let shown = if name.is_empty() { "-".to_owned() } else { printable(name).to_string() };
        let mut row = vec![shown, replayed.requests.to_string()];
        for run in sim.runs {
            let replayed = run.volumes.iter().find(|(known, _)| known == name);
            row.push(replayed.map_or_else(String::new, |(_, replayed)| mean(replayed)));
        }
        table.add_row(row);
    }
    right(&mut table, 1..2 + shifts.len());
    let mut text = format!("Mean time of a request:\n{}\n", headed(&table, style::HEADING));
    if volumes.len() > LISTED {
        let _ = writeln!(text, "({} more: --json lists all)", plural(volumes.len() - LISTED, "volume"));
    }
    text
}

fn mean(replayed: &Replayed) -> String {
    let count = replayed.reads.count() + replayed.writes.count() + replayed.flushes.count();
    Nanos::new(replayed.busy().get().checked_div(count).unwrap_or(0)).to_string()
}

fn row(shift: String, op: &str, times: &Latency) -> Vec<String> {
    let mut row = vec![shift, op.to_owned(), times.count().to_string(), times.mean().to_string()];
    row.extend([0.5, 0.9, 0.99, 0.999].map(|share| times.quantile(share).to_string()));
    row.push(times.max().to_string());
    row
}

/// Returns the table of what each run did to the medium.
fn totals(sim: &Sim<'_>) -> String {
    let mut table =
        plain_table(&["SHIFT", "REQUESTS", "BYTES", "TIME", "MISALIGNED", "RMW", "WRITTEN", "REVOLUTIONS"]);
    for run in sim.runs {
        let (replayed, counters) = (&run.replayed, &run.replayed.counters);
        let dash = || "-".to_owned();
        table.add_row([
            run.shift.to_string(),
            replayed.requests.to_string(),
            ByteCount::new(replayed.bytes).to_string(),
            replayed.elapsed.to_string(),
            replayed.misaligned_share().map_or_else(dash, |share| format!("{:.1} %", 100.0 * share)),
            counters.rmw_reads.to_string(),
            counters.write_amplification().map_or_else(dash, |times| format!("{times:.2} x")),
            if counters.revolution > 0 { rounded(counters.revolutions_waited()) } else { dash() },
        ]);
    }
    right(&mut table, 0..8);
    headed(&table, style::HEADING)
}

/// Says what was not replayed as the trace has it. That is the same for all shifts.
fn notes(run: &Run) -> Vec<String> {
    let (late, replayed) = (run.late(), &run.replayed);
    let Replayed { off_sector, ignored, .. } = replayed;
    let said = [
        (late, "request", "out of chronological order, replayed in the order of the trace"),
        (*off_sector, "request", "extended to whole 512-byte sectors"),
        (replayed.wrapped, "request", "past the end of the drive, wrapped to its beginning"),
        (*ignored, "discard", "skipped: the drive has no such command"),
    ];
    let said = said.into_iter().filter(|(count, _, _)| *count > 0);
    let mut said: Vec<String> =
        said.map(|(count, what, how)| format!("{}: {how}.", plural(count, what))).collect();
    let counted = &replayed.counters;
    if counted.merged_writes == 0 && counted.media_write_bytes < counted.host_write_bytes / 2 {
        said.push(format!(
            "Only {} of {} written had reached the medium at the end: a longer trace shows the cost of \
             writing the rest.",
            ByteCount::new(counted.media_write_bytes),
            ByteCount::new(counted.host_write_bytes)
        ));
    }
    said
}

/// Compares the cost of each shift with that of the first. If requests wait longer and longer, a ratio of
/// their times is meaningless and is not given.
fn verdicts(sim: &Sim<'_>) -> Vec<String> {
    let Some((first, others)) = sim.runs.split_first() else { return Vec::new() };
    if first.replayed.requests == 0 {
        return vec!["No request was replayed.".to_owned()];
    }
    let mut sentences: Vec<String> = sim.runs.iter().filter(|run| run.diverges()).map(lags).collect();
    for run in others {
        let (shift, beside, ratio) = (run.shift, first.shift, sim.ratio(run));
        let mut said = if !first.diverges() && !run.diverges() {
            format!("With shift {shift}, requests take {ratio:.2} times as long as with shift {beside}")
        } else if first.replayed.elapsed.seconds() > 0.0 {
            let all = run.replayed.elapsed.seconds() / first.replayed.elapsed.seconds();
            format!(
                "With shift {shift}, the whole trace takes {all:.2} times as long as with shift {beside} \
                 (--closed-loop compares single requests)"
            )
        } else {
            continue;
        };
        let [here, there] = [run, first].map(|run| run.replayed.counters.media_write_bytes);
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let written = here as f64 / there.max(1) as f64;
        if there > 0 && (written - 1.0).abs() >= 0.005 {
            let _ = write!(said, "; {written:.2} times the bytes are written to the medium");
        }
        sentences.push(said + ".");
    }
    if sentences.is_empty() {
        let mean = mean(&first.replayed);
        sentences
            .push(format!("A request takes {mean} on average (--compare shows what misalignment costs)."));
    }
    sentences
}

/// Says that a drive does not keep up.
fn lags(run: &Run) -> String {
    let Run { shift, replayed, .. } = run;
    format!(
        "With shift {shift}, the drive cannot keep up: at the end of the trace ({}), it is {} behind.",
        replayed.span, replayed.behind
    )
}
