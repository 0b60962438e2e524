//! Bytes as hexadecimal digits, two each.

/// Formats bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads digits of either case. `None` if their number is odd, or anything else is among them.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
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
