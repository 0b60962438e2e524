//! Every format of images reads from a server as from a file; what was received is what the server sent; and no
//! other path is asked for, whatever an image names.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::server::Server;
use super::{ran, straddle};
use crate::tools::{Dir, number, present, run, shell, word};

/// Formats of qemu-img, with options, and the names of the images.
const FORMATS: &[(&str, &str, &str)] = &[
    ("raw", "", "disk.raw"),
    ("qcow2", "", "disk.qcow2"),
    ("qcow2", "-o compat=0.10,cluster_size=512", "old.qcow2"),
    ("qcow2", "-o extended_l2=on,cluster_size=128k", "extended.qcow2"),
    ("qcow2", "-c", "compressed.qcow2"),
    ("vmdk", "", "disk.vmdk"),
    ("vmdk", "-o subformat=streamOptimized", "stream.vmdk"),
    ("vpc", "", "dynamic.vhd"),
    ("vpc", "-o subformat=fixed", "fixed.vhd"),
    ("vhdx", "", "disk.vhdx"),
    ("vdi", "", "disk.vdi"),
    ("qed", "", "disk.qed"),
    ("parallels", "", "disk.hdd"),
];

/// An MBR with a misaligned ext4 and an aligned one.
fn disk(dir: &Dir) {
    let image = dir.image("source.img", 64 << 20);
    crate::tools::write_table(
        &image,
        512,
        "label: dos\nstart=63, size=40000, type=83\nstart=43008, size=40960, type=83\n",
    );
    for start in [63, 43008] {
        let line = format!(
            "truncate -s 20000K part && mkfs.ext4 -q part && dd if=part of=source.img bs=64K oflag=seek_bytes seek=$(({start} * 512)) conv=notrunc status=none && rm part"
        );
        shell(&line, dir.path());
    }
}

/// A target's report, without what differs between a file and an object.
fn comparable(mut target: Value) -> Value {
    for key in ["target", "notes", "traffic"] {
        target.as_object_mut().unwrap().remove(key);
    }
    target
}

