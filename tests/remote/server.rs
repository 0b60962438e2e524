//! An HTTP server of the tests' own: it answers by the first part of the path, correctly or not, and keeps what was
//! asked and sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What was asked, and how much was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The path, with the query.
    pub(crate) path: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The bytes of contents sent.
    pub(crate) sent: u64,
}

impl Asked {
    /// The range asked for; `None` if it asks for everything.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let header = self.headers.get("range").or_else(|| self.headers.get("x-ms-range"));
        let (first, last) = header?.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
    }
}

/// What the threads of a server share.
struct Shared {
    folder: PathBuf,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    most: AtomicUsize,
}

/// A running server. It ends with the process of the test.
pub(crate) struct Server {
    /// Its host and port.
    pub(crate) host: String,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server of the files in `folder`.
    pub(crate) fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let mine = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&mine);
                // A header and its contents are sent one after the other, neither waits for an answer.
                client.set_nodelay(true).unwrap();
                thread::spawn(move || shared.serve(&client));
            }
        });
        Self { host, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The most connections that were open at one time.
    pub(crate) fn most_connections(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }
}

/// One request, and where its answer goes.
struct Exchange<'a> {
    client: &'a TcpStream,
    shared: &'a Shared,
    asked: Asked,
    /// Its number among all requests.
    index: usize,
    /// How often the path was asked for before.
    before: usize,
}

