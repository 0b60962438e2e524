//! Messages of other programs as `straddle explain` takes them: printed by the tools and the kernel as they stand here, or
//! written in their sources.

use std::collections::HashMap;
use std::path::Path;

use super::straddle;
use super::tools::{self, Dir, Guest, flat, present, shell, skipped};

/// The rows of a table in `messages.toml`: words to find the message by, the topic, and what its numbers come to.
fn rows(name: &str) -> Vec<(Vec<String>, String, Option<String>)> {
    let mut tables: HashMap<String, Vec<Vec<String>>> =
        toml::from_str(include_str!("messages.toml")).unwrap();
    let found = if name == "kernel" { 2 } else { 3 };
    let parts = |mut row: Vec<String>| {
        let mut rest = row.split_off(found).into_iter();
        (row, rest.next().unwrap(), rest.next())
    };
    tables.remove(name).unwrap().into_iter().map(parts).collect()
}

/// Asserts that a message, as one word or as many, is explained by the topic alone, and what its numbers come to, if they
/// decide anything.
#[track_caller]
fn is_explained(message: &str, topic: &str, numbers: Option<&str>) {
    let words: Vec<&str> = message.split_whitespace().collect();
    for words in [&[message][..], &words] {
        let run = straddle(&[&["explain", "--json", "--"], words].concat());
        assert_eq!(run.code, 0, "{message}: {}", run.err);
        let report = run.valid("explain");
        let topics = report["topics"].as_array().unwrap();
        let named: Vec<&str> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
        assert_eq!(named, [topic], "{message}");
        let said = topics[0]["numbers"].as_array().unwrap();
        let has = |part| said.iter().any(|said| said.as_str().unwrap().contains(part));
        assert!(numbers.map_or(said.is_empty(), has), "{message}: {said:?}");
    }
}

fn begins<'a>(said: &'a str, with: &str) -> Option<&'a str> {
    said.lines().map(|line| line.trim_start_matches(char::is_control)).find(|line| line.starts_with(with))
}

/// The disk that most commands are about, and others, made in the current directory.
fn made() -> String {
    let table = "printf 'label: gpt\\nstart=2048,size=40000\\n' | sfdisk -q --no-tell-kernel";
    format!(
        "zero() {{ dd if=/dev/zero of=disk.img bs=512 seek=$1 count=1 conv=notrunc status=none; }}\n\
         rm -f *.img; truncate -s 64M disk.img odd.img order.img part.img; {table} disk.img; {} odd.img\n\
         printf 'label: dos\\nstart=43008,size=2000\\nstart=2048,size=2000\\n' | sfdisk -q --no-tell-kernel --force order.img\n",
        table.replace("2048", "2049")
    )
}

#[test]
fn messages_of_other_tools_are_explained_as_they_are_printed() {
    let dir = Dir::new("messages");
    for (found, topic, numbers) in rows("said") {
        let [needed, command, with] = &found[..] else { panic!("{found:?}") };
        if !present(&needed.split(' ').collect::<Vec<_>>()) {
            continue;
        }
        let said = shell(&format!("{}{{ {command}; }} 2>&1 || true", made()), dir.path());
        let message = begins(&said, with).unwrap_or_else(|| panic!("{command}: {said}"));
        is_explained(message, &topic, numbers.as_deref());
    }
}

#[test]
fn messages_about_devices_are_explained_as_they_are_printed() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        skipped("loop devices need root");
        return;
    }
    let dir = Dir::new("messages-devices");
    for (found, topic, numbers) in rows("devices") {
        let [needed, command, with] = &found[..] else { panic!("{found:?}") };
        if !present(&[&["losetup", "sfdisk"], &needed.split(' ').collect::<Vec<_>>()[..]].concat()) {
            continue;
        }
        let line = format!(
            "{}truncate -s 64M small.img other.img\n\
             L=$(losetup --find --show small.img); K=$(losetup --find --show --sector-size 4096 other.img)\n\
             trap 'losetup --detach $L $K' EXIT\n\
             sfdisk_at() {{ printf 'label: gpt\\nstart=256,size=2560\\n' | sfdisk -q --no-tell-kernel --no-reread $1; }}\n\
             qemu_at() {{ mkfs.ext4 -q $1; mkdir -p mnt; mount $1 mnt; truncate -s 2097664 mnt/a; \
             qemu-io -f raw -t none -c 'write 0 4096' mnt/a; truncate -s %1MiB mnt/a; \
             qemu-io -f raw -t none -c 'write 0 4096' mnt/a && echo longer; umount mnt; }}\n\
             {{ {command}; }} 2>&1 || true",
            made()
        );
        let said = shell(&line, dir.path());
        let message = begins(&said, with).unwrap_or_else(|| panic!("{command}: {said}"));
        is_explained(message.trim(), &topic, numbers.as_deref());
        assert!(
            !command.starts_with("qemu") || said.contains("longer"),
            "a whole MiB is not refused: {said}"
        );
    }
}

