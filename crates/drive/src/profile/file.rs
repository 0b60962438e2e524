//! Finds a profile's file, merges it with its bases and options, parses it, and checks its values.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use straddle_units::ByteCount;
use straddle_units::io::Nanos;
use toml::{Table, Value};

use super::keys::{File, GeometryFile, InterfaceFile, ReadCacheFile, RmwFile, SeekFile, WriteCacheFile};
use super::{Body, Claims, Interface, Profile, ProfileError, Sectors, Values, builtin, parts, read, source};
use crate::disk::{
    Angle, DiskParameters, Firmware, Geometry, HeadTimes, LogParameters, Protection, ReadCacheParameters,
    RmwPolicy, RmwReads, SeekCurve, Spindle, WriteCacheParameters, Zone,
};
use crate::ssd::{FlashFile, SsdParameters};

const LONGEST_CHAIN: usize = 8;
/// The option that any disk accepts: another policy for partial sectors.
const POLICY_OPTION: &str = "rmw=";
/// The log of partial sectors where a profile does not give its size, in bytes. Assumed.
const LOG_BYTES: u64 = 64 << 20;

struct Text {
    name: String,
    text: String,
    file: Option<PathBuf>,
}

type Find = fn(&str, &str) -> Result<Text, ProfileError>;

fn find(name: &str) -> Result<Text, ProfileError> {
    if !is_file(name) {
        return shipped(name);
    }
    Ok(Text { name: name.to_owned(), text: read::text(name)?, file: Some(name.into()) })
}

/// Others may have written the profile `of`: a file in its folder or below, or a shipped profile.
fn find_below(name: &str, of: &str) -> Result<Text, ProfileError> {
    if !is_file(name) {
        return shipped(name);
    }
    text_below(Path::new(of).parent().unwrap_or(Path::new("")), name)
}

fn text_below(folder: &Path, name: &str) -> Result<Text, ProfileError> {
    let path = folder.join(name);
    let text = read::text_below(folder, &path)?;
    Ok(Text { name: path.to_string_lossy().into_owned(), text, file: Some(path) })
}

fn find_shipped(name: &str, _: &str) -> Result<Text, ProfileError> {
    if is_file(name) { Err(ProfileError::NotShipped { base: name.to_owned() }) } else { shipped(name) }
}

fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

fn shipped(name: &str) -> Result<Text, ProfileError> {
    match builtin::PROFILES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((known, text)) => Ok(Text { name: (*known).to_owned(), text: (*text).to_owned(), file: None }),
        None => Err(ProfileError::Unknown { name: name.to_owned(), suggestion: nearest(name) }),
    }
}

fn nearest(name: &str) -> Option<String> {
    let alike = |(left, right): &(char, char)| left.eq_ignore_ascii_case(right);
    let shared = |known: &str| known.chars().zip(name.chars()).take_while(alike).count();
    let best = builtin::PROFILES.iter().map(|(known, _)| *known).max_by_key(|known| shared(known))?;
    let within = |known: &&str| name.len() >= 3 && known.contains(&name.to_ascii_lowercase());
    match shared(best) {
        3.. => Some(best.to_owned()),
        _ => builtin::PROFILES.iter().map(|(known, _)| *known).find(within).map(str::to_owned),
    }
}

impl Profile {
    /// Opens the part of a target after `drive:`: the name of a shipped profile, in any case, or a file, if it has a
    /// slash or ends in `.toml`; then options, each after a comma: `wd10ears,jumper=on`.
    pub fn open(specification: &str) -> Result<Self, ProfileError> {
        Self::open_with(specification, &[])
    }

    /// As [`Profile::open`], with some numbers replaced. They are named by path, as in [`Knob`](super::Knob).
    pub fn open_with(specification: &str, replaced: &[(&str, f64)]) -> Result<Self, ProfileError> {
        let (name, options) = parts(specification);
        from_text(&find(name)?, &options, replaced, find_below)
    }

    /// As [`Profile::open`], for a specification by others: a file must be in `folder` or below it.
    pub fn open_below(folder: &Path, specification: &str) -> Result<Self, ProfileError> {
        let (name, options) = parts(specification);
        let text = if is_file(name) { text_below(folder, name)? } else { shipped(name)? };
        from_text(&text, &options, &[], find_below)
    }

