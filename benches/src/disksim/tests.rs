//! Importing DiskSim's parameter sets, using a made-up drive whose times can all be calculated by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "variety.rs"]
mod variety;

use std::collections::HashMap;
use std::io;

use crate::disksim::{self, ImportError};
use straddle_drive::profile::Body;
use straddle_drive::{Drive, Profile};
use straddle_units::io::{Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

const SPECS: &str = "\
# A made-up drive.
disksim_disk MADE_UP_validate {
   Model = source made_up.model,
   Per-request overhead time = 0.0,
   Time scale for overheads = 1.0,
   Bulk sector transfer time = 0.05,
   Allow almost read hits = 0,
   Allow read hits on write data = 1,
   Preseeking level = 0,
   Never disconnect = 1,
   Number of buffer segments = 4,
   Maximum number of write segments = 1,
   Segment size (in blks) = 16,
   Use separate write segment = 1,
   High (read) water mark = 0.0,
   Set watermark by reqsize = 1,
   Enable caching in buffer = 1,
   Buffer continuous read = 3,
   Minimum read-ahead (blks) = 0,
   Maximum read-ahead (blks) = 8,
   Read-ahead on idle hit = 0,
   Read any free blocks = 0,
   Fast write level = 0,
   Immediate buffer read = 0,
   Immediate buffer write = 0,
   Read directly to buffer = 1,
   Immed transfer partial hit = 1,
   Read hit over. after read = 0.1,
   Read hit over. after write = 0.2,
   Read miss over. after read = 0.3,
   Read miss over. after write = 0.4,
   Write hit over. after read = 0.5,
   Write hit over. after write = 0.6,
   Write miss over. after read = 0.7,
   Write miss over. after write = 0.8,
   Read completion overhead = 0.01,
   Write completion overhead = 0.02,
   Data preparation overhead = 0.0,
   First reselect overhead = 0.0,
   Other reselect overhead = 0.0,
   Read disconnect afterread = 0.0,
   Read disconnect afterwrite = 0.0,
   Write disconnect overhead = 0.0,
   Extra write disconnect = 0,
   Extradisc command overhead = 0.0,
   Extradisc disconnect overhead = 0.0,
   Extradisc inter-disconnect delay = 0.0,
   Extradisc 2nd disconnect overhead = 0.0,
   Extradisc seek delta = 0.0,
   Minimum seek delay = 0.0
} # end";

/// 6000 rpm and 20 sectors per track: a revolution is 10 ms, a sector 0.5 ms.
const MODEL: &str = "\
dm_disk MADE_UP {
   Number of data surfaces = 2,
   Number of cylinders = 10,
   Block count = 350,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0,
      Sparing scheme used = 7,
      Rangesize for sparing = 2,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 4,
            Blocks per track = 20,
            Offset of first block = 0.0,
            Empty space at zone front = 40,
            Skew for track switch = 4.0,
            Skew for cylinder switch = 6.0,
            Number of spares = 0,
            slips = [ 44, 60 ], defects = [] },
         dm_layout_g1_zone {
            First cylinder number = 6, Last cylinder number = 10,
            Blocks per track = 20,
            Offset of first block = 0.0,
            Empty space at zone front = 0,
            Skew for track switch = 4.0,
            Skew for cylinder switch = 6.0,
            Number of spares = 0,
            slips = [], defects = []
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Full seek curve = made_up.seek,
      Add. write settling delay = 0.25,
      Head switch time = 0.5,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }
}";

const SEEK: &str = "Seek distances measured: 3\n1,\t1.0\n2, 1.5, 0.1\n4,\t2.0\n";

/// The drive's files, with some texts replaced.
fn files(changes: &[(&str, &str)]) -> HashMap<String, String> {
    let mut files = HashMap::from([
        ("made_up.diskspecs".to_owned(), SPECS.to_owned()),
        ("made_up.model".to_owned(), MODEL.to_owned()),
        ("made_up.seek".to_owned(), SEEK.to_owned()),
    ]);
    for (from, to) in changes {
        assert!(files.values().any(|text| text.contains(from)), "{from}");
        for text in files.values_mut() {
            *text = text.replace(from, to);
        }
    }
    files
}