/// What is said of a table in other sectors is true: a check finds it, the view that is named shows it, and sgdisk -e
/// destroys it.
#[test]
fn a_table_in_other_sectors_is_shown_by_the_view_that_is_named() {
    if !rustix::process::geteuid().is_root() || !present(&["losetup", "sfdisk", "sgdisk", "fdisk"]) {
        skipped("loop devices need root");
        return;
    }
    let dir = Dir::new("messages-view");
    let line = format!(
        "{}rm disk.img; truncate -s 64M disk.img; d=$(losetup --find --show -b 4096 disk.img)\n\
         printf 'label: gpt\\nstart=256,size=2560\\n' | sfdisk -q --no-tell-kernel --no-reread $d; losetup -d $d\n\
         cp disk.img copy.img; fdisk -l disk.img 2>&1 | head -n 1",
        made()
    );
    let message = shell(&line, dir.path());
    let said = flat(&straddle(&["explain", message.trim()]).out);
    let view = "losetup --find --show --read-only --partscan -b 4096 DISK";
    assert!(
        said.contains(view) && !said.contains("Nothing is lost") && said.contains("no sgdisk -e"),
        "{said}"
    );
    let disk = dir.join("disk.img");
    let found = straddle(&["check", "--json", disk.to_str().unwrap()]).json();
    assert_eq!(found["targets"][0]["partitions"][0]["start_bytes"], 1_048_576, "{found}");
    let shown =
        shell(&format!("d=$({}); sfdisk -d $d; losetup -d $d", view.replace("DISK", "disk.img")), dir.path());
    assert!(shown.contains("start=         256, size=        2560"), "{shown}");
    shell("sgdisk -e copy.img >/dev/null; sync copy.img", dir.path());
    let shown =
        shell(&format!("d=$({}); sfdisk -d $d; losetup -d $d", view.replace("DISK", "copy.img")), dir.path());
    assert!(!shown.contains("size=        2560"), "{shown}");
}

/// The kernel's own words, of disks that a guest has.
#[test]
fn messages_of_a_kernel_are_explained_as_they_are_printed() {
    if !present(&["linux.uml", "mkfs.xfs", "mkfs.ext4", "mkfs.fat", "mkswap", "dmsetup", "fio", "losetup"]) {
        return;
    }
    let guest = Guest::run("messages.sh", "1G");
    let said = guest.text("said");
    for (found, topic, numbers) in rows("kernel") {
        let [from, part] = &found[..] else { panic!("{found:?}") };
        let is_it = |line: &&str| line.starts_with(&format!("{from} ")) && line.contains(part);
        let line = said.lines().find(is_it).unwrap_or_else(|| panic!("{from}: {said}"));
        is_explained(&line[from.len() + 1..], &topic, numbers.as_deref());
    }
    assert!(said.contains("view mounted"), "512-byte sectors are shown by losetup -b 512: {said}");
}

/// The length of an image: what a platform takes, by the tool that makes it, and what the advice comes to.
#[test]
fn the_size_of_a_whole_image_is_compared_with_its_storage() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let dir = Dir::new("messages-size");
    let found = |options: &[&str], name: &str| {
        let path = dir.join(name);
        let report = straddle(&[&["check", "--json"], options, &[path.to_str().unwrap()]].concat()).json();
        let findings = report["targets"][0]["findings"].as_array().unwrap().clone();
        let own = findings.into_iter().find(|finding| finding["code"] == "S072");
        own.map(|finding| (finding["severity"].as_str().unwrap().to_owned(), finding["message"].to_string()))
    };
    shell(
        "table() { printf 'start=2048,size=4096,type=linux\\n' | sfdisk -q --no-tell-kernel --label gpt $1; }\n\
         truncate -s $(((2048 + 4096 + 33) * 512)) odd.img; table odd.img; truncate -s 100M raw.img; table raw.img; truncate -s 2097700 part.img\n\
         cp odd.img longer.img; truncate -s %1MiB longer.img; truncate -s 1G gce.img\n\
         vhd() { qemu-img convert -f raw -O vpc -o subformat=$1 raw.img $2; }\n\
         vhd fixed chs.vhd; vhd fixed,force_size ok.vhd; vhd dynamic,force_size dynamic.vhd",
        dir.path(),
    );
    let severity = |options: &[&str], name: &str| found(options, name).map(|(severity, _)| severity);
    for (options, name, expected) in [
        (&[][..], "odd.img", None),
        (&["--assume", "4kn"], "odd.img", Some("warning")),
        (&["--assume", "512e"], "odd.img", Some("advice")),
        (&["--assume", "512n"], "odd.img", None),
        (&["--assume", "4kn"], "longer.img", None),
        // What nobody recognises may not be a disk.
        (&[], "part.img", None),
        (&["--assume", "4kn"], "raw.img", None),
        (&["--for", "azure"], "raw.img", Some("advice")),
        (&["--for", "azure"], "chs.vhd", Some("error")),
        (&["--for", "azure"], "ok.vhd", None),
        (&["--for", "azure"], "dynamic.vhd", Some("advice")),
        (&[], "chs.vhd", None),
        (&["--for", "gce"], "raw.img", Some("error")),
        (&["--for", "gce"], "gce.img", None),
    ] {
        assert_eq!(
            severity(options, name).as_deref(),
            expected,
            "{options:?} {name}: {:?}",
            found(options, name)
        );
    }
    let (_, message) = found(&["--assume", "4kn"], "odd.img").unwrap();
    let rest = ((2048 + 4096 + 33) * 512) % 4096;
    assert!(message.contains(&format!("{rest} more than a multiple of the 4096-byte")), "{message}");
    // As advised for a VHD whose size is rounded: raw, longer, and back.
    tools::shell(
        "qemu-img convert -O raw chs.vhd new.raw; truncate -s 105906176 new.raw; \
         qemu-img convert -O vpc -o subformat=fixed,force_size new.raw new.vhd",
        dir.path(),
    );
    assert_eq!(found(&["--for", "azure"], "new.vhd"), None);
    assert_eq!(straddle(&["check", "--for", "aws", "x"]).code, 2);
}
