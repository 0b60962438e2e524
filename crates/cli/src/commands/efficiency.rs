//! `straddle efficiency`: why sectors became larger.

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Format, format_efficiency};

use crate::args::EfficiencyArguments;
use crate::exit::Exit;
use crate::output;
use crate::view::text;

/// The format efficiency of one sector format.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// The bytes of data in a sector.
    data_bytes: u32,
    /// The bytes of gap, synchronisation and address mark of a sector.
    overhead_bytes: u32,
    /// The bytes of error-correcting code of a sector.
    ecc_bytes: u32,
    /// The bytes that a sector takes on the medium.
    total_bytes: u64,
    /// `data_bytes` as a fraction of `total_bytes`, from 0 to 1.
    efficiency: f64,
}

pub(crate) fn run(arguments: &EfficiencyArguments) -> Result<Exit> {
    let rows: Vec<Row> = formats(arguments)
        .into_iter()
        .map(|format| Row {
            data_bytes: format.data,
            overhead_bytes: format.overhead,
            ecc_bytes: format.ecc,
            total_bytes: format.total(),
            efficiency: format_efficiency(format),
        })
        .collect();
    if arguments.json {
        output::print_json(&rows)?;
        return Ok(Exit::Success);
    }
    let mut table = text::plain_table(&["DATA", "GAP+SYNC+MARK", "ECC", "ON THE MEDIUM", "EFFICIENCY"]);
    for row in &rows {
        let percent = format!("{:.1} %", row.efficiency * 100.0);
        table.add_row(vec![
            row.data_bytes.to_string(),
            row.overhead_bytes.to_string(),
            row.ecc_bytes.to_string(),
            row.total_bytes.to_string(),
            percent,
        ]);
    }
    text::right(&mut table, 0..5);
    let mut out = output::stdout();
    writeln!(out, "Bytes a sector; efficiency = data / (data + gap, sync and address mark + ECC)\n")?;
    writeln!(out, "{}", text::trimmed(&table))?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Returns the formats asked for: the two usual ones, or the one described, with the usual overheads where
/// none are given.
fn formats(arguments: &EfficiencyArguments) -> Vec<Format> {
    let asked = (arguments.data, arguments.overhead, arguments.ecc);
    if asked == (None, None, None) {
        return vec![Format::LEGACY, Format::ADVANCED];
    }
    let usual = match arguments.data {
        Some(data) if data > Format::LEGACY.data => Format::ADVANCED,
        _ => Format::LEGACY,
    };
    vec![Format {
        data: arguments.data.unwrap_or(usual.data),
        overhead: arguments.overhead.unwrap_or(usual.overhead),
        ecc: arguments.ecc.unwrap_or(usual.ecc),
    }]
}
