//! The drive served to a virtual machine in real time: the machine reads back what it writes, and the times
//! are reported next to the lab's virtual times.
//!
//! The machine is User-Mode Linux on the host's clock (tests/guest/run), without the lab's own clock. The
//! tests check what holds at any speed. `make agreement` compares the times. It reports them without a
//! verdict, because a machine's speed and other load are not a subject for a test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tools::{Dir, STRADDLE, output, present, text, transcript};

const DISK: &str = include_str!("agreement/disk.sh");
const TIMERS: &str = include_str!("agreement/timers.sh");
const WHOLE: &str = include_str!("agreement/whole.sh");

const DRIVE: &str = "wd10ears";
/// Runs in real time; the median is reported.
const RUNS: usize = 3;

/// Times in seconds, by name.
type Measures = BTreeMap<String, f64>;

/// The result of a guest that ran in real time.
struct Real {
    measures: Measures,
    summary: Value,
    /// The share of the time in which some task waited for a processor; 0 if the kernel does not report it.
    pressure: f64,
}

impl Real {
    fn lateness(&self, which: &str) -> u64 {
        self.summary["lateness"][which].as_u64().unwrap()
    }
}

/// A process that is killed when dropped, so that nothing is left running when a test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Microseconds since boot in which some task waited for a processor.
fn pressure() -> u64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    text.split_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok()).unwrap_or(0)
}

