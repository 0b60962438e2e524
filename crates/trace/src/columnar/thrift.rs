//! Thrift's compact protocol, as the headers of pages and the directory of a Parquet file are written in it.
//!
//! The law of this module: nothing is taken for what is passed over, and a structure ends, or is refused, after a number
//! of bytes.

use std::io::{self, Read};

/// Reads values, and passes over them.
pub(super) struct Compact<R> {
    input: R,
    /// Bytes so far.
    pub(super) read: u64,
    /// The most bytes.
    longest: u64,
}

/// What is called with the type and the number of each field, to read its value or to pass over it.
pub(super) type Each<'a, R> = &'a mut dyn FnMut(&mut Compact<R>, u8, i64) -> io::Result<()>;

/// How deep structures may be inside each other.
const DEPTH: u32 = 16;
/// The longest header of a page.
const LONGEST: u64 = 1 << 20;
/// Types of fields; a truth value is its type.
pub(super) const FALSE: u8 = 2;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCTURE: u8 = 12;

impl<R: Read> Compact<R> {
    pub(super) const fn new(input: R) -> Self {
        Self::up_to(input, LONGEST)
    }

    /// Reads structures of at most `longest` bytes.
    pub(super) const fn up_to(input: R, longest: u64) -> Self {
        Self { input, read: 0, longest }
    }

    /// Reads the beginning of a list; returns the type of its elements, and how many there are.
    pub(super) fn list(&mut self) -> io::Result<(u8, u64)> {
        let first = self.byte()?;
        let count = if first >> 4 == 15 { self.unsigned()? } else { u64::from(first >> 4) };
        Ok((first & 0xf, count))
    }

    /// Reads a structure.
    pub(super) fn structure(&mut self, each: Each<'_, R>) -> io::Result<()> {
        let mut before = 0;
        loop {
            let (kind, number) = self.field(before)?;
            if kind == 0 {
                return Ok(());
            }
            before = number;
            each(self, kind, number)?;
        }
    }

    /// Reads the beginning of a field; returns its type, zero at the end of the structure, and its number.
    fn field(&mut self, before: i64) -> io::Result<(u8, i64)> {
        let first = self.byte()?;
        if first == 0 {
            return Ok((0, 0));
        }
        let number = match first >> 4 {
            0 => self.signed()?,
            more => before.wrapping_add(i64::from(more)),
        };
        // Of a field that is there twice, or has more than the 16 bits of a number, another reader might take another.
        if number <= before || i16::try_from(number).is_err() {
            return Err(invalid("the fields of a structure are not in order"));
        }
        Ok((first & 0xf, number))
    }

    /// Reads a whole number that is not negative.
    pub(super) fn number(&mut self, kind: u8) -> io::Result<u64> {
        let number = if (4..=6).contains(&kind) { self.whole(kind)? } else { -1 };
        u64::try_from(number).map_err(|_| invalid("a number is negative, or is none"))
    }

    /// Reads a whole number of a type. The library would cut one that has more bits.
    pub(super) fn whole(&mut self, kind: u8) -> io::Result<i64> {
        let number = self.signed()?;
        let fits = match kind {
            4 => i16::try_from(number).is_ok(),
            5 => i32::try_from(number).is_ok(),
            _ => true,
        };
        if fits { Ok(number) } else { Err(invalid("a number has more bits than its type")) }
    }

    /// Passes over a value of a type.
    pub(super) fn pass(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        if depth > DEPTH {
            return Err(invalid("a structure is too deep"));
        }
        match kind {
            1 | FALSE => {}
            3 => self.bytes(1)?,
            4..=6 => {
                self.unsigned()?;
            }
            7 => self.bytes(8)?,
            8 => {
                let length = self.unsigned()?;
                self.bytes(length)?;
            }
            LIST | 10 => {
                let (element, count) = self.list()?;
                if element <= FALSE && count > 0 {
                    // The library passes over them as if they had no bytes.
                    return Err(invalid("a list of truth values"));
                }
                for _ in 0..count {
                    self.pass(element, depth + 1)?;
                }
            }
            STRUCTURE => self.structure(&mut |input, kind, _| input.pass(kind, depth + 1))?,
            _ => return Err(invalid("a structure has a field of an unknown type")),
        }
        Ok(())
    }

    fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        let half = i64::try_from(number >> 1).unwrap_or(0);
        Ok(if number & 1 == 0 { half } else { -half - 1 })
    }

    /// Reads a number without a sign, as Parquet's encoding of deltas has them too.
    pub(super) fn unsigned(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(invalid("a number in a structure is too long"))
    }

    fn bytes(&mut self, count: u64) -> io::Result<()> {
        if count > self.longest {
            return Err(invalid("a structure is too long"));
        }
        for _ in 0..count {
            self.byte()?;
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.read += 1;
        if self.read > self.longest {
            return Err(invalid("a structure is too long"));
        }
        let [byte] = byte;
        Ok(byte)
    }
}

pub(super) fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
