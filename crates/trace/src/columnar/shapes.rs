//! What the structures of a Parquet file are made of (parquet.thrift).
//!
//! The law of this module: a field that is known has the type of its number, at any depth. The library reads a field by
//! its number, whatever type the file gives it, and would go on at another place than one that goes by the type.

use std::io::{self, Read};

use super::thrift::{Compact, Each, FALSE, LIST, STRUCTURE, invalid};

/// What a value is.
pub(super) enum Shape {
    Truth,
    Byte,
    Short,
    Int,
    Long,
    Double,
    Bytes,
    List(&'static Shape),
    Structure(&'static Fields),
}

/// The fields of a structure by number, from 1 on without a gap. Those behind them are not known to the library either.
pub(super) type Fields = [Shape];

use Shape::{Byte, Bytes, Double, Int, List, Long, Short, Structure, Truth};

const NONE: Shape = Structure(&[]);
const STATISTICS: Shape = Structure(&[Bytes, Bytes, Long, Long, Bytes, Bytes, Truth, Truth, Long]);
/// `KeyValue`.
pub(super) const KEY_VALUE: Shape = Structure(&[Bytes, Bytes]);
const ENCODING_STATS: Shape = Structure(&[Int, Int, Int]);
const SIZES: Shape = Structure(&[Long, List(&Long), List(&Long)]);
const BOX: Shape = Structure(&[Double, Double, Double, Double, Double, Double, Double, Double]);
const PLACES: Shape = Structure(&[BOX, List(&Int)]);
const SORTING: Shape = Structure(&[Int, Truth, Truth]);
const TIME: Shape = Structure(&[Truth, Structure(&[NONE, NONE, NONE])]);
const LOGICAL: Shape = Structure(&[
    NONE,
    NONE,
    NONE,
    NONE,
    Structure(&[Int, Int]),
    NONE,
    TIME,
    TIME,
    // The number of an interval is kept free.
    NONE,
    Structure(&[Byte, Truth]),
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    Structure(&[Byte]),
    Structure(&[Bytes]),
    Structure(&[Bytes, Int]),
]);
const COLUMN: Shape = Structure(&[
    Int,
    List(&Int),
    List(&Bytes),
    Int,
    Long,
    Long,
    Long,
    List(&KEY_VALUE),
    Long,
    Long,
    Long,
    STATISTICS,
    List(&ENCODING_STATS),
    Long,
    Int,
    SIZES,
    PLACES,
]);
/// A column of a row group. Encrypted ones are not read.
const CHUNK: Shape = Structure(&[Bytes, Long, COLUMN, Long, Int, Long, Int]);
/// `RowGroup`.
pub(super) const GROUP: Shape = Structure(&[List(&CHUNK), Long, Long, List(&SORTING), Long, Long, Short]);
/// `SchemaElement`.
pub(super) const ELEMENT: &Fields = &[Int, Int, Int, Bytes, Int, Int, Int, Int, Int, LOGICAL];
/// `FileMetaData`. What encrypts a file is not read.
pub(super) const FILE: &Fields = &[
    Int,
    List(&Structure(ELEMENT)),
    Long,
    List(&GROUP),
    List(&KEY_VALUE),
    Bytes,
    List(&Structure(&[NONE, NONE, NONE])),
];
/// `PageHeader`, with the headers of pages of data, of an index and of a dictionary.
pub(super) const PAGE: &Fields = &[
    Int,
    Int,
    Int,
    Int,
    Structure(&[Int, Int, Int, Int, STATISTICS]),
    NONE,
    Structure(&[Int, Int, Truth]),
    Structure(&[Int, Int, Int, Int, Int, Int, Truth, STATISTICS]),
];

impl Shape {
    /// Checks that a field, or an element of a list, is of this type.
    fn check(&self, kind: u8) -> io::Result<()> {
        let is_right = match self {
            Truth => kind == 1 || kind == FALSE,
            Byte => kind == 3,
            Short => kind == 4,
            Int => kind == 5,
            Long => kind == 6,
            Double => kind == 7,
            Bytes => kind == 8,
            List(_) => kind == LIST,
            Structure(_) => kind == STRUCTURE,
        };
        if is_right { Ok(()) } else { Err(invalid("a field is of another type than that of its number")) }
    }

    /// Passes over a value of this type.
    pub(super) fn pass<R: Read>(&self, input: &mut Compact<R>, kind: u8) -> io::Result<()> {
        self.check(kind)?;
        match self {
            List(shape) => {
                let (element, count) = input.list()?;
                for _ in 0..count {
                    shape.pass(input, element)?;
                }
                Ok(())
            }
            Structure(fields) => {
                each(fields, input, &mut |input, kind, number| pass(fields, input, (kind, number)))
            }
            Short | Int => input.whole(kind).map(drop),
            _ => input.pass(kind, 0),
        }
    }
}

/// Returns what a field of a structure is, if it is known.
pub(super) fn of(fields: &'static Fields, number: i64) -> Option<&'static Shape> {
    usize::try_from(number).ok().and_then(|number| fields.get(number.checked_sub(1)?))
}

/// Reads a structure of such fields, each of which has the type of its number if that is known.
pub(super) fn each<R: Read>(
    fields: &'static Fields,
    input: &mut Compact<R>,
    each: Each<'_, R>,
) -> io::Result<()> {
    input.structure(&mut |input, kind, number| {
        if let Some(shape) = of(fields, number) {
            shape.check(kind)?;
        }
        each(input, kind, number)
    })
}

/// Passes over a field of a structure.
pub(super) fn pass<R: Read>(
    fields: &'static Fields,
    input: &mut Compact<R>,
    (kind, number): (u8, i64),
) -> io::Result<()> {
    match of(fields, number) {
        Some(shape) => shape.pass(input, kind),
        None => input.pass(kind, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(fields: &'static Fields, bytes: &[u8]) -> io::Result<u64> {
        let mut input = Compact::new(bytes);
        Structure(fields).pass(&mut input, STRUCTURE).map(|()| input.read)
    }

    #[test]
    fn a_known_field_has_the_type_of_its_number() {
        // The crc of a page, and the version of a file, as numbers and as text that hides what comes behind it.
        for fields in [PAGE, FILE] {
            assert_eq!(passed(fields, &[0x15, 2, 0]).unwrap(), 3);
            assert!(passed(fields, &[0x18, 2, 2, 0, 0]).is_err());
        }
        assert!(passed(PAGE, &[0x15, 0, 0x38, 1, 0, 0]).is_err(), "the crc");
        // The columns as a set, and as a list of numbers.
        assert!(passed(FILE, &[0x15, 2, 0x1a, 0x0c, 0]).is_err());
        assert!(passed(FILE, &[0x15, 2, 0x19, 0x15, 2, 0]).is_err());
        // A field that nobody knows is passed over, whatever it is.
        assert_eq!(passed(PAGE, &[0x98, 2, b'a', b'b', 0]).unwrap(), 5);
        // A list of truth values in a field that nobody knows, and a number of more than 32 bits.
        assert!(passed(PAGE, &[0x99, 0x11, 1, 0]).is_err());
        assert!(passed(PAGE, &[0x99, 0x01, 0]).is_ok());
        assert!(passed(PAGE, &[0x15, 0x84, 0x80, 0x80, 0x80, 0x20, 0]).is_err());
        // The order of a column as a number of eight bytes, and the ninth of the statistics as text.
        assert!(passed(FILE, &[0x79, 0x1c, 0x27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(passed(PAGE, &[0x5c, 0x5c, 0x98, 1, 0, 0, 0, 0]).is_err());
        // At any depth: statistics of a page of data whose count is text.
        let inner = |third: &[u8]| [&[0x5c, 0x15, 2, 0x4c, 0x38][..], third, &[0, 0, 0]].concat();
        assert!(passed(PAGE, &inner(&[0])).is_err());
    }
}
