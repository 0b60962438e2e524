//! The real binary against targets that are broken, endless, unreadable or meant to do harm: it ends, with an exit
//! code that the help names and a message that names the target; it never panics, hangs or fills the memory.
//!
//! What cannot be tested on a machine says `SKIPPED` there; under CI that is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/process.rs"]
mod process;
#[path = "tools/skip.rs"]
mod skip;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use process::{TICKS, ticks};
use skip::{PATH, skipped};
use tempfile::TempDir;

/// A run that takes more processor time than this is too slow for hostile input, on whatever machine: the usual one takes milliseconds.
const MOST_TICKS: u64 = 20 * TICKS;
/// A run that waits as long as this waits for ever. It says nothing about speed: a busy machine may make a run wait for minutes.
const FOR_EVER: Duration = Duration::from_secs(1200);
/// Bytes in a block, where nothing else is said.
const BLOCK: u64 = 512;
const MIB: u64 = 1 << 20;

struct Run {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Run {
    /// It ended by itself, with one of `codes`, and without a panic.
    #[track_caller]
    fn ended(&self, codes: &[i32]) -> &Self {
        let all = format!("exit {:?}\nstdout: {:.2000}\nstderr: {:.2000}", self.code, self.out, self.err);
        assert!(self.code.is_some_and(|code| codes.contains(&code)), "not one of {codes:?}: {all}");
        assert!(!self.err.contains("panicked") && !self.out.contains("panicked"), "{all}");
        self
    }

    /// It says `text` somewhere, on whatever lines.
    #[track_caller]
    fn says(&self, text: &str) -> &Self {
        let joined = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = self.out.contains(text) || joined.contains(text) || self.err.contains(text);
        assert!(said, "'{text}' is not in\nstdout: {:.2000}\nstderr: {:.2000}", self.out, self.err);
        self
    }
}

fn straddle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_straddle"));
    command.stdin(Stdio::null());
    command
}

fn check(target: &Path) -> Run {
    run(straddle().arg("check").arg(target))
}

fn run(command: &mut Command) -> Run {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    watch(child)
}

/// Waits for the end of a child, whatever it writes, and kills it when there is none.
fn watch(mut child: Child) -> Run {
    fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).unwrap();
            }
            bytes
        })
    }
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let used = ticks(child.id());
        if used > MOST_TICKS || begun.elapsed() > FOR_EVER {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs: {} s of processor time in {:?}", used / TICKS, begun.elapsed());
        }
        thread::sleep(Duration::from_millis(1));
    };
    let text = |bytes: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&bytes.join().unwrap()).into_owned();
    Run { out: text(out), err: text(err), code: status.code() }
}

/// Writes `bytes` at `at` into a sparse file of `size` bytes.
fn sparse(path: &Path, size: u64, pieces: &[(u64, &[u8])]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (at, bytes) in pieces {
        file.write_all_at(bytes, *at).unwrap();
    }
}

