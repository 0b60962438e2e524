//! Power cuts while the two copies of a GPT get the marker or lose it: what `check`, `plan --repair` and
//! `resume` make of every state that the cut can leave.

use std::fs;
use std::io;
use std::ops::ControlFlow;

use serde_json::Value;
use straddle_device::{Medium, ReadError};
use straddle_repair::realign::{JournalPlace, Outcome, Realign, Run};
use straddle_repair::{Identity, Simulated, Target};
use straddle_units::{ByteCount, ByteOffset};

use super::{NAME, check, of_rule, planned};
use crate::tools::skip::{cases, is_sampled};
use crate::tools::{Dir, list, number, straddle_in, transcript};

/// The bytes at each end of the disk that the copies of the table fill.
const TABLE: usize = 34 * 512;

/// Few bytes move: the states are many.
const TABLE_OF_GPT: &str = "label: gpt\nfirst-lba: 34\nstart=34, size=500\nstart=534, size=501\n";

/// A disk in memory that keeps what is written between flushes.
struct Recorder {
    bytes: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    /// The contents at each flush that follows a write to the table, and what was written since the flush
    /// before.
    epochs: Vec<Epoch>,
    durable: Vec<u8>,
}

/// What was on the medium, and what was then written to it in 512-byte units, in any order.
struct Epoch {
    durable: Vec<u8>,
    units: Vec<(usize, Vec<u8>)>,
}

impl Recorder {
    fn new(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), bytes, pending: Vec::new(), epochs: Vec::new() }
    }

    fn is_table(&self, at: usize) -> bool {
        at < TABLE || at >= self.bytes.len() - TABLE
    }
}

impl Medium for Recorder {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.bytes.len() as u64)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let at = usize::try_from(at.get()).unwrap();
        buf.copy_from_slice(&self.bytes[at..at + buf.len()]);
        Ok(())
    }
}

impl Simulated for Recorder {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at.get()).unwrap();
        let units = bytes.chunks(512).enumerate().map(|(index, unit)| (at + index * 512, unit.to_vec()));
        let changed = units.filter(|(at, unit)| self.bytes[*at..*at + unit.len()] != unit[..]);
        let changed: Vec<_> = changed.collect();
        self.pending.extend(changed);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let units = std::mem::take(&mut self.pending);
        if units.iter().any(|(at, _)| self.is_table(*at)) {
            self.epochs.push(Epoch { durable: self.durable.clone(), units });
        }
        self.durable.clone_from(&self.bytes);
        Ok(())
    }
}

