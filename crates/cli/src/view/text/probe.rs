//! The findings of a probe as text for people, on one screen.

use std::fmt::Write;

use straddle_measure::bench::Description;
use straddle_measure::probe::{
    Confidence, Finding, PhaseScan, Report, Rmw, RmwCost, Rotation, Sustained, WriteCache,
};
use straddle_units::{ByteCount, ByteOffset};

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

/// Returns the verdict, what to do, and the table; if `is_verbose`, also the evidence.
pub(crate) fn report(target: &Description, report: &Report, notes: &[String], is_verbose: bool) -> String {
    let mut text = format!(
        "{}\n{}\n",
        paint(style::HEADING, &wrap(&verdict(report), "")),
        wrap(&consequence(report), "")
    );
    for note in notes {
        let _ = writeln!(text, "{}", wrap(&format!("note: {note}"), ""));
    }
    let _ = write!(text, "\n{}", table(report));
    if is_verbose {
        text.push('\n');
        for why in reasons(report) {
            let _ = writeln!(text, "{}", wrap(&why, ""));
        }
        let _ = write!(text, "\n{}", evidence(report).trim_end());
        text.push('\n');
    }
    let spent = format!(
        "{} ({}); {}; seed {}: {} requests and {} written in {}.",
        printable(&target.name),
        printable(&target.title),
        clock(target.clock),
        report.seed,
        report.requests,
        ByteCount::new(report.written),
        report.elapsed
    );
    let _ = writeln!(text, "\n{}", paint(style::FAINT, &wrap(&spent, "")));
    text
}

fn verdict(report: &Report) -> String {
    let Some(unit) = report.unit.value else {
        return format!("Inconclusive: the physical sector size cannot be determined: {}.", report.unit.why);
    };
    let noun = if is_flash(report) { "write units" } else { "physical sectors" };
    let (size, first) = (unit.size(), unit.phase().get());
    match (report.misreports(), report.claims.unit.filter(|claimed| *claimed != size)) {
        (Some(true), Some(claimed)) => format!(
            "MISREPORTS: claims {}-byte {noun}, has {}, the first at byte {first}.",
            claimed.get(),
            size.get()
        ),
        (Some(true), None) => format!(
            "MISREPORTS: its first {}-byte boundary is byte {first}, not byte {} as it claims.",
            size.get(),
            report.claims.phase.unwrap_or_default().get()
        ),
        (Some(false), _) => format!("As claimed: {}-byte {noun}, the first at byte {first}.", size.get()),
        (None, _) => format!("It has {}-byte {noun}, the first at byte {first}.", size.get()),
    }
}

fn is_flash(report: &Report) -> bool {
    matches!(report.rotation.value, Some(Rotation::None))
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
    // Neither found nor claimed.
    table
        .add_rows(rows.into_iter().filter(|[_, _, confidence, claimed]| confidence != "-" || claimed != "-"));
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

/// Says how to align, and what else costs.
fn consequence(report: &Report) -> String {
    let Some(unit) = report.unit.value else {
        return "Align partitions to 1 MiB, which suits nearly every drive.".to_owned();
    };
    let size = unit.size().get();
    if size == report.logical {
        return "Any start is aligned.".to_owned();
    }
    let phase = match unit.phase().get() {
        0 => String::new(),
        phase => format!(" plus {phase} (first aligned LBA: {})", phase / report.logical),
    };
    let aligned = |start: u64| if unit.is_aligned(ByteOffset::new(start)) { "aligned" } else { "misaligned" };
    let mut text = format!(
        "Align partitions to multiples of {size} bytes{phase}: 1 MiB is {}, sector 63 of 512 bytes is {}.",
        aligned(1 << 20),
        aligned(OLD_START)
    );
    if let Some(ratio) = report.cost() {
        let kind = if report.proof.is_some() { "durable" } else { "sustained" };
        let _ = write!(text, " A misaligned {kind} write takes {ratio:.2} times as long");
        text += if is_flash(report) { ", and writes twice the bytes to flash." } else { "." };
    }
    text
}
