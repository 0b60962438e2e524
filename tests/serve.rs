//! `straddle serve` end to end, with independent clients: nbdinfo, nbdcopy, qemu-img, qemu-io, fio.
//!
//! Contents are compared with what the client was given to write, and numbers of requests with what the
//! client reports. No times are checked here: the model determines the time of a reply, and the crate's tests
//! check it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/server.rs"]
mod server;
use crate::tools;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use server::{Server, Setting, json, request, summary, transmit};
use straddle_units::io::SplitMix64;
use tools::{STRADDLE, output, present, run, shell, transcript};

/// A small SSD and a small disk: no test here needs a large one.
const DISK: &str = "\
name = \"small\"\ntitle = \"a small disk\"\nbase = \"wd10ears\"\n";

/// Writes a file that looks random and is the same in every run.
fn noise(path: &Path, bytes: usize) {
    let mut data = vec![0; bytes];
    SplitMix64::new(1).fill(&mut data);
    fs::write(path, &data).unwrap();
}

#[test]
fn nbdinfo_sees_what_the_drive_claims() {
    if !present(&["nbdinfo"]) {
        return;
    }
    let setting = Setting::new("serve-info");
    let server = setting.serve(&[]);
    let info: Value =
        serde_json::from_str(&run(Command::new("nbdinfo").args(["--json", &setting.uri()]), "")).unwrap();
    let drive = run(Command::new(STRADDLE).args(["drive", "show", "ssd-sata-4k", "--json"]), "");
    let drive: Value = serde_json::from_str(&drive).unwrap();
    let claims = &drive["drives"][0]["claims"];
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(export["export-size"], claims["capacity_bytes"], "{drive}");
    assert_eq!(export["block_size_minimum"], claims["logical_sector_bytes"], "{export}");
    assert_eq!(export["block_size_preferred"], claims["physical_sector_bytes"]);
    assert_eq!(export["block_size_maximum"], 32 << 20);
    for (capability, there) in [
        ("can_flush", true),
        ("can_fua", true),
        ("can_trim", true),
        ("can_zero", true),
        ("can_multi_conn", true),
        ("is_rotational", false),
        ("is_read_only", false),
    ] {
        assert_eq!(export[capability], there, "{capability}");
    }
    let list = run(Command::new("nbdinfo").args(["--list", &setting.uri()]), "");
    assert!(list.contains("export=\"ssd-sata-4k\""), "{list}");
    let unknown = output(Command::new("nbdinfo").arg(setting.uri().replace("///", "///other")), "");
    assert!(!unknown.status.success());
    summary(server);
}

#[test]
fn nbdcopy_gets_back_what_it_wrote_over_several_connections() {
    if !present(&["nbdcopy", "qemu-img", "cmp"]) {
        return;
    }
    let setting = Setting::new("serve-copy");
    let (source, back) = (setting.dir.join("source"), setting.path("back"));
    noise(&source, 24 << 20);
    let store = setting.path("store");
    let server = setting.serve(&["--store", &store]);
    let copy = |arguments: &[&str]| run(Command::new("nbdcopy").args(arguments), "");
    copy(&["--connections=4", "--flush", source.to_str().unwrap(), &setting.uri()]);
    // The drive is larger than the file, so reading back uses qemu-img, which can be given a size.
    shell(
        &format!("qemu-img dd -f raw -O raw bs=1M count=24 if='{}' of='{back}'", setting.uri()),
        setting.dir.path(),
    );
    shell(&format!("cmp source '{back}'"), setting.dir.path());
    let report = summary(server);
    assert!(report["write_bytes"].as_u64().unwrap() >= 24 << 20, "{report}");
    assert_eq!((&report["failed_requests"], &report["broken_clients"]), (&0.into(), &0.into()));
    // The contents are in the store, and a second server on the store has them.
    shell("cmp -n 25165824 source store", setting.dir.path());
    let server = setting.serve(&["--store", &store]);
    let read = format!("qemu-img dd -f raw -O raw bs=1M count=24 if='{}' of='{back}.2'", setting.uri());
    shell(&read, setting.dir.path());
    shell(&format!("cmp source '{back}.2'"), setting.dir.path());
    summary(server);
}