/// A boot record with these entries: type, start, count.
fn boot_record(entries: &[(u8, u32, u32)]) -> [u8; 512] {
    let mut sector = [0; 512];
    for (entry, (kind, start, count)) in sector[446..].chunks_exact_mut(16).zip(entries) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&count.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// What a GPT header says; everything is written as it is, with CRCs that fit.
#[derive(Clone)]
struct Gpt {
    size: u64,
    entry_count: u32,
    entry_size: u32,
    header_size: u32,
    /// First and last block of each partition.
    partitions: Vec<(u64, u64)>,
}

impl Gpt {
    fn new(partitions: &[(u64, u64)]) -> Self {
        Self {
            size: 64 * MIB,
            entry_count: 128,
            entry_size: 128,
            header_size: 92,
            partitions: partitions.to_vec(),
        }
    }

    fn write(&self, path: &Path) {
        let last = self.size / BLOCK - 1;
        // Of an array that nobody could have on disk the CRC does not matter.
        let len = u64::from(self.entry_count) * u64::from(self.entry_size);
        let mut array = vec![0; usize::try_from(len.min(MIB)).unwrap()];
        let entry_size = usize::try_from(self.entry_size).unwrap();
        for (index, (first, end)) in self.partitions.iter().enumerate() {
            let Some(entry) = array.get_mut(index * entry_size..index * entry_size + 128) else { break };
            entry[..16].fill(0x11);
            entry[16..32].fill(u8::try_from(index % 255).unwrap() + 1);
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&end.to_le_bytes());
        }
        let header = |my: u64, other: u64, entries: u64| {
            let mut header = [0; 512];
            header[..8].copy_from_slice(b"EFI PART");
            header[8..12].copy_from_slice(&0x10000_u32.to_le_bytes());
            header[12..16].copy_from_slice(&self.header_size.to_le_bytes());
            for (at, value) in [(24, my), (32, other), (40, 34), (48, last - 33), (72, entries)] {
                header[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            header[80..84].copy_from_slice(&self.entry_count.to_le_bytes());
            header[84..88].copy_from_slice(&self.entry_size.to_le_bytes());
            header[88..92].copy_from_slice(&crc32fast::hash(&array).to_le_bytes());
            let summed = usize::try_from(self.header_size).unwrap().min(512);
            let crc = crc32fast::hash(&header[..summed]);
            header[16..20].copy_from_slice(&crc.to_le_bytes());
            header
        };
        let backup_array = last - (array.len() as u64).div_ceil(BLOCK);
        sparse(
            path,
            self.size,
            &[
                (0, &boot_record(&[(0xee, 1, u32::MAX)])),
                (BLOCK, &header(1, last, 2)),
                (2 * BLOCK, &array),
                (backup_array * BLOCK, &array),
                (last * BLOCK, &header(last, 1, backup_array)),
            ],
        );
    }
}

#[test]
fn tables_that_end_too_early() {
    let dir = TempDir::new().unwrap();
    let (gpt, mbr) = (dir.path().join("gpt.img"), dir.path().join("mbr.img"));
    Gpt::new(&[(2048, 4095), (4097, 9000)]).write(&gpt);
    let chain = boot_record(&[(0x83, 63, 1000), (5, 2048, 30000)]);
    sparse(
        &mbr,
        32 * MIB,
        &[
            (0, &chain),
            (2048 * BLOCK, &boot_record(&[(0x83, 63, 100), (5, 8192, 2048)])),
            (10240 * BLOCK, &boot_record(&[(0x83, 63, 100)])),
        ],
    );
    let around = |at: u64| [at - 1, at, at + 1];
    let lengths: Vec<u64> =
        [446, 510, 512, 1024, 1024 + 92, 4096, 8192, 34 * BLOCK, 2048 * BLOCK, 2049 * BLOCK]
            .into_iter()
            .chain((3..34).map(|block| block * BLOCK))
            .flat_map(around)
            .chain([1, 2, 10240 * BLOCK, 10240 * BLOCK + 511, 10241 * BLOCK, 31 * MIB])
            .collect();
    for image in [gpt, mbr] {
        let cut = image.with_extension("cut");
        for &length in &lengths {
            fs::copy(&image, &cut).unwrap();
            File::options().write(true).open(&cut).unwrap().set_len(length).unwrap();
            // Of less than a sector there is nothing to judge, unless it is all zeros.
            let codes: &[i32] = if length < BLOCK { &[0, 3] } else { &[0, 1] };
            check(&cut).ended(codes).says(cut.to_str().unwrap());
        }
        File::create(&cut).unwrap();
        check(&cut).ended(&[3]).says("is empty (0 bytes)").says(cut.to_str().unwrap());
    }
}

#[test]
fn entry_arrays_that_nobody_could_store() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    let good = Gpt::new(&[(2048, 4095)]);
    for (entry_count, entry_size) in [
        (u32::MAX, 128),
        (u32::MAX, u32::MAX),
        (128, 1 << 31),
        (1, 1 << 31),
        (128, 0),
        (0, 128),
        (128, 1),
        (128, 127),
        (u32::MAX, 8),
        (65536, 4096),
        (1 << 25, 128),
    ] {
        Gpt { entry_count, entry_size, ..good.clone() }.write(&image);
        check(&image).ended(&[1]).says("primary at byte 512").says(image.to_str().unwrap());
    }
    for header_size in [0, 1, 91, 513, u32::MAX] {
        Gpt { header_size, ..good.clone() }.write(&image);
        check(&image).ended(&[1]).says(&format!("the header says that it is {header_size} bytes long"));
    }
}

#[test]
fn partitions_that_cannot_be() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    for (partitions, says) in [
        (vec![(4096, 2048)], "it ends (LBA 2048) before it starts (LBA 4096)"),
        (vec![(2048, u64::MAX)], "cannot be counted in bytes"),
        (vec![(u64::MAX, u64::MAX)], "cannot be counted in bytes"),
        (vec![(0, u64::MAX)], "cannot be counted in bytes"),
        (vec![(2048, (u64::MAX >> 9) - 1)], "reaches past the end of the disk"),
        (vec![(2048, 1 << 30)], "reaches past the end of the disk"),
        (vec![(2048, 8191), (4096, 6143)], "overlaps partition 2 from byte 2097152"),
        (vec![(0, 131_071), (1, 1)], "overlaps partition 2 from byte 512"),
        (vec![(2048, 4095); 128], "overlaps partition 2"),
    ] {
        Gpt::new(&partitions).write(&image);
        check(&image).ended(&[1]).says(says);
        run(straddle().args(["check", "--json", "--assume", "512e,stripe=192KiB"]).arg(&image)).ended(&[1]);
    }
    // More partitions than are listed, none of them aligned.
    let entry_count = 8000;
    let partitions: Vec<(u64, u64)> = (0..8000).map(|n| (20481 + n * 10, 20488 + n * 10)).collect();
    Gpt { entry_count, ..Gpt::new(&partitions) }.write(&image);
    check(&image).ended(&[1]).says("there are more than 1024 partitions").says("starts at byte 10486272");
}

