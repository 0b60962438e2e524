//! The HTTP of `object_store`, by our own [`Transport`]. An answer for a range reaches it only after it was checked;
//! failures are kept in the thread's budget, without contents. Servers for credentials get only their own requests.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE};
use ureq::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use crate::remote::answer::{Outcome, Part, fetch, refused_by};
use crate::remote::budget::{self, Budget};
use crate::remote::error::FetchError;
use crate::remote::transport::{Purpose, Transport, host_of};

const MAX_CREDENTIALS: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Connector(pub(crate) Arc<Transport>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let allows_http = allowed.is_some_and(|allowed| allowed == "true");
        Ok(HttpClient::new(Service { transport: Arc::clone(&self.0), allows_http }))
    }
}

#[derive(Debug)]
struct Service {
    transport: Arc<Transport>,
    allows_http: bool,
}

/// A failure that `object_store` does not repeat.
#[derive(Debug, thiserror::Error)]
#[error("the request failed")]
struct Kept;

#[async_trait]
impl HttpService for Service {
    /// Blocks: a thread has one store's request at a time.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let kept = |_| HttpError::new(HttpErrorKind::Unknown, Kept);
        let Some(budget) = budget::current() else { return Err(kept(())) };
        self.answer(&budget, &request).map_err(|failure| {
            budget.set_failure(failure);
            kept(())
        })
    }
}

impl Service {
    fn answer(&self, budget: &Budget, request: &HttpRequest) -> Result<HttpResponse, FetchError> {
        let host = host_of(request.uri());
        if request.uri().scheme_str() != Some("https") && !self.allows_http {
            let what = format!("requests to {host} without TLS are not allowed");
            let hint = "to allow them, set AWS_ALLOW_HTTP, GOOGLE_ALLOW_HTTP or AZURE_ALLOW_HTTP to true";
            return Err(FetchError::Store { what, hint: Some(hint) });
        }
        let range = request.headers().get(RANGE).and_then(|value| value.to_str().ok()).and_then(range);
        match range.filter(|_| request.method() == Method::GET) {
            Some(range) => {
                let mut plain = Request::new(());
                *plain.uri_mut() = request.uri().clone();
                *plain.headers_mut() = request.headers().clone();
                match fetch(&self.transport, budget, &range, &|| plain.clone())? {
                    Outcome::Part(part) => Ok(response(&range, part)),
                    // A signed request is not sent to another server.
                    Outcome::Redirect(_) => {
                        Err(FetchError::Redirect { host, what: "a signed request".to_owned() })
                    }
                }
            }
            None => self.credentials(budget, request).map_err(|source| FetchError::Credentials {
                host,
                hint: None,
                source: Box::new(source),
            }),
        }
    }

    /// An error's contents are left out: they may repeat what was sent.
    fn credentials(&self, budget: &Budget, request: &HttpRequest) -> Result<HttpResponse, FetchError> {
        budget.start_request(0)?;
        let mut copy = Request::new(());
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.headers_mut() = request.headers().clone();
        let contents = request.body().as_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default();
        let mut answer = if contents.is_empty() {
            self.transport.send(Purpose::Credentials, copy)?
        } else {
            self.transport.send(Purpose::Credentials, copy.map(|()| contents))?
        };
        let is_success = answer.status.is_success();
        if !is_success {
            // It may try another way. If it does not, this is why.
            let source = Box::new(refused_by(&answer));
            budget.set_failure(FetchError::Credentials { host: answer.host.clone(), hint: None, source });
        }
        let mut bytes = if is_success { answer.read(MAX_CREDENTIALS)? } else { Vec::new() };
        bytes.truncate(MAX_CREDENTIALS);
        let mut response = HttpResponse::new(HttpResponseBody::from(bytes));
        *response.status_mut() = answer.status;
        *response.headers_mut() = if is_success { answer.headers } else { HeaderMap::new() };
        Ok(response)
    }
}

fn range(text: &str) -> Option<std::ops::Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}

fn response(range: &std::ops::Range<u64>, part: Part) -> HttpResponse {
    let Part { bytes, version } = part;
    let mut headers = HeaderMap::new();
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    let last = range.end.min(version.size).saturating_sub(1);
    set(CONTENT_LENGTH, &bytes.len().to_string());
    set(CONTENT_RANGE, &format!("bytes {}-{last}/{}", range.start, version.size));
    // Two of the stores insist on both.
    set(ETAG, version.etag.as_deref().unwrap_or_default());
    set(LAST_MODIFIED, version.modified.as_deref().unwrap_or(EPOCH));
    let mut response = HttpResponse::new(HttpResponseBody::from(bytes));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(version);
    response
}

const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
