//! Tables and superblocks that share a disk: neither may hide the other.

use std::fs;

use super::*;

/// A disk that was a member of an array and later got a table, or the other way round. Its bytes do not tell
/// which, so it is not judged, whatever the superblock, the table and the partition's content.
#[test]
fn a_table_beside_the_superblock_of_an_array_is_no_pass() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    for (table, made) in BESIDE_A_MARK {
        let contents = [63, 2048].into_iter().flat_map(|start| IN_IT.map(|content| (start, content)));
        for (start, content) in cases(contents, 4) {
            let dir = Dir::new("beside-stale");
            dir.image("disk", LEN);
            shell(&made.replace("START", &start.to_string()), dir.path());
            shell(&content.replace("START", &start.to_string()), dir.path());
            fs::rename(dir.join("disk"), dir.join("table")).unwrap();
            for (mark, at, data, is_rival) in MARKS {
                // A superblock 1.1 occupies the first sector and those that follow.
                if mark == "1.1" && !matches!(table, "dos" | "amiga") {
                    continue;
                }
                shell("cp --sparse=always table disk", dir.path());
                let disk = fs::OpenOptions::new().write(true).open(dir.join("disk")).unwrap();
                // Written without its end, the superblock at byte 0 leaves room for a table after its first
                // 256 bytes.
                let block = md_1(at, data, (LEN >> 9) - 8192);
                disk.write_all_at(&block[..if at == 0 { 384 } else { 512 }], at).unwrap();
                drop(disk);
                let checked = straddle_in(dir.path(), &["check", "disk"]);
                let what = format!("{mark}, {made}, {start}, {content}: {}", transcript(&checked));
                let status = checked.status.code();
                if is_rival {
                    assert_eq!(status, Some(3), "{what}");
                    assert!(transcript(&checked).contains("cannot tell which"), "{what}");
                    assert!(transcript(&checked).contains(&format!("partition table ({table})")), "{what}");
                    assert!(!transcript(&checked).contains("straddle realign"), "{what}");
                    continue;
                }
                // The table belongs to the array, which begins where the disk does: its partitions are judged
                // by their starts.
                let judged = match (table, start) {
                    ("dos" | "gpt", 2048) => 0,
                    ("dos" | "gpt", _) => 1,
                    _ => 3,
                };
                assert_eq!(status, Some(judged), "{what}");
            }
        }
    }
}

/// A file system that fills a disk and whose boot sector resembles a table is what blkid says it is, and no
/// command overwrites it. But it does not pass either, because the kernel lists the partition. If that
/// partition has content, the table counts.
#[test]
fn a_table_in_a_boot_sector_does_not_hide_the_file_system() {
    if !present(&["blkid", "mkfs.ext4"]) {
        return;
    }
    for (tool, made, name) in BOOT_SECTORS {
        if !present(&[tool]) {
            continue;
        }
        let entries = [(0, 7, 63), (0, 0x83, 2048), (3, 0x0C, 63), (1, 0x83, 64)];
        for (slot, kind, start) in cases(entries.into_iter(), 3) {
            for content in IN_IT {
                let dir = Dir::new("boot-sector");
                let disk = dir.image("disk", LEN);
                shell(made, dir.path());
                let disk = fs::OpenOptions::new().write(true).open(disk).unwrap();
                let mut entries = [0; 66];
                let entry = &mut entries[slot * 16..][..16];
                entry[4] = kind;
                entry[8..12].copy_from_slice(&u32::to_le_bytes(start));
                entry[12..].copy_from_slice(&u32::to_le_bytes(80000));
                entries[64..].copy_from_slice(b"\x55\xAA");
                disk.write_all_at(&entries, 446).unwrap();
                drop(disk);
                let what = format!("{made}, slot {slot}, {start}, {content}");
                shell(&content.replace("START", &start.to_string()), dir.path());
                let checked = straddle_in(dir.path(), &["check", "disk"]);
                let what = format!("{what}: {}", transcript(&checked));
                if content.starts_with("mkfs") {
                    let counts = ["partition 1 of 1", "aligned: 1 partition"];
                    assert!(counts.iter().any(|count| transcript(&checked).contains(count)), "{what}");
                    continue;
                }
                assert_eq!(named(dir.path()), name, "{what}");
                assert_eq!(checked.status.code(), Some(3), "{what}");
                assert!(transcript(&checked).contains(&format!(", {name}, ")), "{what}");
                assert!(transcript(&checked).contains("cannot tell which"), "{what}");
                assert!(
                    !transcript(&checked).contains("sfdisk") && !transcript(&checked).contains("\n    mkfs."),
                    "{what}"
                );
                let refused = straddle_in(dir.path(), &["plan", "disk", "--add", "1MiB"]);
                assert_eq!(refused.status.code(), Some(4), "{what}");
            }
        }
    }
}
