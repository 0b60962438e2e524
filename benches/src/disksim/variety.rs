//! What the parameter sets with a validation trace do not use: other mappings, replaced sectors, other modes of the
//! cache, other seek curves, and a `.parv` that names its drive.

use std::collections::HashMap;
use std::io;

use crate::disksim::{self, ImportError};
use straddle_drive::{Profile, profile::Body};
use straddle_units::io::{Nanos, Operation::Read, Operation::Write};

use super::{SPECS, files, import, near, places, times};

/// Two zones of cylinders 0 to 4 and 5 to 10.
const ADJOINING: (&str, &str) = ("First cylinder number = 6", "First cylinder number = 5");

#[test]
fn each_mapping_takes_the_surfaces_in_its_order() {
    for (scheme, second_zone, third_cylinder) in [(0, 0, 0), (1, 0, 0), (2, 1, 0)] {
        let scheme_line = format!("LBN-to-PBN mapping scheme = {scheme}");
        let changes = [ADJOINING, ("LBN-to-PBN mapping scheme = 0", scheme_line.as_str())];
        let places = places(&import(&changes).unwrap());
        let first_of = |cylinder: u32| places.iter().find(|place| place.0 == cylinder).unwrap().1;
        assert_eq!(first_of(5), second_zone, "scheme {scheme}");
        assert_eq!(first_of(2), third_cylinder, "scheme {scheme}");
        for pair in places.windows(2).filter(|pair| pair[0].0 != pair[1].0) {
            let switches = pair[0].1 != pair[1].1;
            // Zone 1 ends with an ascending cylinder, so only counting over the whole disk avoids the switch.
            let expected = match scheme {
                0 => true,
                1 => pair[1].0 == 5,
                _ => false,
            };
            assert_eq!(switches, expected, "scheme {scheme}: {pair:?}");
        }
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), places.len(), "scheme {scheme}: none twice");
        assert!(places.windows(2).all(|pair| pair[0].0 <= pair[1].0), "cylinders in order");
    }
}

/// A zone of 200 sectors with four spares, two of which the slips use up: the last two are free.
fn with_defects(defects: &str) -> Result<Profile, ImportError> {
    let defects = format!("defects = [ {defects} ] }},");
    import(&[
        ("Sparing scheme used = 7", "Sparing scheme used = 9"),
        ("Number of spares = 0", "Number of spares = 4"),
        ("defects = [] },", &defects),
    ])
}

#[test]
fn a_defect_is_found_at_its_replacement() {
    let (plain, replaced) = (places(&with_defects("").unwrap()), places(&with_defects("50, 199").unwrap()));
    let different: Vec<_> = (0..plain.len()).filter(|&address| plain[address] != replaced[address]).collect();
    // Sector 50 of the zone is the eleventh of its second cylinder, and 199 the last of its last.
    let [address] = different[..] else { panic!("{different:?}") };
    assert_eq!((plain[address], replaced[address]), ((1, 0, 10), (4, 1, 19)));
    let profile = with_defects("50, 199").unwrap();
    let (geometry, _) = profile.disk().unwrap();
    let left = |address: usize| geometry.place(address as u64).left;
    assert_eq!((left(address - 1), left(address), left(address + 1)), (1, 1, 9));
    // Three sectors in a row need the arm to go to cylinder 4 and back, and both waits.
    let read = [(Read, address as u64 - 1, 3)];
    let (near_by, far) = (times(&with_defects("").unwrap(), 0.0, &read)[0], times(&profile, 0.0, &read)[0]);
    let more = far - near_by;
    assert!(near(more, 10.0) || near(more, 20.0), "the third sector comes whole revolutions later: {more}");
}

#[test]
fn impossible_defects_are_refused() {
    for (defects, says) in [
        ("50", "must be pairs"),
        ("50, 100", "its replacement must have none"),
        ("5, 199", "a defect must have an address"),
        ("50, 200", "must lie in their zone"),
        ("50, 198, 50, 199", "a defect must have an address"),
    ] {
        let error = with_defects(defects).unwrap_err().to_string();
        assert!(error.contains(says), "{defects}: {error}");
    }
}

