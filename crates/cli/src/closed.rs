//! Whether stdout was closed when the program was started (`>&-`).
//!
//! The law of this module: it looks before anything else runs. Rust's runtime puts /dev/null where a standard stream is closed,
//! after which every write succeeds, and a closed stdout cannot be told from one that is not wanted.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the C library before `main`, and so before Rust's runtime.
extern "C" fn look() {
    // SAFETY: F_GETFD takes no argument and changes nothing; the number may be of no open file.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the C library calls what is listed in this section, as a function that takes and returns nothing; `look` is one
// (the arguments that glibc passes are left alone), and uses nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

/// Whether it was.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
