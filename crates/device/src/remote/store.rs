//! Objects in the buckets of S3, Google Cloud Storage and Azure. `object_store` finds the credentials in its usual
//! environment, and signs. The runtime drives one request at a time on the asking thread.

use std::ops::Range;
use std::sync::Arc;

use crate::Address;
use crate::address::Scheme;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use crate::remote::answer::{Part, Version};
use crate::remote::budget::Budget;
use crate::remote::error::FetchError;
use crate::remote::service::Connector;
use crate::remote::transport::{Transport, short};

pub(crate) struct Store {
    store: Box<dyn ObjectStore>,
    runtime: Runtime,
    hint: &'static str,
}

impl Store {
    pub(crate) fn new(transport: &Arc<Transport>, address: &Address) -> Result<Self, FetchError> {
        let (bucket, connector) = (address.authority(), Connector(Arc::clone(transport)));
        // What can be repeated is repeated by the transport.
        let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store: object_store::Result<Box<dyn ObjectStore>> = match address.scheme() {
            Scheme::Gs => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(connector)
                .with_retry(once)
                .build()
                .map(|store| Box::new(store) as _),
            Scheme::Az => MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_http_connector(connector)
                .with_retry(once)
                .build()
                .map(|store| Box::new(store) as _),
            Scheme::S3 | Scheme::Https | Scheme::Http => AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(connector)
                .with_retry(once)
                .build()
                .map(|store| Box::new(store) as _),
        };
        let hint = hint(address.scheme());
        let store = store.map_err(|error| unusable(&error, Some(hint)))?;
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| FetchError::Store {
            what: format!("cannot wait for responses: {error}"),
            hint: None,
        })?;
        Ok(Self { store, runtime, hint })
    }

    pub(crate) fn fetch(
        &self,
        budget: &Budget,
        key: &str,
        range: &Range<u64>,
        of: Option<&Version>,
    ) -> Result<Part, FetchError> {
        let path = Path::parse(key).ok().filter(|path| path.as_ref() == key);
        let invalid = || FetchError::Store {
            what: "a key with an empty part, '.' or '..' between slashes is not supported".to_owned(),
            hint: None,
        };
        let path = path.ok_or_else(invalid)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: of.and_then(Version::strong).map(str::to_owned),
            ..GetOptions::default()
        };
        budget.take_failure();
        let limit = budget.time_left()?;
        let whole = async {
            let result = self.store.get_opts(&path, options).await?;
            let version = result.extensions.get::<Version>().cloned();
            result.bytes().await.map(|bytes| (version, bytes))
        };
        // Another thread may hold what this one waits for: credentials that it is fetching.
        let fetched = self.runtime.block_on(async { tokio::time::timeout(limit, whole).await });
        let (version, bytes) = match fetched {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(error)) => {
                let failure = budget.take_failure().unwrap_or_else(|| unusable(&error, None));
                return Err(self.with_hint(failure));
            }
            Err(_) => return Err(budget.timed_out()),
        };
        let version = version.ok_or_else(|| FetchError::Store {
            what: "the server sent no response".to_owned(),
            hint: None,
        })?;
        Ok(Part { bytes: bytes.into(), version })
    }

    fn with_hint(&self, failure: FetchError) -> FetchError {
        match failure {
            FetchError::Status { host, status, code, hint: None }
                if status.starts_with("401") || status.starts_with("403") =>
            {
                FetchError::Status { host, status, code, hint: Some(self.hint) }
            }
            FetchError::Credentials { host, hint: None, source } => {
                FetchError::Credentials { host, hint: Some(self.hint), source }
            }
            failure => failure,
        }
    }
}

const fn hint(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Gs => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, or GOOGLE_SKIP_SIGNATURE=true for \
             public objects"
        }
        Scheme::Az => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true \
             for public objects"
        }
        Scheme::S3 | Scheme::Https | Scheme::Http => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for public \
             objects"
        }
    }
}

fn unusable(error: &object_store::Error, hint: Option<&'static str>) -> FetchError {
    FetchError::Store { what: short(&error.to_string()), hint }
}