#[test]
fn chains_of_ebrs_without_an_end() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    let mbr = boot_record(&[(5, 2048, 0xf000_0000)]);

    // Every sector of 50 MiB links to the next one: a hundred times more than are followed.
    let mut file = File::create(&image).unwrap();
    file.write_all(&mbr).unwrap();
    file.seek(SeekFrom::Start(2048 * BLOCK)).unwrap();
    let mut bytes = Vec::new();
    for next in 1..=100_000 {
        bytes.extend(boot_record(&[(0x83, 1, 1), (5, next, 2)]));
    }
    file.write_all(&bytes).unwrap();
    check(&image).ended(&[1]).says("those from byte 1572864 on are not listed");

    let link = |to: u32| boot_record(&[(0x83, 63, 8), (5, to, 2048)]);
    let at = |block: u64| (2048 + block) * BLOCK;
    for (ebrs, says) in [
        (vec![(0, link(0))], "the extended boot record at byte 1048576 links back"),
        (vec![(0, link(4096)), (4096, link(0))], "the extended boot record at byte 3145728 links back"),
        (vec![(0, link(4096)), (4096, link(4096))], "the extended boot record at byte 3145728 links back"),
        (vec![(0, link(u32::MAX))], "the extended boot record at byte 1048576 points to byte 2199024303616"),
        (vec![(0, link(4096))], "byte 3145728 should be an extended boot record"),
        (vec![], "byte 1048576 should be an extended boot record"),
    ] {
        let mut pieces: Vec<(u64, &[u8])> = vec![(0, &mbr)];
        pieces.extend(ebrs.iter().map(|(block, ebr)| (at(*block), ebr.as_slice())));
        sparse(&image, 64 * MIB, &pieces);
        check(&image).ended(&[1]).says(says);
    }
    // Four containers that are one another.
    let four = boot_record(&[(5, 2048, 9999), (0xf, 2048, 9999), (0x85, 0, 9999), (5, u32::MAX, u32::MAX)]);
    sparse(&image, 64 * MIB, &[(0, &four), (at(0), &link(0))]);
    check(&image).ended(&[1]);
}

#[test]
fn what_is_no_disk_is_refused_by_its_name() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    check(dir.path()).ended(&[3]).says("is a directory").says(dir.path().to_str().unwrap());

    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    check(&fifo).ended(&[3]).says("is a FIFO").says(fifo.to_str().unwrap());

    let socket = path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    check(&socket).ended(&[3]).says("is a socket").says(socket.to_str().unwrap());

    for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"] {
        check(Path::new(device)).ended(&[3]).says(&format!("{device}: is a character device"));
    }
    for file in ["/proc/self/mem", "/proc/kmsg", "/proc/self/environ", "/sys/kernel/uevent_seqnum"] {
        check(Path::new(file)).ended(&[0, 1, 3]).says(file);
    }

    let (dangling, looped, chain) = (path("dangling"), path("loop"), path("chain"));
    symlink(path("gone"), &dangling).unwrap();
    symlink(&looped, &looped).unwrap();
    symlink(&fifo, &chain).unwrap();
    check(&dangling).ended(&[3]).says("No such file or directory").says(dangling.to_str().unwrap());
    check(&looped).ended(&[3]).says("Too many levels of symbolic links");
    check(&chain).ended(&[3]).says("is a FIFO");
    check(Path::new("")).ended(&[2, 3]);
    check(&path(&"x".repeat(5000))).ended(&[3]).says("File name too long");
    check(&path("fifo/below")).ended(&[3]).says("Not a directory");

    // One bad target does not stop the others, however many there are.
    let image = path("disk.img");
    Gpt::new(&[(2048, 4095)]).write(&image);
    let run = run(straddle().arg("check").args(vec![&fifo; 50]).arg(&image));
    assert_eq!(run.ended(&[3]).err.matches("is a FIFO").count(), 50);
    run.says("GPT in 512-byte sectors, 1 partition");
}