impl Shared {
    fn serve(&self, client: &TcpStream) {
        let open = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        let mut reader = BufReader::new(client);
        while let Ok(Some(asked)) = request(&mut reader) {
            let (before, index) = {
                let mut all = self.asked.lock().unwrap();
                let before = all.iter().filter(|other| other.path == asked.path).count();
                all.push(asked.clone());
                (before, all.len() - 1)
            };
            if (Exchange { client, shared: self, asked, before, index }).answer().is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reads a request; `None` at the end of the connection.
fn request(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut lines = lines.into_iter();
    let path = lines.next().and_then(|first| first.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    let header = |line: String| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned()));
    Ok(Some(Asked { path, headers: lines.filter_map(header).collect(), sent: 0 }))
}

/// The end of a connection, on purpose.
fn hang_up() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

impl Exchange<'_> {
    /// The path without its query, decoded.
    fn path(&self) -> String {
        let path = self.asked.path.split('?').next().unwrap_or_default();
        let mut parts = path.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.extend(u8::from_str_radix(&part[..2], 16));
            bytes.extend(&part.as_bytes()[2..]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The file that the path names behind its first part.
    fn file(&self) -> io::Result<File> {
        File::open(self.shared.folder.join(self.path().splitn(3, '/').nth(2).unwrap_or_default()))
    }

    /// Counts the bytes, and sends them: whoever has them finds them counted.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shared.asked.lock().unwrap()[self.index].sent += bytes.len() as u64;
        let mut client = self.client;
        client.write_all(bytes)
    }

    fn say(&mut self, head: &str) -> io::Result<()> {
        let mut client = self.client;
        client.write_all(head.replace('\n', "\r\n").as_bytes())
    }

    fn status(&mut self, status: &str) -> io::Result<()> {
        self.say(&format!("HTTP/1.1 {status}\nContent-Length: 0\n\n"))
    }

    /// Sends a small piece again and again, until the client has had enough.
    fn again(&mut self, piece: &[u8]) -> io::Result<()> {
        loop {
            self.send(piece)?;
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the client hangs up.
    fn stall(&self) -> io::Result<()> {
        let _ = io::copy(&mut &*self.client, &mut io::sink());
        hang_up()
    }

    /// The right answer, with these `headers` besides.
    fn right(&mut self, headers: &str) -> io::Result<()> {
        let Ok(file) = self.file() else { return self.status("404 Not Found") };
        let size = file.metadata()?.len();
        let Some(range) = self.asked.range() else { return self.whole(size) };
        if range.start >= size {
            let head = format!("416 Range Not Satisfiable\nContent-Range: bytes */{size}");
            return self.status(&head);
        }
        let end = range.end.min(size);
        let mut bytes = vec![0; usize::try_from(end - range.start).unwrap()];
        file.read_exact_at(&mut bytes, range.start)?;
        let (first, last, len) = (range.start, end - 1, bytes.len());
        self.say(&format!(
            "HTTP/1.1 206 Partial Content\nContent-Range: bytes {first}-{last}/{size}\nContent-Length: {len}\n{headers}\n"
        ))?;
        self.send(&bytes)
    }

    /// The head of an answer for the range asked for, of a large object.
    fn head(&mut self, headers: &str) -> io::Result<u64> {
        let range = self.asked.range().ok_or(io::ErrorKind::InvalidData)?;
        let (first, last) = (range.start, range.end - 1);
        self.say(&format!(
            "HTTP/1.1 206 Partial Content\nContent-Range: bytes {first}-{last}/1000000000\n{headers}\n"
        ))?;
        Ok(range.end - range.start)
    }

    /// The answer of a server that has no ranges.
    fn whole(&mut self, size: u64) -> io::Result<()> {
        self.say(&format!("HTTP/1.1 200 OK\nContent-Length: {size}\n\n"))?;
        loop {
            self.send(&[0; 65536])?;
        }
    }

    fn redirect(&mut self, to: &str) -> io::Result<()> {
        self.status(&format!("302 Found\nLocation: {to}"))
    }

    /// An answer whose range is not the one asked for.
    fn wrong_range(&mut self, content_range: &str) -> io::Result<()> {
        let range = self.asked.range().ok_or(io::ErrorKind::InvalidData)?;
        let len = range.end - range.start;
        self.say(&format!("HTTP/1.1 206 Partial Content\n{content_range}\nContent-Length: {len}\n\n"))?;
        self.send(&vec![0; usize::try_from(len).unwrap()])
    }

    fn answer(&mut self) -> io::Result<()> {
        let path = self.path();
        let number = path.trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned();
        match path.split('/').nth(1).unwrap_or_default() {
            "right" => self.right("ETag: \"1\"\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\n"),
            "without-version" => self.right(""),
            "weak" => self.right("ETag: W/\"1\"\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\n"),
            "status" => self.status(&format!("{number} Something")),
            "status-once" if self.before == 0 => self.status("503 Service Unavailable"),
            "status-once" => self.right(""),
            "cut-once" if self.before == 0 => {
                self.head("Content-Length: 65536\n")?;
                hang_up()
            }
            "cut-once" => self.right(""),
            "code" => {
                let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Key>XYZZY</Key></Error>";
                self.say(&format!("HTTP/1.1 403 Forbidden\nContent-Length: {}\n\n{text}", text.len()))
            }
            "ignores-ranges" => self.whole(1 << 40),
            "ignores-ranges-small" => {
                let mut bytes = vec![0; 4096];
                self.file()?.read_exact_at(&mut bytes, 0)?;
                self.say("HTTP/1.1 200 OK\nContent-Length: 4096\n\n")?;
                self.send(&bytes)
            }
            "ignores-ranges-chunked" => {
                self.say("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")?;
                loop {
                    self.say("10000\n")?;
                    self.send(&[0; 65536])?;
                    self.say("\n")?;
                }
            }
            "truncates" => {
                let want = self.head("Content-Length: 65536\n")?;
                self.send(&vec![0; usize::try_from(want / 2).unwrap()])?;
                hang_up()
            }
            "short" => {
                self.head("Content-Length: 1000\n")?;
                self.send(&[0; 1000])
            }
            "long" => {
                self.head("Content-Length: 1000000000\n")?;
                loop {
                    self.send(&[0; 65536])?;
                }
            }
            "without-length" => {
                self.head("Connection: close\n")?;
                loop {
                    self.send(&[0; 65536])?;
                }
            }
            _ => self.answer_slowly_or_oddly(),
        }
    }

    fn answer_slowly_or_oddly(&mut self) -> io::Result<()> {
        let path = self.path();
        match path.split('/').nth(1).unwrap_or_default() {
            "stalls" => self.stall(),
            "stalls-in-header" => {
                self.say("HTTP/1.1 206 Partial")?;
                self.stall()
            }
            "stalls-in-contents" => {
                self.head("Content-Length: 65536\n")?;
                self.stall()
            }
            "trickles" => {
                self.head("Content-Length: 65536\n")?;
                self.again(&[0])
            }
            "trickles-header" => {
                self.say("HTTP/1.1 206 Partial Content\nX: ")?;
                self.again(b"x")
            }
            "continues-for-ever" => self.again(b"HTTP/1.1 100 Continue\r\n\r\n"),
            "endless-header" => {
                self.say("HTTP/1.1 206 Partial Content\n")?;
                loop {
                    self.say(&format!("X: {}\n", "x".repeat(1000)))?;
                }
            }
            "endless-line" => loop {
                self.send(&[b'x'; 65536])?;
            },
            "garbage" => self.say("SSH-2.0-OpenSSH_9.2\n\n"),
            "nothing" => hang_up(),
            "redirects-for-ever" => self.redirect(&format!("{path}x")),
            "redirects-to-itself" => self.redirect(&path),
            "redirects-to-file" => self.redirect("file:///etc/passwd"),
            "redirects-to-ftp" => self.redirect("ftp://127.0.0.1/x"),
            "other-region" => self.status("301 Moved Permanently\nx-amz-bucket-region: eu-west-7"),
            "redirects-to-nowhere" => self.status("302 Found"),
            "redirects" => self.redirect(&path.replacen("redirects", "right", 1)),
            "changes" if self.before > 0 && self.asked.headers.contains_key("if-match") => {
                self.status("412 Precondition Failed")
            }
            "changes" => self.right("ETag: \"1\"\n"),
            "changes-quietly" => {
                let before = self.before;
                self.right(&format!("ETag: \"{before}\"\n"))
            }
            "changes-date" => {
                let before = self.before;
                self.right(&format!("Last-Modified: Thu, 01 Jan 2026 00:00:0{} GMT\n", before.min(1)))
            }
            "wrong-start" => self.wrong_range("Content-Range: bytes 1-65536/1000000"),
            "wrong-end" => self.wrong_range("Content-Range: bytes 0-1/1000000"),
            "wrong-size" => self.wrong_range("Content-Range: bytes 0-65535/10"),
            "no-size" => self.wrong_range("Content-Range: bytes 0-65535/*"),
            "huge-size" => self.wrong_range("Content-Range: bytes 0-65535/18446744073709551615"),
            "huge-end" => {
                self.wrong_range("Content-Range: bytes 0-18446744073709551615/18446744073709551615")
            }
            "odd-range" => self.wrong_range("Content-Range: \u{1b}[2Jbytes"),
            "odd-unit" => self.wrong_range("Content-Range: lines 0-65535/1000000"),
            "no-range" => self.wrong_range("X: y"),
            "many-ranges" => self.wrong_range("Content-Type: multipart/byteranges; boundary=x"),
            _ => self.status("404 Not Found"),
        }
    }
}
