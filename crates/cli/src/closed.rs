//! Whether stdout was closed when the program was started (`>&-`).
//!
//! The law of this module: the check runs before anything else. Rust's runtime opens /dev/null in place of a
//! closed standard stream. After that every write succeeds, and a closed stdout looks like one whose output
//! is not wanted.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the C library before `main`, and so before Rust's runtime.
extern "C" fn look() {
    // SAFETY: F_GETFD takes no argument and changes nothing. The descriptor need not be open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the C library calls every function listed in this section. `look` takes and returns nothing,
// ignores the arguments that glibc passes, and uses nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

/// Whether stdout was closed at the start.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
