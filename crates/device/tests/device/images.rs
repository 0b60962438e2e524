//! Every image format that qemu-img writes, read by our readers: the bytes are the same, and lie where
//! qemu-img says.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tests::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{
    DISK, assert_holds, disk, image_with, open_with, others, present, put, qemu_img, read, sign_vhdx,
};
use serde_json::Value;
use straddle_device::image::{FORMS, Format, Image, Opened, StoredAt};
use straddle_device::{Medium, Options, topology::Source};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB};
use tempfile::TempDir;

/// Writes the disk in `format`, reads it back, and checks the places with qemu-img. Returns what was opened.
fn convert(format: &str, options: &str, compress: bool) -> (TempDir, Image) {
    let dir = TempDir::new().unwrap();
    let disk = disk();
    fs::write(dir.path().join("disk.raw"), &disk).unwrap();
    let mut args = vec!["convert", "-f", "raw", "-O", format];
    if compress {
        args.push("-c");
    }
    if !options.is_empty() {
        args.extend(["-o", options]);
    }
    args.extend(["disk.raw", "image"]);
    qemu_img(dir.path(), &args);
    fs::remove_file(dir.path().join("disk.raw")).unwrap();
    let path = dir.path().join("image");
    let image = image_with(&path, &others(dir.path(), &path));
    let what = format!("{format} {options}");
    assert_holds(&image, &disk, &what);
    judge_places(dir.path(), format, &image, &what);
    (dir, image)
}

/// Compares the place of every data sector with `qemu-img map`, where that gives one.
fn judge_places(dir: &Path, format: &str, image: &Image, what: &str) {
    let map = qemu_img(dir, &["map", "--output=json", "-f", format, "image"]);
    let map: Value = serde_json::from_str(&map).unwrap();
    let mut judged = 0;
    for run in map.as_array().unwrap() {
        let number = |key: &str| run[key].as_u64();
        let (Some(offset), Some(true)) = (number("offset"), run["data"].as_bool()) else { continue };
        let (start, len) = (number("start").unwrap(), number("length").unwrap());
        for into in (0..len.min(image.len().get() - start)).step_by(512) {
            let (place, run) = image.place(ByteOffset::new(start + into)).unwrap();
            let StoredAt::Host { at, .. } = place else {
                panic!("{what}: byte {}: {place:?}, qemu-img says {offset}", start + into);
            };
            assert_eq!(at, offset + into, "{what}: byte {}", start + into);
            assert!(run.get() > 0);
            judged += 1;
        }
    }
    // qemu-img gives no place for compressed clusters and for VHDX.
    let silent = format == "vhdx" || image.container().placement.units() == 0;
    assert!(silent || judged > 100, "{what}: only {judged} sectors were judged");
}

fn alignment(image: &Image) -> u64 {
    image.container().placement.alignment().map_or(0, ByteCount::get)
}

#[test]
fn qcow2_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, cluster, variant) in [
        ("compat=0.10", 64 * KIB, "version 2"),
        ("compat=1.1", 64 * KIB, "version 3"),
        ("compat=1.1,lazy_refcounts=on", 64 * KIB, "version 3"),
        ("cluster_size=512", 512, "version 3"),
        ("cluster_size=4k,refcount_bits=1", 4 * KIB, "version 3"),
        ("cluster_size=2M", 2 * MIB, "version 3"),
        ("extended_l2=on", 64 * KIB, "version 3"),
        ("extended_l2=on,cluster_size=16k", 16 * KIB, "version 3"),
        ("extended_l2=on,cluster_size=2M", 2 * MIB, "version 3"),
        ("preallocation=metadata", 64 * KIB, "version 3"),
        ("preallocation=full", 64 * KIB, "version 3"),
    ] {
        let (_dir, image) = convert("qcow2", options, false);
        let container = image.container();
        assert_eq!((container.format, container.variant), (Format::Qcow2, variant), "{options}");
        assert_eq!((container.block.get(), container.virtual_size.get()), (cluster, DISK), "{options}");
        assert!(alignment(&image) >= cluster.min(MIB), "{options}: {}", alignment(&image));
        assert_eq!(image.remarks(), [""; 0], "{options}");
    }
}

