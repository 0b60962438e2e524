//! `straddle sim`: replays a block trace on a modelled drive.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_measure::bench::float;
use straddle_trace::{Format, Options, Pace, Recording, Replayed, replay, replay_volumes};
use straddle_units::ByteCount;
use straddle_units::io::{Latency, Nanos, rounded};

use crate::args::place;
use crate::commands::trace::SourceArguments;
use crate::exit::{Exit, usage};
use crate::output::{paint, plural, printable, style};
use crate::target::{self, drives};
use crate::view::json::{Document, SchemaOf};
use crate::view::text::trace::missing;
use crate::view::text::{headed, led, plain_table, right, wrap};
use crate::{exit, input, output};

const EXAMPLES: &str = "\
Examples:
  straddle sim web.csv --drive wd10ears             # at the recorded times
  straddle sim web.csv --drive wd10ears --shift 512 # one sector further
  straddle sim web.csv --drive wd10ears --compare   # with and without a shift
  straddle sim web.csv --drive wd10ears --started-at 63s --compare
  straddle sim web.csv --drive wd10ears --shift 0,512,32256 --json
  straddle sim big.csv --drive wd10ears --closed-loop --queue-depth 32 --wrap
  straddle sim web.csv --drive ./my-drive.toml --closed-loop
  straddle sim cloud.parquet --drive qlc-16k        # one drive per volume
  straddle sim sda --drive wd10ears                 # sda.blktrace.0 and so on

A CSV trace has a header with the columns time (or time_ms, time_us, time_ns),
op (R, W, F, D), offset and length (bytes). Other columns are ignored. Example:
  time_us,op,offset,length
  0,W,1048576,4096
  150.5,R,0,65536";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(crate::commands::trace::STATUSES)))]
pub(crate) struct SimArguments {
    /// Block trace to replay, optionally compressed (gzip, zstd, xz), or `-` for standard input. If there is
    /// no file named TRACE, the files TRACE.blktrace.0, TRACE.blktrace.1 and so on are read.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) trace: PathBuf,

    /// Modelled drive to replay the trace on (NAME or NAME,OPTION; see 'straddle drive list'), or the path of
    /// a profile.
    #[arg(long, value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: target::Drive,

    /// Add this number of bytes (31KiB) or 512-byte sectors (63s) to every offset, as if the partition
    /// started at OFFSET. Separate several shifts with commas. For each shift, the trace is replayed on a
    /// fresh drive. --started-at is an alias.
    #[arg(long, alias = "started-at", value_name = "OFFSET", value_delimiter = ',', value_parser = place)]
    pub(crate) shift: Vec<ByteCount>,

    /// Also replay without a shift, and report the ratio of the two times. If --shift is not specified, the
    /// shift is one logical sector.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Send each request when the previous one completes [default: at its recorded time, even if the drive is
    /// busy].
    #[arg(long)]
    pub(crate) closed_loop: bool,

    /// Maximum number of outstanding requests [default: 32, or 1 with --closed-loop].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) queue_depth: Option<u32>,

    /// If a request is past the end of the drive, wrap it around to the beginning, preserving its alignment.
    /// Without --wrap, any request past the end is an error.
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
    if shifts.len() > 1 && input::is_stdin(&arguments.trace) {
        return usage(
            "standard input can be read only once, but straddle reads the trace once for each shift; save \
             the trace to a file first",
        );
    }
    let recordings = Recording::group(std::slice::from_ref(&arguments.trace));
    let mut runs: Vec<Run> = Vec::new();
    for shift in shifts {
        for trace in &recordings {
            runs.push(one(arguments, profile, trace, shift, runs.first())?);
        }
    }
    let claims = &profile.claims;
    let report = SimReport {
        trace: Trace {
            name: arguments.trace.display().to_string(),
            format: runs.iter().find_map(|run| run.format).map(Format::name),
        },
        drive: Drive {
            name: specification,
            title: &profile.title,
            capacity_bytes: claims.capacity,
            logical_sector_bytes: claims.logical_sector,
            physical_sector_bytes: profile.sectors.physical,
        },
        runs,
    };
    if arguments.json {
        Document::of(SchemaOf::Sim, report).print()
    } else {
        output::print(&described(&report))
    }
}

