//! The findings of a probe as text for people, on one screen.

use std::fmt::Write;

use straddle_measure::bench::Description;
use straddle_measure::probe::{
    Confidence, Finding, PhaseScan, Report, Rmw, RmwCost, Rotation, Sustained, WriteCache,
};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::output::{paint, printable, style};
use crate::view::chart::terminal::{Plot, bar};
use crate::view::text::{clock, folded, headed, plain_table, wrap};

/// The most phases that are drawn as bars; more are drawn as a curve.
const MOST_BARS: usize = 16;
/// Characters of the longest bar, and width and height of a curve.
const BAR: usize = 40;
const CURVE: (usize, usize) = (64, 6);
/// The byte at which partitions began before 2009: 63 sectors of 512 bytes.
const OLD_START: u64 = 63 * 512;

pub(crate) fn report(target: &Description, report: &Report, notes: &[String]) -> String {
    let mut text = format!("{}\n\n", paint(style::HEADING, &wrap(&headline(target, report), "")));
    for note in notes {
        let _ = writeln!(text, "{}", wrap(&format!("note: {note}"), ""));
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}", table(report));
    for why in reasons(report) {
        let _ = writeln!(text, "{}", paint(style::FAINT, &wrap(&why, "")));
    }
    let _ = write!(text, "\n{}", evidence(report));
    let _ = writeln!(text, "{}", wrap(&consequence(report), ""));
    let spent = format!(
        "Seed {}: {} requests and {} written in {}.",
        report.seed,
        report.requests,
        ByteCount::new(report.written),
        report.elapsed
    );
    let _ = writeln!(text, "{}", paint(style::FAINT, &wrap(&spent, "")));
    text
}

fn headline(target: &Description, report: &Report) -> String {
    let (name, title) = (printable(&target.name), printable(&target.title));
    let clock = clock(target.clock);
    let verdict = match (report.unit.value, report.misreports()) {
        (None, _) => "the unit of its writes cannot be determined".to_owned(),
        (Some(unit), misreports) => {
            let claims = match misreports {
                Some(true) => ", and its claim is wrong",
                Some(false) => ", as it claims",
                None => "",
            };
            format!("writes {}{claims}", units(unit))
        }
    };
    format!("{name} ({title}): {verdict}; {clock}")
}

/// Returns `units of 4096 bytes that begin at byte 3584`.
fn units(unit: Boundary) -> String {
    let begin = match unit.phase().get() {
        0 => "byte 0".to_owned(),
        phase => format!("byte {phase}"),
    };
    format!("units of {} bytes that begin at {begin}", unit.size().get())
}

fn table(report: &Report) -> String {
    let claims = &report.claims;
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes} bytes"));
    let turns = |turns: bool| if turns { "rotates" } else { "does not rotate" }.to_owned();
    let unknown = || "-".to_owned();
    let rows = [
        row(
            "unit",
            &report.unit,
            |unit| format!("{} bytes", unit.size().get()),
            bytes(claims.unit.map(ByteCount::get)),
        ),
        row("first boundary", &report.unit, |unit| format!("byte {}", unit.phase().get()), {
            claims.phase.map_or_else(unknown, |phase| format!("byte {}", phase.get()))
        }),
        row("rotation", &report.rotation, rotation, claims.rotational.map_or_else(unknown, turns)),
        row("write cache", &report.cache, cache, unknown()),
        row("partial unit", &report.rmw, rmw, unknown()),
        row("merge window", &report.merge, window, unknown()),
        row("cache depth", &report.depth, |writes| format!("{writes} writes"), unknown()),
    ];
    let mut table = plain_table(&["PROPERTY", "FOUND", "CONFIDENCE", "CLAIMED"]);
    table.add_rows(rows);
    folded(&mut table);
    headed(&table, style::HEADING) + "\n"
}

fn row<T: Copy>(
    name: &str,
    finding: &Finding<T>,
    shown: impl Fn(T) -> String,
    claimed: String,
) -> [String; 4] {
    let found = finding.value.map_or_else(|| "cannot tell".to_owned(), shown);
    let confidence = match finding.confidence {
        Confidence::None => "-",
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    };
    [name.to_owned(), found, confidence.to_owned(), claimed]
}

fn rotation(rotation: Rotation) -> String {
    match rotation {
        Rotation::Period(period) => format!("{period}, {:.0} rpm", 60.0 / period.seconds()),
        Rotation::None => "does not rotate".to_owned(),
    }
}

fn cache(cache: WriteCache) -> String {
    match cache {
        WriteCache::None => "none: writes wait for the medium",
        WriteCache::Volatile => "volatile; flush works",
        WriteCache::Unflushed => "flush has no effect: protected cache, or flush ignored",
    }
    .to_owned()
}