    /// Parses a profile from text. It reads no file: its `base`, if any, must be a shipped profile.
    pub fn parse(name: &str, text: &str, options: &[&str]) -> Result<Self, ProfileError> {
        let text = Text { name: name.to_owned(), text: text.to_owned(), file: None };
        from_text(&text, options, &[], find_shipped)
    }
}

fn from_text(
    text: &Text,
    options: &[&str],
    replaced: &[(&str, f64)],
    find: Find,
) -> Result<Profile, ProfileError> {
    let name = text.name.as_str();
    let mut files = Vec::new();
    let mut table = merged(text, find, 0, &mut files)?;
    let variants = match table.remove("variants") {
        Some(Value::Table(variants)) => variants,
        _ => Table::new(),
    };
    let known: Vec<String> = variants.keys().cloned().collect();
    for &option in options {
        if let Some(policy) = option.strip_prefix(POLICY_OPTION).and_then(RmwPolicy::named)
            && let Some(Value::Table(rmw)) = table.get_mut("rmw")
        {
            rmw.insert("policy".to_owned(), Value::String(policy.name().to_owned()));
            continue;
        }
        let change = variants.get(option).or_else(|| variants.get(&format!("{option}=on")));
        let Some(Value::Table(change)) = change else {
            return Err(ProfileError::UnknownOption {
                name: name.to_owned(),
                option: option.to_owned(),
                known,
            });
        };
        source::overlay(&mut table, change.clone());
    }
    let figures = source::strip(&mut table);
    for (path, number) in replaced {
        source::replace(&mut table, path, *number);
    }
    let syntax =
        |error: toml::de::Error| ProfileError::Syntax { name: name.to_owned(), message: error.to_string() };
    let file = File::deserialize(Value::Table(table)).map_err(syntax)?;
    let values = Check { name }.values(file)?;
    Ok(Profile::of_checked(Values { figures, variants: known, files, ..values }))
}

/// The table of a profile over those of its bases; adds the files read.
fn merged(
    Text { name, text, file }: &Text,
    find: Find,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<Table, ProfileError> {
    files.extend(file.clone());
    if depth == LONGEST_CHAIN {
        return Err(ProfileError::Circular { name: name.clone() });
    }
    let syntax =
        |error: toml::de::Error| ProfileError::Syntax { name: name.clone(), message: error.to_string() };
    let mut upper: Table = text.parse().map_err(syntax)?;
    match upper.remove("base") {
        None => Ok(upper),
        Some(Value::String(base)) => {
            let base = find(&base, name)?;
            let mut lower = merged(&base, find, depth + 1, files)?;
            // A variant of one model does not apply to every drive derived from it.
            lower.remove("variants");
            source::overlay(&mut lower, upper);
            Ok(lower)
        }
        Some(other) => Err(ProfileError::Syntax {
            name: name.to_owned(),
            message: format!("base = {other} is not valid (must be a name)"),
        }),
    }
}

struct Check<'a> {
    name: &'a str,
}

