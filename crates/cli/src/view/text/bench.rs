//! A sweep as text for people.

use std::fmt::Write;

use straddle_drive::FirmwareRange;
use straddle_measure::bench::{
    Arm, Clock, Ended, FEWEST_ROUNDS, Parameters, Ratio, Reached, Samples, Stop, Sweep, Sync, WarmUp, float,
};
use straddle_measure::real::Io;
use straddle_units::ByteCount;
use straddle_units::io::{Counters, Nanos, rounded};

use crate::output::{capitalised, paint, plural, printable, style};
use crate::view::chart::bar;
use crate::view::json::bench::{Bench, PairRange, Turns};
use crate::view::text::{clock, led, plain_table, right, trimmed, wrap_to};

/// The least length of a bar. Columns are left out to make room for it.
const SHORTEST_BAR: usize = 10;
/// The greatest length of a bar; longer ones show no more.
const LONGEST_BAR: usize = 60;

/// A heading, a rank for being left out on a narrow terminal (the highest goes first, 0 never), and the cell for an
/// arm.
struct Column {
    heading: &'static str,
    goes: u8,
    cell: fn(&Arm, &Sweep) -> String,
}

const COLUMNS: [Column; 16] = [
    Column { heading: OFFSET, goes: 0, cell: |arm, _| arm.offset.to_string() },
    Column { heading: TIME, goes: 0, cell: |arm, _| arm.samples.elapsed.to_string() },
    Column { heading: EACH, goes: 0, cell: |arm, _| each(arm).to_string() },
    Column { heading: "IOPS", goes: 0, cell: |arm, _| rounded(arm.iops()) },
    Column { heading: RATE, goes: 4, cell: |arm, _| rounded(arm.bytes_per_second() / 1e6) },
    Column { heading: SLOW_RATE, goes: 4, cell: |arm, _| rounded(arm.bytes_per_second() / 1024.0) },
    Column { heading: "MEAN", goes: 1, cell: |arm, _| arm.samples.latency.mean().to_string() },
    Column { heading: "P50", goes: 3, cell: |arm, _| arm.samples.latency.quantile(0.5).to_string() },
    Column { heading: "P90", goes: 6, cell: |arm, _| arm.samples.latency.quantile(0.9).to_string() },
    Column { heading: "P99", goes: 2, cell: |arm, _| arm.samples.latency.quantile(0.99).to_string() },
    Column { heading: "MAX", goes: 5, cell: |arm, _| arm.samples.latency.max().to_string() },
    Column { heading: FLUSH, goes: 1, cell: |arm, _| arm.samples.flush_latency.mean().to_string() },
    Column { heading: RMW, goes: 1, cell: |arm, _| per_request(&arm.samples, |it| float(it.rmw_reads)) },
    Column {
        heading: REVOLUTIONS,
        goes: 2,
        cell: |arm, _| per_request(&arm.samples, Counters::revolutions_waited),
    },
    Column { heading: AMPLIFICATION, goes: 2, cell: |arm, _| amplification(&arm.samples) },
    Column { heading: RATIO, goes: 0, cell: |arm, sweep| ratio(sweep.ratio(arm)) },
];

const TIME: &str = "TIME";
const RATE: &str = "MB/s";
const SLOW_RATE: &str = "KiB/s";
const EACH: &str = "PER REQ";
const FLUSH: &str = "FLUSH";
const RMW: &str = "RMW/REQ";
const REVOLUTIONS: &str = "REV/REQ";
const AMPLIFICATION: &str = "WAF";
const RATIO: &str = "x BEST";
const OFFSET: &str = "OFFSET";

const LEGEND: [(&str, &str); 7] = [
    (OFFSET, "number of logical sectors by which all requests are shifted, as by a partition's start"),
    (EACH, "median time per request of all rounds, including the flush at the end of each turn"),
    (FLUSH, "mean time of a flush"),
    (RMW, "read-modify-writes per request"),
    (REVOLUTIONS, "revolutions that the drive waits per request"),
    (AMPLIFICATION, "bytes written to flash per byte that the host writes"),
    (RATIO, "time per request relative to the fastest offset, ± 95 % margin"),
];