fn shifts(arguments: &SimArguments, profile: &Profile) -> Result<Vec<u64>> {
    let sector = profile.claims.logical_sector;
    let mut shifts: Vec<u64> = arguments.shift.iter().map(|shift| shift.get()).collect();
    if let Some(shift) = shifts.iter().find(|shift| !shift.is_multiple_of(sector)) {
        return usage(format!(
            "--shift {shift} is not a multiple of the drive's {sector}-byte logical sector"
        ));
    }
    if shifts.is_empty() {
        shifts.push(if arguments.compare { sector } else { 0 });
    }
    if arguments.compare && shifts[0] != 0 {
        shifts.insert(0, 0);
    }
    Ok(shifts)
}

fn one(
    arguments: &SimArguments,
    profile: &Profile,
    trace: &Recording,
    shift: u64,
    first: Option<&Run>,
) -> Result<Run> {
    let mut reader = trace.open(&arguments.source.how(true))?;
    let pace = if arguments.closed_loop { Pace::Closed } else { Pace::Open };
    let options = Options { pace, shift, depth: arguments.queue_depth, wrap: arguments.wrap };
    let (mut replayed, mut volumes) = if arguments.one_drive {
        (replay(profile, &mut reader, &options, &mut |_| {})?, Vec::new())
    } else {
        let replays = replay_volumes(profile, &mut reader, &options)?;
        (replays.total, replays.volumes)
    };
    if volumes.len() == 1
        && let Some((_, only)) = volumes.pop()
    {
        replayed = only;
    }
    // Once, and not for each shift.
    let first_shift =
        if arguments.compare { 0 } else { arguments.shift.first().map_or(0, |first| first.get()) };
    if shift == first_shift {
        missing(&trace.name, reader.origin()).iter().for_each(|line| output::complain(line));
    }
    let mut diverges = replayed.diverges() && volumes.is_empty();
    let volumes = volumes.into_iter().map(|(name, replayed)| {
        let name = Some(name).filter(|name| !name.is_empty());
        let first = first.and_then(|run| run.volumes.iter().find(|known| known.name == name));
        diverges |= replayed.diverges();
        let is_behind = replayed.diverges();
        Volume { name, replay: Replay::of(replayed, first.map(|first| &first.replay), is_behind) }
    });
    let volumes = volumes.collect();
    Ok(Run {
        format: reader.detect()?,
        shift_bytes: shift,
        late_requests: if replayed.pace == Pace::Open { reader.late() } else { 0 },
        replay: Replay::of(replayed, first.map(|first| &first.replay), diverges),
        volumes,
    })
}

/// What `straddle sim --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SimReport<'a> {
    /// The trace that was replayed.
    trace: Trace,
    /// The modelled drive on which the trace was replayed. All times are the model's.
    drive: Drive<'a>,
    /// One run for each shift, each on a fresh drive, in the order of the shifts.
    runs: Vec<Run>,
}

/// A trace.
#[derive(Debug, Serialize, JsonSchema)]
struct Trace {
    /// The trace as named on the command line.
    name: String,
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
    /// The true size of the physical sector (or indirection unit) in bytes, whatever the drive reports.
    physical_sector_bytes: u64,
}

/// A replay of the trace with one shift.
#[derive(Debug, Serialize, JsonSchema)]
struct Run {
    #[serde(skip)]
    format: Option<Format>,
    /// The number of bytes added to every offset.
    shift_bytes: u64,
    /// The number of requests whose time is earlier than that of a preceding request. They were replayed as
    /// if they had the preceding request's time.
    late_requests: u64,
    #[serde(flatten)]
    replay: Replay,
    /// The volumes, each replayed on a drive of its own, in the order of the trace; absent if there is only
    /// one, or if all share a drive. The run's other figures are sums over the volumes or, for times that
    /// pass in parallel, the longest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<Volume>,
}

