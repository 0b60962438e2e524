//! Results as drawings: the files of `--svg`, and the charts that pages share with them.

use straddle_measure::bench::Clock;
use straddle_trace::SECTOR;
use straddle_units::ByteCount;

use crate::view::chart::svg::{Bar, Chart, Group, draw};
use crate::view::json::bench::Bench;
use crate::view::text::bench::{headline as bench_headline, ratio};
use crate::view::text::trace::{LARGE, headline, per_request, ratio as share};
use straddle_trace::form::Counted;

pub(crate) fn bench(bench: &Bench<'_>) -> String {
    let sweep = bench.sweep;
    let groups = sweep.arms().iter().map(|arm| {
        let (relative, each) = (sweep.ratio(arm), arm.seconds_per_request() * 1e3);
        let margin = relative.margin().map(|margin| margin / relative.value * each);
        let bar = Bar {
            interval: margin.filter(|_| relative.value > 1.0).map(|margin| (each - margin, each + margin)),
            shown: Some(format!("× {}", ratio(relative))),
            is_best: relative.is_one(),
            ..Bar::of(Some(each))
        };
        Group { label: arm.offset.to_string(), bars: vec![bar] }
    });
    let how = match bench.target.clock {
        Clock::Virtual => " (modelled)",
        Clock::Wall => "",
    };
    let chart = Chart {
        title: format!("{} on {}", bench.workload.name(), bench.target.name),
        axis: format!(
            "ms per request{how}, by offset in {}-byte logical sectors; ×: relative to the cheapest",
            bench.logical_sector
        ),
        series: vec!["time per request".to_owned()],
        groups: groups.collect(),
        interval: "95 % interval of the ratio",
        is_of_ratios: false,
    };
    draw(&bench_headline(bench), &[chart])
}

pub(crate) fn trace(counted: &Counted<'_>) -> String {
    let effects = counted.total.writes.effects(LARGE);
    let least = effects.as_ref().map_or(0, |effects| effects.best().1.partial);
    let starts = effects.iter().flat_map(|effects| (0..).zip(effects.all()));
    let groups = starts.map(|(start, effect): (u64, _)| {
        let bar = Bar {
            shown: Some(per_request(effect)),
            is_best: effect.partial == least,
            ..Bar::of(Some(share(effect.partial, effect.requests)))
        };
        Group { label: start.to_string(), bars: vec![bar] }
    });
    let starts = Chart {
        title: "Read-modify-writes per write on units of 16 KiB, by the start of the partition".to_owned(),
        axis: "Read-modify-writes per write, by sectors of 512 bytes past a multiple of 16 KiB".to_owned(),
        series: vec!["read-modify-writes".to_owned()],
        groups: groups.collect(),
        ..Chart::default()
    };
    draw(&headline(counted), &[amplification(counted), starts])
}

/// Returns the write amplification on units of each size: as it is, from the best start, and behind the window.
pub(crate) fn amplification(counted: &Counted<'_>) -> Chart {
    let as_is = match counted.start {
        0 => "as in the trace".to_owned(),
        start => format!("if the partition starts at sector {start}"),
    };
    let mut series = vec![as_is, "aligned".to_owned()];
    series.extend(counted.window.map(|window| format!("merged within {}", window.within)));
    let group = |unit: &u64| {
        let effect = counted.total.writes.effects(*unit)?.started_at(counted.start);
        let merged = counted.total.coalesced.iter().find(|coalesced| coalesced.unit == *unit);
        let merged = merged.map(|merged| merged.amplification(effect.sectors));
        let bars = [effect.amplification(), counted.account.aligned(*unit)].into_iter().chain(merged);
        let label = ByteCount::new(unit * SECTOR).to_string();
        Some(Group { label, bars: bars.map(Bar::of).collect() })
    };
    Chart {
        title: "Bytes written in whole units per byte requested".to_owned(),
        axis: "Write amplification (1: no loss)".to_owned(),
        series,
        groups: counted.units.iter().filter_map(group).collect(),
        is_of_ratios: true,
        ..Chart::default()
    }
}