/// For a terminal of `width` characters: the verdict, the table, and how it was measured.
pub(crate) fn sweep(bench: &Bench<'_>, width: usize) -> String {
    let mut said = verdict(bench.sweep);
    said
        .extend(bench.firmware.map(|PairRange { offset, relative_to, range: FirmwareRange { low, high } }| {
        format!(
            "With other plausible firmware, offset {offset} would take {low:.2} to {high:.2} times as long as \
             offset {relative_to}; ± covers only the sampling error."
        )
    }));
    let mut text = led(said.iter().map(|sentence| wrap_to(width, sentence, "", "  ")));
    for warning in bench.turns.iter().flat_map(|turns| turns.warnings) {
        let warning = wrap_to(width, &format!("warning: {}", printable(warning)), "", "  ");
        let _ = writeln!(text, "{}", paint(style::WARNING, &warning));
    }
    let columns = columns(bench.sweep, width);
    let _ = write!(text, "\n{}\n", table(bench.sweep, &columns, width));
    let legend = LEGEND.iter().filter(|(heading, _)| columns.iter().any(|column| column.heading == *heading));
    let legend = legend.map(|(heading, meaning)| format!("{heading}: {meaning}"));
    for line in legend.chain([headline(bench)]).chain(notes(bench)) {
        let _ = writeln!(text, "{}", paint(style::FAINT, &wrap_to(width, &line, "", "  ")));
    }
    text
}

pub(crate) fn headline(bench: &Bench<'_>) -> String {
    let time = clock(bench.target.clock);
    let overhead = match bench.host.overhead_ns {
        0 => String::new(),
        nanos => format!(", host overhead {}", Nanos::new(nanos)),
    };
    format!(
        "{}: {}{overhead}; on {} ({}); {time}.",
        bench.workload.name(),
        described(bench),
        printable(&bench.target.title),
        printable(&bench.target.name)
    )
}

fn described(bench: &Bench<'_>) -> String {
    let workload = bench.workload;
    let (count, seconds) = workload.limits();
    let Parameters { stride, blocks, seed, sync, fsync_each } = workload.pattern.parameters;
    let amount = match (count, seconds) {
        // The rounds give the number of requests per turn.
        _ if bench.turns.is_some() => String::new(),
        (Some(count), None) => format!("{count} "),
        (Some(count), Some(seconds)) => format!("{count} (at most {seconds} s of) "),
        (None, seconds) => format!("{} s of ", seconds.unwrap_or(0.0)),
    };
    let what = if workload.writes() { "writes" } else { "reads" };
    let mut text = format!("{amount}{}-byte {what}", workload.size);
    if let Some(stride) = stride {
        let _ = write!(text, ", {stride} bytes apart");
    }
    match fsync_each {
        Some(1) => text += ", each with an fsync",
        Some(each @ 2..) => {
            let _ = write!(text, ", an fsync after every {each}");
        }
        Some(0) | None => {}
    }
    if workload.pattern.ends_with_fsync {
        text += ", one fsync at the end";
    }
    match (blocks, bench.target.clock) {
        (None, _) => {}
        // Only a model gets the blocks of the published program.
        (Some(_), Clock::Wall) => text += " at random offsets",
        (Some(_), Clock::Virtual) => {
            let seed =
                seed.map_or_else(|| "seeded with the offset".to_owned(), |seed| format!("seed {seed}"));
            let blocks = workload.blocks(bench.capacity).unwrap_or(0);
            let _ = write!(text, ", block = random() % {blocks}, {seed}");
        }
    }
    match sync.unwrap_or_default() {
        Sync::None => {}
        Sync::Flush => text += ", each with a flush",
        Sync::Fua => text += " with FUA",
    }
    if workload.start > 0 {
        let _ = write!(text, ", from byte {}", workload.start);
    }
    if workload.queue_depth > 1 {
        let _ = write!(text, ", queue depth {}", workload.queue_depth);
    }
    text
}