fn import(changes: &[(&str, &str)]) -> Result<Profile, ImportError> {
    let files = files(changes);
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    disksim::import("made_up", &|name| files.get(name).cloned().ok_or_else(missing))
}

/// Sends requests one at a time, each `pause` after the previous completion; returns their times in
/// milliseconds.
fn times(profile: &Profile, pause: f64, requests: &[(Operation, u64, u64)]) -> Vec<f64> {
    let (mut drive, mut done, mut at) = (Drive::new(profile), Vec::new(), Time::ZERO);
    let one = |(index, &(operation, first, count)): (usize, &(Operation, u64, u64))| {
        let request =
            Request::new(index as u64, operation, ByteOffset::new(first * 512), ByteCount::new(count * 512));
        drive.submit(at, request, &mut done).unwrap();
        let completion = drive.next_completion(&mut done).unwrap();
        let time = completion.at.since(at).millis();
        at = completion.at + Nanos::from_millis(pause).unwrap();
        time
    };
    requests.iter().enumerate().map(one).collect()
}

fn near(time: f64, expected: f64) -> bool {
    (time - expected).abs() < 0.001
}

/// The (cylinder, surface, sector of the track) of each address.
fn places(profile: &Profile) -> Vec<(u32, u32, u32)> {
    let (geometry, _) = profile.disk().unwrap();
    let place = |sector| {
        let place = geometry.place(sector);
        (place.cylinder, place.surface, place.sector)
    };
    (0..geometry.sectors()).map(place).collect()
}

#[test]
fn addresses_leave_out_what_is_not_theirs() {
    let profile = import(&[]).unwrap();
    assert_eq!(profile.claims.capacity, 350 * 512);
    assert_eq!(profile.name, "MADE_UP");
    let places = places(&profile);
    // Of 400 sectors, 40 are in the management area and 2 are slipped.
    assert_eq!(places.len(), 358);
    assert_eq!(places[0], (1, 0, 0), "behind the management area");
    assert_eq!(places[3..5], [(1, 0, 3), (1, 0, 5)], "sector 44 is slipped over");
    assert_eq!(places[18..20], [(1, 0, 19), (1, 1, 1)], "and so is 60, the first of a track");
    assert_eq!(places[157..160], [(4, 1, 19), (6, 0, 0), (6, 0, 1)], "cylinder 5 belongs to no zone");
    let (geometry, _) = profile.disk().unwrap();
    assert_eq!(
        [0, 18, 19, 157, 158].map(|sector| geometry.track(sector)),
        [(0, 19), (0, 19), (19, 38), (138, 158), (158, 178)]
    );
}

#[test]
fn each_sparing_scheme_leaves_out_what_it_says() {
    // A zone has 200 sectors, a cylinder 40, a track 20; 40 sectors are management and two slip. The sectors
    // lost per scheme:
    let lost = [
        (1, 40 + 2 * 2 * 20),
        (2, 40 + 10 * 2),
        (3, 40 + 20 * 2),
        (4, 40 + 10 * 2 + 2),
        (5, 40 + 10 * 2),
        (6, 40 + 10 * 2 + 2),
        (7, 40 + 2),
        (8, 40 + 6 * 2),
        (9, 40 + 2 * 2),
        (10, 40 + 2 * 2 + 2),
    ];
    for (scheme, lost) in lost {
        let scheme_line = format!("Sparing scheme used = {scheme}");
        let spares = if scheme == 7 { "Number of spares = 0" } else { "Number of spares = 2" };
        let slips = if scheme == 1 { "slips = []" } else { "slips = [ 60, 44 ]" };
        let changes = [
            ("Sparing scheme used = 7", scheme_line.as_str()),
            ("Number of spares = 0", spares),
            ("Block count = 350", "Block count = 200"),
            ("slips = [ 44, 60 ]", slips),
        ];
        let places = places(&import(&changes).unwrap());
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted, places, "scheme {scheme}: in the order of the tracks, none twice");
        assert_eq!(400 - places.len(), lost, "scheme {scheme}");
        let slipped = places.contains(&(1, 0, 4)) || places.contains(&(1, 1, 0));
        assert_eq!(slipped, scheme == 1, "scheme {scheme}");
    }
}

