//! Replays every seed, and every input that once caused a crash, on stable Rust, as the fuzzer does first.

use std::fs;
use std::path::Path;

use straddle_device::image::Format;
use straddle_layout::VolumeKind;

fn replay(name: &str, target: impl Fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for kind in ["seeds", "regressions"] {
        let Ok(entries) = fs::read_dir(root.join(kind).join(name)) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            eprintln!("{}", path.display());
            target(&fs::read(&path).unwrap());
            count += 1;
        }
    }
    assert!(count > 0, "no input for {name}");
}

#[test]
fn gpt() {
    replay("gpt", straddle_fuzz::gpt);
}

#[test]
fn mbr() {
    replay("mbr", straddle_fuzz::mbr);
}

#[test]
fn assume() {
    replay("assume", straddle_fuzz::assume);
}

#[test]
fn sysfs() {
    replay("sysfs", straddle_fuzz::sysfs);
}

#[test]
fn identify() {
    replay("identify", straddle_fuzz::identify);
}

#[test]
fn filesystems() {
    replay("filesystems", straddle_fuzz::filesystems);
}

#[test]
fn layers() {
    replay("layers", straddle_fuzz::layers);
}

#[test]
fn md() {
    replay("md", |data| assert!(straddle_fuzz::volume(data, &[VolumeKind::Md])));
}

#[test]
fn lvm() {
    replay("lvm", |data| assert!(straddle_fuzz::volume(data, &[VolumeKind::Pv])));
}

#[test]
fn luks() {
    replay("luks", |data| assert!(straddle_fuzz::volume(data, &[VolumeKind::Luks])));
}

#[test]
fn mapped() {
    replay("mapped", |data| {
        assert!(straddle_fuzz::volume(data, &[VolumeKind::Integrity, VolumeKind::Verity, VolumeKind::Bcache]))
    });
}

#[test]
fn qcow2() {
    replay("qcow2", |data| assert!(straddle_fuzz::image(data, Format::Qcow2)));
}

#[test]
fn vmdk() {
    replay("vmdk", |data| assert!(straddle_fuzz::image(data, Format::Vmdk)));
}

#[test]
fn vhd() {
    replay("vhd", |data| assert!(straddle_fuzz::image(data, Format::Vhd)));
}

#[test]
fn vhdx() {
    replay("vhdx", |data| assert!(straddle_fuzz::image(data, Format::Vhdx)));
}

#[test]
fn vdi() {
    replay("vdi", |data| assert!(straddle_fuzz::image(data, Format::Vdi)));
}

#[test]
fn drive() {
    replay("drive", straddle_fuzz::drive);
}

#[test]
fn domain() {
    replay("domain", straddle_fuzz::domain);
}

#[test]
fn trace() {
    replay("trace", straddle_fuzz::trace);
}

#[test]
fn mapped_trace() {
    replay("mapped_trace", straddle_fuzz::mapped_trace);
}

#[test]
fn table() {
    replay("table", straddle_fuzz::table);
}

#[test]
fn nbd() {
    replay("nbd", straddle_fuzz::nbd);
}

#[test]
fn plan() {
    replay("plan", straddle_fuzz::plan);
}

#[test]
fn backup() {
    replay("backup", straddle_fuzz::backup);
}

#[test]
fn request() {
    replay("request", straddle_fuzz::request);
}
