//! A recording as text for people: a line while it is made, and a summary at the end.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use straddle_trace::Asked;
use straddle_trace::tracefs::{Ended, Progress, Subject, Why};
use straddle_units::ByteCount;

use crate::output::{plural, printable, quote_path};
use crate::view::text::wrap;

pub(crate) fn line(now: &Progress<'_>, limit: Option<Duration>) -> String {
    let of = limit.map(|limit| format!(" of {} s", limit.as_secs())).unwrap_or_default();
    let requests = now.asked.requests;
    let mut line = format!(
        "{} s{of}  {}  {} read, {} written",
        now.elapsed.as_secs(),
        plural(requests.count(), "request"),
        ByteCount::new(requests.read_bytes),
        ByteCount::new(requests.write_bytes)
    );
    if now.lost > 0 {
        let _ = write!(line, "  {} lost", plural(now.lost, "event"));
    }
    line
}

pub(crate) fn asked(asked: &Asked) -> String {
    let requests = asked.requests;
    let mut text = format!(
        "{} ({}), {} ({})",
        plural(requests.reads, "read"),
        ByteCount::new(requests.read_bytes),
        plural(requests.writes, "write"),
        ByteCount::new(requests.write_bytes)
    );
    for (count, noun) in
        [(requests.flushes, "flush"), (requests.discards, "discard"), (asked.commands, "device command")]
    {
        if count > 0 {
            let plural = if count == 1 {
                ""
            } else if noun == "flush" {
                "es"
            } else {
                "s"
            };
            let _ = write!(text, ", {count} {noun}{plural}");
        }
    }
    text
}

/// Returns a summary of a recording in `to`.
pub(crate) fn ended(subject: &Subject, counted: &Asked, ended: &Ended, to: &Path) -> String {
    let disk = subject.described.device.as_deref().unwrap_or_default();
    let why = match ended.why {
        Why::Time => "",
        Why::Stopped => ", stopped",
        Why::Gone => ", until it was gone",
    };
    let lost = match ended.lost {
        0 => "no event lost".to_owned(),
        lost => format!("{} lost", plural(lost, "event")),
    };
    let what = match &subject.described.partition {
        None => printable(disk),
        Some(partition) => printable(&partition.device),
    };
    let summary =
        format!("{what}: recorded for {:.1} s{why}: {}; {lost}", ended.elapsed.as_secs_f64(), asked(counted));
    let mut text = wrap(&summary, "");
    if let Some(partition) = &subject.described.partition {
        let note = format!(
            "the offsets are those on {}, where the partition begins at byte {}; flushes are those of the whole disk",
            printable(disk),
            partition.start
        );
        let _ = write!(text, "\n{}", wrap(&note, ""));
    }
    let _ = writeln!(text, "\nstraddle trace {}", quote_path(to));
    text
}
