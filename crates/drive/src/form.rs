//! What `drive list --json` and `drive show --json` print.

use crate::Profile;
use crate::disk::{DiskParameters, Protection, RmwPolicy, Zone};
use crate::profile::{Body, Claims, Figure, Fit};
use schemars::JsonSchema;
use serde::Serialize;

/// What `straddle drive list --json` and `straddle drive show --json` print.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DrivesReport {
    /// All modelled drives, or the one that was named.
    drives: Vec<DriveReport>,
}

/// A modelled drive. Sizes and offsets are in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Drive")]
struct DriveReport {
    /// The name of the drive.
    name: String,
    /// Manufacturer, model, size and year.
    title: String,
    /// Background on the drive; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    /// "disk" or "ssd".
    kind: &'static str,
    /// What the drive reports to the host.
    claims: Claims,
    /// The drive's true physical sectors, whatever it reports.
    truth: TruthReport,
    /// Whether the drive hides the size of its physical sectors, or where they start.
    misreports: bool,
    /// The options that the drive has, as in drive:NAME,OPTION.
    variants: Vec<String>,
    /// The policies for partial physical sectors that the drive may follow if its firmware is unknown, as in
    /// drive:NAME,rmw=POLICY; only with `drive show`, and empty if no request can cover part of a physical
    /// sector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plausible_rmw: Vec<&'static str>,
    /// What the profile was fitted to; only with `drive show`, and absent if nothing was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<FittedReport>,
    /// The mechanics of a hard disk; only with `drive show`, and absent for an SSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<DiskReport>,
    /// Every number of the profile with its source; only with `drive show`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<Figure>,
}

/// What a profile was fitted to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fitted")]
struct FittedReport {
    /// The experiments to whose raw figures, and to no others, the profile was fitted.
    experiments: Vec<String>,
    /// The paths of the fitted numbers in the profile; empty if there was nothing to choose.
    knobs: Vec<String>,
}

/// The true physical sectors of a drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Truth")]
struct TruthReport {
    /// The smallest unit that can be written without a read-modify-write: the physical sector, or the
    /// indirection unit.
    unit_bytes: u64,
    /// The offset that the firmware adds to every address that it receives.
    firmware_offset_bytes: u64,
    /// The first offset, as the host counts, at which a unit begins.
    alignment_offset_bytes: u64,
}

/// The mechanics of a hard disk.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Disk")]
struct DiskReport {
    /// The duration of a revolution in nanoseconds.
    revolution_ns: u64,
    /// The number of surfaces.
    surfaces: u32,
    /// The number of tracks on each surface.
    tracks: u32,
    /// The number of consecutive tracks on one surface before the addresses continue on the next surface.
    serpentine_tracks: u32,
    /// The zones, the outermost first.
    zones: Vec<ZoneReport>,
    /// The time of a seek to an adjacent track, in nanoseconds.
    seek_track_to_track_ns: u64,
    /// The mean time of a seek over all pairs of tracks, in nanoseconds.
    seek_average_ns: u64,
    /// The time of the longest seek, in nanoseconds.
    seek_full_stroke_ns: u64,
    /// How partial physical sectors are written.
    rmw_policy: RmwPolicy,
    /// The size of the write cache in bytes; 0 if it is off.
    write_cache_bytes: u64,
    /// Whether the contents of the write cache survive a power cut.
    write_cache_survives: bool,
}

/// A zone: adjacent tracks with the same number of sectors.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Zone")]
struct ZoneReport {
    /// The zone's outermost track on each surface, counted from 0 at the outer edge.
    first_track: u32,
    /// The number of tracks on each surface.
    tracks: u32,
    /// The number of physical sectors per track.
    sectors_per_track: u32,
    /// The sustained transfer rate in bytes per second.
    bytes_per_second: f64,
}

impl DrivesReport {
    /// Reports the drives, in full or only with what `list` shows.
    pub fn of(profiles: &[Profile], full: bool) -> Self {
        Self { drives: profiles.iter().map(|profile| drive(profile, full)).collect() }
    }
}

fn drive(profile: &Profile, full: bool) -> DriveReport {
    let disk = match &profile.body {
        Body::Disk(disk) if full => Some(mechanics(disk, profile.sectors.physical)),
        _ => None,
    };
    let policies = if full { profile.plausible_policies() } else { Vec::new() };
    DriveReport {
        name: profile.name.clone(),
        title: profile.title.clone(),
        notes: profile.notes.clone(),
        kind: kind(profile),
        claims: profile.claims.clone(),
        truth: TruthReport {
            unit_bytes: profile.sectors.physical,
            firmware_offset_bytes: profile.sectors.firmware_offset,
            alignment_offset_bytes: profile.first_boundary(),
        },
        misreports: profile.misreports(),
        variants: profile.variants.clone(),
        plausible_rmw: policies.into_iter().map(RmwPolicy::name).collect(),
        fit: profile.fit.as_ref().filter(|fit| full && !fit.experiments.is_empty()).map(fitted),
        disk,
        figures: if full { profile.figures.clone() } else { Vec::new() },
    }
}

fn fitted(fit: &Fit) -> FittedReport {
    FittedReport {
        experiments: fit.experiments.clone(),
        knobs: fit.knobs.iter().map(|knob| knob.path.clone()).collect(),
    }
}

/// Returns "disk" or "ssd".
pub fn kind(profile: &Profile) -> &'static str {
    match profile.body {
        Body::Disk(_) => "disk",
        Body::Ssd(_) => "ssd",
    }
}

fn mechanics(disk: &DiskParameters, physical: u64) -> DiskReport {
    let (geometry, seek) = (&disk.geometry, &disk.seek);
    DiskReport {
        revolution_ns: disk.spindle.revolution().get(),
        surfaces: geometry.surfaces(),
        tracks: geometry.cylinders(),
        serpentine_tracks: geometry.width(),
        zones: zones(disk, physical),
        seek_track_to_track_ns: seek.time(1).get(),
        seek_average_ns: seek.average().get(),
        seek_full_stroke_ns: seek.time(seek.longest()).get(),
        rmw_policy: disk.rmw,
        write_cache_bytes: if disk.write_cache.enabled { disk.write_cache.size.get() } else { 0 },
        write_cache_survives: disk.protection == Protection::NonVolatile,
    }
}

/// Returns the zones with their transfer rates.
fn zones(disk: &DiskParameters, physical: u64) -> Vec<ZoneReport> {
    let mut first_track = 0;
    let mut zones = Vec::new();
    for (_, zone) in disk.geometry.zones() {
        let bytes_per_second = rate(zone, disk, physical);
        let (tracks, sectors_per_track) = (zone.tracks, zone.sectors_per_track);
        zones.push(ZoneReport { first_track, tracks, sectors_per_track, bytes_per_second });
        first_track += tracks;
    }
    zones
}

/// Over one serpentine of the zone, with the tracks and the skews between them (the manuals' A / (B + C + D)).
fn rate(zone: &Zone, disk: &DiskParameters, physical: u64) -> f64 {
    let surfaces = f64::from(disk.geometry.surfaces());
    let width = f64::from(disk.geometry.width().min(zone.tracks));
    let skews = surfaces * (width - 1.0) * zone.track_skew.revolutions()
        + (surfaces - 1.0) * zone.head_skew.revolutions()
        + zone.serpentine_skew.revolutions();
    let physical = u32::try_from(physical).map_or(0.0, f64::from);
    let bytes = surfaces * width * f64::from(zone.sectors_per_track) * physical;
    bytes / ((surfaces * width + skews) * disk.spindle.revolution().seconds())
}
