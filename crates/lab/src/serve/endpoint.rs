//! Where clients connect: Unix sockets and TCP ports.
//!
//! The socket file of a killed server is replaced. One that a process listens on, or another file, is not.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

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
    #[error("{}: exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    #[error(
        "{0}: not a loopback address, and NBD has no access control; --allow-remote accepts connections \
         from any host"
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
                Err("no path after unix:".into())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let host_and_port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match host_and_port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(Self::Tcp(text.to_owned())),
            _ => Err("neither unix:PATH nor HOST:PORT".to_owned()),
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
pub(crate) enum Listener {
    Unix { listener: UnixListener, file: SocketFile },
    Tcp { listener: TcpListener, address: SocketAddr },
}

/// The file of a Unix socket, which is removed when this is dropped.
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
    /// Listens on the address, in non-blocking mode.
    pub(crate) fn listen(&self, allow_remote: bool) -> Result<Listener, EndpointError> {
        let failed = |source: io::Error| EndpointError::Failed { endpoint: self.to_string(), source };
        match self {
            Self::Unix(path) => {
                let listener = self.bind(path)?;
                let identity = fs::symlink_metadata(path).ok().map(|metadata| FileId::of(&metadata));
                let file = SocketFile { path: path.clone(), identity };
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Listener::Unix { listener, file })
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
                let address = listener.local_addr().map_err(failed)?;
                Ok(Listener::Tcp { listener, address })
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
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { listener, .. } => listener.as_fd(),
            Self::Tcp { listener, .. } => listener.as_fd(),
        }
    }

    /// Returns the next client, if one is waiting.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Self::Unix { listener, .. } => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp { listener, .. } => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address as a URI for NBD clients.
    pub(crate) fn nbd_uri(&self) -> String {
        match self {
            Self::Unix { file, .. } => format!("nbd+unix:///?socket={}", file.path.display()),
            Self::Tcp { address, .. } => format!("nbd://{address}"),
        }
    }
}

/// The connection to a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(std::net::TcpStream),
}

impl Stream {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    /// Makes the connection non-blocking, and sends small replies at once.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)
            }
        }
    }

    /// Reads as many bytes as are available; `None` if there are none yet, 0 at the end.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        progress(rustix::io::read(self.as_fd(), into))
    }

    /// Writes as many bytes as possible; `None` if none can be written yet.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        progress(rustix::net::send(self.as_fd(), bytes, rustix::net::SendFlags::NOSIGNAL))
    }
}

fn progress(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