/// A volume of the trace, with its own drive.
#[derive(Debug, Serialize, JsonSchema)]
struct Volume {
    /// The name of the volume; absent if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    replay: Replay,
}

/// What was replayed.
#[derive(Debug, Serialize, JsonSchema)]
struct Replay {
    #[serde(flatten)]
    replayed: Replayed,
    /// `misaligned_requests` as a fraction of all reads and writes; absent if there are no reads or writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    misaligned_share: Option<f64>,
    /// The sum of the latencies of reads, writes and flushes, in nanoseconds.
    busy_ns: u64,
    /// `busy_ns` relative to that of the first run. If one of the two runs diverges, the ratio depends on the
    /// length of the trace.
    ratio: f64,
    /// Whether the drive cannot keep up with the request times in the trace, so that requests wait longer and
    /// longer.
    diverges: bool,
}

impl Replay {
    fn of(replayed: Replayed, first: Option<&Self>, diverges: bool) -> Self {
        let busy = replayed.busy();
        let first = first.map_or(0.0, |first| first.replayed.busy().seconds());
        Self {
            misaligned_share: replayed.misaligned_share(),
            busy_ns: busy.get(),
            ratio: if first > 0.0 { busy.seconds() / first } else { 1.0 },
            diverges,
            replayed,
        }
    }
}

