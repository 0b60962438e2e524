//! The number of requests per second that a served drive answers, compared with nbdkit's memory plugin over
//! NBD and with qemu-storage-daemon over vhost-user: the same client, in the same run, in turn.
//!
//! The drive takes no time (its profile says so, and there is no delay), so that only the transport is
//! measured. nbdkit answers from its memory; QEMU from no storage at all (null-co), or from a file in memory;
//! straddle also runs the drive's model.

mod vhost;

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use straddle_units::io::SplitMix64;

use crate::images::Dir;
use crate::samples::Samples;
use vhost::FrontEnd;

/// Seconds per round of one arm.
const SECONDS: f64 = 1.0;
/// Rounds; the arms take turns.
const ROUNDS: usize = 7;
/// The bytes that requests access; they are written first, so that no arm finds holes.
const SIZE: u64 = 256 << 20;
const BLOCK: usize = 4096;

/// A drive that takes almost no time.
const PROFILE: &str = "\
name = \"instant\"
title = \"a drive that takes no time\"
[claims]
model = \"INSTANT\"
capacity_bytes = 1073741824
logical_sector_bytes = 512
physical_sector_bytes = 4096
rotational = false
discard_granularity_bytes = 4096
[interface]
link_mb_s = 1000000
read_overhead_us = 0
write_overhead_us = 0
completion_overhead_us = 0
queue_depth = 1024
[flash]
indirection_unit_bytes = 4096
page_bytes = 4096
pages_per_block = 256
dies = 64
channels = 64
read_us = 0.001
program_us = 0.001
erase_us = 0.001
channel_mb_s = 100000
buffer_bytes = 16777216
over_provisioning = 0.5
power_loss_protection = true
";

/// The kind of requests, and how many at a time.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) write: bool,
    pub(crate) depth: usize,
}

pub(crate) const LOADS: [Load; 4] = [
    Load { name: "random 4 KiB reads, queue 1", write: false, depth: 1 },
    Load { name: "random 4 KiB writes, queue 1", write: true, depth: 1 },
    Load { name: "random 4 KiB reads, queue 32", write: false, depth: 32 },
    Load { name: "random 4 KiB writes, queue 32", write: true, depth: 32 },
];

/// A server that is ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<Server> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Server(quiet.spawn().context("cannot start a server")?))
}

/// Makes the folder for the servers' sockets, and the profile of the drive that takes no time.
fn drive() -> Result<(Dir, String)> {
    let dir = Dir::new()?;
    let profile = dir.path().join("instant.toml");
    std::fs::write(&profile, PROFILE)?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine before: {}", load.split(' ').next().unwrap_or("not known"));
    let target = format!("drive:{}", profile.display());
    Ok((dir, target))
}

/// Measures over NBD, next to nbdkit's memory plugin: every load on both in turn.
pub(crate) fn over_nbd(straddle: &Path) -> Result<Vec<Samples>> {
    let (dir, target) = drive()?;
    let dir = dir.path();
    let (ours, theirs) = (dir.join("straddle"), dir.join("nbdkit"));
    let address = format!("unix:{}", ours.display());
    let _ours = start(Command::new(straddle).args(["serve", &target, "--no-delay", "--nbd", &address]))?;
    let nbdkit = start(Command::new("nbdkit").arg("-fU").arg(&theirs).args(["memory", "1G"]));
    let Ok(_theirs) = nbdkit else {
        eprintln!("SKIPPED: nbdkit is not installed");
        return Ok(Vec::new());
    };
    let mut clients = [Client::connect(&ours)?, Client::connect(&theirs)?];
    for client in &mut clients {
        client.fill()?;
    }
    println!("a drive that takes no time over NBD, {ROUNDS} rounds of {SECONDS} s, one connection:");
    in_turn(&mut clients, &["straddle serve", "nbdkit memory"], Client::run)
}

