//! The requests of traces as text for people.

use std::fmt::Write;

use straddle_measure::bench::float;
use straddle_trace::{Effect, Format, Histogram, Origin, SECTOR, UNITS, Volume};
use straddle_units::ByteCount;

use crate::output::{paint, plural, printable, style};
use crate::view::chart::{bar, height};
use crate::view::text::{headed, led, plain_table, right, wrap};
use straddle_trace::form::Counted;

const LISTED: usize = 20;
const BAR: usize = 40;
const SIZES: usize = 8;
/// Sectors of the unit whose starts are drawn.
const DRAWN: u64 = 8;
/// Sectors of the larger unit that is put in words.
pub(crate) const LARGE: u64 = 32;

/// Returns what is missing in a recording that has been read to its end.
pub(crate) fn missing(name: &str, origin: Option<&Origin>) -> Vec<String> {
    let Some(origin) = origin else { return Vec::new() };
    let cut_off = origin
        .is_cut_off()
        .then(|| format!("{name}: the recording is truncated, so later requests are missing"));
    let lost = origin.lost_events.filter(|lost| *lost > 0).map(|lost| {
        let were = if lost == 1 { "was" } else { "were" };
        let events = plural(lost, "event");
        format!("{name}: {events} {were} lost during the recording, so requests are missing")
    });
    cut_off.into_iter().chain(lost).collect()
}

pub(crate) fn trace(counted: &Counted<'_>, is_verbose: bool) -> String {
    let mut text = led(sentences(counted).iter().map(|sentence| wrap(sentence, "")));
    let _ = writeln!(text, "{}\n\n{}", paint(style::FAINT, &wrap(&headline(counted), "")), volumes(counted));
    let writes = &counted.total.writes;
    if writes.requests() == 0 {
        return text;
    }
    let from = match counted.start {
        0 => "at the offsets of the trace".to_owned(),
        start => format!("with the partition at sector {start}"),
    };
    let _ = write!(text, "Writes by unit size, {from}:\n{}", units(counted));
    if is_verbose {
        let _ = writeln!(text, "\nLengths of writes:\n{}", sizes(counted));
        let _ = write!(text, "Where writes begin within 4 KiB, {from}:\n{}", begins(writes, counted.start));
    }
    text
}

pub(crate) fn headline(counted: &Counted<'_>) -> String {
    let names = match counted.files {
        [file] => printable(&file.name).to_string(),
        files => plural(files.len(), "trace"),
    };
    let mut formats: Vec<&str> =
        counted.files.iter().filter_map(|file| file.format.map(Format::about)).collect();
    formats.dedup();
    let formats = formats.join("; ");
    let (count, total) = (counted.account.volumes().count(), &counted.total);
    let (requests, volumes) = (plural(total.requests(), "request"), plural(count, "volume"));
    // An empty file has no format.
    let formats = if formats.is_empty() { "empty".to_owned() } else { formats };
    let mut text = format!("{names} ({formats}): {requests} to {volumes}");
    if total.requests() == 0 && counted.account.others() > 0 {
        let others = counted.account.others();
        let _ = write!(text, "; other lines or events: {others} (see --event)");
    }
    let inexact = total.reads.inexact() + total.writes.inexact();
    if inexact > 0 {
        let _ = write!(text, "; {inexact} extended to whole 512-byte sectors");
    }
    text
}

fn volumes(counted: &Counted<'_>) -> String {
    let header = ["VOLUME", "READS", "READ", "WRITES", "WRITTEN", "OFF 4 KIB", "512 B – 1 MIB"];
    let mut table = plain_table(&header);
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
    right(&mut table, 1..6);
    let mut text = headed(&table, style::HEADING);
    if left > 0 {
        let _ = write!(text, "\n({} more: --json lists all)", plural(left, "volume"));
    }
    text.push('\n');
    text
}

pub(crate) fn bytes(sectors: u128) -> String {
    ByteCount::new(u64::try_from(sectors * u128::from(SECTOR)).unwrap_or(u64::MAX)).to_string()
}

