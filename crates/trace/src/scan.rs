//! Numbers and fields of lines, read eight bytes at a time.
//!
//! Functions return `None` for all that is not plainly written, such as a sign, a blank or a number that does not
//! fit: the caller then reads the line as text. The bytes end with [`PADDING`] after the last line.

pub(crate) const PADDING: usize = 16;

/// The next eight bytes, the first in the lowest bits; zeros past the end.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at.wrapping_add(8)).and_then(|eight| <[u8; 8]>::try_from(eight).ok()) {
        Some(eight) => u64::from_le_bytes(eight),
        None => 0,
    }
}

#[inline]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x80 * ONES;

#[inline]
fn digits(word: u64) -> u32 {
    let values = word ^ (0x30 * ONES);
    // A digit is below ten, so 0x76 more keeps its top bit clear. A carry changes only the bytes after it.
    ((values.wrapping_add(0x76 * ONES) | values) & TOPS).trailing_zeros() / 8
}

/// Returns the number that `count` digits write, which is from 1 to 8.
#[inline]
fn value(word: u64, count: u32) -> u64 {
    // Zeros before it, so that there are eight: pairs, fours and all are then added up at once.
    let values = (word ^ (0x30 * ONES)) << (64 - 8 * count);
    let pairs = (values.wrapping_mul(10)).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

#[inline]
fn power(exponent: u32) -> Option<u64> {
    const POWERS: [u64; 20] = {
        let mut powers = [1; 20];
        let mut at = 1;
        while at < powers.len() {
            powers[at] = powers[at - 1] * 10;
            at += 1;
        }
        powers
    };
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// At most 19 digits; with the place after the number.
#[inline]
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = word(bytes, at);
    let count = digits(first);
    if count < 8 {
        return (count > 0).then(|| (value(first, count), at + count as usize));
    }
    let (first, second) = (value(first, 8), word(bytes, at + 8));
    let count = digits(second);
    if count == 0 {
        return Some((first, at + 8));
    }
    let upper = first * power(count)? + value(second, count);
    if count < 8 {
        return Some((upper, at + 8 + count as usize));
    }
    let third = word(bytes, at + 16);
    let count = digits(third);
    match count {
        0 => Some((upper, at + 16)),
        1..=3 => Some((upper * power(count)? + value(third, count), at + 16 + count as usize)),
        _ => None,
    }
}

/// Reads a decimal number of units of 10^`exponent` ns; returns nanoseconds, cut to whole ones, and the place after it.
#[inline]
pub(crate) fn time(bytes: &[u8], at: usize, exponent: u32) -> Option<(u64, usize)> {
    let (whole, at) = number(bytes, at)?;
    let whole = whole.checked_mul(power(exponent)?)?;
    if byte(bytes, at) != b'.' {
        return Some((whole, at));
    }
    let (fraction, end) = number(bytes, at + 1)?;
    let places = u32::try_from(end - at - 1).ok()?;
    let nanos = if places <= exponent {
        fraction * power(exponent - places)?
    } else {
        fraction / power(places - exponent)?
    };
    Some((whole.checked_add(nanos)?, end))
}

/// Returns the place of the first `separator` or line break.
#[inline]
pub(crate) fn field_end(bytes: &[u8], mut at: usize, separator: u8) -> usize {
    let pattern = u64::from(separator) * ONES;
    loop {
        let word = word(bytes, at);
        // The lowest zero byte of each is found exactly; a borrow marks wrongly only bytes after it.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
        let found = zeros(word ^ pattern) | zeros(word ^ (0x0a * ONES)) | zeros(word);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
}

#[inline]
pub(crate) fn past_blanks(bytes: &[u8], mut at: usize) -> usize {
    while byte(bytes, at) == b' ' {
        at += 1;
    }
    at
}

/// Returns the place after the end of the line, if `at` is at that end.
#[inline]
pub(crate) fn past_line(bytes: &[u8], at: usize) -> Option<usize> {
    match byte(bytes, at) {
        b'\n' => Some(at + 1),
        b'\r' if byte(bytes, at + 1) == b'\n' => Some(at + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn padded(text: &str) -> Vec<u8> {
        [text.as_bytes(), &[0; PADDING]].concat()
    }

    #[test]
    fn numbers_end_where_their_digits_do() {
        let read = |text: &str| number(&padded(text), 0);
        assert_eq!(read("7,"), Some((7, 1)));
        assert_eq!(read("12345678\n"), Some((12_345_678, 8)));
        assert_eq!(read("1234567890123456 "), Some((1_234_567_890_123_456, 16)));
        assert_eq!(read("9999999999999999999"), Some((9_999_999_999_999_999_999, 19)));
        for bad in ["", "-1", "+1", " 1", "x", "/", ":", "\u{b2}", "12345678901234567890"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_what_its_text_says(number in any::<u64>(), shift in 0_u32..64, behind in "[^0-9]?") {
            let number = number >> shift;
            let text = format!("{number}{behind}");
            let digits = number.to_string().len();
            let expected = (digits < 20).then_some((number, digits));
            prop_assert_eq!(super::number(&padded(&text), 0), expected);
        }

        #[test]
        fn a_time_is_what_the_slow_reader_makes_of_it(
            whole in 0_u64..99_999_999_999, fraction in "(\\.[0-9]{1,19})?", exponent in 0_u32..10,
        ) {
            let text = format!("{whole}{fraction}");
            let unit = 10_u64.pow(exponent);
            let expected = crate::format::time("", &text, unit).ok().map(straddle_units::io::Nanos::get);
            let read = time(&padded(&text), 0, exponent);
            // It may leave a line to the other, but not read another number.
            if let Some((nanos, end)) = read {
                prop_assert_eq!((Some(nanos), end), (expected, text.len()));
            } else {
                prop_assert!(expected.is_none() || fraction.len() > 19);
            }
        }

        #[test]
        fn a_field_ends_at_its_separator(text in "[a-z\u{80}-\u{ff},\n ]{0,40}") {
            let bytes = padded(&text);
            let expected = bytes.iter().position(|byte| matches!(byte, b',' | b'\n' | 0)).unwrap();
            prop_assert_eq!(field_end(&bytes, 0, b','), expected);
        }
    }
}