#[test]
fn qcow2_compressed() {
    if !present(&["qemu-img"]) {
        return;
    }
    for options in [
        "compat=0.10",
        "compat=1.1",
        "cluster_size=512",
        "cluster_size=2M",
        "extended_l2=on",
        "compression_type=zstd",
        "compression_type=zstd,cluster_size=2M",
        "compression_type=zstd,cluster_size=4k",
    ] {
        let (_dir, image) = convert("qcow2", options, true);
        assert!(image.container().placement.compressed() > 0, "{options}");
    }
}

#[test]
fn qcow2_with_a_data_file() {
    if !present(&["qemu-img"]) {
        return;
    }
    for options in ["data_file=data", "data_file=data,data_file_raw=on"] {
        let (dir, image) = convert("qcow2", options, false);
        let (place, _) = image.place(ByteOffset::ZERO).unwrap();
        assert!(matches!(place, StoredAt::Host { file: 1, .. }), "{options}: {place:?}");
        let closed = image_with(&dir.path().join("image"), &[]);
        let error = read(&closed, 0, 512).unwrap_err();
        assert!(
            error.ends_with("needs the data file data, which is not opened without --allow-backing"),
            "{error}"
        );
        assert!(closed.remarks()[0].contains("data file"), "{:?}", closed.remarks());
    }
}

#[test]
fn vmdk_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for variant in [
        "monolithicSparse",
        "streamOptimized",
        "monolithicFlat",
        "twoGbMaxExtentFlat",
        "twoGbMaxExtentSparse",
    ] {
        let (dir, image) = convert("vmdk", &format!("subformat={variant}"), false);
        let container = image.container();
        assert_eq!((container.format, container.variant), (Format::Vmdk, variant));
        assert_eq!(container.virtual_size.get(), DISK);
        match variant {
            "streamOptimized" => assert!(container.placement.compressed() > 0),
            "monolithicFlat" | "twoGbMaxExtentFlat" => assert_eq!(alignment(&image), MIB),
            // qemu puts the first grain right after the tables.
            _ => assert_eq!(container.block.get(), 64 * KIB),
        }
        let others = others(dir.path(), &dir.path().join("image"));
        if others.is_empty() {
            continue;
        }
        let closed = image_with(&dir.path().join("image"), &[]);
        let error = read(&closed, 0, 512).unwrap_err();
        assert!(error.contains("needs the extent file image-"), "{variant}: {error}");
        // An extent can be opened by itself.
        if variant == "twoGbMaxExtentSparse" {
            let extent = image_with(&others[0], &[]);
            assert_eq!(extent.container().variant, "sparse extent");
            assert_holds(&extent, &disk(), "extent");
        }
    }
    let (_dir, image) = convert("vmdk", "zeroed_grain=on", false);
    assert_eq!(image.container().variant, "monolithicSparse");
}

#[test]
fn vmdk_of_several_extents() {
    if !present(&["qemu-img"]) {
        return;
    }
    for variant in ["twoGbMaxExtentFlat", "twoGbMaxExtentSparse"] {
        let dir = TempDir::new().unwrap();
        let raw = fs::File::create(dir.path().join("disk.raw")).unwrap();
        raw.set_len(5 << 30).unwrap();
        let marks: Vec<(u64, Vec<u8>)> = [0, (2 << 30) - 512, 2 << 30, (4 << 30) + 4096]
            .map(|at| (at, common::noise(at).take(1024).collect()))
            .into();
        for (at, bytes) in &marks {
            std::os::unix::fs::FileExt::write_all_at(&raw, bytes, *at).unwrap();
        }
        qemu_img(
            dir.path(),
            &["convert", "-O", "vmdk", "-o", &format!("subformat={variant}"), "disk.raw", "image"],
        );
        let path = dir.path().join("image");
        let image = image_with(&path, &others(dir.path(), &path));
        assert_eq!(image.len().get(), 5 << 30);
        for (at, bytes) in marks.iter().skip(1) {
            assert!(read(&image, *at, 512).unwrap() == bytes[..512], "{variant}: byte {at}");
        }
        judge_places(dir.path(), "vmdk", &image, variant);
    }
}

