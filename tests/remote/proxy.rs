//! A proxy that the environment names.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::server::Server;
use super::{ran, straddle};
use crate::tools::{Dir, number, present};

/// What the proxy says before it passes on bytes.
const CONNECTED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// Starts a proxy that knows CONNECT only. Returns its address and the number of connections so far.
fn start() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || tunnel(&client));
        }
    });
    (address, count)
}

fn tunnel(client: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while line.trim_end() != "" || line.is_empty() {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let target = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let server = TcpStream::connect(target)?;
    let (mut to_client, mut from_server) = (client, server.try_clone()?);
    to_client.write_all(CONNECTED.as_bytes())?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut from_server, &mut to_client);
            client.shutdown(std::net::Shutdown::Both)
        });
        let _ = io::copy(&mut reader, &mut &server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

#[test]
fn the_proxy_of_the_environment_is_used_and_each_byte_counted_once() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("remote");
    let image = dir.image("disk.img", 64 << 20);
    crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
    let server = Server::start(dir.path());
    let (proxy, count) = start();
    let url = server.url("/right/disk.img");
    let through = || {
        let mut command = straddle(dir.path());
        command.env("HTTP_PROXY", format!("http://me:XYZZY@{proxy}"));
        command
    };
    let run = ran(&mut through(), &["check", "--json", &url]);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(!run.all().contains("XYZZY"));
    let connections = count.load(Ordering::SeqCst);
    assert!(connections > 0);
    let sent: u64 = server.asked().iter().map(|asked| asked.sent).sum();
    let received = number(&run.targets()[0]["traffic"], "received_bytes");
    assert_eq!(received, sent);
    // A host that is excepted is asked directly; a proxy that is missing is an error.
    let direct = ran(through().env("NO_PROXY", "127.0.0.1"), &["check", &url]);
    assert_eq!((direct.code, count.load(Ordering::SeqCst)), (0, connections), "{}", direct.all());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut broken = straddle(dir.path());
    let run = ran(broken.env("HTTP_PROXY", format!("http://me:XYZZY@{free}")), &["check", &url]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("Connection refused") && !run.err.contains("XYZZY"), "{}", run.err);
}