/// Measures over vhost-user, next to qemu-storage-daemon with null-co and with a file in memory.
pub(crate) fn over_vhost(straddle: &Path) -> Result<Vec<Samples>> {
    let (dir, target) = drive()?;
    let dir = dir.path();
    let sockets = ["straddle-lab", "null-vhost", "file-vhost"].map(|name| dir.join(name));
    let [ours, null, file] = sockets.each_ref().map(|path| path.display().to_string());
    let _ours = start(Command::new(straddle).args(["serve", &target, "--no-delay", "--vhost-user", &ours]))?;
    // In memory, wherever the folder for temporary files is.
    let image = Path::new("/dev/shm").join(format!("straddle-bench-{}", std::process::id()));
    let qemu = |blockdev: &str, socket: &str| {
        start(Command::new("qemu-storage-daemon").args([
            "--object",
            "iothread,id=thread",
            "--blockdev",
            &format!("{blockdev},node-name=drive"),
            "--export",
            &format!(
                "type=vhost-user-blk,id=export,node-name=drive,addr.type=unix,addr.path={socket},writable=on,iothread=thread"
            ),
        ]))
    };
    let Ok(_null) = qemu("driver=null-co,size=1073741824,read-zeroes=off", &null) else {
        eprintln!("SKIPPED: qemu-storage-daemon is not installed (qemu-system-common)");
        return Ok(Vec::new());
    };
    std::fs::File::create(&image)?.set_len(1 << 30)?;
    let _file = qemu(&format!("driver=file,filename={}", image.display()), &file)?;
    let clients: Result<Vec<FrontEnd>> = sockets.iter().map(|path| FrontEnd::connect(path)).collect();
    // The server has opened the file, which stays until it is closed.
    std::fs::remove_file(&image)?;
    let mut clients = clients?;
    for client in &mut clients {
        client.fill(SIZE)?;
    }
    println!("a drive that takes no time over vhost-user, {ROUNDS} rounds of {SECONDS} s, one ring of 128:");
    in_turn(&mut clients, &["straddle serve", "qemu null-co", "qemu tmpfs file"], FrontEnd::run)
}

/// Runs every load with each client in turn; straddle's client is the first.
fn in_turn<C>(
    clients: &mut [C],
    names: &[&'static str],
    run: impl Fn(&mut C, &Load) -> Result<Duration>,
) -> Result<Vec<Samples>> {
    let mut all = Vec::new();
    for load in &LOADS {
        let mut samples: Vec<Samples> = names.iter().map(|name| Samples::new(name)).collect();
        for round in 0..=ROUNDS {
            for turn in 0..clients.len() {
                let arm = (round + turn) % clients.len();
                let each = run(&mut clients[arm], load)?;
                // The first round warms up.
                if round > 0 {
                    samples[arm].add(each, 0);
                }
            }
        }
        println!("  {}", load.name);
        for of_arm in &samples {
            println!("    {:16} {} IOPS", of_arm.name, (1.0 / of_arm.median()).round());
        }
        for peer in &samples[1..] {
            let ratio = peer.median() / samples[0].median();
            println!("    straddle answers {ratio:.2} times as many requests as {}", peer.name);
        }
        all.extend(samples);
    }
    Ok(all)
}

/// Connects as soon as a server listens.
fn connect(path: &Path) -> Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(_) if begun.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error).context("a server does not listen"),
        }
    }
}

/// The offset of a request.
fn offset(random: &mut SplitMix64) -> u64 {
    random.below(SIZE / 4096) * 4096
}

/// A client that keeps a given number of requests in flight.
struct Client {
    stream: UnixStream,
    replies: BufReader<UnixStream>,
    random: SplitMix64,
    data: Vec<u8>,
}

impl Client {
    fn connect(path: &Path) -> Result<Self> {
        let stream = connect(path)?;
        let replies = BufReader::with_capacity(1 << 20, stream.try_clone()?);
        let mut client = Self { stream, replies, random: SplitMix64::new(1), data: vec![0x5a; BLOCK] };
        client.replies.read_exact(&mut [0; 18])?;
        // Both flags, and EXPORT_NAME for the default export.
        client.stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        client.replies.read_exact(&mut [0; 10])?;
        Ok(client)
    }

    fn fill(&mut self) -> Result<()> {
        for offset in (0..SIZE).step_by(BLOCK) {
            let request = self.request(true, offset);
            self.stream.write_all(&request)?;
            self.reply(true)?;
        }
        Ok(())
    }

    fn request(&self, write: bool, offset: u64) -> Vec<u8> {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, u8::from(write)];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0x10, 0]);
        if write {
            bytes.extend_from_slice(&self.data);
        }
        bytes
    }

    fn reply(&mut self, write: bool) -> Result<()> {
        let mut head = [0; 16];
        self.replies.read_exact(&mut head)?;
        if head[..8] != [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0] {
            bail!("a server answered {head:x?}");
        }
        if !write {
            self.replies.read_exact(&mut self.data)?;
        }
        Ok(())
    }

    /// Runs a load; returns the time per request.
    fn run(&mut self, load: &Load) -> Result<Duration> {
        let mut sent = 0_u32;
        let begun = Instant::now();
        for _ in 0..load.depth {
            let offset = offset(&mut self.random);
            let request = self.request(load.write, offset);
            self.stream.write_all(&request)?;
            sent += 1;
        }
        let mut answered = 0;
        while answered < sent {
            self.reply(load.write)?;
            answered += 1;
            if begun.elapsed().as_secs_f64() < SECONDS {
                let offset = offset(&mut self.random);
                let request = self.request(load.write, offset);
                self.stream.write_all(&request)?;
                sent += 1;
            }
        }
        Ok(begun.elapsed() / answered.max(1))
    }
}
