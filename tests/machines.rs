//! straddle on emulated devices (QEMU, without KVM) under Debian's kernels. Each driver's devices are
//! compared with sysfs, lsblk, sg_readcap, hdparm and nvme, and with values calculated from their definition.
//! `tests/emulated/devices.toml` lists the devices; `tests/emulated/run` boots the machine. The short form
//! uses a few devices under one kernel; the long one (`make devices`) uses all of them under Linux 6.1 and
//! 6.12.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "emulated/offered.rs"]
mod offered;
#[path = "emulated/recording.rs"]
mod recording;
#[path = "emulated/standby.rs"]
mod standby;
use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;
use tools::{Dir, STRADDLE, codes, disk_codes, list, number, output, present, transcript, word};

const MIB: u64 = 1 << 20;

/// Programs of the host that the scripts run in the emulated machine.
const TOOLS: [&str; 11] = [
    "blockdev",
    "dmsetup",
    "hdparm",
    "losetup",
    "lsblk",
    "mdadm",
    "nvme",
    "sfdisk",
    "sg_readcap",
    "tar",
    "wipefs",
];

/// A value that is the same under every kernel, or one value per kernel.
#[derive(Deserialize)]
#[serde(untagged)]
enum ByKernel<T> {
    Same(T),
    Each(BTreeMap<String, T>),
}

impl<T: Clone + Default> ByKernel<T> {
    fn under(this: Option<&Self>, kernel: &str) -> T {
        match this {
            None => T::default(),
            Some(Self::Same(value)) => value.clone(),
            Some(Self::Each(each)) => each[kernel].clone(),
        }
    }
}

/// A device of devices.toml; the fields are described there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    name: String,
    #[serde(default)]
    qemu: Vec<String>,
    make: Option<String>,
    logical: u64,
    physical: Option<ByKernel<u64>>,
    sector: Option<u64>,
    offset: Option<ByKernel<i64>>,
    judged: Option<i64>,
    io_opt: Option<ByKernel<u64>>,
    io_min: Option<ByKernel<u64>>,
    starts: Option<Vec<u64>>,
    disk: Option<ByKernel<Vec<String>>>,
    #[serde(default)]
    kernels: Vec<String>,
    #[serde(default)]
    short: bool,
}

#[derive(Deserialize)]
struct Devices {
    device: Vec<Device>,
}

/// An emulated machine: a kernel and its devices.
struct Machine<'a> {
    /// The kernel release, which selects the expected values.
    release: &'a str,
    kernel: &'a str,
    devices: Vec<&'a Device>,
}

impl Device {
    fn physical(&self, kernel: &str) -> u64 {
        self.physical.as_ref().map_or(4096, |physical| ByKernel::under(Some(physical), kernel))
    }

    fn starts(&self) -> Vec<u64> {
        let usual = || if self.logical == 4096 { vec![6, 256, 513] } else { vec![40, 2048, 4097, 6151] };
        self.starts.clone().unwrap_or_else(usual)
    }

    /// The shell line that puts the device's disk in $D.
    fn found(&self) -> String {
        match &self.make {
            Some(make) => {
                format!("D=; {make} || echo '{} cannot be made' >&2; disk_of[{}]=$D", self.name, self.name)
            }
            None => format!("D=${{disk_of[{}]}}", self.name),
        }
    }
}

