//! A table that is written goes over no data that no table accounts for, and `check` offers nothing that would.

use std::fs;
use std::path::Path;

use crate::tools::skip::{cases, is_sampled};
use crate::tools::{Dir, check_in, list, present, shell, straddle_in, text, transcript};

/// A boot loader as sunxi's boards have it from 8 KiB on: a head and 24 KiB that are not zeros.
const LOADER: &str = "{ printf '\\026\\0\\0\\352eGON.BT0'; openssl enc -aes-128-ctr -nosalt -K 1f -iv 2e -in \
                      /dev/zero 2>/dev/null | head -c 24500; } >spl; dd if=spl of=disk.img bs=1k seek=8 \
                      conv=notrunc status=none";

fn run(dir: &Dir, words: &str) -> (i32, String) {
    let output = straddle_in(dir, &words.split(' ').collect::<Vec<_>>());
    (output.status.code().unwrap(), transcript(&output))
}

/// What the fixes of `disk.img` print for the rule `code`: their words, and their commands.
fn fixes(dir: &Dir, code: &str) -> (String, usize) {
    let report = check_in(dir.path(), Path::new("disk.img"), &[]);
    let finding = list(&report, "findings").iter().find(|finding| finding["code"] == code);
    let finding = finding.unwrap_or_else(|| panic!("no {code}: {report}"));
    let of = |fix: &serde_json::Value| fix["commands"].as_array().map_or(0, Vec::len);
    let summary = finding["fix"]["summary"].as_str().unwrap_or_default().to_owned();
    (summary, of(&finding["fix"]) + of(&finding["alternative"]))
}