fn row(counted: &Counted<'_>, name: String, volume: &Volume) -> Vec<String> {
    let off = volume.writes.effects(DRAWN).map(|effects| effects.started_at(counted.start));
    vec![
        name,
        volume.reads.requests().to_string(),
        bytes(volume.reads.sectors()),
        volume.writes.requests().to_string(),
        bytes(volume.writes.sectors()),
        off.map_or_else(String::new, |effect| share(effect.misaligned, effect.requests)),
        strip(&volume.writes, counted.start),
    ]
}

fn strip(writes: &Histogram, start: u64) -> String {
    if writes.requests() == 0 {
        return String::new();
    }
    let share = |unit: u64| {
        let effect = writes.effects(unit).map(|effects| effects.started_at(start)).unwrap_or_default();
        ratio(effect.misaligned, effect.requests)
    };
    UNITS.into_iter().map(|unit| height(share(unit))).collect()
}

fn sizes(counted: &Counted<'_>) -> String {
    let writes = &counted.total.writes;
    let all = writes.requests();
    let mut sizes = writes.sizes();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.requests));
    let left = sizes.len().saturating_sub(SIZES);
    sizes.truncate(SIZES);
    sizes.sort_by_key(|size| size.sectors.unwrap_or(u64::MAX));
    let mut table = plain_table(&["LENGTH", "WRITES", "BYTES", ""]);
    for size in sizes {
        let length = size.sectors.map(|sectors| ByteCount::new(sectors * SECTOR).to_string());
        let share_of_bytes = counted_share(size.total, writes.sectors());
        table.add_row(vec![
            length.unwrap_or_else(|| "2 MiB and more".to_owned()),
            share(size.requests, all),
            share_of_bytes,
            bar(ratio(size.requests, all), BAR),
        ]);
    }
    right(&mut table, 0..3);
    let mut text = headed(&table, style::HEADING) + "\n";
    if left > 0 {
        let _ = writeln!(text, "({}: --json lists all)", plural(left, "more length"));
    }
    text
}

fn counted_share(part: u128, all: u128) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
    let share = part as f64 / all.max(1) as f64;
    format!("{:.1} %", share * 100.0)
}

fn units(counted: &Counted<'_>) -> String {
    let writes = &counted.total.writes;
    let mut header = vec!["UNIT", "MISALIGNED", "RMW", "WRITTEN"];
    header.extend(counted.best.then_some(["BEST", "RMW", "WRITTEN"]).into_iter().flatten());
    header.extend(counted.window.map(|_| ["MERGED RMW", "WRITTEN"]).into_iter().flatten());
    let mut table = plain_table(&header);
    for unit in counted.units {
        let Some(effects) = writes.effects(*unit) else { continue };
        let effect = effects.started_at(counted.start);
        let mut cells = vec![
            ByteCount::new(unit * SECTOR).to_string(),
            share(effect.misaligned, effect.requests),
            per_request(&effect),
            times(effect.amplification()),
        ];
        if counted.best {
            let (start, best) = effects.best();
            cells.extend([format!("{start}s"), per_request(&best), times(best.amplification())]);
        }
        let merged = counted.total.coalesced.iter().find(|coalesced| coalesced.unit == *unit);
        cells.extend(merged.into_iter().flat_map(|merged| {
            let per_write = format!("{:.2}", ratio(merged.partial, effect.requests));
            [per_write, times(merged.amplification(effect.sectors))]
        }));
        table.add_row(cells);
    }
    right(&mut table, 0..header.len());
    let legend = "RMW: read-modify-writes per write; WRITTEN: bytes written in whole units per byte \
                  requested";
    format!("{}\n{}\n", headed(&table, style::HEADING), paint(style::FAINT, &wrap(legend, "")))
}

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