/// Moves the partitions of a GPT disk, or the first of them and back again; returns every epoch that changes the
/// table.
fn recorded(dir: &Dir, is_back: bool) -> Vec<Epoch> {
    let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
    let mut disk = Recorder::new(fs::read(dir.join(NAME)).unwrap());
    let mut target = Target::simulated(&mut disk, Identity::default());
    let run = realign.begin(&mut target, JournalPlace::Inside, [7; 16]).unwrap();
    if is_back {
        assert_eq!(run.finish(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
        let run = Run::find(&mut target, None).unwrap();
        run.roll_back(&mut |_| ControlFlow::Continue(())).unwrap();
    } else {
        run.finish(&mut |_| ControlFlow::Continue(())).unwrap();
    }
    disk.epochs
}

/// The contents of the partitions, by the table that `check` has read.
fn contents(dir: &Dir, report: &Value) -> Vec<Vec<u8>> {
    let bytes = fs::read(dir.join(NAME)).unwrap();
    let part = |partition: &Value| {
        let start = usize::try_from(number(partition, "start_bytes")).unwrap();
        let len = usize::try_from(number(partition, "size_bytes")).unwrap();
        bytes[start..start + len].to_vec()
    };
    list(report, "partitions").iter().map(part).collect()
}

/// What was found in the states.
#[derive(Default, Debug)]
struct Seen {
    states: u32,
    unfinished: u32,
    in_one_copy: u32,
    repaired: u32,
}

/// Judges the disk in `dir`, which a cut has left like this.
fn judge(dir: &Dir, before: &[Vec<u8>], seen: &mut Seen, what: &str) {
    let state = fs::read(dir.join(NAME)).unwrap();
    seen.states += 1;
    let report = check(dir);
    let problems = ["S031", "S032", "S033", "S036"];
    let is_damaged = |report: &Value| problems.iter().any(|code| !of_rule(report, code).is_empty());
    if let [finding] = of_rule(&report, "S047")[..] {
        seen.unfinished += 1;
        seen.in_one_copy += u32::from(finding["message"].as_str().unwrap().contains("only the GPT copy"));
        let output = straddle_in(dir, &["plan", NAME, "--repair"]);
        assert_eq!(output.status.code(), Some(4), "{what}: {}", transcript(&output));
        for way in [&["resume", NAME][..], &["resume", NAME, "--rollback"]] {
            fs::write(dir.join(NAME), &state).unwrap();
            let output = straddle_in(dir, way);
            let text = transcript(&output);
            // Only the one way is left at the end of a move, and of a rollback.
            let is_too_late =
                text.contains("can no longer be rolled back") || text.contains("a rollback is in progress");
            assert!(output.status.success() || is_too_late, "{what}: {way:?}: {text}");
            if !is_too_late {
                let report = check(dir);
                assert!(of_rule(&report, "S047").is_empty() && !is_damaged(&report), "{what}: {report}");
                assert!(contents(dir, &report) == before, "{what}: {way:?}: other contents");
            }
        }
        return;
    }
    // The table is the old one or the new one, and so are the places of the data.
    assert!(contents(dir, &report) == before, "{what}: other contents: {report}");
    let output = straddle_in(dir, &["resume", NAME]);
    assert!(transcript(&output).contains("no unfinished move"), "{what}: {}", transcript(&output));
    assert!(fs::read(dir.join(NAME)).unwrap() == state, "{what}");
    if is_damaged(&report) {
        seen.repaired += 1;
        let _ = fs::remove_file(dir.join("repair.json"));
        let _ = fs::remove_file(dir.join("repair.json.undo"));
        for words in [
            &["plan", NAME, "--repair", "--save", "repair.json"][..],
            &["apply", "repair.json", "--write", NAME],
        ] {
            let output = straddle_in(dir, words);
            assert!(output.status.success(), "{what}: {words:?}: {}", transcript(&output));
        }
        let report = check(dir);
        assert!(!is_damaged(&report) && contents(dir, &report) == before, "{what}: {report}");
    }
}

/// Whether a subset has some of these units, and not all of them.
fn is_torn(subset: u32, units: std::ops::Range<usize>) -> bool {
    let count = units.clone().filter(|bit| subset >> bit & 1 == 1).count();
    count != 0 && count != units.len()
}

/// Every subset of the writes of every epoch. While the table gets its marker, when no data have moved, also
/// those of a drive that ignores flushes, as long as one of the two copies is whole.
#[test]
fn every_cut_in_the_two_copies_is_recognised() {
    if !crate::tools::present(&["sfdisk"]) {
        return;
    }
    let mut seen = Seen::default();
    for is_back in [false, true] {
        let dir = planned(TABLE_OF_GPT, 8 << 20);
        let before = contents(&dir, &check(&dir));
        let mut epochs = recorded(&dir, is_back);
        // The two copies get the marker, and lose it.
        assert_eq!(epochs.len(), 4);
        let first = epochs[0].units.len();
        let both: Vec<_> = epochs[..2].iter().flat_map(|epoch| epoch.units.clone()).collect();
        epochs.push(Epoch { durable: epochs[0].durable.clone(), units: both });
        for (index, Epoch { durable, units }) in epochs.iter().enumerate() {
            assert!(units.len() <= 8, "{} units", units.len());
            let is_possible = |subset: &u32| {
                index < 4 || !is_torn(*subset, 0..first) || !is_torn(*subset, first..units.len())
            };
            for subset in cases((0..1_u32 << units.len()).filter(is_possible), 3) {
                let mut state = durable.clone();
                for (_, (at, unit)) in units.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1) {
                    state[*at..*at + unit.len()].copy_from_slice(unit);
                }
                fs::write(dir.join(NAME), &state).unwrap();
                judge(&dir, &before, &mut seen, &format!("back: {is_back}, epoch {index}, units {subset:b}"));
            }
        }
    }
    println!("{seen:?}");
    assert!(
        (is_sampled() || seen.in_one_copy > 0) && seen.repaired > 0 && seen.unfinished > seen.in_one_copy,
        "{seen:?}"
    );
}