#[test]
fn a_defect_that_replaces_itself_stays() {
    assert_eq!(places(&with_defects("50, 50").unwrap()), places(&with_defects("").unwrap()));
}

#[test]
fn with_either_fast_write_level_every_write_is_reported_early() {
    for level in ["Fast write level = 1", "Fast write level = 2"] {
        let profile = import(&[("Fast write level = 0", level)]).unwrap();
        let requests = [(Read, 50, 1), (Write, 0, 3), (Write, 3, 2), (Write, 100, 2)];
        let times = times(&profile, 100.0, &requests);
        assert!(near(times[1], 0.5 + 3.0 * 0.05 + 0.02), "{level}: {times:?}");
        assert!(times[2..].iter().all(|time| near(*time, 0.6 + 2.0 * 0.05 + 0.02)), "{level}: {times:?}");
    }
}

/// A write at another place waits until the only segment for writes is on the medium; then its data crosses the link.
#[test]
fn a_write_waits_for_a_segment() {
    let second = |segments: &str, second: (u64, u64)| {
        let changes = [
            ("Fast write level = 0", "Fast write level = 2"),
            ("Maximum number of write segments = 1", segments),
        ];
        times(&import(&changes).unwrap(), 0.1, &[(Write, 100, 2), (Write, second.0, second.1)])[1]
    };
    let (one, two) = ("Maximum number of write segments = 1", "Maximum number of write segments = 2");
    let at_once = |count: f64| 0.6 + count * 0.05 + 0.02;
    assert!(near(second(two, (200, 2)), at_once(2.0)));
    assert!(near(second(one, (102, 2)), at_once(2.0)), "it continues the first");
    let waited = second(one, (200, 2));
    assert!(waited > at_once(2.0) + 1.0, "{waited}");
    assert!(near(second(one, (200, 8)), waited + 6.0 * 0.05));
}

#[test]
fn caching_2_is_caching_1() {
    let body = |value: &str| import(&[("Enable caching in buffer = 1", value)]).unwrap().body.clone();
    let (Body::Disk(one), Body::Disk(two)) =
        (body("Enable caching in buffer = 1"), body("Enable caching in buffer = 2"))
    else {
        panic!("disks")
    };
    assert_eq!(one, two);
}

/// The fifth read is in two segments. It hits the one that is being read into, which goes on up to the last read.
#[test]
fn a_hit_is_in_the_segment_that_is_being_read() {
    let reads = [120, 140, 66, 62, 67, 75].map(|first| (Read, first, 1));
    let times = times(&import(&[]).unwrap(), 3.5, &reads);
    assert!(times[4..].iter().all(|time| near(*time, 0.1 + 0.05 + 0.01)), "{times:?}");
}

#[test]
fn a_drive_without_a_cache_reads_everything_again() {
    let changes = [
        ("Enable caching in buffer = 1", "Enable caching in buffer = 0"),
        ("Buffer continuous read = 3", "Buffer continuous read = 0"),
    ];
    let profile = import(&changes).unwrap();
    let again = times(&profile, 37.0, &[(Read, 0, 3), (Read, 0, 3), (Read, 3, 2)]);
    // With a cache, both take 0.1 ms and the link.
    assert!(again[1..].iter().all(|time| *time > 0.3 + 0.5), "{again:?}");
}

#[test]
fn reading_ahead_may_end_with_the_cylinder() {
    let changes = [
        ("Buffer continuous read = 3", "Buffer continuous read = 2"),
        ("Segment size (in blks) = 16", "Segment size (in blks) = 100"),
        ("Maximum read-ahead (blks) = 8", "Maximum read-ahead (blks) = 90"),
    ];
    let profile = import(&changes).unwrap();
    // Two of the cylinder's 40 sectors have no address.
    let hits = times(&profile, 200.0, &[(Read, 0, 1), (Read, 37, 1)]);
    assert!(near(hits[1], 0.1 + 0.05 + 0.01), "{hits:?}");
    let misses = times(&profile, 200.0, &[(Read, 0, 1), (Read, 38, 1)]);
    assert!(misses[1] > 0.8, "{misses:?}");
}