#[test]
fn qemu_io_writes_zeroes_and_discards() {
    if !present(&["qemu-io"]) {
        return;
    }
    let setting = Setting::new("serve-qemu");
    let server = setting.serve(&[]);
    let script = "\
        write -P 0x5a 0 1M\nwrite -f -P 0x33 512 512\nread -P 0x33 512 512\nread -P 0x5a 1024 4k\n\
        write -z 8k 8k\nread -P 0 8k 8k\nwrite -z -u 64k 64k\nread -P 0 64k 64k\nread -P 0x5a 128k 4k\n\
        discard 256k 128k\nread -P 0 256k 128k\nread -P 0x5a 384k 4k\nflush\n\
        write -z 1G 1G\nread -P 0 1500M 64k\n";
    let mut client = Command::new("qemu-io");
    let out = output(client.args(["-f", "raw", &setting.uri()]), script);
    assert!(out.status.success() && !transcript(&out).contains("failed"), "{}", transcript(&out));
    let report = summary(server);
    assert!(report["discards"].as_u64() > Some(0) && report["flushes"].as_u64() > Some(0), "{report}");
    assert_eq!(report["failed_requests"], 0);
}

#[test]
fn fio_verifies_over_unix_and_tcp() {
    if !present(&["fio", "qemu-img"]) {
        return;
    }
    if !transcript(&output(Command::new("fio").arg("--enghelp=nbd"), "")).contains("uri") {
        tools::skipped("fio was built without its NBD engine");
        return;
    }
    let setting = Setting::new("serve-fio");
    let server = setting.serve(&["--nbd", "127.0.0.1:0"]);
    let tcp = server.said.split([' ', ',', '\n']).find(|word| word.starts_with("nbd://")).unwrap().to_owned();
    for uri in [setting.uri(), tcp] {
        let job = format!(
            "[global]\nioengine=nbd\nuri={uri}\nrw=randwrite\nbsrange=512-64k\nsize=8m\niodepth=16\n\
            randseed=7\nverify=crc32c\nverify_fatal=1\n[one]\noffset=0\n[two]\noffset=64m\n"
        );
        let file = setting.dir.join("job");
        fs::write(&file, job).unwrap();
        run(Command::new("fio").arg(&file).current_dir(setting.dir.path()), "");
    }
    let report = summary(server);
    assert!(report["writes"].as_u64() > Some(100) && report["reads"].as_u64() > Some(100), "{report}");
    assert_eq!((&report["failed_requests"], &report["broken_clients"]), (&0.into(), &0.into()));
}

#[test]
fn hostile_clients_harm_nobody_else() {
    let setting = Setting::new("serve-hostile");
    let server = setting.serve(&[]);
    let connect = || UnixStream::connect(setting.path("nbd")).unwrap();
    let mut good = transmit(connect());
    // A client that never reads the replies.
    let mut slow = transmit(connect());
    for cookie in 0..200 {
        slow.write_all(&request(0, cookie, 0, 1 << 20)).unwrap();
    }
    // Garbage at each stage, and a client that disconnects in the middle of a write.
    let mut closed = 0;
    for bytes in [&[0xff_u8; 64][..], b"\0\0\0\x03GARBAGE GARBAGE GARBAGE"] {
        let mut stream = connect();
        let _ = stream.write_all(bytes);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        closed += 1;
    }
    let mut stream = transmit(connect());
    stream.write_all(&[0x66; 28]).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    closed += 1;
    let mut half = transmit(connect());
    half.write_all(&request(1, 1, 0, 1 << 20)).unwrap();
    half.write_all(&[1; 1000]).unwrap();
    drop(half);
    // Past the end, too large, or not whole sectors: each gives an error, and the connection continues.
    for (code, offset, length, error) in [
        (0, u64::MAX - 511, 512, 22),
        (0, 0, 64 << 20, 22),
        (0, 1, 512, 22),
        (6, 1 << 62, 512, 28),
        (99, 0, 512, 22),
    ] {
        good.write_all(&request(code, 9, offset, length)).unwrap();
        let mut reply = [0; 16];
        good.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, error]);
    }
    good.write_all(&request(0, 10, 0, 512)).unwrap();
    let mut reply = [0; 528];
    good.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], [0; 4]);
    let memory = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < 512 << 10, "{peak} KiB in use");
    drop((good, slow));
    let report = summary(server);
    assert_eq!(report["broken_clients"], closed, "{report}");
}