fn notes(bench: &Bench<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let asked = bench.workload.pattern.parameters.blocks;
    let asked = asked.filter(|_| bench.target.clock == Clock::Virtual);
    if let Some((asked, used)) =
        asked.zip(bench.workload.blocks(bench.capacity)).filter(|(asked, used)| used < asked)
    {
        notes.push(format!(
            "Only {used} of {asked} blocks fit on the drive ({}).",
            ByteCount::new(bench.capacity)
        ));
    }
    match bench.warm_up {
        WarmUp::Runs(0) => {}
        WarmUp::Runs(_) if bench.turns.is_some() => {}
        WarmUp::Runs(runs) => {
            notes.push(format!("Measured after {} at each offset.", plural(runs, "warm-up run")))
        }
        WarmUp::Bytes(bytes) => notes.push(format!(
            "Before each measurement, {} was written to fill the drive's buffer (--warmup 0 disables this).",
            ByteCount::new(bytes)
        )),
    }
    if bench.sweep.arms().iter().any(|arm| arm.samples.stop == Stop::End) {
        notes.push("The end of the drive was reached before the time limit.".to_owned());
    }
    if let Some(turns) = bench.turns {
        notes.push(how(turns, bench.warm_up));
    }
    if bench.logical_sector != 512 {
        notes.push(format!("Offsets are in {}-byte logical sectors.", bench.logical_sector));
    }
    notes
}

fn how(turns: &Turns<'_>, warm_up: WarmUp) -> String {
    let ended = match turns.ended {
        Ended::Precise => format!("until every ratio was within {} %", turns.precision * 100.0),
        Ended::Limit => "until the time limit".to_owned(),
        Ended::Interrupted => "interrupted".to_owned(),
    };
    let bytes: u64 = turns.areas.iter().map(|area| area.len().get()).sum();
    let io = match turns.io {
        Io::Direct => "direct I/O",
        Io::Buffered => "through the page cache",
    };
    let warmed = match warm_up {
        WarmUp::Runs(rounds @ 1..) => format!("After {}: ", plural(rounds, "warm-up round")),
        WarmUp::Runs(0) | WarmUp::Bytes(_) => String::new(),
    };
    format!(
        "{warmed}{} with two turns of {} for each offset, {ended}; {io}; {} in {}, seed {}; {}.",
        plural(turns.rounds, "round"),
        plural(turns.requests, "request"),
        ByteCount::new(bytes),
        plural(turns.areas.len(), "area"),
        turns.seed,
        turns.contents
    )
}

fn columns(sweep: &Sweep, width: usize) -> Vec<&'static Column> {
    let samples = || sweep.arms().iter().map(|arm| &arm.samples);
    let counters = || samples().filter_map(|samples| samples.counters.as_ref());
    let spins = counters().any(|counters| counters.revolution > 0);
    let says = |column: &&Column| match column.heading {
        // With a flush after each write, the flush is part of the latency.
        FLUSH => samples().any(|samples| samples.flushes > 0),
        RMW => counters().any(|counters| counters.host_writes > 0),
        REVOLUTIONS => spins,
        AMPLIFICATION => !spins && counters().any(|counters| counters.host_write_bytes > 0),
        RATIO => sweep.arms().len() > 1,
        RATE => !is_slow(sweep),
        SLOW_RATE => is_slow(sweep),
        TIME => !in_turns(sweep),
        EACH => in_turns(sweep),
        _ => true,
    };
    let mut columns: Vec<&Column> = COLUMNS.iter().filter(says).collect();
    for goes in (1..=6).rev() {
        if needed(sweep, &columns) + SHORTEST_BAR <= width {
            break;
        }
        columns.retain(|column| column.goes != goes);
    }
    columns
}

fn is_slow(sweep: &Sweep) -> bool {
    sweep.arms().iter().any(|arm| arm.bytes_per_second() < 1e5)
}

/// Returns the width of the columns in characters, with the gaps between them and the one before the bar.
fn needed(sweep: &Sweep, columns: &[&Column]) -> usize {
    let longest = |column: &Column| {
        let cells = sweep.arms().iter().map(|arm| (column.cell)(arm, sweep).chars().count());
        cells.max().unwrap_or(0).max(column.heading.len())
    };
    columns.iter().map(|column| longest(column) + 2).sum::<usize>() + 1
}

fn table(sweep: &Sweep, columns: &[&Column], width: usize) -> String {
    let with_bars = sweep.arms().len() > 1;
    let room = width.saturating_sub(needed(sweep, columns)).clamp(SHORTEST_BAR, LONGEST_BAR);
    let mut headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    headings.extend(with_bars.then_some(""));
    let mut table = plain_table(&headings);
    let longest = sweep.worst().seconds_per_request();
    for arm in sweep.arms() {
        let mut row: Vec<String> = columns.iter().map(|column| (column.cell)(arm, sweep)).collect();
        let share = if longest > 0.0 { arm.seconds_per_request() / longest } else { 0.0 };
        row.extend(with_bars.then(|| bar(share, room)));
        table.add_row(row);
    }
    right(&mut table, 0..columns.len());
    coloured(&trimmed(&table), sweep)
}

