//! What others make of the same traces: DuckDB with the SQL of docs/trace.md, and nvmeiuwaf's formula.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tempfile::TempDir;

use super::tools::{json, present, straddle};

/// A Python that has DuckDB, in a folder of its own; `None` if it cannot be had.
static DUCKDB: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("duckdb");
    let python = folder.join("bin/python");
    let has_it = |python: &Path| {
        Command::new(python).args(["-c", "import duckdb"]).output().is_ok_and(|run| run.status.success())
    };
    if !has_it(&python) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
        let pip = folder.join("bin/pip");
        if made.is_ok_and(|run| run.status.success()) {
            let _ = Command::new(pip).args(["install", "--quiet", "duckdb"]).output();
        }
    }
    has_it(&python).then_some(python)
});

fn duckdb() -> Option<&'static Path> {
    if !present(&["python3"]) {
        return None;
    }
    let found = DUCKDB.as_deref();
    if found.is_none() {
        super::tools::skipped("duckdb cannot be installed (python3 -m venv, pip install duckdb)");
    }
    found
}

/// Runs a statement; returns its rows.
fn query(python: &Path, dir: &TempDir, statement: &str) -> Vec<Vec<Value>> {
    let script = "import duckdb, json, sys\n\
                  rows = duckdb.connect().execute(sys.stdin.read()).fetchall()\n\
                  print(json.dumps(rows, default=str))";
    let mut command = Command::new(python);
    command.args(["-c", script]).current_dir(dir.path());
    let out = super::tools::run(&mut command, statement);
    serde_json::from_str(&out).unwrap()
}

/// The SQL of the documentation.
fn documented() -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/trace.md")).unwrap();
    let (_, rest) = page.split_once("```sql\n").expect("docs/trace.md has the SQL");
    rest.split_once("```").unwrap().0.to_owned()
}

/// Returns the rows of `trace --csv` by volume, operation and unit.
fn ours(arguments: &[&str]) -> BTreeMap<[String; 3], Vec<u64>> {
    let run = straddle(&[&["trace", "--csv"], arguments].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let rows = run.out.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let number = |text: &String| text.parse().unwrap();
    rows.map(|row| {
        let numbers = [3, 5, 6, 7, 8, 9, 10].map(|column| number(&row[column])).to_vec();
        ([row[0].clone(), row[1].clone(), row[2].clone()], numbers)
    })
    .collect()
}

/// Returns the same as [`ours`] from the documented SQL.
fn theirs(python: &Path, dir: &TempDir, file: &str, started_at: u64) -> BTreeMap<[String; 3], Vec<u64>> {
    let sql = documented().replace("'trace.csv'", &format!("'{file}'"));
    let sql = sql.replace("SELECT 0 AS started_at", &format!("SELECT {started_at} AS started_at"));
    let rows = query(python, dir, &sql).into_iter().map(|row| {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let operation = match word(&row[1]).as_str() {
            "R" => "read",
            "W" => "write",
            other => panic!("{other}"),
        };
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| word(value).parse().unwrap());
        let numbers = row[3..10].iter().map(number).collect();
        ([word(&row[0]), operation.to_owned(), word(&row[2])], numbers)
    });
    rows.collect()
}

