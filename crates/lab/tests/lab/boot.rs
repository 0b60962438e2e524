//! A small guest: it boots, sees its drive, prints its output and ends with its script's status.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use straddle_drive::Profile;
use straddle_lab::guest::{
    Charges, Ended, GuestDrive, GuestError, HostedEnded, HostedJob, Job, Kernel, LIBRARY, Limits, Partition,
    Stream, Task, run, run_hosted,
};

fn job(drive: &str, script: &str) -> Job {
    let partition = Partition { start: Some(1 << 20), ..Partition::default() };
    Job {
        task: task(script),
        drives: vec![GuestDrive { profile: Profile::open(drive).unwrap(), partition, store: None }],
        seed: 1,
        charges: Charges::default(),
        limits: Limits::default(),
        cut: None,
        events: None,
        watching: None,
    }
}

fn task(script: &str) -> Task {
    Task {
        script: format!("#!/bin/bash\n{script}\n"),
        arguments: vec!["a 'quoted' word".into(), String::new()],
        library: LIBRARY.to_owned(),
        environment: vec![("SAID".into(), "$HOME\nis not expanded".into())],
        input: None,
        output: None,
        unconfined: false,
        memory: 256 << 20,
        processor: None,
        settings: Vec::new(),
    }
}

/// Runs the job, and returns the result with the script's two outputs; `None` where there is no guest kernel.
fn ended(job: &Job, stop: bool) -> Option<(Result<Ended, GuestError>, String, String)> {
    heard(|kernel, pass| run(kernel, job, pass, &AtomicBool::new(stop)))
}

/// The same of a job in the host's time.
fn hosted(job: &HostedJob) -> Option<(Result<HostedEnded, GuestError>, String, String)> {
    heard(|kernel, pass| run_hosted(kernel, job, pass, &AtomicBool::new(false)))
}

fn heard<T>(run: impl FnOnce(&Kernel, &(dyn Fn(Stream, &[u8]) + Sync)) -> T) -> Option<(T, String, String)> {
    if !skip::present(&["linux.uml", "sfdisk"]) {
        return None;
    }
    let (output, errors) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let pass = |stream: Stream, piece: &[u8]| {
        let into = if stream == Stream::Output { &output } else { &errors };
        into.lock().unwrap().extend_from_slice(piece);
    };
    let result = run(&Kernel::find().unwrap(), &pass);
    let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8(bytes.lock().unwrap().clone()).unwrap();
    Some((result, text(&output), text(&errors)))
}

#[test]
fn a_guest_ends_with_the_status_and_the_outputs_of_its_script() {
    let job = job(
        "wd10ears",
        "printf '%s|' \"$#\" \"$1\" \"$SAID\" \"$(</sys/block/vda/vda1/start)\"\n\
        echo said to standard error >&2\nresult 'a name' 1.5\nexit 7",
    );
    let Some((result, output, errors)) = ended(&job, false) else { return };
    let ended = result.unwrap();
    assert_eq!(ended.status, 7, "{output}{errors}");
    assert_eq!(output, "2|a 'quoted' word|$HOME\nis not expanded|2048|");
    assert_eq!(errors, "said to standard error\n");
    let measured: Vec<_> = ended.measures.iter().map(|one| (one.name.as_str(), one.value)).collect();
    assert_eq!(measured, [("a name", 1.5)]);
    assert!(ended.requests > 0 && !ended.cut && ended.counters[0].host_reads > 0);
}

/// In the host's time too. The folder to write is the only place of the host that changes.
#[test]
fn a_guest_in_the_hosts_time_ends_as_its_script_does() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = format!(
        "printf '%s|' \"$#\" \"$1\" \"$SAID\"; echo said to standard error >&2\nresult 'a name' 1.5\n\
        echo kept >$OUTPUT/kept; cat {0}/seen; echo lost >{0}/lost\nexit 7",
        other.path().display()
    );
    std::fs::write(other.path().join("seen"), "seen").unwrap();
    let mut task = task(&script);
    task.output = Some(folder.path().canonicalize().unwrap());
    let folders = vec![other.path().to_owned()];
    let job = HostedJob { task, folders, drives: Vec::new(), limit: Duration::from_secs(600) };
    let Some((result, output, errors)) = hosted(&job) else { return };
    let ended = result.unwrap();
    assert_eq!((ended.status, errors.as_str()), (7, "said to standard error\n"), "{output}");
    assert_eq!(output, "2|a 'quoted' word|$HOME\nis not expanded|seen");
    assert_eq!(ended.results, b"a name 1.5\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("kept")).unwrap(), "kept\n");
    assert!(!other.path().join("lost").exists());
}

