//! The place of each sector, checked against a walk over the disk that uses only the profile's values.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small disks")]

use crate::tests::common;

use common::config;
use common::shape::{Shape, shapes};
use proptest::prelude::*;
use straddle_drive::disk::{AverageSeek, SeekCurve};

/// A track met on the walk.
#[derive(Debug)]
struct Track {
    cylinder: u32,
    surface: u32,
    sectors: u32,
    /// The angle at which its first sector begins, in revolutions.
    start: f64,
}

/// All tracks in address order: by zone, then by serpentine, then by surface.
fn walk(shape: &Shape) -> Vec<Track> {
    let [track_skew, head_skew, serpentine_skew] = shape.skews.unwrap();
    let mut all = Vec::new();
    let mut outermost = 0;
    for (tracks, sectors) in shape.all_zones() {
        let tracks = tracks as u32;
        let mut start = 0.0;
        let mut left = tracks;
        let mut cylinder = outermost;
        while left > 0 {
            let width = shape.width.min(left);
            for surface in 0..shape.surfaces {
                for along in 0..width {
                    let backward = shape.alternating && surface % 2 == 1;
                    let across = if backward { width - 1 - along } else { along };
                    all.push(Track { cylinder: cylinder + across, surface, sectors: sectors as u32, start });
                    start += if along + 1 < width {
                        track_skew
                    } else if surface + 1 < shape.surfaces {
                        head_skew
                    } else {
                        serpentine_skew
                    };
                }
            }
            (cylinder, left) = (cylinder + width, left - width);
        }
        outermost += tracks;
    }
    all
}

/// The smaller of the two angles between `one` and `other`.
fn apart(one: f64, other: f64) -> f64 {
    let ahead = (one - other).rem_euclid(1.0);
    ahead.min(1.0 - ahead)
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_sector_lies_where_a_walk_over_the_disk_finds_it(shape in shapes(), skews in [0.0..1.0, 0.0..1.0, 0.0..1.0]) {
        let shape = Shape { skews: Some(skews), ..shape };
        let profile = shape.profile();
        let (geometry, curve) = profile.disk().unwrap();
        let mut address = 0;
        for track in walk(&shape) {
            let begin = address;
            for sector in 0..track.sectors {
                let place = geometry.place(address);
                prop_assert_eq!(
                    (place.cylinder, place.surface, place.sector, place.sectors_per_track),
                    (track.cylinder, track.surface, sector, track.sectors),
                    "sector {} of {:?}", address, track
                );
                let angle = track.start + f64::from(sector) / f64::from(track.sectors);
                prop_assert!(apart(place.angle.revolutions(), angle) < 1e-6, "sector {} at {:?}, not {}", address, place, angle);
                prop_assert_eq!(geometry.track(address), (begin, begin + u64::from(track.sectors)));
                address += 1;
            }
        }
        prop_assert_eq!(geometry.sectors(), address);
        let tracks: u64 = shape.all_zones().iter().map(|zone| zone.0).sum();
        prop_assert_eq!(u64::from(geometry.cylinders()), tracks);
        // The arm can reach every track.
        prop_assert!(u64::from(curve.longest()) + 1 >= tracks);
    }
}

/// For any number of tracks: the shortest, the average and the longest distance of a data sheet.
#[test]
fn a_fitted_curve_takes_the_times_of_the_data_sheet_on_every_size_of_disk() {
    for longest in [30, 1000, 1024, 1025, 1100, 1279, 1280, 1281, 1500, 5000, 300_001] {
        let curve = SeekCurve::fitted(1.0, 8.0, 16.0, AverageSeek::ThirdOfStroke, longest).unwrap();
        for (distance, expected) in [(1, 1.0), (longest / 3, 8.0), (longest, 16.0)] {
            let time = curve.time(distance).millis();
            assert!(
                (time - expected).abs() < 0.02 * expected,
                "{time} ms over {distance} of {longest} tracks, not {expected}"
            );
        }
    }
}
