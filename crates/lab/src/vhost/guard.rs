//! Keeps memory of the guest's readable, even if the guest removes it.
//!
//! The guest's memory is a file that the guest has open as well. When the guest truncates the file, access to
//! the missing pages raises SIGBUS, which would end this process and so disconnect every other client. With a
//! [`Guard`] the signal handler instead replaces the whole region by zeroes, and records that. The connection
//! checks the record after each access, and fails. The same happens for a page that the system cannot provide
//! (of a hugetlbfs file when there are no huge pages left), whatever the file's seals.
//!
//! The handler makes no calls but mmap(2) and sigaction(2), and accesses only atomics, because it may run at
//! any point.

#![allow(
    unsafe_code,
    reason = "a signal handler, and the mapping that it puts in the place of one that is gone"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of regions guarded at a time: eight for each of the maximum number of clients, and those of a
/// table that replaces another.
const MAX_REGIONS: usize = 8 * (128 + 1);

struct Slot {
    is_taken: AtomicBool,
    /// 0 while nothing is guarded.
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

static SLOTS: [Slot; MAX_REGIONS] = [const {
    Slot {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAX_REGIONS];

/// The previous action for SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Guards a mapping. Must be dropped before the mapping.
#[derive(Debug)]
pub(crate) struct Guard(usize);

impl Guard {
    /// Guards `length` bytes at `start`, which must be a mapping of their own. `None` where too many are
    /// guarded already.
    pub(crate) fn new(start: *mut u8, length: usize) -> Option<Self> {
        install();
        let index = SLOTS.iter().position(|slot| !slot.is_taken.swap(true, Ordering::AcqRel))?;
        let slot = &SLOTS[index];
        slot.is_lost.store(false, Ordering::Relaxed);
        slot.length.store(length, Ordering::Relaxed);
        slot.start.store(start as usize, Ordering::Release);
        Some(Self(index))
    }

    /// Whether an access has found a page of it missing.
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
        // SAFETY: both are plain structures of the C library, for which all zeroes is a valid value. The
        // handler has the form that SA_SIGINFO requires, and lives as long as the program. SA_ONSTACK uses
        // the alternate stack where the thread has one.
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
    // SAFETY: the kernel passes the siginfo_t of a SIGBUS, which has an address. The new mapping replaces one
    // that this crate has made and that lives as long as its slot is set, with the same size and protection.
    // errno belongs to the interrupted code and is restored.
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
        // Not a guarded region: restore the previous action, which handles the signal when the access is
        // repeated.
        match BEFORE.get() {
            Some(before) => libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()),
            None => libc::abort(),
        };
        *libc::__errno_location() = errno;
    }
}
