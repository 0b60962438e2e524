//! Files that hold a disk in a form other than its raw bytes: every command that writes refuses them and
//! leaves them unchanged, unless the user says that the file is raw.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tools;

use std::fs;
use std::process::Output;

use tools::{Dir, present, shell, straddle_in, transcript};

/// Every format that qemu-img creates; also the file's extension.
const CREATED: [&str; 8] = ["qcow2", "qcow", "qed", "parallels", "vdi", "vmdk", "vpc", "vhdx"];

/// The tools that convert a raw image to other forms, writing to standard output.
const MADE: [(&str, &str); 5] = [
    ("gzip", "gzip -c raw"),
    ("xz", "xz -c raw"),
    ("zstd", "zstd -qc raw"),
    ("bzip2", "bzip2 -c raw"),
    ("tar", "tar -cf - raw"),
];

/// The signatures of forms for which there is no tool here: name, offset, bytes.
const WRITTEN: [(&str, usize, &[u8]); 8] = [
    ("esx", 0, b"COWD"),
    ("sesparse", 0, b"\xbe\xba\xfe\xca\0\0\0\0"),
    ("wim", 0, b"MSWIM\0\0\0"),
    ("ghost", 0, b"\xfe\xef\x01\x03"),
    ("dmg", (1 << 20) - 512, b"koly\0\0\0\x04"),
    ("bochs", 0, b"Bochs Virtual HD Image\0"),
    ("partclone", 0, b"partclone-image"),
    ("ewf", 0, b"EVF\x09\x0d\x0a\xff\0"),
];

/// The name of each form in messages.
fn called(name: &str) -> &'static str {
    match name {
        "image.qcow2" => "qcow2",
        "image.qcow" => "qcow image of version 1",
        "image.qed" => "QED",
        "image.parallels" => "Parallels",
        "image.vdi" => "VDI",
        "image.vmdk" => "VMDK",
        "image.vpc" => "VHD",
        "image.vhdx" => "VHDX",
        "image.gzip" => "gzip",
        "image.xz" => "xz",
        "image.zstd" => "zstd",
        "image.bzip2" => "bzip2",
        "image.tar" => "tar archive",
        "esx" => "ESX (COWD)",
        "sesparse" => "ESX (SEsparse)",
        "wim" => "WIM",
        "ghost" => "Norton Ghost",
        "dmg" => "DMG",
        "bochs" => "Bochs",
        "partclone" => "partclone",
        "ewf" => "EnCase",
        other => panic!("{other} has no name here"),
    }
}

/// Asserts that the file is refused with status 4 because of its form, not because of its size or anything
/// else.
fn is_refused(run: &Output, what: &str, name: &str) {
    assert_eq!(run.status.code(), Some(4), "{what} {name}: {}", transcript(run));
    assert!(transcript(run).contains(called(name)), "{what} {name}: {}", transcript(run));
}

/// Makes a raw image and one of each other form; returns their names.
fn forms(dir: &Dir) -> Vec<String> {
    let raw = dir.image("raw", 1 << 20);
    fs::write(dir.join("start"), b"not empty").unwrap();
    shell(
        "dd if=start of=raw conv=notrunc bs=64K oflag=seek_bytes seek=$((100 * 512)) status=none",
        dir.path(),
    );
    let mut names = Vec::new();
    for format in CREATED.iter().filter(|_| present(&["qemu-img"])) {
        shell(&format!("qemu-img convert -f raw -O {format} raw image.{format}"), dir.path());
        names.push(format!("image.{format}"));
    }
    for (tool, line) in MADE.iter().filter(|(tool, _)| present(&[tool])) {
        shell(&format!("{line} > image.{tool}"), dir.path());
        names.push(format!("image.{tool}"));
    }
    for (name, at, magic) in WRITTEN {
        let mut bytes = fs::read(&raw).unwrap();
        bytes[at..at + magic.len()].copy_from_slice(magic);
        fs::write(dir.join(name), bytes).unwrap();
        names.push(name.to_owned());
    }
    names
}

#[test]
fn whatever_writes_refuses_them() {
    let dir = Dir::new("containers");
    let names = forms(&dir);
    let plan = ["--table", "gpt", "--part", "rest", "--grain", "4096"];
    for name in &names {
        let before = fs::read(dir.join(name)).unwrap();
        let planned = straddle_in(dir.path(), &[&["plan", name][..], &plan].concat());
        is_refused(&planned, "plan", name);
        // A plan for a raw disk of the same size; only the form of its target is wrong.
        let len = u64::try_from(before.len()).unwrap();
        if len > 64 << 10 && len % 512 == 0 {
            dir.image("same", len);
            // The former one is for a disk of another size.
            let _ = fs::remove_file(dir.join("plan"));
            let kept = straddle_in(dir.path(), &[&["plan", "same", "--save", "plan"][..], &plan].concat());
            assert_eq!(kept.status.code(), Some(0), "{}", transcript(&kept));
            let applied = straddle_in(dir.path(), &["apply", "plan", "--write", name]);
            is_refused(&applied, "apply", name);
        }
        let measured = straddle_in(dir.path(), &["bench", "random-write", name, "--io", "buffered"]);
        is_refused(&measured, "bench", name);
        assert!(before == fs::read(dir.join(name)).unwrap(), "{name} was written to");
        assert!(!dir.join("plan.undo").exists(), "{name}: a backup of nothing");
    }
}

#[test]
fn the_user_may_say_that_it_is_raw() {
    let dir = Dir::new("containers-raw");
    forms(&dir);
    for name in ["wim", "ghost", "dmg", "esx"] {
        let before = fs::read(dir.join(name)).unwrap();
        let plan = [
            "--table", "gpt", "--part", "rest", "--grain", "4096", "--format", "raw", "--wipe", "--save",
            "plan",
        ];
        let planned = straddle_in(dir.path(), &[&["plan", name][..], &plan].concat());
        assert_eq!(planned.status.code(), Some(0), "{name}: {}", transcript(&planned));
        let applied = straddle_in(dir.path(), &["apply", "plan", "--write", name, "--format", "raw"]);
        assert_eq!(applied.status.code(), Some(0), "{name}: {}", transcript(&applied));
        assert!(before != fs::read(dir.join(name)).unwrap(), "{name}: nothing was written");
        let undone = straddle_in(dir.path(), &["undo", "plan.undo", "--write", name, "--format", "raw"]);
        assert_eq!(undone.status.code(), Some(0), "{name}: {}", transcript(&undone));
        assert!(before == fs::read(dir.join(name)).unwrap(), "{name}: not as it was");
        fs::remove_file(dir.join("plan.undo")).unwrap();
    }
}
