//! A served drive as text for people: a line while it is served, and a summary at the end.

use std::fmt::Write;
use std::time::Duration;

use straddle_lab::serve::{Ending, Snapshot, Totals};
use straddle_units::ByteCount;
use straddle_units::io::Requests;

use crate::output::printable;
use crate::view::json::serve::{Class, Serve, classes};
use crate::view::text::wrap;

/// Characters of the longest bar.
const BAR: u64 = 40;

/// Returns the current state, with the rates since `before`.
pub(crate) fn line(now: &Snapshot<'_>, before: Option<(Duration, Totals)>) -> String {
    let (since, earlier) = before.unwrap_or_default();
    let seconds = now.elapsed.saturating_sub(since).as_secs_f64();
    let (requests, earlier) = (now.totals.requests, earlier.requests);
    let bytes = |requests: Requests| requests.read_bytes + requests.write_bytes;
    let bytes = rate(bytes(requests) - bytes(earlier), seconds);
    let requests = rate(requests.count() - earlier.count(), seconds);
    let speed = match bytes {
        slow if slow > 0.0 && slow < 1e5 => format!("{:.1} KiB/s", slow / 1024.0),
        fast => format!("{:.1} MB/s", fast / 1e6),
    };
    let mut line =
        format!("{requests:.0} IOPS  {speed}  queue {}  rmw {}", now.outstanding, now.counters.rmw_reads);
    let late = now.lateness;
    if late.count() > 0 {
        let (half, most) = (late.quantile(0.5), late.quantile(0.99));
        let _ = write!(line, "  late p50 {half}, p99 {most}, max {}", late.max());
    }
    line
}

pub(crate) fn summary(serve: &Serve<'_>) -> String {
    let snapshot = &serve.snapshot;
    let (totals, counters) = (snapshot.totals, snapshot.counters);
    let requests = totals.requests;
    let ending = match serve.ending {
        Ending::Signal => "ended by a signal",
        Ending::Quit => "ended by command",
        Ending::PowerCut => "ended by a power cut",
    };
    let (title, target) = (printable(&serve.profile.title), printable(serve.target));
    let mut text = format!(
        "{title} ({target}), served for {:.1} s, {ending}: {} reads ({}), {} writes ({}), {} flushes, {} discards",
        snapshot.elapsed.as_secs_f64(),
        requests.reads,
        ByteCount::new(requests.read_bytes),
        requests.writes,
        ByteCount::new(requests.write_bytes),
        requests.flushes,
        requests.discards,
    );
    if totals.failed > 0 {
        let _ = write!(text, "; {} failed", totals.failed);
    }
    if totals.broken > 0 {
        let _ = write!(text, "; {} clients broke the protocol", totals.broken);
    }
    text = wrap(&text, "");
    let inside = format!(
        "inside the drive: {} read-modify-writes, {} cache hits, {} writes joined others, {} writes to the medium, {} seeks, {:.1} revolutions waited",
        counters.rmw_reads,
        counters.cache_hits,
        counters.merged_writes,
        counters.destages,
        counters.seeks,
        counters.revolutions_waited(),
    );
    let _ = write!(text, "\n{}\n", wrap(&inside, ""));
    let late = snapshot.lateness;
    if late.count() > 0 {
        let shares = [0.5, 0.9, 0.99, 0.999].map(|share| late.quantile(share).to_string());
        let [p50, p90, p99, p999] = shares;
        let figures = format!(
            "replies later than the model says: mean {}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {}",
            late.mean(),
            late.max()
        );
        let _ = write!(text, "{}\n{}", wrap(&figures, ""), histogram(serve));
    }
    text
}

fn histogram(serve: &Serve<'_>) -> String {
    let classes = classes(serve.snapshot.lateness);
    let most = classes.iter().map(|class| class.replies).max().unwrap_or(1);
    let mut text = String::new();
    for Class { bound, replies: count } in classes {
        let bound = bound.map_or("more".to_owned(), |bound| format!("<= {bound}"));
        let bar = "#".repeat(usize::try_from((count * BAR).div_ceil(most)).unwrap_or_default());
        let _ = writeln!(text, "  {bound:>12}  {count:>10}  {bar}");
    }
    text
}

#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
fn rate(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}
