//! Asks libvirt by its client, `virsh`, by commands that only read, with names that are never options, within a
//! limit.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::domain::read::MAX_DOCUMENT;

const LARGEST_MESSAGE: u64 = 4096;

/// The variables that name virsh's connection, the one that counts first (virsh(1), ENVIRONMENT).
const URIS: [&str; 2] = ["VIRSH_DEFAULT_CONNECT_URI", "LIBVIRT_DEFAULT_URI"];

/// Why virsh gave no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum VirshError {
    #[error("virsh is not installed; instead of the domain's name, specify the path of its XML file")]
    Missing,
    #[error("cannot run virsh")]
    Run(#[source] io::Error),
    #[error("virsh {command}: {message}")]
    Failed { command: &'static str, message: String },
    #[error("virsh {command} timed out after {} seconds (--time-limit)", .limit.as_secs())]
    Late { command: &'static str, limit: Duration },
    #[error("virsh {command} printed {what}")]
    Output { command: &'static str, what: &'static str },
    #[error("virsh is connected to another host ({uri}); run straddle on that host")]
    Remote { uri: String },
}

straddle_units::error_kind!(VirshError: Failed);

/// Refuses the libvirt of another host as the one that virsh chooses.
pub(super) fn check_local(limit: Duration) -> Result<(), VirshError> {
    // To ask virsh would already connect to that host.
    let named = URIS.iter().find_map(|name| std::env::var(name).ok()).filter(|uri| is_remote(uri));
    let uri = match named {
        Some(uri) => uri,
        None => match ask(limit, "uri", &[]) {
            Err(VirshError::Run(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VirshError::Missing);
            }
            answer => answer?.trim().to_owned(),
        },
    };
    if is_remote(&uri) { Err(VirshError::Remote { uri }) } else { Ok(()) }
}

pub(super) fn ask(limit: Duration, command: &'static str, words: &[&str]) -> Result<String, VirshError> {
    let mut virsh = Command::new("virsh");
    virsh.args(["--quiet", "--readonly", command]).args(words).env("LC_ALL", "C");
    virsh.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = virsh.spawn().map_err(VirshError::Run)?;
    let out = reader(child.stdout.take(), MAX_DOCUMENT);
    let errors = reader(child.stderr.take(), LARGEST_MESSAGE);
    let Ok(out) = out.recv_timeout(limit) else {
        // It may have ended in the meantime.
        let _ = child.kill();
        let _ = child.wait();
        return Err(VirshError::Late { command, limit });
    };
    if out.len() as u64 > MAX_DOCUMENT {
        let _ = child.kill();
        let _ = child.wait();
        return Err(VirshError::Output {
            command,
            what: "more text than a description of a domain can have",
        });
    }
    let errors = errors.recv_timeout(limit).unwrap_or_default();
    let status = child.wait().map_err(VirshError::Run)?;
    if !status.success() {
        let text = String::from_utf8_lossy(&errors);
        let message = text.trim().trim_start_matches("error: ").replace("\nerror: ", "; ");
        let message = if message.is_empty() { status.to_string() } else { message };
        return Err(VirshError::Failed { command, message });
    }
    String::from_utf8(out).map_err(|_| VirshError::Output { command, what: "text that is not UTF-8" })
}

/// All of it, or one byte more than `largest`.
fn reader(from: Option<impl Read + Send + 'static>, largest: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // What was read before an error counts.
            let _ = from.take(largest + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    };
    // Without a thread, the receiver fails at once.
    let _ = thread::Builder::new().spawn(read);
    receiver
}

fn is_remote(uri: &str) -> bool {
    let authority = uri.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    !authority.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_with_a_host_is_remote() {
        for uri in ["qemu:///system", "test:///default", "qemu+unix:///session?socket=/x", "xen:///"] {
            assert!(!is_remote(uri), "{uri}");
        }
        for uri in ["qemu+ssh://root@host/system", "qemu://host/system", "qemu+tls://10.0.0.1:16514/system"] {
            assert!(is_remote(uri), "{uri}");
        }
    }
}