/// Each arm's bar by its verdict, and last, because the table counts escape sequences as text.
fn coloured(table: &str, sweep: &Sweep) -> String {
    let mut lines = table.lines();
    let mut text =
        lines.next().map(|heading| format!("{}\n", paint(style::HEADING, heading))).unwrap_or_default();
    for (line, arm) in lines.zip(sweep.arms()) {
        let style = if !sweep.differs() || sweep.ratio(arm).is_one() { style::GOOD } else { style::ERROR };
        let drawn = |character: char| ('\u{2580}'..='\u{259F}').contains(&character);
        let _ = match line.find(drawn) {
            Some(at) => writeln!(text, "{}{}", &line[..at], paint(style, &line[at..])),
            None => writeln!(text, "{line}"),
        };
    }
    text
}

pub(crate) fn ratio(ratio: Ratio) -> String {
    match ratio.margin() {
        // The cheapest arm itself.
        _ if ratio.value <= 1.0 => "1.00".to_owned(),
        Some(margin) if margin >= 0.005 => format!("{:.2} ±{margin:.2}", ratio.value),
        _ => format!("{:.2}", ratio.value),
    }
}

fn per_request(samples: &Samples, what: fn(&Counters) -> f64) -> String {
    let counters = samples.counters.as_ref();
    counters.map_or_else(|| "-".to_owned(), |counters| format!("{:.2}", samples.per_request(what(counters))))
}

fn amplification(samples: &Samples) -> String {
    samples.write_amplification().map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"))
}

/// Arms wear flash alike up to this: the writes in progress at the end of a run are in none of their counts.
const ALIKE: f64 = 1.03;

/// A run that would miss a difference of more than this shows nothing.
const MATTERS: f64 = 0.25;

pub(super) fn verdict(sweep: &Sweep) -> Vec<String> {
    let absorbed = offsets(sweep, |reached| reached == Reached::Buffer);
    if absorbed.is_empty() {
        return [Some(times(sweep)), wear(sweep), state(sweep)].into_iter().flatten().collect();
    }
    let more = if is_flash(sweep) {
        "Measure more writes (--count) or blocks (--blocks), or omit --warmup, so that the buffer is full \
         first."
    } else {
        "Measure more writes (--count), or flush each one (--sync flush)."
    };
    let taken = match absorbed.len() {
        count if count == sweep.arms().len() && count > 2 => format!("all {count} offsets"),
        _ => of_offsets(&absorbed),
    };
    vec![format!("Inconclusive: the drive's buffer absorbed the writes at {taken}."), more.to_owned()]
}

fn offsets(sweep: &Sweep, is_meant: impl Fn(Reached) -> bool) -> Vec<u64> {
    let meant = sweep.arms().iter().filter(|arm| arm.samples.reached.is_some_and(&is_meant));
    meant.map(|arm| arm.offset).collect()
}

fn of_offsets(offsets: &[u64]) -> String {
    let noun = if offsets.len() == 1 { "offset" } else { "offsets" };
    format!("{noun} {}", numbers(offsets))
}

fn numbers(offsets: &[u64]) -> String {
    match offsets {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", listed(rest)),
        offsets => listed(offsets),
    }
}

fn is_flash(sweep: &Sweep) -> bool {
    let counters = |arm: &Arm| arm.samples.counters.is_some_and(|counters| counters.revolution == 0);
    sweep.arms().iter().all(|arm| counters(arm) && arm.samples.reached.is_some())
}

fn wears(sweep: &Sweep) -> Option<[(&Arm, f64); 2]> {
    let wear = |arm: &'_ Arm| arm.samples.write_amplification();
    let arms = || sweep.arms().iter().filter_map(|arm| Some((arm, wear(arm)?))).filter(|_| is_flash(sweep));
    let least = arms().min_by(|one, other| one.1.total_cmp(&other.1))?;
    // The first of equals.
    let most = arms().rev().max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some([least, most])
}

