//! Runs a workload with fio: writes its job file, and reads its output.
//!
//! A workload that fio cannot run as we do is refused, not approximated, and nothing is invented that fio
//! does not report. Source: fio's HOWTO, "job file parameters" and "JSON output".

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use straddle_units::io::Nanos;
use straddle_units::{ByteCount, parse_size};

use crate::bench::run::{Samples, Stop, float};
use crate::bench::sweep::{Arm, Sweep};
use crate::bench::workload::{Parameters, Pattern, Places, Sync, Workload, WorkloadError};

/// What a job file needs besides the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Job<'a> {
    /// The file or device for fio to open.
    pub target: &'a str,
    /// The offsets of the arms.
    pub offsets: &'a [u64],
    /// The unit of the offsets, in bytes.
    pub sector: u64,
    /// Whether to bypass the page cache.
    pub direct: bool,
    /// How many bytes each arm uses, from its offset on.
    pub bytes: u64,
    /// The longest time of all arms together, in seconds.
    pub runtime: Option<f64>,
}

/// The seconds of an arm that nothing else ends.
const SECONDS: f64 = 10.0;

/// Why there is no job file, or no result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum FioError {
    #[error("fio cannot express {0}")]
    Workload(&'static str),
    #[error("{0:?}: a job file cannot contain this name")]
    Name(String),
    #[error("the job cannot run on this target")]
    Fit(#[from] WorkloadError),
    #[error("not fio's JSON (--output-format=json or json+)")]
    Json(#[from] serde_json::Error),
    #[error("job {job:?}: {what}")]
    Job { job: String, what: String },
    #[error("it has no job")]
    Empty,
}

straddle_units::error_kind! {
    FioError: Usage;
    Self::Json(_) | Self::Job { .. } | Self::Empty => Failed,
}

/// Returns the job file of a run, with one job for each arm, run one after another.
pub fn emit(workload: &Workload, job: &Job<'_>) -> Result<String, FioError> {
    // fio splits names at colons, takes semicolons and hashes for comments, replaces `$NAME` and `${NAME}`,
    // and drops blanks at the ends.
    let is_changed = job.target.trim() != job.target
        || job
            .target
            .contains(|letter: char| letter.is_control() || [':', ';', '#', '$', '\\'].contains(&letter));
    if job.target.is_empty() || is_changed {
        return Err(FioError::Name(job.target.to_owned()));
    }
    let rw = rw(workload)?;
    let count = count(workload, job)?;
    let Parameters { sync, fsync_each, .. } = workload.pattern.parameters;
    let flushed_each = if sync == Some(Sync::Flush) { Some(1) } else { fsync_each.filter(|each| *each > 0) };
    if workload.queue_depth > 1 && flushed_each.is_some() {
        return Err(FioError::Workload("a flush after each write at a queue depth greater than 1"));
    }
    let mut text = "; fio does not restore what it overwrites.\n".to_owned();
    if workload.writes() {
        text += "; If the file is shorter than the jobs need, fio removes it.\n";
    }
    text += "[global]\n";
    let mut set = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name}={value}");
    };
    set("filename", &job.target);
    // What is gone by then is not made: on a disk's name in /dev, a file would take its place.
    set("allow_file_create", &0);
    set("rw", &rw);
    set("bs", &workload.size);
    set("direct", &u8::from(job.direct));
    set("ioengine", &if workload.queue_depth > 1 { "io_uring" } else { "psync" });
    set("iodepth", &workload.queue_depth);
    if sync == Some(Sync::Fua) {
        set("sync", &"dsync");
    }
    if let Some(each) = flushed_each {
        set("fdatasync", &each);
    }
    if workload.pattern.ends_with_fsync {
        set("end_fsync", &1);
    }
    if workload.pattern.is_random {
        // A block may be chosen twice, as in our runs.
        set("norandommap", &1);
        set("randseed", &workload.seed(job.sector).unwrap_or(1).max(1));
    }
    set("size", &job.bytes);
    if let Some(count) = count.filter(|_| workload.pattern.is_random) {
        // Otherwise fio ends after as many bytes as it chooses from.
        set("io_size", &count.saturating_mul(workload.size));
    }
    if !workload.writes() {
        // Otherwise fio writes a file that is shorter by then than its jobs, from the first byte on.
        set("create_on_open", &1);
    }
    let seconds = job.runtime.map(|whole| whole / float(job.offsets.len() as u64));
    match (count, seconds.map(milliseconds)) {
        (Some(count), seconds) => {
            set("number_ios", &count);
            seconds.iter().for_each(|time| set("runtime", time));
        }
        (None, seconds) => {
            set("runtime", &seconds.unwrap_or_else(|| milliseconds(SECONDS)));
            set("time_based", &1);
        }
    }
    for offset in job.offsets {
        let _ =
            write!(text, "\n[offset-{offset}]\nstonewall\noffset={}\n", offset.saturating_mul(job.sector));
    }
    Ok(text)
}

