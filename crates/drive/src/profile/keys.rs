//! The keys of a profile's file, as serde reads them; `file.rs` checks them.

use serde::Deserialize;

use super::{Claims, Fit, Sectors};
use crate::disk::{AverageSeek, Direction, RmwPolicy};
use crate::ssd::FlashFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) notes: Option<String>,
    pub(super) claims: Claims,
    pub(super) sectors: Option<Sectors>,
    pub(super) interface: InterfaceFile,
    pub(super) spindle: Option<SpindleFile>,
    pub(super) geometry: Option<GeometryFile>,
    pub(super) seek: Option<SeekFile>,
    #[serde(default)]
    pub(super) read_cache: ReadCacheFile,
    pub(super) write_cache: Option<WriteCacheFile>,
    pub(super) rmw: Option<RmwFile>,
    pub(super) flash: Option<FlashFile>,
    pub(super) fit: Option<Fit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceFile {
    pub(super) link_mb_s: f64,
    pub(super) read_overhead_us: f64,
    pub(super) write_overhead_us: f64,
    #[serde(default)]
    pub(super) completion_overhead_us: f64,
    pub(super) queue_depth: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpindleFile {
    pub(super) rpm: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryFile {
    pub(super) surfaces: u32,
    pub(super) zones: Option<Vec<(u32, u32)>>,
    pub(super) outer_sectors_per_track: Option<u32>,
    pub(super) inner_sectors_per_track: Option<u32>,
    pub(super) zone_count: Option<u32>,
    pub(super) tracks_per_surface: Option<u32>,
    #[serde(default = "one")]
    pub(super) serpentine_tracks: u32,
    #[serde(default)]
    pub(super) serpentine_direction: Direction,
    pub(super) track_skew_revolutions: Option<f64>,
    pub(super) head_skew_revolutions: Option<f64>,
    pub(super) serpentine_skew_revolutions: Option<f64>,
}

const fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeekFile {
    pub(super) track_to_track_ms: Option<f64>,
    pub(super) average_ms: Option<f64>,
    #[serde(default)]
    pub(super) average_of: AverageSeek,
    pub(super) full_stroke_ms: Option<f64>,
    pub(super) table_ms: Option<Vec<(u32, f64)>>,
    pub(super) write_track_to_track_ms: Option<f64>,
    pub(super) write_average_ms: Option<f64>,
    pub(super) write_full_stroke_ms: Option<f64>,
    pub(super) head_switch_ms: f64,
    pub(super) write_settle_ms: f64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadCacheFile {
    pub(super) segments: u32,
    pub(super) segment_bytes: u64,
    pub(super) read_ahead_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteCacheFile {
    pub(super) enabled: bool,
    pub(super) bytes: u64,
    pub(super) extents: u32,
    #[serde(default)]
    pub(super) segment_bytes: u64,
    pub(super) window: u32,
    pub(super) setup_us: f64,
    #[serde(default)]
    pub(super) idle_ms: f64,
    #[serde(default)]
    pub(super) stays_after_flush: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RmwFile {
    pub(super) policy: RmwPolicy,
    #[serde(default)]
    pub(super) non_volatile_cache: bool,
    pub(super) media_cache_bytes: Option<u64>,
    #[serde(default)]
    pub(super) reads_from_cache: bool,
    #[serde(default)]
    pub(super) kept_written_bytes: u64,
    pub(super) log_bytes: Option<u64>,
    pub(super) log_idle_ms: Option<f64>,
    pub(super) band_bytes: Option<u64>,
}
