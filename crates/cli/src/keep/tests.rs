use super::*;

/// Any text.
const ANY: Over<'_> = Over::Text("");

fn listing(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Returns the file that is to replace another one.
fn temporary(pending: &Pending) -> &NamedTempFile {
    let Pending::Made(made, ..) = pending else { unreachable!("a file is made") };
    made
}

#[test]
fn a_file_is_made_and_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("plan.json"), dir.path().join("link"));
    write(&path, b"one", &[], ANY).unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), mode(&plain));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("plan.json", &link).unwrap();
    write(&link, b"two", &[], ANY).unwrap();
    assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(listing(dir.path()), ["link", "plain", "plan.json"]);
}

#[test]
fn nothing_else_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.img");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "target").unwrap();
    let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
    fs::hard_link(&text, &hard).unwrap();
    std::os::unix::fs::symlink(&text, &soft).unwrap();
    for (path, inputs) in
        [(&disk, vec![]), (&text, vec![text.as_path()]), (&hard, vec![&text]), (&soft, vec![&text])]
    {
        let error = write(path, b"plan", &inputs, ANY).unwrap_err();
        assert!(error.is::<RefusedError>(), "{error:#}");
    }
    assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20]);
    assert_eq!(fs::read(&text).unwrap(), b"target");
}

#[test]
fn a_key_is_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("luks.key");
    // None of these bytes begins a character in UTF-8, and none is zero.
    let key: Vec<u8> = (0..32_u8).map(|at| at.wrapping_mul(167) | 0x81).collect();
    fs::write(&path, &key).unwrap();
    assert!(write(&path, b"page", &[], ANY).unwrap_err().is::<RefusedError>());
    assert_eq!(fs::read(&path).unwrap(), key);
    // A long text that is cut inside a character.
    let long = "\u{e4}".repeat(50_000);
    fs::write(&path, format!("x{long}")).unwrap();
    write(&path, b"page", &[], ANY).unwrap();
}

#[test]
fn only_a_file_of_the_same_kind_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.fio");
    write_over(&path, b"; ours\none", &[], Over::Text("; ours")).unwrap();
    write_over(&path, b"; ours\ntwo", &[], Over::Text("; ours")).unwrap();
    for other in ["; our", "notes\n", "\n; ours"] {
        fs::write(&path, other).unwrap();
        assert!(write_over(&path, b"; ours\n", &[], Over::Text("; ours")).unwrap_err().is::<RefusedError>());
        assert_eq!(fs::read_to_string(&path).unwrap(), other);
    }
}

/// By any name, and from where it is: what is written before and after stays.
#[test]
fn an_open_file_is_written_to_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("log"), dir.path().join("link"));
    for append in [true, false] {
        fs::write(&path, "a log\n").unwrap();
        let mut log = OpenOptions::new().write(true).append(append).open(&path).unwrap();
        log.seek(io::SeekFrom::End(0)).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&log);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(format!("/dev/fd/{number}"), &link).unwrap();
        let names = [
            format!("/dev/fd/{number}"),
            format!("/proc/self/fd/{number}"),
            format!("/dev/../proc/self/fd/{number}"),
            format!("/proc/thread-self/../../fd/{number}"),
            link.to_str().unwrap().to_owned(),
        ];
        let mut expected = "a log\n".to_owned();
        for name in &names {
            write(Path::new(name), b"page\n", &[], ANY).unwrap();
            let mut pending = Pending::begin(Path::new(name), &[], ANY).unwrap();
            pending.write_all(b"more\n").unwrap();
            pending.commit().unwrap();
            let aside = Aside::begin(Path::new(name), &[], ANY).unwrap();
            fs::write(aside.path(), "aside\n").unwrap();
            aside.commit(None).unwrap();
            log.write_all(b"line\n").unwrap();
            expected.push_str("page\nmore\naside\nline\n");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(listing(dir.path()), ["link", "log"]);
    }
}

/// A file that is only open for reading, and another way to the same folder, are no way round.
#[test]
fn other_ways_to_a_file_are_names_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.img");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let open = File::open(&disk).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    let root = format!("/proc/self/root{}", disk.display());
    for name in [format!("/dev/fd/{number}"), root, format!("/proc/1/root{}", disk.display())] {
        assert!(write(Path::new(&name), b"page", &[], ANY).is_err(), "{name}");
        assert!(Aside::begin(Path::new(&name), &[], ANY).is_err() || name.contains("/fd/"), "{name}");
        assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20], "{name}");
    }
    let made = format!("/proc/self/root{}", dir.path().join("new").display());
    write(Path::new(&made), b"page", &[], ANY).unwrap();
    assert_eq!(listing(dir.path()), ["disk.img", "new"]);
}