/// As for reads: a whole track takes a revolution and a sector, wherever the heads land. Its data has arrived
/// before they do.
#[test]
fn writes_in_the_order_of_passing_save_what_is_left_of_a_revolution() {
    let changes = [("Immediate buffer write = 0", "Immediate buffer write = 1")];
    let (in_order, as_they_pass) = (import(&[]).unwrap(), import(&changes).unwrap());
    let mut saved = 0;
    for pause in 0..20 {
        let pause = 37.0 + f64::from(pause) * 0.49;
        let requests = [(Read, 0, 1), (Write, 158, 20)];
        let (slow, quick) =
            (times(&in_order, pause, &requests)[1], times(&as_they_pass, pause, &requests)[1]);
        assert!(quick <= 0.7 + 2.5 + 10.5 + 0.02 + 0.001, "{pause}: {quick}");
        assert!(quick <= slow + 0.001, "{pause}: {quick} {slow}");
        saved += u32::from(quick + 1.0 < slow);
    }
    assert!(saved >= 15, "{saved}");
}

/// A link of 2 ms a sector: the last sector comes last, so the write ends when the platter has taken that one, at the same
/// angle wherever the heads land.
#[test]
fn a_write_in_the_order_of_passing_waits_for_its_data() {
    const REVOLUTION: f64 = 10.0;
    let profile = import(&[
        ("Immediate buffer write = 0", "Immediate buffer write = 1"),
        ("Bulk sector transfer time = 0.05", "Bulk sector transfer time = 2.0"),
    ]);
    let profile = profile.unwrap();
    let ends: Vec<f64> = (0..20)
        .map(|pause| {
            let pause = 37.0 + f64::from(pause) * 0.49;
            let ended = times(&profile, pause, &[(Read, 0, 1), (Write, 158, 20)])[1];
            assert!(ended >= 20.0 * 2.0, "{pause}: {ended}");
            pause + ended
        })
        .collect();
    for end in &ends {
        let turns = (end - ends[0]) / REVOLUTION;
        assert!((turns - turns.round()).abs() < 1e-3, "{ends:?}");
    }
}

#[test]
fn overheads_are_scaled() {
    let profile = import(&[("Time scale for overheads = 1.0", "Time scale for overheads = 2.5")]).unwrap();
    let times = times(&profile, 100.0, &[(Read, 0, 3), (Read, 3, 4)]);
    assert!(near(times[1], 2.5 * 0.1 + 4.0 * 0.05 + 2.5 * 0.01), "{times:?}");
}

/// Four sectors of eight are in the cache, on a link that takes 2 ms for each. If they wait for the others, they
/// cross it 8 ms later, or less if the heads take as long.
#[test]
fn the_beginning_of_a_read_may_wait_for_the_water_mark() {
    let of = |mark: &str, partial: &str| {
        let partial = format!("Immed transfer partial hit = {partial}");
        let mark = format!("High (read) water mark = {mark}");
        let profile = import(&[
            ("Never disconnect = 1", "Never disconnect = 0"),
            ("Bulk sector transfer time = 0.05", "Bulk sector transfer time = 2.0"),
            ("Maximum read-ahead (blks) = 8", "Maximum read-ahead (blks) = 4"),
            ("High (read) water mark = 0.0", &mark),
            ("Immed transfer partial hit = 1", &partial),
        ]);
        times(&profile.unwrap(), 100.0, &[(Read, 0, 1), (Read, 1, 8)])[1]
    };
    assert!(of("1.0", "0") > of("1.0", "1") + 2.0, "{} {}", of("1.0", "0"), of("1.0", "1"));
    assert!(near(of("0.25", "0"), of("0.25", "1")));
}

