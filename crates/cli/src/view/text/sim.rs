//! A replayed trace as text for people.

use std::fmt::Write;

use straddle_trace::{Pace, Replayed};
use straddle_units::ByteCount;
use straddle_units::io::{Latency, Nanos, rounded};

use crate::output::{paint, plural, printable, style};
use crate::view::json::sim::{Run, Sim};
use crate::view::text::{headed, plain_table, right, wrap};

/// Returns the verdict, and the tables.
pub(crate) fn sim(sim: &Sim<'_>) -> String {
    let mut text = String::new();
    let mut style = style::HEADING;
    for sentence in verdicts(sim) {
        let _ = writeln!(text, "{}", paint(style, &wrap(&sentence, "")));
        style = anstyle::Style::new();
    }
    for note in sim.runs.first().map(notes).unwrap_or_default() {
        let _ = writeln!(text, "{}", wrap(&note, ""));
    }
    let _ = write!(text, "\n{}\n\n{}\n", table(sim), totals(sim));
    if sim.runs.iter().any(|run| run.volumes.len() > 1) {
        let _ = write!(text, "\n{}", volumes(sim));
    }
    let _ = writeln!(text, "\n{}", paint(style::FAINT, &wrap(&headline(sim), "")));
    text
}

/// Returns what was replayed, on which drive, and by which clock.
fn headline(sim: &Sim<'_>) -> String {
    let pace = sim.runs.first().map(|run| match run.replayed.pace {
        Pace::Open => format!("requests at their times, at most {} outstanding", run.replayed.depth),
        Pace::Closed => format!("{} outstanding", plural(depth(run), "request")),
    });
    let (trace, title) = (printable(sim.trace), printable(&sim.profile.title));
    let name = printable(sim.drive);
    let volumes = sim.runs.first().map_or(0, |run| run.volumes.len());
    let each = if volumes > 1 {
        format!(", each of {volumes} volumes on a drive of its own")
    } else {
        String::new()
    };
    format!("{trace} on {title} (drive:{name}){each}: {}; modelled, virtual time.", pace.unwrap_or_default())
}

fn depth(run: &Run) -> usize {
    usize::try_from(run.replayed.depth).unwrap_or(usize::MAX)
}