/// What is open is not replaced under its other name, nor written over in the middle.
#[test]
fn an_open_file_is_neither_replaced_nor_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "a log\n").unwrap();
    let open = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    for name in [path.to_str().unwrap(), &format!("/dev/fd/{number}")] {
        let error = write(Path::new(name), b"page", &[], ANY).unwrap_err();
        assert!(error.is::<RefusedError>(), "{name}: {error:#}");
    }
    drop(open);
    // Open in another process only, and named by that: a file as any other.
    let out = OpenOptions::new().append(true).open(&path).unwrap();
    let mut other = std::process::Command::new("sleep").arg("60").stdout(out).spawn().unwrap();
    let name = PathBuf::from(format!("/proc/{}/fd/1", other.id()));
    assert!(write(&name, b"page\n", &[], Over::PAGE).unwrap_err().is::<RefusedError>());
    fs::write(&path, [0xFF, 0, 0xFE]).unwrap();
    assert!(write(&name, b"page\n", &[], ANY).unwrap_err().is::<RefusedError>());
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(fs::read(&path).unwrap(), [0xFF, 0, 0xFE]);
}

/// What is written meanwhile stays, and so does what was to be written.
#[test]
fn what_another_program_writes_meanwhile_stays() {
    for present in [None, Some("before")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        present.iter().for_each(|text| fs::write(&path, text).unwrap());
        let mut pending = Pending::begin(&path, &[], ANY).unwrap();
        pending.write_all(b"hours").unwrap();
        fs::write(&path, "another's").unwrap();
        let error = pending.commit().unwrap_err().to_string();
        assert_eq!(fs::read(&path).unwrap(), b"another's");
        let (_, kept) = error.rsplit_once(" is in ").unwrap();
        assert_eq!(fs::read(kept).unwrap(), b"hours");
    }
}

#[test]
fn what_a_command_reads_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive.toml");
    fs::write(&path, "base = 'wd10ears'").unwrap();
    note_read(&path);
    assert!(write(&path, b"page", &[], ANY).unwrap_err().is::<RefusedError>());
    // What is in a folder that it reads.
    let folder = dir.path().join("in");
    fs::create_dir_all(folder.join("deep")).unwrap();
    note_read(&folder);
    let inside = folder.join("deep").join("d.txt");
    write(&inside, b"new", &[], ANY).unwrap();
    assert!(write(&inside, b"page", &[], ANY).unwrap_err().is::<RefusedError>());
}

#[test]
fn terminals_have_nothing_to_lose() {
    for name in ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"] {
        assert!(fs::metadata(name).is_ok_and(|found| is_harmless(found.rdev())), "{name}");
    }
    // Memory, a disk in flash, a tape, a watchdog, and the maker of terminals.
    for (major, minor) in [(1, 1), (90, 0), (9, 0), (10, 130), (5, 2)] {
        assert!(!is_harmless(rustix::fs::makedev(major, minor)), "{major}:{minor}");
    }
}

/// A table of another program, also one that has our name in its data.
#[test]
fn only_its_own_kind_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table");
    let mut writer = straddle_trace::Writer::new(straddle_trace::Target::Parquet, Vec::new(), "t").unwrap();
    writer.write(&[], &[]).unwrap();
    let (table, _) = writer.finish().unwrap();
    fs::write(&path, &table).unwrap();
    for over in [ANY, Over::Recording, Over::Nothing] {
        assert!(Pending::begin(&path, &[], over).is_err());
    }
    Pending::begin(&path, &[], Over::Parquet).map(drop).unwrap();
    let name = table.windows(9).rposition(|part| part == b"straddle ").unwrap();
    let mut other = table.clone();
    other[name..name + 9].copy_from_slice(b"parquet-r");
    for other in [&other[..], b"PAR1\xFF\x00random", b"PAR\x00", b"PAR1 of another program, straddle 1 PAR1"]
    {
        fs::write(&path, other).unwrap();
        assert!(Pending::begin(&path, &[], Over::Parquet).is_err());
    }
}