/// Waits until `is_there` returns true, but not for ever.
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(600), "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Serves the drive, runs a guest with it, and ends both.
fn real(drive: &str, script: &str, start: Option<u64>, input: &Path, processor: &str) -> Real {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Dir::new("agreement");
    let (socket, program, out) = (dir.join("drive"), dir.join("script"), dir.join("out"));
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str| Stdio::from(fs::File::create(dir.join(name)).unwrap());
    let server = Command::new(STRADDLE)
        .args(["serve", &format!("drive:{drive}"), "--json", "--vhost-user"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(file("summary"))
        .stderr(file("server"))
        .spawn();
    let mut server = Process(server.unwrap());
    wait_for("the server's socket", || socket.exists());
    let (waited, begun) = (pressure(), Instant::now());
    let mut guest = Command::new("taskset");
    guest.args(["-c", processor]).arg(root.join("tests/guest/run")).args(["-t", "600", "-m", "256M"]);
    guest.arg("-d").arg(&socket).arg("-o").arg(&out).arg("-l").arg(root.join("crates/lab/init/lib.sh"));
    if let Some(start) = start {
        guest.args(["-s", &format!("{start},1073741824")]);
    }
    guest.arg("-e").arg(format!("INPUT={}", input.display())).arg(&program);
    // The input is the guest's working directory, so the guest finds it even where its own directories cover
    // the path.
    let ended = guest.current_dir(input).output().unwrap();
    let elapsed = begun.elapsed();
    let pressure = Duration::from_micros(pressure() - waited).as_secs_f64() / elapsed.as_secs_f64();
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    assert_eq!(ended.status.code(), Some(0), "{} {}", transcript(&ended), read("server"));
    tools::signal(server.0.id(), "TERM");
    let status = server.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", read("server"));
    assert!(!socket.exists(), "a socket is left");
    let results = fs::read_to_string(out.join("results")).unwrap();
    let measures = results.lines().map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    Real { measures: measures.collect(), summary: serde_json::from_str(&read("summary")).unwrap(), pressure }
}

/// The first and the last of the processors that this process may use; they may be the same.
fn processors() -> [String; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let numbers: Vec<&str> = list.trim().split([',', '-']).collect();
    [numbers[0].to_owned(), numbers[numbers.len() - 1].to_owned()]
}

/// Runs the same script in the lab.
fn virtually(script: &str, start: Option<&str>, input: &Path) -> Measures {
    let dir = Dir::new("agreement-lab");
    let file = dir.join("script");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let mut lab = Command::new(STRADDLE);
    lab.args(["lab", "--json", "--mem", "256MiB", "--drive", DRIVE, "--input"]).arg(input);
    if let Some(start) = start {
        lab.args(["--start", start, "--size", "1GiB"]);
    }
    let ended = output(lab.arg("--").arg(file), "");
    let report: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", transcript(&ended)));
    assert_eq!(report["status"], 0, "{}", report["output"]);
    let measures = report["measures"].as_array().unwrap().iter();
    measures.map(|one| (tools::word(one, "name"), one["value"].as_f64().unwrap())).collect()
}

/// A tree of files of various sizes, the same in every run.
fn tree(dir: &Dir) -> PathBuf {
    let root = dir.join("tree");
    let mut random = SplitMix64::new(1);
    for number in 0..30 {
        let folder = root.join(format!("{}", number % 10));
        fs::create_dir_all(&folder).unwrap();
        let size = random.index(1 << (6 + number % 12));
        let content: Vec<u8> = random.next().to_le_bytes().into_iter().cycle().take(size).collect();
        fs::write(folder.join(format!("{number}")), content).unwrap();
    }
    root
}

/// A line of the comparison: the figure in virtual time, and those of the runs in real time.
fn line(name: &str, virtual_time: f64, runs: &[Real]) -> String {
    let mut values: Vec<f64> = runs.iter().map(|run| run.measures[name]).collect();
    values.sort_by(f64::total_cmp);
    let (least, middle, most) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    let difference = (middle / virtual_time - 1.0) * 100.0;
    format!("{name:<20} {virtual_time:>12.6} {middle:>12.6} {least:>12.6} {most:>12.6} {difference:>+9.1} %")
}

/// Prints a report. The reader has to judge whether the machine was idle enough for the figures to mean
/// something, so the disturbances are printed too.
#[test]
#[ignore = "a benchmark of this machine's clock against the virtual one: make agreement"]
fn real_time_beside_virtual_time() {
    if !present(&["linux.uml", "taskset", "mkfs.ext4", "sfdisk", "fio", "jq", "perl"]) {
        return;
    }
    let dir = Dir::new("agreement-input");
    let input = tree(&dir);
    let (disk, timers) = (virtually(DISK, None, &input), virtually(TIMERS, Some("2048s"), &input));
    let [first, last] = processors();
    let (disk_runs, timer_run) = std::thread::scope(|scope| {
        // The timer run sleeps nearly all the time, so it does not disturb the others.
        let timers = scope.spawn(|| real(DRIVE, TIMERS, Some(1 << 20), &input, &first));
        let runs: Vec<Real> = (0..RUNS).map(|_| real(DRIVE, DISK, None, &input, &last)).collect();
        (runs, timers.join().unwrap())
    });
    let timer_runs = [timer_run];
    println!("seconds              virtual time  real, median          min          max  difference");
    disk.iter().for_each(|(name, seconds)| println!("{}", line(name, *seconds, &disk_runs)));
    timers.iter().for_each(|(name, seconds)| println!("{}", line(name, *seconds, &timer_runs)));
    println!(
        "\nThe kernel's timers are as coarse as a tick of 10 ms. Replies later than they should be, and waiting for a processor:"
    );
    for run in disk_runs.iter().chain(&timer_runs) {
        let [p50, p90, max] = ["p50_ns", "p90_ns", "max_ns"].map(|which| run.lateness(which) / 1000);
        println!(
            "  median {p50} us, p90 {p90} us, max {max} us; queue not empty {:.0} % of the time",
            run.pressure * 100.0
        );
    }
    assert!(disk.len() == 5 && timers.len() == 3, "{disk:?} {timers:?}");
}

#[test]
fn a_virtual_machine_gets_back_what_it_wrote() {
    if !present(&["linux.uml", "taskset", "mkfs.ext4", "sfdisk", "e2fsck", "blkdiscard", "fstrim"]) {
        return;
    }
    let dir = Dir::new("agreement-input");
    let run = real("ssd-sata-4k,plp=off", WHOLE, Some(1 << 20), &tree(&dir), &processors()[0]);
    let shown = tools::run(Command::new(STRADDLE).args(["drive", "show", "ssd-sata-4k", "--json"]), "");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let claims = &shown["drives"][0]["claims"];
    for (measured, claimed) in [("logical", "logical_sector_bytes"), ("physical", "physical_sector_bytes")] {
        let claimed = text(claims[claimed].to_string().as_bytes());
        assert_eq!(format!("{}", run.measures[measured]), claimed);
    }
    let summary = &run.summary;
    for kind in ["reads", "writes", "flushes", "discards"] {
        assert!(summary[kind].as_u64() > Some(0), "no {kind}: {summary}");
    }
    assert_eq!((&summary["failed_requests"], &summary["broken_clients"]), (&0.into(), &0.into()));
    let answered = ["reads", "writes", "flushes", "discards"].map(|kind| summary[kind].as_u64().unwrap());
    assert_eq!(summary["lateness"]["requests"], answered.iter().sum::<u64>(), "{summary}");
}