#[test]
fn a_hit_takes_its_overhead_and_the_link() {
    let profile = import(&[]).unwrap();
    // The second read hits what was read ahead; so does the third, after a write elsewhere.
    let read = |first, count| (Operation::Read, first, count);
    let times =
        times(&profile, 100.0, &[read(0, 3), read(3, 4), (Operation::Write, 200, 1), read(5, 2), read(5, 2)]);
    assert!(near(times[1], 0.1 + 4.0 * 0.05 + 0.01), "{times:?}");
    assert!(near(times[3], 0.2 + 2.0 * 0.05 + 0.01), "{times:?}");
    assert!(near(times[4], 0.1 + 2.0 * 0.05 + 0.01), "{times:?}");
}

#[test]
fn a_miss_waits_for_the_sector_and_sends_behind_the_heads() {
    let profile = import(&[]).unwrap();
    // At power-on the heads are at cylinder 0, angle 0. Cylinder 1 begins at angle (4 + 6)/20, 5 ms; the 0.3
    // + 1.0 ms before the heads are ready have passed by then.
    let expected = 5.0 + 3.0 * 0.5 + 0.05 + 0.01;
    let time = times(&profile, 0.0, &[(Operation::Read, 0, 3)])[0];
    assert!(near(time, expected), "{time} {expected}");
    // At the slipped sector the heads wait for one sector more.
    let time = times(&profile, 0.0, &[(Operation::Read, 0, 5)])[0];
    assert!(near(time, expected + 3.0 * 0.5), "{time}");
}

#[test]
fn a_write_is_reported_when_the_medium_has_it_or_when_the_buffer_has() {
    let write = [(Operation::Write, 0, 3)];
    let time = times(&import(&[]).unwrap(), 0.0, &write)[0];
    assert!(near(time, 5.0 + 1.5 + 0.02), "{time}");
    let behind = import(&[("Fast write level = 0", "Fast write level = 2")]).unwrap();
    let time = times(&behind, 0.0, &write)[0];
    assert!(near(time, 0.5 + 3.0 * 0.05 + 0.02), "{time}");
    // Data that arrives more slowly than the sectors pass costs revolutions: the link takes 2 ms per sector
    // here.
    let slow = import(&[("Bulk sector transfer time = 0.05", "Bulk sector transfer time = 2.0")]).unwrap();
    let time = times(&slow, 0.0, &write)[0];
    // Sector 0 arrives at 2.7 ms and passes at 5; sector 1 arrives at 4.7 and passes at 5.5; sector 2 arrives
    // at 6.7, too late.
    assert!(near(time, 6.0 + 10.0 + 0.5 + 0.02), "{time}");
}

#[test]
fn sectors_in_the_order_of_their_passing_save_what_is_left_of_a_revolution() {
    let changes = [("Immediate buffer read = 0", "Immediate buffer read = 1")];
    let (in_order, as_they_pass) = (import(&[]).unwrap(), import(&changes).unwrap());
    // For a whole track a revolution and a sector are enough, wherever the heads land.
    for pause in 0..20 {
        let pause = 37.0 + f64::from(pause) * 0.49;
        let requests = [(Operation::Read, 0, 1), (Operation::Read, 158, 20)];
        let (slow, quick) =
            (times(&in_order, pause, &requests)[1], times(&as_they_pass, pause, &requests)[1]);
        let sent = 20.0 * 0.05 + 0.01;
        assert!(quick <= 0.3 + 2.25 + 10.5 + sent + 0.001, "{pause}: {quick}");
        assert!(quick <= slow + sent + 0.001, "{pause}: {quick} {slow}");
    }
}

#[test]
fn what_passes_by_on_the_way_is_kept_where_the_drive_keeps_it() {
    let changes = [("Maximum read-ahead (blks) = 8", "Maximum read-ahead (blks) = 1")];
    let kept = [changes[0], ("Read any free blocks = 0", "Read any free blocks = 1")];
    // At power-on the heads land behind the end of the track, and wait from its beginning on.
    let requests = [(Operation::Read, 170, 2), (Operation::Read, 166, 2)];
    let (without, with) = (import(&changes).unwrap(), import(&kept).unwrap());
    assert!(times(&without, 50.0, &requests)[1] > 1.0);
    assert!(near(times(&with, 50.0, &requests)[1], 0.1 + 0.1 + 0.01), "{:?}", times(&with, 50.0, &requests));
}