impl Machine<'_> {
    /// Writes QEMU's arguments and the script to `dir`.
    fn write(&self, dir: &Path) {
        let mut arguments: Vec<String> = [
            "virtio-scsi-pci,id=scsi,addr=3",
            "ahci,id=ahci,addr=4",
            "nvme,id=nvme,serial=straddle,addr=5",
            "qemu-xhci,id=usb,addr=6,p2=8,p3=8",
        ]
        .into_iter()
        .flat_map(|device| ["-device".to_owned(), device.to_owned()])
        .collect();
        let mut script = String::from("#!/bin/bash\n. \"$GUEST/look.sh\"\n");
        script.push_str("modprobe -qa sd_mod sr_mod sg virtio_scsi ahci nvme xhci-pci uas usb-storage\n");
        let mut functions = 0;
        // Every size occurs once: the script identifies the devices by it.
        for (mib, device) in (64..).zip(&self.devices).filter(|(_, device)| device.make.is_none()) {
            let id = &device.name;
            let drive = format!("if=none,id={id},format=raw,cache=unsafe,file={{}}/disk-{id}-{mib}M");
            arguments.extend(["-drive".to_owned(), drive]);
            for options in &device.qemu {
                let mut options = options.replace("{}", id);
                if options.starts_with("virtio-blk-pci") {
                    let _ =
                        write!(options, ",addr={:x}.{},multifunction=on", 8 + functions / 8, functions % 8);
                    functions += 1;
                }
                arguments.extend(["-device".to_owned(), options]);
            }
            let _ = writeln!(script, "disk_of[{id}]=$(of_size {mib})");
        }
        for device in &self.devices {
            let name = &device.name;
            let _ = writeln!(script, "{}", device.found());
            let starts: String = device.starts().iter().map(|start| format!(" {start}")).collect();
            if !starts.is_empty() {
                let first = if device.logical == 4096 { 6 } else { 34 };
                let _ = writeln!(script, "[ -z \"$D\" ] || parts \"$D\" {first}{starts}");
            }
            let _ = writeln!(script, "look {name} \"$D\"\nplanned {name} \"$D\"");
            if name == "nvme-512" {
                script.push_str(&offered::capture());
            }
        }
        script.push_str(". \"$GUEST/faults.sh\"\n");
        arguments.push(include_str!("emulated/faults.args").trim_end().to_owned());
        fs::write(dir.join("arguments"), arguments.join("\n") + "\n").unwrap();
        fs::write(dir.join("script"), script).unwrap();
    }

    /// Boots the machine, which leaves the collected files in `dir`; returns false if this host cannot run
    /// it.
    fn run(&self, dir: &Dir) -> bool {
        self.write(dir.path());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fetched = output(Command::new(root.join("tests/emulated/kernel")).arg(self.kernel), "");
        if !fetched.status.success() {
            tools::skipped(&format!("kernel {} is missing: {}", self.kernel, transcript(&fetched)));
            return false;
        }
        let mut command = Command::new(root.join("tests/emulated/run"));
        command
            .args(["-t", "2400", "-k", self.kernel, "-p", STRADDLE, "-o"])
            .arg(collected(dir, self.kernel));
        command.arg("-a").arg(dir.join("arguments"));
        TOOLS.iter().for_each(|tool| {
            command.args(["-x", tool]);
        });
        let begun = Instant::now();
        let output = output(command.arg(dir.join("script")), "");
        assert!(output.status.success(), "{}", transcript(&output));
        println!("Linux {}: {} devices, {} s", self.release, self.devices.len(), begun.elapsed().as_secs());
        print!("{}", transcript(&output));
        true
    }
}

/// The directory for a machine's collected files. DEVICES_OUT keeps it after the test.
fn collected(dir: &Dir, kernel: &str) -> PathBuf {
    std::env::var_os("DEVICES_OUT").map_or_else(|| dir.join("out"), |kept| Path::new(&kept).join(kernel))
}

/// The files collected for one device.
struct Seen<'a> {
    dir: &'a Path,
    device: &'a Device,
    release: &'a str,
    report: Value,
    sysfs: BTreeMap<String, String>,
}

