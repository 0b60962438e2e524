//! Shows untrusted text (file names, labels, serial numbers) so that it makes a terminal do nothing, looks like no
//! other text, and is exactly one word for a shell.

use std::borrow::Cow;
use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Not shown as themselves: direction (UAX #9), line and paragraph separators, and characters ignorable by
/// default (`Default_Ignorable_Code_Point` of Unicode 16.0, DerivedCoreProperties.txt).
const HIDDEN: [(u32, u32); 24] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x1107F, 0x1107F),
    (0x13430, 0x1345F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0x1FFFE, 0x1FFFF),
    (0xE0000, 0xE0FFF),
    (0xF_FFFE, 0xF_FFFF),
    (0x10_FFFE, 0x10_FFFF),
];

/// Whether a terminal would act on a character, or it is invisible, or reorders others.
pub fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    let index = HIDDEN.partition_point(|(_, last)| *last < code);
    c.is_control() || HIDDEN.get(index).is_some_and(|(first, _)| *first <= code)
}

/// Returns `text` with hidden characters as escapes (`\u{202e}`). Applying this twice has no further effect.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// `word` as one word for a POSIX shell: quoted where needed, hidden characters between `$'` and `'` (POSIX.1-2024,
/// 2.2.4).
pub fn quote(word: &str) -> String {
    quoted(word.as_bytes())
}

/// Returns a file's name as one word for a shell, which is not read as an option.
pub fn quote_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let bytes =
        if bytes.starts_with(b"-") { Cow::Owned([b"./", bytes].concat()) } else { Cow::Borrowed(bytes) };
    quoted(&bytes)
}

fn quoted(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:,=@%".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(word) if !bytes.is_empty() && bytes.iter().all(plain) => word.to_owned(),
        Ok(word) if !word.contains(is_hidden) => format!("'{}'", word.replace('\'', r"'\''")),
        _ => escaped(bytes),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = "$'".to_owned();
    let hex = |text: &mut String, bytes: &[u8]| {
        // Octal escapes have three digits: a digit that follows is not part of one.
        bytes.iter().for_each(|byte| *text += &format!("\\{byte:03o}"));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => text.extend(['\\', c]),
                c if is_hidden(c) => hex(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => text.push(c),
            }
        }
        hex(&mut text, chunk.invalid());
    }
    text + "'"
}

/// Returns an error and all its causes on one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Returns the number of the system's error among an error and its causes.
pub fn system_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(number) = error.downcast_ref().and_then(std::io::Error::raw_os_error) {
            return Some(number);
        }
        at = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_hidden_is_in_order() {
        assert!(HIDDEN.windows(2).all(|pair| pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0));
        for c in [
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\n',
            '\u{202e}',
            '\u{2028}',
            '\u{200b}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', 'é', '中', '\u{fffd}', '😀', 'א'] {
            assert!(!is_hidden(c), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_printed_and_twice_is_once(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.contains(is_hidden));
            prop_assert_eq!(printable(&shown), shown);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_takes_it_for_one_word(bytes in proptest::collection::vec(1_u8.., 0..40), text in "[$`\"'()\\\\ \u{202e}\u{200b}\n;&|<>*?~#!-]{0,12}") {
            for word in [&bytes[..], text.as_bytes()] {
                let line = format!("printf %s {}", quoted(word));
                prop_assert!(!line.contains(is_hidden));
                let output = Command::new("bash").arg("-c").arg(OsStr::new(&line)).output();
                let Ok(output) = output else { return Ok(()) };
                prop_assert_eq!(output.stdout, word, "{}", line);
            }
        }
    }

    #[test]
    fn a_name_is_no_option() {
        assert_eq!(quote_path(Path::new("-rf")), "./-rf");
        assert_eq!(quote_path(Path::new("$(touch X).json")), "'$(touch X).json'");
        assert_eq!(quote("a\u{1b}1'"), r"$'a\0331\''");
    }
}
