//! Results as comma-separated values, for spreadsheets and scripts: the columns of `--json` under the same names.

use std::fmt::Write;

use straddle_trace::{Coalesced, Histogram, SECTOR};

use crate::view::json::trace::Counted;
use crate::view::report::csv::quoted;

const TRACE: &str = "volume,operation,unit_bytes,requests,bytes,misaligned_requests,straddling_requests,partial_head_requests,\
                     partial_tail_requests,partial_units,touched_units,amplification,best_started_at_sectors,\
                     best_partial_units,best_touched_units,merged_written_units,merged_partial_units";

/// Returns a line for each volume, operation and size of a unit.
pub(crate) fn trace(counted: &Counted<'_>) -> String {
    let mut text = format!("{TRACE}\n");
    for (name, volume) in counted.account.volumes() {
        let operations = [("read", &volume.reads), ("write", &volume.writes), ("discard", &volume.discards)];
        for (operation, histogram) in operations {
            let coalesced = if operation == "write" { &volume.coalesced[..] } else { &[] };
            rows(&mut text, counted, (name, operation), histogram, coalesced);
        }
    }
    text
}

fn rows(
    text: &mut String,
    counted: &Counted<'_>,
    (name, operation): (&str, &str),
    histogram: &Histogram,
    coalesced: &[Coalesced],
) {
    if histogram.requests() == 0 {
        return;
    }
    for unit in counted.units {
        let Some(effects) = histogram.effects(*unit) else { continue };
        let (effect, (best, least)) = (effects.started_at(counted.start), effects.best());
        let amplification = effect.amplification().map(|times| format!("{times:.6}")).unwrap_or_default();
        let merged = coalesced.iter().find(|coalesced| coalesced.unit == *unit);
        let merged =
            merged.map_or_else(|| ",".to_owned(), |merged| format!("{},{}", merged.written, merged.partial));
        let _ = writeln!(
            text,
            "{},{operation},{},{},{},{},{},{},{},{},{},{amplification},{best},{},{},{merged}",
            quoted(name),
            unit * SECTOR,
            effect.requests,
            effect.sectors * u128::from(SECTOR),
            effect.misaligned,
            effect.straddling,
            effect.heads,
            effect.tails,
            effect.partial,
            effect.touched,
            least.partial,
            least.touched,
        );
    }
}