#[test]
fn vhd_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, variant) in [
        ("subformat=dynamic,force_size=on", "dynamic"),
        ("subformat=dynamic", "dynamic"),
        ("subformat=fixed,force_size=on", "fixed"),
        ("subformat=fixed", "fixed"),
    ] {
        let (dir, image) = convert("vpc", options, false);
        let container = image.container();
        assert_eq!((container.format, container.variant), (Format::Vhd, variant), "{options}");
        let qemu: Value =
            serde_json::from_str(&qemu_img(dir.path(), &["info", "--output=json", "-f", "vpc", "image"]))
                .unwrap();
        assert_eq!(Some(container.virtual_size.get()), qemu["virtual-size"].as_u64(), "{options}");
        let placement = &container.placement;
        if variant == "fixed" {
            assert_eq!((alignment(&image), placement.is_complete()), (MIB, true));
        } else {
            // A sector of bitmap precedes every block, so no block is aligned to 4 KiB.
            assert!(alignment(&image) < 4096, "{}", alignment(&image));
            let first = placement.first_below(ByteCount::new(4096)).unwrap();
            assert_eq!(first.guest, ByteOffset::ZERO);
            assert_ne!(first.host.get() % 4096, 0);
        }
    }
}

#[test]
fn a_fixed_vhd_is_known_by_its_end_only() {
    if !present(&["qemu-img"]) {
        return;
    }
    let (dir, _image) = convert("vpc", "subformat=fixed,force_size=on", false);
    let path = dir.path().join("image");
    let mut bytes = fs::read(&path).unwrap();
    // Virtual PC wrote one byte less.
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(image_with(&path, &[]).len().get(), DISK);
    // A footer with a wrong checksum is reported as damaged, and not taken for guest data.
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let Err(error) = open_with(&path, &[]) else { panic!("taken for a disk") };
    assert!(error.to_string().contains(&DISK.to_string()), "{error}");
}

#[test]
fn vhdx_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, variant) in [
        ("subformat=dynamic", "dynamic"),
        ("subformat=dynamic,block_size=1M", "dynamic"),
        ("subformat=dynamic,block_size=32M,block_state_zero=on", "dynamic"),
        ("subformat=fixed", "fixed"),
    ] {
        let (dir, image) = convert("vhdx", options, false);
        let container = image.container();
        assert_eq!((container.format, container.variant), (Format::Vhdx, variant), "{options}");
        assert_eq!(alignment(&image), MIB, "{options}");
        assert_eq!(image.remarks(), [""; 0], "{options}");
        let target = straddle_device::open(&dir.path().join("image"), &Options::default()).unwrap();
        assert_eq!((target.size.get(), target.container.as_ref()), (DISK, Some(container)));
        assert!(matches!(target.topology.logical.source(), Source::Container(_)));
        // qemu writes 512 and 512; the drive below may still have sectors of 4096 bytes.
        let (logical, physical) = (&target.topology.logical, &target.topology.physical);
        assert_eq!((logical.value().get(), physical.value().get()), (512, 4096));
        assert!(physical.disagreeing().any(|claim| claim.value.get() == 512));
    }
}

/// Changes both headers of a VHDX, and recomputes their checksums.
fn with_vhdx_headers(bytes: &mut [u8], change: impl Fn(&mut [u8])) {
    for at in [64 << 10, 128 << 10] {
        let header = &mut bytes[at..at + 4096];
        change(header);
        sign_vhdx(header);
    }
}

#[test]
fn a_vhdx_with_a_log_says_that_it_is_not_replayed() {
    if !present(&["qemu-img"]) {
        return;
    }
    let (dir, _image) = convert("vhdx", "", false);
    let path = dir.path().join("image");
    let mut bytes = fs::read(&path).unwrap();
    with_vhdx_headers(&mut bytes, |header| put(header, 48, &[7; 16]));
    fs::write(&path, &bytes).unwrap();
    let image = image_with(&path, &[]);
    assert!(image.remarks()[0].contains("was not replayed"), "{:?}", image.remarks());
    // One valid header is enough; with none there is no image.
    bytes[(64 << 10) + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_holds(&image_with(&path, &[]), &disk(), "one header");
    bytes[(128 << 10) + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = common::chain(&open_with(&path, &[]).err().unwrap());
    assert!(error.contains("byte 65536: neither copy"), "{error}");
}

#[test]
fn vdi_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, variant) in [("static=off", "dynamic"), ("static=on", "static")] {
        let (dir, image) = convert("vdi", options, false);
        let container = image.container();
        assert_eq!((container.format, container.variant), (Format::Vdi, variant));
        assert_eq!(container.block.get(), MIB);
        let path = dir.path().join("image");
        let mut bytes = fs::read(&path).unwrap();
        let data = u64::from(u32::from_le_bytes(bytes[0x158..0x15C].try_into().unwrap()));
        assert_eq!(alignment(&image), 1 << data.trailing_zeros().min(20), "data at byte {data}");
        // A differencing image has only its parent's UUID.
        put(&mut bytes, 0x4C, &4_u32.to_le_bytes());
        put(&mut bytes, 0x1B8, &[0x11; 16]);
        fs::write(&path, &bytes).unwrap();
        let child = image_with(&path, &[]);
        if variant == "dynamic" {
            let error = read(&child, 12 << 20, 512).unwrap_err();
            assert!(error.contains("needs the parent {11111111-1111-"), "{error}");
        }
    }
}

