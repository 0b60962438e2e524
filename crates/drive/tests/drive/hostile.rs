//! Every profile text gets an answer: a drive that works, or an error with the reason. It never causes a
//! panic, a hang or a large memory use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use crate::tests::common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::shape::{Kept, Shape};
use common::{Host, config};
use proptest::prelude::*;
use straddle_drive::{Drive, Profile, ProfileError};
use straddle_units::io::{Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};
use toml::{Table, Value};

/// The most memory that loading a profile and serving a few requests may hold at a time.
const MEMORY: usize = 64 << 20;

/// The system's allocator, with a count of the memory that this thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn count(taken: usize, given: usize) {
    // A thread that is ending no longer has its counters.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now.saturating_add(taken).saturating_sub(given);
        held.set((now, most.max(now)));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; returns its result. Panics if it held more than [`MEMORY`] at a time.
fn within_memory<T>(work: impl FnOnce() -> T) -> T {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    let result = work();
    let most = HELD.get().1 - before;
    assert!(most <= MEMORY, "{most} bytes held");
    result
}

const SHIPPED: [&str; 4] = [
    include_str!("../../profiles/wd10ears.toml"),
    include_str!("../../profiles/dt01aca300.toml"),
    include_str!("../../profiles/wd20ears.toml"),
    include_str!("../../profiles/nearline-4kn-7200.toml"),
];

/// Values at, just below and just above limits, and values that no limit allows.
fn values() -> impl Strategy<Value = Value> {
    let float = prop_oneof![
        prop::sample::select(vec![
            0.0,
            -0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-300,
            1e-9,
            1e9,
            1e18,
            1e308
        ]),
        any::<f64>(),
    ];
    let integer = prop_oneof![
        prop::sample::select(vec![0, 1, 2, 3, -1, 511, 512, 513, 4096, i64::MAX, i64::MIN]),
        (0_u32..63).prop_map(|shift| 1 << shift),
        (0_u32..63).prop_map(|shift| (1 << shift) - 1),
        0_i64..100_000,
        any::<i64>(),
    ];
    let scalar = prop_oneof![
        3 => integer.prop_map(Value::Integer),
        2 => float.prop_map(Value::Float),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => prop::sample::select(vec!["", "deferred", "forward", "x", "wd10ears"]).prop_map(|text| Value::String(text.to_owned())),
    ];
    prop_oneof![
        8 => scalar.clone(),
        1 => prop::collection::vec(scalar.clone(), 0..3).prop_map(Value::Array),
        1 => prop::collection::vec(prop::collection::vec(scalar, 0..3).prop_map(Value::Array), 0..3).prop_map(Value::Array),
        1 => Just(Value::Table(Table::new())),
    ]
}

/// A change to the value at `place` in the tree: another value, or its removal.
#[derive(Clone, Debug)]
struct Change {
    place: usize,
    value: Option<Value>,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (any::<usize>(), prop::option::weighted(0.85, values()))
        .prop_map(|(place, value)| Change { place, value });
    prop::collection::vec(change, 1..=3)
}

