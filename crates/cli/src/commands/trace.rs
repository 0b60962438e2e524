//! `straddle trace`: what the requests of block traces do to sectors and units.

pub(crate) mod record;

use std::fmt::Write;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use clap::{Args, Subcommand};
use straddle_measure::bench::float;
use straddle_trace::{
    About, Account, Coalesced, Columns, Event, Format, Histogram, How, Recording, SECTOR, Target, UNITS,
    Window, Writer,
};
use straddle_units::io::Nanos;
use straddle_units::{ByteCount, parse_size};

use crate::args::{known, place};
use crate::exit::{Exit, UsageError, usage};
use crate::output::{plural, printable};
use crate::output_file::OutputFile;
use crate::target::local_targets;
use crate::view::json::{Document, SchemaOf};
use crate::view::report::quoted;
use crate::view::{svg, text};
use crate::{exit, output, output_file};
use straddle_trace::form::{Counted, TraceFile, TraceReport};

const EXAMPLES: &str = "\
Examples:
  straddle trace web.csv.gz               # count its read-modify-writes
  straddle trace msr/*.csv.gz --started-at 63s        # partition starts at 63s
  straddle trace sdb.blkparse --best      # find the best start
  straddle trace web.csv --merge-within 10ms          # model a cache
  straddle trace sda.blktrace.*           # one file per processor
  straddle trace t.parquet --columns \\
      time=ts:us,op=is_write:false/true,offset=lba:sectors,length=bytes
  straddle trace tencent/*.csv.gz --format tencent --json
  straddle trace web.csv.gz --to parquet web.parquet
  blktrace -d /dev/sdb -o - | straddle trace -
  straddle trace record /dev/sdb --for 60s --to sdb.rec
                                          # then straddle trace sdb.rec

A write that covers only part of a sector or unit makes the drive read, modify
and rewrite the whole sector or unit. Each request is counted separately. The
counts are upper bounds, because a cache would merge some requests.
--merge-within TIME adds lower bounds: a cache that holds writes for at most
TIME writes at least that much.";

pub(crate) const STATUSES: &[(u8, &str)] = &[(0, "success"), (3, "a trace could not be read")];

const RECORD_EXAMPLES: &str = "\
Examples:
  straddle trace record /dev/sdb --for 60s --to sdb.rec
  straddle trace sdb.rec --best           # find the best start
  straddle sim sdb.rec --drive qlc-16k    # replay it on a modelled drive
  straddle trace record /dev/sdb1 --to sdb1.rec       # until Ctrl-C
  blkparse -i - < sdb.rec                 # every event

Recording needs root and tracefs. The disk is not opened. Offsets are relative
to the start of the disk, even for a partition. Arrays (md) and mappings
(device-mapper) have no queue of their own, so record the disks below them.
Ctrl-C stops the recording; the events recorded so far are kept.";

const RECORD_STATUSES: &[(u8, &str)] = &[
    (0, "recording complete, or stopped with Ctrl-C"),
    (2, "invalid command line, or a device without its own queue (md, device-mapper)"),
    (3, "no events recorded, output not written, or disk removed (events are kept)"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct TraceArguments {
    /// Record a trace instead. To read a file with this name, use ./record.
    #[command(subcommand)]
    pub(crate) action: Option<TraceAction>,

    /// Block traces, optionally compressed (gzip, zstd, xz), or `-` for standard input.
    ///
    /// Volumes with the same name in several files are treated as one volume. NAME.blktrace.0,
    /// NAME.blktrace.1 and so on form one trace, which can be specified as NAME.
    #[arg(value_name = "TRACE", required = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) traces: Vec<PathBuf>,

    /// Unit sizes to show (from 512 bytes to 1 MiB), separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = unit,
          default_value = "4KiB,8KiB,16KiB,32KiB,64KiB,1MiB")]
    pub(crate) unit: Vec<u64>,

    /// Start of the partition that the offsets are relative to, in bytes (31KiB) or 512-byte sectors (63s).
    #[arg(long, value_name = "START", value_parser = place, default_value = "0")]
    pub(crate) started_at: ByteCount,

    /// For each unit size, also find the partition start with the fewest read-modify-writes.
    #[arg(long)]
    pub(crate) best: bool,

    /// Also model a write-back cache that holds each write for up to TIME (10ms, 500us, 1s). For each unit
    /// size, the cache holds at most 131072 units.
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub(crate) merge_within: Option<Nanos>,

    #[command(flatten)]
    pub(crate) source: SourceArguments,

    /// Also save the requests in a new file, as a table (parquet or csv) or an I/O log for fio (fio or
    /// iolog).
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: Vec<PathBuf>,

    /// Also write charts to this file: write amplification by unit, and read-modify-writes by partition start.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,

    /// Print comma-separated values, one line per volume, operation and unit.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,

    /// Also show the lengths of the writes, and where the writes start within 4 KiB blocks.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print JSON (see `straddle schema trace`).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceAction {
    /// Record the requests that the kernel sends to a disk, in blktrace's format.
    Record(RecordArguments),
}

/// Arguments of `trace record`.
#[derive(Debug, Args)]
#[command(after_help = format!("{RECORD_EXAMPLES}\n\n{}", exit::help(RECORD_STATUSES)))]
pub(crate) struct RecordArguments {
    /// Disk or partition to record. For a partition, only the requests to that partition and all flushes of
    /// the disk are recorded.
    #[arg(value_name = "DEVICE", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) device: PathBuf,

    /// Duration of the recording, such as 60s, 10m, 2h or 1d [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = crate::commands::lab::duration)]
    pub(crate) limit: Option<Duration>,

    /// New file for the recording.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: PathBuf,

    /// Size of the kernel's trace buffer for each processor. Use a larger buffer if events are lost.
    #[arg(long, value_name = "BYTES", value_parser = buffer, default_value = "4MiB")]
    pub(crate) buffer: ByteCount,

    /// Print JSON at the end of the recording (see `straddle schema trace-record`).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArguments {
    /// Trace format [default: detected from the first bytes].
    #[arg(long, value_name = "FORMAT",
        value_parser = known(Format::ALL, |it| PossibleValue::new(it.name()).help(it.about())))]
    pub(crate) format: Option<Format>,

    /// Columns of a CSV or Parquet trace, by name or number, with their units:
    /// time=ts:us,op=type:0/1,offset=lba:sectors,length=4:4KiB,volume=disk.
    ///
    /// Units of time are s, ms, us, ns and 100ns. Units of offset and length are bytes, sectors (of 512
    /// bytes), or blocks of a given size (4KiB). For op, list the values that mean read and write, and those
    /// that mean discard and flush, if any. Columns that are not listed keep their default names and units.
    #[arg(long, value_name = "MAP")]
    pub(crate) columns: Option<Columns>,

    /// Count this event as a request (in traces of blktrace, blkparse and tracefs). Arrays (md) and mappings
    /// (device-mapper) have only queue events.
    #[arg(long, value_name = "EVENT", default_value = "issue",
        value_parser = known(&Event::ALL, |event| event.name().into()))]
    pub(crate) event: Event,
}

impl SourceArguments {
    /// Returns how the trace is read. `timed` is whether its times matter.
    pub(crate) fn how(&self, timed: bool) -> How {
        let columns = self.columns.clone().unwrap_or_default();
        How { format: self.format, columns, event: self.event, timed }
    }
}

fn window(text: &str) -> Result<Nanos, String> {
    const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let parsed = UNITS.iter().find_map(|(unit, nanos)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Nanos::from_seconds(number * float(*nanos) / 1e9)
    });
    let longest = Nanos::new(3_600_000_000_000);
    let is_in_range = |time: &Nanos| (1..=longest.get()).contains(&time.get());
    parsed.filter(is_in_range).ok_or_else(|| "must be a time of at most an hour, such as 10ms".to_owned())
}

fn buffer(text: &str) -> Result<ByteCount, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    let is_in_range = (64 << 10..=1 << 30).contains(&size.get());
    if is_in_range { Ok(size) } else { Err("must be from 64KiB to 1GiB".to_owned()) }
}

fn unit(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?.get();
    let sectors = UNITS.into_iter().find(|sectors| sectors * straddle_trace::SECTOR == size);
    sectors.ok_or_else(|| "must be a power of two from 512 bytes to 1MiB".to_owned())
}

pub(crate) fn run(arguments: &TraceArguments) -> Result<Exit> {
    match &arguments.action {
        Some(TraceAction::Record(arguments)) => record::run(arguments),
        None => count(arguments),
    }
}

fn count(arguments: &TraceArguments) -> Result<Exit> {
    let start = arguments.started_at.get();
    if !start.is_multiple_of(SECTOR) {
        return usage(format!(
            "--started-at {start} is not a multiple of 512 bytes; to specify sector {start}, write {start}s"
        ));
    }
    let start = start / SECTOR;
    let units = &arguments.unit;
    let window = arguments.merge_within.map(|within| Window { within, units: units.clone(), start });
    let traces = Recording::group(&arguments.traces);
    if traces.iter().filter(|trace| trace.is_stdin()).count() > 1 {
        return usage("'-' (standard input) can be specified only once");
    }
    let inputs: Vec<&Path> = traces.iter().flat_map(|trace| &trace.files).map(PathBuf::as_path).collect();
    if let Some(path) = &arguments.svg {
        output_file::check(path, &inputs)?;
    }
    let (account, abouts) = match &arguments.to[..] {
        [format, path] => converted(arguments, &traces, window.as_ref(), (target(format)?, path), &inputs)?,
        _ => {
            let how = arguments.source.how(window.is_some());
            Account::of(&traces, window.as_ref(), |trace| trace.open(&how))?
        }
    };
    for (trace, about) in traces.iter().zip(&abouts) {
        let missing = text::trace::missing(&trace.name, about.origin.as_ref());
        missing.iter().for_each(|line| output::complain(line));
    }
    let files = traces.iter().zip(abouts);
    let files = files.map(|(trace, about)| TraceFile { name: trace.name.clone(), format: about.format });
    let files: Vec<TraceFile> = files.collect();
    let total = account.total();
    let window = window.as_ref();
    let counted =
        Counted { files: &files, account: &account, total, units, start, best: arguments.best, window };
    let printed = match (arguments.json, arguments.csv) {
        (true, _) => Document::of(SchemaOf::Trace, TraceReport::of(&counted)).print()?,
        (false, true) => output::print(&as_csv(&counted))?,
        (false, false) => output::print(&text::trace::trace(&counted, arguments.verbose))?,
    };
    if let Some(path) = &arguments.svg {
        output_file::write(path, svg::trace(&counted).as_bytes(), &inputs)?;
    }
    Ok(printed)
}

fn target(format: &Path) -> Result<Target, UsageError> {
    // fio's own documentation calls it an iolog.
    let format = if format == Path::new("iolog") { Path::new("fio") } else { format };
    let known = Target::ALL.into_iter().find(|target| Path::new(target.name()) == format);
    known.ok_or_else(|| {
        let (name, names) = (printable(&format.display().to_string()), Target::ALL.map(Target::name));
        UsageError(format!("--to specifies the unknown format {name}; the formats are {}", names.join(", ")))
    })
}

fn converted(
    arguments: &TraceArguments,
    traces: &[Recording],
    window: Option<&Window>,
    (target, path): (Target, &PathBuf),
    inputs: &[&Path],
) -> Result<(Account, Vec<About>)> {
    let out = OutputFile::begin(path, inputs)?;
    let out = BufWriter::with_capacity(1 << 18, out);
    let name = path.display().to_string();
    let mut writer = Writer::new(target, out, &name)?;
    let (mut account, mut abouts) = (Account::new(), Vec::new());
    let how = arguments.source.how(true);
    for trace in traces {
        let reader = trace.open(&how)?;
        let each = &mut |records: &[_], volumes: &[_]| writer.write(records, volumes);
        abouts.push(account.read_with(reader, window, each)?);
    }
    let (out, written) = writer.finish()?;
    let out = out.into_inner().map_err(std::io::IntoInnerError::into_error);
    out.and_then(OutputFile::finish).with_context(|| format!("{name}: cannot write"))?;
    let format = target.name();
    let lost = [
        (written.times, "the times of", "request", "more precisely than to a millisecond"),
        (written.through, "whether", "write", "went through the cache"),
    ];
    for (count, before, noun, after) in lost.into_iter().filter(|(count, ..)| *count > 0) {
        output::complain(&format!("{name}: {format} cannot store {before} {} {after}", plural(count, noun)));
    }
    Ok((account, abouts))
}

const TRACE: &str = "volume,operation,unit_bytes,requests,bytes,misaligned_requests,straddling_requests,\
                     partial_head_requests,partial_tail_requests,partial_units,touched_units,amplification,\
                     best_started_at_sectors,best_partial_units,best_touched_units,merged_written_units,\
                     merged_partial_units";

fn as_csv(counted: &Counted<'_>) -> String {
    let mut text = format!("{TRACE}\n");
    for (name, volume) in counted.account.volumes() {
        let operations = [("read", &volume.reads), ("write", &volume.writes), ("discard", &volume.discards)];
        for (operation, histogram) in operations {
            let coalesced = if operation == "write" { &volume.coalesced[..] } else { &[] };
            rows(&mut text, counted, (name, operation), histogram, coalesced);
        }
    }
    text
}

fn rows(
    text: &mut String,
    counted: &Counted<'_>,
    (name, operation): (&str, &str),
    histogram: &Histogram,
    coalesced: &[Coalesced],
) {
    if histogram.requests() == 0 {
        return;
    }
    for unit in counted.units {
        let Some(effects) = histogram.effects(*unit) else { continue };
        let (effect, (best, least)) = (effects.started_at(counted.start), effects.best());
        let amplification = effect.amplification().map(|times| format!("{times:.6}")).unwrap_or_default();
        let merged = coalesced.iter().find(|coalesced| coalesced.unit == *unit);
        let merged =
            merged.map_or_else(|| ",".to_owned(), |merged| format!("{},{}", merged.written, merged.partial));
        let _ = writeln!(
            text,
            "{},{operation},{},{},{},{},{},{},{},{},{},{amplification},{best},{},{},{merged}",
            quoted(name),
            unit * SECTOR,
            effect.requests,
            effect.sectors * u128::from(SECTOR),
            effect.misaligned,
            effect.straddling,
            effect.heads,
            effect.tails,
            effect.partial,
            effect.touched,
            least.partial,
            least.touched,
        );
    }
}
