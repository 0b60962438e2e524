//! Pages of a real kernel's ring buffer (`captured/README.md`), and hostile ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(all(target_endian = "little", target_pointer_width = "64"))]

use proptest::prelude::*;
use straddle_trace::tracefs::{Decoder, FormatError, Layout, Missed, PageError, PageLayout, walk};
use straddle_trace::{Event, Happened};
use straddle_units::io::Nanos;

const PAGES: &[u8] = include_bytes!("captured/pages");
const OVERRUN: &[u8] = include_bytes!("captured/overrun");
const TEXT: &str = include_str!("captured/text");
const HEADER: &str = include_str!("captured/header_page");
const ISSUE: &str = include_str!("captured/block_rq_issue.format");
const COMPLETE: &str = include_str!("captured/block_rq_complete.format");

fn decoder() -> Decoder {
    Decoder::of(ISSUE, COMPLETE).unwrap()
}

/// An event as the kernel prints it, its time in microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    microseconds: u64,
    is_issue: bool,
    process: u32,
    device: (u32, u32),
    sector: u64,
    sectors: u64,
    name: Option<String>,
}

/// Reads a line such as `dd-187 [000] ..... 16.712892: block_rq_issue: 254,0 WS 512 () 10 + 1 be,0,4 [dd]`.
fn printed(line: &str) -> Printed {
    let (head, rest) = line.trim().split_once(" [000] ").unwrap();
    let process = head.trim_end().rsplit('-').next().unwrap().parse().unwrap();
    let (time, rest) = rest.split_once(": ").unwrap();
    let (seconds, micros) = time.rsplit(' ').next().unwrap().split_once('.').unwrap();
    let (event, rest) = rest.split_once(": ").unwrap();
    let (major, minor) = rest.split_once(' ').unwrap().0.split_once(',').unwrap();
    let (sector, rest) = rest.split_once("() ").unwrap().1.split_once(" + ").unwrap();
    let (sectors, rest) = rest.split_once(' ').unwrap();
    let is_issue = event == "block_rq_issue";
    let name = rest.split_once('[').unwrap().1.trim_end_matches(']').to_owned();
    // The completion of a flush is at sector -1.
    let sector: u64 = sector.parse().unwrap();
    Printed {
        microseconds: seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap(),
        is_issue,
        process,
        device: (major.parse().unwrap(), minor.parse().unwrap()),
        sector: if sector == u64::MAX { 0 } else { sector },
        sectors: sectors.parse().unwrap(),
        name: is_issue.then_some(name),
    }
}

fn shown(happened: &Happened) -> Printed {
    let name = happened.name.map(|name| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8(name[..end].to_vec()).unwrap()
    });
    Printed {
        // The kernel rounds.
        microseconds: (happened.time.get() + 500) / 1000,
        is_issue: happened.event == Event::Issue,
        process: happened.process,
        device: (happened.device >> 20, happened.device & 0xf_ffff),
        sector: happened.sector,
        sectors: u64::from(happened.bytes) / 512,
        name,
    }
}

#[test]
fn pages_hold_what_the_kernel_prints_of_them() {
    let (layout, decoder) = (PageLayout::of(HEADER).unwrap(), decoder());
    assert_eq!(layout.size(), 4096);
    let mut found = Vec::new();
    for page in PAGES.chunks(layout.size()) {
        let missed =
            walk(page, &layout, |time, data| found.push(decoder.event(0, time, data).unwrap())).unwrap();
        assert_eq!(missed, Missed::None);
    }
    let ours: Vec<Printed> = found.iter().map(shown).collect();
    let theirs: Vec<Printed> = TEXT.lines().map(printed).collect();
    assert_eq!(ours, theirs);
    assert!(found.iter().all(|happened| happened.error == 0));
    // A pause of more than 2^27 ns is in them.
    assert!(found.windows(2).any(|pair| pair[1].time.get() - pair[0].time.get() > 1 << 30));
}

#[test]
fn a_page_says_how_many_events_were_overwritten_before_it() {
    let layout = PageLayout::of(HEADER).unwrap();
    let mut count = 0;
    let missed = walk(OVERRUN, &layout, |_, _| count += 1).unwrap();
    assert_eq!(missed, Missed::Count(630));
    assert!(count > 20);
    // Without the flag that the number is there (bit 30), it only says that some are missing (bit 31).
    let mut unknown = OVERRUN.to_vec();
    unknown[11] &= !0x40;
    assert_eq!(walk(&unknown, &layout, |_, _| {}), Ok(Missed::Some));
}