#[test]
fn names_that_are_no_text() {
    let dir = TempDir::new().unwrap();
    let name = OsStr::from_bytes(b"disk \xff\xfe it's $(reboot) .img");
    let image = dir.path().join(name);
    Gpt::new(&[(2049, 4096)]).write(&image);
    for option in ["-v", "--quiet", "--json"] {
        run(straddle().args(["check", option]).arg(&image)).ended(&[1]).says("disk \u{fffd}\u{fffd} it");
    }
    fs::remove_file(&image).unwrap();
    check(&image).ended(&[3]).says("disk \u{fffd}\u{fffd} it's $(reboot) .img: cannot open: No such file");
    // A name that looks like an option, behind "--", and in the commands of a cure.
    Gpt::new(&[(2049, 4096)]).write(&dir.path().join("-x.img"));
    let dashed = run(straddle().current_dir(dir.path()).args(["check", "--", "-x.img"]));
    assert!(!dashed.ended(&[1]).says("-N 1 ./-x.img").out.contains(" -N 1 -x.img"));
}

#[test]
fn names_that_a_terminal_would_obey() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("a\u{1b}]0;owned\u{7}\nb: error\u{9b}2J.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    for option in ["-v", "--quiet", "--json", "--color=always"] {
        let run = run(straddle().args(["check", option]).args([&image, &dir.path().join("\u{1b}c gone")]));
        let text = format!("{}{}", run.ended(&[3]).out, run.err);
        // Colours are the only sequences there are.
        let left = text.replace("\u{1b}[", "");
        assert!(!left.contains(['\u{1b}', '\u{7}']), "{option}: {left:?}");
        // JSON is for programs, and tells the name as it is; its own escapes are those below U+0020.
        assert!(option == "--json" || !left.contains('\u{9b}'), "{option}: {left:?}");
        assert!(!text.contains("\nb: error"), "{option}: {text:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096); 128]).write(&image);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = || std::io::pipe().unwrap().1;
    let commands: [&[&OsStr]; 6] = [
        &["check".as_ref(), image.as_ref()],
        &["check".as_ref(), "--json".as_ref(), image.as_ref()],
        &["check".as_ref(), "--quiet".as_ref(), image.as_ref()],
        &["schema".as_ref()],
        &["explain".as_ref(), "S001".as_ref()],
        &["efficiency".as_ref()],
    ];
    for arguments in commands {
        let to = |out: Stdio| {
            watch(straddle().args(arguments).stdout(out).stderr(Stdio::piped()).spawn().unwrap())
        };
        to(full().into()).ended(&[3]).says("No space left on device");
        let run = to(gone().into());
        assert_eq!(run.ended(&[0]).err, "", "{arguments:?}: a closed pipe is a quiet success");
    }
}

#[test]
fn a_complaint_that_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = || std::io::pipe().unwrap().1;
    let no_file = dir.path().join("gone.img");
    // The exit code still says it.
    for err in [Stdio::from(full()), Stdio::from(gone())] {
        let mut command = straddle();
        command.arg("check").args([&no_file, &image]).stdout(Stdio::piped()).stderr(err);
        watch(command.spawn().unwrap()).ended(&[3]);
    }
    let mut command = straddle();
    command.arg("check").arg(&no_file).stdout(full()).stderr(full());
    watch(command.spawn().unwrap()).ended(&[3]);
}

