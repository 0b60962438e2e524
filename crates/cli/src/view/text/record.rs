//! A recording as text for people: a line while it is made, and a summary at the end.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use straddle_record::{Ended, Progress, Subject, Why};
use straddle_trace::Asked;
use straddle_units::ByteCount;

use crate::output::{plural, printable};
use crate::view::text::wrap;

/// Returns how far a recording is.
pub(crate) fn line(now: &Progress<'_>, limit: Option<Duration>) -> String {
    let of = limit.map(|limit| format!(" of {} s", limit.as_secs())).unwrap_or_default();
    let asked = now.asked;
    let mut line = format!(
        "{} s{of}  {}  {} read, {} written",
        now.elapsed.as_secs(),
        plural(asked.requests(), "request"),
        ByteCount::new(asked.read_bytes),
        ByteCount::new(asked.write_bytes)
    );
    if now.lost > 0 {
        let _ = write!(line, "  {} lost", plural(now.lost, "event"));
    }
    line
}

/// Returns what was asked of a drive.
pub(crate) fn asked(asked: &Asked) -> String {
    let mut text = format!(
        "{} ({}), {} ({})",
        plural(asked.reads, "read"),
        ByteCount::new(asked.read_bytes),
        plural(asked.writes, "write"),
        ByteCount::new(asked.write_bytes)
    );
    for (count, noun) in
        [(asked.flushes, "flush"), (asked.discards, "discard"), (asked.commands, "device command")]
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
pub(crate) fn ended(subject: &Subject, counted: &Asked, ended: &Ended, to: &Path, width: usize) -> String {
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
    let mut text = wrap(&summary, width, "");
    if let Some(partition) = &subject.described.partition {
        let note = format!(
            "the offsets are those on {}, where the partition begins at byte {}; flushes are those of the whole disk",
            printable(disk),
            partition.start
        );
        let _ = write!(text, "\n{}", wrap(&note, width, ""));
    }
    let _ = writeln!(text, "\nstraddle trace {}", printable(&shell(to)));
    text
}

/// Returns a path as a word for the shell.
fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
