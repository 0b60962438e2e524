//! A hibernated Windows would lose its data if they moved: it is recognised, and nothing moves.

use std::process::Command;

use super::unallocated::{printed, run};
use crate::tools::{Contents, Dir, present, shell, straddle_in, text, write_table};

/// `ntfs-3g.probe` says with this status that Windows is hibernated.
const ASLEEP: i32 = 14;
const TOOLS: [&str; 3] = ["mkfs.ntfs", "ntfscp", "ntfs-3g.probe"];

/// The start and the length of the partition in sectors.
const START: u64 = 2049;
const SECTORS: u64 = 60_000;

/// What makes `hiberfil.sys`, in bytes of `file`.
const HIBERNATED: &str = "{ printf HIBR; head -c 100000 /dev/zero | tr '\\000' x; } > file";

/// Makes an NTFS `n` of the partition's size.
fn make(dir: &Dir, options: &str) {
    let len = SECTORS * 512;
    let line = format!("rm -f n; truncate -s {len} n; mkfs.ntfs -q -F {options} -p {START} -H 255 -S 63 n");
    shell(&format!("{line} 2>&1"), dir.path());
}

/// Puts a file in the root directory of `n`, whose bytes the `script` writes to `file`.
fn put(dir: &Dir, name: &str, script: &str) {
    shell(&format!("{script}; ntfscp -q -f n file {name} 2>&1"), dir.path());
}

/// Puts `n` into the partition of the disk.
fn install(dir: &Dir) {
    shell(
        &format!(
            "dd if=n of=disk.img bs=64K oflag=seek_bytes seek=$(({START} * 512)) conv=notrunc status=none"
        ),
        dir.path(),
    );
}

fn disk(dir: &Dir, label: &str) {
    let kind = if label == "gpt" { "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7" } else { "7" };
    let image = dir.image("disk.img", 80 << 20);
    write_table(&image, 512, &format!("label: {label}\nstart={START}, size={SECTORS}, type={kind}\n"));
}

/// Whether ntfs-3g takes `n` for hibernated.
fn judged(dir: &Dir) -> bool {
    let probe = Command::new("ntfs-3g.probe").args(["--readwrite", "n"]).current_dir(dir.path()).output();
    match probe.unwrap().status.code() {
        Some(0) => false,
        Some(ASLEEP) => true,
        other => panic!("ntfs-3g.probe: {other:?}"),
    }
}

/// Compares with ntfs-3g; returns what both say.
fn agreed(dir: &Dir, what: &str) -> bool {
    install(dir);
    let (status, said) = run(dir, &["realign", "disk.img"]);
    let is_asleep = judged(dir);
    assert_eq!(status, if is_asleep { 4 } else { 0 }, "{what}: {said}");
    assert_eq!(said.contains("hibernated"), is_asleep, "{what}: {said}");
    is_asleep
}

#[test]
fn a_hibernated_windows_is_known_as_ntfs_3g_knows_it() {
    if !present(&TOOLS) {
        return;
    }
    let dir = Dir::new("asleep");
    disk(&dir, "dos");
    // The marks, what Windows writes over them, and the short file on a volume that a Windows elsewhere has in memory.
    let mut said = Vec::new();
    for script in [
        HIBERNATED,
        "{ printf hibr; head -c 4092 /dev/zero; } > file",
        "{ printf hiBR; head -c 4092 /dev/zero; } > file",
        "{ printf wake; head -c 5000 /dev/zero; } > file",
        "{ printf '\\000HIBR'; head -c 5000 /dev/zero; } > file",
        "head -c 100000 /dev/zero > file",
        "head -c 4095 /dev/zero > file",
        "head -c 100 /dev/zero > file",
        ": > file",
    ] {
        make(&dir, "-Q");
        assert!(!agreed(&dir, "empty"));
        put(&dir, "hiberfil.sys", script);
        said.push(agreed(&dir, script));
    }
    assert!(said.contains(&true) && said.contains(&false), "{said:?}");
    // Not in the root directory, or called otherwise.
    make(&dir, "-Q");
    for name in ["hiberfil.sy", "hiberfil.sys0", "xhiberfil.sys", "pagefile.sys"] {
        put(&dir, name, HIBERNATED);
    }
    assert!(!agreed(&dir, "other names"));
    for options in ["-Q -c 512", "-Q -c 65536", "-Q -s 4096", "-Q -s 1024 -c 2048"] {
        make(&dir, options);
        put(&dir, "hiberfil.sys", "head -c 9000 /dev/zero > file");
        assert!(!agreed(&dir, options));
        put(&dir, "hiberfil.sys", HIBERNATED);
        assert!(agreed(&dir, options));
    }
}

/// An index of two and more levels, and records of the table far from its first ones.
#[test]
fn a_hibernated_windows_is_found_among_many_files() {
    if !present(&TOOLS) {
        return;
    }
    let dir = Dir::new("asleep-among");
    disk(&dir, "gpt");
    for options in ["-Q", "-Q -c 512"] {
        make(&dir, options);
        // Names before and after it, of which few fit into a block.
        let many = "echo > one; for i in $(seq 60); do for letter in A h z; do ntfscp -q -f n one $letter$(printf '%0180d' $i) 2>&1; done; done";
        shell(many, dir.path());
        assert!(!agreed(&dir, options));
        put(&dir, "hiberfil.sys", "head -c 9000 /dev/zero > file");
        assert!(!agreed(&dir, options));
        put(&dir, "hiberfil.sys", HIBERNATED);
        assert!(agreed(&dir, options));
    }
}

#[test]
fn nothing_moves_under_a_hibernated_windows() {
    if !present(&TOOLS) {
        return;
    }
    for label in ["dos", "gpt"] {
        let dir = Dir::new("asleep-plans");
        disk(&dir, label);
        make(&dir, "-Q");
        install(&dir);
        assert!(printed(&dir).contains("straddle realign"), "{label}: it would be moved");
        let plans = [
            &["realign", "disk.img", "--save", "move.json"][..],
            &["realign", "disk.img", "--to", "new.img", "--save", "copy.json"],
        ];
        for words in plans {
            let (status, said) = run(&dir, words);
            assert_eq!(status, 0, "{label}: {said}");
        }
        put(&dir, "hiberfil.sys", HIBERNATED);
        install(&dir);
        let before = Contents::of(&dir.join("disk.img"));
        assert_eq!(printed(&dir), "", "{label}");
        let said = text(&straddle_in(&dir, &["check", "disk.img"]).stdout);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("hibernated system") && said.contains("shutdown /s /f /t 0"),
            "{label}: {said}"
        );
        for words in [
            &["apply", "move.json", "--write", "disk.img"][..],
            &["apply", "copy.json", "--from", "disk.img", "--write", "new.img"],
            &["realign", "disk.img", "--start", "1=4MiB"],
            &["realign", "disk.img", "--save", "again.json"],
            &["realign", "disk.img", "--to", "new.img", "--save", "again.json"],
        ] {
            let (status, said) = run(&dir, words);
            assert!(
                status == 4 && said.contains("hibernated system"),
                "{label}: {words:?}: {status}: {said}"
            );
        }
        assert!(!dir.join("again.json").exists(), "{label}");
        assert!(Contents::of(&dir.join("disk.img")) == before, "{label}");
        assert!(!dir.join("new.img").exists(), "{label}");
    }
}