fn table(sim: &Sim<'_>) -> String {
    let mut table = plain_table(&["SHIFT", "OP", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"]);
    for run in sim.runs {
        let replayed = &run.replayed;
        let mut shift = run.shift.to_string();
        for (op, times) in
            [("read", &replayed.reads), ("write", &replayed.writes), ("flush", &replayed.flushes)]
        {
            if times.count() > 0 {
                table.add_row(row(std::mem::take(&mut shift), op, times));
            }
        }
    }
    right(&mut table, [0].into_iter().chain(2..9));
    headed(&table, style::HEADING)
}

/// The most volumes listed by name.
const LISTED: usize = 10;

/// Returns the table of volumes, those whose requests take longest in all first.
fn volumes(sim: &Sim<'_>) -> String {
    let Some(first) = sim.runs.first() else { return String::new() };
    let mut volumes: Vec<_> = first.volumes.iter().collect();
    volumes.sort_by_key(|(_, replayed)| std::cmp::Reverse(replayed.busy()));
    let shifts: Vec<String> = sim.runs.iter().map(|run| format!("SHIFT {}", run.shift)).collect();
    let mut table = plain_table(
        &["VOLUME", "REQUESTS"].into_iter().chain(shifts.iter().map(String::as_str)).collect::<Vec<_>>(),
    );
    for (name, replayed) in volumes.iter().take(LISTED) {
        let shown = if name.is_empty() { "-".to_owned() } else { printable(name).to_string() };
        let mut row = vec![shown, replayed.requests.to_string()];
        for run in sim.runs {
            let replayed = run.volumes.iter().find(|(known, _)| known == name);
            row.push(replayed.map_or_else(String::new, |(_, replayed)| mean(replayed)));
        }
        table.add_row(row);
    }
    right(&mut table, 1..2 + shifts.len());
    let mut text = format!("Mean time of a request:\n{}\n", headed(&table, style::HEADING));
    if volumes.len() > LISTED {
        let _ = writeln!(text, "({} more: --json lists all)", plural(volumes.len() - LISTED, "volume"));
    }
    text
}

fn mean(replayed: &Replayed) -> String {
    let count = replayed.reads.count() + replayed.writes.count() + replayed.flushes.count();
    Nanos::new(replayed.busy().get().checked_div(count).unwrap_or(0)).to_string()
}

fn row(shift: String, op: &str, times: &Latency) -> Vec<String> {
    let mut row = vec![shift, op.to_owned(), times.count().to_string(), times.mean().to_string()];
    row.extend([0.5, 0.9, 0.99, 0.999].map(|share| times.quantile(share).to_string()));
    row.push(times.max().to_string());
    row
}

/// Returns the table of what each run did to the medium.
fn totals(sim: &Sim<'_>) -> String {
    let mut table =
        plain_table(&["SHIFT", "REQUESTS", "BYTES", "TIME", "MISALIGNED", "RMW", "WRITTEN", "REVOLUTIONS"]);
    for run in sim.runs {
        let (replayed, counters) = (&run.replayed, &run.replayed.counters);
        let dash = || "-".to_owned();
        table.add_row([
            run.shift.to_string(),
            replayed.requests.to_string(),
            ByteCount::new(replayed.bytes).to_string(),
            replayed.elapsed.to_string(),
            replayed.misaligned_share().map_or_else(dash, |share| format!("{:.1} %", 100.0 * share)),
            counters.rmw_reads.to_string(),
            counters.write_amplification().map_or_else(dash, |times| format!("{times:.2} x")),
            if counters.revolution > 0 { rounded(counters.revolutions_waited()) } else { dash() },
        ]);
    }
    right(&mut table, 0..8);
    headed(&table, style::HEADING)
}

/// Says what was not replayed as the trace has it. That is the same for all shifts.
fn notes(run: &Run) -> Vec<String> {
    let (late, replayed) = (run.late(), &run.replayed);
    let Replayed { off_sector, ignored, .. } = replayed;
    let said = [
        (late, "request", "out of order in time, replayed in the order of the trace"),
        (*off_sector, "request", "not of whole 512-byte sectors, extended to them"),
        (replayed.wrapped, "request", "past the end of the drive, wrapped to its beginning"),
        (*ignored, "discard", "skipped: the drive has no such command"),
    ];
    let said = said.into_iter().filter(|(count, _, _)| *count > 0);
    said.map(|(count, what, how)| format!("{}: {how}.", plural(count, what))).collect()
}

/// Compares the cost of each shift with that of the first. If requests wait longer and longer, a ratio of
/// their times is meaningless and is not given.
fn verdicts(sim: &Sim<'_>) -> Vec<String> {
    let Some((first, others)) = sim.runs.split_first() else { return Vec::new() };
    if first.replayed.requests == 0 {
        return vec!["No request was replayed.".to_owned()];
    }
    let mut sentences: Vec<String> = sim.runs.iter().filter(|run| run.diverges()).map(lags).collect();
    for run in others {
        let (shift, beside, ratio) = (run.shift, first.shift, sim.ratio(run));
        let mut said = if !first.diverges() && !run.diverges() {
            format!("With shift {shift}, requests take {ratio:.2} times as long as with shift {beside}")
        } else if first.replayed.elapsed.seconds() > 0.0 {
            let all = run.replayed.elapsed.seconds() / first.replayed.elapsed.seconds();
            format!(
                "With shift {shift}, the whole trace takes {all:.2} times as long as with shift {beside} (--closed-loop compares requests)"
            )
        } else {
            continue;
        };
        let [here, there] = [run, first].map(|run| run.replayed.counters.media_write_bytes);
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let written = here as f64 / there.max(1) as f64;
        if there > 0 && (written - 1.0).abs() >= 0.005 {
            let _ = write!(said, ", and write {written:.2} times the bytes to the medium");
        }
        sentences.push(said + ".");
    }
    if sentences.is_empty() {
        let mean = mean(&first.replayed);
        sentences
            .push(format!("A request takes {mean} on average (--compare shows what misalignment costs)."));
    }
    sentences
}

/// Says that a drive does not keep up.
fn lags(run: &Run) -> String {
    let Run { shift, replayed, .. } = run;
    format!(
        "With shift {shift}, the drive does not keep up: after the {} of the trace it is {} behind.",
        replayed.span, replayed.behind
    )
}