impl Check<'_> {
    fn impossible(&self, key: &str, value: impl ToString, reason: impl Into<String>) -> ProfileError {
        let (name, key) = (self.name.to_owned(), key.to_owned());
        ProfileError::Impossible { name, key, value: value.to_string(), reason: reason.into() }
    }

    fn section(&self, section: &str, reason: &str) -> ProfileError {
        let (name, section) = (self.name.to_owned(), section.to_owned());
        ProfileError::Section { name, section, reason: reason.to_owned() }
    }

    fn within<T: Copy + PartialOrd + Display>(
        &self,
        key: &str,
        value: T,
        low: T,
        high: T,
    ) -> Result<T, ProfileError> {
        let reason = || format!("must be {low} to {high}");
        if (low..=high).contains(&value) { Ok(value) } else { Err(self.impossible(key, value, reason())) }
    }

    fn power_of_two(&self, key: &str, value: u64, low: u64, high: u64) -> Result<u64, ProfileError> {
        let reason = || format!("must be a power of two from {low} to {high}");
        let possible = value.is_power_of_two() && (low..=high).contains(&value);
        if possible { Ok(value) } else { Err(self.impossible(key, value, reason())) }
    }

    fn time(&self, key: &str, milliseconds: f64) -> Result<Nanos, ProfileError> {
        let time = Nanos::from_millis(milliseconds).filter(|time| time.get() <= 10_000_000_000);
        time.ok_or_else(|| self.impossible(key, milliseconds, "must be a time from 0 to 10 s"))
    }

    fn values(&self, file: File) -> Result<Values, ProfileError> {
        self.claims(&file.claims)?;
        let interface = self.interface(&file.interface)?;
        let (sectors, body) = match &file.flash {
            Some(flash) => self.flash(flash, &file)?,
            None => {
                let missing = || self.section("sectors", "is required for a disk");
                let sectors = file.sectors.ok_or_else(missing)?;
                self.sectors(sectors, &file.claims)?;
                (sectors, Body::Disk(Box::new(self.disk(&file, sectors)?)))
            }
        };
        let (figures, variants, files) = (Vec::new(), Vec::new(), Vec::new());
        let File { name, title, notes, claims, fit, .. } = file;
        Ok(Values { name, title, notes, claims, sectors, interface, body, fit, figures, variants, files })
    }

    fn flash(&self, flash: &FlashFile, file: &File) -> Result<(Sectors, Body), ProfileError> {
        if file.spindle.is_some() || file.sectors.is_some() {
            return Err(self.section("flash", "cannot be combined with [sectors] or [spindle]"));
        }
        let ssd = SsdParameters::new(flash, file.claims.capacity);
        let ssd = ssd.map_err(|source| ProfileError::Flash { name: self.name.to_owned(), source })?;
        let sectors = Sectors { physical: ssd.indirection_unit(), firmware_offset: 0 };
        Ok((sectors, Body::Ssd(Box::new(ssd))))
    }

    fn claims(&self, claims: &Claims) -> Result<(), ProfileError> {
        let (logical, physical) = (claims.logical_sector, claims.physical_sector);
        self.power_of_two("claims.logical_sector_bytes", logical, 512, 4096)?;
        self.power_of_two("claims.physical_sector_bytes", physical, logical, 1 << 20)?;
        let capacity = self.within("claims.capacity_bytes", claims.capacity, 1 << 20, 1 << 50)?;
        if !capacity.is_multiple_of(logical) {
            return Err(self.impossible(
                "claims.capacity_bytes",
                capacity,
                "must be a multiple of the logical sector",
            ));
        }
        self.within("claims.alignment_offset_bytes", claims.alignment_offset, 0, physical - 1)?;
        Ok(())
    }

    fn sectors(&self, sectors: Sectors, claims: &Claims) -> Result<(), ProfileError> {
        let Sectors { physical, firmware_offset: offset } = sectors;
        self.power_of_two("sectors.physical_bytes", physical, claims.logical_sector, 1 << 20)?;
        self.within("sectors.firmware_offset_bytes", offset, 0, physical - 1)?;
        if !offset.is_multiple_of(claims.logical_sector) {
            let reason = "must be a multiple of the logical sector";
            return Err(self.impossible("sectors.firmware_offset_bytes", offset, reason));
        }
        Ok(())
    }

    fn interface(&self, file: &InterfaceFile) -> Result<Interface, ProfileError> {
        let rate = file.link_mb_s;
        if !(0.1..=1e6).contains(&rate) {
            return Err(self.impossible("interface.link_mb_s", rate, "must be 0.1 to 1000000"));
        }
        let per_mib = Nanos::from_seconds(1_048_576.0 / (rate * 1e6)).unwrap_or(Nanos::ZERO);
        Ok(Interface {
            queue_depth: self.within("interface.queue_depth", file.queue_depth, 1, 65_536)?,
            nanos_per_mib: per_mib.get(),
            read_overhead: self.time("interface.read_overhead_us", file.read_overhead_us / 1e3)?,
            write_overhead: self.time("interface.write_overhead_us", file.write_overhead_us / 1e3)?,
            completion_overhead: self
                .time("interface.completion_overhead_us", file.completion_overhead_us / 1e3)?,
        })
    }

    fn disk(&self, file: &File, sectors: Sectors) -> Result<DiskParameters, ProfileError> {
        let missing = |key: &str| self.section(key, "is required for a disk");
        let spindle = file.spindle.as_ref().ok_or_else(|| missing("spindle"))?;
        let seek = file.seek.as_ref().ok_or_else(|| missing("seek"))?;
        let layout = file.geometry.as_ref().ok_or_else(|| missing("geometry"))?;
        let write_cache = file.write_cache.as_ref().ok_or_else(|| missing("write_cache"))?;
        let rmw = file.rmw.as_ref().ok_or_else(|| missing("rmw"))?;
        let turning = Spindle::from_rpm(spindle.rpm).filter(|_| (60.0..=100_000.0).contains(&spindle.rpm));
        let turning =
            turning.ok_or_else(|| self.impossible("spindle.rpm", spindle.rpm, "must be 60 to 100000"))?;
        let heads = HeadTimes {
            head_switch: self.time("seek.head_switch_ms", seek.head_switch_ms)?,
            write_settle: self.time("seek.write_settle_ms", seek.write_settle_ms)?,
            write_lead: Nanos::ZERO,
        };
        let needed = (file.claims.capacity + sectors.firmware_offset).div_ceil(sectors.physical);
        let (area, least) = self.area(rmw, sectors.physical)?;
        let tracks = self.tracks(layout, needed + area)?;
        let longest = tracks.iter().map(|(tracks, _)| *tracks).sum::<u32>().saturating_sub(1).max(1);
        let curve = self.seek(seek, longest)?;
        let write_seek = self.write_seek(seek, &curve, longest)?;
        let slower =
            write_seek.as_ref().map_or(Nanos::ZERO, |write| write.time(1).saturating_sub(curve.time(1)));
        let settling = HeadTimes { write_settle: heads.write_settle.max(slower), ..heads };
        let geometry = self.geometry(layout, &tracks, &curve, settling, turning, needed + least)?;
        let area = area.min(geometry.sectors() - needed);
        let first_sector = geometry.sectors() - area;
        let bytes = rmw.media_cache_bytes.unwrap_or(0);
        Ok(DiskParameters {
            spindle: turning,
            geometry,
            seek: curve,
            write_seek,
            heads,
            read_cache: self.read_cache(&file.read_cache, sectors.physical)?,
            write_cache: self.write_cache(write_cache)?,
            rmw: rmw.policy,
            rmw_reads: RmwReads {
                from_read_cache: rmw.reads_from_cache,
                kept_written: self.within("rmw.kept_written_bytes", rmw.kept_written_bytes, 0, 1 << 30)?
                    / sectors.physical,
            },
            log: (rmw.policy == RmwPolicy::Logged).then_some(LogParameters {
                first_sector,
                sectors: area,
                idle: self.time("rmw.log_idle_ms", rmw.log_idle_ms.unwrap_or(write_cache.idle_ms))?,
                band: self.band(rmw, sectors.physical)?,
            }),
            protection: match (rmw.non_volatile_cache, rmw.media_cache_bytes) {
                (true, _) => Protection::NonVolatile,
                (false, Some(_)) => Protection::MediaCache { bytes, first_sector },
                (false, None) => Protection::None,
            },
            firmware: Firmware::default(),
        })
    }

    fn band(&self, rmw: &RmwFile, physical: u64) -> Result<Option<u64>, ProfileError> {
        let Some(band) = rmw.band_bytes else { return Ok(None) };
        if rmw.policy != RmwPolicy::Logged {
            return Err(self.impossible("rmw.band_bytes", band, "requires rmw.policy = logged"));
        }
        if !band.is_multiple_of(physical) {
            return Err(self.impossible("rmw.band_bytes", band, "must be a multiple of the physical sector"));
        }
        Ok(Some(self.within("rmw.band_bytes", band, physical, 1 << 30)? / physical))
    }

    /// For a media cache or a log: how many physical sectors are wanted after the host's, and the least.
    fn area(&self, rmw: &RmwFile, physical: u64) -> Result<(u64, u64), ProfileError> {
        let media_cache = rmw.media_cache_bytes.unwrap_or(0);
        let media_cache = self.within("rmw.media_cache_bytes", media_cache, 0, 1 << 40)? / physical;
        if rmw.policy != RmwPolicy::Logged {
            return Ok((media_cache, media_cache));
        }
        if media_cache > 0 {
            let reason = "cannot be combined with rmw.policy = logged";
            return Err(self.impossible("rmw.media_cache_bytes", media_cache, reason));
        }
        let log = rmw.log_bytes.unwrap_or(LOG_BYTES);
        let log = self.within("rmw.log_bytes", log, physical, 1 << 40)? / physical;
        Ok((log, if rmw.log_bytes.is_some() { log } else { 1 }))
    }

    fn read_cache(&self, file: &ReadCacheFile, physical: u64) -> Result<ReadCacheParameters, ProfileError> {
        let segments = self.within("read_cache.segments", file.segments, 0, 4096)?;
        self.within("read_cache.segment_bytes", file.segment_bytes, 0, 1 << 32)?;
        self.within("read_cache.read_ahead_bytes", file.read_ahead_bytes, 0, file.segment_bytes)?;
        Ok(ReadCacheParameters {
            segments,
            segment_sectors: file.segment_bytes / physical,
            read_ahead: file.read_ahead_bytes / physical,
        })
    }

    fn write_cache(&self, file: &WriteCacheFile) -> Result<WriteCacheParameters, ProfileError> {
        let extents = self.within("write_cache.extents", file.extents, 1, 1 << 20)?;
        let segment = match file.segment_bytes {
            0 => None,
            bytes => Some(self.power_of_two("write_cache.segment_bytes", bytes, 4096, 1 << 30)?),
        };
        let window = self.within("write_cache.window", file.window, 1, 4096)?;
        Ok(WriteCacheParameters {
            enabled: file.enabled,
            size: ByteCount::new(self.within("write_cache.bytes", file.bytes, 4096, 1 << 36)?),
            extents: extents as usize,
            segment: segment.map(ByteCount::new),
            window: window as usize,
            setup: self.time("write_cache.setup_us", file.setup_us / 1e3)?,
            idle: self.time("write_cache.idle_ms", file.idle_ms)?,
            stays_after_flush: file.stays_after_flush,
        })
    }

    fn seek(&self, file: &SeekFile, longest: u32) -> Result<SeekCurve, ProfileError> {
        let curve = match (&file.table_ms, file.track_to_track_ms, file.average_ms, file.full_stroke_ms) {
            (Some(table), None, None, None) => SeekCurve::from_table(table, longest),
            (None, Some(single), Some(average), Some(full)) => {
                SeekCurve::fitted(single, average, full, file.average_of, longest)
            }
            _ => {
                let reason = "needs either table_ms, or track_to_track_ms, average_ms and full_stroke_ms";
                return Err(self.section("seek", reason));
            }
        };
        curve.map_err(|source| ProfileError::Seek { name: self.name.to_owned(), source })
    }

    /// The seek curve of writes, where it is not that of reads with a longer settling time.
    fn write_seek(
        &self,
        file: &SeekFile,
        reads: &SeekCurve,
        longest: u32,
    ) -> Result<Option<SeekCurve>, ProfileError> {
        let times = (file.write_track_to_track_ms, file.write_average_ms, file.write_full_stroke_ms);
        let (single, average, full) = match times {
            (None, None, None) => return Ok(None),
            (Some(single), Some(average), Some(full)) => (single, average, full),
            _ => {
                let reason =
                    "needs all three of write_track_to_track_ms, write_average_ms and write_full_stroke_ms";
                return Err(self.section("seek", reason));
            }
        };
        let curve = SeekCurve::fitted(single, average, full, file.average_of, longest);
        let curve = curve.map_err(|source| ProfileError::Seek { name: self.name.to_owned(), source })?;
        // The choice of the next operation relies on this.
        match curve.undercuts(reads) {
            None => Ok(Some(curve)),
            Some(distance) => {
                let reason = format!("a write over {distance} tracks would take less time than a read");
                Err(self.impossible("seek.write_average_ms", average, reason))
            }
        }
    }

    fn tracks(&self, file: &GeometryFile, needed: u64) -> Result<Vec<(u32, u32)>, ProfileError> {
        if let Some(zones) = &file.zones {
            let total: u64 = zones.iter().map(|zone| u64::from(zone.0)).sum();
            self.within("geometry.zones", total, 1, 1 << 24)?;
            return Ok(zones.clone());
        }
        let (Some(outer), Some(inner)) = (file.outer_sectors_per_track, file.inner_sectors_per_track) else {
            let reason = "needs either zones, or outer_sectors_per_track and inner_sectors_per_track";
            return Err(self.section("geometry", reason));
        };
        let outer = self.within("geometry.outer_sectors_per_track", u64::from(outer), 1, 1 << 20)?;
        let inner = self.within("geometry.inner_sectors_per_track", u64::from(inner), 1, outer)?;
        let count = self.within("geometry.zone_count", u64::from(file.zone_count.unwrap_or(16)), 1, 4096)?;
        let surfaces = self.within("geometry.surfaces", u64::from(file.surfaces), 1, 64)?;
        // The density falls linearly from the outermost zone to the innermost.
        let steps = (count - 1).max(1);
        let density = |zone: u64| outer - ((outer - inner) * 2 * zone + steps) / (2 * steps);
        let per_step: u64 = (0..count).map(density).sum::<u64>() * surfaces;
        let tracks = match file.tracks_per_surface {
            Some(tracks) => self.within("geometry.tracks_per_surface", u64::from(tracks), count, 1 << 24)?,
            None => self.within(
                "geometry: tracks per surface for the capacity",
                (needed * count).div_ceil(per_step) + count,
                count,
                1 << 24,
            )?,
        };
        let share = |zone: u64| tracks * (zone + 1) / count - tracks * zone / count;
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok((0..count).map(|zone| (narrow(share(zone)), narrow(density(zone).max(1)))).collect())
    }

    fn geometry(
        &self,
        file: &GeometryFile,
        tracks: &[(u32, u32)],
        curve: &SeekCurve,
        heads: HeadTimes,
        spindle: Spindle,
        needed: u64,
    ) -> Result<Geometry, ProfileError> {
        let refused = |source| ProfileError::Geometry { name: self.name.to_owned(), source };
        let revolution = spindle.revolution().seconds();
        // By default enough for a sequential write to reach the next track in time, plus 5 %.
        let enough = |time: Nanos| (time + heads.write_settle).seconds() * 1.05 / revolution;
        let track = file.track_skew_revolutions.unwrap_or_else(|| enough(curve.time(1)));
        let back = curve.time(file.serpentine_tracks.saturating_sub(1)).max(heads.head_switch);
        let head = file.head_skew_revolutions.unwrap_or_else(|| enough(back));
        let next = file.serpentine_skew_revolutions.unwrap_or_else(|| enough(back.max(curve.time(1))));
        let angle = |key: &str, revolutions: f64| {
            Angle::from_revolutions(revolutions)
                .ok_or_else(|| self.impossible(key, revolutions, "must be a number"))
        };
        let track_skew = angle("geometry.track_skew_revolutions", track)?;
        let head_skew = angle("geometry.head_skew_revolutions", head)?;
        let serpentine_skew = angle("geometry.serpentine_skew_revolutions", next)?;
        let first_angle = Angle::default();
        let zones: Vec<Zone> = tracks
            .iter()
            .map(|&(tracks, sectors_per_track)| Zone {
                tracks,
                sectors_per_track,
                track_skew,
                head_skew,
                serpentine_skew,
                first_angle,
            })
            .collect();
        let geometry =
            Geometry::new(&zones, file.surfaces, file.serpentine_tracks, file.serpentine_direction);
        let geometry = geometry.map_err(refused)?;
        if geometry.sectors() < needed {
            let sectors = geometry.sectors();
            return Err(refused(crate::disk::GeometryError::TooSmall { sectors, needed }));
        }
        Ok(geometry)
    }
}
