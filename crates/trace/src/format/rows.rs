//! Lines that are fields in a fixed order, read quickly: a line that is not plainly written is left to the parser of its
//! format, which knows what is wrong with it.

use straddle_units::io::{Nanos, Operation};

use super::{Quick, Request, Token};
use crate::columns::{Exponent, Names};
use crate::scan;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Skip,
    /// In ten to this power nanoseconds.
    Time(Exponent),
    Op,
    /// In bytes of this number.
    Offset(u64),
    Length(u64),
    Volume,
    /// The second part of the volume, after [`Role::Volume`].
    Part,
}

/// The fields of a line up to the last one that matters.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// A blank stands for any number of them.
    pub(super) separator: u8,
    pub(super) roles: Vec<Role>,
    pub(super) names: Names,
}

impl Rows {
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
            let from = at;
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
                Role::Op => {
                    let letter = self.names.letter(*bytes.get(at)?);
                    if letter.is_some() && bytes.get(at + 1) == Some(&self.separator) {
                        (operation, at) = (letter, at + 1);
                    } else {
                        at = self.field(bytes, at)?;
                        operation = Some(self.names.operation(bytes.get(from..at)?)?);
                    }
                }
                Role::Skip => at = self.field(bytes, at)?,
                Role::Volume => {
                    at = self.field(bytes, at)?;
                    volume = Token { bytes, at: from, length: at - from, second: None };
                }
                Role::Part => {
                    // With a separator of one byte between them.
                    if from != volume.at + volume.length + 1 {
                        return None;
                    }
                    at = self.field(bytes, at)?;
                    volume = Token { length: at - volume.at, second: Some(from), ..volume };
                }
            }
            if index < last {
                if bytes.get(at) != Some(&self.separator) {
                    return None;
                }
                at += 1;
            }
        }
        // A flush is one whatever else its line says.
        let operation = operation.filter(|operation| *operation != Operation::Flush)?;
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
