//! The lab's part of an experiment's file: what is accepted, and what is refused with its place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_drive::Profile;

use super::{Experiment, ExperimentError, Input, SECTOR, Statistic};

const LAB: &str = r#"
name = "own"
title = "Own"
drive = "wd10ears"
[[sources]]
year = 2026
title = "Nowhere"
[[lab]]
name = "copies"
title = "copies"
script = "smith"
variants = ["ext4", "xfs"]
environment = { LAZY = "1", OTHER = "a b" }
input = { kind = "tarball", mebibytes = 4, files = 100, folders = 10 }
memory_mib = 512
measures = [{ name = "untar", title = "extract" }, { name = "read-files", title = "read", direction = "read" }]
arms = [{ name = "at 40", aligned = true, start = 40 }, { name = "at 34", start = 34 }]
published = [{ measure = "untar", of = "greatest", value = 2.0 }]
[[lab.drives]]
drive = "wd10ears"
environment = { LAZY = "0" }
[[lab.drives]]
drive = "st2000dl003"
published = [{ measure = "untar", variant = "xfs", value = 3.0 }]
"#;

#[test]
fn an_entry_of_several_drives_is_a_step_for_each() {
    let experiment = Experiment::parse("own", LAB).unwrap();
    let names: Vec<_> = experiment.lab.iter().map(|step| (step.name.as_str(), step.drive.as_str())).collect();
    assert_eq!(names, [("copies-wd10ears", "wd10ears"), ("copies-st2000dl003", "st2000dl003")]);
    let [wd, seagate] = &experiment.lab[..] else { panic!("{names:?}") };
    let lazy = |value: &str| [("LAZY".to_owned(), value.to_owned()), ("OTHER".to_owned(), "a b".to_owned())];
    assert_eq!((wd.environment.as_slice(), seagate.environment.as_slice()), (&lazy("0")[..], &lazy("1")[..]));
    assert_eq!((wd.published.len(), seagate.published.len()), (1, 2));
    assert_eq!(wd.published[0].of, Statistic::Greatest);
    assert_eq!(wd.input, Some(Input::Tarball { mebibytes: 4, files: 100, folders: 10 }));
    assert_eq!((wd.memory, wd.scale, wd.arms[1].start_byte()), (512 << 20, 1, Some(17408)));
    assert_eq!(wd.variants(), [Some("ext4"), Some("xfs")]);
    assert!(wd.script.contains("measure untar"));
    assert_eq!(experiment.drives(), ["wd10ears", "st2000dl003"]);
    assert_eq!(experiment.on_drive("wd10ears").lab.len(), 1);
}

#[test]
fn a_partition_ends_where_the_article_says() {
    let arms = |table: &str, arms: &str| {
        let text = LAB.replace("memory_mib = 512", &format!("table = \"{table}\""));
        let from = "{ name = \"at 34\", start = 34 }";
        Experiment::parse("own", &text.replace(from, arms)).map(|experiment| experiment.lab[0].arms.clone())
    };
    let length = |table: &str, arm: &str| arms(table, arm).unwrap()[1].length();
    assert_eq!(length("gpt", "{ name = \"at 34\", start = 34, end = 5860533134 }"), Some(5_860_533_101));
    assert_eq!(length("gpt", "{ name = \"at 34\", start = 34, sectors = 8 }"), Some(8));
    assert_eq!(length("gpt", "{ name = \"at 34\", start = 34 }"), None);
    // Sectors 1 to 33 are free with an MBR, which counts to 2^32 - 1.
    assert_eq!(length("mbr", "{ name = \"at 34\", start = 1, sectors = 4294967295 }"), Some(4_294_967_295));
    let error = arms("mbr", "{ name = \"at 34\", start = 1, sectors = 4294967296 }").unwrap_err();
    assert!(error.to_string().contains("an MBR can address at most 4294967295 sectors"), "{error}");
}

#[test]
fn the_published_partitions_lie_on_the_drives_that_they_were_made_on() {
    let mut ends = 0;
    for name in Experiment::names() {
        for step in Experiment::open(name).unwrap().lab {
            let sectors = Profile::open(&step.drive).unwrap().claims.capacity / SECTOR;
            for arm in &step.arms {
                let Some(length) = arm.length() else { continue };
                assert!(arm.start.unwrap() + length <= sectors, "{name}, {}, {}", step.name, arm.name);
                ends += 1;
            }
        }
    }
    assert!(ends > 10, "most articles say where their partitions end");
}

#[test]
fn a_script_of_ones_own_lies_beside_the_file() {
    let folder = std::env::temp_dir().join(format!("straddle-lab-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("own.toml");
    std::fs::write(&path, LAB.replace("\"smith\"", "\"own.sh\"")).unwrap();
    let open = || Experiment::open(path.to_str().unwrap());
    let missing = open().unwrap_err();
    std::fs::write(folder.join("own.sh"), "measure untar true\n").unwrap();
    let script = open().unwrap().lab[0].script.clone();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(missing, ExperimentError::Unreadable { .. }), "{missing}");
    assert_eq!(script, "measure untar true\n");
}

#[test]
fn what_makes_no_lab_step_is_refused_with_its_place() {
    let refused = |from: &str, to: &str, reason: &str| {
        assert!(LAB.contains(from), "{from}");
        let error = Experiment::parse("own", &LAB.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("experiment own") && error.contains(reason), "{error}");
    };
    refused("\"smith\"", "\"smyth\"", "lab step copies: unknown script \"smyth\"");
    refused("start = 34", "start = 33", "the start must be a sector from 34");
    refused("start = 34", "start = 34, aligned = true", "more than one arm");
    refused("start = 34", "start = 34, end = 33", "at 34: the end is before the start");
    refused("start = 34", "start = 34, end = 99, sectors = 66", "not both");
    refused("start = 34", "start = 34, sectors = 0", "1 to");
    refused(", start = 34", ", end = 99", "needs a start");
    refused("memory_mib = 512", "table = \"mbr\"\nruns = 100", "runs");
    refused("memory_mib = 512", "table = \"apm\"", "apm");
    refused("memory_mib = 512", "host = { preset = \"linux-1.0\" }", "unknown host preset \"linux-1.0\"");
    refused("memory_mib = 512", "memory_mib = 1", "memory_mib");
    refused("memory_mib = 512", "scale = 0", "scale");
    refused("files = 100", "files = 0", "input");
    refused("mebibytes = 4", "mebibytes = 100000000", "input");
    refused("LAZY = \"1\"", "\"LA ZY\" = \"1\"", "environment");
    refused("variant = \"xfs\"", "variant = \"zfs\"", "unknown variant \"zfs\"");
    refused("of = \"greatest\"", "of = \"each\"", "needs 'low' and 'high'");
    refused("of = \"greatest\"", "arm = \"at 34\"", "the variant must be specified");
    refused("\"untar\", of", "\"other\", of", "has no such measure");
    refused("value = 2.0", "value = -2.0", "must be above 0");
    refused("title = \"copies\"", "titel = \"copies\"", "titel");
    refused("drive = \"st2000dl003\"", "drives = \"st2000dl003\"", "drives");
}
