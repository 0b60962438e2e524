//! `straddle trace` beside zcat and DuckDB, for one core: what counts is processor time, so that a busy machine changes
//! little.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use straddle_units::io::SplitMix64;

use crate::images::Dir;
use crate::process::{run_measured, wait};
use crate::samples::Samples;

/// Rounds; an arm takes about a second.
const ROUNDS: usize = 7;
/// Requests of each trace.
const REQUESTS: u64 = 10_000_000;
/// Requests through a pipe, to see what memory they take.
const PIPED: [u64; 3] = [100_000, 10_000_000, 1_000_000_000];

/// One way to read a trace.
struct Way {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    /// What its rate is of: bytes, if it reads text.
    bytes: Option<u64>,
}

/// What is compared: ways to read the same trace.
struct Group {
    title: &'static str,
    ways: Vec<Way>,
}

/// The histogram by volume, operation, place in 1 MiB and length, from which all figures follow.
const HISTOGRAM: &str = "SELECT volume, op, \"offset\" // 512 % 2048, (\"length\" + 511) // 512, count(*) FROM 'FILE' GROUP BY ALL";

/// Measures reading of text, packed text and Parquet, and memory.
pub(crate) fn run(straddle: &Path) -> Result<Vec<Samples>> {
    let dir = Dir::within(&std::env::temp_dir(), "trace")?;
    let python = duckdb();
    let mut all = Vec::new();
    for volumes in [1, 1000] {
        let traces = Traces::make(dir.path(), volumes, straddle, python.as_deref())?;
        println!("{REQUESTS} requests of {volumes} volumes, processor time of one core, {ROUNDS} rounds:");
        for group in groups(straddle, &traces, python.as_deref())? {
            all.extend(measure(&group)?);
        }
    }
    memory(straddle)?;
    Ok(all)
}

/// Files with the same requests.
struct Traces {
    csv: PathBuf,
    alibaba: PathBuf,
    blkparse: PathBuf,
    gz: PathBuf,
    /// Written by DuckDB, as most are, and by straddle.
    parquet: Option<PathBuf>,
    own: PathBuf,
}

impl Traces {
    fn make(dir: &Path, volumes: u64, straddle: &Path, python: Option<&Path>) -> Result<Self> {
        let file = |name: &str| dir.join(name);
        let (csv, alibaba, blkparse) = (file("t.csv"), file("alibaba.csv"), file("blkparse"));
        let open = |path: &Path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
        let (mut one, mut two, mut three) = (open(&csv)?, open(&alibaba)?, open(&blkparse)?);
        writeln!(one, "time_us,op,offset,length,volume")?;
        let mut line = String::new();
        let mut requests = Requests::new(volumes);
        for _ in 0..REQUESTS {
            let Request { time, volume, op, offset, length } = requests.next();
            line.clear();
            let _ = writeln!(line, "{time},{op},{offset},{length},{volume}");
            one.write_all(line.as_bytes())?;
            line.clear();
            let _ = writeln!(line, "{volume},{op},{offset},{length},{time}");
            two.write_all(line.as_bytes())?;
            line.clear();
            let (sector, sectors) = (offset / 512, length / 512);
            let (seconds, micros) = (time / 1_000_000 % 100_000, time % 1_000_000);
            let _ = writeln!(
                line,
                "  8,{volume:<4} 1  {:8} {seconds:5}.{micros:06}123   697  D  {op}S {sector} + {sectors} [kworker/u8:3]",
                time % 100_000
            );
            three.write_all(line.as_bytes())?;
        }
        for file in [&mut one, &mut two, &mut three] {
            file.flush()?;
        }
        let gz = file("t.csv.gz");
        let packed = Command::new("gzip").args(["-6", "-c"]).arg(&csv).stdout(File::create(&gz)?).status()?;
        if !packed.success() {
            bail!("gzip failed");
        }
        let own = file("own.parquet");
        let words = [csv.as_os_str(), "--to".as_ref(), "parquet".as_ref(), own.as_os_str()];
        let made = Command::new(straddle).arg("trace").args(words).stdout(Stdio::null()).status()?;
        if !made.success() {
            bail!("straddle trace --to parquet failed");
        }
        let parquet = file("t.parquet");
        let copy =
            format!("COPY (SELECT * FROM '{}') TO '{}' (FORMAT parquet)", csv.display(), parquet.display());
        let parquet = match python {
            Some(python) => {
                sql(python, &copy)?;
                Some(parquet)
            }
            None => None,
        };
        Ok(Self { csv, alibaba, blkparse, gz, parquet, own })
    }
}

