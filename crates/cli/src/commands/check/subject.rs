//! What a run is about: targets, and disks of virtual machines.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use straddle_audit::examine::{FoundDisk, GuestDisk};
use straddle_device::Address;
use straddle_device::domain::Libvirt;
use straddle_device::shown::with_causes;

use crate::args::CheckArguments;
use crate::exit::UsageError;
use crate::output;
use crate::target::{ReadTarget, TargetSpec};

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

impl From<ReadTarget> for Subject {
    fn from(target: ReadTarget) -> Self {
        match target {
            ReadTarget::Local(target) => Self::Local(target),
            ReadTarget::Object(address) => Self::Object(address),
            ReadTarget::Invalid { name, why } => Self::Failed { name, why },
        }
    }
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
        return Ok(arguments.targets.iter().cloned().map(Subject::from).collect());
    }
    let found = straddle_device::discover(arguments.captured(), arguments.all)
        .context("cannot list the disks of this machine")?;
    found.remarks.iter().for_each(|remark| output::complain(&output::printable(remark)));
    if found.disks.is_empty() {
        output::complain("no disk found; --all also looks at loop, ram and zram devices");
    }
    Ok(found.disks.into_iter().map(|disk| Subject::Local(TargetSpec::Path(disk))).collect())
}
