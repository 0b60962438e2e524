//! Lines that are fields in a fixed order, read quickly.
//!
//! Invariants: it knows where fields are, and not what is wrong with one: a line that is not plainly
//! written is left to the parser of its format.

use straddle_units::io::{Nanos, Operation};

use super::{Quick, Request, Token};
use crate::columns::{Exponent, Values};
use crate::scan;

/// What a field is.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Skip,
    /// In ten to this power nanoseconds.
    Time(Exponent),
    /// By the names of the operations.
    Op(Names),
    /// In bytes of this number.
    Offset(u64),
    Length(u64),
    Volume,
    /// The first of two fields that are the volume.
    VolumeAndNext,
}

/// The names of the operations, those of one letter in a table.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    letters: Box<[Option<Operation>; 256]>,
    pub(super) values: Values,
}

impl From<Values> for Names {
    fn from(values: Values) -> Self {
        let mut letters = Box::new([None; 256]);
        for (letter, slot) in (0..=u8::MAX).zip(letters.iter_mut()) {
            *slot = values.operation(&[letter]);
        }
        Self { letters, values }
    }
}

/// The fields of a line up to the last one that matters.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(super) separator: u8,
    pub(super) roles: Vec<Role>,
}

impl Rows {
    /// `separator` is a blank for fields that any number of blanks are between.
    pub(crate) const fn new(separator: u8, roles: Vec<Role>) -> Self {
        Self { separator, roles }
    }

    /// Reads a line.
    #[inline]
    pub(crate) fn quick<'a>(&self, bytes: &'a [u8], from: usize) -> Option<Quick<'a>> {
        let mut at = from;
        let (mut offset, mut length, mut time, mut operation) = (0, 0, 0, None);
        let mut volume = Token { bytes, at, length: 0, second: None };
        let last = self.roles.len().checked_sub(1)?;
        for (index, role) in self.roles.iter().enumerate() {
            if self.separator == b' ' {
                at = scan::past_blanks(bytes, at);
            }
            match role {
                Role::Time(exponent) => (time, at) = scan::time(bytes, at, *exponent)?,
                Role::Offset(unit) => {
                    let (number, end) = scan::number(bytes, at)?;
                    (offset, at) = (number.checked_mul(*unit)?, end);
                }
                Role::Length(unit) => {
                    let (number, end) = scan::number(bytes, at)?;
                    (length, at) = (number.checked_mul(*unit)?, end);
                }
                Role::Op(names) => {
                    let letter = names.letters.get(usize::from(*bytes.get(at)?)).copied().flatten();
                    if letter.is_some() && bytes.get(at + 1) == Some(&self.separator) {
                        (operation, at) = (letter, at + 1);
                    } else {
                        let end = self.field(bytes, at)?;
                        operation = Some(names.values.operation(bytes.get(at..end)?)?);
                        at = end;
                    }
                }
                Role::Skip => at = self.field(bytes, at)?,
                Role::Volume => {
                    let end = self.field(bytes, at)?;
                    volume = Token { bytes, at, length: end - at, second: None };
                    at = end;
                }
                Role::VolumeAndNext => {
                    let middle = self.field(bytes, at)?;
                    let second = middle + 1;
                    let end = self.field(bytes, second)?;
                    if bytes.get(middle) != Some(&self.separator) {
                        return None;
                    }
                    volume = Token { bytes, at, length: end - at, second: Some(second) };
                    at = end;
                }
            }
            if index < last {
                if bytes.get(at) != Some(&self.separator) {
                    return None;
                }
                at += 1;
            }
        }
        let operation = operation?;
        if operation == Operation::Flush {
            // Whatever else its line says.
            return None;
        }
        let next = match scan::past_line(bytes, at) {
            Some(next) => next,
            None if bytes.get(at) == Some(&self.separator) => {
                at + 1 + memchr::memchr(b'\n', bytes.get(at + 1..)?)? + 1
            }
            None => return None,
        };
        let request = Request { volume, operation, offset, length, time: Nanos::new(time) };
        Some(Quick { next, request: Some(request) })
    }

    /// Returns the end of a field that has no quotes, and between blanks no other white space.
    #[inline]
    fn field(&self, bytes: &[u8], at: usize) -> Option<usize> {
        if matches!(bytes.get(at), Some(b'"' | b' ' | b'\t')) {
            return None;
        }
        let end = scan::field_end(bytes, at, self.separator);
        let is_plain = self.separator != b' ' || bytes.get(at..end)?.iter().all(|byte| *byte > b' ');
        is_plain.then_some(end)
    }
}