/// A file's text; `None` if it does not exist.
fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The number after the first `key` in a tool's output.
fn behind(text: &str, key: &str) -> Option<u64> {
    let rest = text.split(key).nth(1)?.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

impl<'a> Seen<'a> {
    fn new(out: &'a Path, device: &'a Device, release: &'a str) -> Self {
        let dir = out.join(&device.name);
        let read = |name: &str| text(&dir.join(name)).unwrap_or_else(|| panic!("{}: no {name}", device.name));
        let sysfs = read("sysfs");
        let pairs = sysfs.lines().filter_map(|line| line.split_once(' '));
        let (printed, complaint) = (read("check.out"), read("check.err"));
        let mut report: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{}: {error}: {printed}{complaint}", device.name));
        let sysfs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Seen { dir: out, device, release, report: report["targets"][0].take(), sysfs }
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.dir.join(&self.device.name).join(name))
    }

    fn kernel(&self, attribute: &str) -> i64 {
        let place = || format!("{} under {}: {attribute}", self.device.name, self.release);
        self.sysfs.get(attribute).unwrap_or_else(|| panic!("{}: absent", place())).parse().unwrap()
    }

    /// straddle's figure, or 0 if no source reports one; -1 is the kernel's "misaligned".
    fn figure(&self, name: &str) -> i64 {
        self.report["device"][name]["value"].as_i64().unwrap_or(0)
    }

    /// The value of a figure from the source whose name begins with `source`.
    fn claim(&self, figure: &str, source: &str) -> Option<u64> {
        let figure = &self.report["device"][figure];
        let others = figure["others"].as_array().into_iter().flatten();
        let found =
            std::iter::once(figure).chain(others).find(|claim| word(claim, "source").starts_with(source))?;
        found["value"].as_u64()
    }

    fn assert_same<T: PartialEq + std::fmt::Debug>(&self, what: &str, ours: T, theirs: T) {
        assert_eq!(
            ours, theirs,
            "{} under Linux {}: {what}\n{}",
            self.device.name, self.release, self.report
        );
    }

    /// Checks that the kernel shows the device's real figures, and that straddle and lsblk report the same.
    fn check_figures(&self) {
        let (device, release) = (self.device, self.release);
        let signed = |value: u64| i64::try_from(value).unwrap();
        let physical = device.physical(release);
        let io_min = device.io_min.as_ref().map_or(physical, |min| ByKernel::under(Some(min), release));
        let expected = [
            ("logical_block_size", "logical_sector_bytes", "log-sec", signed(device.logical)),
            ("physical_block_size", "physical_sector_bytes", "phy-sec", signed(physical)),
            (
                "alignment_offset",
                "alignment_offset_bytes",
                "alignment",
                ByKernel::under(device.offset.as_ref(), release),
            ),
            ("minimum_io_size", "minimum_io_bytes", "min-io", signed(io_min)),
            (
                "optimal_io_size",
                "optimal_io_bytes",
                "opt-io",
                signed(ByKernel::under(device.io_opt.as_ref(), release)),
            ),
        ];
        let listed = self.text("lsblk").unwrap();
        let listed: Value =
            serde_json::from_str(&listed).unwrap_or_else(|_| panic!("{}: {listed}", device.name));
        for (attribute, figure, column, value) in expected {
            self.assert_same(attribute, self.kernel(attribute), value);
            self.assert_same(column, listed["blockdevices"][0][column].as_i64().unwrap(), value);
            // A -1 caused by a bogus optimum does not count; a missing -1 that the kernel should report does.
            // A drive that reports a larger sector than its kernel requested is believed.
            let ours = match figure {
                "physical_sector_bytes" => device.sector.map_or(value, signed),
                "alignment_offset_bytes" => device.judged.unwrap_or(value),
                _ => value,
            };
            self.assert_same(figure, self.figure(figure), ours);
        }
    }

    /// Compares the drive's own answers with those that specialised tools read; returns how many were
    /// compared.
    fn check_answers(&self) -> usize {
        let mut compared = 0;
        if let Some(said) = self.text("readcap").filter(|said| said.contains("Logical block length")) {
            let length = behind(&said, "Logical block length=").unwrap();
            let exponent = behind(&said, "per physical block exponent=").unwrap();
            let lowest = behind(&said, "Lowest aligned LBA=").unwrap();
            let source = "SCSI READ CAPACITY (16)";
            self.assert_same(
                "READ CAPACITY",
                self.claim("physical_sector_bytes", source),
                Some(length << exponent),
            );
            self.assert_same(
                "lowest aligned",
                self.claim("alignment_offset_bytes", source),
                Some(lowest * length),
            );
            compared += 2;
        }
        if let Some(said) = self.text("hdparm") {
            let physical = behind(&said, "Physical Sector size:");
            assert!(said.contains("ATA device"), "{said}");
            if let Some(claimed) = self.claim("physical_sector_bytes", "ATA IDENTIFY word 106") {
                self.assert_same("hdparm", Some(claimed), physical);
            } else {
                // hdparm prints 512 for a drive that reports nothing.
                assert!(matches!(physical, None | Some(512)), "{said}");
            }
            compared += 1;
        }
        if let Some(said) = self.text("id-ns") {
            self.check_namespace(&serde_json::from_str(&said).unwrap());
            compared += 5;
        }
        compared
    }

    fn check_namespace(&self, said: &Value) {
        const OPTPERF: u64 = 1 << 4;
        const NAWUPF_IS_VALID: u64 = 1 << 1;
        let formats = list(said, "lbafs");
        let format = |place: u64| &formats[usize::try_from(place).unwrap()];
        let current = format(number(said, "flbas") & 15);
        let block = 1_u64 << number(current, "ds");
        self.assert_same("LBA format", self.figure("logical_sector_bytes"), i64::try_from(block).unwrap());
        let states = number(said, "nsfeat") & OPTPERF != 0;
        let granularity = states.then(|| (number(said, "npwg") + 1) * block);
        self.assert_same("NPWG", self.claim("indirection_unit_bytes", "NVMe Identify NPWG"), granularity);
        let optimal = number(said, "nows");
        let stated = (states && optimal > 0).then(|| (optimal + 1) * block);
        self.assert_same("NOWS", self.claim("optimal_io_bytes", "NVMe Identify NOWS"), stated);
        let atomic = &self.report["device"]["atomic_writes"];
        let by_drive = std::iter::once(atomic)
            .chain(atomic["others"].as_array().into_iter().flatten())
            .find(|claim| word(claim, "source").starts_with("NVMe Identify NAWUPF"));
        let whole = (number(said, "nawupf") + 1) * block;
        let stated = (number(said, "nsfeat") & NAWUPF_IS_VALID != 0).then_some(whole);
        self.assert_same("NAWUPF", by_drive.map(|claim| number(&claim["value"], "unit_max_bytes")), stated);
        let drive: Value = serde_json::from_str(&self.text("id-ctrl").unwrap()).unwrap();
        offered::check_formats(&self.report["device"]["formats"], said, &drive);
    }

    /// Checks each partition's position: by calculation, with the kernel's alignment_offset, and with S001.
    fn check_partitions(&self) -> usize {
        let (device, found) = (self.device, codes(&self.report));
        let physical = u64::try_from(self.figure("physical_sector_bytes")).unwrap();
        // A device that the kernel calls misaligned is judged as if its first boundary were at 0, or not at
        // all.
        let offset = u64::try_from(self.figure("alignment_offset_bytes")).unwrap_or(0);
        for (place, start) in (1..).zip(device.starts()) {
            let at = start * device.logical;
            let is_off = (at + physical - offset % physical) % physical != 0;
            let ours = found.get(&place).unwrap_or_else(|| panic!("{}: no partition {place}", self.report));
            self.assert_same(&format!("S001 of partition {place}"), ours.contains("S001"), is_off);
        }
        let granularity = self.kernel("physical_block_size").max(self.kernel("minimum_io_size"));
        let listed = self.text("parts").unwrap();
        for line in listed.lines() {
            let fields: Vec<i64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            let [_, start, _, shown] = fields[..] else { panic!("{line}") };
            if self.kernel("alignment_offset") >= 0 {
                let past = start * 512 % granularity;
                let expected = (granularity + self.kernel("alignment_offset") - past) % granularity;
                self.assert_same(&format!("alignment_offset at {start}"), shown, expected);
            }
        }
        device.starts().len()
    }

    fn check_findings(&self) {
        let expected: BTreeSet<String> =
            ByKernel::under(self.device.disk.as_ref(), self.release).into_iter().collect();
        self.assert_same("findings about the disk", disk_codes(&self.report), expected);
        let is_error =
            list(&self.report, "findings").iter().any(|finding| word(finding, "severity") == "error");
        let status = self.text("check.rc").unwrap().trim().to_owned();
        self.assert_same("exit status", status.as_str(), if is_error { "1" } else { "0" });
        let zoned = self.sysfs["zoned"].as_str();
        let model = self.report["device"]["zoned"]["model"].as_str().unwrap_or("none");
        self.assert_same("zones", model, zoned);
    }

    /// Checks that a plan starts at the first multiple of 1 MiB that is on all real boundaries (3 MiB with an
    /// odd stripe) and wastes no more than that at the end, whatever bogus optimum the disk reports.
    fn check_plan(&self) -> usize {
        if self.sysfs["zoned"] != "none" {
            return 0;
        }
        let said = self.text("plan.out").unwrap();
        let plan: Value = serde_json::from_str(&said)
            .unwrap_or_else(|_| panic!("{}: {said}{:?}", self.device.name, self.text("plan.err")));
        let partition = &plan["table"]["partitions"][0];
        let sector = number(&plan["disk"], "sector_bytes");
        let (start, size) = (number(partition, "start_lba") * sector, number(partition, "sectors") * sector);
        let whole = u64::try_from(self.kernel("size")).unwrap() * 512;
        let place = format!("{} under Linux {}: {partition}", self.device.name, self.release);
        assert!(start <= 3 * MIB && start + size + 4 * MIB >= whole, "{place}");
        let physical = u64::try_from(self.figure("physical_sector_bytes")).unwrap();
        let offset = u64::try_from(self.figure("alignment_offset_bytes")).unwrap_or(0);
        assert!((start + physical - offset).is_multiple_of(physical), "{place}");
        1
    }
}

