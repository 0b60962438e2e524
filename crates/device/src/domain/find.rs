//! Finds the domains of this host, by virsh or, where it is not installed, in libvirt's files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::domain::{Domain, DomainError, MAX_DOCUMENT, Virsh, VirshError};

const FOLDER: &str = "/etc/libvirt/qemu";

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
    #[error("no domain {name}: virsh is not installed, and {FOLDER} has no {name}.xml")]
    NoDomain { name: String },
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
    folder: PathBuf,
    /// virsh, once it has answered; `None` if it is not installed.
    virsh: OnceLock<Option<Virsh>>,
}

impl Libvirt {
    /// Each command of virsh may take `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, folder: PathBuf::from(FOLDER), virsh: OnceLock::new() }
    }

    /// Returns the domains that `word` names: all, the one in a file (a path, or a name with the ending
    /// `.xml`), or the one of this name. That one of them cannot be read is part of what is found.
    pub fn domains(&self, word: &str) -> Result<Vec<Found>, FindError> {
        if word.contains('/') || word.ends_with(".xml") {
            return Ok(vec![self.in_file(Path::new(word))]);
        }
        match (self.virsh()?, word) {
            (Some(virsh), ALL) => {
                Ok(virsh.names()?.into_iter().map(|name| (name.clone(), by_name(&virsh, &name))).collect())
            }
            (Some(virsh), name) => Ok(vec![(name.to_owned(), by_name(&virsh, name))]),
            (None, ALL) => self.in_folder(),
            (None, name) => {
                let path = self.folder.join(format!("{name}.xml"));
                if !path.is_file() {
                    return Err(FindError::NoDomain { name: name.to_owned() });
                }
                Ok(vec![self.in_file(&path)])
            }
        }
    }

    /// Returns the path of a volume, or why it is not known.
    pub fn volume(&self, pool: &str, volume: &str) -> Result<PathBuf, String> {
        let virsh = self.virsh().map_err(|error| error.to_string())?;
        let virsh = virsh.ok_or_else(|| "virsh is not installed".to_owned())?;
        let path = virsh.volume(pool, volume).map_err(|error| error.to_string())?;
        match path.is_absolute() {
            true => Ok(path),
            false => Err(format!("its path '{}' is not on this host", path.display())),
        }
    }

    fn virsh(&self) -> Result<Option<Virsh>, FindError> {
        if let Some(known) = self.virsh.get() {
            return Ok(known.clone());
        }
        let virsh = Virsh::connect(self.limit)?;
        Ok(self.virsh.get_or_init(|| virsh).clone())
    }

    fn in_folder(&self) -> Result<Vec<Found>, FindError> {
        let failed = |source| FindError::Read { path: self.folder.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
        paths.sort();
        Ok(paths.iter().map(|path| self.in_file(path)).collect())
    }

    fn in_file(&self, path: &Path) -> Found {
        let name = path.display().to_string();
        let text = text(path).map_err(|source| FindError::Read { path: path.to_owned(), source });
        let domain = text.and_then(|text| parsed(&name, &text));
        (name, domain)
    }
}

fn by_name(virsh: &Virsh, name: &str) -> Result<Domain, FindError> {
    let text = virsh.description(name)?;
    parsed(name, &text)
}

fn parsed(name: &str, text: &str) -> Result<Domain, FindError> {
    Domain::parse(text).map_err(|source| FindError::Description { name: name.to_owned(), source })
}

/// Reads at most one byte more than is accepted.
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

    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("straddle-find-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        folder
    }

    /// What is found where virsh is not installed and libvirt's folder is this one.
    fn without_virsh(folder: &Path) -> Libvirt {
        let virsh = OnceLock::new();
        virsh.set(None).unwrap();
        Libvirt { limit: Duration::from_secs(1), folder: folder.to_owned(), virsh }
    }

    #[test]
    fn without_virsh_the_files_of_libvirt_are_read() {
        let web = "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n<domain type='kvm'><name>web</name></domain>";
        let folder = folder("files", &[("web.xml", web), ("db.xml", "<domain>"), ("notes.txt", "x")]);
        let libvirt = without_virsh(&folder);
        let found = libvirt.domains("all").unwrap();
        let names: Vec<_> =
            found.iter().map(|(_, domain)| domain.as_ref().ok().map(|it| it.name.clone())).collect();
        assert_eq!(names, [None, Some("web".to_owned())]);
        assert_eq!(libvirt.domains("web").unwrap()[0].1.as_ref().unwrap().name, "web");
        assert!(matches!(libvirt.domains("mail"), Err(FindError::NoDomain { .. })));
        let path = folder.join("db.xml").display().to_string();
        let (_, wrong) = libvirt.domains(&path).unwrap().remove(0);
        let FindError::Description { name, source } = wrong.unwrap_err() else { panic!("{path}") };
        assert_eq!((name, source.line), (path, 1));
        assert!(libvirt.volume("p", "v").unwrap_err().contains("not installed"));
        fs::write(folder.join("big.xml"), " ".repeat(usize::try_from(MAX_DOCUMENT).unwrap() + 2)).unwrap();
        let (_, big) = libvirt.domains(&folder.join("big.xml").display().to_string()).unwrap().remove(0);
        assert!(
            matches!(big, Err(FindError::Description { source, .. }) if source.what.contains("longer than"))
        );
        fs::write(folder.join("latin.xml"), b"<domain><name>\xe9</name></domain>").unwrap();
        let (_, latin) = libvirt.domains(&folder.join("latin.xml").display().to_string()).unwrap().remove(0);
        assert!(
            matches!(latin, Err(FindError::Read { source, .. }) if source.to_string() == "byte 14 is not UTF-8")
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
