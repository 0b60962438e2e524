//! Addresses of objects on servers, such as `s3://BUCKET/KEY`. Shown without `user:password@` and query, which are
//! secret.

use std::fmt;
use std::path::Path;

use crate::shown::{is_hidden, quote, quote_path};

/// How an object is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the protocols and stores")]
pub enum Scheme {
    Https,
    Http,
    /// Amazon S3, or a server that speaks its protocol.
    S3,
    Gs,
    Az,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 5] = [Self::Https, Self::Http, Self::S3, Self::Gs, Self::Az];

    /// Returns its name, as before `://`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }

    /// Whether the address names a bucket and a key, and not a host and a path.
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::S3 | Self::Gs | Self::Az)
    }

    /// Returns the name of the scheme with which `text` begins, if it is none of these: letters before `://`.
    pub fn unknown(text: &str) -> Option<&str> {
        let (name, _) = text.split_once("://")?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_name && Self::split(text).is_none()).then_some(name)
    }

    fn split(text: &str) -> Option<(Self, &str)> {
        let (name, rest) = text.split_once("://")?;
        let scheme = Self::ALL.into_iter().find(|scheme| name.eq_ignore_ascii_case(scheme.name()))?;
        Some((scheme, rest))
    }
}

/// Why a text that begins like an address is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum AddressError {
    #[error("a URL cannot contain {0}; write {1} instead")]
    Character(&'static str, &'static str),
    #[error("the address has no {0}; use the form {1}")]
    Missing(&'static str, &'static str),
    #[error("a user name and password {0}")]
    User(&'static str),
    #[error(
        "the host or bucket name is not valid; use only letters, digits, '-' and '.', and ':' before a port. \
         Write an internationalised name in its xn-- form"
    )]
    Host,
}

straddle_units::error_kind!(AddressError: Failed);

/// The address of an object on a server. It displays without secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    scheme: Scheme,
    authority: String,
    user: Option<String>,
    path: String,
    query: Option<String>,
}

impl Address {
    /// Parses an address; `None` if `text` does not begin with one of the schemes and `://`.
    pub fn parse(text: &str) -> Option<Result<Self, AddressError>> {
        let (scheme, rest) = Scheme::split(text)?;
        Some(if scheme.is_bucket() { Self::bucket(scheme, rest) } else { Self::web(scheme, rest) })
    }

    /// Returns `text` without what may be secret, if it is an address, valid or not.
    pub fn redacted(text: &str) -> String {
        let Some((scheme, rest)) = Scheme::split(text) else { return text.to_owned() };
        let (before, is_cut) = match rest.find(['?', '#']) {
            Some(at) => (&rest[..at], true),
            None => (rest, false),
        };
        // A password with an unescaped slash leaves an '@' in the path.
        let shown = before.rsplit_once('@').map_or(before, |(_, shown)| shown);
        format!("{}://{shown}{}", scheme.name(), if is_cut { "?…" } else { "" })
    }