/// The JSON, the error output and the status of a command in faults.sh.
fn fault(out: &Path, name: &str) -> (Value, String, String) {
    let read = |end: &str| {
        text(&out.join("faults").join(format!("{name}.{end}"))).unwrap_or_else(|| panic!("{name}"))
    };
    let report = serde_json::from_str(&read("out")).unwrap_or(Value::Null);
    (report, read("err"), read("rc").trim().to_owned())
}

/// Checks that an unreadable sector is reported with its offset, and that the disk's figures are shown even
/// if sector 0 is unreadable.
fn check_unreadable(out: &Path) {
    for (name, byte) in [("virtio", 20480 * 512), ("scsi", 20480 * 512), ("medium", 4656 * 512), ("zero", 0)]
    {
        let (report, complaint, status) = fault(out, name);
        let report = &report["targets"][0];
        let place = format!("{name}: {report}{complaint}");
        assert_eq!(status, "3", "{place}");
        let unread = list(report, "findings").iter().find(|finding| word(finding, "code") == "S081");
        let message = word(unread.unwrap_or_else(|| panic!("{place}")), "message");
        let named = behind(&message, "cannot read byte ").unwrap_or_else(|| panic!("{place}"));
        // The reported byte is that of a page of the kernel's cache, or of the failing sector itself.
        assert!((byte..byte + 4096).contains(&named), "{message}");
        assert_eq!(number(&report["device"]["physical_sector_bytes"], "value"), 4096, "{place}");
        if byte != 0 {
            let found = codes(report);
            assert!(found[&2].contains("S081") && !found[&1].contains("S081"), "{place}");
        }
    }
    assert_eq!(fault(out, "virtio-quiet").2, "3");
}

