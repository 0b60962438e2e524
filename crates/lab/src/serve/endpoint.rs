//! Where clients connect: Unix sockets and TCP ports.
//!
//! The socket file of a killed server is replaced. One that a process listens on, or another file, is not.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs, io};

use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};
use straddle_device::FileId;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum EndpointError {
    #[error("{0}: in use by another process")]
    InUse(String),
    #[error("{}: exists, but is not a socket", .0.display())]
    NotASocket(PathBuf),
    #[error(
        "{0}: is not a loopback address, and NBD has no access control; to accept connections from any host, \
         use --allow-remote"
    )]
    Remote(String),
    #[error("cannot listen on {endpoint}")]
    Failed { endpoint: String, source: io::Error },
}

straddle_units::error_kind! {
    EndpointError: Refused;
    Self::Failed { .. } => Failed,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("there is no path after unix:".into())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let host_and_port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match host_and_port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(Self::Tcp(text.to_owned())),
            _ => Err("must have the form unix:PATH or HOST:PORT".to_owned()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Tcp(address) => formatter.write_str(address),
        }
    }
}

/// A listening socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// The address as a URI for NBD clients. Port 0 is replaced by the assigned port.
    pub(crate) nbd_uri: String,
    /// `None` for TCP.
    file: Option<SocketFile>,
}

#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Option<FileId>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that remains is replaced by the next server.
        let _ = self.identity.map(|own| own.remove(&self.path));
    }
}

impl Endpoint {
    pub(crate) fn listen(&self, allow_remote: bool) -> Result<Listener, EndpointError> {
        let failed = |source: io::Error| EndpointError::Failed { endpoint: self.to_string(), source };
        match self {
            Self::Unix(path) => {
                let listener = self.bind(path)?;
                let identity = fs::symlink_metadata(path).ok().map(|metadata| FileId::of(&metadata));
                let file = Some(SocketFile { path: path.clone(), identity });
                listener.set_nonblocking(true).map_err(failed)?;
                let nbd_uri = format!("nbd+unix:///?socket={}", path.display());
                Ok(Listener { socket: listener.into(), nbd_uri, file })
            }
            Self::Tcp(address) => {
                let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
                let stranger = addresses.iter().find(|address| !address.ip().is_loopback());
                if let (Some(stranger), false) = (stranger, allow_remote) {
                    return Err(EndpointError::Remote(stranger.to_string()));
                }
                let listener = TcpListener::bind(&addresses[..]).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => EndpointError::InUse(address.clone()),
                    _ => failed(error),
                })?;
                listener.set_nonblocking(true).map_err(failed)?;
                let nbd_uri = format!("nbd://{}", listener.local_addr().map_err(failed)?);
                Ok(Listener { socket: listener.into(), nbd_uri, file: None })
            }
        }
    }

    fn bind(&self, path: &Path) -> Result<UnixListener, EndpointError> {
        let failed = |source: io::Error| EndpointError::Failed { endpoint: self.to_string(), source };
        match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map_err(failed),
        }
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        if !metadata.file_type().is_socket() {
            return Err(EndpointError::NotASocket(path.to_owned()));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            // A process listens on it, or its queue is full, or it belongs to another user.
            _ => return Err(EndpointError::InUse(self.to_string())),
        }
        FileId::of(&metadata).remove(path).map_err(failed)?;
        UnixListener::bind(path).map_err(failed)
    }
}

impl Listener {
    /// Returns the next client, if one is waiting. Its stream does not block, and sends small replies at once.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = match rustix::net::accept_with(&self.socket, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            stream => stream?,
        };
        if self.file.is_none() {
            // Fails for a client that is gone already.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&stream, true);
        }
        Ok(Some(Stream(stream)))
    }
}

#[derive(Debug)]
pub(crate) struct Stream(pub(crate) OwnedFd);

impl Stream {
    /// Reads as many bytes as are available; `None` if there are none yet, 0 at the end.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        progress(rustix::io::read(&self.0, into))
    }

    /// Writes as many bytes as possible; `None` if none can be written yet.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        progress(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))
    }
}

fn progress(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