fn wears_differ(sweep: &Sweep) -> bool {
    wears(sweep).is_some_and(|[(_, least), (_, most)]| most > ALIKE * least)
}

fn wear(sweep: &Sweep) -> Option<String> {
    let [(least, low), (most, high)] = wears(sweep)?;
    Some(if wears_differ(sweep) {
        format!(
            "Wear: at offset {}, {:.2} times as many bytes are written to flash as at offset {} ({high:.2} \
             and {low:.2} per byte that the host writes).",
            most.offset,
            high / low,
            least.offset
        )
    } else {
        format!("Wear: {high:.2} bytes are written to flash per byte that the host writes.")
    })
}

fn state(sweep: &Sweep) -> Option<String> {
    let unsteady = sweep.arms().iter().find_map(|arm| match arm.samples.reached {
        Some(Reached::Unsteady { first, second }) => Some((arm, first, second)),
        _ => None,
    });
    if let Some((arm, first, second)) = unsteady {
        return Some(format!(
            "Not a steady state: at offset {}, {first:.2} bytes were written to flash per byte that the host \
             wrote in the first half of the run, and {second:.2} bytes in the second half. Use a longer run \
             (--count) or warm-up (--warmup).",
            arm.offset
        ));
    }
    let state = match is_fresh(sweep) {
        true => {
            "The drive was fresh: no flash was garbage-collected. For the cost of long random writes, add \
             steady=on to the drive's name."
        }
        false => "The flash was in the steady state, with garbage collection.",
    };
    is_flash(sweep).then(|| state.to_owned())
}

fn is_fresh(sweep: &Sweep) -> bool {
    let mut collected = sweep.arms().iter().filter_map(|arm| arm.samples.counters);
    is_flash(sweep) && collected.all(|counters| counters.gc_write_bytes == 0)
}

fn times(sweep: &Sweep) -> String {
    let (best, worst) = (sweep.best(), sweep.worst());
    if let [only] = sweep.arms() {
        return format!("{} per request ({}).", each(only), plural(only.samples.requests, "request"));
    }
    if !sweep.differs() {
        return alike(sweep);
    }
    let cheapest = sweep.cheapest();
    let others = sweep.arms().len() - cheapest.len();
    let most = match others {
        2.. if sweep.others_alike() => format!("every offset but {} costs more, up to", numbers(&cheapest)),
        _ => format!("offset {} costs", worst.offset),
    };
    let most = if is_fresh(sweep) { format!("on a fresh drive, {most}") } else { most };
    format!(
        "{} {} times as much as {}: {} instead of {}.",
        capitalised(&most),
        ratio(sweep.worst_ratio()).replace('±', "± "),
        of_offsets(&cheapest),
        taken(worst, sweep),
        taken(best, sweep)
    )
}

fn alike(sweep: &Sweep) -> String {
    let highs = || sweep.arms().iter().filter_map(|arm| Some(sweep.ratio(arm).interval?.high - 1.0));
    let (seen, option) = match in_turns(sweep) {
        true => (highs().max_by(f64::total_cmp), "--runtime"),
        false => (sweep.detectable(), "--count"),
    };
    if let Some(seen) = seen.filter(|seen| *seen <= MATTERS) {
        let what = if wears_differ(sweep) { " in time" } else { "" };
        let offsets = plural(sweep.arms().len(), "offset");
        let limit = match seen > 0.0 {
            true => format!(" (a difference above {} % would have been detected)", rounded(seen * 100.0)),
            false => String::new(),
        };
        return format!("No difference{what} between {offsets}{limit}.");
    }
    let why = match seen {
        Some(seen) => format!("only differences above {:.0} % would be detected", seen * 100.0),
        None if in_turns(sweep) => {
            format!("{} of the {FEWEST_ROUNDS} needed", plural(sweep.best().rounds().len(), "round"))
        }
        None => "too few requests".to_owned(),
    };
    format!("Inconclusive: run longer ({option}; {why}).")
}

fn in_turns(sweep: &Sweep) -> bool {
    sweep.arms().iter().any(|arm| !arm.turns.is_empty())
}

pub(super) fn each(arm: &Arm) -> Nanos {
    Nanos::from_seconds(arm.seconds_per_request()).unwrap_or_default()
}

