//! Objects on servers: only the ranges asked for are fetched, and kept ([`cache`]). Every answer is
//! checked before its bytes count ([`answer`]). A target has one budget of time and bytes ([`Limits`]), and its first
//! failure is its last. Secrets are in no error.

mod answer;
mod budget;
mod cache;
mod error;
mod object;
mod service;
mod store;
mod transport;
mod web;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Address;
use crate::address::Scheme;

pub use budget::Limits;
pub use error::{FetchError, RemoteError};
pub use object::Object;

use budget::Budget;
use object::Source;
use store::Store;
use transport::Transport;
use web::Web;

/// Opens objects. It holds the connections and the credentials that they share.
pub struct Client {
    limits: Limits,
    /// Reading this machine's certificates takes a while.
    transport: OnceLock<Arc<Transport>>,
    stores: Mutex<HashMap<(Scheme, String), Arc<Store>>>,
}

impl Client {
    /// Creates a client whose objects each have these limits. Nothing is connected to yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, transport: OnceLock::new(), stores: Mutex::default() }
    }

    /// Opens the object at `address`: fetches its first bytes, which tell its size and version.
    pub fn open(&self, address: &Address) -> Result<Object, RemoteError> {
        let budget = Arc::new(Budget::new(self.limits));
        let transport = self.transport.get_or_init(|| Arc::new(Transport::new(self.limits)));
        let source = if address.scheme().is_bucket() {
            self.store(transport, address).map(|store| Source::Bucket(store, address.path().to_owned()))
        } else {
            Web::new(Arc::clone(transport), address).map(|web| Source::Web(Box::new(web)))
        };
        let source = source.map_err(|source| RemoteError::new(0, source))?;
        Object::open(source, budget, address.scheme())
    }

    fn store(&self, transport: &Arc<Transport>, address: &Address) -> Result<Arc<Store>, FetchError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.scheme(), address.authority().to_owned());
        if let Some(store) = stores.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(Store::new(transport, address)?);
        stores.insert(key, Arc::clone(&store));
        Ok(store)
    }
}
