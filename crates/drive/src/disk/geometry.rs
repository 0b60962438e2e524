//! Where each physical sector lies: zones, tracks, surfaces, and the angle at which the sector begins.
//!
//! Tracks are numbered in the order of logical addresses. A *serpentine* is a run of tracks that takes the
//! surfaces in turn: `width` tracks on the first surface, `width` on the next, and so on. A width of 1 gives
//! the classical cylinder.

use crate::disk::spindle::Angle;

/// The direction in which a serpentine's tracks run on every second surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Inward on every surface, with a jump back in between.
    #[default]
    Forward,
    /// Inward on one surface, outward on the next.
    Alternating,
}

/// The order in which a cylinder's tracks take the surfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SurfaceOrder {
    /// From the first to the last.
    #[default]
    Ascending,
    /// Every second cylinder of a zone from the last to the first: the next cylinder needs no other head.
    AlternatingInZone,
    /// As [`SurfaceOrder::AlternatingInZone`], but counted over the whole disk: every odd cylinder.
    Alternating,
}

/// Cylinders with the same number of sectors on each track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Tracks on each surface.
    pub tracks: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// From the angle of a track's first sector to that of the next track on the same surface.
    pub track_skew: Angle,
    /// From the angle of a track's first sector to that of the first track on the next surface.
    pub head_skew: Angle,
    /// From the angle of a track's first sector to that of the first track of the next serpentine.
    pub serpentine_skew: Angle,
    /// The angle of the zone's first sector.
    pub first_angle: Angle,
}

/// The layout of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    zones: Vec<Placed>,
    starts: Vec<u64>,
    surfaces: u32,
    width: u32,
    direction: Direction,
    sectors: u64,
    cylinders: u32,
    /// Where the addresses are, if some positions on the tracks have no address.
    runs: Vec<Stretch>,
    order: SurfaceOrder,
    /// Addresses that are elsewhere, in their order.
    moved: Vec<Moved>,
}

/// Consecutive addresses whose sectors were replaced by consecutive spare ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moved {
    first: u64,
    count: u64,
    at: u64,
}

/// Consecutive addresses that are also consecutive on the tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: u64,
    /// Its position, counted along all tracks.
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    zone: Zone,
    first_sector: u64,
    first_cylinder: u32,
    /// 2^64 divided by the sectors of a track: times a sector's number, shifted right by 32, its angle.
    step: u64,
    serpentine_tracks: u32,
    serpentine_angle: Angle,
}

/// The place of a physical sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The track's distance from the outermost one, in tracks.
    pub cylinder: u32,
    /// The number of the surface.
    pub surface: u32,
    /// Position on the track.
    pub sector: u32,
    /// Sectors on this track.
    pub sectors_per_track: u32,
    /// The angle at which the sector begins.
    pub angle: Angle,
    /// The number of consecutive sectors left on this track, this one included.
    pub left: u32,
}

/// Why zones do not form a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum GeometryError {
    #[error("{what} = {value} is not valid (must be {low} to {high})")]
    Count { what: &'static str, value: u64, low: u64, high: u64 },
    #[error(
        "the tracks hold {sectors} physical sectors, but the claimed capacity and the firmware offset \
         require {needed}"
    )]
    TooSmall { sectors: u64, needed: u64 },
}

straddle_units::error_kind!(GeometryError: Usage);

fn within(what: &'static str, value: u64, low: u64, high: u64) -> Result<(), GeometryError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(GeometryError::Count { what, value, low, high }) }
}