fn rw(workload: &Workload) -> Result<String, FioError> {
    let random = workload.pattern.is_random;
    let kind = match (workload.writes(), random) {
        (true, true) => "randwrite",
        (true, false) => "write",
        (false, true) => "randread",
        (false, false) => "read",
    };
    let gap = if random { Some(0) } else { workload.stride().checked_sub(workload.size) };
    Ok(match gap.ok_or(FioError::Workload("a stride smaller than the request"))? {
        0 => kind.to_owned(),
        gap => format!("{kind}:{gap}"),
    })
}

/// A time as fio reads it: it truncates seconds, and zero means no end.
fn milliseconds(seconds: f64) -> String {
    let time = Nanos::from_seconds(seconds).unwrap_or_default().get().div_ceil(1_000_000);
    format!("{}ms", time.max(1))
}

/// Parses fio's times: seconds, if they have no unit.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}

/// The number of requests of each arm; `None` if it ends by time. A default is limited to what fits.
fn count(workload: &Workload, job: &Job<'_>) -> Result<Option<u64>, FioError> {
    let program = |workload: &Workload| workload.program(ByteCount::new(job.bytes), job.sector);
    if workload.count.is_some() {
        return Ok(program(workload)?.count);
    }
    let program = program(&Workload { count: Some(1), ..workload.clone() })?;
    let fits = match program.places {
        Places::Sequential { left, .. } => left,
        Places::Random { .. } => u64::MAX,
    };
    Ok(workload.limits().0.map(|count| count.min(fits)))
}

/// The results of fio.
#[derive(Clone, Debug)]
pub struct FioRun {
    /// fio's version.
    pub version: String,
    /// The file or device that was measured.
    pub target: String,
    /// The unit of the arms' offsets, in bytes.
    pub sector: u64,
    /// The workload, from the options in the output.
    pub workload: Workload,
    /// An arm for each job. There is no uncertainty, because fio runs one arm after another.
    pub sweep: Sweep,
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    jobs: Vec<OneJob>,
}

#[derive(Deserialize)]
struct OneJob {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Direction,
    write: Direction,
    sync: Option<Flushes>,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    total_ios: u64,
    /// In milliseconds.
    runtime: u64,
    iops: f64,
    clat_ns: Times,
}

