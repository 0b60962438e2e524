//! The controller of a `.diskspecs`: overheads, the link, and the behaviour of the buffer's segments.
//!
//! Parameters that only matter with several requests outstanding (the scheduler, sneaky hits, pre-buffering)
//! are ignored: DiskSim's sets were measured with one request at a time.

use straddle_units::ByteCount;
use straddle_units::io::Nanos;

use super::fields::Fields;
use super::mechanics::Mechanics;
use super::{BLOCK, Bus, ImportError};
use straddle_drive::disk::{
    CommandTimes, Disconnects, DiskParameters, Firmware, Geometry, History, Protection, ReadAheadEnd,
    ReadCacheParameters, ReadOn, RmwPolicy, RmwReads, SegmentRules, TwiceDisconnected, WriteCacheParameters,
};
use straddle_drive::profile::Interface;

/// Sectors in the buffer at which a drive that releases the link twice begins to write, as in DiskSim's
/// controller.
const BEGINS_WITH: u32 = 10;

pub(super) struct Controller {
    pub(super) interface: Interface,
    read_cache: ReadCacheParameters,
    write_cache: WriteCacheParameters,
    firmware: Firmware,
}

impl Controller {
    pub(super) fn disk(self, geometry: Geometry, mechanics: Mechanics) -> DiskParameters {
        DiskParameters {
            spindle: mechanics.spindle,
            geometry,
            seek: mechanics.seek,
            write_seek: None,
            heads: mechanics.heads,
            read_cache: self.read_cache,
            write_cache: self.write_cache,
            rmw: RmwPolicy::Deferred,
            rmw_reads: RmwReads::default(),
            log: None,
            protection: Protection::None,
            firmware: self.firmware,
        }
    }
}

pub(super) fn read(specs: &Fields<'_>, bus: Bus) -> Result<Controller, ImportError> {
    // As in DiskSim's program, 2 is another word for 1.
    let caching = specs.whole("Enable caching in buffer", 0, 2)? > 0;
    specs.flag("Read directly to buffer")?;
    // One request at a time: the next one is not known while the arm is free.
    specs.whole("Preseeking level", 0, 2)?;
    if specs.whole("Minimum read-ahead (blks)", 0, u32::MAX)? != 0 {
        return Err(specs.impossible("Minimum read-ahead (blks)", "only 0 is modelled"));
    }
    let level = specs.whole("Fast write level", 0, 2)?;
    let times = times(specs, bus)?;
    let segments = specs.whole("Number of buffer segments", 1, 4096)?;
    let size = specs.whole("Segment size (in blks)", 1, 1 << 16)?;
    let separate = specs.flag("Use separate write segment")?;
    let interface = Interface {
        nanos_per_mib: per_mib(specs, bus.read)?,
        read_overhead: times.read_miss.after_read,
        write_overhead: times.write.after_read,
        completion_overhead: times.read_completion,
        queue_depth: 1,
    };
    Ok(Controller {
        interface,
        read_cache: ReadCacheParameters {
            segments: if caching { segments - u32::from(separate && segments > 1) } else { 0 },
            segment_sectors: u64::from(size),
            read_ahead: u64::from(read_ahead(specs, size)?),
        },
        write_cache: WriteCacheParameters {
            enabled: level > 0,
            size: ByteCount::new(u64::from(size) * BLOCK),
            extents: usize::try_from(specs.whole("Maximum number of write segments", 1, 4096)?).unwrap_or(1),
            segment: None,
            window: 1,
            setup: Nanos::ZERO,
            idle: Nanos::ZERO,
            stays_after_flush: false,
        },
        firmware: Firmware {
            times: Some(times),
            segments: rules(specs, separate)?,
            reads_on_arrival: specs.whole("Immediate buffer read", 0, 2)? > 0,
            writes_on_arrival: specs.whole("Immediate buffer write", 0, 2)? > 0,
        },
    })
}

/// Converts the milliseconds of a block, on the drive or the bus, whichever is slower, to ns per MiB.
fn per_mib(specs: &Fields<'_>, bus: f64) -> Result<u64, ImportError> {
    let key = "Bulk sector transfer time";
    let block = specs.milliseconds(key)?.max(bus);
    let time = Nanos::from_millis(block * 2048.0).map(|time| time.get().max(1));
    time.ok_or_else(|| specs.impossible(key, "must be a time"))
}

