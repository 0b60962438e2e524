//! `straddle efficiency`: why sectors became larger.

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Format, format_efficiency};

use crate::exit::Exit;
use crate::output;
use crate::view::json::{Document, SchemaOf};
use crate::view::text;

const EXAMPLES: &str = "\
Examples:
  straddle efficiency                     # 512-byte and 4096-byte sectors
  straddle efficiency --data 4096 --overhead 15 --ecc 100";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EfficiencyArguments {
    /// Bytes of data per sector [default: 512 and 4096].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) data: Option<u32>,

    /// Bytes per sector taken by the gap, sync field and address mark [default: 15].
    #[arg(long)]
    pub(crate) overhead: Option<u32>,

    /// Bytes of error-correcting code per sector [default: 50, or 100 if a sector holds more than 512 bytes].
    #[arg(long)]
    pub(crate) ecc: Option<u32>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &EfficiencyArguments) -> Result<Exit> {
    let formats = formats(arguments);
    if arguments.json {
        let efficiency = |format: Format| Efficiency {
            format,
            total_bytes: format.total(),
            efficiency_ratio: format_efficiency(format),
        };
        let report = EfficiencyReport { formats: formats.into_iter().map(efficiency).collect() };
        return Document::of(SchemaOf::Efficiency, report).print();
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
    output::print(&format!("Data per track: {said}.\n\n{}\n", text::trimmed(&table)))
}

/// The two usual formats, or the one described, with the usual overheads where none are given.
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

/// What `straddle efficiency --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EfficiencyReport {
    /// The sector formats that were compared.
    formats: Vec<Efficiency>,
}

/// The format efficiency of one sector format.
#[derive(Debug, Serialize, JsonSchema)]
struct Efficiency {
    #[serde(flatten)]
    format: Format,
    /// The bytes that a sector takes on the medium.
    total_bytes: u64,
    /// `data_bytes` over `total_bytes`, from 0 to 1.
    efficiency_ratio: f64,
}
