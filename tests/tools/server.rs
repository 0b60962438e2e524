//! Runs `straddle serve` for a test, and does the handshake of an NBD client.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::tools::{Dir, STRADDLE, run};

/// A running server, and the message that it printed when ready.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) said: String,
}

/// The status and output of a server that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::started(Command::new(STRADDLE).arg("serve").args(arguments))
    }

    pub(crate) fn started(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let err = child.stderr.as_mut().unwrap();
        // One byte at a time, so that nothing of its later output is lost in a buffer.
        let mut byte = [0];
        while !said.ends_with('\n') && err.read(&mut byte).unwrap() == 1 {
            said.push(char::from(byte[0]));
        }
        Self { child, said }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        run(Command::new("kill").args([name, &pid]), "");
    }

    pub(crate) fn wait(mut self) -> Ended {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ended { status: self.child.wait().unwrap(), out, err }
    }

    /// Ends the server as a user would; returns its output.
    pub(crate) fn stop(self) -> Ended {
        self.signal("-TERM");
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is still running only if a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The setting for a server in a test: without delays, in a folder of its own.
pub(crate) struct Setting {
    pub(crate) dir: Dir,
    pub(crate) drive: String,
}

impl Setting {
    pub(crate) fn new(name: &str) -> Self {
        Self { dir: Dir::new(name), drive: "drive:ssd-sata-4k,plp=off".to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("nbd").replace(' ', "%20"))
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let address = format!("unix:{}", self.path("nbd"));
        let mut arguments = vec![&self.drive[..], "--nbd", &address, "--json"];
        if !more.contains(&"--speed") {
            arguments.push("--no-delay");
        }
        arguments.extend(more);
        let server = Server::start(&arguments);
        assert!(server.said.contains(&self.path("nbd")), "{}", server.said);
        server
    }
}

pub(crate) fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}{}", ended.out, ended.err))
}

/// Ends the server, which has to succeed; returns its summary.
pub(crate) fn summary(server: Server) -> Value {
    let ended = server.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    json(&ended)
}

/// Does the handshake with greeting, flags, and EXPORT_NAME for the default export; the stream is then ready
/// for requests.
pub(crate) fn transmit<S: Read + Write>(mut stream: S) -> S {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    stream
}

pub(crate) fn request(code: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [0x25, 0x60, 0x95, 0x13, 0, 0];
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    [&head[..], &code.to_be_bytes(), &cookie, &offset, &length.to_be_bytes()].concat()
}