pub(crate) fn sentences(counted: &Counted<'_>) -> Vec<String> {
    if counted.total.writes.requests() == 0 {
        let has_reads = counted.total.reads.requests() > 0;
        let none = if has_reads { "There are no writes." } else { "There are no reads or writes." };
        return vec![none.to_owned()];
    }
    let effect = |unit: u64| counted.total.writes.effects(unit).map(|it| it.started_at(counted.start));
    let (Some(physical), Some(large)) = (effect(DRAWN), effect(LARGE)) else { return Vec::new() };
    let written = |effect: &Effect, unit: u64, what: &str| {
        let (now, aligned) = (effect.amplification().unwrap_or(1.0), counted.account.aligned(unit));
        match aligned.filter(|aligned| now - aligned >= 0.005) {
            Some(aligned) => format!("{now:.2}{what} ({aligned:.2} if aligned)"),
            None => format!("{now:.2}{what} (the same if aligned)"),
        }
    };
    let mut sentences = vec![
        format!(
            "For each byte requested, {} are written on 4 KiB sectors, and {} on 16 KiB units.",
            written(&physical, DRAWN, " bytes"),
            written(&large, LARGE, "")
        ),
        format!(
            "On 4 KiB sectors, each write needs {} read-modify-writes on average.",
            per_request(&physical)
        ),
    ];
    sentences.extend(off_boundary(counted));
    if let Some(share) = counted.account.costliest(LARGE, counted.start) {
        let length = share
            .sectors
            .map_or_else(String::new, |sectors| format!("{} ", ByteCount::new(sectors * SECTOR)));
        let whose = match share.volume {
            None | Some("") => String::new(),
            Some(volume) => format!(" of volume {}", printable(volume)),
        };
        let share = share.share * 100.0;
        sentences
            .push(format!("{share:.0} % of the excess on 16 KiB units is caused by {length}writes{whose}."));
    }
    sentences.push(match counted.window {
        None => "These are upper bounds, because requests are counted separately (--merge-within models a \
                 cache)."
            .to_owned(),
        Some(window) => format!(
            "These are upper bounds, because requests are counted separately. MERGED shows lower bounds for \
             caches that hold writes for up to {}.",
            window.within
        ),
    });
    sentences.extend(early(counted));
    sentences
}

/// Says which figures behind a window are not lower bounds, or approximate.
fn early(counted: &Counted<'_>) -> Vec<String> {
    let early = counted.total.coalesced.iter().filter(|coalesced| coalesced.early > 0);
    let units: Vec<String> = early.map(|it| ByteCount::new(it.unit * SECTOR).to_string()).collect();
    let late = counted.account.late();
    let mut said = Vec::new();
    if late > 0 {
        let late = plural(late, "request");
        said.push(format!("{late}: out of chronological order, merged in trace order."));
    }
    if !units.is_empty() {
        let units = units.join(", ");
        said.push(format!(
            "More {units} units were dirty at once than the cache holds; a larger cache may write less."
        ));
    }
    said
}

/// Names the volume whose writes gain most by another start, if that halves its read-modify-writes: it starts off a
/// boundary. Volumes that all gain by the same start are named together.
fn off_boundary(counted: &Counted<'_>) -> Option<String> {
    let gain = |(name, volume): (_, &Volume)| {
        let effects = volume.writes.effects(DRAWN)?;
        let (start, best) = effects.best();
        let now = effects.started_at(counted.start);
        (best.partial * 2 < now.partial).then_some((now.partial - best.partial, name, start, now, best))
    };
    let written = || counted.account.volumes().filter(|(_, volume)| volume.writes.requests() > 0);
    let gains: Vec<_> = written().filter_map(gain).collect();
    let most = gains.iter().max_by_key(|gain| gain.0)?;
    let is_all =
        gains.len() > 1 && gains.len() == written().count() && gains.iter().all(|one| one.2 == most.2);
    let total = is_all.then(|| gain(("", &counted.total))).flatten();
    let (whose, (_, _, start, now, best)) = match &total {
        Some(total) => (format!("the {} volumes", gains.len()), total),
        None if most.1.is_empty() => ("the volume".to_owned(), most),
        None => (format!("volume {}", printable(most.1)), most),
    };
    let them = if total.is_some() { "their" } else { "its" };
    let later = plural((start + DRAWN - counted.start % DRAWN) % DRAWN, "sector");
    let (now, best) = (share(now.misaligned, now.requests), share(best.misaligned, best.requests));
    Some(format!(
        "If {whose} started {later} later, {best} of {them} writes would be misaligned on 4 KiB sectors, \
         instead of {now}.",
    ))
}

pub(crate) fn per_request(effect: &Effect) -> String {
    format!("{:.2}", ratio(effect.partial, effect.requests))
}

fn times(amplification: Option<f64>) -> String {
    amplification.map_or_else(|| "-".to_owned(), |times| format!("{times:.2} x"))
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", ratio(part, all) * 100.0)
}

pub(crate) fn ratio(part: u64, all: u64) -> f64 {
    float(part) / float(all.max(1))
}
