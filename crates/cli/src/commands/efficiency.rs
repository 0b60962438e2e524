//! `straddle efficiency`: why sectors became larger.

use anyhow::Result;
use straddle_audit::{Format, format_efficiency};

use crate::args::{EfficiencyArguments, SchemaOf};
use crate::exit::Exit;
use crate::output;
use crate::view::json::Document;
use crate::view::json::efficiency::EfficiencyReport;
use crate::view::text;

pub(crate) fn run(arguments: &EfficiencyArguments) -> Result<Exit> {
    let formats = formats(arguments);
    if arguments.json {
        Document::of(SchemaOf::Efficiency, EfficiencyReport::of(&formats)).print()?;
        return Ok(Exit::Success);
    }
    let mut said = Vec::new();
    let mut table = text::plain_table(&["DATA", "GAP+SYNC+MARK", "ECC", "ON THE MEDIUM", "EFFICIENCY"]);
    for format in formats {
        let percent = format!("{:.1} %", format_efficiency(format) * 100.0);
        said.push(format!("{percent} with {}-byte sectors", format.data));
        table.add_row(vec![
            format.data.to_string(),
            format.overhead.to_string(),
            format.ecc.to_string(),
            format.total().to_string(),
            percent,
        ]);
    }
    text::right(&mut table, 0..5);
    let said = said.join(", ");
    output::print(&format!("Data per track: {said}.\n\n{}\n", text::trimmed(&table)))?;
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