#[test]
fn the_bus_of_the_parv_slows_the_link_down() {
    let mut files = files(&[]);
    let parv = "disksim_bus BUS0 { Read block transfer time = 0.0, Write block transfer time = 0.0 }\n\
        disksim_bus BUS1 { Read block transfer time = 0.5, Write block transfer time = 1.0 }\n\
        source made_up.diskspecs\ninstantiate [ disk0 ] as MADE_UP\n\
        topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_disk disk0 [] ] ]";
    files.insert("made_up.parv".to_owned(), parv.to_owned());
    let profile = disksim::import("made_up", &|name| Ok(files[name].clone())).unwrap();
    let read = |first, count| (Operation::Read, first, count);
    let times = times(&profile, 100.0, &[read(0, 3), read(3, 4)]);
    assert!(near(times[1], 0.1 + 4.0 * 0.5 + 0.01), "{times:?}");
}

#[test]
fn what_is_wrong_is_reported_with_file_and_line() {
    let cases: [(&str, &str, &str); 16] = [
        ("Head switch time = 0.5,", "", "made_up.model:31: the block has no \"Head switch time\""),
        (
            "Enable caching in buffer = 1",
            "Enable caching in buffer = 3",
            "made_up.diskspecs:17: Enable caching in buffer = 3: must be a whole number from 0 to 2",
        ),
        (
            "Layout Model = dm_layout_g1",
            "Layout Model = dm_layout_g4",
            "made_up.model:5: Layout Model = a block dm_layout_g4: must be a block dm_layout_g1",
        ),
        ("2, 1.5, 0.1", "2, 1.5, 0.1, 1.7", "made_up.seek:3: \"2, 1.5, 0.1, 1.7\" is not"),
        (
            "Model = source made_up.model",
            "Model = source ../made_up.model",
            "made_up.diskspecs:3: \"../made_up.model\" is not",
        ),
        (
            "Model = source made_up.model",
            "Model = source /etc/passwd",
            "made_up.diskspecs:3: \"/etc/passwd\" is not",
        ),
        ("Full seek curve = made_up.seek", "Full seek curve = other.seek", "cannot read other.seek"),
        ("2, 1.5, 0.1", "two, 1.5", "made_up.seek:3: \"two, 1.5\" is not a distance, a time"),
        ("2, 1.5, 0.1", "1, 1.5", "made_up.seek: the seek times: the distance in entry 1 must be at least 1"),
        ("defects = [] },", "defects = [ 1 ] },", "made_up.model:18: defects = a list of 1: must be pairs"),
        (
            "Block count = 350",
            "Block count = 359",
            "made_up.model:4: Block count = 359: the zones hold only 358",
        ),
        ("Last cylinder number = 10", "Last cylinder number = 5", "Last cylinder number = 5: must be"),
        (
            "Blocks per track = 20,",
            "Blocks per track = 0,",
            "made_up.model:12: Blocks per track = 0: must be",
        ),
        ("Read hit over. after read = 0.1", "Read hit over. after read = -0.1", "must be 0 to 10000 ms"),
        (
            "Number of data surfaces = 2,",
            "Number of data surfaces = ,",
            "made_up.model:2: found \",\" instead of a value",
        ),
        ("Zones = [", "Zones = [ [", "made_up.model:"),
    ];
    for (from, to, says) in cases {
        let error = import(&[(from, to)]).unwrap_err();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let error = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(error.contains(says), "{to}: {error}, not {says}");
    }
    let error = disksim::import("absent", &|_| Err(io::Error::from(io::ErrorKind::NotFound))).unwrap_err();
    assert_eq!(error.to_string(), "cannot read absent.diskspecs");
}

#[test]
fn settling_may_be_shorter_for_a_write() {
    let profile =
        import(&[("Add. write settling delay = 0.25", "Add. write settling delay = -0.25")]).unwrap();
    let Body::Disk(disk) = &profile.body else { panic!("a disk") };
    assert_eq!((disk.heads.write_settle, disk.heads.write_lead), (Nanos::ZERO, Nanos::new(250_000)));
}