#[derive(Deserialize)]
struct Flushes {
    total_ios: u64,
    lat_ns: Times,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Times {
    percentile: BTreeMap<String, u64>,
    bins: BTreeMap<String, u64>,
}

/// Reads fio's output.
pub fn import(text: &str) -> Result<FioRun, FioError> {
    // fio may print messages before the JSON.
    let from = text.find('{').unwrap_or(0);
    let output: Output = serde_json::from_str(&text[from..])?;
    let mut arms = Vec::new();
    let mut target = None;
    let sector = sector_of(&output.jobs).unwrap_or(SECTOR);
    for job in &output.jobs {
        let option =
            |name: &str| job.options.get(name).or_else(|| output.global.get(name)).map(String::as_str);
        target = target.or_else(|| option("filename").map(str::to_owned));
        arms.push(arm(job, sector, &option)?);
    }
    let mut workload = arms.first().ok_or(FioError::Empty)?.workload.at(0);
    // Jobs of others may end before the number that they ask for.
    let fewest = arms.iter().map(|arm| arm.samples.requests).min();
    workload.count = workload.count.min(fewest);
    let sweep = Sweep::new(arms).ok_or(FioError::Empty)?;
    Ok(FioRun { version: output.version, target: target.unwrap_or_default(), sector, workload, sweep })
}

/// The unit of offsets if the names of the jobs do not give it, in bytes.
const SECTOR: u64 = 512;

/// Returns the unit of offsets in which all jobs have the names that [`emit`] gives them.
fn sector_of(jobs: &[OneJob]) -> Option<u64> {
    let mut units = jobs.iter().filter_map(|job| {
        let number: u64 = job.jobname.strip_prefix("offset-")?.parse().ok()?;
        let offset = job.options.get("offset").map_or(Some(0), |text| bytes(text))?;
        (number > 0).then(|| offset.checked_div(number).filter(|unit| unit * number == offset))
    });
    let first = units.next()??;
    (first >= SECTOR && first.is_power_of_two() && units.all(|unit| unit == Some(first))).then_some(first)
}

fn arm<'a>(job: &OneJob, sector: u64, option: &dyn Fn(&str) -> Option<&'a str>) -> Result<Arm, FioError> {
    let wrong = |what: String| FioError::Job { job: job.jobname.clone(), what };
    if job.error != 0 {
        return Err(wrong(format!("fio reported error {}", job.error)));
    }
    let done = match (job.read.total_ios, job.write.total_ios) {
        (0, 0) => return Err(wrong("it made no requests".to_owned())),
        (_, 0) => &job.read,
        (0, _) => &job.write,
        _ => return Err(wrong("it both reads and writes".to_owned())),
    };
    let offset = option("offset")
        .map_or(Some(0), bytes)
        .ok_or_else(|| wrong("its offset cannot be read".to_owned()))?;
    let size = done.io_bytes / done.total_ios;
    let workload =
        workload(size, option).ok_or_else(|| wrong("its access pattern (rw) is not supported".to_owned()))?;
    let mut samples = Samples::default();
    (samples.requests, samples.bytes) = (done.total_ios, done.io_bytes);
    samples.stop = match (workload.count, workload.seconds) {
        (Some(count), _) if done.total_ios >= count => Stop::Count,
        (_, Some(_)) => Stop::Time,
        _ => Stop::End,
    };
    // The runtime is in whole milliseconds. The rate is not rounded, but is zero where the job ended at once.
    let seconds = if done.iops > 0.0 { float(done.total_ios) / done.iops } else { float(done.runtime) / 1e3 };
    samples.elapsed = Nanos::from_seconds(seconds).unwrap_or_default();
    done.clat_ns.fill(done.total_ios, &mut samples.latency);
    if let Some(sync) = job.sync.as_ref().filter(|sync| sync.total_ios > 0) {
        samples.flushes = sync.total_ios;
        sync.lat_ns.fill(sync.total_ios, &mut samples.flush_latency);
    }
    if !offset.is_multiple_of(sector) {
        return Err(wrong(format!(
            "its offset of {offset} bytes is not a whole number of {sector}-byte sectors"
        )));
    }
    Ok(Arm { offset: offset / sector, workload: workload.at(offset), samples, turns: Vec::new() })
}

impl Times {
    /// Fills `latency` from the bins, if fio was asked for them (json+), or else from the percentiles.
    fn fill(&self, count: u64, latency: &mut straddle_units::io::Latency) {
        let number = |text: &String| text.parse::<u64>().ok();
        for (nanos, times) in &self.bins {
            number(nanos).into_iter().for_each(|nanos| latency.record_many(Nanos::new(nanos), *times));
        }
        if !self.bins.is_empty() {
            return;
        }
        let mut shares: Vec<(f64, u64)> =
            self.percentile.iter().filter_map(|(share, nanos)| Some((share.parse().ok()?, *nanos))).collect();
        shares.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut counted = 0;
        for (share, nanos) in shares {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the count")]
            let upto = (float(count) * share.clamp(0.0, 100.0) / 100.0) as u64;
            latency.record_many(Nanos::new(nanos), upto.saturating_sub(counted));
            counted = counted.max(upto);
        }
    }
}

