//! Shared by the tests with real tools: running them, images to run them on, and straddle's answers.
//!
//! If a tool is not installed, its test is skipped with a message; under CI, where it must be installed, that
//! is a failure.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

pub(crate) mod contents;
pub(crate) mod journals;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod skip;
#[allow(unused_imports, reason = "each test file is a crate of its own and uses a part of this")]
pub(crate) use contents::{Contents, at_once};
#[allow(unused_imports, reason = "each test file is a crate of its own and uses a part of this")]
pub(crate) use run::{Run, command, flat, json, json_in, root, straddle, straddle_in, valid};
#[allow(unused_imports, reason = "each test file is a crate of its own and uses a part of this")]
pub(crate) use skip::{PATH, present, skipped};

/// The program under test.
pub(crate) const STRADDLE: &str = env!("CARGO_BIN_EXE_straddle");

/// The program that it starts for `lab`, `serve`, `reproduce` and `drive fit`.
pub(crate) const STRADDLE_LAB: &str = env!("CARGO_BIN_EXE_straddle-lab");

/// A directory that is removed when dropped.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("straddle-{name}-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a sparse file of `len` bytes.
    pub(crate) fn image(&self, name: &str, len: u64) -> PathBuf {
        let path = self.join(name);
        File::create(&path).and_then(|file| file.set_len(len)).expect("a temporary file can be made");
        path
    }
}

impl AsRef<Path> for Dir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The files that a guest has left in its folder.
pub(crate) struct Guest(pub(crate) Dir);

impl Guest {
    /// Runs `script` of tests/guest and returns what it has left. The program is copied to a place that the
    /// guest can see, because the build may be in /dev/shm.
    pub(crate) fn run(script: &str, memory: &str) -> Self {
        let dir = Dir::new("guest");
        let program = dir.join("straddle");
        fs::copy(STRADDLE, &program).expect("the program can be copied");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest");
        let mut command = Command::new(folder.join("run"));
        command.args(["-m", memory, "-o"]).arg(dir.path());
        command.arg("-e").arg(format!("STRADDLE={}", program.display()));
        if !skip::is_sampled() {
            command.args(["-e", "EVERY_CASE=1"]);
        }
        run(command.arg(folder.join(script)), "");
        Self(dir)
    }

    /// A file's text.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// straddle's report on each target.
    pub(crate) fn targets(&self, name: &str) -> Vec<Value> {
        let report: Value = serde_json::from_str(&self.text(&format!("{name}.json"))).expect("it is JSON");
        list(&report, "targets").to_vec()
    }

    /// The names of the files with this beginning and end, without either.
    pub(crate) fn names(&self, begin: &str, end: &str) -> Vec<String> {
        let files = fs::read_dir(self.0.path())
            .expect("it can be read")
            .map(|file| file.expect("it can be read").file_name());
        let name = |file: std::ffi::OsString| {
            Some(file.to_str()?.strip_prefix(begin)?.strip_suffix(end)?.to_owned())
        };
        let mut names: Vec<String> = files.filter_map(name).collect();
        names.sort();
        names
    }
}

/// The attributes that every disk has in sysfs: 64 MiB, 512-byte logical and 4096-byte physical sectors.
pub(crate) const SYSFS_DISK: [(&str, &str); 8] = [
    ("size", "131072"),
    ("alignment_offset", "0"),
    ("ext_range", "256"),
    ("queue/logical_block_size", "512"),
    ("queue/physical_block_size", "4096"),
    ("queue/minimum_io_size", "4096"),
    ("queue/optimal_io_size", "0"),
    ("queue/zoned", "none"),
];

/// The command prefix that runs `program` as an ordinary user; just `env` if this is one already, or if such
/// a user cannot reach it.
pub(crate) fn ordinary_user(program: &Path) -> &'static [&'static str] {
    const NOBODY: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let can = || {
        let test = Command::new(NOBODY[0]).args(&NOBODY[1..]).args(["test", "-x"]).arg(program).status();
        test.is_ok_and(|status| status.success())
    };
    if is_root && can() { NOBODY } else { &["env"] }
}