/// Collects the path to every value below `value`, as indexes of children.
fn ways(value: &Value, here: &[usize], all: &mut Vec<Vec<usize>>) {
    let children: Vec<&Value> = match value {
        Value::Table(table) => table.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    for (index, child) in children.into_iter().enumerate() {
        let way = [here, &[index]].concat();
        all.push(way.clone());
        ways(child, &way, all);
    }
}

/// Replaces the value at the end of `way` by `new`, or removes it.
fn change(mut value: &mut Value, way: &[usize], new: Option<Value>) {
    let (&last, way) = way.split_last().unwrap();
    for &index in way {
        value = match value {
            Value::Table(table) => table.iter_mut().nth(index).unwrap().1,
            Value::Array(list) => &mut list[index],
            _ => unreachable!("only these have children"),
        };
    }
    match (value, new) {
        (Value::Table(table), new) => {
            let key = table.keys().nth(last).unwrap().clone();
            match new {
                Some(new) => drop(table.insert(key, new)),
                None => drop(table.remove(&key)),
            }
        }
        (Value::Array(list), Some(new)) => list[last] = new,
        (Value::Array(list), None) => drop(list.remove(last)),
        _ => unreachable!("only these have children"),
    }
}

/// Sends a few requests to both ends and the middle; the drive must complete them within a bound on events.
fn exercise(profile: &Profile) {
    let drive = Drive::new(profile);
    let (capacity, logical) = (drive.claims().capacity, drive.claims().logical_sector);
    let mut host = Host::new(drive, 200_000);
    let middle = capacity / 2 / logical * logical;
    let length = (64 * logical).min(capacity);
    let end = capacity - length;
    let spans = [
        (Operation::Write, 0, length),
        (Operation::Write, middle + logical.min(capacity - middle - logical), logical),
        (Operation::Read, end, length),
        (Operation::WriteFua, end, logical),
        (Operation::Read, 0, logical),
        (Operation::Write, logical, length),
        (Operation::Flush, 0, 0),
        (Operation::Read, middle, logical),
        (Operation::Read, middle + logical, logical),
    ];
    for (id, (operation, offset, length)) in (0..).zip(spans) {
        let at = host.drive.now() + Nanos::new(id % 3 * 1_000_000);
        host.submit(at, Request::new(id, operation, ByteOffset::new(offset), ByteCount::new(length)));
    }
    assert_eq!(host.finish().completions.len(), spans.len());
}

fn try_out(text: &str) -> Result<(), ProfileError> {
    within_memory(|| {
        let profile = Profile::parse("hostile", text, &[])?;
        profile.misreports();
        exercise(&profile);
        Ok(())
    })
    .inspect_err(|error: &ProfileError| assert!(!error.to_string().is_empty()))
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn any_change_to_a_profile_gives_a_drive_or_an_error(base in 0..=SHIPPED.len(), changes in changes()) {
        let small = Shape { kept: Kept::MediaCache(1 << 20), ..Shape::default() }.toml();
        let text = SHIPPED.get(base).copied().unwrap_or(&small);
        let mut root = Value::Table(text.parse().unwrap());
        for Change { place, value } in changes {
            let mut all = Vec::new();
            ways(&root, &[], &mut all);
            if let Some(way) = all.get(place % all.len().max(1)) {
                change(&mut root, way, value);
            }
        }
        let _ = try_out(&root.to_string());
    }

    #[test]
    fn any_text_gives_an_error_or_a_drive(text in ".{0,300}", from: prop::sample::Index, to: prop::sample::Index) {
        let _ = try_out(&text);
        // A piece of a profile, cut at any two points.
        let whole = SHIPPED[0];
        let (from, to) = (from.index(whole.len()), to.index(whole.len()));
        if let Some(piece) = whole.get(from.min(to)..from.max(to)) {
            let _ = try_out(&format!("{piece}\n{text}"));
        }
    }
}

#[test]
fn unchanged_profiles_work() {
    for text in SHIPPED {
        try_out(text).unwrap();
    }
    try_out(&Shape::default().toml()).unwrap();
}

/// A request for the drive's whole capacity on the slowest possible link: the times are huge and do not
/// overflow.
#[test]
fn a_request_for_everything_has_an_end() {
    for operation in [Operation::Read, Operation::Write] {
        let slow = SHIPPED[0].replace("link_mb_s = { value = 300,", "link_mb_s = { value = 0.1,");
        assert_ne!(slow, SHIPPED[0]);
        let profile = Profile::parse("slow", &slow, &[]).unwrap();
        let mut drive = Drive::new(&profile);
        let capacity = drive.claims().capacity;
        let mut done = Vec::new();
        drive
            .submit(
                Time::ZERO,
                Request::new(0, operation, ByteOffset::ZERO, ByteCount::new(capacity)),
                &mut done,
            )
            .unwrap();
        let seconds = drive.next_completion(&mut done).unwrap().at.since(Time::ZERO).seconds();
        let expected = 1_000_204_886_016.0 / 0.1e6;
        assert!((seconds / expected - 1.0).abs() < 0.01, "{operation:?}: {seconds} s, not {expected}");
    }
}

/// A profile from text reads no file: neither an existing base nor a missing one.
#[test]
fn a_profile_from_text_reads_no_file() {
    for base in ["/etc/passwd", "/nowhere/at/all.toml", "Cargo.toml", "../drive/Cargo.toml"] {
        let error = Profile::parse("based", &format!("base = \"{base}\"\n"), &[]).unwrap_err();
        assert!(matches!(&error, ProfileError::NotShipped { base: named } if named == base), "{error}");
    }
    Profile::parse("based", "base = \"wd10ears\"\n", &[]).unwrap();
}

/// A base must be a regular file: a directory, or a file without an end, is refused.
#[test]
fn a_base_that_is_no_file_is_refused() {
    let path = std::env::temp_dir().join(format!("straddle-based-{}.toml", std::process::id()));
    let based = |base: &str| {
        std::fs::write(&path, format!("base = {base:?}\n")).unwrap();
        within_memory(|| Profile::open(path.to_str().unwrap())).unwrap_err()
    };
    for base in ["/dev/zero", "/dev/urandom", "/", "/nowhere/at/all.toml", "/proc/self/mem", "../etc/passwd"]
    {
        let error = based(base);
        assert!(
            matches!(error, ProfileError::Unreadable { .. } | ProfileError::Elsewhere { .. }),
            "{base}: {error}"
        );
    }
    let error = based(path.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(error, ProfileError::Circular { .. }), "{error}");
}

/// What somebody sends as a profile leads to no other file, and shows none: not by its bases, and not by links.
#[test]
fn a_profile_leads_nowhere_else() {
    let home = tempfile::tempdir().unwrap();
    let (inner, secret) = (home.path().join("inner"), home.path().join("secret.toml"));
    std::fs::create_dir_all(inner.join("more")).unwrap();
    std::fs::write(&secret, "TOKEN: hunter2\n").unwrap();
    std::os::unix::fs::symlink("../secret.toml", inner.join("link.toml")).unwrap();
    std::fs::write(inner.join("more/other.toml"), "base = \"wd10ears\"\n").unwrap();
    let drive = inner.join("drive.toml");
    let based = |base: &str| {
        std::fs::write(&drive, format!("base = {base:?}\n")).unwrap();
        Profile::open(drive.to_str().unwrap())
    };
    based("more/other.toml").unwrap();
    based("./more/../more/other.toml").unwrap();
    let absolute = secret.to_str().unwrap();
    for base in [absolute, "../secret.toml", "link.toml", "./more/../../secret.toml", "/etc/passwd"] {
        let error = based(base).unwrap_err();
        assert!(matches!(error, ProfileError::Elsewhere { .. }), "{base}: {error}");
    }
    // Files of the kernel have no size, and some have no end.
    for name in ["/proc/self/environ", "/proc/kmsg", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let error = Profile::open(name).unwrap_err();
        assert!(
            matches!(error, ProfileError::Unreadable { .. } | ProfileError::Syntax { .. }),
            "{name}: {error}"
        );
        assert!(!format!("{error:?}").contains("PATH="), "{error:?}");
    }
    let below = |name: &str| Profile::open_below(&inner, name);
    based("wd10ears").unwrap();
    below("./drive.toml").unwrap();
    below("wd10ears,jumper=on").unwrap();
    below("wd10ears,jumper").unwrap();
    for name in [absolute, "../secret.toml", "link.toml", "/etc/passwd"] {
        assert!(
            matches!(
                below(&format!("./{name}")),
                Err(ProfileError::Elsewhere { .. } | ProfileError::Unreadable { .. })
            ),
            "{name}"
        );
        assert!(matches!(below(name), Err(ProfileError::Elsewhere { .. })), "{name}");
    }
}

/// Of a skew of any number of revolutions only the fraction counts; a disk of one track has no seeks to fit a
/// curve through.
#[test]
fn odd_but_possible_disks_work() {
    let shape = Shape { skews: Some([1e300, -0.3, 1234.5]), ..Shape::default() };
    try_out(&shape.toml()).unwrap();
    let fitted =
        "track_to_track_ms = 1\naverage_ms = 2\nfull_stroke_ms = 3\naverage_of = \"third-of-stroke\"";
    for capacity in [1 << 20, 2 << 20, 4 << 20, 40 << 20] {
        let shape = Shape { capacity, ..Shape::default() };
        let text = shape.toml().replace("table_ms = [[1, 1], [8, 1.5], [64, 3]]", fitted);
        assert!(text.contains("third-of-stroke"));
        if let Ok(profile) = Profile::parse("short", &text, &[]) {
            let (_, curve) = profile.disk().unwrap();
            assert!(curve.time(1).millis() > 0.9, "{capacity}: a seek takes {}", curve.time(1));
        }
    }
}