/// Whatever is in the way of the kinds that commands write: an experiment, a script, a plan, another kind.
#[test]
fn no_kind_replaces_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let fitted = Over::MadeBy("base = ", "by straddle");
    let kinds = [Over::PAGE, Over::DRAWING, Over::MANUAL, fitted, Over::Recording, Over::Events];
    let others = [
        "#!/bin/sh\n",
        "title = 'x'\n",
        "base = 'wd10ears'\n",
        "{\"version\":4}",
        "<!DOCTYPE html>\n<p>by hand</p>\n",
        "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n",
        "{\n  \"schema\": 1,\n  \"straddle\": \"0.1.0\"",
        "time_ns,op\n",
        "1 box of keys: 4711\n",
        "1 2 3 4 5 6 7\n",
        "\n",
        " ",
    ];
    for text in others {
        fs::write(&path, text).unwrap();
        for over in kinds.into_iter().chain([Over::Parquet, Over::Nothing]) {
            let error = write(&path, b"new", &[], over).unwrap_err();
            assert!(error.is::<RefusedError>(), "{over:?} {text:?}: {error:#}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, "").unwrap();
    kinds.iter().for_each(|over| may_replace(&path, &[], *over).unwrap());
    fs::write(&path, "1 1023198485 r 7ffff7ea7f11 7fffffffe6f0 27 0\n2 ").unwrap();
    may_replace(&path, &[], Over::Events).unwrap();
    // A recording of a disk, and one of a modelled drive.
    for (clock, is_modelled) in [("mono", false), (crate::recording::CLOCK, true)] {
        let origin = crate::recording::origin(clock, Vec::new());
        let number = straddle_io::Nanos::ZERO;
        let made = straddle_trace::Recorder::new(Vec::new(), origin, &[7], number, std::time::Duration::ZERO);
        fs::write(&path, made.unwrap().into_inner()).unwrap();
        assert_eq!(may_replace(&path, &[], Over::Recording).is_ok(), is_modelled, "{clock}");
    }
}

#[test]
fn a_new_file_is_made_only_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("map"), dir.path().join("link"));
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    drop(new(&path).unwrap());
    for path in [&path, &link] {
        assert!(new(path).unwrap_err().is::<RefusedError>());
    }
    assert!(new(&dir.path().join("none").join("map")).is_err());
}

#[test]
fn a_file_that_is_written_aside_is_put_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    fs::write(&path, "before").unwrap();
    let aside = Aside::begin(&path, &[], ANY).unwrap();
    fs::write(aside.path(), "after").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    aside.commit(None).unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), listing(dir.path())),
        (b"after".to_vec(), vec!["trace".to_owned()])
    );
    drop(Aside::begin(&path, &[], ANY).unwrap());
    assert_eq!(listing(dir.path()), ["trace"]);
}

#[test]
fn what_cannot_be_stored_leaves_the_former_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no folder").join("plan.json");
    assert!(write(&path, b"x", &[], ANY).is_err());
    assert!(write(Path::new("/dev/full"), b"x", &[], ANY).is_err());
    write(Path::new("/dev/null"), b"x", &[], ANY).unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_before_a_long_run() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    fs::create_dir(dir.path().join("folder")).unwrap();
    fs::write(dir.path().join("text"), "").unwrap();
    for name in ["link", "folder", "none/file", "text/", "text/file"] {
        assert!(may_replace(&dir.path().join(name), &[], ANY).is_err(), "{name}");
    }
    may_replace(&dir.path().join("new"), &[], ANY).unwrap();
    assert_eq!(listing(dir.path()), ["folder", "link", "text"]);
}

/// A recording on a full disk does not take the place of a whole one.
#[test]
fn what_ends_early_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    Pending::begin(&path, &[], ANY).unwrap().commit_part(&io::Error::other("full")).unwrap();
    assert!(!path.exists(), "nothing was written");
    let part = || {
        let mut part = Pending::begin(&path, &[], ANY).unwrap();
        part.write_all(b"part").unwrap();
        part.commit_part(&io::Error::other("full"))
    };
    part().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"part");
    fs::write(&path, "a whole one").unwrap();
    let error = part().unwrap_err().to_string();
    let (_, kept) = error.rsplit_once(" is in ").unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(kept).unwrap()),
        (b"a whole one".to_vec(), b"part".to_vec())
    );
}

/// Only the reader of the output may leave: then it has seen enough.
#[test]
fn a_reader_of_a_file_that_leaves_is_a_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let error = write(Path::new(&name), b"page", &[], ANY).unwrap_err();
    let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    };
    assert!(!error.chain().any(is_pipe), "{error:#}");
}

