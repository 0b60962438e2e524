//! Conditions under which the figures of a measurement may be misleading. A warning is given only for a
//! condition that was observed, and says what was observed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::bench::{Measured, Workload, float, median};
use rustix::fs::SeekFrom;
use straddle_device::sysfs::of_number;
use straddle_units::io::Nanos;

use crate::real::open::{Io, Kind, Opened};
use crate::real::target::Real;

/// The share of requests by other processes above which they disturb a measurement.
const FOREIGN_SHARE: f64 = 0.05;
/// The shortest time in which a disk can make a write durable: a twentieth of a revolution at 15,000 rpm.
const TOO_SOON: Nanos = Nanos::new(200_000);
/// In seconds. The duration of a shorter turn is mostly clock and scheduler noise.
const SHORT_TURN: f64 = 0.05;
/// Relative change from the first third of the turns to the last above which a run has drifted.
const DRIFT: f64 = 0.2;
/// Median deviation of the turns from their median, as a share of it, above which a run is noisy.
const NOISE: f64 = 0.25;
/// Bytes of a page of memory on most machines, the largest block of a page cache.
const PAGE: u64 = 4096;

/// What the kernel reports about the device under a target, before the measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// In sysfs.
    folder: Option<PathBuf>,
    /// Whether it rotates, by `queue/rotational`.
    pub(crate) rotates: Option<bool>,
    write_back: bool,
    logical: u64,
    discards: bool,
    thin: bool,
    completed: u64,
    /// Whether the file has holes: ranges for which the file system has not allocated space yet.
    holes: bool,
}

struct Conditions<'a> {
    before: &'a Before,
    target: &'a Real,
    workload: &'a Workload,
    measured: &'a Measured,
}

/// Whether this is a thin volume of LVM: on the internal device of its pool, to whose UUID LVM appends
/// `-tpool` (`lib/activate/dev_manager.c`).
fn is_thin(folder: &Path) -> bool {
    let below = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    below
        .filter_map(|device| fs::read_to_string(device.path().join("dm/uuid")).ok())
        .any(|uuid| uuid.starts_with("LVM-") && uuid.trim_end().ends_with("-tpool"))
}

impl Before {
    pub(crate) fn look(opened: &Opened) -> Self {
        let Ok(metadata) = opened.file.metadata() else { return Self::default() };
        let number = if opened.kind == Kind::Block { metadata.rdev() } else { metadata.dev() };
        let own = of_number(number);
        // A partition has the queue of its disk.
        let folder = [own.clone(), own.join("..")].into_iter().find(|folder| folder.join("queue").is_dir());
        let holes = opened.kind == Kind::File
            && rustix::fs::seek(&opened.file, SeekFrom::Hole(0)).is_ok_and(|hole| hole < opened.size);
        let Some(folder) = folder else { return Self { holes, ..Self::default() } };
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_owned();
        Self {
            rotates: text("queue/rotational").parse().ok().map(|flag: u32| flag == 1),
            write_back: text("queue/write_cache") == "write back",
            logical: text("queue/logical_block_size").parse().unwrap_or(0),
            discards: text("queue/discard_max_bytes").parse::<u64>().is_ok_and(|bytes| bytes > 0),
            thin: is_thin(&folder),
            completed: completed(&text("stat")),
            folder: Some(folder),
            holes,
        }
    }

    pub(crate) fn notes_on_file(&self, opened: &Opened) -> Vec<String> {
        if opened.kind != Kind::File {
            return Vec::new();
        }
        let file = "the target is a file, so its file system and the layers below are measured along with \
                    the drive, and boundaries are relative to the start of the file, not of the drive";
        let holes = "the file has holes. Reading a hole does not access the drive, and the first write to a \
                     hole measures how the file system allocates space. To measure the drive, first fill the \
                     file (cp --sparse=never)";
        let mut notes = vec![file.to_owned()];
        notes.extend(self.holes.then(|| holes.to_owned()));
        notes
    }

