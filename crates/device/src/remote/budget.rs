//! What reading one object may cost, and has cost. A thread has one budget ([`with`]): `object_store` does not say
//! for whom.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use straddle_units::{ByteCount, MIB};

use crate::remote::error::FetchError;

/// What reading one object may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take, from opening it to the last byte.
    pub time: Duration,
    /// How many bytes may be received.
    pub received: ByteCount,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), received: ByteCount::new(64 * MIB) }
    }
}

#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    until: Instant,
    requests: AtomicU64,
    received: AtomicU64,
    /// What `object_store` makes of it says less.
    failure: Mutex<Option<FetchError>>,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            until: Instant::now() + limits.time,
            requests: AtomicU64::new(0),
            received: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    pub(crate) fn time_left(&self) -> Result<Duration, FetchError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.timed_out()) } else { Ok(left) }
    }

    pub(crate) fn timed_out(&self) -> FetchError {
        FetchError::TimedOut { limit: self.limits.time }
    }

    pub(crate) fn start_request(&self, want: u64) -> Result<(), FetchError> {
        self.time_left()?;
        if self.received().saturating_add(want) > self.limits.received.get() {
            return Err(FetchError::TooMuch { limit: self.limits.received });
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn set_failure(&self, failure: FetchError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub(crate) fn take_failure(&self) -> Option<FetchError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Budget>>> = const { RefCell::new(None) };
}

pub(crate) fn with<T>(budget: &Arc<Budget>, work: impl FnOnce() -> T) -> T {
    CURRENT.set(Some(Arc::clone(budget)));
    let done = work();
    CURRENT.set(None);
    done
}

pub(crate) fn current() -> Option<Arc<Budget>> {
    CURRENT.with_borrow(Clone::clone)
}
