//! The formats that an NVMe drive offers: as nvme-cli reads them, and in a tree that `tests/sysroots/capture`
//! makes in the machine, with the drive's own answers.

use std::path::Path;

use serde_json::Value;

use crate::tools::{list, number, straddle, word};

/// Compares the report's formats with those of `nvme id-ns` and the abilities of `nvme id-ctrl`.
pub(crate) fn check_formats(report: &Value, said: &Value, drive: &Value) {
    let rank = |format| usize::try_from(number(format, "rp") & 3).unwrap();
    let theirs = |(at, format)| {
        let performance = ["best", "better", "good", "degraded"][rank(format)].to_owned();
        (at, 1 << number(format, "ds"), number(format, "ms"), performance)
    };
    let numbered = (0..).zip(list(said, "lbafs")).filter(|(_, format)| number(format, "ds") >= 9);
    let ours = |format| {
        let field = |name| number(format, name);
        (field("number"), field("logical_sector_bytes"), field("metadata_bytes"), word(format, "performance"))
    };
    let shown = list(report, "list");
    let expected: Vec<(u64, u64, u64, String)> = numbered.map(theirs).collect();
    assert_eq!(shown.iter().map(ours).collect::<Vec<_>>(), expected);
    let in_force = shown.iter().find(|format| format["in_force"] == true);
    assert_eq!(in_force.map(|format| number(format, "number")), Some(number(said, "flbas") & 15));
    assert_eq!(report["has_command"], number(drive, "oacs") & 2 != 0);
    assert_eq!(report["formats_all_namespaces"], number(drive, "fna") & 1 != 0);
}

/// The shell lines that capture the disk in $D.
pub(crate) fn capture() -> String {
    let script = include_str!("../sysroots/capture");
    format!("cat >/tmp/capture <<'CAPTURE'\n{script}CAPTURE\nbash /tmp/capture \"$OUT/captured\" \"$D\"\n")
}

/// Checks the captured tree of an NVMe drive, of which `live` is the audit of the drive itself.
pub(crate) fn check_captured(out: &Path, live: &Value) {
    let root = out.join("captured");
    let kept = straddle(&["check", "--json", "--sysroot", root.to_str().unwrap()]).json();
    let kept = &kept["targets"][0]["device"];
    assert!(live["formats"]["list"].is_array(), "{live}");
    for figure in ["formats", "logical_sector_bytes", "physical_sector_bytes"] {
        assert_eq!(kept[figure]["list"], live[figure]["list"], "{figure}");
        assert_eq!(kept[figure]["value"], live[figure]["value"], "{figure}");
    }
    assert_eq!(kept["formats"]["has_command"], live["formats"]["has_command"], "{kept}");
    // The serial number, which QEMU was given, is in none of the files.
    for entry in std::fs::read_dir(root.join("answers/nvme0n1")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(bytes.len() == 4096 && !bytes.windows(8).any(|window| window == b"straddle"));
    }
}