/// Requests like those of the published traces: mostly small, some volumes busier than others, one in seven of which
/// starts off a boundary.
struct Requests {
    random: SplitMix64,
    time: u64,
    volumes: u64,
}

struct Request {
    time: u64,
    volume: u64,
    op: char,
    offset: u64,
    length: u64,
}

impl Requests {
    const fn new(volumes: u64) -> Self {
        Self { random: SplitMix64::new(1), time: 1_577_808_000_000_000, volumes }
    }

    fn next(&mut self) -> Request {
        const LENGTHS: [u64; 16] = [1, 8, 8, 8, 8, 8, 8, 16, 16, 32, 32, 48, 128, 128, 256, 1024];
        let random = &mut self.random;
        self.time += random.below(75);
        let busy = (self.volumes / 20).max(1);
        let is_any = random.once_in(4);
        let volume = random.below(if is_any { self.volumes } else { busy });
        let op = if random.below(10) < 7 { 'W' } else { 'R' };
        let ahead = if volume % 7 == 1 { 63 * 512 } else { 0 };
        let offset = random.below(1 << 28) * 4096 + ahead;
        Request { time: self.time, volume, op, offset, length: LENGTHS[random.index(16)] * 512 }
    }
}

/// A Python that has DuckDB.
fn duckdb() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("duckdb");
    let python = folder.join("bin/python");
    let has_it = || {
        let run = Command::new(&python).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    if !has_it() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
        if made.is_ok_and(|status| status.success()) {
            let _ = Command::new(folder.join("bin/pip")).args(["install", "--quiet", "duckdb"]).status();
        }
    }
    if has_it() {
        return Some(python);
    }
    eprintln!("SKIPPED: duckdb cannot be installed");
    None
}

/// The words that run a statement in DuckDB on one thread.
fn script(statement: &str) -> Vec<String> {
    // It says itself how long the statement took: Python's own start does not count.
    let script = "import duckdb, sys, time\n\
                  connection = duckdb.connect()\n\
                  connection.execute('SET threads = 1')\n\
                  begun = time.process_time()\n\
                  connection.execute(sys.argv[1]).fetchall()\n\
                  print(time.process_time() - begun)";
    ["-c", script, statement].map(str::to_owned).to_vec()
}

fn sql(python: &Path, statement: &str) -> Result<()> {
    run_measured(Command::new(python).args(script(statement))).map(|_| ())
}

/// The statement of docs/trace.md.
fn documented() -> Result<String> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trace.md"))?;
    let (_, rest) = page.split_once("```sql\n").context("docs/trace.md has SQL")?;
    Ok(rest.split_once("```").context("it ends")?.0.replace("'trace.csv'", "'FILE'"))
}