#[test]
fn a_signal_ends_it_and_leaves_no_socket() {
    let setting = Setting::new("serve-signal");
    for signal in ["-TERM", "-INT", "-HUP"] {
        let server = setting.serve(&["--control", &format!("unix:{}", setting.path("control"))]);
        let _idle = UnixStream::connect(setting.path("nbd")).unwrap();
        server.signal(signal);
        let ended = server.wait();
        assert_eq!((ended.status.code(), &json(&ended)["ending"]), (Some(0), &"signal".into()));
        assert!(!setting.dir.join("nbd").exists() && !setting.dir.join("control").exists());
    }
}

#[test]
fn a_server_under_nohup_stays_when_its_terminal_is_closed() {
    let setting = Setting::new("serve-nohup");
    let address = format!("unix:{}", setting.path("nbd"));
    let mut command = Command::new("nohup");
    command.args([STRADDLE, "serve", &setting.drive, "--nbd", &address, "--json", "--no-delay"]);
    let server = Server::started(&mut command);
    server.signal("-HUP");
    transmit(UnixStream::connect(setting.path("nbd")).unwrap());
    assert_eq!(json(&server.stop())["ending"], "signal");
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let setting = Setting::new("serve-stale");
    drop(UnixListener::bind(setting.dir.join("nbd")).unwrap());
    assert!(setting.dir.join("nbd").exists());
    let first = setting.serve(&[]);
    let address = format!("unix:{}", setting.path("nbd"));
    let refused = |arguments: &[&str]| {
        let out = output(Command::new(STRADDLE).arg("serve").args(arguments), "");
        (out.status.code(), transcript(&out))
    };
    let (code, text) = refused(&[&setting.drive, "--nbd", &address]);
    assert!(code == Some(4) && text.contains("in use"), "{text}");
    summary(first);
    fs::write(setting.dir.join("nbd"), "mine").unwrap();
    let (code, text) = refused(&[&setting.drive, "--nbd", &address]);
    assert!(code == Some(4) && text.contains("not a socket"), "{text}");
    assert_eq!(fs::read(setting.dir.join("nbd")).unwrap(), b"mine");
    for (arguments, expected) in [
        (vec![&setting.drive[..], "--nbd", "0.0.0.0:0"], 4),
        (vec![&setting.drive, "--nbd", "nonsense"], 2),
        (vec![&setting.drive], 2),
        (vec!["disk.img", "--nbd", &address], 2),
        (vec![&setting.drive, "--nbd", "unix:/no/such/folder/socket"], 3),
        (vec![&setting.drive, "--nbd", "127.0.0.1:0", "--speed", "0"], 2),
    ] {
        let (code, text) = refused(&arguments);
        assert_eq!(code, Some(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_store_of_another_size_or_in_use_is_refused() {
    let setting = Setting::new("serve-store");
    let (store, other) = (setting.path("store"), setting.dir.image("other", 1 << 20));
    let server = setting.serve(&["--store", &store]);
    for (store, reason) in [(store.as_str(), "in use"), (other.to_str().unwrap(), "holds 1048576 bytes")] {
        let mut second = Command::new(STRADDLE);
        let out =
            output(second.args(["serve", &setting.drive, "--nbd", "127.0.0.1:0", "--store", store]), "");
        assert_eq!(out.status.code(), Some(4), "{}", transcript(&out));
        assert!(transcript(&out).contains(reason), "{}", transcript(&out));
    }
    summary(server);
}

/// Sends a control command and returns the answer.
fn command(setting: &Setting, line: &str) -> Value {
    let mut stream = UnixStream::connect(setting.path("control")).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn the_control_socket_tells_cuts_and_quits() {
    let setting = Setting::new("serve-control");
    let store = setting.path("store");
    let control = format!("unix:{}", setting.path("control"));
    let options = ["--control", &control, "--store", &store];
    let server = setting.serve(&options);
    assert_eq!(command(&setting, "stats")["writes"], 0);
    assert!(command(&setting, "stats and more")["error"].as_str().unwrap().contains("commands are"));
    assert!(command(&setting, "cut x")["error"].is_string());
    assert_eq!(command(&setting, "quit")["quit"], true);
    let ended = server.wait();
    assert_eq!((ended.status.code(), &json(&ended)["ending"]), (Some(0), &"quit".into()));

    let server = setting.serve(&options);
    let mut client = transmit(UnixStream::connect(setting.path("nbd")).unwrap());
    let mut ask = |mut bytes: Vec<u8>, data: &[u8]| {
        bytes.extend_from_slice(data);
        client.write_all(&bytes).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4]);
    };
    ask(request(1, 1, 0, 512), &[1; 512]);
    ask(request(3, 2, 0, 0), &[]);
    ask(request(1, 3, 0, 512), &[2; 512]);
    ask(request(1, 4, 1 << 20, 512), &[3; 512]);
    assert_eq!(command(&setting, "stats")["writes"], 3);
    assert_eq!(command(&setting, "cut 5")["cut"], true);
    let ended = server.wait();
    assert_eq!((ended.status.code(), &json(&ended)["ending"]), (Some(3), &"power_cut".into()));
    assert!(ended.err.contains("power was cut"), "{}", ended.err);
    assert!(!setting.dir.join("nbd").exists());
    // Flushed data is there; data that was not flushed is lost.
    let contents = fs::File::open(&store).unwrap();
    let mut sector = [0; 512];
    for (offset, left) in [(0, 1), (1 << 20, 0)] {
        std::os::unix::fs::FileExt::read_exact_at(&contents, &mut sector, offset).unwrap();
        assert_eq!(sector, [left; 512], "at {offset}");
    }
}

#[test]
fn a_planned_cut_drops_the_connections() {
    let setting = Setting::new("serve-cut");
    let server = setting.serve(&["--cut-after", "3", "--seed", "9"]);
    let mut client = transmit(UnixStream::connect(setting.path("nbd")).unwrap());
    let mut replies = 0;
    for cookie in 1..=5 {
        let mut bytes = request(1, cookie, cookie << 12, 512);
        bytes.extend_from_slice(&[7; 512]);
        let mut reply = [0; 16];
        if client.write_all(&bytes).is_err() || client.read_exact(&mut reply).is_err() {
            break;
        }
        replies += 1;
    }
    assert!((2..=3).contains(&replies), "{replies} replies before a cut after 3 requests");
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(3));
    assert!(
        ended.err.contains("after 3 requests, with seed 9") && ended.err.contains("power was cut"),
        "{}",
        ended.err
    );
}

#[test]
fn in_real_time_replies_are_late_and_never_early() {
    let mut setting = Setting::new("serve-time");
    let profile = setting.dir.join("small.toml");
    fs::write(&profile, DISK).unwrap();
    setting.drive = format!("drive:{}", profile.display());
    let server = setting.serve(&["--speed", "4"]);
    let mut client = transmit(UnixStream::connect(setting.path("nbd")).unwrap());
    for cookie in 0..20_u64 {
        client.write_all(&request(0, cookie, (cookie * 7919 % 900_000) << 20, 4096)).unwrap();
        let mut reply = vec![0; 16 + 4096];
        client.read_exact(&mut reply).unwrap();
    }
    drop(client);
    let report = summary(server);
    assert_eq!((&report["reads"], &report["lateness"]["requests"]), (&20.into(), &20.into()), "{report}");
    // At least the rotational waits, at most 11.1 ms each: real time is the model's time at four times the
    // speed, plus any lateness.
    let rotation = report["counters"]["rotation_wait_ns"].as_u64().unwrap();
    assert!(report["elapsed_ns"].as_u64().unwrap() > rotation / 4, "{report}");
}

#[test]
fn the_summary_fits_its_schema() {
    let setting = Setting::new("serve-schema");
    let server = setting.serve(&["--speed", "1000"]);
    let mut client = transmit(UnixStream::connect(setting.path("nbd")).unwrap());
    client.write_all(&request(0, 1, 0, 512)).unwrap();
    client.read_exact(&mut [0; 528]).unwrap();
    drop(client);
    let report = summary(server);
    tools::valid(&report, "serve");
    assert!(report["lateness"].is_object(), "{report}");
}

#[test]
fn tcp_is_served_too() {
    let setting = Setting::new("serve-tcp");
    let server = setting.serve(&["--nbd", "localhost:0"]);
    let address = server.said.split([' ', ',', '\n']).find_map(|word| word.strip_prefix("nbd://")).unwrap();
    let mut client = transmit(TcpStream::connect(address).unwrap());
    client.write_all(&[request(0, 1, 0, 512), request(2, 2, 0, 0)].concat()).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 528);
    assert_eq!(summary(server)["reads"], 1);
}
