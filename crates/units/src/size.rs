//! Parsing and printing of human-readable sizes.

use std::fmt;

use crate::ByteCount;

/// Binary units, largest first: the suffix letter and its number of bytes.
const UNITS: [(char, u64); 6] =
    [('E', 1 << 60), ('P', 1 << 50), ('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ParseSizeError {
    #[error("'{0}' is not a size; use a whole number of bytes, or a size such as 4KiB or 1MiB")]
    NotANumber(String),
    #[error("'{0}' has an unknown unit; use B, KiB, MiB, GiB or TiB")]
    UnknownUnit(String),
    /// Sizes of alignment are never decimal.
    #[error("'{0}' is a decimal unit (a power of 1000); use KiB, MiB or GiB")]
    DecimalUnit(String),
    #[error("'{0}' is more than 2^64 bytes")]
    TooLarge(String),
}

/// Parses `4096`, `4096B`, `4K`, `4KiB`, `1 MiB`: a whole number with an optional binary unit.
pub fn parse_size(text: &str) -> Result<ByteCount, ParseSizeError> {
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    let owned = || trimmed.to_owned();
    if number.is_empty() {
        return Err(ParseSizeError::NotANumber(owned()));
    }
    let number: u64 = number.parse().map_err(|_| ParseSizeError::TooLarge(owned()))?;
    let unit = unit.trim_start();
    let mut letters = unit.chars();
    let scale = match (letters.next(), letters.as_str()) {
        (None, _) | (Some('B' | 'b'), "") => 1,
        (Some('.' | ',' | '-' | '+'), _) => return Err(ParseSizeError::NotANumber(owned())),
        (Some(letter), rest) => {
            let known = UNITS.iter().find(|(l, _)| *l == letter.to_ascii_uppercase());
            match (known, rest) {
                (Some((_, scale)), "" | "i" | "iB" | "ib") => *scale,
                (Some(_), "B" | "b") => return Err(ParseSizeError::DecimalUnit(owned())),
                _ => return Err(ParseSizeError::UnknownUnit(owned())),
            }
        }
    };
    number.checked_mul(scale).map(ByteCount::new).ok_or_else(|| ParseSizeError::TooLarge(owned()))
}

impl fmt::Display for ByteCount {
    /// In the largest binary unit of which there is one: exact if whole (`4 KiB`), else to one decimal (`465.8 GiB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.get();
        let Some(index) = UNITS.iter().position(|(_, scale)| bytes >= *scale) else {
            return f.pad(&format!("{bytes} B"));
        };
        let (letter, scale) = UNITS[index];
        let (whole, rest) = (bytes / scale, bytes % scale);
        if rest == 0 {
            return f.pad(&format!("{whole} {letter}iB"));
        }
        // Tenths, rounded half up, in u128 so that a large remainder does not overflow.
        let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
        // A value that rounds to 1024 of a unit is printed as 1 of the next larger unit.
        match index.checked_sub(1).map(|larger| UNITS[larger]).filter(|_| tenths >= 10 * 1024) {
            Some((larger, _)) => f.pad(&format!("1.0 {larger}iB")),
            None => f.pad(&format!("{}.{} {letter}iB", tenths / 10, tenths % 10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_1024_of_a_unit() {
        for (_, scale) in UNITS {
            for less in [0, 1, scale / 4096, scale / 2048, scale / 1024] {
                let text = ByteCount::new(scale - less.min(scale - 1)).to_string();
                assert!(!text.starts_with("1024"), "{scale} - {less}: {text}");
                let number: f64 = text.split(' ').next().unwrap().parse().unwrap();
                assert!((1.0..1024.0).contains(&number), "{text}");
            }
        }
        assert_eq!(ByteCount::new((1 << 30) - 1).to_string(), "1.0 GiB");
        assert_eq!(ByteCount::new((1 << 30) - (1 << 20)).to_string(), "1023 MiB");
    }
}