#[test]
fn the_water_mark_may_be_a_part_of_the_segment() {
    let changes = [
        ("Never disconnect = 1", "Never disconnect = 0"),
        ("High (read) water mark = 0.0", "High (read) water mark = 0.5"),
        ("Set watermark by reqsize = 1", "Set watermark by reqsize = 0"),
    ];
    let profile = import(&changes).unwrap();
    let Body::Disk(disk) = &profile.body else { panic!("a disk") };
    let disconnects = disk.firmware.times.unwrap().disconnects.unwrap();
    assert_eq!((disconnects.read_mark, disconnects.read_mark_of), (500, Some(16)));
}

#[test]
fn seek_times_may_be_three_points_or_one() {
    let of = |kind: &str| {
        let kind = format!(
            "Seek type = {kind}, Constant seek time = 3.0, Single cylinder seek time = 1.0,\n\
            Average seek time = 4.0, Full strobe seek time = 7.0"
        );
        let profile = import(&[("Seek type = extracted", kind.as_str())]).unwrap();
        let (_, seek) = profile.disk().unwrap();
        [1, 2, 3, 10].map(|distance| seek.time(distance))
    };
    let micros = |times: [u64; 4]| times.map(|time| Nanos::new(time * 1000));
    assert_eq!(of("constant"), micros([3000; 4]));
    // The longest distance is ten cylinders, a third of it three: 1 ms at 1, 4 ms at 3, 7 ms at 10.
    assert_eq!(of("linear"), micros([1000, 2500, 4000, 7000]));
    // Lee's equation with eleven cylinders: 1 + 1.508·√(d - 1) + 0.0909·(d - 1).
    let curve = of("curve").map(|time| time.millis());
    let expected =
        [1.0, 1.0 + 1.50756 + 0.09091, 1.0 + 1.50756 * 2_f64.sqrt() + 0.18182, 1.0 + 4.52267 + 0.81818];
    assert!(
        curve.iter().zip(expected).all(|(time, expected)| near(*time, expected)),
        "{curve:?} {expected:?}"
    );
}

/// Reads the set `other` of these files.
fn other(parv: &str, more: &[(&str, &str)]) -> Result<Profile, ImportError> {
    let mut files: HashMap<String, String> = files(&[]);
    files.insert("other.parv".to_owned(), parv.to_owned());
    files.extend(more.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    disksim::import("other", &|name| files.get(name).cloned().ok_or_else(missing))
}

#[test]
fn the_parv_names_its_drive() {
    let bus = "disksim_bus BUS0 { Read block transfer time = 0.0, Write block transfer time = 0.0 }\n";
    let topology =
        "instantiate [ disk0 ] as MADE_UP\ntopology disksim_iodriver driver0 [ disksim_disk disk0 [] ]\n";
    let ctlr = ("ctlr.spec", "disksim_ctlr CTLR0 { type = 1 }");
    for sources in [
        "source made_up.diskspecs\n",
        "source ctlr.spec\nsource made_up.diskspecs\n",
        "source ctlr.spec\nsource made_up.diskspecs\ndisksim_ctlr CTLR1 { type = source }\n",
    ] {
        let profile = other(&format!("{bus}{sources}{topology}"), &[ctlr]).unwrap();
        assert_eq!(profile.name, "MADE_UP", "{sources}");
    }
    assert_eq!(other(&format!("{bus}{SPECS}\n{topology}"), &[]).unwrap().name, "MADE_UP");
    // Without a statement, the file of the same name.
    assert_eq!(other(bus, &[("other.diskspecs", SPECS)]).unwrap().name, "MADE_UP");
    assert_eq!(other(bus, &[]).unwrap_err().to_string(), "cannot read other.diskspecs");
    for outside in ["../made_up.diskspecs", "/etc/passwd"] {
        let error = other(&format!("{bus}source {outside}\n"), &[]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("other.parv:2: {outside:?} is not")), "{error}");
    }
}
