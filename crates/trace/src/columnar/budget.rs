//! The memory of row groups that are unpacked at the same time.
//!
//! The law of this module: who waits for memory holds none, and who holds some needs nobody else to go on. So each who
//! waits gets it in the end.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that can be taken.
pub(super) struct Budget {
    most: u64,
    free: Mutex<u64>,
    returned: Condvar,
}

/// Bytes that were taken, until this is dropped.
pub(super) struct Taken {
    from: &'static Budget,
    bytes: u64,
}

impl Budget {
    pub(super) const fn new(most: u64) -> Self {
        Self { most, free: Mutex::new(most), returned: Condvar::new() }
    }

    /// Takes bytes, all of them if there are not as many; waits until they are there.
    pub(super) fn take(&'static self, bytes: u64) -> Taken {
        let bytes = bytes.min(self.most);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = self.returned.wait_while(free, |free| *free < bytes);
        *enough.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Taken { from: self, bytes }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.from.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.from.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        static BUDGET: Budget = Budget::new(100);
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..200 {
                        let bytes = (thread * 37 + round * 11) % 130;
                        let taken = BUDGET.take(bytes);
                        let all = TAKEN.fetch_add(taken.bytes, Ordering::SeqCst) + taken.bytes;
                        assert!(all <= 100, "{all}");
                        TAKEN.fetch_sub(taken.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(*BUDGET.free.lock().unwrap(), 100);
    }
}
