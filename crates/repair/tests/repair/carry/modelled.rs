//! Power cuts by the drive model: what was being written is lost, kept or torn as the modelled drive would.
//!
//! A torn physical sector of 4096 bytes takes with it the logical sectors that were not written. Some of the
//! drives claim physical sectors of 512 bytes, and have larger ones.

use std::io;

use straddle_device::{Medium, ReadError};
use straddle_drive::Profile;
use straddle_lab::media::{Cut, Payload, Served, Store, Tear};
use straddle_repair::realign::Wanted;
use straddle_repair::{Format, Simulated};
use straddle_units::io::{Operation, Request};
use straddle_units::{ByteCount, ByteOffset};

use super::common::{Memory, Random};
use super::{Powered, Shape, try_on};

/// The longest request, in bytes: a SATA host's.
const LONGEST: usize = 512 << 10;

/// The first bytes of a modelled drive.
struct Modelled<const DRIVE: usize> {
    served: Served,
    len: u64,
    taken: u64,
}

/// The drives, and what a plan assumes of them: their own claims.
const DRIVES: [(&str, &str); 4] =
    [("dt01aca300", "512e"), ("wd10ears", "512n"), ("st2000dl003", "512n"), ("ssd-sata-4k", "512e")];

impl<const DRIVE: usize> Modelled<DRIVE> {
    /// Sends a request, and waits for its completion.
    fn send(&mut self, request: Request, payload: Payload<'_>) -> io::Result<()> {
        let mut done = Vec::new();
        self.served.submit(self.served.now(), request, payload, &mut done).map_err(io::Error::other)?;
        while done.is_empty() {
            let next = self.served.next_event().ok_or_else(|| io::Error::other("the power is off"))?;
            self.served.advance(next, &mut done)?;
        }
        self.taken += 1;
        Ok(())
    }
}

impl<const DRIVE: usize> Medium for Modelled<DRIVE> {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.len)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        if at.get() + buf.len() as u64 > self.len {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.len });
        }
        self.served.read(at.get(), buf).unwrap();
        Ok(())
    }
}

impl<const DRIVE: usize> Simulated for Modelled<DRIVE> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        for (piece, start) in bytes.chunks(LONGEST).zip((at.get()..).step_by(LONGEST)) {
            let request = Request::new(
                self.taken + 1,
                Operation::Write,
                ByteOffset::new(start),
                ByteCount::new(piece.len() as u64),
            );
            self.send(request, Payload::Bytes(piece))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(Request::flush(self.taken + 1), Payload::None)
    }
}

impl<const DRIVE: usize> Powered for Modelled<DRIVE> {
    fn on(contents: Memory, left: u64, seed: u64) -> Self {
        let profile = Profile::open(DRIVES[DRIVE].0).unwrap();
        let mut store = Store::memory(profile.claims.capacity).unwrap();
        for (unit, bytes) in &contents.units {
            store.write(unit * 512, bytes).unwrap();
        }
        let cut = Cut { after: left, seed, tear: Tear::Garbage };
        Self { served: Served::new(&profile, store, Some(cut)), len: contents.len, taken: 0 }
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn seen(&self) -> Memory {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap()];
        self.served.read(0, &mut bytes).unwrap();
        let mut memory = Memory::new(self.len);
        for (at, unit) in (0..).step_by(512).zip(bytes.chunks(512)).filter(|(_, unit)| **unit != [0; 512]) {
            memory.put(at, unit);
        }
        memory
    }

    fn cut(mut self, random: &mut Random) -> Memory {
        if !self.served.is_cut() {
            self.served.cut(random.next(), Tear::Garbage).unwrap();
        }
        self.seen()
    }
}

fn on_drive<const DRIVE: usize>() {
    let (drive, claims) = DRIVES[DRIVE];
    let try_one = |format, sectors, parts: &[(u64, u64)]| {
        // By the claims of a drive that hides its sectors they could stay.
        let partitions = (1..).take(parts.len()).collect();
        let wanted = Wanted { partitions, ..Wanted::default() };
        let shape = Shape::wanted(claims, format, sectors, parts, &wanted);
        try_on::<Modelled<DRIVE>>(&shape, drive, 12);
    };
    try_one(Format::Mbr, 16_000, &[(63, 3_001), (3_064, 2_000)]);
    try_one(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    try_one(Format::Gpt, 16_000, &[(34, 2_000), (2_034, 2_000), (4_034, 2_001)]);
}

#[test]
fn moves_survive_power_cuts_of_a_512e_drive() {
    on_drive::<0>();
}

#[test]
fn moves_survive_power_cuts_of_a_drive_that_hides_its_sectors() {
    on_drive::<1>();
}

#[test]
fn moves_survive_power_cuts_of_a_drive_with_a_media_cache() {
    on_drive::<2>();
}

#[test]
fn moves_survive_power_cuts_of_flash() {
    on_drive::<3>();
}
