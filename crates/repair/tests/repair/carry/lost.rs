//! A drive that loses a write without an error, any one of those of a whole move.

use std::io;
use std::ops::ControlFlow;

use straddle_device::{Medium, ReadError};
use straddle_repair::realign::{JournalPlace, MoveError, Outcome, Run};
use straddle_repair::{Format, Simulated};
use straddle_units::{ByteCount, ByteOffset};

use super::common::{Memory, target};
use super::{Drive, Shape, Survivor};

/// A drive whose write with this number is lost.
struct Losing {
    seen: Memory,
    write: u64,
    lost: u64,
}

impl Medium for Losing {
    fn len(&self) -> ByteCount {
        self.seen.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.seen.read_at(at, buf)
    }
}

impl Simulated for Losing {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        if self.write != self.lost {
            self.seen.put(at.get(), bytes);
        }
        self.write += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is left can be completed and brought back, or is the old layout, or the new one.
#[test]
fn a_lost_write_of_a_table_is_noticed_before_the_next() {
    let shapes = [
        Shape::new(Format::Mbr, 16_000, &[(63, 1_000), (1_063, 1_000)]),
        Shape::new(Format::Gpt, 16_000, &[(2_049, 1_000), (3_100, 1_000)]),
        Shape::with_logical(16_000, &[(63, 1_000)], (1_100, 3_000), &[(1_100, 1_163, 1_000)]),
    ];
    for shape in shapes {
        let (mut done, mut stopped, mut settled) = (0, 0, 0);
        for lost in 0.. {
            let mut drive = Losing { seen: shape.before.clone(), write: 0, lost };
            let mut disk = target(&mut drive);
            let ended = shape
                .realign
                .begin(&mut disk, JournalPlace::Inside, [9; 16])
                .and_then(|run| run.finish(&mut |_| ControlFlow::Continue(())));
            drop(disk);
            if drive.write <= lost {
                break;
            }
            let what = format!("{}: write {lost}: {ended:?}", shape.name);
            if let Ok(Outcome::Complete(_)) = ended {
                assert!(shape.is_new(&drive.seen, &what), "{what}");
                done += 1;
                continue;
            }
            for back in [false, true] {
                let mut whole = Drive::new(drive.seen.clone(), u64::MAX);
                let mut disk = target(&mut whole);
                let ended = Run::find(&mut disk, None).and_then(|run| match back {
                    true => run.roll_back(&mut |_| ControlFlow::Continue(())),
                    false => run.finish(&mut |_| ControlFlow::Continue(())),
                });
                drop(disk);
                match ended {
                    Ok(Outcome::Complete(_)) => {
                        assert_eq!(shape.is_new(&whole.seen, &what), !back, "{what}");
                        stopped += 1;
                    }
                    // Nothing has moved, or one copy of the new table counts.
                    Err(MoveError::Nothing) => {
                        shape.is_new(&whole.seen, &what);
                        settled += 1;
                    }
                    other => panic!("{what}, back: {back}: {other:?}"),
                }
            }
        }
        println!("{}: {done} complete, {stopped} gone on with or back, {settled} settled", shape.name);
        assert!(stopped > 4 && settled > 0, "{done} {stopped} {settled}");
    }
}
