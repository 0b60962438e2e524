//! Every seed, and every input that once was a crash, through its target: what the fuzzer does first, on stable Rust.

use std::fs;
use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
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
