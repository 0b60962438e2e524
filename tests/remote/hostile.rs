//! Servers that lie, stall, or send without end: each gives an error that says so, and none holds up another.

use serde_json::Value;

use super::server::Server;
use super::{ran, straddle};
use crate::tools::{Dir, list, number, present, shell, valid, word};

/// An image with a table that is right.
fn disk(dir: &Dir) {
    let image = dir.image("disk.img", 64 << 20);
    crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
}

/// The path on the server, and what is said of it.
const ENDS: &[(&str, &str)] = &[
    ("/status/404", "returned 404 Not Found"),
    ("/status/401", "returned 401 Unauthorized"),
    ("/status/418", "returned 418"),
    ("/status/500", "returned 500 Internal Server Error"),
    ("/status/503", "returned 503 Service Unavailable"),
    ("/status/304", "returned 304 Not Modified"),
    ("/status/204", "returned 204 No Content"),
    ("/code/disk.img", "returned 403 Forbidden (AccessDenied)"),
    (
        "/ignores-ranges/disk.img",
        "ignores range requests, so straddle would have to download the whole object, 1 TiB",
    ),
    (
        "/ignores-ranges-chunked/disk.img",
        "ignores range requests, so straddle would have to download the whole object",
    ),
    ("/truncates/disk.img", "sent 32768 bytes, but announced 65536"),
    ("/short/disk.img", "sent 1000 bytes, but announced 65536"),
    ("/long/disk.img", "sent more bytes, but announced 65536"),
    ("/without-length/disk.img", "sent more bytes, but announced 65536"),
    ("/endless-header/disk.img", "its response header is longer than 32768 bytes"),
    ("/endless-line/disk.img", "sent an invalid HTTP response"),
    ("/garbage/disk.img", "sent an invalid HTTP response"),
    ("/nothing/disk.img", "failed"),
    ("/redirects-for-ever/disk.img", "redirects more than 5 times"),
    ("/redirects-to-itself/disk.img", "redirects more than 5 times"),
    ("/redirects-to-file/disk.img", "redirects to file:, which is not followed"),
    ("/redirects-to-ftp/disk.img", "redirects to ftp:, which is not followed"),
    ("/redirects-to-nowhere/disk.img", "redirects without naming a new address"),
    ("/changes/disk.img", "the object changed while it was being read (HTTP status 412)"),
    ("/changes-quietly/disk.img", "the object changed while it was being read (the ETag differs)"),
    ("/changes-date/disk.img", "the object changed while it was being read (the modification time differs)"),
    ("/wrong-start/disk.img", "sent a range other than bytes 0 to 65535: bytes 1-65536/1000000"),
    ("/wrong-end/disk.img", "sent a range other than bytes 0 to 65535: bytes 0-1/1000000"),
    ("/wrong-size/disk.img", "sent a range other than bytes 0 to 65535: bytes 0-65535/10"),
    ("/no-size/disk.img", "sent a range other than bytes 0 to 65535: bytes 0-65535/*"),
    ("/huge-size/disk.img", "sent a range other than"),
    ("/huge-end/disk.img", "sent a range other than"),
    ("/odd-range/disk.img", "sent an invalid HTTP response"),
    ("/odd-unit/disk.img", "sent a range other than bytes 0 to 65535: lines 0-65535/1000000"),
    ("/no-range/disk.img", "the response has no Content-Range"),
    ("/many-ranges/disk.img", "the response has no Content-Range"),
];

/// Those whose answer does not end.
const STALLS: &[&str] = &[
    "/stalls/disk.img",
    "/stalls-in-header/disk.img",
    "/stalls-in-contents/disk.img",
    "/trickles/disk.img",
    "/trickles-header/disk.img",
    "/continues-for-ever/disk.img",
];

/// Those that do it right, or right when asked again.
const RIGHT: &[&str] = &[
    "/right/disk.img",
    "/weak/disk.img",
    "/without-version/disk.img",
    "/redirects/disk.img",
    "/status-once/disk.img",
    "/cut-once/disk.img",
];

