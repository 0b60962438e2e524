//! Ranges of an object. An answer counts only if it is the whole range asked for, of an object of a stated
//! size. What a server says is compared, never trusted to size a buffer. Transient failures are repeated.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use straddle_units::ByteCount;
use ureq::http::{Request, StatusCode};

use crate::remote::budget::Budget;
use crate::remote::error::FetchError;
use crate::remote::transport::{Answer, Purpose, Transport, short};

const ATTEMPTS: u32 = 3;

/// Before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(200);

/// A longer error may still have a code.
const MAX_ERROR: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Version {
    pub(crate) fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// Apache calls an ETag weak in the second after a change, and strong later (RFC 9110, 8.8.3.2).
    fn opaque(&self) -> Option<&str> {
        self.etag.as_deref().map(|etag| etag.strip_prefix("W/").unwrap_or(etag))
    }

    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.size != other.size {
            Some("the size differs")
        } else if self.opaque() != other.opaque() {
            Some("the ETag differs")
        } else if self.modified != other.modified {
            Some("the modification time differs")
        } else {
            None
        }
    }
}

pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    pub(crate) version: Version,
}

pub(crate) enum Outcome {
    Part(Part),
    Redirect(String),
}

pub(crate) fn fetch(
    transport: &Transport,
    budget: &Budget,
    range: &Range<u64>,
    request: &dyn Fn() -> Request<()>,
) -> Result<Outcome, FetchError> {
    let mut attempt = 1;
    loop {
        budget.start_request(range.end - range.start)?;
        let outcome = transport
            .send(Purpose::Object, request())
            .and_then(|answer| check(answer, range))
            .map_err(|error| budget.time_left().err().unwrap_or(error));
        match outcome {
            Err(error) if attempt < ATTEMPTS && error.is_passing() => {
                thread::sleep((PAUSE * attempt).min(budget.time_left()?));
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

fn check(mut answer: Answer, range: &Range<u64>) -> Result<Outcome, FetchError> {
    match answer.status {
        StatusCode::PARTIAL_CONTENT => {
            let size = stated_size(&answer, range)?;
            let want = range.end.min(size) - range.start;
            let bytes = exactly(&mut answer, want)?;
            Ok(Outcome::Part(Part { bytes, version: version(&answer, size) }))
        }
        StatusCode::OK => whole(answer, range),
        StatusCode::RANGE_NOT_SATISFIABLE if range.start == 0 => Err(FetchError::Empty),
        StatusCode::PRECONDITION_FAILED => Err(FetchError::Changed { what: "HTTP status 412" }),
        status if status.is_redirection() && status != StatusCode::NOT_MODIFIED => {
            if let Some(region) = answer.header("x-amz-bucket-region")
                && region.len() < 64
                && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            {
                return Err(FetchError::Region { region: region.to_owned() });
            }
            let to = answer.header("location").map(str::to_owned);
            let missing = || FetchError::Redirect {
                host: answer.host.clone(),
                what: "without naming a new address".to_owned(),
            };
            to.map(Outcome::Redirect).ok_or_else(missing)
        }
        _ => Err(refused(answer)),
    }
}

fn whole(mut answer: Answer, range: &Range<u64>) -> Result<Outcome, FetchError> {
    let len = answer.content_length();
    match len {
        Some(0) if range.start == 0 => Err(FetchError::Empty),
        Some(len) if range.start == 0 && len <= range.end => {
            let bytes = exactly(&mut answer, len)?;
            Ok(Outcome::Part(Part { bytes, version: version(&answer, len) }))
        }
        len => Err(FetchError::NoRanges { host: answer.host, len: len.map(ByteCount::new) }),
    }
}

fn stated_size(answer: &Answer, range: &Range<u64>) -> Result<u64, FetchError> {
    let stated = answer.header("content-range");
    let wrong = || FetchError::WrongRange {
        host: answer.host.clone(),
        first: range.start,
        last: range.end - 1,
        what: stated.map_or_else(|| "the response has no Content-Range".to_owned(), short),
    };
    let (first, last, size) = stated.and_then(content_range).ok_or_else(wrong)?;
    // Positions on a disk are signed for the kernel, and here they fit as well.
    let is_size = i64::try_from(size).is_ok() && size > range.start;
    if is_size && first == range.start && last == range.end.min(size) - 1 { Ok(size) } else { Err(wrong()) }
}

/// `bytes FIRST-LAST/SIZE` (RFC 9110, 14.4).
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    let rest = text.trim().strip_prefix("bytes ")?;
    let (range, size) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((number(first)?, number(last)?, number(size)?))
}

fn exactly(answer: &mut Answer, want: u64) -> Result<Vec<u8>, FetchError> {
    let most = usize::try_from(want).unwrap_or(usize::MAX);
    let bytes = answer.read(most)?;
    if bytes.len() == most {
        return Ok(bytes);
    }
    let have = if bytes.len() > most { "more".to_owned() } else { bytes.len().to_string() };
    Err(FetchError::WrongLength { host: answer.host.clone(), have, want })
}

fn version(answer: &Answer, size: u64) -> Version {
    let text = |name| answer.header(name).map(str::to_owned);
    Version { size, etag: text("etag"), modified: text("last-modified") }
}

fn refused(mut answer: Answer) -> FetchError {
    let contents = answer.read(MAX_ERROR).unwrap_or_default();
    match refused_by(&answer) {
        FetchError::Status { host, status, hint, .. } => {
            FetchError::Status { host, status, code: code(&contents), hint }
        }
        error => error,
    }
}

pub(crate) fn refused_by(answer: &Answer) -> FetchError {
    let name = answer.status.canonical_reason().map_or_else(String::new, |name| format!(" {name}"));
    let status = format!("{}{name}", answer.status.as_u16());
    FetchError::Status { host: answer.host.clone(), status, code: None, hint: None }
}

/// The rest of a bucket store's XML may repeat credentials.
fn code(contents: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(contents).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_that_becomes_strong_is_the_same() {
        let with = |etag: &str| Version { size: 1, etag: Some(etag.to_owned()), modified: None };
        for (before, after, is_same) in [
            ("W/\"1\"", "\"1\"", true),
            ("\"1\"", "\"1\"", true),
            ("\"1\"", "\"2\"", false),
            ("W/\"1\"", "\"2\"", false),
        ] {
            assert_eq!(with(before).difference(&with(after)).is_none(), is_same, "{before} {after}");
        }
    }

    #[test]
    fn a_range_is_three_plain_numbers() {
        assert_eq!(content_range("bytes 0-499/1234"), Some((0, 499, 1234)));
        assert_eq!(content_range(" bytes 7-7/8 "), Some((7, 7, 8)));
        for text in [
            "",
            "bytes",
            "bytes 0-1",
            "bytes 0-1/*",
            "bytes */10",
            "bytes -1/10",
            "bytes 0-/10",
            "bytes +0-1/10",
            "bytes 0-1/-10",
            "items 0-1/10",
            "bytes 0-1/18446744073709551616",
            "bytes 0-1, 3-4/10",
        ] {
            assert_eq!(content_range(text), None, "{text}");
        }
    }

    #[test]
    fn a_code_is_one_word() {
        let of = |text: &str| code(text.as_bytes());
        assert_eq!(of("<?xml?><Error><Code>NoSuchKey</Code></Error>").as_deref(), Some("NoSuchKey"));
        for text in ["", "<Code>", "<Code></Code>", "<Code>a b</Code>", "<Code>\u{1b}[2J</Code>"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
