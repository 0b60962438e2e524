//! Blocking requests over HTTP and TLS, within their own time and the budget of their thread. A redirect is an answer
//! like any other. Proxies come from the environment (HTTPS_PROXY, NO_PROXY).

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use crate::shown::printable;
use ureq::config::AutoHeaderValue;
use ureq::http::{HeaderMap, Request, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body};

use crate::remote::budget::{self, Limits};
use crate::remote::error::FetchError;

const MAX_HEADER: usize = 32 << 10;

/// One for each thread that fetches.
const MAX_IDLE: usize = 16;

/// Metadata servers are near, or do not exist.
const CREDENTIALS_CONNECT: Duration = Duration::from_secs(3);

const MAX_TEXT: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Object,
    Credentials,
}

#[derive(Debug)]
pub(crate) struct Transport {
    objects: Agent,
    credentials: Agent,
    has_certificates: bool,
    limit: Duration,
}

impl Transport {
    pub(crate) fn new(limits: Limits) -> Self {
        let found = rustls_native_certs::load_native_certs().certs;
        let has_certificates = !found.is_empty();
        let certificates = found.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(certificates)))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let agent = |connect: Option<Duration>| {
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .tls_config(tls.clone())
                .timeout_connect(connect)
                .max_response_header_size(MAX_HEADER)
                .input_buffer_size(2 * MAX_HEADER)
                .output_buffer_size(MAX_HEADER)
                .max_idle_connections(MAX_IDLE)
                .max_idle_connections_per_host(MAX_IDLE)
                .user_agent(concat!("straddle/", env!("CARGO_PKG_VERSION")))
                .accept(AutoHeaderValue::None)
                .accept_encoding(AutoHeaderValue::None)
                .build();
            Agent::new_with_config(config)
        };
        Self {
            objects: agent(None),
            credentials: agent(Some(CREDENTIALS_CONNECT)),
            has_certificates,
            limit: limits.time / 3,
        }
    }

    pub(crate) fn send<B: AsSendBody>(
        &self,
        purpose: Purpose,
        request: Request<B>,
    ) -> Result<Answer, FetchError> {
        let host = host_of(request.uri());
        if request.uri().scheme_str() == Some("https") && !self.has_certificates {
            return Err(FetchError::NoCertificates { host });
        }
        let agent = match purpose {
            Purpose::Object => &self.objects,
            Purpose::Credentials => &self.credentials,
        };
        let left = budget::current().map_or(Ok(self.limit), |budget| budget.time_left())?;
        let request = agent.configure_request(request).timeout_global(Some(left.min(self.limit))).build();
        match agent.run(request) {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                Ok(Answer { host, status: parts.status, headers: parts.headers, body })
            }
            Err(error) => Err(failure(host, error)),
        }
    }
}

pub(crate) struct Answer {
    pub(crate) host: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Body,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.header("content-length").and_then(|value| value.parse().ok())
    }

    /// Reads one byte more than `most` if there is one. What is not received ends the connection.
    pub(crate) fn read(&mut self, most: usize) -> Result<Vec<u8>, FetchError> {
        let most = most.saturating_add(1);
        let mut bytes = Vec::with_capacity(most.min(64 << 10));
        let mut reader = self.body.as_reader().take(u64::try_from(most).unwrap_or(u64::MAX));
        let read = reader.read_to_end(&mut bytes);
        if let Some(budget) = budget::current() {
            budget.add_received(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        match read {
            Ok(_) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let want = self.content_length().unwrap_or(0);
                Err(FetchError::WrongLength { host: self.host.clone(), have: bytes.len().to_string(), want })
            }
            Err(error) => Err(failure(self.host.clone(), ureq::Error::from(error))),
        }
    }
}

pub(crate) fn host_of(uri: &Uri) -> String {
    let host = printable(uri.host().unwrap_or_default());
    uri.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
}

pub(crate) fn short(text: &str) -> String {
    let mut shown: String = printable(text).chars().take(MAX_TEXT).collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        shown.push('…');
    }
    shown
}

fn failure(host: String, error: ureq::Error) -> FetchError {
    if let Some(budget) = budget::current()
        && let Err(timed_out) = budget.time_left()
    {
        return timed_out;
    }
    match error {
        ureq::Error::Timeout(_) => FetchError::Slow { host },
        ureq::Error::HostNotFound => FetchError::UnknownHost { host },
        ureq::Error::Io(source) => FetchError::Connection { host, source },
        ureq::Error::Rustls(error) => {
            FetchError::Connection { host, source: io::Error::new(io::ErrorKind::InvalidData, error) }
        }
        ureq::Error::LargeResponseHeader(_, most) => {
            FetchError::Protocol { host, what: format!("its response header is longer than {most} bytes") }
        }
        error => FetchError::Protocol { host, what: short(&error.to_string()) },
    }
}
