//! Accounts of small traces, and of random ones beside a loop over every unit of every request.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use straddle_units::io::SplitMix64;

use super::*;
use crate::format::How;
use crate::histogram::{Effect, SECTOR, UNITS};

fn any() -> How {
    How::default()
}

fn account(text: &str) -> Account {
    let mut account = Account::new();
    account.read(Reader::new(text.as_bytes(), "t", &any()), None).unwrap();
    account
}

#[test]
fn volumes_and_operations_are_apart_and_parts_add_up() {
    let lines = ["7,W,4096,4096,20", "8,R,512,512,10", "7,W,32256,8192,30", "7,R,0,4096,5"];
    let whole = account(&lines.join("\n"));
    let names: Vec<_> = whole.volumes().map(|(name, _)| name).collect();
    assert_eq!(names, ["7", "8"]);
    let total = whole.total();
    assert_eq!((total.reads.requests(), total.writes.requests(), total.writes.sectors()), (2, 2, 24));
    let mut parts = account(&lines[2..].join("\n"));
    parts.join(account(&lines[..2].join("\n")));
    assert!(parts.volumes().eq(whole.volumes()));
}

#[test]
fn the_writes_that_cost_most_are_named() {
    let account = account("7,W,4096,4096,1\n7,W,36864,4096,2\n8,W,0,65536,3\n8,R,0,512,4");
    let share = account.costliest(32, 0).unwrap();
    assert_eq!((share.volume, share.sectors), (Some("7"), Some(8)));
    assert!((share.share - 1.0).abs() < 1e-9);
    assert_eq!(account.costliest(8, 0), None);
}

#[test]
fn each_volume_may_begin_where_it_costs_least() {
    let account = account("7,W,32256,4096,1\n8,W,512,4096,2\n9,R,0,512,3");
    assert_eq!(account.total().writes.effects(8).unwrap().best().1.amplification(), Some(1.5));
    assert_eq!(account.aligned(8), Some(1.0));
    assert_eq!(super::Account::new().aligned(8), None);
}

#[test]
fn a_request_past_the_last_byte_is_an_error_with_its_line() {
    let text = format!("7,W,0,1,1\n7,W,{},8,2", u64::MAX);
    let reader = Reader::new(text.as_bytes(), "t", &How::default());
    let error = Account::new().read(reader, None).unwrap_err();
    assert_eq!(error.to_string(), "t:2 (byte 10)");
}

#[test]
fn times_in_any_order_have_their_span_and_the_late_ones_are_counted() {
    let window = Window { within: Nanos::new(1000), units: vec![8], start: 0 };
    for (text, span, late) in [
        ("7,W,0,4096,30\n7,W,0,4096,10\n7,W,0,4096,20\n7,W,0,4096,40", 30_000, 2),
        ("7,W,0,4096,10\n7,W,0,4096,10\n7,W,0,4096,30", 20_000, 0),
    ] {
        let mut account = Account::new();
        account.read(Reader::new(text.as_bytes(), "t", &any()), Some(&window)).unwrap();
        assert_eq!((account.span(), account.late()), (Some(Time::from_nanos(span)), late), "{text}");
    }
}

#[test]
fn a_request_of_no_bytes_is_none() {
    let account = account("7,W,512,0,10\n7,R,4096,4096,20\n8,W,0,0,30");
    let names: Vec<_> = account.volumes().map(|(name, _)| name).collect();
    assert_eq!((names, account.total().requests(), account.others()), (vec!["7"], 1, 2));
}

/// A request: when, of which volume, what, its first byte and its length.
type Asked = (u64, u64, Operation, u64, u64);

/// What a request does to units of a size, counted unit by unit.
fn brute(first: u64, end: u64, unit: u64) -> Effect {
    let (mut touched, mut partial) = (0_u64, 0);
    let mut at = first / unit * unit;
    while at < end {
        touched += 1;
        partial += u64::from(at < first || at + unit > end);
        at += unit;
    }
    let (head, tail) = (!first.is_multiple_of(unit), !end.is_multiple_of(unit));
    Effect {
        requests: 1,
        misaligned: u64::from(head || tail),
        straddling: u64::from(touched > (end - first).div_ceil(unit)),
        heads: u64::from(head),
        tails: u64::from(tail),
        partial,
        touched: u128::from(touched),
        sectors: u128::from(end - first),
        unit,
    }
}

/// Returns the first sector of a request and the one behind it, in a partition that begins at a sector.
fn sectors((_, _, _, offset, length): &Asked, start: u64) -> (u64, u64) {
    (offset / SECTOR + start, (offset + length).div_ceil(SECTOR) + start)
}