#[test]
fn every_format_reads_from_a_server_as_from_a_file() {
    if !present(&["qemu-img", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("remote");
    disk(&dir);
    let server = Server::start(dir.path());
    for (format, options, name) in FORMATS {
        shell(&format!("qemu-img convert -O {format} {options} source.img {name}"), dir.path());
        for with in [&[][..], &["--assume", "4kn"], &["--page", "16KiB"]] {
            let run = |target: &str| {
                let arguments = [&["check", "--json"], with, &[target]].concat();
                ran(&mut straddle(dir.path()), &arguments)
            };
            let here = run(name);
            let before = server.asked().len();
            let there = run(&server.url(&format!("/right/{name}")));
            assert_eq!(here.code, there.code, "{name}: {}{}", here.err, there.err);
            let (here, there) = (here.targets().remove(0), there.targets().remove(0));
            let asked = server.asked().split_off(before);
            assert_eq!(word(&there, "target"), server.url(&format!("/right/{name}")));
            let traffic = &there["traffic"];
            assert_eq!(number(traffic, "requests"), asked.len() as u64, "{name}");
            assert_eq!(
                number(traffic, "received_bytes"),
                asked.iter().map(|asked| asked.sent).sum::<u64>(),
                "{name}"
            );
            assert_eq!(number(traffic, "object_bytes"), dir.join(name).metadata().unwrap().len(), "{name}");
            assert!(number(traffic, "received_bytes") < 1 << 20, "{name}: {traffic}");
            assert!(asked.iter().all(|asked| asked.path == format!("/right/{name}")), "{asked:?}");
            assert_eq!(comparable(here), comparable(there), "{name} {with:?}");
        }
    }
}

#[test]
fn map_and_verbose_say_what_was_fetched() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("remote");
    disk(&dir);
    let server = Server::start(dir.path());
    for verb in ["check", "map"] {
        let before = server.asked().len();
        let run = ran(&mut straddle(dir.path()), &[verb, "--verbose", &server.url("/right/source.img")]);
        let asked = server.asked().split_off(before);
        let sent: u64 = asked.iter().map(|asked| asked.sent).sum();
        let said =
            format!("({sent} bytes) in {} requests, from an object of 64 MiB (67108864 bytes)", asked.len());
        assert!(crate::tools::flat(&run.out).contains(&said), "{said}: {}", run.out);
        let quiet = ran(&mut straddle(dir.path()), &[verb, &server.url("/right/source.img")]);
        assert!(!quiet.out.contains("of an object of"), "{}", quiet.out);
    }
}

#[test]
fn the_printed_commands_fetch_and_mend_a_copy() {
    if !present(&["sfdisk", "mkfs.ext4", "curl"]) {
        return;
    }
    let dir = Dir::new("remote");
    disk(&dir);
    let server = Server::start(dir.path());
    let other = Dir::new("remote");
    let url = server.url("/right/source.img");
    let run = ran(&mut straddle(other.path()), &["check", "--json", &url]);
    let target = run.targets().remove(0);
    let note = target["notes"][0].as_str().unwrap();
    let (_, fetch) = note.split_once("First, download it: ").unwrap();
    // This server has no whole objects: curl asks for a range of all.
    shell(&fetch.replace("curl ", "curl --no-progress-meter --range 0-67108863 "), other.path());
    assert_eq!(
        std::fs::read(other.join("source.img")).unwrap(),
        std::fs::read(dir.join("source.img")).unwrap()
    );
    // Text has the command on a line of its own.
    let text = ran(&mut straddle(other.path()), &["check", &url]);
    assert!(text.out.lines().any(|line| line == format!("    {fetch}")), "{}", text.out);
    let signed = ran(&mut straddle(other.path()), &["check", "--json", &format!("{url}?sig=SECRET")]);
    assert!(!signed.all().contains("SECRET"), "{}", signed.all());
    assert_eq!(signed.targets()[0]["target"], format!("{url}?…"));
    let notes = signed.targets()[0]["notes"].to_string();
    assert!(notes.contains("download it as source.img") && !notes.contains("curl"), "{notes}");
}

#[test]
fn what_an_image_names_is_never_asked_for() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new("remote");
    let server = Server::start(dir.path());
    let base = dir.image("base.img", 64 << 20);
    crate::tools::write_table(&base, 512, "label: gpt\nstart=2048, size=40000\n");
    let qemu = |arguments: &[&str]| run(Command::new("qemu-img").args(arguments).current_dir(dir.path()), "");
    let elsewhere = server.url("/right/base.img");
    qemu(&["create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", &elsewhere, "url.qcow2", "64M"]);
    qemu(&["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.img", "overlay.qcow2"]);
    qemu(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-o",
        "data_file=data.raw,data_file_raw=on",
        "outside.qcow2",
        "64M",
    ]);
    qemu(&["convert", "-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse", "base.img", "extents.vmdk"]);
    for name in ["url.qcow2", "overlay.qcow2", "outside.qcow2", "extents.vmdk"] {
        let path = format!("/right/{name}");
        let run = ran(&mut straddle(dir.path()), &["check", &server.url(&path)]);
        assert_eq!(run.code, 3, "{}", run.all());
        assert!(run.err.contains("which is not opened without --allow-backing"), "{}", run.err);
        assert!(!run.err.contains("straddle check --allow-backing"), "{}", run.err);
    }
    let other =
        server.asked().into_iter().find(|asked| asked.path.contains("base") || asked.path.contains("data"));
    assert!(other.is_none(), "{other:?}");
    // A file of this machine is opened if the user names it.
    let url = server.url("/right/overlay.qcow2");
    let run = ran(&mut straddle(dir.path()), &["check", "--allow-backing", "base.img", &url]);
    assert_eq!(run.code, 0, "{}", run.all());
}

#[test]
fn compressed_objects_and_archives_are_not_fetched() {
    if !present(&["gzip", "xz", "bzip2", "tar", "qemu-img"]) {
        return;
    }
    let dir = Dir::new("remote");
    let image = dir.image("disk.img", 16 << 20);
    crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=20000\n");
    let random = "head -c 3000000 /dev/urandom | dd of=disk.img bs=1M seek=1 conv=notrunc status=none";
    shell(
        &format!("{random}; gzip -k disk.img; xz -k0 disk.img; bzip2 -k disk.img; tar -cf disk.tar disk.img"),
        dir.path(),
    );
    let server = Server::start(dir.path());
    for (name, what) in
        [("disk.img.gz", "a gzip file"), ("disk.img.xz", "an xz file"), ("disk.img.bz2", "a bzip2 file")]
    {
        assert_ne!(Path::new(name).file_name(), None);
        let url = server.url(&format!("/right/{name}"));
        let run = ran(&mut straddle(dir.path()), &["check", &url]);
        assert_eq!(run.code, 3, "{}", run.all());
        let said = format!(
            "not judged: it is {what}, which straddle would have to download completely: curl -fL -o {name} \
             {url}"
        );
        assert!(run.err.contains(&said), "{said} is not in {}", run.err);
    }
    let url = server.url("/right/disk.tar");
    let tar = ran(&mut straddle(dir.path()), &["check", &url]);
    assert!(tar.err.contains(&format!("curl -fL -o disk.tar {url} && tar -xf disk.tar")), "{}", tar.err);
    let sent: u64 = server.asked().iter().map(|asked| asked.sent).sum();
    assert!(sent < 1 << 20, "{sent} bytes");
    // --format says what it is: its own bytes are the disk.
    let raw =
        ran(&mut straddle(dir.path()), &["check", "--format", "raw", &server.url("/right/disk.img.gz")]);
    assert!(raw.all().contains("its contents are not recognised") || raw.code == 3, "{}", raw.all());
}