impl Geometry {
    /// A disk with these zones, listed from the outermost.
    pub fn new(
        zones: &[Zone],
        surfaces: u32,
        width: u32,
        direction: Direction,
    ) -> Result<Self, GeometryError> {
        within("surfaces", u64::from(surfaces), 1, 64)?;
        within("zones", zones.len() as u64, 1, 4096)?;
        within("serpentine_tracks", u64::from(width), 1, 1 << 24)?;
        let (mut first_sector, mut first_cylinder) = (0_u64, 0_u32);
        let mut placed = Vec::with_capacity(zones.len());
        for zone in zones {
            within("tracks of a zone", u64::from(zone.tracks), 1, 1 << 24)?;
            within("sectors_per_track", u64::from(zone.sectors_per_track), 1, 1 << 20)?;
            within("tracks", u64::from(first_cylinder) + u64::from(zone.tracks), 1, 1 << 24)?;
            let inside = surfaces * (width.min(zone.tracks) - 1);
            placed.push(Placed {
                zone: *zone,
                first_sector,
                first_cylinder,
                step: u64::MAX / u64::from(zone.sectors_per_track),
                serpentine_tracks: surfaces * width.min(zone.tracks),
                serpentine_angle: zone
                    .serpentine_skew
                    .advanced(zone.track_skew, inside)
                    .advanced(zone.head_skew, surfaces - 1),
            });
            first_sector += u64::from(zone.tracks) * u64::from(surfaces) * u64::from(zone.sectors_per_track);
            first_cylinder += zone.tracks;
        }
        let (sectors, cylinders, runs) = (first_sector, first_cylinder, Vec::new());
        let starts = placed.iter().map(|placed| placed.first_sector).collect();
        let (order, moved) = (SurfaceOrder::default(), Vec::new());
        Ok(Self { zones: placed, starts, surfaces, width, direction, sectors, cylinders, runs, order, moved })
    }

    /// The same tracks, with the surfaces in this order. It has no effect on serpentines of several tracks.
    pub const fn with_order(mut self, order: SurfaceOrder) -> Self {
        self.order = order;
        self
    }

    /// Replaces defective sectors: each is a position along all tracks, a count, and the replacements' position.
    /// `None` if a sector has no address or is replaced twice, or if a replacement has an address of its own.
    pub fn with_replacements(mut self, replaced: &[(u64, u64, u64)]) -> Option<Self> {
        let addressed = |at: u64| self.along(self.address(at)).0 == at && self.address(at) < self.sectors;
        let mut moved = Vec::with_capacity(replaced.len());
        for &(from, count, at) in replaced {
            let taken = (at..at + count).any(addressed);
            if taken || !(from..from + count).all(addressed) {
                return None;
            }
            moved.push(Moved { first: self.address(from), count, at });
        }
        moved.sort_unstable_by_key(|moved| moved.first);
        if moved.windows(2).any(|pair| pair[0].first + pair[0].count > pair[1].first) {
            return None;
        }
        self.moved = moved;
        Some(self)
    }