fn read_ahead(specs: &Fields<'_>, size: u32) -> Result<u32, ImportError> {
    if specs.whole("Buffer continuous read", 0, 4)? == 0 {
        return Ok(0);
    }
    let most = specs.whole("Maximum read-ahead (blks)", 0, size)?;
    Ok(if most > 0 { most } else { size })
}

fn rules(specs: &Fields<'_>, separate: bool) -> Result<SegmentRules, ImportError> {
    let until = match specs.whole("Buffer continuous read", 0, 4)? {
        1 => ReadAheadEnd::Track,
        2 => ReadAheadEnd::Cylinder,
        4 => ReadAheadEnd::SequentialTracks,
        _ => ReadAheadEnd::Count,
    };
    let read_on = if specs.flag("Read-ahead on idle hit")? { ReadOn::AnySegment } else { ReadOn::Running };
    Ok(SegmentRules {
        adjoining: specs.flag("Allow almost read hits")?,
        read_on,
        until,
        keeps_written: specs.flag("Allow read hits on write data")? && !separate,
        drops_whole: true,
        keeps_passed: specs.flag("Read any free blocks")?,
    })
}

/// An overhead, scaled as the set asks for.
fn overhead(specs: &Fields<'_>, key: &str) -> Result<Nanos, ImportError> {
    let scale = specs.number("Time scale for overheads")?;
    let time =
        Nanos::from_millis(specs.milliseconds(key)? * scale).filter(|time| time.get() <= 10_000_000_000);
    time.ok_or_else(|| specs.impossible("Time scale for overheads", "the overheads must be 0 to 10 s"))
}

fn history(specs: &Fields<'_>, what: &str) -> Result<History, ImportError> {
    let plain = overhead(specs, "Per-request overhead time")?;
    Ok(History {
        after_read: overhead(specs, &format!("{what} after read"))? + plain,
        after_write: overhead(specs, &format!("{what} after write"))? + plain,
    })
}

fn times(specs: &Fields<'_>, bus: Bus) -> Result<CommandTimes, ImportError> {
    let level = specs.whole("Fast write level", 0, 2)?;
    let twice = specs.flag("Extra write disconnect")?;
    Ok(CommandTimes {
        read_hit: history(specs, "Read hit over.")?,
        read_miss: history(specs, "Read miss over.")?,
        write: history(specs, if level > 0 { "Write hit over." } else { "Write miss over." })?,
        data: overhead(specs, "Data preparation overhead")?,
        read_completion: overhead(specs, "Read completion overhead")?,
        write_completion: overhead(specs, "Write completion overhead")?,
        write_nanos_per_mib: per_mib(specs, bus.write)?,
        write_travel: overhead(specs, "Minimum seek delay")?,
        write_begins_with: if twice { BEGINS_WITH } else { 1 },
        disconnects: if specs.flag("Never disconnect")? { None } else { Some(disconnects(specs, twice)?) },
    })
}

fn disconnects(specs: &Fields<'_>, twice: bool) -> Result<Disconnects, ImportError> {
    let mark = specs.number("High (read) water mark")?;
    if !(0.0..=1.0).contains(&mark) {
        return Err(specs.impossible("High (read) water mark", "must be 0 to 1"));
    }
    let of_request = specs.flag("Set watermark by reqsize")?;
    let segment = u64::from(specs.whole("Segment size (in blks)", 1, 1 << 16)?);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    let read_mark = (mark * 1000.0).round() as u32;
    let again = TwiceDisconnected {
        command: overhead(specs, "Extradisc command overhead")?,
        travel: overhead(specs, "Extradisc seek delta")?,
        first: overhead(specs, "Extradisc disconnect overhead")?,
        pause: overhead(specs, "Extradisc inter-disconnect delay")?,
        second: overhead(specs, "Extradisc 2nd disconnect overhead")?,
        reselect: overhead(specs, "Other reselect overhead")?,
    };
    Ok(Disconnects {
        read: History {
            after_read: overhead(specs, "Read disconnect afterread")?,
            after_write: overhead(specs, "Read disconnect afterwrite")?,
        },
        write: overhead(specs, "Write disconnect overhead")?,
        reselect: overhead(specs, "First reselect overhead")?,
        read_mark,
        read_mark_of: if of_request { None } else { Some(segment) },
        sends_any_hit: specs.flag("Immed transfer partial hit")?,
        twice: twice.then_some(again),
    })
}