#[test]
fn a_file_that_may_not_be_read() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    fs::set_permissions(&image, Permissions::from_mode(0o000)).unwrap();
    let mut command = if File::open(&image).is_err() {
        straddle()
    } else {
        // Root reads everything: so be nobody, with a copy of the binary that nobody can reach.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let binary = dir.path().join("straddle");
        fs::copy(env!("CARGO_BIN_EXE_straddle"), &binary).unwrap();
        fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary).stdin(Stdio::null());
        let works = command.arg("--version").output().is_ok_and(|output| output.status.success());
        if !works {
            return skipped("an unreadable file: this is root, and setpriv does not work");
        }
        let mut again = Command::new("setpriv");
        again.args(command.get_args().filter(|argument| *argument != "--version"));
        again
    };
    run(command.arg("check").arg(&image))
        .ended(&[3])
        .says(&format!("{}: cannot open: Permission denied", image.display()));
}

#[test]
fn sizes_at_the_end_of_what_can_be_counted() {
    // tmpfs takes 2^63 - 1 bytes, ext4 16 TiB.
    let shm = Path::new("/dev/shm");
    let dir = TempDir::new_in(shm).or_else(|_| TempDir::new()).unwrap();
    let image = dir.path().join("huge.img");
    let sizes =
        [i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs() - 511, 1 << 62, 1 << 50, (1 << 44) - 4096, 1 << 42];
    let file = File::create(&image).unwrap();
    let mut tried = 0;
    for size in sizes.into_iter().filter(|size| file.set_len(*size).is_ok()) {
        file.set_len(0).unwrap();
        file.set_len(size).unwrap();
        tried += 1;
        check(&image).ended(&[0, 1]).says("no partition table");
        file.write_all_at(&boot_record(&[(0xee, 1, u32::MAX), (0x83, u32::MAX, u32::MAX)]), 0).unwrap();
        check(&image).ended(&[1]);
        file.write_all_at(&boot_record(&[(0x83, u32::MAX, u32::MAX), (5, 1, u32::MAX)]), 0).unwrap();
        check(&image).ended(&[1]).says("starts at byte 2199023255040");
        let logical = run(straddle().args(["check", "--logical", "65536"]).arg(&image));
        logical.ended(&[1]);
    }
    if tried < 2 {
        skipped("huge files: no file system here takes them");
    }
}

/// A captured tree with a disk `sda` of these attributes.
fn sysroot(attributes: &[(&str, &[u8])]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, value) in attributes {
        let path = dir.path().join("sys/block/sda").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }
    dir
}

fn check_sysroot(root: &TempDir, target: &str) -> Run {
    run(straddle().args(["check", "-v", "--sysroot"]).arg(root.path()).arg(target))
}

#[test]
fn attributes_that_are_garbage() {
    let garbage: [&[u8]; 12] = [
        b"",
        b"\n",
        b"-1\n",
        b"0\n",
        b"1\n",
        b"4294967295\n",
        b"18446744073709551615\n",
        b"99999999999999999999999999\n",
        b"\xff\xfe\x00\x01",
        b"\x1b[2J\x1b]0;owned\x07",
        b"4096 4096\n",
        &[b'9'; 200_000],
    ];
    let names = [
        "alignment_offset",
        "queue/logical_block_size",
        "queue/physical_block_size",
        "queue/minimum_io_size",
        "queue/optimal_io_size",
        "queue/rotational",
        "queue/atomic_write_unit_min_bytes",
        "queue/atomic_write_boundary_bytes",
        "device/vendor",
        "device/model",
        "device/preferred_erase_size",
        "device/vpd_pg89",
        "device/vpd_pgb0",
        "device/vpd_pgb1",
        "sda1/partition",
        "sda1/start",
        "sda1/size",
    ];
    for value in garbage {
        let mut attributes: Vec<(&str, &[u8])> = vec![("size", b"204800\n")];
        attributes.extend(names.map(|name| (name, value)));
        let root = sysroot(&attributes);
        let run = check_sysroot(&root, "/dev/sda");
        // Without a partition that can be listed there is nothing to judge.
        run.ended(&[0, 1, 3]).says("/dev/sda");
        assert!(!run.out.contains('\u{1b}'), "{:?}", run.out);
        // The same beside one partition that is right.
        attributes.extend([
            ("sda2/partition", b"2\n".as_slice()),
            ("sda2/start", b"63\n"),
            ("sda2/size", b"99\n"),
        ]);
        check_sysroot(&sysroot(&attributes), "/dev/sda").ended(&[1]).says("starts at byte 32256");
        check_sysroot(&sysroot(&attributes), "/dev/sda2").ended(&[1]).says("starts at byte 32256");
        // And where the size itself is.
        check_sysroot(&sysroot(&[("size", value)]), "/dev/sda").ended(&[0, 1, 3]).says("sda");
    }
    check_sysroot(&sysroot(&[("size", b"many\n")]), "/dev/sda")
        .ended(&[3])
        .says("size is missing or not a number");
    for target in ["/dev/sdb", "..", "/", "../../../etc", "sda/queue"] {
        check_sysroot(&sysroot(&[("size", b"204800\n")]), target).ended(&[3]);
    }
}