    /// Gives addresses only to these parts, in track order: a position along all tracks and a number of sectors.
    /// Those between are spare, defective, or reserved.
    pub fn with_addresses(
        mut self,
        parts: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, GeometryError> {
        let (mut first, mut end) = (0_u64, 0_u64);
        self.runs.clear();
        for (at, count) in parts {
            within("the place of an address", at, end, self.sectors)?;
            within("addresses", count, 0, self.sectors - at)?;
            if count > 0 && (at != end || self.runs.is_empty()) {
                self.runs.push(Stretch { first, at });
            }
            if count > 0 {
                (first, end) = (first + count, at + count);
            }
        }
        within("addresses", first, 1, self.sectors)?;
        self.sectors = first;
        Ok(self)
    }

    /// The first address on the track of `sector`, and the first address on the next track.
    pub fn track(&self, sector: u64) -> (u64, u64) {
        let at = self.along(sector).0;
        let place = self.place_along(at);
        let begin = at - u64::from(place.sector);
        (self.address(begin), self.address(begin + u64::from(place.sectors_per_track)).min(self.sectors))
    }

    /// The first address after the cylinder of `sector`.
    pub fn cylinder_end(&self, sector: u64) -> u64 {
        let cylinder = self.place(sector).cylinder;
        let mut next = self.track(sector).1;
        while next < self.sectors && self.place(next).cylinder == cylinder {
            next = self.track(next).1;
        }
        next
    }

    /// The position along the tracks, and the addresses that follow it there without a gap.
    fn along(&self, sector: u64) -> (u64, u64) {
        let Some(index) = self.runs.partition_point(|run| run.first <= sector).checked_sub(1) else {
            return (sector, u64::MAX);
        };
        let run = self.runs[index];
        let left = self.runs.get(index + 1).map_or(u64::MAX, |next| next.first - sector);
        (run.at + (sector - run.first), left)
    }

    /// As [`Geometry::along`], with replacements.
    fn found(&self, sector: u64) -> (u64, u64) {
        let (at, left) = self.along(sector);
        let next = self.moved.partition_point(|moved| moved.first + moved.count <= sector);
        match self.moved.get(next) {
            Some(moved) if moved.first <= sector => {
                (moved.at + (sector - moved.first), moved.count - (sector - moved.first))
            }
            Some(moved) => (at, left.min(moved.first - sector)),
            None => (at, left),
        }
    }

    fn address(&self, at: u64) -> u64 {
        let Some(index) = self.runs.partition_point(|run| run.at <= at).checked_sub(1) else {
            return if self.runs.is_empty() { at } else { 0 };
        };
        let run = self.runs[index];
        let next = self.runs.get(index + 1).map_or(self.sectors, |next| next.first);
        (run.first + (at - run.at)).min(next)
    }

    /// Physical sectors on all tracks.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Tracks on each surface.
    pub const fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Recording surfaces.
    pub const fn surfaces(&self) -> u32 {
        self.surfaces
    }

    /// Tracks of a serpentine on each surface.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The zones, from the outermost, each with its first physical sector.
    pub fn zones(&self) -> impl Iterator<Item = (u64, &Zone)> {
        self.zones.iter().map(|placed| (placed.first_sector, &placed.zone))
    }

    /// The place of physical sector `sector`; past the end, on a continuation of the last zone.
    pub fn place(&self, sector: u64) -> Position {
        if self.runs.is_empty() && self.moved.is_empty() {
            return self.place_along(sector);
        }
        self.place_found(sector)
    }

    /// As [`Geometry::place`], where some positions have no address or are replaced.
    #[inline(never)]
    fn place_found(&self, sector: u64) -> Position {
        let (at, left) = self.found(sector);
        let mut place = self.place_along(at);
        place.left = u32::try_from(left).unwrap_or(u32::MAX).min(place.left);
        place
    }

    #[inline]
    fn place_along(&self, sector: u64) -> Position {
        let index = self.starts.partition_point(|start| *start <= sector) - 1;
        let placed = &self.zones[index];
        let inside = sector - placed.first_sector;
        let per_track = u64::from(placed.zone.sectors_per_track);
        // A zone beyond 2^32 sectors is rare, and a 32-bit division is faster.
        let (track, sector) = match u32::try_from(inside) {
            Ok(inside) => (inside / placed.zone.sectors_per_track, inside % placed.zone.sectors_per_track),
            Err(_) => (low(inside / per_track), low(inside % per_track)),
        };
        placed.place(track, sector, self)
    }
}

/// Narrows a number of a zone's tracks or a track's sectors, which fits in 32 bits.
fn low(number: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the zone's limits keep it below 2^32")]
    let low = number as u32;
    low
}

impl Placed {
    fn place(&self, track: u32, sector: u32, geometry: &Geometry) -> Position {
        let width = geometry.width.min(self.zone.tracks);
        let (serpentine, rest) = (track / self.serpentine_tracks, track % self.serpentine_tracks);
        // The last serpentine of a zone may be narrower.
        let width = width.min(self.zone.tracks - (serpentine * width).min(self.zone.tracks - 1));
        let (surface, along) = if width == 1 { (rest, 0) } else { (rest / width, rest % width) };
        let backward = geometry.direction == Direction::Alternating && surface % 2 == 1;
        let across = if backward { width - 1 - along } else { along };
        let zone = &self.zone;
        let descending = width == 1
            && match geometry.order {
                SurfaceOrder::Ascending => false,
                SurfaceOrder::AlternatingInZone => serpentine % 2 == 1,
                SurfaceOrder::Alternating => (self.first_cylinder + serpentine) % 2 == 1,
            };
        let head = if descending { geometry.surfaces - 1 - surface } else { surface };
        let start = zone
            .first_angle
            .advanced(self.serpentine_angle, serpentine)
            .advanced(zone.track_skew, surface * (width - 1) + along)
            .advanced(zone.head_skew, surface);
        let angle = Angle(start.0.wrapping_add(low((u64::from(sector) * self.step) >> 32)));
        Position {
            cylinder: self.first_cylinder + serpentine * geometry.width.min(zone.tracks) + across,
            surface: head,
            sector,
            sectors_per_track: zone.sectors_per_track,
            angle,
            left: zone.sectors_per_track - sector,
        }
    }
}