fn groups(straddle: &Path, traces: &Traces, python: Option<&Path>) -> Result<Vec<Group>> {
    let text = |name, path: &Path| -> Result<Way> {
        let words = vec!["trace".to_owned(), path.display().to_string()];
        Ok(Way { name, program: straddle.to_owned(), words, bytes: Some(fs::metadata(path)?.len()) })
    };
    let table = |name, path: &Path| Way {
        name,
        program: straddle.to_owned(),
        words: vec!["trace".to_owned(), path.display().to_string()],
        bytes: None,
    };
    let theirs = |name, path: &Path, statement: &str| {
        let statement = statement.replace("FILE", &path.display().to_string());
        python.map(|python| Way { name, program: python.to_owned(), words: script(&statement), bytes: None })
    };
    let sums = documented()?;
    let plain = fs::metadata(&traces.csv)?.len();
    let mut lines = vec![
        text("csv", &traces.csv)?,
        text("alibaba", &traces.alibaba)?,
        text("blkparse", &traces.blkparse)?,
    ];
    lines.extend(theirs("DuckDB, csv, histogram", &traces.csv, HISTOGRAM));
    let zcat = Way {
        name: "zcat",
        program: "/bin/zcat".into(),
        words: vec![traces.gz.display().to_string()],
        bytes: Some(plain),
    };
    let gz = Way { name: "csv.gz", bytes: Some(plain), ..text("csv.gz", &traces.gz)? };
    let mut tables = vec![table("parquet, of straddle", &traces.own)];
    if let Some(parquet) = &traces.parquet {
        tables.insert(0, table("parquet, of DuckDB", parquet));
        tables.extend(theirs("DuckDB, histogram", parquet, HISTOGRAM));
        tables.extend(theirs("DuckDB, figures", parquet, &sums));
    }
    Ok(vec![
        Group { title: "text", ways: lines },
        Group { title: "gzip", ways: vec![gz, zcat] },
        Group { title: "Parquet", ways: tables },
    ])
}

fn measure(group: &Group) -> Result<Vec<Samples>> {
    let mut samples: Vec<Samples> = group.ways.iter().map(|way| Samples::new(way.name)).collect();
    for round in 0..=ROUNDS {
        for turn in 0..group.ways.len() {
            let index = (round + turn) % group.ways.len();
            let way = &group.ways[index];
            // Nothing is printed but a report, and zcat's output is thrown away by the shell.
            let mut command = match way.name {
                "zcat" => {
                    let mut shell = Command::new("/bin/sh");
                    shell.args(["-c", "exec zcat \"$1\" > /dev/null", "sh", &way.words[0]]);
                    shell
                }
                _ => {
                    let mut command = Command::new(&way.program);
                    command.args(&way.words);
                    command
                }
            };
            let (text, seconds) = run_measured(command.env("RAYON_NUM_THREADS", "1"))?;
            let seconds = text.trim().parse().unwrap_or(seconds);
            if round > 0 {
                samples[index].add(Duration::from_secs_f64(seconds), 0);
            }
        }
    }
    println!("  {}:", group.title);
    for (way, of_way) in group.ways.iter().zip(&samples) {
        let rate = match way.bytes {
            Some(bytes) => {
                #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
                let rate = bytes as f64 / of_way.median() / 1e6;
                format!("{rate:6.0} MB/s")
            }
            None => {
                #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
                let rate = REQUESTS as f64 / of_way.median() / 1e6;
                format!("{rate:6.1} million rows/s")
            }
        };
        println!("    {:24} {:6.3} s, {rate}", of_way.name, of_way.median());
    }
    if let [ours, others @ ..] = &samples[..] {
        // The other files of a group are longer or shorter.
        let is_peer = |other: &&Samples| other.name.starts_with("DuckDB") || other.name == "zcat";
        for other in others.iter().filter(is_peer) {
            println!("    {} has {:.2} of the rate of {}", ours.name, ours.rate_of(other), other.name);
        }
    }
    Ok(samples)
}

/// Sends generated requests through a pipe, and prints the peak of memory.
fn memory(straddle: &Path) -> Result<()> {
    println!("generated requests of 100 volumes through a pipe:");
    for count in PIPED {
        let mut child = Command::new(straddle)
            .args(["trace", "-", "--unit", "4KiB"])
            .env("RAYON_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let begun = std::time::Instant::now();
        // The same block again and again: the reader cannot know that.
        let mut block = String::new();
        let mut requests = Requests::new(100);
        for _ in 0..100_000 {
            let Request { time, volume, op, offset, length } = requests.next();
            let _ = writeln!(block, "{volume},{op},{offset},{length},{time}");
        }
        let mut pipe = child.stdin.take().context("piped")?;
        for _ in 0..count / 100_000 {
            pipe.write_all(block.as_bytes())?;
        }
        drop(pipe);
        let (status, peak) = wait(child.id())?;
        if status != 0 {
            bail!("straddle trace ended with {status}");
        }
        println!(
            "  {count:11} requests: peak {:6.1} MiB, {:.1} s",
            mebibytes(peak),
            begun.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    mebibytes
}