#[test]
fn a_tree_in_which_nothing_is_a_file() {
    let root = sysroot(&[("size", b"204800\n"), ("queue/logical_block_size", b"512\n")]);
    let sda = root.path().join("sys/block/sda");
    fs::create_dir_all(sda.join("device/model")).unwrap();
    fs::create_dir_all(sda.join("sda1")).unwrap();
    let fifo = |name: &str| assert!(Command::new("mkfifo").arg(sda.join(name)).status().unwrap().success());
    ["queue/physical_block_size", "alignment_offset", "sda1/partition", "sda1/start", "device/vendor"]
        .into_iter()
        .for_each(fifo);
    symlink("loop", sda.join("loop")).unwrap();
    symlink(".", sda.join("sda2")).unwrap();
    symlink("/dev/zero", sda.join("queue/minimum_io_size")).unwrap();
    fs::create_dir_all(root.path().join("dev")).unwrap();
    check_sysroot(&root, "/dev/sda").ended(&[3]).says("not judged");
    // Instead of the copy of the disk.
    for (name, kind) in [("fifo", "-p"), ("zero", "-c")] {
        let copy = root.path().join("dev/sda");
        let _ = fs::remove_file(&copy);
        match kind {
            "-p" => assert!(Command::new("mkfifo").arg(&copy).status().unwrap().success()),
            _ => symlink("/dev/zero", &copy).unwrap(),
        }
        check_sysroot(&root, "/dev/sda").ended(&[3]).says("not judged");
        check_sysroot(&root, &format!("/dev/{name}")).ended(&[3]);
    }
    // No target: every disk of the tree, of which one is a file and one a loop.
    fs::write(root.path().join("sys/block/sdb"), b"").unwrap();
    symlink("sdc", root.path().join("sys/block/sdc")).unwrap();
    run(straddle().args(["check", "--all", "--sysroot"]).arg(root.path())).ended(&[0, 1, 3]);
    run(straddle().args(["check", "--sysroot", "/proc/self/cmdline"])).ended(&[3]);
}

#[test]
fn a_hundred_thousand_partitions() {
    let root = sysroot(&[("size", b"204800\n")]);
    let sda = root.path().join("sys/block/sda");
    // So many folders would take long to make: links to a few hundred do as well.
    let kinds = 400;
    for number in 1..=kinds {
        let partition = root.path().join(format!("p{number}"));
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("partition"), number.to_string()).unwrap();
        fs::write(partition.join("start"), (number * 63).to_string()).unwrap();
        fs::write(partition.join("size"), "63").unwrap();
    }
    for number in 0..100_000 {
        let partition = root.path().join(format!("p{}", number % kinds + 1));
        symlink(partition, sda.join(format!("sda{number}"))).unwrap();
    }
    check_sysroot(&root, "/dev/sda").ended(&[1]).says("starts at byte 32256");
    run(straddle().args(["check", "--json", "--sysroot"]).arg(root.path()).arg("sda7")).ended(&[1]);
}

#[test]
fn memory_does_not_grow_with_what_a_table_claims() {
    let dir = TempDir::new().unwrap();
    let mut images: Vec<PathBuf> = Vec::new();
    let mut add = |gpt: Gpt| {
        let image = dir.path().join(format!("{}.img", images.len()));
        gpt.write(&image);
        images.push(image);
    };
    let partitions: Vec<(u64, u64)> = (0..8000).map(|n| (20481 + n * 10, 20488 + n * 10)).collect();
    add(Gpt { entry_count: 8000, ..Gpt::new(&partitions) });
    add(Gpt { entry_count: u32::MAX, entry_size: 1 << 31, ..Gpt::new(&[]) });
    add(Gpt { entry_count: 65536, entry_size: 128, ..Gpt::new(&partitions) });
    let loops = dir.path().join("loop.img");
    let mut pieces = vec![(0, boot_record(&[(5, 1, u32::MAX)]))];
    pieces.extend((1..3000).map(|n| (u64::from(n) * BLOCK, boot_record(&[(0x83, 1, 1), (5, n, 1)]))));
    let pieces: Vec<(u64, &[u8])> = pieces.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
    sparse(&loops, 1 << 40, &pieces);
    images.push(loops);
    for image in images {
        // 256 MiB of address space, not of memory in use: nothing of this size is even asked for.
        let limited = "ulimit -v 262144 && exec \"$0\" check -v \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_straddle")]).arg(&image).stdin(Stdio::null());
        run(&mut command).ended(&[1]).says(image.to_str().unwrap());
    }
}