#[test]
fn each_wrong_answer_has_an_error_and_holds_up_no_other() {
    let dir = Dir::new("remote");
    disk(&dir);
    let server = Server::start(dir.path());
    let mut paths: Vec<&str> = ENDS.iter().map(|(path, _)| *path).collect();
    paths.extend(RIGHT);
    let urls: Vec<String> = paths.iter().map(|path| server.url(path)).collect();
    let mut arguments = vec!["check", "--json"];
    arguments.extend(urls.iter().map(String::as_str));
    let run = ran(&mut straddle(dir.path()), &arguments);
    assert_eq!(run.code, 3, "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    valid(&report, "check");
    let targets = list(&report, "targets");
    assert_eq!(targets.iter().map(|target| word(target, "target")).collect::<Vec<_>>(), urls);
    for (target, (_, wanted)) in targets.iter().zip(ENDS) {
        let error = word(target, "error");
        assert!(
            error.contains(wanted) && error.starts_with("cannot fetch byte "),
            "{}: {error}",
            target["target"]
        );
        assert_eq!(target["status"], "failed");
        let complaint = format!("straddle: {}: {error}", word(target, "target"));
        assert!(run.err.contains(&complaint), "{complaint} is not in {}", run.err);
    }
    for target in &targets[ENDS.len()..] {
        assert_eq!(target["status"], "ok", "{target}");
        assert!(number(&target["traffic"], "requests") > 0);
    }
    assert!(!run.all().contains("XYZZY") && !run.all().contains('\u{1b}'), "{}", run.all());
    // Nobody is asked again and again. A redirect adds to the path of one.
    for (path, _) in ENDS {
        let count = server.asked().iter().filter(|asked| asked.path.starts_with(path)).count();
        assert!((1..=6).contains(&count), "{path}: {count} requests");
    }
}

#[test]
fn an_answer_that_does_not_end_is_left_after_the_time_limit() {
    let dir = Dir::new("remote");
    let server = Server::start(dir.path());
    let urls: Vec<String> = STALLS.iter().map(|path| server.url(path)).collect();
    let mut arguments = vec!["check", "--json", "--time-limit", "1"];
    arguments.extend(urls.iter().map(String::as_str));
    let run = ran(&mut straddle(dir.path()), &arguments);
    assert_eq!(run.code, 3);
    for target in run.targets() {
        let error = word(&target, "error");
        let said = ["did not respond in time", "timed out after 1 seconds (--time-limit)"];
        assert!(error.starts_with("cannot fetch byte 0: "), "{error}");
        assert!(said.iter().any(|said| error.contains(said)), "{}: {error}", target["target"]);
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let dir = Dir::new("remote");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    if !present(&["openssl"]) {
        return;
    }
    let authority = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca";
    shell(&format!("{authority} 2>/dev/null"), dir.path());
    let server = Server::start(dir.path());
    let urls = [
        (format!("http://{free}/x"), "Connection refused"),
        ("https://host.invalid/x".to_owned(), "failed to lookup address information"),
        // A server without TLS.
        (format!("https://{}/right/x", server.host), "failed"),
    ];
    for (url, wanted) in urls {
        let run = ran(straddle(dir.path()).env("SSL_CERT_FILE", dir.join("ca.pem")), &["check", &url]);
        assert_eq!(run.code, 3, "{}", run.all());
        assert!(run.err.contains(&format!("straddle: {url}: cannot fetch byte 0: ")), "{}", run.err);
        assert!(run.err.contains(wanted), "{}", run.err);
    }
}

#[test]
fn an_empty_object_is_one_and_a_small_one_needs_no_ranges() {
    let dir = Dir::new("remote");
    dir.image("empty.img", 0);
    dir.image("small.img", 4096);
    let server = Server::start(dir.path());
    let empty = ran(&mut straddle(dir.path()), &["check", &server.url("/right/empty.img")]);
    assert_eq!(empty.code, 3);
    assert!(empty.err.contains("is empty (0 bytes)"), "{}", empty.err);
    let small =
        ran(&mut straddle(dir.path()), &["check", "--json", &server.url("/ignores-ranges-small/small.img")]);
    assert_eq!((small.code, &small.targets()[0]["status"]), (0, &Value::from("blank")), "{}", small.all());
}

#[test]
fn many_targets_share_few_connections() {
    let dir = Dir::new("remote");
    disk(&dir);
    let server = Server::start(dir.path());
    let urls: Vec<String> = (0..50).map(|n| server.url(&format!("/right/disk.img?{n}"))).collect();
    let mut arguments = vec!["check", "--json"];
    arguments.extend(urls.iter().map(String::as_str));
    let run = ran(&mut straddle(dir.path()), &arguments);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.targets().len(), 50);
    assert!(server.most_connections() <= 16, "{} connections", server.most_connections());
    let asked = server.asked();
    for n in [0, 1, 49] {
        assert!(asked.iter().any(|asked| asked.path == format!("/right/disk.img?{n}")), "{n}");
    }
}