/// As [`ordinary_user`], if that user may also create temporary folders.
pub(crate) fn ordinary_user_of_lab(program: &Path) -> &'static [&'static str] {
    let user = ordinary_user(program);
    let test =
        Command::new(user[0]).args(&user[1..]).args(["sh", "-c", "test -w \"${TMPDIR:-/tmp}\""]).status();
    if test.is_ok_and(|status| status.success()) { user } else { &["env"] }
}

/// Reports that a part of a test does not apply to this machine or user, although nothing is missing that CI
/// could provide.
pub(crate) fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {why}");
}

/// Sends a signal to a process. (procps' kill does not recognise signal names in a Turkish locale.)
pub(crate) fn signal(process: u32, name: &str) {
    run(Command::new("kill").args(["-s", name, &process.to_string()]), "");
}

/// The command that attaches a loop device to `file` and prints its name. losetup opens the device that the
/// kernel calls free, which another losetup may have attached by then; so each has the lock meanwhile.
pub(crate) fn losetup_find(file: &Path) -> Command {
    let mut command = Command::new("flock");
    command.args(["/dev/loop-control", "losetup", "--find", "--show"]).arg(file);
    command
}

/// Runs `command` with `input` and returns its output, whatever its status.
pub(crate) fn output(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .env("PATH", PATH)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A tool that does not read its input may have ended already.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the tool ends")
}

/// Runs `command`, which has to succeed, and returns its standard output.
pub(crate) fn run(command: &mut Command, input: &str) -> String {
    let output = output(command, input);
    assert!(output.status.success(), "{command:?}\n{}", transcript(&output));
    text(&output.stdout)
}