/// Numbers that look random, the same for a seed every time (xorshift64*; Vigna, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit as u64)).unwrap()
    }
}

/// Images as sfdisk writes them, where it is installed.
fn images_by_sfdisk(dir: &Path) -> Option<Vec<PathBuf>> {
    let scripts = [
        "label: gpt\nstart=2048,size=4096,name=\"a b'c\"\nstart=6207,size=63\n,8192,U\n",
        "label: gpt\nlabel-id: 00000000-0000-0000-0000-000000000001\n,\n",
        "label: dos\nstart=63,size=5000,type=c,bootable\n,,83\n",
        "label: dos\n2048,1000\n3072,,E\n4096,500\n,100\n,63\n,,\n",
    ];
    let mut images = Vec::new();
    for (index, script) in scripts.into_iter().enumerate() {
        let image = dir.join(format!("sfdisk-{index}.img"));
        sparse(&image, 16 * MIB, &[]);
        let mut sfdisk = Command::new("sfdisk");
        sfdisk.env("PATH", PATH).arg("-q").arg(&image).stdin(Stdio::piped());
        let mut child = sfdisk.spawn().ok()?;
        child.stdin.take()?.write_all(script.as_bytes()).ok()?;
        assert!(child.wait().unwrap().success(), "sfdisk does not take {script}");
        images.push(image);
    }
    Some(images)
}

#[test]
fn tables_with_random_damage() {
    const CASES: u32 = 300;
    let options: [&[&str]; 8] = [
        &[],
        &["-v"],
        &["--quiet"],
        &["--json"],
        &["--json", "--assume", "4kn"],
        &["--assume", "512e,offset=3584,stripe=192KiB,atomic=16KiB"],
        &["--logical", "4096"],
        &["--logical", "512", "--assume", "512n"],
    ];
    let dir = TempDir::new().unwrap();
    let Some(images) = images_by_sfdisk(dir.path()) else {
        return skipped("random damage: sfdisk is not installed");
    };
    let seed = std::env::var("STRADDLE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(0x5eed_0001_u64).max(1);
    let contents: Vec<Vec<u8>> = images.iter().map(|image| fs::read(image).unwrap()).collect();
    let damaged = dir.path().join("damaged.img");
    for case in 0..CASES {
        let mut random = Random(seed.wrapping_add(u64::from(case) << 32));
        let mut bytes = contents[random.below(contents.len())].clone();
        // Nothing but the tables is worth damaging: those sectors that hold anything.
        let sectors: Vec<usize> = (0..bytes.len() / 512)
            .filter(|sector| bytes[sector * 512..][..512].iter().any(|byte| *byte != 0))
            .collect();
        for _ in 0..=random.below(12) {
            let at = sectors[random.below(sectors.len())] * 512 + random.below(512);
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
                2 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                _ => {
                    let sector = at / 512 * 512;
                    let fill = [0, 0xff][random.below(2)];
                    bytes[at..(at + random.below(64)).min(sector + 512)].fill(fill);
                }
            }
        }
        if random.below(8) == 0 {
            bytes.truncate(1 + random.below(bytes.len()));
        }
        fs::write(&damaged, &bytes).unwrap();
        let options = options[random.below(options.len())];
        let run = run(straddle().arg("check").args(options).arg(&damaged));
        let fine = matches!(run.code, Some(0 | 1 | 3)) && !run.err.contains("panicked");
        if !fine {
            let kept = std::env::temp_dir().join(format!("straddle-damaged-{case}.img"));
            fs::copy(&damaged, &kept).unwrap();
            panic!(
                "seed {seed}, case {case}, {options:?}: exit {:?}, {}: {}",
                run.code,
                kept.display(),
                run.err
            );
        }
    }
}
