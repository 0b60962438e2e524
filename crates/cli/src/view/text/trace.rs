//! The requests of traces as text for people.

use std::fmt::Write;

use straddle_trace::{Effect, Format, Histogram, SECTOR, Volume};
use straddle_units::ByteCount;

use crate::output::{Styles, paint, plural, printable};
use crate::view::chart::terminal::bar;
use crate::view::json::trace::Counted;
use crate::view::text::{headed, plain_table, right, wrap};

/// The most volumes listed by name.
const LISTED: usize = 20;
/// The width of a full bar in characters.
const BAR: usize = 40;
/// Sectors of the unit whose starts are drawn.
const DRAWN: u64 = 8;

/// Returns the figures of traces in full, for a terminal of `width` characters.
pub(crate) fn trace(counted: &Counted<'_>, width: usize, styles: Styles) -> String {
    let mut text = format!("{}\n", paint(styles.heading, &wrap(&headline(counted), width, "")));
    let _ = writeln!(text, "\n{}", volumes(counted, styles));
    let writes = &counted.total.writes;
    if writes.requests() == 0 {
        text.push_str("no writes\n");
        return text;
    }
    let from = match counted.start {
        0 => "with the offsets of the trace".to_owned(),
        start => format!("if the partition starts at sector {start}"),
    };
    let _ = writeln!(text, "Writes, each alone, {from}:\n{}", units(counted, styles));
    let _ = writeln!(text, "Where writes begin in 4 KiB, {from}:\n{}", begins(writes, counted.start));
    for sentence in sentences(counted) {
        let _ = writeln!(text, "{}", wrap(&sentence, width, ""));
    }
    text
}

fn headline(counted: &Counted<'_>) -> String {
    let names = match counted.files {
        [file] => printable(&file.name).to_string(),
        files => plural(files.len(), "trace"),
    };
    let mut formats: Vec<&str> =
        counted.files.iter().filter_map(|file| file.format.map(Format::about)).collect();
    formats.dedup();
    let formats = formats.join("; ");
    let (count, total) = (counted.account.volumes().count(), &counted.total);
    let requests =
        total.reads.requests() + total.writes.requests() + total.discards.requests() + total.flushes;
    let (requests, volumes) = (plural(requests, "request"), plural(count, "volume"));
    let mut text = format!("{names} ({formats}): {requests} on {volumes}");
    let inexact = total.reads.inexact() + total.writes.inexact();
    if inexact > 0 {
        let _ =
            write!(text, "; {} not of whole 512-byte sectors, counted with the sectors they touch", inexact);
    }
    text
}

/// Returns the table of volumes, those with most written first.
fn volumes(counted: &Counted<'_>, styles: Styles) -> String {
    let mut table =
        plain_table(&["VOLUME", "READS", "READ", "WRITES", "WRITTEN", "OFF 4 KIB", "DISCARDS", "FLUSHES"]);
    let mut volumes: Vec<_> = counted.account.volumes().collect();
    volumes.sort_by_key(|(_, volume)| std::cmp::Reverse(volume.writes.sectors()));
    let left = volumes.len().saturating_sub(LISTED);
    for (name, volume) in volumes.iter().take(LISTED) {
        let name = if name.is_empty() { "-".to_owned() } else { printable(name).to_string() };
        table.add_row(row(counted, name, volume));
    }
    if volumes.len() > 1 {
        table.add_row(row(counted, "all".to_owned(), &counted.total));
    }
    right(&mut table, 1..8);
    let mut text = headed(&table, styles.heading);
    if left > 0 {
        let _ = write!(text, "\n({} more: --json lists all)", plural(left, "volume"));
    }
    text.push('\n');
    text
}

fn row(counted: &Counted<'_>, name: String, volume: &Volume) -> Vec<String> {
    let off = volume.writes.effects(DRAWN).map(|effects| effects.started_at(counted.start));
    let bytes = |histogram: &Histogram| {
        let bytes = u64::try_from(histogram.sectors() * u128::from(SECTOR)).unwrap_or(u64::MAX);
        ByteCount::new(bytes).to_string()
    };
    vec![
        name,
        volume.reads.requests().to_string(),
        bytes(&volume.reads),
        volume.writes.requests().to_string(),
        bytes(&volume.writes),
        off.map_or_else(String::new, |effect| share(effect.misaligned, effect.requests)),
        volume.discards.requests().to_string(),
        volume.flushes.to_string(),
    ]
}