/// What is refused names the first byte, writes nothing, and is done with `--wipe`, which names what it writes over.
/// What comes after the plan is found by `apply`.
/// Whether the text names this byte, and not one that only begins with its digits.
fn names_byte(text: &str, at: u64) -> bool {
    text.split(&format!("byte {at}")).skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn a_boot_loader_where_a_table_belongs_stays() {
    if !present(&["sgdisk", "sfdisk", "mkfs.ext4", "openssl", "jq"]) {
        return;
    }
    let gpt = "sgdisk -n 1:2048:40000 disk.img >/dev/null";
    let mbr = "echo 'start=2048, size=38912, type=83' | sfdisk -q disk.img; mkfs.ext4 -q -E offset=1048576 disk.img 19M";
    let core = "openssl enc -aes-128-ctr -nosalt -K 1f -iv 2e -in /dev/zero 2>/dev/null | head -c 30000 \
                | dd of=disk.img bs=512 seek=1 conv=notrunc status=none";
    let repair = "--repair --relocate-backup";
    let fresh = "--table gpt --part rest";
    let cases = [
        (
            "in the entries",
            format!("{gpt}; {LOADER}"),
            repair,
            8192,
            Some(("S031", "a copy of the table would overwrite")),
        ),
        ("behind an MBR", format!("{mbr}; {LOADER}"), fresh, 8192, None),
        ("GRUB's core", format!("{mbr}; {core}"), fresh, 512, None),
        (
            "at the end of a disk that has grown",
            format!(
                "{gpt}; truncate -s 32M disk.img; openssl enc -aes-128-ctr -nosalt -K 1f -iv 2e -in \
                 /dev/zero 2>/dev/null | head -c 10240 | dd of=disk.img bs=512 seek={} conv=notrunc \
                 status=none",
                65_536 - 20
            ),
            repair,
            (65_536 - 20) * 512,
            Some(("S034", "a copy of the table would overwrite")),
        ),
    ];
    for (what, make, wanted, at, finding) in cases {
        let dir = Dir::new("tables");
        shell(&format!("truncate -s 24M disk.img; {make}"), dir.path());
        if let Some((code, said)) = finding {
            let (summary, commands) = fixes(&dir, code);
            assert!(summary.contains(said) && names_byte(&summary, at), "{what}: {summary}");
            assert_eq!(commands, 0, "{what}");
        }
        let before = shell("sha256sum disk.img", dir.path());
        let (status, said) = run(&dir, &format!("plan disk.img {wanted} --save plan.json"));
        assert_eq!(status, 4, "{what}: {said}");
        assert!(said.contains(&format!("would overwrite data at byte {at}, ")), "{what}: {said}");
        assert!(
            said.contains("To allow this, use --wipe") && !dir.join("plan.json").exists(),
            "{what}: {said}"
        );
        assert_eq!(shell("sha256sum disk.img", dir.path()), before, "{what}");
        let (status, said) = run(&dir, &format!("plan disk.img {wanted} --wipe --save plan.json"));
        let said = text(said.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(status, 0, "{what}: {said}");
        assert!(said.contains("outside partitions: unrecognised data"), "{what}: {said}");
        assert!(said.contains(&format!("from byte {at}")), "{what}: {said}");
        // The same plan without that consent.
        let mut plan: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(dir.join("plan.json")).unwrap()).unwrap();
        let given_up = plan["lost"].as_array_mut().unwrap();
        given_up.retain(|lost| !lost["partition"].is_null());
        fs::write(dir.join("other.json"), plan.to_string()).unwrap();
        let (status, said) = run(&dir, "apply other.json --write disk.img");
        assert!(status == 4 && said.contains(&format!("byte {at}, ")), "{what}: {status}: {said}");
        assert_eq!(shell("sha256sum disk.img", dir.path()), before, "{what}");
        let (status, said) = run(&dir, "apply plan.json --write disk.img");
        assert_eq!(status, 0, "{what}: {said}");
        shell("sgdisk -v disk.img | grep -q 'No problems found'", dir.path());
    }
}

/// What tools leave behind is in nobody's way: tables of the disk when it was smaller or larger, of other formats, and
/// damaged copies.
#[test]
fn what_tools_leave_behind_is_written_over() {
    if !present(&["sgdisk", "sfdisk", "parted"]) {
        return;
    }
    let made = [
        "sgdisk -n 1:2048:4095 -n 2:8192:20000 -c 2:'größer' disk.img",
        "echo 'label: gpt\nstart=2048, size=2048\nstart=8192, size=9000, name=\"two\", attrs=\"GUID:59\"' | sfdisk disk.img",
        "parted -s disk.img mklabel gpt mkpart one 1MiB 20MiB mkpart two 20MiB 30MiB",
        "echo 'start=2048, size=2048\nstart=8192, type=5\nstart=10240, size=2048, type=83' | sfdisk disk.img",
    ];
    let then = [
        "true",
        // Grown, and the copy at the old end stays.
        "truncate -s 80M disk.img",
        // The same, relocated once by each tool.
        "truncate -s 80M disk.img; sgdisk -e disk.img; truncate -s 96M disk.img",
        "truncate -s 80M disk.img; sfdisk --relocate gpt-bak-std disk.img; truncate -s 96M disk.img",
        // Cut off: what is left of the copy at the end.
        "sgdisk -e disk.img; truncate -s $((64 * 1024 * 1024 - 4096)) disk.img",
        // An MBR over a GPT, and a GPT over that.
        "echo 'start=2048' | sfdisk --label dos disk.img",
        "sgdisk -o -n 1:2048:30000 disk.img",
        "sgdisk -S 56 disk.img",
        "sgdisk -d 1 disk.img",
        // Damage.
        "dd if=/dev/zero of=disk.img bs=512 seek=1 count=1 conv=notrunc",
        "dd if=/dev/zero of=disk.img bs=512 seek=2 count=1 conv=notrunc",
        "printf x | dd of=disk.img bs=1 seek=1100 conv=notrunc",
        "printf 'garbled' | dd of=disk.img bs=1 seek=1026 conv=notrunc",
        "printf 'garbled' | dd of=disk.img bs=1 seek=$((64 * 1024 * 1024 - 510)) conv=notrunc",
    ];
    let wanted = [
        "--repair",
        "--repair --relocate-backup",
        "--table gpt --part rest",
        "--table mbr --part 10MiB",
        "--add 1MiB",
    ];
    let mut written = 0;
    let all = made.into_iter().flat_map(|make| then.map(|change| (make, change)));
    for (make, change) in cases(all, 9) {
        // Where there is no GPT, that is somebody's.
        if change.starts_with("printf") && make.contains("type=5") {
            continue;
        }
        let dir = Dir::new("leftovers");
        shell(&format!("truncate -s 64M disk.img; {{ {make}; }} >/dev/null 2>&1"), dir.path());
        shell(&format!("{{ {change}; }} >/dev/null 2>&1 || true"), dir.path());
        for plan in wanted {
            shell("cp disk.img copy.img; rm -f plan.json*", dir.path());
            let (status, said) = run(&dir, &format!("plan copy.img {plan} --save plan.json"));
            assert!(!said.contains("would overwrite data at byte"), "{make}; {change}; {plan}: {said}");
            if status == 0 {
                let (status, said) = run(&dir, "apply plan.json --write copy.img");
                assert!(!said.contains("would overwrite data at byte"), "{make}; {change}; {plan}: {said}");
                written += u32::from(status == 0);
            }
        }
    }
    assert!(written > if is_sampled() { 10 } else { 100 }, "{written} tables written");
}
