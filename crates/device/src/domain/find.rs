//! Finds the domains of this host, by virsh.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::domain::virsh::{self, VirshError};
use crate::domain::{Domain, DomainError, MAX_DOCUMENT};

const ALL: &str = "all";

/// Why domains cannot be found.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum FindError {
    #[error(transparent)]
    Virsh(#[from] VirshError),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{name}")]
    Description {
        name: String,
        #[source]
        source: DomainError,
    },
}

straddle_units::error_kind!(FindError: Failed);

/// A domain by its name, or by the file of its description.
pub type Found = (String, Result<Domain, FindError>);

/// The libvirt of this host.
#[derive(Debug)]
pub struct Libvirt {
    limit: Duration,
    /// Set once it has answered.
    is_local: OnceLock<()>,
}

impl Libvirt {
    /// Each command of virsh may take `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, is_local: OnceLock::new() }
    }

    /// Returns the domains that `word` names: all, the one in a file (a path, or a name with the ending
    /// `.xml`), or the one of this name. That one of them cannot be read is part of what is found.
    pub fn domains(&self, word: &str) -> Result<Vec<Found>, FindError> {
        if word.contains('/') || word.ends_with(".xml") {
            return Ok(vec![in_file(Path::new(word))]);
        }
        self.connect()?;
        let names = if word == ALL { self.names()? } else { vec![word.to_owned()] };
        let description = |name: &str| parsed(name, &self.ask("dumpxml", &[&format!("--domain={name}")])?);
        Ok(names.into_iter().map(|name| (name.clone(), description(&name))).collect())
    }

    /// Returns the path of a volume, or why it is not known.
    pub fn volume(&self, pool: &str, volume: &str) -> Result<PathBuf, String> {
        let words = [&*format!("--pool={pool}"), &format!("--vol={volume}")];
        let path = self.ask("vol-path", &words).map_err(|error| error.to_string())?;
        let path = PathBuf::from(path.trim_end_matches('\n'));
        match path.is_absolute() {
            true => Ok(path),
            false => Err(format!("the path of the volume, '{}', is not on this host", path.display())),
        }
    }

    fn names(&self) -> Result<Vec<String>, VirshError> {
        let list = self.ask("list", &["--all", "--name"])?;
        Ok(list.lines().filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    fn connect(&self) -> Result<(), VirshError> {
        if self.is_local.get().is_none() {
            virsh::check_local(self.limit)?;
        }
        self.is_local.get_or_init(|| ());
        Ok(())
    }

    fn ask(&self, command: &'static str, words: &[&str]) -> Result<String, VirshError> {
        self.connect()?;
        virsh::ask(self.limit, command, words)
    }
}

fn in_file(path: &Path) -> Found {
    let name = path.display().to_string();
    let text = text(path).map_err(|source| FindError::Read { path: path.to_owned(), source });
    let domain = text.and_then(|text| parsed(&name, &text));
    (name, domain)
}

fn parsed(name: &str, text: &str) -> Result<Domain, FindError> {
    Domain::parse(text).map_err(|source| FindError::Description { name: name.to_owned(), source })
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("byte {at} is not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_describes_no_domain_is_an_error_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let libvirt = Libvirt::new(Duration::from_secs(1));
        let of = |bytes: &[u8]| {
            let path = folder.path().join("it.xml");
            std::fs::write(&path, bytes).unwrap();
            libvirt.domains(path.to_str().unwrap()).unwrap().remove(0).1
        };
        let web = b"<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n<domain type='kvm'><name>web</name></domain>";
        assert_eq!(of(web).unwrap().name, "web");
        assert!(matches!(of(b"<domain>"), Err(FindError::Description { source, .. }) if source.line == 1));
        let big = " ".repeat(usize::try_from(MAX_DOCUMENT).unwrap() + 2);
        let error = of(big.as_bytes());
        assert!(
            matches!(error, Err(FindError::Description { source, .. }) if source.what.contains("longer than"))
        );
        let error = of(b"<domain><name>\xe9</name></domain>");
        assert!(
            matches!(error, Err(FindError::Read { source, .. }) if source.to_string() == "byte 14 is not UTF-8")
        );
    }
}