    pub(crate) fn warnings(&self, target: &Real, workload: &Workload, measured: &Measured) -> Vec<String> {
        let seen = Conditions { before: self, target, workload, measured };
        let all = [
            seen.page_cache(),
            seen.volatile(),
            seen.flash(),
            seen.too_soon(),
            seen.short(),
            seen.drift(),
            seen.noise(),
            seen.foreign(),
            seen.unwritten(),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Conditions<'_> {
    fn page_cache(&self) -> Option<String> {
        let opened = &self.target.opened;
        if opened.io != Io::Buffered {
            return None;
        }
        Some(if self.workload.writes() {
            let block = match opened.kind {
                Kind::Block => soft_block_size(opened.size, self.before.logical),
                Kind::File => PAGE,
            };
            format!(
                "writes went through the page cache, in blocks of {block} bytes. The kernel read the rest of \
                 each partly written block and wrote whole blocks, so the ratios are those of the kernel (to \
                 measure the drive, use --io direct)"
            )
        } else {
            "reads went through the page cache, so data that was read before came from memory".to_owned()
        })
    }

    fn volatile(&self) -> Option<String> {
        (self.before.write_back && self.workload.is_volatile()).then(|| {
            "the drive's write cache is on, and single writes were not flushed, so the latencies are those \
             of the cache. The times and ratios are valid, because each turn includes a final flush. To \
             measure single writes, use --sync flush"
                .to_owned()
        })
    }

    fn flash(&self) -> Option<String> {
        (self.before.rotates == Some(false) && self.workload.writes()).then(|| {
            "the drive is an SSD, whose buffer or SLC cache may have absorbed the writes before the flash \
             reached a steady state. The bytes written to flash (wear) are unknown, and equal times do not \
             mean equal wear ('straddle bench drive:NAME' models both)"
                .to_owned()
        })
    }

    fn too_soon(&self) -> Option<String> {
        if self.before.rotates != Some(true)
            || self.target.opened.kind != Kind::Block
            || !self.workload.writes()
        {
            return None;
        }
        let flushes = self.measured.sweep.arms().iter().map(|arm| &arm.samples.flush_latency);
        let soonest =
            flushes.filter(|latency| latency.count() > 0).map(|latency| latency.quantile(0.5)).min()?;
        (soonest < TOO_SOON).then(|| {
            format!(
                "half of the flushes took less than {soonest}, which is less than a revolution of a disk, so \
                 something above the medium ignores flushes or has a battery"
            )
        })
    }

    fn short(&self) -> Option<String> {
        let shortest = self.measured.course.iter().copied().fold(f64::INFINITY, f64::min);
        let turn = shortest * float(self.measured.requests);
        (turn < SHORT_TURN).then(|| {
            format!(
                "a turn took only {:.1} ms; for better results, use more requests (--count) or a larger area \
                 (--area)",
                turn * 1e3
            )
        })
    }

    fn drift(&self) -> Option<String> {
        let course = &self.measured.course;
        let third = course.len() / 3;
        if third < 3 {
            return None;
        }
        let (first, last) = (middle(&course[..third]), middle(&course[course.len() - third..]));
        let share = last / first - 1.0;
        (share.abs() > DRIFT).then(|| {
            format!(
                "the same offset became {:.0} % {} during the run (perhaps because of heat, a filling cache \
                 or other load); the offsets alternated, so their ratios are valid",
                share.abs() * 100.0,
                if share > 0.0 { "slower" } else { "faster" }
            )
        })
    }

    fn noise(&self) -> Option<String> {
        let course = &self.measured.course;
        let middle_turn = middle(course);
        let off: Vec<f64> = course.iter().map(|seconds| (seconds / middle_turn - 1.0).abs()).collect();
        let typical = middle(&off);
        (typical > NOISE).then(|| {
            format!(
                "turns at the same offset differ by {:.0} % or more, probably because the machine or the \
                 drive was busy",
                typical * 100.0
            )
        })
    }

    fn foreign(&self) -> Option<String> {
        let folder = self.before.folder.as_ref()?;
        let after = completed(&fs::read_to_string(folder.join("stat")).ok()?);
        let all = after.saturating_sub(self.before.completed);
        let sent = self.target.sent;
        // Our requests may be split or merged on the way, so only over twice as many are a sign of others.
        let foreign = all.saturating_sub(sent.saturating_mul(2));
        let share = float(foreign) / float(all.max(1));
        (share > FOREIGN_SHARE).then(|| {
            format!(
                "the device completed {all} requests during the run, but the measurement sent only {sent} of \
                 them, so other programs are using the device"
            )
        })
    }

    fn unwritten(&self) -> Option<String> {
        if self.before.holes {
            return Some(format!(
                "{} has holes, where a write first allocates space and a read does not access the medium",
                self.target.opened.path.display()
            ));
        }
        if self.before.thin {
            return Some("the target is a thin volume, on which first writes allocate space".to_owned());
        }
        (self.target.is_blank() && self.before.discards).then(|| {
            "the area contained only zeros, and the device supports discard, so it may not even read \
             unmapped sectors for a read-modify-write"
                .to_owned()
        })
    }
}

/// The size of the blocks in which the page cache of a block device works: the largest power of two, from the
/// logical sector to a page, that divides the device's size (`set_init_blocksize` in the kernel's
/// block/bdev.c).
fn soft_block_size(size: u64, logical: u64) -> u64 {
    let mut block = if logical.is_power_of_two() { logical.max(512) } else { 512 };
    while block < PAGE && size & block == 0 {
        block *= 2;
    }
    block
}

/// The number of reads, writes and flushes that a device has completed. The fields are those of the kernel's
/// Documentation/block/stat.rst.
fn completed(stat: &str) -> u64 {
    let words: Vec<u64> = stat.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    [0, 4, 15].iter().filter_map(|index| words.get(*index)).sum()
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or_default()
}
