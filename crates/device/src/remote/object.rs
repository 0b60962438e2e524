use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::address::Scheme;
use crate::medium::check_end;
use crate::{Medium, ReadError, Traffic};
use straddle_units::{ByteCount, ByteOffset};

use crate::remote::answer::{Part, Version};
use crate::remote::budget::{self, Budget};
use crate::remote::cache::{BLOCK, Cache, FIRST};
use crate::remote::error::{FetchError, RemoteError};
use crate::remote::store::Store;
use crate::remote::web::Web;

pub(crate) enum Source {
    Web(Box<Web>),
    Bucket(Arc<Store>, String),
}

impl Source {
    fn fetch(
        &self,
        budget: &Arc<Budget>,
        range: &Range<u64>,
        of: Option<&Version>,
    ) -> Result<Part, FetchError> {
        let part = budget::with(budget, || match self {
            Self::Web(web) => web.fetch(budget, range, of),
            Self::Bucket(store, key) => store.fetch(budget, key, range, of),
        })?;
        match of.and_then(|of| of.difference(&part.version)) {
            Some(what) => Err(FetchError::Changed { what }),
            None => Ok(part),
        }
    }
}

struct Inner {
    source: Source,
    budget: Arc<Budget>,
    version: Version,
    cache: Mutex<Cache>,
    failure: OnceLock<Arc<RemoteError>>,
    remarks: Vec<&'static str>,
}

/// An open object, whose bytes are fetched as they are read. Clones are the same object.
///
/// After the first failure nothing more is fetched: every further read fails with it. A program that has read
/// ends with [`failure`](Self::failure), because readers of contents take what cannot be read as absent.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

impl Object {
    pub(crate) fn open(source: Source, budget: Arc<Budget>, scheme: Scheme) -> Result<Self, RemoteError> {
        let failed = |source| RemoteError::new(0, source);
        let part = match source.fetch(&budget, &(0..FIRST * BLOCK), None) {
            Ok(part) => part,
            Err(FetchError::Empty) => {
                Part { bytes: Vec::new(), version: Version { size: 0, etag: None, modified: None } }
            }
            Err(error) => return Err(failed(error)),
        };
        let Part { bytes, version } = part;
        let mut cache = Cache::new(version.size);
        cache.keep(0, &bytes);
        let mut remarks = Vec::new();
        if scheme == Scheme::Http {
            remarks.push("the image was read over HTTP without TLS, so it may have been altered in transit");
        }
        if version.etag.is_none() && version.modified.is_none() {
            remarks.push(
                "the server reports no version (ETag, Last-Modified), so changes during the check would not \
                 be noticed",
            );
        }
        let (cache, failure) = (Mutex::new(cache), OnceLock::new());
        Ok(Self(Arc::new(Inner { source, budget, version, cache, failure, remarks })))
    }

    /// Returns the failure that ended the reading, if one did.
    pub fn failure(&self) -> Option<Arc<RemoteError>> {
        self.0.failure.get().cloned()
    }

    /// Returns what was fetched so far.
    pub fn traffic(&self) -> Traffic {
        let Inner { budget, version, .. } = &*self.0;
        let (requests, received) = (budget.requests(), budget.received());
        Traffic { requests, received, object: ByteCount::new(version.size) }
    }

    /// Returns what to know of the object, in sentences.
    pub fn remarks(&self) -> &[&'static str] {
        &self.0.remarks
    }
}

impl Medium for Object {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.0.version.size)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let Inner { source, budget, version, cache, failure, .. } = &*self.0;
        check_end(at, buf.len(), self.len())?;
        if let Some(failure) = failure.get() {
            return Err(unread(at, failure));
        }
        let mut fetch =
            |range: Range<u64>| source.fetch(budget, &range, Some(version)).map(|part| part.bytes);
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.read(at.get(), buf, &mut fetch).map_err(|(at, source)| {
            let failure = failure.get_or_init(|| Arc::new(RemoteError::new(at, source)));
            unread(ByteOffset::new(at), failure)
        })
    }
}

fn unread(at: ByteOffset, failure: &Arc<RemoteError>) -> ReadError {
    ReadError::Fetch { at, source: Box::new(Arc::clone(failure)) }
}