fn random(random: &mut SplitMix64) -> Vec<Asked> {
    let mut time = random.below(1 << 40);
    let unit = [1, 512, 512, 4096, 16_384][random.index(5)];
    let ahead = random.below(64) * SECTOR;
    let longest = [64, 64, 512, 9 << 20][random.index(4)];
    let mut one = || {
        time += random.below(5) * 1000;
        let operation =
            [Operation::Read, Operation::Write, Operation::Write, Operation::Discard][random.index(4)];
        let length = (1 + random.below(longest / unit.min(longest))) * unit;
        (time, random.below(3), operation, random.below((1 << 30) / unit) * unit + ahead, length)
    };
    (0..12).map(|_| one()).collect()
}

/// Writes requests in one of three formats, so that both ways to read a line are taken.
fn written(requests: &[Asked], format: u64) -> String {
    let mut text = if format == 0 { "time_ns;volume;length;op;offset\n".to_owned() } else { String::new() };
    for (time, volume, operation, offset, length) in requests {
        let letter = crate::columns::letter(*operation);
        let _ = match format {
            0 => writeln!(text, "{time};{volume};{length};{letter};{offset}"),
            1 => writeln!(text, " {time}  {volume} {letter}  {offset} {length} "),
            _ => writeln!(text, "\"{offset}\",{letter},x,{length},{volume},{time}"),
        };
    }
    text
}

fn maps(format: u64) -> How {
    let map = match format {
        0 => return any(),
        1 => "time=1:ns,volume=2,op=3,offset=4,length=5",
        _ => "offset=1,op=2,length=4,volume=5,time=6:ns",
    };
    How { columns: map.parse().unwrap(), ..any() }
}

/// `TRACES=100000` tries more; `SEED=n` begins elsewhere, and with `TRACES=1` repeats one.
#[test]
fn random_traces_are_those_of_a_loop_over_every_record() {
    let setting = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (seed, count) = (setting("SEED", 1), setting("TRACES", 1_500));
    for seed in seed..seed + count {
        let mut numbers = SplitMix64::new(seed);
        let requests = random(&mut numbers);
        let format = numbers.below(3);
        let mut account = Account::new();
        let text = written(&requests, format);
        let reader = Reader::new(text.as_bytes(), "t", &maps(format));
        account.read(reader, None).unwrap_or_else(|error| panic!("SEED={seed}: {error}: {text}"));
        let start = numbers.below(1 << 34);
        let names: BTreeSet<u64> = requests.iter().map(|(_, volume, ..)| *volume).collect();
        assert_eq!(account.volumes().count(), names.len(), "SEED={seed}");
        for (name, volume) in account.volumes() {
            for operation in [Operation::Read, Operation::Write, Operation::Discard] {
                let is_one = |request: &&Asked| request.1.to_string() == name && request.2 == operation;
                let of: Vec<&Asked> = requests.iter().filter(is_one).collect();
                let histogram = volume.histogram(operation).unwrap();
                for unit in UNITS {
                    let sum = |start| {
                        let effects = of.iter().map(|request| sectors(request, start));
                        let zero = Effect { unit, ..Effect::default() };
                        effects.map(|(first, end)| brute(first, end, unit)).fold(zero, Effect::plus)
                    };
                    let effects = histogram.effects(unit).unwrap();
                    assert_eq!(
                        effects.started_at(start),
                        sum(start),
                        "SEED={seed}, unit {unit}, start {start}"
                    );
                    // Of few starts all are tried, of many some.
                    let (best, effect) = effects.best();
                    assert_eq!(effect, sum(best), "SEED={seed}, unit {unit}, best start {best}");
                    let others = (0..unit).step_by(usize::try_from(unit / 8).unwrap().max(1));
                    assert!(
                        others.map(sum).all(|other| other.partial >= effect.partial),
                        "SEED={seed}, {unit}"
                    );
                }
                let sizes: u64 = histogram.sizes().iter().map(|size| size.requests).sum();
                assert_eq!(sizes, of.len() as u64, "SEED={seed}");
                for size in histogram.sizes() {
                    let same = |request: &&&Asked| {
                        let (first, end) = sectors(request, 0);
                        size.sectors.map_or(end - first >= 4096, |length| end - first == length)
                    };
                    assert_eq!(of.iter().filter(same).count() as u64, size.requests, "SEED={seed}, {size:?}");
                }
            }
        }
    }
}
