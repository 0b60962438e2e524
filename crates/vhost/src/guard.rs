//! Memory of the guest's that stays readable, even if the guest takes it away.
//!
//! The guest's memory is a file that it has opened as well. When it truncates the file, touching the pages that are gone raises
//! SIGBUS, which would end this process and every other client with it. A [`Guard`] has the handler put zeroes in the place of the
//! whole region, and remember that; the connection looks at that after it has touched the memory, and ends. So does a page that the
//! system cannot provide (of a hugetlbfs file when there are no huge pages left), whatever the file is sealed against.
//!
//! The handler makes no call but mmap(2) and sigaction(2), and touches nothing but atomics: it may run anywhere.

#![allow(
    unsafe_code,
    reason = "a signal handler, and the mapping that it puts in the place of one that is gone"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Regions at a time: eight for each of as many clients as a server can have, and those of a table that takes another's place.
const MOST: usize = 8 * (128 + 1);

struct Slot {
    is_taken: AtomicBool,
    /// 0 while nothing is guarded.
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

static SLOTS: [Slot; MOST] = [const {
    Slot {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MOST];

/// What was done about SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Watches over a mapping; to be dropped before the mapping is.
#[derive(Debug)]
pub(crate) struct Guard(usize);

impl Guard {
    /// Guards `length` bytes at `start`, a mapping of its own; `None` where too many are guarded already.
    pub(crate) fn new(start: *mut u8, length: usize) -> Option<Self> {
        install();
        let index = SLOTS.iter().position(|slot| !slot.is_taken.swap(true, Ordering::AcqRel))?;
        let slot = &SLOTS[index];
        slot.is_lost.store(false, Ordering::Relaxed);
        slot.length.store(length, Ordering::Relaxed);
        slot.start.store(start as usize, Ordering::Release);
        Some(Self(index))
    }

    /// Whether the guest has taken a page of it away that was touched.
    pub(crate) fn is_lost(&self) -> bool {
        SLOTS[self.0].is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        slot.start.store(0, Ordering::Release);
        slot.is_taken.store(false, Ordering::Release);
    }
}

fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: both are plain structures of the C library, for which all zeroes is a value; the handler has the form that
        // SA_SIGINFO asks for, and lives as long as the program. SA_ONSTACK takes the alternate stack where the thread has one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before);
            before
        }
    });
}

extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t of a SIGBUS, which has an address. The mapping replaces one that this crate has made and
    // that lives as long as its slot is set, by one of the same size and protection; errno is the interrupted code's.
    unsafe {
        let (errno, address) = (*libc::__errno_location(), (*info).si_addr() as usize);
        for slot in &SLOTS {
            let (start, length) = (slot.start.load(Ordering::Acquire), slot.length.load(Ordering::Relaxed));
            if start == 0 || !(start..start.saturating_add(length)).contains(&address) {
                continue;
            }
            slot.is_lost.store(true, Ordering::Release);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            let place = start as *mut libc::c_void;
            if libc::mmap(place, length, protection, flags, -1, 0) != libc::MAP_FAILED {
                *libc::__errno_location() = errno;
                return;
            }
        }
        // Nobody's: it happens again, and goes where it would have gone.
        match BEFORE.get() {
            Some(before) => libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()),
            None => libc::abort(),
        };
        *libc::__errno_location() = errno;
    }
}
