//! Formats are distinguished, and lines are read the same in both ways.

use proptest::prelude::*;

use super::*;
use crate::columns::Columns;
use crate::scan::PADDING;

fn of(line: &str) -> Option<Format> {
    Format::of_line(line, &How::default())
}

#[test]
fn times_are_exact() {
    let nanos = |value, unit| time("time", value, unit).map(Nanos::get);
    assert_eq!(nanos("1.000000001", 1_000_000_000), Ok(1_000_000_001));
    assert_eq!(nanos("1585699200.123456789", 1_000_000_000), Ok(1_585_699_200_123_456_789));
    assert_eq!(nanos("15362.0009", 1000), Ok(15_362_000));
    assert_eq!(nanos(".5", 1000), Ok(500));
    assert_eq!(nanos("7", 1), Ok(7));
    for bad in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999", "nan"] {
        assert!(nanos(bad, 1000).is_err(), "{bad}");
    }
}

#[test]
fn formats_are_distinguished() {
    assert_eq!(of("time_us,op,offset,length"), Some(Format::Csv));
    assert_eq!(of("length,offset,OP,Time"), Some(Format::Csv));
    assert_eq!(of("1,R,0,4096"), None);
    assert_eq!(of("R"), None);
    let how = How { columns: "time=1,op=2,offset=3,length=4".parse::<Columns>().unwrap(), ..How::default() };
    assert_eq!(Format::of_line("1,R,0,4096", &how), Some(Format::Csv));
    for format in Format::ALL {
        assert_eq!(Format::named(format.name()), Some(*format));
    }
}

/// Lines of each format that is read quickly, and what makes its parser.
fn parsers() -> Vec<(Box<dyn Lines>, &'static str)> {
    let how = |columns: &str| How { columns: columns.parse().unwrap(), ..How::default() };
    let mut named = csv::Csv::of(&How::default());
    assert_eq!(named.line("time_us,op,offset,length,volume"), Ok(None));
    let mut numbered = csv::Csv::of(&how("time=1:ms,op=2:0/1,offset=3:sectors,length=4:4KiB,volume=6"));
    assert!(numbered.line("1;0;3;4;5;6").unwrap().is_some());
    vec![
        (Box::new(named), "150.5,W,1048576,4096,7"),
        (Box::new(numbered), "150.25;1;63;2;other;volume seven;more"),
        (Box::new(Fixed::of(&fixed::MSR)), "128166372003061629,hm,1,Read,383496192,32768,1331"),
        (Box::new(Fixed::of(&fixed::ALIBABA)), "419,W,8792731648,16384,1577808144360767"),
        (Box::new(Fixed::of(&fixed::TENCENT)), "1538323200,12910952,128,0,1063"),
        (Box::new(Fixed::of(&fixed::SYSTOR)), "1455592478.084041000,0.001,W,2,38151680,4096"),
        (Box::new(Fixed::of(&fixed::FIU)), "89966104003266 4253 kjournald 508048 8 W 6 0 0c06e6a31e8ec4bb"),
        (
            Box::new(blkparse::Blkparse::of(&How::default())),
            "  8,0    3   11     0.009507758   697  D  WS 223490 + 8 [a b]",
        ),
    ]
}

/// Reads a line quickly, if that is possible, and compares.
fn agrees(lines: &mut dyn Lines, line: &str) -> bool {
    let text = [line.as_bytes(), b"\n", &[0; PADDING]].concat();
    let Some(quick) = lines.quick(&text, 0) else { return false };
    assert_eq!(quick.next, line.len() + 1, "{line:?}");
    let slow =
        lines.line(line.trim()).unwrap_or_else(|error| panic!("{line:?}: {error}, and quickly {quick:?}"));
    let Some(request) = quick.request else {
        assert_eq!(slow, None, "{line:?}");
        return true;
    };
    let slow = slow.unwrap_or_else(|| panic!("{line:?}: no request, and quickly {request:?}"));
    let mut volumes = crate::record::Volumes::default();
    let (of_text, of_token) = (volumes.index(slow.volume), volumes.of_token(request.volume));
    assert_eq!(of_text, of_token, "{line:?}");
    let same = (request.operation, request.offset, request.length, request.time);
    assert_eq!(same, (slow.operation, slow.offset, slow.length, slow.at), "{line:?}");
    true
}

#[test]
fn plain_lines_are_read_quickly() {
    for (mut lines, line) in parsers() {
        assert!(agrees(lines.as_mut(), line), "{line:?}");
        agrees(lines.as_mut(), &format!("{line}\r"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_is_read_quickly_is_what_the_line_says(
        at in 0_usize..60, remove in 0_usize..4, insert in "[0-9RWFDCQ.,; +\"x\\r-]{0,4}|[0-9]{18,21}", which in 0_usize..8,
    ) {
        let (mut lines, line) = parsers().swap_remove(which);
        let at = at.min(line.len());
        let end = (at + remove).min(line.len());
        let changed = format!("{}{insert}{}", &line[..at], &line[end..]);
        agrees(lines.as_mut(), &changed);
    }
}
