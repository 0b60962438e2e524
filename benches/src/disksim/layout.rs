//! The zones of a `.model`: which sectors of the tracks have addresses.
//!
//! Within a zone, addresses are assigned along the tracks. Some sectors have none: the management area at the
//! start of the zone, spares, and defects that were slipped. Sparing schemes differ in where the spares are
//! and how far a slip shifts the addresses after it.

use super::ImportError;
use super::fields::Fields;
use super::syntax::Value;
use straddle_drive::disk::{Angle, Direction, Geometry, SurfaceOrder, Zone};

/// The largest number of cylinders accepted; no drive of DiskSim's time has more.
const MOST_CYLINDERS: u32 = 1 << 18;
/// The largest number of parts with addresses, as a long list of defects or spares on each track would make.
const MOST_PARTS: usize = 1 << 19;

/// Where the spares are, and how far a slip shifts the addresses after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sparing {
    /// Slips and spares are whole tracks; the spares are at the zone's end.
    Tracks,
    /// Each region of `size` sectors has spares at its end or front. A slip shifts addresses only within its
    /// region, or, with `to_end`, all addresses up to the zone's end.
    Regions { size: u64, at_front: bool, to_end: bool },
}

struct Band {
    first_cylinder: u32,
    last_cylinder: u32,
    sectors_per_track: u32,
    management: u64,
    spares: u64,
    slips: Vec<u64>,
    /// Defective units and their replacements.
    defects: Vec<(u64, u64)>,
}

impl Band {
    fn sectors(&self, surfaces: u32) -> u64 {
        u64::from(self.last_cylinder - self.first_cylinder + 1)
            * u64::from(surfaces)
            * u64::from(self.sectors_per_track)
    }
}

pub(super) fn read(model: &Fields<'_>) -> Result<Geometry, ImportError> {
    let surfaces = model.whole("Number of data surfaces", 1, 64)?;
    let layout = model.block("Layout Model", "dm_layout_g1")?;
    let scheme = "LBN-to-PBN mapping scheme";
    let order = match layout.find(scheme).map_or(Ok(0), |_| layout.whole(scheme, 0, 2))? {
        0 => SurfaceOrder::Ascending,
        1 => SurfaceOrder::AlternatingInZone,
        _ => SurfaceOrder::Alternating,
    };
    let refused = |source| ImportError::Geometry { file: model.file().to_owned(), source };
    let (mut zones, mut parts, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cylinder, mut along) = (0, 0_u64);
    for located in layout.list("Zones")? {
        let Value::Block(block) = &located.value else {
            return Err(layout.impossible("Zones", "must be a list of blocks"));
        };
        let fields = Fields::new(model.file(), block);
        let (band, zone) = band(&fields, cylinder)?;
        if band.first_cylinder > cylinder {
            // Cylinders that belong to no zone: the arm still crosses them.
            let gap = Zone { tracks: band.first_cylinder - cylinder, ..zone };
            along += u64::from(gap.tracks) * u64::from(surfaces) * u64::from(gap.sectors_per_track);
            zones.push(gap);
        }
        let sparing = sparing(&layout, surfaces, band.sectors_per_track, band.sectors(surfaces))?;
        let region = match sparing {
            Sparing::Tracks => u64::from(band.sectors_per_track),
            Sparing::Regions { size, .. } => size,
        };
        if band.sectors(surfaces) / region > MOST_PARTS as u64 {
            return Err(layout.impossible("Sparing scheme used", "too many locations with spares"));
        }
        addresses(&band, sparing, along, surfaces, &mut parts);
        if parts.len() > MOST_PARTS {
            return Err(fields.impossible("slips", "too many parts"));
        }
        let unit = if sparing == Sparing::Tracks { u64::from(band.sectors_per_track) } else { 1 };
        let inside = band.sectors(surfaces) / unit;
        if band.defects.iter().any(|&(from, to)| from >= inside || to >= inside) {
            return Err(fields.impossible("defects", "must lie in their zone"));
        }
        replaced.extend(band.defects.iter().map(|(from, to)| (along + from * unit, unit, along + to * unit)));
        along += band.sectors(surfaces);
        cylinder = band.last_cylinder + 1;
        zones.push(zone);
    }
    let geometry = Geometry::new(&zones, surfaces, 1, Direction::Forward).map_err(refused)?;
    let geometry = geometry.with_addresses(parts).map_err(refused)?.with_order(order);
    geometry.with_replacements(&replaced).ok_or_else(|| {
        let reason = "a defect must have an address, and its replacement must have none";
        layout.impossible("Zones", reason)
    })
}

