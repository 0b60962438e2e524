//! Objects at an HTTP or HTTPS address. A redirect never leads from HTTPS to HTTP. User name and password are sent
//! only to the address's own host, by HTTPS.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Address;
use data_encoding::BASE64;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE};
use ureq::http::{Request, Uri};
use url::Url;

use crate::remote::answer::{Outcome, Part, Version, fetch};
use crate::remote::budget::Budget;
use crate::remote::error::FetchError;
use crate::remote::transport::{Transport, host_of, short};

const MAX_REDIRECTS: u32 = 5;

#[derive(Clone)]
struct Endpoint {
    url: Url,
    uri: Uri,
}

impl Endpoint {
    fn new(mut url: Url) -> Result<Self, FetchError> {
        // Neither is sent: a redirect has no say in who is logged in.
        url.set_fragment(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let invalid = |_| FetchError::Protocol {
            host: short(url.host_str().unwrap_or_default()),
            what: "its URL is not valid".to_owned(),
        };
        let uri = url.as_str().parse().map_err(invalid)?;
        Ok(Self { url, uri })
    }
}

pub(crate) struct Web {
    transport: Arc<Transport>,
    first: Endpoint,
    authorization: Option<HeaderValue>,
    place: Mutex<Endpoint>,
}

impl Web {
    pub(crate) fn new(transport: Arc<Transport>, address: &Address) -> Result<Self, FetchError> {
        let query = address.query().map_or_else(String::new, |query| format!("?{query}"));
        let text = format!("{}://{}{}{query}", address.scheme().name(), address.authority(), address.path());
        let invalid = |what: &dyn std::fmt::Display| FetchError::Protocol {
            host: address.authority().to_owned(),
            what: format!("its URL is not valid: {what}"),
        };
        let first = Endpoint::new(Url::parse(&text).map_err(|error| invalid(&error))?)?;
        let authorization = address.user().map(|(name, password)| {
            let both = BASE64.encode(format!("{name}:{password}").as_bytes());
            HeaderValue::from_str(&format!("Basic {both}"))
        });
        let mut authorization = authorization.transpose().map_err(|error| invalid(&error))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Self { transport, place: Mutex::new(first.clone()), first, authorization })
    }

    pub(crate) fn fetch(
        &self,
        budget: &Budget,
        range: &Range<u64>,
        of: Option<&Version>,
    ) -> Result<Part, FetchError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = || self.request(&place, range, of);
            match fetch(&self.transport, budget, range, &request)? {
                Outcome::Part(part) => {
                    *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
                    return Ok(part);
                }
                Outcome::Redirect(to) => place = followed(&place, &to)?,
            }
        }
        let what = format!("more than {MAX_REDIRECTS} times");
        Err(FetchError::Redirect { host: host_of(&self.first.uri), what })
    }

    fn request(&self, place: &Endpoint, range: &Range<u64>, of: Option<&Version>) -> Request<()> {
        let mut request = Request::new(());
        *request.uri_mut() = place.uri.clone();
        let headers = request.headers_mut();
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(RANGE, &format!("bytes={}-{}", range.start, range.end - 1));
        // Ranges count stored bytes, not compressed ones.
        set(ACCEPT_ENCODING, "identity");
        match of.map(|of| (of.strong(), of.modified.as_deref())) {
            Some((Some(etag), _)) => set(IF_MATCH, etag),
            Some((None, Some(modified))) => set(IF_UNMODIFIED_SINCE, modified),
            _ => {}
        }
        if let Some(value) = &self.authorization
            && place.url.origin() == self.first.url.origin()
        {
            headers.insert(AUTHORIZATION, value.clone());
        }
        request
    }
}

fn followed(place: &Endpoint, to: &str) -> Result<Endpoint, FetchError> {
    let refused = |what: &str| FetchError::Redirect { host: host_of(&place.uri), what: what.to_owned() };
    let url = place.url.join(to).map_err(|_| refused("to an invalid URL"))?;
    match (place.url.scheme(), url.scheme()) {
        (_, "https") | ("http", "http") => Endpoint::new(url),
        (_, "http") => Err(refused("to HTTP without TLS, which is not followed")),
        (_, other) => Err(refused(&format!("to {}:, which is not followed", short(other)))),
    }
}
