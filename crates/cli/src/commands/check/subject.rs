//! What a run is about: targets, and disks of virtual machines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use straddle_audit::examine::{FoundDisk, GuestDisk};
use straddle_device::Address;
use straddle_device::domain::Libvirt;
use straddle_device::image::is_named_as_image;
use straddle_device::shown::with_causes;

use crate::args::CheckArguments;
use crate::exit::UsageError;
use crate::folder::below;
use crate::output;
use crate::target::{self, ReadTarget, TargetSpec};

/// One part of a run.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// A device, an image or a modelled drive.
    Local(TargetSpec),
    /// An object on a server.
    Object(Address),
    /// A disk of a virtual machine.
    Disk(Box<GuestDisk>),
    /// A disk of a virtual machine that cannot be read from this host.
    OutOfReach {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// A virtual machine whose disks are not known, or a target that is not valid.
    Failed {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

impl Subject {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Local(target) => target.to_string(),
            Self::Object(address) => address.to_string(),
            Self::Disk(disk) => disk.path.display().to_string(),
            Self::OutOfReach { name, .. } | Self::Failed { name, .. } => name.clone(),
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Local(target) => target.path(),
            Self::Disk(disk) => Some(&disk.path),
            Self::Object(_) | Self::OutOfReach { .. } | Self::Failed { .. } => None,
        }
    }
}

pub(super) fn all(arguments: &CheckArguments) -> Result<Vec<Subject>> {
    if arguments.domains.is_empty() {
        return targets(arguments);
    }
    let libvirt = Libvirt::new(Duration::from_secs(arguments.time_limit));
    let subjects: Vec<Subject> =
        arguments.domains.iter().flat_map(|word| of_domain(word, &libvirt, arguments.quiet)).collect();
    if subjects.is_empty() {
        output::complain("no disk of a domain found");
    }
    Ok(subjects)
}

/// Returns what a target names: of a folder, the images below it.
fn named(target: ReadTarget, arguments: &CheckArguments) -> Vec<Subject> {
    vec![match target {
        ReadTarget::Local(TargetSpec::Path(path)) if arguments.captured().is_none() => {
            if path.is_dir() {
                return images(&path, arguments.quiet);
            }
            Subject::Local(TargetSpec::Path(target::device(path)))
        }
        ReadTarget::Local(target) => Subject::Local(target),
        ReadTarget::Object(address) => Subject::Object(address),
        ReadTarget::Invalid { name, why } => Subject::Failed { name, why },
    }]
}

/// Returns the images below a folder, by their names. Files in hidden folders are hidden too.
fn images(folder: &Path, is_quiet: bool) -> Vec<Subject> {
    let failed = |path: &Path, why: String| Subject::Failed { name: path.display().to_string(), why };
    let mut unlisted = Vec::new();
    let files = below(folder, |path, error| unlisted.push(failed(path, format!("cannot list it: {error}"))));
    let is_hidden = |path: &Path| {
        let mut parts = path.strip_prefix(folder).unwrap_or(path).iter();
        parts.any(|part| part.as_encoded_bytes().starts_with(b"."))
    };
    let (images, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| is_named_as_image(path) && !is_hidden(path));
    if images.is_empty() && unlisted.is_empty() {
        return vec![failed(
            folder,
            "no file in this folder has an image's name (such as disk.img)".to_owned(),
        )];
    }
    if !others.is_empty() && !is_quiet {
        let others = output::plural(others.len(), "other file");
        output::complain(&output::printable(&format!("{}: {others} skipped", folder.display())));
    }
    images.into_iter().map(|path| Subject::Local(TargetSpec::Path(path))).chain(unlisted).collect()
}

fn of_domain(word: &str, libvirt: &Libvirt, is_quiet: bool) -> Vec<Subject> {
    let failed = |name: &str, why| vec![Subject::Failed { name: format!("domain:{name}"), why }];
    let domains = match libvirt.domains(word) {
        Ok(domains) => domains,
        Err(error) => return failed(word, with_causes(&error)),
    };
    let mut subjects = Vec::new();
    for (name, domain) in domains {
        let disks = match domain {
            Ok(domain) => straddle_audit::examine::disks_of(&domain, libvirt),
            Err(error) => {
                subjects.extend(failed(&name, with_causes(&error)));
                continue;
            }
        };
        subjects.extend(disks.into_iter().filter_map(|disk| match disk {
            FoundDisk::Here(disk) => Some(Subject::Disk(Box::new(disk))),
            FoundDisk::OutOfReach { name, why } => Some(Subject::OutOfReach { name, why }),
            FoundDisk::NoDisk { name, why } => {
                if !is_quiet {
                    output::complain(&output::printable(&format!("{name}: skipped: {why}")));
                }
                None
            }
        }));
    }
    subjects
}

fn targets(arguments: &CheckArguments) -> Result<Vec<Subject>> {
    if !arguments.targets.is_empty() {
        if arguments.all {
            let message = "--all extends the search for disks, and takes no targets";
            return Err(UsageError(message.to_owned()).into());
        }
        return Ok(arguments.targets.iter().cloned().flat_map(|target| named(target, arguments)).collect());
    }
    let found = straddle_device::discover(arguments.captured(), arguments.all)
        .context("cannot list the disks of this machine")?;
    found.remarks.iter().for_each(|remark| output::complain(&output::printable(remark)));
    if found.disks.is_empty() {
        output::complain("no disk found; --all also looks at loop, ram and zram devices");
    }
    Ok(found.disks.into_iter().map(|disk| Subject::Local(TargetSpec::Path(disk))).collect())
}