fn band(fields: &Fields<'_>, cylinder: u32) -> Result<(Band, Zone), ImportError> {
    let first_cylinder = fields.whole("First cylinder number", cylinder, MOST_CYLINDERS)?;
    let last_cylinder = fields.whole("Last cylinder number", first_cylinder, MOST_CYLINDERS)?;
    let sectors_per_track = fields.whole("Blocks per track", 1, 1 << 20)?;
    let defects = fields.wholes("defects")?;
    if !defects.len().is_multiple_of(2) {
        return Err(fields.impossible("defects", "must be pairs of a defect and its replacement"));
    }
    // A defect that replaces itself stays where it is.
    let pairs = defects.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let defects = pairs.filter(|(defect, replacement)| defect != replacement).collect();
    let revolutions = fields.find("Skew units").is_some() && fields.word("Skew units")? == "revolutions";
    let angle = |key: &str| {
        let skew = fields.number(key)?;
        // DiskSim uses whole sectors, whatever the file says.
        let part = if revolutions { skew } else { skew.trunc() / f64::from(sectors_per_track) };
        Angle::from_revolutions(part).ok_or_else(|| fields.impossible(key, "must be a number"))
    };
    let zone = Zone {
        tracks: last_cylinder - first_cylinder + 1,
        sectors_per_track,
        track_skew: Angle::default(),
        head_skew: angle("Skew for track switch")?,
        serpentine_skew: angle("Skew for cylinder switch")?,
        first_angle: angle("Offset of first block")?,
    };
    let mut slips = fields.wholes("slips")?;
    slips.sort_unstable();
    slips.dedup();
    let management = u64::from(fields.whole("Empty space at zone front", 0, u32::MAX)?);
    let spares = u64::from(fields.whole("Number of spares", 0, u32::MAX)?);
    let band = Band { first_cylinder, last_cylinder, sectors_per_track, management, spares, slips, defects };
    Ok((band, zone))
}

fn sparing(
    layout: &Fields<'_>,
    surfaces: u32,
    sectors_per_track: u32,
    zone: u64,
) -> Result<Sparing, ImportError> {
    let track = u64::from(sectors_per_track);
    let cylinder = track * u64::from(surfaces);
    let scheme = layout.whole("Sparing scheme used", 0, 10)?;
    let size = match scheme {
        1 => return Ok(Sparing::Tracks),
        2 | 4..=7 => cylinder,
        3 => track,
        8 => cylinder * u64::from(layout.whole("Rangesize for sparing", 1, MOST_CYLINDERS)?),
        _ => zone,
    };
    let (at_front, to_end) = (matches!(scheme, 5 | 6), matches!(scheme, 4 | 6 | 7 | 10));
    Ok(Sparing::Regions { size, at_front, to_end })
}

/// Collects the parts of a zone that have addresses. The zone begins at `along`, counted over all tracks.
fn addresses(band: &Band, sparing: Sparing, along: u64, surfaces: u32, parts: &mut Vec<(u64, u64)>) {
    let zone = band.sectors(surfaces);
    let track = u64::from(band.sectors_per_track);
    let mut own = Parts { parts, base: along, skip: band.management };
    match sparing {
        Sparing::Tracks => {
            let tracks = zone / track;
            let slips = || band.slips.iter().copied().take_while(|&slip| slip < tracks);
            let good = tracks.saturating_sub(band.spares);
            own.region(0, tracks, good, slips(), track);
        }
        Sparing::Regions { size, at_front, to_end } => {
            let mut slips = band.slips.as_slice();
            for start in (0..zone).step_by(usize::try_from(size).unwrap_or(usize::MAX)) {
                let end = (start + size).min(zone);
                let inside = slips.partition_point(|&slip| slip < end);
                let spares = band.spares.min(end - start);
                let (from, to, most) = if to_end {
                    // Each region keeps the same number of spares, whatever is shifted over them.
                    if at_front { (start + spares, end, u64::MAX) } else { (start, end - spares, u64::MAX) }
                } else {
                    // Each slip at the front uses up one of the spares before the first address.
                    let front = if at_front { band.spares.saturating_sub(inside as u64) } else { 0 };
                    (start + front.min(end - start), end, end - start - spares)
                };
                own.region(from, to, most, slips[..inside].iter().copied(), 1);
                slips = &slips[inside..];
                if own.parts.len() > MOST_PARTS {
                    return;
                }
            }
        }
    }
}

struct Parts<'a> {
    parts: &'a mut Vec<(u64, u64)>,
    base: u64,
    /// The number of sectors at the zone's front still to be left without addresses.
    skip: u64,
}

impl Parts<'_> {
    /// Adds at most `most` of the units from `start` to `end`, without the slips; a unit has `unit` sectors.
    fn region(&mut self, start: u64, end: u64, most: u64, slips: impl Iterator<Item = u64>, unit: u64) {
        let (mut from, mut left) = (start, most);
        for slip in slips.chain(std::iter::once(end)) {
            let count = slip.min(end).saturating_sub(from).min(left);
            self.push(from * unit, count * unit);
            left -= count;
            from = from.max(slip.saturating_add(1));
        }
    }

    fn push(&mut self, at: u64, count: u64) {
        let skipped = self.skip.min(count);
        self.skip -= skipped;
        if count > skipped {
            self.parts.push((self.base + at + skipped, count - skipped));
        }
    }
}
