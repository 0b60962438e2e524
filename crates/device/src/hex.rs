//! Bytes as hexadecimal digits, two each.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// Formats bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Reads digits of either case. `None` if their number is odd, or anything else is among them.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_was_encoded_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all.clone()));
        assert_eq!(decode(&encode(&all).to_uppercase()), Some(all));
        assert_eq!((encode(&[0, 0xA5]), decode("")), ("00a5".to_owned(), Some(Vec::new())));
        for wrong in ["0", "0g", "+1", "0 ", "é0"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