/// Everything that a tool printed, for messages.
pub(crate) fn transcript(output: &Output) -> String {
    format!("{}{}({})", text(&output.stdout), text(&output.stderr), output.status)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The type of the file system that `path` is on, as coreutils name it.
pub(crate) fn file_system(path: &Path) -> String {
    run(Command::new("stat").args(["-f", "-c", "%T"]).arg(path), "").trim().to_owned()
}

/// Runs a shell command, which has to succeed.
pub(crate) fn shell(line: &str, dir: &Path) -> String {
    run(Command::new("sh").args(["-c", line]).current_dir(dir), "")
}

/// The printed `lines`, in a shell whose sfdisk does not wait before it tells the kernel of a new table, which
/// it would not do for an image.
pub(crate) fn pasted(lines: &str) -> String {
    let lines = with_program(lines);
    format!("sfdisk() {{ command sfdisk --no-tell-kernel \"$@\"; }}\n{lines}")
}

/// The `lines`, in a shell where `straddle` is the program.
pub(crate) fn with_program(lines: &str) -> String {
    format!("straddle() {{ '{STRADDLE}' \"$@\"; }}\n{lines}")
}

/// Whether sfdisk has an option for an image's sector size: since util-linux 2.41.
pub(crate) fn sfdisk_knows_sector_size() -> bool {
    run(Command::new("sfdisk").arg("--help"), "").contains("--sector-size")
}

/// Writes a table in sectors of `block` bytes from a script for sfdisk. An sfdisk before 2.41 counts in 512
/// bytes on any image; fdisk has an option for this, and reads the same script.
pub(crate) fn write_table(image: &Path, block: u64, script: &str) {
    if block == 512 {
        let args = ["--quiet", "--no-reread", "--no-tell-kernel"];
        run(Command::new("sfdisk").args(args).arg(image), script);
        return;
    }
    let file = image.with_extension("script");
    fs::write(&file, script).expect("a file can be written");
    let input = format!("I\n{}\nw\n", file.display());
    run(Command::new("fdisk").args(["-w", "never", "-b", &block.to_string()]).arg(image), &input);
}

/// A table's header, and its partitions by number: objects with the fields of `sfdisk --json`.
pub(crate) fn table(image: &Path, block: u64) -> (Value, BTreeMap<u64, Value>) {
    if block == 512 { table_by_sfdisk(image) } else { (Value::Null, table_by_fdisk(image, block)) }
}

fn table_by_sfdisk(image: &Path) -> (Value, BTreeMap<u64, Value>) {
    let json = run(Command::new("sfdisk").arg("--json").arg(image), "");
    let mut table: Value = serde_json::from_str(&json).expect("JSON");
    let table = &mut table["partitiontable"];
    let device = word(table, "device");
    let partitions = table["partitions"].take();
    // The path of the image does not matter.
    table["device"] = Value::Null;
    let of = |partition: &Value| {
        let mut partition = partition.clone();
        let node = word(&partition, "node");
        partition["node"] = Value::Null;
        (number_of_node(&node[device.len()..]), partition)
    };
    (table.take(), partitions.as_array().expect("a list").iter().map(of).collect())
}

/// A node without the disk's name is the number, after a `p` if that name ends in a digit.
fn number_of_node(node: &str) -> u64 {
    node.trim_start_matches('p').parse().unwrap_or_else(|_| panic!("{node} is not a partition number"))
}

fn table_by_fdisk(image: &Path, block: u64) -> BTreeMap<u64, Value> {
    let list = |columns: &str| {
        let args = ["-b", &block.to_string(), "--list", "--output", columns];
        run(Command::new("fdisk").args(args).arg(image), "")
    };
    let (gpt, dos) = ("Device,Start,Sectors,Type-UUID,UUID,Name", "Device,Start,Sectors,Id");
    let text = if list("Device").contains("Disklabel type: gpt") { list(gpt) } else { list(dos) };
    let path = image.display().to_string();
    let of = |line: &str| {
        let mut words = line.strip_prefix(&path)?.split_whitespace();
        let number = number_of_node(words.next()?);
        let mut field = || words.next().unwrap_or_default().to_owned();
        let (start, size) = (field().parse::<u64>().ok()?, field().parse::<u64>().ok()?);
        let (kind, uuid) = (field(), field());
        let name = words.collect::<Vec<_>>().join(" ");
        Some((number, json!({"start": start, "size": size, "type": kind, "uuid": uuid, "name": name})))
    };
    text.lines().filter_map(of).collect()
}

/// straddle's report on one target.
pub(crate) fn check(image: &Path, args: &[&str]) -> Value {
    check_in(Path::new("."), image, args)
}

/// As [`check`], run in `dir`, to which `image` is relative.
pub(crate) fn check_in(dir: &Path, image: &Path, args: &[&str]) -> Value {
    let command = &mut Command::new(STRADDLE);
    command.args(["check", "--json"]).args(args).arg("--").arg(image).current_dir(dir);
    let output = output(command, "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}\n{}", transcript(&output));
    let mut report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["targets"][0].take()
}

/// The codes of the findings on each partition.
pub(crate) fn codes(report: &Value) -> BTreeMap<u64, BTreeSet<String>> {
    let mut codes: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for partition in list(report, "partitions") {
        codes.entry(number(partition, "number")).or_default();
    }
    for finding in list(report, "findings") {
        if let Some(of) = finding["partition"].as_u64() {
            codes.entry(of).or_default().insert(word(finding, "code"));
        }
    }
    codes
}

/// The codes of the findings on the disk as a whole.
pub(crate) fn disk_codes(report: &Value) -> BTreeSet<String> {
    let on_disk = |finding: &&Value| finding.get("partition").is_none();
    list(report, "findings").iter().filter(on_disk).map(|finding| word(finding, "code")).collect()
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is no list in {value}"))
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

/// The text of a field; empty if there is none.
pub(crate) fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The `len` bytes of `path` from `start` on.
pub(crate) fn bytes(path: &Path, start: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).expect("it fits memory")];
    File::open(path).and_then(|file| file.read_exact_at(&mut bytes, start)).expect("the bytes can be read");
    bytes
}

/// Copies a program that is to be run, by another process: one that a test starts meanwhile would keep it open for
/// writing, and it could not be run.
#[track_caller]
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").args([from.as_ref(), to.as_ref()]).status();
    assert!(copied.unwrap().success(), "cp {} {}", from.as_ref().display(), to.as_ref().display());
}