fn workload<'a>(size: u64, option: &dyn Fn(&str) -> Option<&'a str>) -> Option<Workload> {
    let queue_depth = option("iodepth").map_or(Some(1), |depth| depth.parse().ok())?;
    let each = |name: &str| option(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let fsync_each = each("fsync").max(each("fdatasync"));
    let sync = match (fsync_each, option("sync")) {
        (1, _) => Sync::Flush,
        (_, Some("1" | "sync" | "dsync")) => Sync::Fua,
        _ => Sync::None,
    };
    let count = option("number_ios").and_then(|count| count.parse().ok());
    let seconds = option("runtime").and_then(seconds);
    let mut kind = option("rw").or_else(|| option("readwrite"))?.split(':');
    let (kind, gap) = (kind.next()?, kind.next().map_or(Some(0), bytes)?);
    let ends_with_fsync = option("end_fsync").is_some_and(|value| value != "0");
    let own = Parameters::default();
    let (pattern, own) = match kind {
        "randwrite" => (Pattern::RANDOM_WRITE, Parameters { sync: Some(sync), ..own }),
        "randread" => (Pattern::RANDOM_READ, own),
        "write" if gap > 0 => {
            let stride = Some(size.checked_add(gap)?);
            (Pattern::STRIDED_WRITE, Parameters { stride, sync: Some(sync), ..own })
        }
        "write" if ends_with_fsync && fsync_each == 0 => (Pattern::DD, own),
        "write" => (Pattern::SEQUENTIAL_WRITE, Parameters { fsync_each: Some(fsync_each), ..own }),
        "read" => (Pattern::SEQUENTIAL_READ, own),
        _ => return None,
    };
    let pattern = pattern.with(own).ok()?;
    Some(Workload { count, seconds, size, queue_depth, ..pattern.into() })
}

/// Parses fio's sizes: `4096`, `4k`, `2M`, with powers of 1024 unless configured otherwise.
fn bytes(text: &str) -> Option<u64> {
    parse_size(text.trim_end_matches(['b', 'B'])).ok().map(ByteCount::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job<'static> {
        Job { target: "/tmp/x", offsets: &[0, 1], sector: 512, direct: true, bytes: 8 << 20, runtime: None }
    }

    fn flushed() -> Workload {
        let sync = Parameters { sync: Some(Sync::Flush), ..Parameters::default() };
        Pattern::RANDOM_WRITE.with(sync).unwrap().into()
    }

    #[test]
    fn each_arm_is_a_job_at_its_offset() {
        let text = emit(&flushed(), &job()).unwrap();
        for line in
            ["rw=randwrite", "bs=4096", "fdatasync=1", "number_ios=1000", "[offset-1]\nstonewall\noffset=512"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }
        let names = ["", "a:b", "a\nb", "#x", "/a/$ncpus", "/a/${VICTIM}", "/a/trail ", " /a", "/a\tb"];
        assert!(names.iter().all(|name| emit(&Pattern::DD.into(), &Job { target: name, ..job() }).is_err()));
    }

    /// What fio prints of these jobs.
    fn printed(jobs: &[(&str, &str)]) -> String {
        let one = |(name, offset): &(&str, &str)| {
            format!(
                r#"{{"jobname":"{name}","job options":{{"offset":"{offset}","rw":"randwrite"}},
                "read":{{"io_bytes":0,"total_ios":0,"runtime":0,"iops":0,"clat_ns":{{}}}},
                "write":{{"io_bytes":40960,"total_ios":10,"runtime":100,"iops":100.0,"clat_ns":{{}}}}}}"#
            )
        };
        let jobs: Vec<String> = jobs.iter().map(one).collect();
        format!(r#"{{"fio version":"fio-3.36","jobs":[{}]}}"#, jobs.join(","))
    }

    #[test]
    fn offsets_keep_their_unit_to_fio_and_back() {
        let workload = flushed();
        for (sector, offset) in [(512, "512"), (4096, "4096")] {
            let text = emit(&workload, &Job { sector, ..job() }).unwrap();
            assert!(text.contains(&format!("[offset-1]\nstonewall\noffset={offset}\n")), "{text}");
            let run = import(&printed(&[("offset-0", "0"), ("offset-1", offset)])).unwrap();
            let arms: Vec<u64> = run.sweep.arms().iter().map(|arm| arm.offset).collect();
            assert_eq!((run.sector, arms), (sector, vec![0, 1]));
        }
        // Jobs of others, whose names say nothing.
        let run = import(&printed(&[("a", "0"), ("b", "4k")])).unwrap();
        assert_eq!((run.sector, run.sweep.arms()[1].offset), (512, 8));
        assert!(import(&printed(&[("a", "0"), ("b", "100")])).is_err());
    }

    #[test]
    fn times_are_fios() {
        let times = [0.0, 0.0004, 0.125, 2.5, 60.0].map(milliseconds);
        assert_eq!(times, ["1ms", "1ms", "125ms", "2500ms", "60000ms"]);
        let read = ["125ms", "2", "2s", "1.5m", "7x", ""].map(seconds);
        assert_eq!(read, [Some(0.125), Some(2.0), Some(2.0), Some(90.0), None, None]);
    }

    #[test]
    fn sizes_are_fios() {
        let sizes = ["512", "4k", "2M", "1GiB", "3x", "k", ""].map(bytes);
        assert_eq!(sizes, [Some(512), Some(4096), Some(2 << 20), Some(1 << 30), None, None, None]);
    }

    #[test]
    fn what_is_not_fios_is_refused() {
        for text in ["", "{}", "[1]", "{\"fio version\":\"3\",\"jobs\":[]}"] {
            assert!(import(text).is_err(), "{text}");
        }
    }
}
