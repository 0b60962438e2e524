//! Moves a span in a file and prints the rate, for comparison with dd(1): `shift FILE START LENGTH TO WINDOW
//! [JOURNAL]`, in bytes; the last bytes of the file are the journal if there is no file for it.
//!
//! It begins with a cold cache, so dd has to, too: a warm one makes dd more than twice as fast.

#[path = "../tests/repair/support/mod.rs"]
mod support;

use std::error::Error;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::time::Instant;

use straddle_repair::relocate::{Disk, Disks, Job, Move, Parts, begin, journal_len};
use straddle_units::{Boundary, ByteCount, ByteOffset, KIB, Span};
use support::FileDisk;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, start, len, to, window, journal @ ..] = arguments.as_slice() else {
        return Err("shift FILE START LENGTH TO WINDOW [JOURNAL]".into());
    };
    let open = |path: &str| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok::<_, std::io::Error>(file)
    };
    let mut disk = FileDisk::new(open(file)?)?;
    let span = |start, len| Span::new(ByteOffset::new(start), ByteCount::new(len)).ok_or("beyond 64 bits");
    let len: u64 = len.parse()?;
    let job = Job::new(Parts {
        size: disk.size(),
        blocks: Boundary::multiples_of(ByteCount::new(4 * KIB)).ok_or("no blocks")?,
        window: ByteCount::new(window.parse()?),
        id: *b"an example's job",
        moves: vec![Move { from: span(start.parse()?, len)?, to: ByteOffset::new(to.parse()?) }],
        payload: Vec::new(),
    })?;
    let (copied, windows) = job.windows();
    let needed = journal_len(&job)?.get();
    let mut other;
    let (disks, place) = if let [path, ..] = journal {
        let file = open(path)?;
        file.set_len(needed)?;
        other = FileDisk::new(file)?;
        (Disks::two(&mut disk, &mut other), span(0, needed)?)
    } else {
        let at = disk.size().get().checked_sub(needed).ok_or("no room for the journal")?;
        (Disks::one(&mut disk), span(at, needed)?)
    };
    let began = Instant::now();
    let unfinished = begin(disks, place, job)?;
    let Some(moved) = unfinished.resume(&mut |_| ControlFlow::Continue(()))? else {
        return Err("stopped".into());
    };
    let seconds = began.elapsed().as_secs_f64();
    moved.erase()?;
    let mebibytes = u32::try_from(len / 1_000_000).map(f64::from)?;
    println!("{copied} of {windows} windows copied; {seconds:.2} s, {:.0} MB/s", mebibytes / seconds);
    Ok(())
}