/// Returns the time of an arm: of its whole run or, in turns, of one request.
fn taken(arm: &Arm, sweep: &Sweep) -> String {
    // Runs that end after a time all take the same, whatever a request takes.
    let requests = |arm: &Arm| arm.samples.requests;
    let as_many = sweep.arms().iter().all(|other| requests(other) == requests(arm));
    if in_turns(sweep) || !as_many {
        format!("{} per request", each(arm))
    } else {
        arm.samples.elapsed.to_string()
    }
}

fn listed(offsets: &[u64]) -> String {
    const MAX_LISTED: usize = 6;
    match offsets {
        [first, .., last] if offsets.len() > MAX_LISTED => format!("{first}, … {last}"),
        few => few.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use straddle_measure::bench::{Description, Host, Pattern, Workload};
    use straddle_units::io::{Latency, Nanos};

    use super::*;

    const MILLISECOND: Nanos = Nanos::new(1_000_000);

    /// A thousand writes of a millisecond at each offset, and twice the penalty where they are off 4096 bytes.
    fn rendered(penalty: Nanos, offsets: &[u64], width: usize) -> String {
        let workload = Workload::from(Pattern::RANDOM_WRITE);
        let arm = |offset: &u64| {
            let each = if offset.is_multiple_of(8) { MILLISECOND } else { MILLISECOND + penalty + penalty };
            let mut latency = Latency::new();
            latency.record_many(each, 1000);
            let samples = Samples {
                requests: 1000,
                bytes: 4096 * 1000,
                flushes: 0,
                elapsed: Nanos::new(each.get() * 1000),
                stop: Stop::Count,
                latency,
                flush_latency: Latency::new(),
                relative_error: Some(0.0),
                reached: None,
                counters: None,
            };
            Arm { offset: *offset, workload: workload.at(offset * 512), samples, turns: Vec::new() }
        };
        let made = Sweep::new(offsets.iter().map(arm).collect()).unwrap();
        let target =
            Description { name: "disk".to_owned(), title: "A disk".to_owned(), clock: Clock::Virtual };
        let bench = Bench {
            target: &target,
            capacity: 1 << 30,
            logical_sector: 512,
            workload: &workload,
            host: Host::default(),
            warm_up: WarmUp::Runs(0),
            sweep: &made,
            firmware: None,
            turns: None,
        };
        crate::output::screened(&sweep(&bench, width), false)
    }

    #[test]
    fn the_table_fits_the_terminal() {
        for width in 60..200 {
            let text = rendered(MILLISECOND, &[0, 1, 100_000], width);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= width, "{width}:\n{text}");
            assert_eq!(text.lines().filter(|line| line.contains('█')).count(), 3, "{text}");
        }
    }

    #[test]
    fn bars_are_to_scale_and_the_sentence_says_what_they_show() {
        let text = rendered(MILLISECOND, &[0, 1, 8], 110);
        let bars: Vec<usize> =
            text.lines().map(|line| line.matches('█').count()).filter(|bar| *bar > 0).collect();
        assert_eq!(bars.len(), 3);
        assert!(bars[0] == bars[2] && bars[1].abs_diff(bars[0] * 3) <= 3, "{bars:?}");
        let sentence = "Offset 1 costs 3.00 times as much as offsets 0 and 8: 3.00 s instead of 1.00 s.";
        assert!(text.starts_with(&format!("{sentence}\n")), "{text}");
        assert!(text.contains("261888 of 200000000 blocks fit on the drive (1 GiB)."), "{text}");
    }

    #[test]
    fn others_that_are_alike_are_listed_together() {
        let alike = rendered(MILLISECOND, &[0, 1, 2], 110);
        let sentence = "Every offset but 0 costs more, up to 3.00 times as much as offset 0: 3.00 s instead of \
                        1.00 s.";
        assert!(alike.starts_with(&format!("{sentence}\n")), "{alike}");
    }

    #[test]
    fn equal_arms_and_single_ones_have_sentences_of_their_own() {
        assert!(rendered(Nanos::ZERO, &[0, 1], 110).starts_with("No difference between 2 offsets.\n"));
        let single = rendered(MILLISECOND, &[1], 110);
        assert!(single.starts_with("3.00 ms per request (1000 requests).\n"), "{single}");
        assert!(!single.contains('█') && !single.contains(RATIO), "{single}");
    }
}