fn rmw(cost: RmwCost) -> String {
    let when = match cost.when {
        Rmw::None => return "there is none".to_owned(),
        Rmw::Immediate => "at once",
        Rmw::Deferred => "from the cache",
    };
    format!("completed {when}; one costs {}, two {}", millis(cost.one), millis(cost.two))
}

fn window(seconds: f64) -> String {
    if seconds > 0.0 { format!("{} at least", millis(seconds)) } else { "none".to_owned() }
}

fn millis(seconds: f64) -> String {
    if seconds < 0.001 { format!("{:.0} µs", seconds * 1e6) } else { format!("{:.1} ms", seconds * 1e3) }
}

/// Returns the evidence for the findings, or why there are none.
fn reasons(report: &Report) -> Vec<String> {
    let mut reasons =
        vec![format!("Unit: {}.", report.unit.why), format!("Rotation: {}.", report.rotation.why)];
    if report.cache.value.is_some() {
        reasons.push(format!("Cache: {}.", report.cache.why));
    }
    reasons
}

fn evidence(report: &Report) -> String {
    if let Some(sustained) = &report.sustained {
        return series(sustained);
    }
    report.scans.last().map_or_else(String::new, phases)
}

fn phases(scan: &PhaseScan) -> String {
    let medians: Vec<(u64, f64)> = scan.medians().collect();
    let most = medians.iter().map(|phase| phase.1).fold(0.0, f64::max);
    let title = format!("Durable writes of {} bytes, median by phase", scan.size);
    if medians.len() > MOST_BARS {
        let y = |x: f64| {
            let near =
                medians.iter().min_by(|left, right| distance(left.0, x).total_cmp(&distance(right.0, x)));
            near.map_or(0.0, |phase| phase.1 * 1e3)
        };
        let title = format!("{title}, in ms");
        let (width, height) = CURVE;
        let x_most = exact(scan.size - scan.step);
        let plot = Plot { title: &title, x_most, y_most: most * 1e3, x_label: "byte", width, height };
        return format!("{}\n\n", plot.draw(y));
    }
    let mut text = format!("{title}:\n");
    for (phase, seconds) in medians {
        let _ = writeln!(text, "{phase:>7}  {:>9}  {}", millis(seconds), bar(seconds / most, BAR));
    }
    text + "\n"
}

fn distance(phase: u64, x: f64) -> f64 {
    (exact(phase) - x).abs()
}

/// Converts a number of bytes within a unit.
fn exact(bytes: u64) -> f64 {
    u32::try_from(bytes).map_or(f64::MAX, f64::from)
}

fn series(sustained: &Sustained) -> String {
    let size = sustained.unit.size().get();
    let kinds = if sustained.straddling {
        [
            ("across a boundary", &sustained.dear),
            ("within a unit", &sustained.cheap),
            ("at its middle", &sustained.half),
        ]
    } else {
        [
            ("off the boundaries", &sustained.dear),
            ("on the boundaries", &sustained.cheap),
            ("half a unit off", &sustained.half),
        ]
    };
    let mean = |times: &[f64]| times.iter().sum::<f64>() / exact(times.len() as u64).max(1.0);
    let most = kinds.iter().map(|kind| mean(kind.1)).fold(0.0, f64::max);
    let mut text = format!(
        "Series of {} writes with the cache full, for units of {size} bytes, mean:\n",
        sustained.length
    );
    for (name, times) in kinds {
        let _ = writeln!(text, "  {name:<18}  {:>9}  {}", millis(mean(times)), bar(mean(times) / most, BAR));
    }
    text + "\n"
}

fn consequence(report: &Report) -> String {
    let Some(unit) = report.unit.value else {
        return "Align to 1 MiB, as every partitioning tool does; that suits whatever it is.".to_owned();
    };
    let size = unit.size().get();
    if size == report.logical {
        return format!(
            "Every write of whole logical sectors ({size} bytes) is aligned, wherever it begins."
        );
    }
    let mut text = format!("Align partitions to {size} bytes");
    if unit.phase().get() > 0 {
        let _ = write!(
            text,
            " and {} more: LBA {} is the first aligned one",
            unit.phase().get(),
            unit.phase().get() / report.logical
        );
    }
    let judged = |name: &str, start: u64| {
        let aligned = unit.is_aligned(ByteOffset::new(start));
        format!("a start at {name} is {}", if aligned { "aligned" } else { "misaligned" })
    };
    let _ = write!(text, "; {}, {}", judged("LBA 63 of 512 bytes", OLD_START), judged("1 MiB", 1 << 20));
    let kind = if report.proof.is_some() { "durable" } else { "sustained" };
    let is_flash = matches!(report.rotation.value, Some(Rotation::None));
    if is_flash {
        text += ". A whole unit written off the boundaries is parts of two, and writes 2 times as many bytes to flash (wear)";
    }
    if let Some(ratio) = report.cost() {
        let _ = write!(text, ". A {kind} write of a unit off the boundaries takes {ratio:.2} times as long");
    }
    text + "."
}
