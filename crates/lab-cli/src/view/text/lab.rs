//! A guest's run as text for people.

use std::fmt::Write;

use straddle_lab::guest::{Ended, GuestDrive, Job};
use straddle_units::ByteCount;
use straddle_units::io::Counters;

use crate::output::{plural, printable};
use crate::view::text::wrap;

pub(crate) fn ended(job: &Job, ended: &Ended) -> String {
    let (guest, host) = (ended.guest.as_secs_f64(), ended.host.as_secs_f64());
    let mut text =
        format!("\nlab: {guest:.3} s of the guest's time in {host:.1} s ({:.1} times as fast)", guest / host);
    if ended.cut {
        text.push_str("; the power was cut");
    } else if let Some(cut) = &job.cut {
        let _ = write!(text, "; the power was not cut: it ended before request {}", cut.after);
    }
    text.push('\n');
    for measured in &ended.measures {
        let _ = writeln!(text, "  {:<24} {:>12.6} s", printable(&measured.name), measured.value);
    }
    for (drive, counters) in job.drives.iter().zip(&ended.counters) {
        let _ = writeln!(text, "{}", wrap(&of_drive(drive, counters), "  "));
    }
    let requests = plural(ended.requests, "request");
    let charged = format!(
        "{requests}, fingerprint {:016x}, seed {}; charged: {}",
        ended.fingerprint, job.seed, job.charges
    );
    let _ = writeln!(text, "{}", wrap(&charged, "  "));
    let reasons = ended.spent.not_repeatable();
    if !reasons.is_empty() {
        let sentence = format!("Not repeatable to the nanosecond: {}.", reasons.join("; "));
        let _ = writeln!(text, "{}", wrap(&sentence, "  "));
    }
    text
}

fn of_drive(drive: &GuestDrive, counters: &Counters) -> String {
    let start = drive.partition.start.map_or(String::new(), |start| format!(" (partition at byte {start})"));
    let mut text = format!(
        "{}{start}: {} read-modify-writes, {} read and {} written inside",
        printable(&drive.profile.name),
        counters.rmw_reads,
        ByteCount::new(counters.media_read_bytes),
        ByteCount::new(counters.media_write_bytes),
    );
    if counters.revolution > 0 {
        let _ = write!(
            text,
            ", {} seeks, {:.1} revolutions waited",
            counters.seeks,
            counters.revolutions_waited()
        );
    }
    text
}