#[test]
fn encrypted_images_are_refused() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let secret = "secret,id=s,data=abc";
    let options = "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10";
    let words = ["create", "--object", secret, "-f", "qcow2", "-o", options, "image", "1M"];
    // qemu-img times its key derivation, and fails on a busy machine ("accurate CPU usage").
    let made = (0..10).any(|_| {
        let status = Command::new("qemu-img").args(words).current_dir(dir.path()).status();
        status.expect("qemu-img runs").success()
    });
    assert!(made, "qemu-img could not make an encrypted image");
    let error = open_with(&dir.path().join("image"), &[]).err().unwrap();
    assert_eq!(error.to_string(), "qcow2 image, byte 32: an encrypted image (LUKS) is not supported");
}

#[test]
fn a_raw_image_is_raw() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("image");
    for len in [1, 511, 512, 4095, 70_000] {
        fs::write(&path, vec![0x42; len]).unwrap();
        let Ok(Opened::Raw(raw)) = open_with(&path, &[]) else { panic!("{len} bytes are no container") };
        assert_eq!(read(raw.as_ref(), 0, len).unwrap(), vec![0x42; len]);
    }
    let formats: BTreeSet<String> =
        [Format::Raw, Format::Qcow2, Format::Vmdk, Format::Vhd, Format::Vhdx, Format::Vdi, Format::Qed]
            .map(|f| f.to_string())
            .into();
    assert_eq!(formats.len(), 7);
}

#[test]
fn qed_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, cluster) in [
        ("", 64 * KIB),
        ("cluster_size=4k", 4 * KIB),
        ("cluster_size=64k,table_size=2", 64 * KIB),
        ("cluster_size=64k,table_size=16", 64 * KIB),
    ] {
        let (_dir, image) = convert("qed", options, false);
        let container = image.container();
        assert_eq!((container.format, container.block.get()), (Format::Qed, cluster), "{options}");
    }
}

#[test]
fn parallels_of_every_kind() {
    if !present(&["qemu-img"]) {
        return;
    }
    for (options, block) in [("", MIB), ("cluster_size=64k", 64 * KIB), ("cluster_size=512k", 512 * KIB)] {
        let (_dir, image) = convert("parallels", options, false);
        let container = image.container();
        assert_eq!((container.format, container.block.get()), (Format::Parallels, block), "{options}");
    }
}

/// A file name in a form's command is one shell word, whatever characters it has.
#[test]
fn every_known_form_is_reported_and_not_taken_for_raw() {
    let dir = TempDir::new().unwrap();
    let plain = dir.path().join("disk");
    fs::write(&plain, vec![0x42; 70_000]).unwrap();
    for form in FORMS {
        let command = form.command("it's a file").unwrap_or_default();
        assert!(!command.contains("FILE"), "{command}");
        let words = Command::new("sh").args(["-n", "-c", &command]).status().unwrap();
        assert!(words.success(), "{command}");
    }
    for (tool, line) in [
        ("gzip", "gzip -c disk"),
        ("xz", "xz -c disk"),
        ("zstd", "zstd -qc disk"),
        ("bzip2", "bzip2 -c disk"),
        ("tar", "tar -cf - disk"),
    ] {
        if !present(&[tool]) {
            continue;
        }
        let made = Command::new("sh").args(["-c", line]).current_dir(dir.path()).output().unwrap();
        assert!(made.status.success());
        let path = dir.path().join(tool);
        fs::write(&path, &made.stdout).unwrap();
        let error = straddle_device::open(&path, &Options::default()).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains(tool) && error.contains("not read"), "{tool}: {error}");
        let options = Options { format: Some(Format::Raw), ..Options::default() };
        let target = straddle_device::open(&path, &options).unwrap();
        assert!(target.container.is_none());
        assert_eq!(target.size.get(), u64::try_from(made.stdout.len()).unwrap());
    }
}