/// Nobody may use a new file who could not use the one that it replaces, and by nobody's bits but the reader's.
#[test]
fn a_file_is_for_those_who_could_use_the_former_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    for (before, after) in [(0o6777, 0o777), (0o2750, 0o750), (0o600, 0o600), (0o1644, 0o644)] {
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
        write(&path, b"page", &[], ANY).unwrap();
        assert_eq!(mode(&path), after, "{before:o}");
    }
    // Another file that takes its place meanwhile widens nothing.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let pending = Pending::begin(&path, &[], ANY).unwrap();
    fs::rename(&path, dir.path().join("former")).unwrap();
    fs::write(&path, "another's").unwrap();
    let error = pending.commit().unwrap_err().to_string();
    let (_, kept) = error.rsplit_once(" is in ").unwrap();
    assert_eq!(mode(Path::new(kept)), 0o600);
    fs::write(&path, "").unwrap();
    // What is changed meanwhile counts.
    let pending = Pending::begin(&path, &[], ANY).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    pending.commit().unwrap();
    assert_eq!(mode(&path), 0o600);
    for (mode, is_kept) in [(0o444, true), (0o200, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if is_kept || !rustix::process::geteuid().is_root() {
            assert!(write(&path, b"other", &[], ANY).is_err(), "{mode:o}");
        }
    }
}

/// As acl(5) and the kernel's posix_acl_xattr.h have it: a version, and for each entry its tag, its permissions and who.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, who) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(who.to_le_bytes());
    }
    list
}

#[test]
fn access_control_lists_are_neither_lost_nor_added() {
    const ANYBODY: u32 = u32::MAX;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page");
    fs::write(&path, "").unwrap();
    // Its owner, user 1000, its group that may not read it, the mask, and all others.
    let own = list(&[(1, 6, ANYBODY), (2, 4, 1000), (4, 0, ANYBODY), (16, 4, ANYBODY), (32, 0, ANYBODY)]);
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&path, "system.posix_acl_access", &own, flags).is_err() {
        println!("NOT RUN: no access control lists in {}", dir.path().display());
        return;
    }
    let of = |path: &Path| {
        let mut buffer = vec![0; 4096];
        let length = rustix::fs::getxattr(path, "system.posix_acl_access", &mut buffer[..]).unwrap_or(0);
        buffer[..length].to_vec()
    };
    write(&path, b"page", &[], ANY).unwrap();
    assert_eq!((fs::read(&path).unwrap(), of(&path)), (b"page".to_vec(), own.clone()));
    // Until it is in its place, the new file is its owner's alone.
    let mut pending = Pending::begin(&path, &[], ANY).unwrap();
    pending.write_all(b"page").unwrap();
    assert_eq!(temporary(&pending).as_file().metadata().unwrap().mode() & 0o777, 0o600);
    drop(pending);
    // A folder that gives its files a list, and a file that has none.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(dir.path(), "system.posix_acl_default", &own, flags).unwrap();
    let pending = Pending::begin(&path, &[], ANY).unwrap();
    // The mask of the folder's list is empty.
    assert_eq!(temporary(&pending).as_file().metadata().unwrap().mode() & 0o777, 0o600);
    drop(pending);
    write(&path, b"page", &[], ANY).unwrap();
    assert_eq!((of(&path), fs::metadata(&path).unwrap().mode() & 0o777), (Vec::new(), 0o640));
}

/// Between the look at a name and its use, another program may put anything there.
#[test]
fn what_is_put_in_the_place_of_a_pipe_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    fs::write(&path, "contents").unwrap();
    assert!(stream(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"contents");
}

#[test]
fn another_file_in_the_place_of_the_new_one_is_not_taken_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("page"), dir.path().join("other"));
    for is_removed in [true, false] {
        fs::write(&path, "former").unwrap();
        fs::write(&other, "other").unwrap();
        let mut pending = Pending::begin(&path, &[], ANY).unwrap();
        pending.write_all(b"page").unwrap();
        fs::remove_file(temporary(&pending).path()).unwrap();
        if !is_removed {
            std::os::unix::fs::symlink(&other, temporary(&pending).path()).unwrap();
        }
        let error = pending.commit().unwrap_err().to_string();
        assert!(!error.contains(" is in "), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"former");
        assert_eq!(fs::read(&other).unwrap(), b"other");
    }
}

/// A link that a guest leaves in the folder that it was given leads out of it.
#[test]
fn links_that_others_may_have_made_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, outside) = (dir.path().join("given"), dir.path().join("outside"));
    let link = folder.join("link");
    fs::create_dir(&folder).unwrap();
    fs::write(&outside, "").unwrap();
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    assert!(write(&link, b"page", &[&folder], ANY).unwrap_err().is::<RefusedError>());
    write(&link, b"page", &[], ANY).unwrap();
    if rustix::process::geteuid().is_root() {
        let other = Some(rustix::fs::Uid::from_raw(1000));
        let here = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(rustix::fs::CWD, &link, other, None, here).unwrap();
        assert!(write(&link, b"other", &[], ANY).unwrap_err().is::<RefusedError>());
    } else {
        println!("NOT RUN: only root can give a link to another user");
    }
    assert_eq!(fs::read(&outside).unwrap(), b"page");
}
