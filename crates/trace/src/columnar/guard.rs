//! Calls into the libraries that unpack and decode: their panics become errors, and are not printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::error::ParquetError;

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `decode`, which reads what a file says. What it was working on must not be used after an error.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    silence();
    let before = INSIDE.replace(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    INSIDE.set(before);
    decoded.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = text.unwrap_or("it cannot be decoded").lines().next().unwrap_or_default();
        Err(ParquetError::Damaged { why: why.chars().take(200).collect() })
    })
}

fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that ends has no variables left, and is not inside.
            if !INSIDE.try_with(Cell::get).unwrap_or(false) {
                earlier(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_why() {
        let index = std::hint::black_box(7);
        let panics: [(&str, &dyn Fn()); 2] = [
            ("index out of bounds: the len is 2 but the index is 7", &|| {
                std::hint::black_box([1, 2][std::hint::black_box(index)]);
            }),
            ("no such encoding", &|| panic!("no such encoding\nat line 7")),
        ];
        for (why, panics) in panics {
            let wrong = guarded(|| {
                panics();
                Ok(())
            });
            assert_eq!(wrong.unwrap_err().to_string(), format!("the file is damaged: {why}"));
            assert!(!INSIDE.get());
        }
        let nested = guarded(|| {
            let inner = guarded::<()>(|| panic!("inner"));
            assert!(inner.is_err() && INSIDE.get());
            Ok(7)
        });
        assert_eq!(nested.unwrap(), 7);
        assert!(!INSIDE.get());
    }
}
