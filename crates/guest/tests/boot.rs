//! A small guest: it boots, sees its drive, prints its output and ends with its script's status.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/tools/skip.rs"]
mod skip;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use straddle_drive::Profile;
use straddle_guest::{Charges, Ended, GuestDrive, GuestError, Job, Kernel, LIBRARY, Limits, Stream, run};

fn job(drive: &str, script: &str) -> Job {
    Job {
        drives: vec![GuestDrive {
            profile: Profile::open(drive).unwrap(),
            start: Some(1 << 20),
            size: None,
            store: None,
        }],
        script: format!("#!/bin/bash\n{script}\n"),
        arguments: vec!["a 'quoted' word".into(), String::new()],
        library: LIBRARY.to_owned(),
        environment: vec![("SAID".into(), "$HOME\nis not expanded".into())],
        input: None,
        output: None,
        unconfined: false,
        memory: 256 << 20,
        seed: 1,
        charges: Charges::default(),
        limits: Limits::default(),
        cut: None,
        trace: None,
        events: None,
        processor: None,
    }
}

/// Runs the job, and returns the result with the script's two outputs; `None` where there is no guest kernel.
fn ended(job: &Job, stop: bool) -> Option<(Result<Ended, GuestError>, String, String)> {
    if !skip::present(&["linux.uml", "sfdisk"]) {
        return None;
    }
    let (output, errors) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let pass = |stream: Stream, piece: &[u8]| {
        let into = if stream == Stream::Output { &output } else { &errors };
        into.lock().unwrap().extend_from_slice(piece);
    };
    let result = run(&Kernel::find().unwrap(), job, &pass, &AtomicBool::new(stop));
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
        let entries = std::fs::read_dir(straddle_guest::run_folders()).unwrap().flatten();
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
