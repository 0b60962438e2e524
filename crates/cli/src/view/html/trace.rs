//! The page of `trace --html`: what the requests of traces do to units.

use straddle_trace::{Histogram, SECTOR, UNITS, Volume};
use straddle_units::ByteCount;

use super::{Cell, Table, document, figure, paragraph};
use crate::output::plural;
use crate::view::json::trace::Counted;
use crate::view::svg::amplification;
use crate::view::text::trace::{headline, ratio, sentences};

const STYLE: &str = include_str!("trace.css");

/// The most volumes in a table; the CSV has all of them.
const LISTED: usize = 200;
/// The most lengths in the table.
const SIZES: usize = 40;

pub(crate) fn page(counted: &Counted<'_>) -> String {
    let mut text = paragraph(&headline(counted), "soft");
    for (index, sentence) in sentences(counted).iter().enumerate() {
        text += &paragraph(sentence, if index == 0 { "lead" } else { "soft" });
    }
    if counted.total.writes.requests() > 0 {
        text += &figure(&amplification(counted));
        text += &units(counted);
        text += &sizes(&counted.total.writes);
    }
    text += &volumes(counted);
    document("What a load does to sectors and units", STYLE, &text)
}

fn units(counted: &Counted<'_>) -> String {
    let mut headings = vec![
        "unit",
        "misaligned",
        "straddling",
        "partial heads",
        "partial tails",
        "RMW per write",
        "written",
    ];
    headings.extend(["best start", "RMW from there", "written from there"]);
    headings.extend(counted.window.map(|_| ["RMW, merged", "written, merged"]).into_iter().flatten());
    let mut table = Table::new("Writes on units of each size, each request alone", &headings);
    for unit in counted.units {
        let Some(effects) = counted.total.writes.effects(*unit) else { continue };
        let (effect, (start, best)) = (effects.started_at(counted.start), effects.best());
        let all = effect.requests;
        let mut cells = vec![share(effect.misaligned, all)];
        cells.extend([effect.straddling, effect.heads, effect.tails].map(|part| share(part, all)));
        cells.extend([per(effect.partial, all), times(effect.amplification())]);
        cells.extend([
            Cell::plain(format!("sector {start}")),
            per(best.partial, all),
            times(best.amplification()),
        ]);
        let merged = counted.total.coalesced.iter().find(|coalesced| coalesced.unit == *unit);
        cells.extend(
            merged.into_iter().flat_map(|it| [per(it.partial, all), times(it.amplification(effect.sectors))]),
        );
        table.row(&ByteCount::new(unit * SECTOR).to_string(), cells);
    }
    table.section("By unit")
}

fn sizes(writes: &Histogram) -> String {
    let mut sizes = writes.sizes();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.requests));
    sizes.truncate(SIZES);
    sizes.sort_by_key(|size| size.sectors.unwrap_or(u64::MAX));
    let mut table =
        Table::new("Lengths of writes, the most frequent ones", &["length", "writes", "share", "bytes"]);
    for size in sizes {
        let length = size.sectors.map(|sectors| ByteCount::new(sectors * SECTOR).to_string());
        let bytes = u64::try_from(size.total * u128::from(SECTOR)).unwrap_or(u64::MAX);
        let cells = vec![
            Cell::plain(size.requests.to_string()),
            share(size.requests, writes.requests()),
            Cell::plain(ByteCount::new(bytes).to_string()),
        ];
        table.row(length.as_deref().unwrap_or("2 MiB and more"), cells);
    }
    table.section("By length")
}

/// Returns the table of volumes with a cell for each size of a unit, darker where more writes are misaligned.
fn volumes(counted: &Counted<'_>) -> String {
    let mut volumes: Vec<(&str, &Volume)> = counted.account.volumes().collect();
    volumes.sort_by_key(|(_, volume)| std::cmp::Reverse(volume.writes.sectors()));
    let sizes = UNITS.map(|unit| ByteCount::new(unit * SECTOR).to_string());
    let mut headings = vec!["volume", "reads", "writes", "written"];
    headings.extend(sizes.iter().map(String::as_str));
    let caption = "Volumes, those with most written first: the share of writes that are misaligned on units of each size";
    let mut table = Table::with(" class=\"heat\"", caption, &headings);
    for (name, volume) in volumes.iter().take(LISTED) {
        let bytes = u64::try_from(volume.writes.sectors() * u128::from(SECTOR)).unwrap_or(u64::MAX);
        let mut cells = vec![
            Cell::plain(volume.reads.requests().to_string()),
            Cell::plain(volume.writes.requests().to_string()),
            Cell::plain(ByteCount::new(bytes).to_string()),
        ];
        cells.extend(UNITS.map(|unit| {
            let effect = volume.writes.effects(unit).map(|effects| effects.started_at(counted.start));
            effect.filter(|effect| effect.requests > 0).map_or_else(
                || Cell::plain(super::dash()),
                |effect| {
                    let share = ratio(effect.misaligned, effect.requests);
                    Cell { share: Some(share), ..Cell::of_class("heat", format!("{:.0} %", share * 100.0)) }
                },
            )
        }));
        table.row(if name.is_empty() { "(no name)" } else { name }, cells);
    }
    let mut text = table.section("By volume");
    if volumes.len() > LISTED {
        let left = plural(volumes.len() - LISTED, "more volume");
        text += &paragraph(&format!("{left}: straddle trace --csv lists all."), "soft");
    }
    text
}

fn share(part: u64, all: u64) -> Cell {
    Cell::plain(format!("{:.1} %", ratio(part, all) * 100.0))
}

fn per(part: u64, all: u64) -> Cell {
    Cell::plain(format!("{:.2}", ratio(part, all)))
}

fn times(amplification: Option<f64>) -> Cell {
    Cell::plain(amplification.map_or_else(super::dash, |times| format!("× {times:.2}")))
}