fn described(sim: &SimReport<'_>) -> String {
    let mut text = led(verdicts(sim).iter().map(|sentence| wrap(sentence, "")));
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

fn headline(sim: &SimReport<'_>) -> String {
    let pace = sim.runs.first().map(|run| match run.replay.replayed.pace {
        Pace::Open => {
            format!("requests at their recorded times, at most {} outstanding", run.replay.replayed.depth)
        }
        Pace::Closed => format!("{} outstanding", plural(run.replay.replayed.depth, "request")),
    });
    let (trace, title, name) =
        (printable(&sim.trace.name), printable(sim.drive.title), printable(sim.drive.name));
    let volumes = sim.runs.first().map_or(0, |run| run.volumes.len());
    let each = if volumes > 1 { format!(", one drive for each of {volumes} volumes") } else { String::new() };
    format!("{trace} on {title} (drive:{name}){each}: {}; modelled, virtual time.", pace.unwrap_or_default())
}

fn table(sim: &SimReport<'_>) -> String {
    let mut table = plain_table(&["SHIFT", "OP", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"]);
    for run in &sim.runs {
        let replayed = &run.replay.replayed;
        let mut shift = run.shift_bytes.to_string();
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

const LISTED: usize = 10;

fn volumes(sim: &SimReport<'_>) -> String {
    let Some(first) = sim.runs.first() else { return String::new() };
    let mut volumes: Vec<_> = first.volumes.iter().collect();
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.replay.busy_ns));
    let shifts: Vec<String> = sim.runs.iter().map(|run| format!("SHIFT {}", run.shift_bytes)).collect();
    let mut table = plain_table(
        &["VOLUME", "REQUESTS"].into_iter().chain(shifts.iter().map(String::as_str)).collect::<Vec<_>>(),
    );
    for Volume { name, replay } in volumes.iter().take(LISTED) {
        let mut row = vec![printable(name.as_deref().unwrap_or("-")), replay.replayed.requests.to_string()];
        for run in &sim.runs {
            let volume = run.volumes.iter().find(|known| known.name == *name);
            row.push(volume.map_or_else(String::new, |volume| mean(&volume.replay.replayed)));
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

fn totals(sim: &SimReport<'_>) -> String {
    let mut table =
        plain_table(&["SHIFT", "REQUESTS", "BYTES", "TIME", "MISALIGNED", "RMW", "WRITTEN", "REVOLUTIONS"]);
    for run in &sim.runs {
        let replayed = &run.replay.replayed;
        let counters = &replayed.counters;
        let dash = || "-".to_owned();
        table.add_row([
            run.shift_bytes.to_string(),
            replayed.requests.to_string(),
            ByteCount::new(replayed.bytes).to_string(),
            replayed.elapsed.to_string(),
            run.replay.misaligned_share.map_or_else(dash, |share| format!("{:.1} %", 100.0 * share)),
            counters.rmw_reads.to_string(),
            counters.write_amplification().map_or_else(dash, |times| format!("{times:.2} x")),
            if counters.revolution > 0 { rounded(counters.revolutions_waited()) } else { dash() },
        ]);
    }
    right(&mut table, 0..8);
    headed(&table, style::HEADING)
}

fn notes(run: &Run) -> Vec<String> {
    let (late, replayed) = (run.late_requests, &run.replay.replayed);
    let Replayed { off_sector, ignored, .. } = replayed;
    let said = [
        (late, "request", "out of chronological order, replayed in trace order"),
        (*off_sector, "request", "extended to whole 512-byte sectors"),
        (replayed.wrapped, "request", "past the end of the drive, wrapped to its beginning"),
        (*ignored, "discard", "skipped, because the drive has no such command"),
    ];
    let said = said.into_iter().filter(|(count, _, _)| *count > 0);
    let mut said: Vec<String> =
        said.map(|(count, what, how)| format!("{}: {how}.", plural(count, what))).collect();
    let counted = &replayed.counters;
    if counted.merged_writes == 0 && counted.media_write_bytes < counted.host_write_bytes / 2 {
        said.push(format!(
            "Only {} of the {} written had reached the medium by the end; a longer trace would show the cost \
             of writing the rest.",
            ByteCount::new(counted.media_write_bytes),
            ByteCount::new(counted.host_write_bytes)
        ));
    }
    said
}

/// Compares with the first shift. If requests wait longer and longer, a ratio of their times is meaningless.
fn verdicts(sim: &SimReport<'_>) -> Vec<String> {
    let Some((first, others)) = sim.runs.split_first() else { return Vec::new() };
    if first.replay.replayed.requests == 0 {
        return vec!["No request was replayed.".to_owned()];
    }
    let mut sentences: Vec<String> = sim.runs.iter().filter(|run| run.replay.diverges).map(lags).collect();
    for run in others {
        let (shift, beside, ratio) = (run.shift_bytes, first.shift_bytes, run.replay.ratio);
        let mut said = if !first.replay.diverges && !run.replay.diverges {
            format!("With shift {shift}, requests take {ratio:.2} times as long as with shift {beside}")
        } else if first.replay.replayed.elapsed.seconds() > 0.0 {
            let all = run.replay.replayed.elapsed.seconds() / first.replay.replayed.elapsed.seconds();
            format!(
                "With shift {shift}, the whole trace takes {all:.2} times as long as with shift {beside} \
                 (--closed-loop compares single requests)"
            )
        } else {
            continue;
        };
        let [here, there] = [run, first].map(|run| run.replay.replayed.counters.media_write_bytes);
        let written = float(here) / float(there.max(1));
        if there > 0 && (written - 1.0).abs() >= 0.005 {
            let _ = write!(said, "; {written:.2} times the bytes are written to the medium");
        }
        sentences.push(said + ".");
    }
    if sentences.is_empty() {
        let mean = mean(&first.replay.replayed);
        sentences
            .push(format!("A request takes {mean} on average (--compare shows what misalignment costs)."));
    }
    sentences
}

fn lags(run: &Run) -> String {
    let (shift, replayed) = (run.shift_bytes, &run.replay.replayed);
    format!(
        "With shift {shift}, the drive cannot keep up: at the end of the trace ({}), it is {} behind.",
        replayed.span, replayed.behind
    )
}
