//! The command line of `trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use straddle_trace::{Columns, Event, Format, How, UNITS};
use straddle_units::io::Nanos;
use straddle_units::{ByteCount, parse_size};

use super::place;

/// Examples for `trace --help`.
const EXAMPLES: &str = "\
Examples:
  straddle trace web.csv.gz                 what its writes do to sectors and units of every size
  straddle trace msr/*.csv.gz --started-at 63s
                                            the same if the partition began at sector 63
  straddle trace sdb.blkparse --best        the start that costs least
  straddle trace web.csv --merge-within 10ms --html web.html
                                            also what is left behind a cache, and all of it as a page
  straddle trace sda.blktrace.*             what blktrace wrote, one file for each processor
  straddle trace t.parquet --columns time=ts:us,op=is_write:false/true,offset=lba:sectors,length=bytes,volume=disk
  straddle trace tencent/*.csv.gz --format tencent --json | jq '.total.writes.units'
  straddle trace web.csv.gz --to parquet web.parquet
  blktrace -d /dev/sdb -o - | straddle trace -
  straddle trace record /dev/sdb --for 60s --to sdb.rec
                                            record what is asked of a disk; then straddle trace sdb.rec

A write that covers a sector or unit in part makes the drive read it, modify it and write it back. The figures
are of single requests: what the cache of a drive or of the kernel merges costs less, so they are upper bounds.
--merge-within gives the lower bound: no cache that holds writes for at most that time writes fewer units.";

/// Examples for `trace record --help`.
const RECORD_EXAMPLES: &str = "\
Examples:
  straddle trace record /dev/sdb --for 60s --to sdb.rec
  straddle trace sdb.rec --best             what its writes do to sectors and units of every size
  straddle sim sdb.rec --drive qlc-16k      what they would take on another drive
  straddle trace record /dev/sdb1 --to sdb1.rec
                                            one partition, until Ctrl-C; offsets are those on the disk
  straddle trace record /dev/nvme0n1 --for 1h --to nvme.rec; blkparse -i - < nvme.rec
                                            every event as blkparse prints it

It needs root and tracefs. The disk is not opened. Arrays (md) and mappings (device-mapper) pass requests on: record
the disks below them. Ctrl-C ends the recording, and keeps it.

Exit status: 0 recorded, also if stopped by Ctrl-C; 2 not a block device, or one that passes requests on; 3 the
kernel's events cannot be read, the file cannot be written, or the disk went away (what was recorded until then is
kept).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct TraceArguments {
    /// Record a trace instead; a file of this name is ./record.
    #[command(subcommand)]
    pub(crate) action: Option<TraceAction>,

    /// Block traces, also packed with gzip, zstd or xz; `-` for standard input. Volumes of the same name in
    /// several files are the same volume. Files NAME.blktrace.0, NAME.blktrace.1 and so on are one trace, which NAME
    /// also stands for.
    #[arg(value_name = "TRACE", required = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) traces: Vec<PathBuf>,

    /// Units to show, from 512 to 1MiB, separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = unit,
          default_value = "4KiB,8KiB,16KiB,32KiB,64KiB,1MiB")]
    pub(crate) unit: Vec<u64>,

    /// Take the offsets as those in a partition that starts here: a byte (31KiB), or a sector of 512 bytes (63s).
    #[arg(long, value_name = "PLACE", value_parser = place, default_value = "0")]
    pub(crate) started_at: ByteCount,

    /// Also find the start that needs the fewest read-modify-writes, for each unit.
    #[arg(long)]
    pub(crate) best: bool,

    /// Also count what is left of the writes behind a cache that holds each for at most this time: 10ms, 500us or 1s.
    /// At most 131072 units of each size are held.
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub(crate) merge_within: Option<Nanos>,

    #[command(flatten)]
    pub(crate) source: SourceArguments,

    /// Also write the requests to a file, as a table (parquet, csv) or as fio's I/O log (fio or iolog). A log is written
    /// to a new file only.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: Vec<PathBuf>,

    /// Also write an HTML page with charts and tables: a single file that needs no network.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Also draw the write amplification on each unit, and the read-modify-writes from each start of the partition.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, value_parser = super::svg_file)]
    pub(crate) svg: Option<PathBuf>,

    /// Print a line of comma-separated values for each volume, operation and size of a unit.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,

    /// Print JSON (see `straddle schema trace`).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceAction {
    /// Record the requests that the kernel issues to a disk, and their completions, in blktrace's format.
    Record(RecordArguments),
}

/// Arguments of `trace record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArguments {
    /// Disk, or a partition of one: then only requests to its sectors, and the flushes of the whole disk.
    #[arg(value_name = "DEVICE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) device: PathBuf,

    /// How long to record: 60s, 10m, 2h or 1d [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = super::lab::duration)]
    pub(crate) limit: Option<Duration>,

    /// New file to write the recording to.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) to: PathBuf,

    /// The kernel's buffer for each processor. A larger one loses no events where a smaller one does.
    #[arg(long, value_name = "BYTES", value_parser = buffer, default_value = "4MiB")]
    pub(crate) buffer: ByteCount,

    /// Print JSON when the recording has ended (see `straddle schema trace-record`).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArguments {
    /// Trace format [default: detected from the first bytes].
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Option<Format>,

    /// Columns of a CSV or Parquet trace, by name or by number, with their units: time=ts:us,op=type:0/1,
    /// offset=lba:sectors,length=4:4KiB,volume=disk.
    ///
    /// Units of time are s, ms, us, ns and 100ns; of offset and length bytes, sectors (of 512 bytes) or the size of a
    /// block. The unit of op is its values for a read and a write, and for a discard and a flush if there are any. What
    /// is left out has its usual name and unit.
    #[arg(long, value_name = "MAP")]
    pub(crate) columns: Option<Columns>,

    /// The event that counts as a request, in traces of events (blktrace, blkparse, tracefs). Devices that pass requests
    /// on, such as those of md and device-mapper, have only queue.
    #[arg(long, value_name = "EVENT", value_parser = events(), default_value = "issue")]
    pub(crate) event: Event,
}

impl SourceArguments {
    /// Returns how the trace is read. `timed` is whether its times matter.
    pub(crate) fn how(&self, timed: bool) -> How {
        let columns = self.columns.clone().unwrap_or_default();
        How { format: self.format, columns, event: self.event, timed }
    }
}

/// Takes a format by its name.
fn formats() -> impl TypedValueParser<Value = Format> {
    let named = |format: &Format| PossibleValue::new(format.name()).help(format.about());
    PossibleValuesParser::new(Format::ALL.iter().map(named))
        .try_map(|name| Format::named(&name).ok_or("no such format"))
}

/// Takes an event by its name.
fn events() -> impl TypedValueParser<Value = Event> {
    PossibleValuesParser::new(Event::ALL.map(Event::name)).try_map(|name| {
        let known = Event::ALL.into_iter().find(|event| event.name() == name);
        known.ok_or("no such event")
    })
}

/// Parses a time.
fn window(text: &str) -> Result<Nanos, String> {
    const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let parsed = UNITS.iter().find_map(|(unit, nanos)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        #[allow(clippy::cast_precision_loss, reason = "a power of ten")]
        let seconds = number * *nanos as f64 / 1e9;
        Nanos::from_seconds(seconds)
    });
    let longest = Nanos::new(3_600_000_000_000);
    let is_in_range = |time: &Nanos| (1..=longest.get()).contains(&time.get());
    parsed.filter(is_in_range).ok_or_else(|| "must be a time up to an hour, such as 10ms".to_owned())
}

/// Parses the size of the kernel's buffer of a processor.
fn buffer(text: &str) -> Result<ByteCount, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    let is_in_range = (64 << 10..=1 << 30).contains(&size.get());
    if is_in_range { Ok(size) } else { Err("must be from 64KiB to 1GiB".to_owned()) }
}

/// Parses the size of a unit, and returns it in sectors of 512 bytes.
fn unit(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?.get();
    let sectors = UNITS.into_iter().find(|sectors| sectors * straddle_trace::SECTOR == size);
    sectors.ok_or_else(|| "must be a power of two from 512 to 1MiB".to_owned())
}