    fn web(scheme: Scheme, rest: &str) -> Result<Self, AddressError> {
        refuse_control(rest)?;
        if rest.contains('#') {
            return Err(AddressError::Character("'#'", "%23"));
        }
        if rest.contains('\\') {
            return Err(AddressError::Character(r"'\'", "%5C"));
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user.to_owned()), authority),
            None => (None, authority),
        };
        if authority.is_empty() {
            return Err(AddressError::Missing("host", "https://HOST/PATH"));
        }
        if user.is_some() && scheme == Scheme::Http {
            return Err(AddressError::User("are never sent unencrypted; use https"));
        }
        if !is_host(authority) {
            return Err(AddressError::Host);
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { scheme, authority: authority.to_owned(), user, path: path.to_owned(), query })
    }

    fn bucket(scheme: Scheme, rest: &str) -> Result<Self, AddressError> {
        refuse_control(rest)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return Err(AddressError::User(
                "cannot be part of the address of a bucket; straddle reads credentials from environment \
                 variables",
            ));
        }
        // What follows may be a pasted signature, and would be shown with the key.
        if rest.contains(['?', '#']) {
            return Err(AddressError::Character(
                "'?' or '#' after the name of a bucket",
                "a signed URL as https://...",
            ));
        }
        if bucket.is_empty() {
            return Err(AddressError::Missing("bucket", "s3://BUCKET/KEY"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._$".contains(c);
        if !bucket.chars().all(is_plain) {
            return Err(AddressError::Host);
        }
        if key.is_empty() {
            return Err(AddressError::Missing("key", "s3://BUCKET/KEY"));
        }
        let (authority, path) = (bucket.to_owned(), key.to_owned());
        Ok(Self { scheme, authority, user: None, path, query: None })
    }

    /// How it is reached.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, with its port if one is given; or the bucket.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path, from its slash on; or the key, which is taken as it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query, which may be secret, without its question mark.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The user name and the password, both secret.
    pub fn user(&self) -> Option<(String, String)> {
        let (name, password) = self.user.as_deref().map(|user| user.split_once(':').unwrap_or((user, "")))?;
        Some((decoded(name), decoded(password)))
    }

    /// Returns the name of a copy in the current directory.
    pub fn copy_name(&self) -> String {
        let last = self.path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
        let decoded = if self.scheme.is_bucket() { last.to_owned() } else { decoded(last) };
        let is_name = !decoded.is_empty() && decoded != "." && decoded != ".." && !decoded.contains('/');
        let is_shown = decoded.len() <= 255 && !decoded.contains(is_hidden);
        if is_name && is_shown { decoded } else { "disk.img".to_owned() }
    }

    /// Returns the command that fetches it as [`Self::copy_name`]; `None` if that would show a secret.
    pub fn fetch_command(&self) -> Option<String> {
        if self.user.is_some() || self.query.is_some() || self.to_string().contains(is_hidden) {
            return None;
        }
        let (url, file) = (quote(&self.to_string()), quote_path(Path::new(&self.copy_name())));
        Some(match self.scheme {
            Scheme::Https | Scheme::Http => format!("curl -fL -o {file} {url}"),
            Scheme::S3 => format!("aws s3 cp {url} {file}"),
            Scheme::Gs => format!("gcloud storage cp {url} {file}"),
            Scheme::Az => {
                let (container, name) = (quote(&self.authority), quote(&self.path));
                format!("az storage blob download --container-name {container} --name {name} --file {file}")
            }
        })
    }
}

fn refuse_control(text: &str) -> Result<(), AddressError> {
    if text.contains(char::is_control) {
        return Err(AddressError::Character("a control character", "'%' and two hexadecimal digits"));
    }
    Ok(())
}

fn is_host(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+');
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<std::net::Ipv6Addr>().is_ok()
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !name.is_empty() && name.chars().all(is_plain) && port.is_none_or(is_port)
}

fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.scheme.is_bucket() { "/" } else { "" };
        let query = if self.query.is_some() { "?…" } else { "" };
        write!(f, "{}://{}{slash}{}{query}", self.scheme.name(), self.authority, self.path)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<Address, AddressError> {
        Address::parse(text).unwrap()
    }

    #[test]
    fn an_address_shows_no_secret() {
        let address = of("HTTPS://me:pa%40ss@host.example:8443/a/disk%201.img?sig=SECRET&x=1").unwrap();
        assert_eq!(address.to_string(), "https://host.example:8443/a/disk%201.img?…");
        assert_eq!(format!("{address:?}"), "Address(https://host.example:8443/a/disk%201.img?…)");
        assert_eq!(address.user(), Some(("me".to_owned(), "pa@ss".to_owned())));
        assert_eq!(address.query(), Some("sig=SECRET&x=1"));
        assert_eq!((address.copy_name().as_str(), address.fetch_command()), ("disk 1.img", None));
        for text in [
            "https://me:SECRET@host",
            "https://me:SEC@RET@host/x",
            "https://me:SEC/RET@host/x",
            "https://host/x?SECRET",
            "https://host/x#SECRET",
            "s3://SECRET@b/k",
            "az://c/k?sig=SECRET",
            "https://me:SECRET@/",
            "http://me:SECRET@host/",
        ] {
            let shown = Address::redacted(text);
            assert!(!shown.contains("SEC") && !shown.contains("RET"), "{text}: {shown}");
            if let Ok(address) = of(text) {
                assert!(!address.to_string().contains("SECRET"), "{text}: {address}");
            }
        }
        assert_eq!(Address::redacted("disk@host?x.img"), "disk@host?x.img");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "https://",
            "https:///x",
            "https://:80/x",
            "https://host:/x",
            "https://host:0/x",
            "https://host:+80/x",
            "https://host:99999/x",
            "https://[::1/x",
            "https://[::g]/x",
            "https://ho st/x",
            "https://hö.example/x",
            "https://host/a#b",
            r"https://host\@other/x",
            "https://host/a\nb",
            "http://me:pw@host/x",
            "s3://",
            "s3://bucket",
            "s3://bucket/",
            "s3:///key",
            "s3://me@bucket/key",
            "gs://bucket/key?generation=1",
            "az://con tainer/key",
        ] {
            assert!(of(text).is_err(), "{text}: {:?}", of(text));
        }
        for text in ["disk.img", "/dev/sda", "./https://host/x", "ftp://host/x", "drive:wd10ears", "https:/x"]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_has_its_parts() {
        for (text, authority, path) in [
            ("https://host", "host", "/"),
            ("http://127.0.0.1:8080/a/b.qcow2", "127.0.0.1:8080", "/a/b.qcow2"),
            ("https://[::1]:8443/x", "[::1]:8443", "/x"),
            ("s3://bucket/a/b%20c d.img", "bucket", "a/b%20c d.img"),
            ("gs://bucket_1/é.img", "bucket_1", "é.img"),
            ("az://$root/x", "$root", "x"),
        ] {
            let address = of(text).unwrap();
            assert_eq!((address.authority(), address.path()), (authority, path), "{text}");
        }
    }

    #[test]
    fn a_copy_has_a_plain_name_and_a_command() {
        for (text, name, command) in [
            ("https://host/a/vm.qcow2", "vm.qcow2", Some("curl -fL -o vm.qcow2 https://host/a/vm.qcow2")),
            ("https://host/%2e%2e", "disk.img", Some("curl -fL -o disk.img https://host/%2e%2e")),
            ("https://host/a%2Fb", "disk.img", Some("curl -fL -o disk.img https://host/a%2Fb")),
            ("https://host/a%0Ab", "disk.img", Some("curl -fL -o disk.img https://host/a%0Ab")),
            ("https://host/-rf", "-rf", Some("curl -fL -o ./-rf https://host/-rf")),
            ("https://host/100%.img", "100%.img", Some("curl -fL -o 100%.img https://host/100%.img")),
            ("s3://b/k/it's", "it's", Some(r"aws s3 cp 's3://b/k/it'\''s' 'it'\''s'")),
            ("az://c/k/x", "x", Some("az storage blob download --container-name c --name k/x --file x")),
            ("gs://b/\u{202e}x", "disk.img", None),
            ("https://host/x?sig=1", "x", None),
        ] {
            let address = of(text).unwrap();
            let is = (address.copy_name(), address.fetch_command());
            assert_eq!((is.0.as_str(), is.1.as_deref()), (name, command), "{text}");
        }
    }

    proptest! {
        /// Whatever is before the last '@' or behind a question mark is not shown, valid or not.
        #[test]
        fn no_text_shows_what_may_be_secret(scheme in "https?|s3|gs|az", user in "[a-z:@/%]{0,6}", query in "[a-z=#?]{0,6}") {
            let text = format!("{scheme}://{user}ZZZ@host/path?{query}YYY");
            let shown = Address::redacted(&text);
            prop_assert!(!shown.contains("ZZZ") && !shown.contains("YYY"), "{}", shown);
            // With a slash before it, an '@' is part of a path.
            if let (Some(Ok(address)), false) = (Address::parse(&text), user.contains('/')) {
                let shown = format!("{address} {address:?}");
                prop_assert!(!shown.contains("ZZZ") && !shown.contains("YYY"), "{}", shown);
            }
        }
    }
}
