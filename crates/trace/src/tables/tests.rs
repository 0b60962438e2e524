//! The same requests in each of Arrow's types, whole and in slices.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int32Array, Int64Array, LargeStringArray,
    StringArray, StringViewArray, UInt64Array,
};

use super::*;
use crate::format::How;
use crate::reader::Reader;

/// Requests: the volume, the operation, the first byte, the length.
type Asked = (Option<String>, Option<&'static str>, i64, i64);

fn requests(count: u64) -> Vec<Asked> {
    let mut random = straddle_units::io::SplitMix64::new(7);
    let asked = |_| {
        let volume = match random.below(5) {
            0 => None,
            number if number < 3 => Some(number.to_string()),
            number => Some(format!("a-long-name-of-a-volume-{number}")),
        };
        let op =
            [Some("R"), Some("W"), Some("W"), Some("F"), Some("D"), Some("read"), Some("write"), Some("WF")];
        let op = op[usize::try_from(random.below(8)).unwrap()];
        let number = |below| i64::try_from(random.below(below)).unwrap();
        let mut number = number;
        let length = if number(8) == 0 { 0 } else { number(1 << 24) };
        (volume, op, number(1 << 40), length)
    };
    (0..count).map(asked).collect()
}

/// What the text reader counts.
fn text(requests: &[Asked]) -> Account {
    let mut text = String::from("time,op,offset,length,volume\n");
    for (volume, op, offset, length) in requests {
        let (volume, op) = (volume.as_deref().unwrap_or_default(), op.unwrap_or_default());
        text.push_str(&format!("1,{op},{offset},{length},{volume}\n"));
    }
    let how = How { timed: false, ..How::default() };
    let mut account = Account::new();
    account.read(Reader::new(text.as_bytes(), "t", &how), None).unwrap();
    account
}

fn table(requests: &[Asked], op: ArrayRef, volume: ArrayRef) -> RecordBatch {
    let offsets: Int64Array = requests.iter().map(|(_, _, offset, _)| *offset).collect();
    let lengths: UInt64Array = requests.iter().map(|(_, _, _, length)| length.unsigned_abs()).collect();
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("Volume", volume, true),
        ("op", op, true),
        ("offset", Arc::new(offsets), true),
        ("length", Arc::new(lengths), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn counted(batches: &[RecordBatch], columns: &str) -> Result<Account, TraceError> {
    let columns = if columns.is_empty() { Columns::default() } else { columns.parse().unwrap() };
    let mut tables = Tables::new(&batches[0].schema(), &columns, "table")?;
    batches.iter().try_for_each(|batch| tables.count(batch))?;
    Ok(tables.finish())
}

/// Every layout of strings.
fn layouts(values: &[Option<&str>]) -> Vec<ArrayRef> {
    let bytes = values.iter().map(|value| value.map(str::as_bytes)).collect::<Vec<_>>();
    vec![
        Arc::new(StringArray::from(values.to_vec())),
        Arc::new(LargeStringArray::from(values.to_vec())),
        Arc::new(StringViewArray::from(values.to_vec())),
        Arc::new(BinaryArray::from(bytes)),
        Arc::new(values.iter().copied().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(values.iter().copied().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(values.iter().copied().collect::<DictionaryArray<UInt8Type>>()),
        Arc::new(values.iter().copied().collect::<DictionaryArray<UInt16Type>>()),
        of_views(values),
    ]
}

/// A dictionary of string views, as polars has.
fn of_views(values: &[Option<&str>]) -> ArrayRef {
    let plain: DictionaryArray<UInt32Type> = values.iter().copied().collect();
    let names = plain.values().as_any().downcast_ref::<StringArray>().unwrap();
    let views: StringViewArray = names.iter().collect();
    Arc::new(DictionaryArray::new(plain.keys().clone(), Arc::new(views)))
}

#[test]
fn every_layout_of_strings_counts_as_the_lines_of_text_do() {
    let requests = requests(20_000);
    let expected = text(&requests);
    let ops: Vec<_> = requests.iter().map(|(_, op, _, _)| *op).collect();
    let volumes: Vec<_> = requests.iter().map(|(volume, _, _, _)| volume.as_deref()).collect();
    let is_none = |(_, op, _, length): &&Asked| *length == 0 && *op != Some("F");
    let others = requests.iter().filter(is_none).count() as u64;
    for (op, volume) in layouts(&ops).into_iter().zip(layouts(&volumes)) {
        let kinds = (op.data_type().clone(), volume.data_type().clone());
        let whole = table(&requests, op, volume);
        let slices = [whole.slice(0, 1), whole.slice(1, 9000), whole.slice(9001, 10_999)];
        for batches in [&[whole][..], &slices] {
            let account = counted(batches, "").unwrap();
            assert!(account.volumes().eq(expected.volumes()), "{kinds:?}");
            assert_eq!((account.span(), account.others()), (None, others));
        }
    }
}

#[test]
fn numbers_and_flags_are_operations_with_a_map() {
    let requests: Vec<Asked> = requests(1000)
        .into_iter()
        .filter(|(_, op, _, _)| matches!(op, Some("R" | "W")))
        .map(|(_, op, offset, length)| (Some("7".to_owned()), op, offset, length))
        .collect();
    let expected = text(&requests);
    let is_write = |(_, op, _, _): &Asked| *op == Some("W");
    let flags: BooleanArray = requests.iter().map(|asked| Some(is_write(asked))).collect();
    let numbers: Int32Array = requests.iter().map(|asked| Some(i32::from(is_write(asked)))).collect();
    let volume: ArrayRef = Arc::new(Int32Array::from(vec![7; requests.len()]));
    for (op, map) in
        [(Arc::new(flags) as ArrayRef, "op=op:false/true"), (Arc::new(numbers), "op=2:0/1,volume=VOLUME")]
    {
        let account = counted(&[table(&requests, op, Arc::clone(&volume))], map).unwrap();
        assert!(account.volumes().eq(expected.volumes()), "{map}");
    }
}

#[test]
fn a_row_without_an_operation_is_an_error() {
    let requests = [(None, Some("R"), 0, 512), (None, None, 0, 512)];
    for op in [None, Some("")] {
        let ops: StringArray = [Some("R"), op].into_iter().collect();
        let table = table(&requests, Arc::new(ops), Arc::new(StringArray::new_null(2)));
        let error = counted(&[table.slice(0, 1), table.slice(1, 1)], "").unwrap_err();
        let shown = straddle_device::shown::with_causes(&error);
        assert_eq!(shown, "table: row 2: op = \"\": there is no value");
    }
}

#[test]
fn a_volume_without_requests_is_none() {
    let requests = [
        (Some("idle".to_owned()), Some("W"), 0, 0),
        (Some("busy".to_owned()), Some("R"), 0, 512),
        (Some("flat".to_owned()), Some("R"), 0, 0),
    ];
    let ops: StringArray = requests.iter().map(|(_, op, _, _)| *op).collect();
    let volumes: StringArray = requests.iter().map(|(volume, _, _, _)| volume.as_deref()).collect();
    let account = counted(&[table(&requests, Arc::new(ops), Arc::new(volumes))], "").unwrap();
    assert_eq!(account.volumes().map(|(name, _)| name).collect::<Vec<_>>(), ["busy"]);
}

#[test]
fn what_is_wrong_with_a_table_is_said() {
    let requests = [
        (Some("a".to_owned()), Some("R"), 0, 512),
        (Some("a".to_owned()), Some("X"), 0, 512),
        (Some("b".to_owned()), Some("W"), -512, 512),
    ];
    let of = |rows: std::ops::Range<usize>, op: ArrayRef| {
        let volume: ArrayRef = Arc::new(StringArray::from(vec!["a"; rows.len()]));
        table(&requests[rows], op, volume)
    };
    let error = |batches: &[RecordBatch], map: &str| {
        let error = counted(batches, map).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    };
    let strings = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let (first, second) = (of(0..1, strings(&["R"])), of(1..2, strings(&["X"])));
    assert!(error(&[first.clone(), second], "").starts_with("table: row 2: op = \"X\": is not an operation"));
    let negative = of(2..3, strings(&["W"]));
    assert!(error(&[first.clone(), negative], "").starts_with("table: row 2: offset = \"-512\""));
    let unknown = error(std::slice::from_ref(&first), "op=kind");
    assert!(unknown.starts_with("table: cannot read the table: there is no column \"kind\""), "{unknown}");
    let of_numbers =
        DictionaryArray::new(Int32Array::from(vec![0]), Arc::new(Int64Array::from(vec![1])) as ArrayRef);
    let typed = error(&[of(0..1, Arc::new(of_numbers))], "");
    assert!(typed.contains("is of type a dictionary of Int64"), "{typed}");
    let narrow = first.project(&[0, 1]).unwrap();
    assert!(error(&[first, narrow], "").contains("a batch has 2 columns, but the schema has 4"));
}