#[test]
fn what_is_cut_off_is_said() {
    let layout = PageLayout::of(HEADER).unwrap();
    let wrong = |page: &[u8]| walk(page, &layout, |_, _| {}).unwrap_err();
    assert_eq!(wrong(&PAGES[..7]), PageError::Short { bytes: 7 });
    assert_eq!(wrong(&PAGES[..4000]), PageError::Long { bytes: 0xfc8 });
    let mut page = PAGES[..4096].to_vec();
    page[8..10].copy_from_slice(&20_u16.to_le_bytes());
    assert_eq!(wrong(&page), PageError::Event { byte: 16 });
    let no_field = |text: &str| Layout::of(text).unwrap_err();
    assert_eq!(no_field(""), FormatError::NoField { name: "ID" });
    assert_eq!(
        no_field(&ISSUE.replace("nr_sector;", "sectors;")),
        FormatError::NoField { name: "nr_sector" }
    );
    assert!(PageLayout::of(&HEADER.replace("size:4080", "size:99999999999")).is_err());
}

#[test]
fn an_older_kernel_calls_the_error_otherwise() {
    let old = COMPLETE.replace("int error;", "int errors;");
    let event = |complete: &str| {
        let decoder = Decoder::of(ISSUE, complete).unwrap();
        let mut events = Vec::new();
        walk(&PAGES[..4096], &PageLayout::of(HEADER).unwrap(), |time, data| {
            let mut data = data.to_vec();
            // -EIO; an issued request has its length there.
            if decoder.event(0, time, &data).unwrap().event == Event::Complete {
                data[28..32].copy_from_slice(&(-5_i32).to_le_bytes());
            }
            events.push(decoder.event(0, time, &data).unwrap());
        })
        .unwrap();
        events
    };
    assert_eq!(event(&old), event(COMPLETE));
    let ends = event(&old).into_iter().filter(|happened| happened.event == Event::Complete);
    assert!(ends.map(|happened| happened.error).all(|error| error == 5));
}

fn format() -> impl Strategy<Value = String> {
    let line = ("[a-z_ ]{0,12}", any::<u32>(), 0_u32..20).prop_map(|(name, offset, size)| {
        format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
    });
    let known = prop::sample::select(vec![
        "dev",
        "sector",
        "nr_sector",
        "rwbs[8]",
        "common_pid",
        "common_type",
        "timestamp",
        "commit",
        "data",
    ]);
    let known = (known, prop_oneof![0_u32..64, any::<u32>()], 0_u32..12)
        .prop_map(|(name, offset, size)| format!("\tfield:x {name};\toffset:{offset};\tsize:{size};\n"));
    prop::collection::vec(prop_oneof![line, known, "[ -~\u{e9}]{0,30}\n".prop_map(String::from)], 0..20)
        .prop_map(|lines| format!("ID: 7\n{}", lines.concat()))
}

proptest! {
    #[test]
    fn damaged_pages_never_panic(
        page in 0_usize..4, at in prop::collection::vec((0_usize..4096, any::<u8>()), 1..40), cut in 0_usize..4096,
    ) {
        let layout = PageLayout::of(HEADER).unwrap();
        let decoder = decoder();
        let mut page = [PAGES, OVERRUN].concat()[page * 4096..][..4096].to_vec();
        at.iter().for_each(|(at, byte)| page[*at] = *byte);
        let count = |page: &[u8]| {
            let mut bytes = 0;
            let _ = walk(page, &layout, |time, data| {
                bytes += data.len() + 4;
                let _ = decoder.event(3, time, data);
            });
            bytes
        };
        prop_assert!(count(&page) <= 4080);
        prop_assert!(count(&page[..cut]) <= 4080);
    }

    #[test]
    fn random_pages_never_panic(
        mut page in prop::collection::vec(any::<u8>(), 0..600), commit in 0_u16..600, header in format(),
    ) {
        for layout in [PageLayout::of(HEADER), PageLayout::of(&header)].into_iter().flatten() {
            if let Some(field) = page.get_mut(8..10) {
                field.copy_from_slice(&commit.to_le_bytes());
            }
            let _ = walk(&page, &layout, |_, data| assert!(data.len() < 600));
        }
    }

    #[test]
    fn hostile_descriptions_never_panic(issue in format(), complete in format(), data in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(decoder) = Decoder::of(&issue, &complete) {
            let _ = decoder.event(0, Nanos::ZERO, &data);
        }
    }
}
