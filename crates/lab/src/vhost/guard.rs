//! Keeps memory of the guest's readable, even if the guest removes it.
//!
//! The guest can truncate the file of its memory. Access to the missing pages then raises SIGBUS, which would end
//! this process and so disconnect every other client. The handler replaces the region by zeroes and records
//! that; the connection checks the record after each access, and fails. The same happens for a hugetlbfs page
//! when there are no huge pages left, whatever the file's seals.
//!
//! The handler calls only mmap(2) and sigaction(2) and accesses only atomics, because it may run at any point.

#![allow(
    unsafe_code,
    reason = "a signal handler, and the mapping that it puts in the place of one that is gone"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Eight for each of the most clients, and those of a table that replaces another.
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

/// Guards a mapping. Must be dropped before it.
#[derive(Debug)]
pub(crate) struct Guard(usize);

impl Guard {
    /// `length` bytes at `start` must be a mapping of their own. `None` if too many are guarded already.
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
        // SAFETY: all zeroes is a valid sigaction. The handler has the form that SA_SIGINFO requires, and lives
        // as long as the program.
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
    // that lives as long as its slot is set, with the same size and protection. errno belongs to the
    // interrupted code and is restored.
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
        // Not a guarded region: the previous action handles the signal when the access is repeated.
        match BEFORE.get() {
            Some(before) => libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()),
            None => libc::abort(),
        };
        *libc::__errno_location() = errno;
    }
}
