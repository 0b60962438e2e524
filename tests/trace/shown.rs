//! The page, the comma-separated values, and the sentences of `trace`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::tools::{json, straddle};

/// Volume 7 starts one sector early, volume 8 is aligned; both write 4 KiB, and one name has markup in it.
fn trace(dir: &TempDir) -> String {
    let mut lines = "time_ms,volume,op,offset,length\n".to_owned();
    for block in 0..100 {
        let at = block * 3;
        lines += &format!("{at},7,W,{},4096\n{at},8,W,{},4096\n", block * 32768 + 3584, block * 4096);
        lines += &format!("{at},<b>&,R,{},512\n", block * 512);
    }
    let path = dir.path().join("a.csv").to_str().unwrap().to_owned();
    fs::write(&path, lines).unwrap();
    path
}

#[test]
fn the_sentences_say_what_the_load_costs_and_whose_it_is() {
    let dir = TempDir::new().unwrap();
    let path = trace(&dir);
    let run = straddle(&["trace", &path]);
    let text = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    // 100 writes of two units and 100 of one, each for 4 KiB; each writes 16 KiB or 32 KiB where a unit is 16
    // KiB. Of volume 7's, which begin 3584 bytes behind multiples of 32 KiB, each stays in one.
    for part in [
        "For each byte requested, 1.50 bytes (1.00 if aligned) are written on 4 KiB sectors, and 4.00 (the \
         same if aligned) on 16 KiB units.",
        "50 % of the excess on 16 KiB units is caused by 4 KiB writes of volume 8.",
        "On 4 KiB sectors, each write needs 1.00 read-modify-writes on average.",
        "If volume 7 started 1 sector later, 0.0 % of its writes would be misaligned on 4 KiB sectors, \
         instead of 100.0 %.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let wide = straddle(&["trace", &path, "--best", "--merge-within", "10ms"]);
    assert_eq!(wide.code, 0);
    assert!(wide.out.contains("100.0 %  ·███████████"), "{}", wide.out);
    let widest =
        wide.out.lines().filter(|line| !line.contains("a.csv")).map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 110, "{}", wide.out);
    assert!(!wide.out.contains("sector 7") && straddle(&["trace", &path, "-v"]).out.contains("sector 7"));
    let picture = dir.path().join("a.svg").to_str().unwrap().to_owned();
    assert_eq!(straddle(&["trace", &path, "--svg", &picture]).code, 0);
    let svg = fs::read_to_string(&picture).unwrap();
    // Six units, each as it is and aligned, and 32 starts.
    assert_eq!(svg.matches("</title></rect>").count(), 2 * 6 + 32);
    assert!(svg.contains(&format!("<desc>Made by straddle {}", env!("CARGO_PKG_VERSION"))), "{svg}");
}

#[test]
fn behind_a_cache_neighbours_become_whole_units() {
    let dir = TempDir::new().unwrap();
    let path = trace(&dir);
    let merged = |within: &str| {
        let report = json("trace", &["trace", &path, "--json", "--unit", "16KiB", "--merge-within", within]);
        let volume = |index: usize| report["volumes"][index]["writes"]["units"][0]["merged"].clone();
        [0, 1].map(|index| (volume(index)["written_units"].clone(), volume(index)["partial_units"].clone()))
    };
    // Volume 8 writes a block every 3 ms in order: four make a unit, within 9 ms. Volume 7's writes have no
    // neighbours.
    assert_eq!(merged("9ms"), [(100.into(), 100.into()), (25.into(), 0.into())]);
    assert_eq!(merged("8ms"), [(100.into(), 100.into()), (50.into(), 50.into())]);
    let once = dir.path().join("once").to_str().unwrap().to_owned();
    fs::write(&once, "fio version 2 iolog\nf write 0 512\nf write 512 512\n").unwrap();
    let run = straddle(&["trace", &once, "--merge-within", "1ms"]);
    assert!(run.code == 3 && run.err.contains("once: the trace has no times"), "{}", run.err);
    // Those that come in the same second are merged: Tencent's times count seconds.
    let second = dir.path().join("second").to_str().unwrap().to_owned();
    fs::write(&second, "1538323200,0,8,1,1283\n1538323200,8,8,1,1283\n1538323200,64,8,1,1283\n").unwrap();
    let report = json("trace", &["trace", &second, "--json", "--unit", "8KiB", "--merge-within", "1ms"]);
    let merged = &report["volumes"][0]["writes"]["units"][0]["merged"];
    assert_eq!((&merged["written_units"], &merged["partial_units"]), (&2.into(), &1.into()), "{merged}");
}

#[test]
fn comma_separated_values_are_those_of_the_json() {
    let dir = TempDir::new().unwrap();
    let path = trace(&dir);
    let options = ["trace", &path, "--best", "--merge-within", "5ms", "--unit", "512,4KiB,1MiB"];
    let report = json("trace", &[&options[..], &["--json"]].concat());
    let run = straddle(&[&options[..], &["--csv"]].concat());
    let mut lines = run.out.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect();
    assert_eq!(rows.len(), 9, "{}", run.out);
    for row in &rows {
        let volumes = report["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == row["volume"]).unwrap();
        let operation = &volume[format!("{}s", row["operation"])];
        let units = operation["units"].as_array().unwrap();
        let unit = units
            .iter()
            .find(|unit| unit["unit_bytes"] == row["unit_bytes"].parse::<u64>().unwrap())
            .unwrap();
        let same =
            |value: &Value, column: &str| assert_eq!(value.to_string(), row[column], "{column}: {row:?}");
        same(&operation["requests"], "requests");
        same(&operation["bytes"], "bytes");
        for column in [
            "misaligned_requests",
            "straddling_requests",
            "partial_head_requests",
            "partial_tail_requests",
            "partial_units",
            "touched_units",
        ] {
            same(&unit[column], column);
        }
        same(&unit["best"]["partial_units"], "best_partial_units");
        if row["operation"] == "write" {
            same(&unit["merged"]["written_units"], "merged_written_units");
        }
    }
}