fn check_refusals(out: &Path, machine: &Machine<'_>) {
    let (_, complaint, status) = fault(out, "readonly");
    assert_eq!(status, "4", "{complaint}");
    assert!(complaint.contains("read-only"), "{complaint}");
    assert_eq!(text(&out.join("faults/readonly.undo")).unwrap(), "", "a backup was left over");
    let has = |name: &str| machine.devices.iter().any(|device| device.name == name);
    for name in ["null-zoned", "null-zoned-conventional", "nvme-zoned"] {
        if has(name) {
            let (_, complaint, status) = fault(out, &format!("plan-{name}"));
            assert_eq!(status, "4", "{name}: {complaint}");
            assert!(complaint.contains("zoned"), "{name}: {complaint}");
        }
    }
}

/// Checks that drives without a medium and second paths to a disk are left out of the list.
fn check_list(out: &Path, machine: &Machine<'_>) {
    let (report, complaint, _) = fault(out, "all");
    let names: BTreeSet<String> =
        list(&report, "targets").iter().map(|target| word(target, "target")).collect();
    assert!(names.len() >= 5, "{names:?}");
    let is_empty_drive =
        |name: &String| ["/dev/sr", "/dev/fd", "/dev/nbd"].iter().any(|kind| name.starts_with(kind));
    assert!(!names.iter().any(is_empty_drive), "{names:?}");
    assert_eq!(complaint.matches("is another path to").count(), 1, "{complaint}");
    let mut drives = 0;
    for name in ["empty-sr0", "empty-sr1", "empty-fd0", "empty-card"] {
        if out.join("faults").join(format!("{name}.rc")).exists() {
            let (_, complaint, status) = fault(out, name);
            assert_eq!(status, "3", "{name}: {complaint}");
            assert!(complaint.contains("no medium"), "{name}: {complaint}");
            drives += 1;
        }
    }
    // The kernel for virtual machines supports neither floppy disks nor USB.
    assert_eq!(drives, if machine.kernel == "cloud" { 2 } else { 4 }, "drives without a medium");
}