#[test]
fn a_guest_in_the_hosts_time_has_a_limit() {
    let limit = Duration::from_secs(1);
    let job = HostedJob { task: task("sleep infinity"), folders: Vec::new(), drives: Vec::new(), limit };
    let Some((result, ..)) = hosted(&job) else { return };
    assert!(matches!(result, Err(GuestError::Hung { .. })), "{result:?}");
}

/// The kernel flushes only drives that report a volatile cache, so the report must match the model.
#[test]
fn a_guest_sees_a_volatile_cache_where_the_model_has_one() {
    for (drive, cache) in [("ssd-sata-4k,plp=off", "write back"), ("ssd-sata-4k", "write through")] {
        let job = job(drive, "cat /sys/block/vda/queue/write_cache");
        let Some((result, output, errors)) = ended(&job, false) else { return };
        assert_eq!(result.unwrap().status, 0, "{errors}");
        assert_eq!(output.trim(), cache, "{drive}");
    }
}

#[test]
fn a_guest_that_is_to_stop_leaves_nothing() {
    let folders = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(straddle_lab::guest::run_folders()).unwrap().flatten();
        let ours = |path: &PathBuf| std::fs::read_link(path.join("current")).is_ok_and(|to| to == here());
        entries.map(|entry| entry.path()).filter(ours).collect()
    };
    let Some((result, ..)) = ended(&job("wd10ears", "sleep infinity"), true) else { return };
    assert!(matches!(result, Err(GuestError::Interrupted)), "{result:?}");
    // Other tests of this program have guests too, but none for long.
    assert!((0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        folders().is_empty()
    }));
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap()
}

/// tests/guest/run: its arguments, exit statuses and outputs, from several guests at once.
#[test]
fn a_guest_of_the_tests_is_started_as_its_usage_says() {
    if !skip::present(&["linux.uml"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("a script");
    let text = "#!/bin/bash\necho \"$# $1 $SAID ${SCRIPT##*/}\"; echo error >&2; pwd >\"$OUT/here\"\n\
        [ ! \"${WAIT-}\" ] || sleep infinity\nresult name 2\nexit 3\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let out = folder.path().join("new/out");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let start = |arguments: &[&str], script: &Path| {
        let mut command = Command::new(root.join("tests/guest/run"));
        command.args(["-m", "128M", "-eSAID=a word"]).args(arguments).arg(script).arg("-x");
        command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let library = root.join("crates/lab/init/lib.sh");
    let run = start(&["-o", out.to_str().unwrap(), "-l", library.to_str().unwrap()], &script);
    let slow = start(&["-t", "2", "-e", "WAIT=1"], &script);
    let missing = start(&[], Path::new("missing"));
    let no_drive = start(&["-d", "missing"], &script);
    for (started, status, output, errors) in [
        (run, 3, Some("1 -x a word a script\n"), "error\n"),
        (slow, 124, None, "tests/guest/run: a script: killed after 2 s; -t gives it longer\n"),
        (missing, 125, Some(""), "tests/guest/run: missing: no such script\n"),
        (no_drive, 125, Some(""), "cannot find the drive missing: No such file or directory (os error 2)\n"),
    ] {
        let ended = started.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(status), "{said}");
        let heard = String::from_utf8(ended.stdout).unwrap();
        // A guest that is killed may not have come to its script.
        assert!(output.is_none_or(|output| heard == output) && said.ends_with(errors), "{heard}{said}");
    }
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(Path::new(read("here").trim()), folder.path().canonicalize().unwrap());
    assert_eq!(read("results"), "name 2\n");
}