/// Writes a trace of random requests, of which some are on no sector.
fn trace(dir: &TempDir, seed: u64, count: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut lines = "time_us,volume,op,offset,length\n".to_owned();
    for at in 0..count {
        let volume = random.below(5);
        let op = if random.once_in(3) { "R" } else { "W" };
        let unit = [1, 512, 4096][random.index(3)];
        let (offset, length) =
            (random.below(1 << 40) / unit * unit, (1 + random.below(1 << 22)) / unit * unit);
        writeln!(lines, "{at},{volume},{op},{offset},{}", length.max(1)).unwrap();
    }
    let path = dir.path().join("trace.csv");
    fs::write(&path, lines).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn duckdb_finds_the_same_in_csv_and_in_each_kind_of_parquet() {
    let Some(python) = duckdb() else { return };
    let dir = TempDir::new().unwrap();
    let trace = trace(&dir, 31, 3000);
    let units = ["--unit", "4KiB,8KiB,16KiB,32KiB,64KiB,1MiB"];
    for start in [0, 63] {
        let place = format!("{start}s");
        let ours = ours(&[&[&trace, "--started-at", &place], &units[..]].concat());
        assert_eq!(ours, theirs(python, &dir, "trace.csv", start * 512), "seed 31, start {start}");
    }
    let expected = ours(&[&[&trace[..]], &units[..]].concat());
    let table = dir.path().join("own.parquet").to_str().unwrap().to_owned();
    assert_eq!(straddle(&["trace", &trace, "--to", "parquet", &table]).code, 0);
    assert_eq!(theirs(python, &dir, "own.parquet", 0), expected, "DuckDB reads our table");
    // Each with other types, sizes of groups, packing and names.
    let columns =
        "volume::VARCHAR AS volume, op, \"offset\"::UBIGINT AS \"offset\", \"length\"::INTEGER AS \"length\"";
    let kinds = [
        (format!("time_us, {columns}"), "COMPRESSION uncompressed", ""),
        (
            format!("make_timestamp(time_us) AS time, {columns}"),
            "COMPRESSION snappy, ROW_GROUP_SIZE 2048",
            "",
        ),
        (format!("make_timestamp_ns(time_us * 1000) AS time, {columns}"), "COMPRESSION zstd", ""),
        (format!("time_us / 1e6 AS time, {columns}"), "COMPRESSION lz4_raw", ""),
        (
            "time_us::UBIGINT AS ts, volume::SMALLINT AS disk, (op = 'W') AS is_write, \"offset\" AS o, \"length\" AS n"
                .to_owned(),
            "COMPRESSION gzip, PARQUET_VERSION v2",
            "time=ts:us,op=is_write:false/true,offset=o,length=n,volume=disk",
        ),
        (
            "time_us AS ts, volume AS disk, (op = 'W')::UTINYINT AS kind, \"offset\" AS o, \"length\" AS n".to_owned(),
            "COMPRESSION zstd, PARQUET_VERSION v2",
            "time=1:us,op=kind:0/1,offset=4,length=5,volume=2",
        ),
    ];
    let sim = |path: &str, map: &[&str]| {
        let arguments = ["sim", path, "--drive", "qlc-16k", "--wrap", "--json", "--closed-loop"];
        json("sim", &[&arguments[..], map].concat())["runs"].clone()
    };
    for (columns, options, map) in kinds {
        let statement =
            format!("COPY (SELECT {columns} FROM 'trace.csv') TO 'kind.parquet' (FORMAT parquet, {options})");
        query(python, &dir, &statement);
        let path = dir.path().join("kind.parquet").to_str().unwrap().to_owned();
        let map = if map.is_empty() { vec![] } else { vec!["--columns", map] };
        assert_eq!(ours(&[&[&path[..]], &units[..], &map].concat()), expected, "{options}: {columns}");
        // The replay reads the times as well.
        let aligned = dir.path().join("aligned.csv").to_str().unwrap().to_owned();
        query(
            python,
            &dir,
            "COPY (SELECT time_us, volume, op, \"offset\" // 512 * 512 AS \"offset\", 4096 AS \"length\" FROM 'trace.csv' LIMIT 300) \
             TO 'aligned.csv' (HEADER)",
        );
        let statement = format!(
            "COPY (SELECT {columns} FROM 'aligned.csv') TO 'kind.parquet' (FORMAT parquet, {options})"
        );
        query(python, &dir, &statement);
        assert_eq!(sim(&path, &map), sim(&aligned, &[]), "{options}: {columns}");
    }
}

#[test]
fn a_table_with_wrong_columns_or_values_is_named_with_its_row() {
    let Some(python) = duckdb() else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.parquet").to_str().unwrap().to_owned();
    let wrong = |rows: &str, options: &[&str], says: &str| {
        query(
            python,
            &dir,
            &format!(
                "COPY (SELECT * FROM (VALUES {rows}) AS t(op, \"offset\", \"length\")) TO 't.parquet' (FORMAT parquet)"
            ),
        );
        let run = straddle(&[&["trace", &path[..]], options].concat());
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{says}: {}", run.err);
        assert!(run.err.contains(says), "{says}: {}", run.err);
    };
    wrong("('R', 0, 512), ('X', 0, 512)", &[], "t.parquet: row 2: op = \"X\"");
    wrong("('R', 0, 512), ('R', -1, 512)", &[], "t.parquet: row 2: offset = \"-1\"");
    wrong("('R', 0, 512), ('R', NULL, 512)", &[], "t.parquet: row 2: offset = \"\": there is no value");
    wrong("('R', 'a', 512)", &[], "the column \"offset\" is of type");
    wrong("('R', 0, 512)", &["--columns", "op=kind"], "there is no column \"kind\"");
    wrong("('R', 0, 512)", &["--merge-within", "1ms"], "there is no column \"time\"");
    wrong("(1, 0, 512)", &[], "is not an operation; specify the values with --columns op=COLUMN:READ/WRITE");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes.truncate(end - 9);
    fs::write(&path, &bytes).unwrap();
    let run = straddle(&["trace", &path]);
    assert!(run.code == 3 && run.err.contains("t.parquet: cannot read the Parquet file"), "{}", run.err);
    let piped = straddle(&["sim", "/dev/stdin", "--drive", "wd10ears"]);
    assert_eq!(piped.code, 0, "an empty input");
}

/// The arithmetic of nvmeiuwaf (D. Gomez, 2023): for each write the units from that of its first byte on, and
/// the sum of their bytes over that of the writes', to two decimals.
const IUWAF: &str = "
import math, sys
iu = int(sys.argv[1])
io_iu = io_host = 0
for line in sys.stdin:
    off, length = map(int, line.split())
    off -= int(off / iu) * iu
    iot = math.ceil((off + length) / iu) * iu
    io_iu += iot
    io_host += length
print(format(io_iu / io_host, '.2f'))
";

#[test]
fn the_write_amplification_is_that_of_nvmeiuwaf() {
    if !present(&["python3"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mut random = SplitMix64::new(33);
    let mut one = |unit: u64| (random.below(1 << 30) * unit, (1 + random.below(64)) * unit);
    let many: Vec<(u64, u64)> = (0..2000).map(|_| one(512)).collect();
    // The example that explains the formula: 4 KiB on a unit of 16 KiB is written four times over.
    for (writes, example) in
        [(vec![(0, 4096)], Some("4.00")), (vec![(4096, 16384)], Some("2.00")), (many, None)]
    {
        let mut lines = String::new();
        let mut input = String::new();
        for (offset, length) in &writes {
            writeln!(lines, "7,W,{offset},{length},1").unwrap();
            writeln!(input, "{offset} {length}").unwrap();
        }
        let path = dir.path().join("a.csv");
        fs::write(&path, lines).unwrap();
        let report = json("trace", &["trace", path.to_str().unwrap(), "--json"]);
        for unit in report["total"]["writes"]["units"].as_array().unwrap() {
            let bytes = unit["unit_bytes"].to_string();
            let mut command = Command::new("python3");
            command.args(["-c", IUWAF, &bytes]);
            let theirs = super::tools::run(&mut command, &input);
            let ours = format!("{:.2}", unit["amplification"].as_f64().unwrap());
            assert_eq!(ours, theirs.trim(), "unit of {bytes}, seed 33");
            if bytes == "16384" {
                assert!(example.is_none_or(|example| example == ours), "{ours}");
            }
        }
    }
}
