use straddle_device::Options;

use super::*;

/// The kernel's `alignment_offset` of a partition is that of `queue_limit_alignment_offset`.
#[test]
fn the_claims_of_a_partition_count_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let disk = |physical: u64, offset: u64, starts: &[u64]| {
        let block = folder.path().join("sys/block/sda");
        let _ = fs::remove_dir_all(&block);
        let put = |name: &str, value: u64| {
            let path = block.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        };
        for (name, value) in [("size", 131_072), ("alignment_offset", offset), ("ext_range", 256)] {
            put(name, value);
        }
        put("queue/logical_block_size", 512);
        put("queue/physical_block_size", physical);
        put("queue/minimum_io_size", physical);
        for (number, start) in (1..).zip(starts) {
            put(&format!("sda{number}/partition"), number);
            put(&format!("sda{number}/start"), *start);
            put(&format!("sda{number}/size"), 2048);
        }
    };
    let claims = |name: &str| {
        let options = Options { sysroot: Some(folder.path().to_owned()), ..Options::default() };
        super::claims(&straddle_device::open(Path::new(name), &options).unwrap(), &Before::default())
    };
    for (physical, offset) in [(4096, 0), (4096, 3584), (512, 0), (16_384, 512)] {
        let starts = [63, 64, 2048, 4101];
        disk(physical, offset, &starts);
        let is = |claims: Claims| (claims.unit.unwrap().get(), claims.phase.unwrap().get());
        assert_eq!(is(claims("sda")), (physical, offset));
        for (number, start) in (1..).zip(starts) {
            let expected = (physical + offset - start * 512 % physical) % physical;
            assert_eq!(is(claims(&format!("sda{number}"))), (physical, expected), "from sector {start}");
        }
    }
}

/// What is examined is what was opened, whatever has taken its name since.
#[test]
fn another_file_in_the_place_of_the_target_is_not_examined() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("disk.img"), folder.path().join("other.img"));
    fs::write(&path, vec![7; 4 << 20]).unwrap();
    fs::write(&other, vec![8; 4 << 20]).unwrap();
    let opened = Opened::open(&path, Access::Read, Io::Buffered).unwrap();
    assert!(area::examine(&opened).is_ok());
    fs::rename(&other, &path).unwrap();
    let Err(error) = area::examine(&opened).map(|_| ()) else { panic!("the other file was examined") };
    let AreaError::Look { source, .. } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("replaced"), "{source}");
}

/// A session ends when another process opens the target; preparing it does not look like one.
#[test]
fn a_file_makes_no_claims_and_its_contents_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (path, journals) = (folder.path().join("disk.img"), folder.path().join("journals"));
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|at| at.to_le_bytes()[1]).collect();
    fs::write(&path, &bytes).unwrap();
    let intent = Intent {
        path: &path,
        contents: Contents::Preserved(Scope::Whole, Saved::AsPrepared),
        io: Io::Buffered,
        regions: Some(0),
        bytes: u64::MAX,
        seed: 1,
        settings: Settings { depth: 1, largest: 1 << 20 },
        journals: journals.clone(),
    };
    let mut prepared = Prepared::open(&intent, &Arc::default()).unwrap();
    assert_eq!(prepared.claims(), Claims::default());
    assert!(prepared.notes()[0].starts_with("the target is a file, "), "{:?}", prepared.notes());
    let area = prepared.regions()[0];
    let first = Span::new(area.start(), ByteCount::new(4096)).unwrap();
    prepared.surface().prepare(&[first]).unwrap();
    let (_, verdict) = prepared.end().unwrap();
    assert_eq!(verdict.unwrap().refusal(), None);
    assert!(fs::read(&path).unwrap() == bytes);
    assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
}

#[test]
fn a_made_file_is_opened_and_removed_only_while_it_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("new.img"), folder.path().join("victim"));
    let made = Made::create(&path, 4 << 20).unwrap();
    assert!(Made::create(&path, 4 << 20).is_err());
    assert!(made.open(Io::Buffered).is_ok());
    fs::write(&victim, vec![7; 4 << 20]).unwrap();
    fs::rename(&victim, &path).unwrap();
    let error = made.open(Io::Buffered).unwrap_err();
    assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
    drop(made);
    assert_eq!(fs::read(&path).unwrap(), vec![7; 4 << 20]);
    drop(Made::create(&victim, 1).unwrap());
    assert!(!victim.exists());
}

#[test]
fn contents_are_given_up_by_naming_the_target_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("disk.img"), folder.path().join("other.img"));
    for path in [&path, &other] {
        fs::write(path, vec![7; 4 << 20]).unwrap();
    }
    for again in [&other, &folder.path().join("missing")] {
        let error = given_up(&path, again, Io::Buffered).unwrap_err();
        assert!(matches!(error, OpenError::NotNamed { .. }), "{error}");
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(given_up(&path, &link, Io::Buffered).is_ok());
}