fn check_unplugged(out: &Path, machine: &Machine<'_>) {
    let disks: &[&str] = if machine.kernel == "cloud" { &["gone"] } else { &["gone", "gone-usb"] };
    for name in disks {
        let (report, complaint, status) = fault(out, name);
        assert_eq!(status, "3", "{name}: {report} {complaint}");
        assert!(complaint.contains("unplugged"), "{name}: {complaint}");
    }
}

fn judge(machine: &Machine<'_>, dir: &Dir) {
    let out = collected(dir, machine.kernel);
    let (mut answers, mut partitions, mut plans) = (0, 0, 0);
    for device in &machine.devices {
        let seen = Seen::new(&out, device, machine.release);
        seen.check_figures();
        seen.check_findings();
        answers += seen.check_answers();
        partitions += seen.check_partitions();
        plans += seen.check_plan();
        if device.name == "nvme-512" {
            offered::check_captured(&out, &seen.report["device"]);
        }
    }
    let count = machine.devices.len();
    assert!(
        partitions >= 2 * count && answers >= count / 2 && plans >= count / 2,
        "{answers} {partitions} {plans}"
    );
    println!("Linux {}: {answers} answers, {partitions} partitions, {plans} plans", machine.release);
    check_unreadable(&out);
    check_refusals(&out, machine);
    check_list(&out, machine);
    check_unplugged(&out, machine);
}

fn devices() -> Vec<Device> {
    toml::from_str::<Devices>(include_str!("emulated/devices.toml")).unwrap().device
}

/// One boot with the devices marked `short`, and the kernel that is smallest to download.
#[test]
fn devices_of_each_driver() {
    if cfg!(not(target_arch = "x86_64")) {
        tools::skipped("the emulated PC takes this machine's programs, which are no PC's");
        return;
    }
    if !present(&["qemu-system-x86_64", "busybox"]) || !present(&TOOLS) {
        return;
    }
    let devices = devices();
    let short = devices.iter().filter(|device| device.short).collect();
    let machine = Machine { release: "6.12", kernel: "cloud", devices: short };
    let dir = Dir::new("emulated");
    if machine.run(&dir) {
        judge(&machine, &dir);
    }
}

/// Tests all devices under one kernel.
fn all_devices(release: &str) {
    assert!(present(&["qemu-system-x86_64", "busybox"]) && present(&TOOLS));
    let devices = devices();
    let has = |device: &&Device| device.kernels.is_empty() || device.kernels.iter().any(|it| it == release);
    let machine = Machine { release, kernel: release, devices: devices.iter().filter(has).collect() };
    let dir = Dir::new("emulated");
    assert!(machine.run(&dir));
    judge(&machine, &dir);
}

#[test]
#[ignore = "minutes of emulation: make devices"]
fn all_devices_under_linux_6_1() {
    all_devices("6.1");
}

#[test]
#[ignore = "minutes of emulation: make devices"]
fn all_devices_under_linux_6_12() {
    all_devices("6.12");
}