/// Returns the table of units.
fn units(counted: &Counted<'_>, styles: Styles) -> String {
    let mut header = vec!["UNIT", "MISALIGNED", "STRADDLING", "RMW/WRITE", "WRITTEN"];
    header.extend(counted.best.then_some(["BEST START", "RMW/WRITE", "WRITTEN"]).into_iter().flatten());
    let mut table = plain_table(&header);
    for unit in counted.units {
        let Some(effects) = counted.total.writes.effects(*unit) else { continue };
        let effect = effects.started_at(counted.start);
        let mut cells = vec![
            ByteCount::new(unit * SECTOR).to_string(),
            share(effect.misaligned, effect.requests),
            share(effect.straddling, effect.requests),
            per_request(&effect),
            times(&effect),
        ];
        if counted.best {
            let (start, best) = effects.best();
            cells.extend([format!("{start}s"), per_request(&best), times(&best)]);
        }
        table.add_row(cells);
    }
    right(&mut table, 0..header.len());
    headed(&table, styles.heading) + "\n"
}

/// Draws how many writes begin at each sector of a block.
fn begins(writes: &Histogram, start: u64) -> String {
    let mut counts = [0_u64; 8];
    for (class, count) in writes.classes() {
        let sector = (u64::from(class.first) + start % DRAWN) % DRAWN;
        if let Some(sum) = usize::try_from(sector).ok().and_then(|sector| counts.get_mut(sector)) {
            *sum += count.requests;
        }
    }
    let all: u64 = counts.iter().sum();
    let line = |(sector, count): (usize, &u64)| {
        let line = format!("  sector {sector}  {:>7}  {}", share(*count, all), bar(ratio(*count, all), BAR));
        format!("{}\n", line.trim_end())
    };
    counts.iter().enumerate().map(line).collect()
}

/// Returns what the figures mean in words.
fn sentences(counted: &Counted<'_>) -> Vec<String> {
    let effect = |unit: u64, start: u64| counted.total.writes.effects(unit).map(|it| it.started_at(start));
    let (Some(physical), Some(shown)) = (effect(DRAWN, counted.start), effect(DRAWN * 4, counted.start))
    else {
        return Vec::new();
    };
    let mut sentences = vec![format!(
        "On 4 KiB sectors a drive needs {} read-modify-writes for each write, and writes {} what it is asked to; on units of 16 KiB {}.",
        per_request(&physical),
        times(&physical),
        times(&shown),
    )];
    if let Some(share) = counted.account.costliest(DRAWN * 4, counted.start) {
        let size = ByteCount::new(u64::from(share.sectors) * SECTOR);
        let whose = if share.volume.is_empty() {
            String::new()
        } else {
            format!(" to volume {}", printable(share.volume))
        };
        let percent = share.share * 100.0;
        sentences.push(format!(
            "Of what it writes besides on 16 KiB, {percent:.0} % comes from writes of {size}{whose}."
        ));
    }
    sentences.extend(off_boundary(counted));
    sentences.push("Each figure is of single requests: what a cache merges costs less.".to_owned());
    sentences
}

/// Names the volume whose writes gain most by another start, if that halves its read-modify-writes: it starts off
/// a boundary.
fn off_boundary(counted: &Counted<'_>) -> Option<String> {
    let gain = |(name, volume): (_, &Volume)| {
        let effects = volume.writes.effects(DRAWN)?;
        let (start, best) = effects.best();
        let now = effects.started_at(counted.start);
        (best.partial * 2 < now.partial).then_some((now.partial - best.partial, name, start, now, best))
    };
    let (_, name, start, now, best) = counted.account.volumes().filter_map(gain).max_by_key(|gain| gain.0)?;
    let whose: &str = name;
    let whose =
        if whose.is_empty() { "the volume".to_owned() } else { format!("volume {}", printable(whose)) };
    let later = plural((start + DRAWN - counted.start % DRAWN) % DRAWN, "sector");
    let (now, best) = (share(now.misaligned, now.requests), share(best.misaligned, best.requests));
    Some(format!(
        "If {whose} started {later} later, {best} of its writes would be misaligned on 4 KiB sectors, and not {now}: it starts off a boundary.",
    ))
}

fn per_request(effect: &Effect) -> String {
    format!("{:.2}", ratio(effect.partial, effect.requests))
}

fn times(effect: &Effect) -> String {
    effect.amplification().map_or_else(|| "-".to_owned(), |times| format!("{times:.2} x"))
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", ratio(part, all) * 100.0)
}

fn ratio(part: u64, all: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
    let ratio = part as f64 / all.max(1) as f64;
    ratio
}
