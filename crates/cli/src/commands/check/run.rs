//! A run of `check`: what all its targets share, what they are, and the output of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use straddle_audit::examine::{
    Alongside, ExamineError, Examined, Examiner, FoundDisk, GuestDisk, Named, Options, Price, TargetException,
};
use straddle_audit::{Finding, Reported, Severity, Status};
use straddle_device::domain::Libvirt;
use straddle_device::image::{Limits, is_named_as_image};
use straddle_device::shown::{quote_path, with_causes};
use straddle_device::{Address, OpenError};

use crate::commands::check::CheckArguments;
use crate::exit::{Exit, usage};
use crate::input::below;
use crate::target::{Assumed, Drive, TargetSpec};
use crate::view::{report, text};
use crate::{output, target};
use straddle_audit::form::check::TargetReport;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `check`: its partitions, and the findings with their fixes.
    Audit,
    /// `map`: a drawing of the layers, with the codes of the findings beside them.
    Map,
}

pub(super) struct Run {
    pub(super) examiner: Examiner,
    /// The one for images, if they are assumed to be on the drive of `--cost`.
    of_images: Option<Examiner>,
    own: Vec<(PathBuf, Examiner)>,
    pub(super) arguments: CheckArguments,
    pub(super) form: Form,
}

impl Run {
    pub(super) fn new(
        arguments: CheckArguments,
        exceptions: Vec<TargetException>,
        form: Form,
    ) -> Result<Arc<Self>> {
        let paths = arguments.paths();
        let (of_one, of_all): (Vec<&Assumed>, Vec<&Assumed>) =
            arguments.assume.iter().partition(|assumed| assumed.of.is_some());
        if of_all.len() > 1 {
            return usage("--assume specifies more than one topology that applies to all targets");
        }
        let of_all = of_all.first().map(|assumed| assumed.assume.clone());
        let options = Options {
            open: straddle_device::Options {
                sysroot: arguments.captured().map(Path::to_owned),
                assume: of_all.or_else(|| arguments.measured.clone()).unwrap_or_default(),
                logical: arguments.logical,
                format: arguments.format,
                allow_backing: arguments.allow_backing.clone(),
                read_through: Some(Limits::default()),
                no_wake: arguments.no_wake,
            },
            page: arguments.page,
            platform: arguments.platform,
            only: arguments.only.clone(),
            ignore: arguments.ignore.clone(),
            exceptions,
            alongside: match arguments.is_of_this_machine() {
                true => Alongside::Everything,
                false => Alongside::These(paths.clone()),
            },
            fetch_time: Some(Duration::from_secs(arguments.time_limit)),
            without_fixes: arguments.quiet,
            moves: Some(straddle_repair::moves::of),
            price: arguments.cost.clone().map(|cost| Arc::new(cost.of(arguments.page)) as Arc<dyn Price>),
        };
        let examiner = Examiner::new(options);
        let is_declared = !arguments.assume.is_empty() || arguments.measured.is_some();
        let on_priced = arguments.cost.as_ref().filter(|_| !is_declared && arguments.captured().is_none());
        let of_images = on_priced.map(|cost| examiner.assuming(cost.assume.clone()));
        let mut own: Vec<(PathBuf, Examiner)> = Vec::new();
        for Assumed { of, assume } in of_one {
            let Some(path) = of.clone() else { continue };
            let shown = output::printable(&path.display().to_string());
            if !paths.contains(&path) {
                return usage(format!("--assume names {shown}, which is not one of the targets"));
            }
            if own.iter().any(|(known, _)| *known == path) {
                return usage(format!("--assume specifies more than one topology for {shown}"));
            }
            own.push((path, examiner.assuming(assume.clone())));
        }
        Ok(Arc::new(Self { examiner, of_images, own, arguments, form }))
    }

    pub(super) fn examiner_for(&self, path: &Path) -> &Examiner {
        let own = self.own.iter().find(|(of, _)| of == path || target::device(of.clone()) == path);
        own.map(|(_, examiner)| examiner)
            .or_else(|| self.of_images.as_ref().filter(|_| path.is_file()))
            .unwrap_or(&self.examiner)
    }

    pub(super) fn examiner_for_objects(&self) -> &Examiner {
        self.of_images.as_ref().unwrap_or(&self.examiner)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Local(TargetSpec),
    Object(Address),
    Disk(Box<GuestDisk>),
    /// A disk of a virtual machine that cannot be read from this host.
    OutOfReach {
        name: String,
        why: String,
    },
    /// A virtual machine whose disks are not known, or an invalid target: the others are still read.
    Failed {
        name: String,
        why: String,
    },
}

impl Subject {
    pub(super) fn parse(path: PathBuf) -> Self {
        match Named::parse(&path) {
            Ok(Named::Object(address)) => Self::Object(address),
            Ok(Named::Path(path)) => Self::Local(TargetSpec::Path(path)),
            Ok(Named::Modelled { specification, profile }) => {
                Self::Local(TargetSpec::Modelled(Drive { specification, profile }))
            }
            Err(error) => Self::Failed {
                name: target::redacted(&path).unwrap_or_else(|| path.display().to_string()),
                why: with_causes(&error),
            },
        }
    }

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
        output::complain("no libvirt domain with a disk was found");
    }
    Ok(subjects)
}

fn named(target: Subject, arguments: &CheckArguments) -> Vec<Subject> {
    match target {
        Subject::Local(TargetSpec::Path(path)) if arguments.captured().is_none() => match path.is_dir() {
            true => images(&path, arguments.quiet),
            false => vec![Subject::Local(TargetSpec::Path(target::device(path)))],
        },
        target => vec![target],
    }
}

/// Returns the images below a folder, by their names. Files in hidden folders are hidden too.
fn images(folder: &Path, is_quiet: bool) -> Vec<Subject> {
    let failed = |path: &Path, why: String| Subject::Failed { name: path.display().to_string(), why };
    let mut unlisted = Vec::new();
    let files = below(folder, |path, error| {
        unlisted.push(failed(path, format!("cannot list the directory: {error}")));
    });
    let is_hidden = |path: &Path| {
        let mut parts = path.strip_prefix(folder).unwrap_or(path).iter();
        parts.any(|part| part.as_encoded_bytes().starts_with(b"."))
    };
    let (images, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| is_named_as_image(path) && !is_hidden(path));
    if images.is_empty() && unlisted.is_empty() {
        let why = "no file in this directory has the extension of a disk image, such as .img";
        return vec![failed(folder, why.to_owned())];
    }
    if !others.is_empty() && !is_quiet {
        let others = output::plural(others.len(), "other file");
        output::complain(&output::printable(&format!(
            "{}: {others} skipped (not named as disk images)",
            folder.display()
        )));
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
            return usage("--all extends the search for disks, so it cannot be combined with targets");
        }
        return Ok(arguments.targets.iter().cloned().flat_map(|target| named(target, arguments)).collect());
    }
    let found = straddle_device::discover(arguments.captured(), arguments.all)
        .context("cannot list the disks of this machine")?;
    found.remarks.iter().for_each(|remark| output::complain(&output::printable(remark)));
    if found.disks.is_empty() {
        output::complain("no disk found; to include loop, ram and zram devices, use --all");
    }
    Ok(found.disks.into_iter().map(|disk| Subject::Local(TargetSpec::Path(disk))).collect())
}

pub(super) struct Outcome {
    pub(super) text: String,
    /// In place of the text, if a report is written.
    pub(super) report: Option<TargetReport>,
    pub(super) complaint: Option<String>,
    pub(super) status: Status,
    pub(super) exit: Exit,
    /// Its share in the exit status if it had no findings.
    pub(super) unjudged: Exit,
    pub(super) severities: [usize; 3],
}

impl Outcome {
    pub(super) fn of(subject: &Subject, examined: Result<Examined>, run: &Run) -> Self {
        let name = subject.name();
        let error = match examined {
            Ok(examined) => return judged(&name, &examined, run),
            Err(error) => error,
        };
        let unread: Option<&ExamineError> = error.downcast_ref();
        if let Some(reason) = unread.and_then(ExamineError::not_judged) {
            let exit = match unread {
                Some(ExamineError::Open(OpenError::Standby { .. })) => Exit::Success,
                Some(ExamineError::OutOfReach(_)) if run.arguments.allow_unknown => Exit::Success,
                _ => Exit::Failed,
            };
            let complaint = output::printable(&format!("{name}: not judged: {reason}"));
            return unjudged(TargetReport::not_read(name, reason), complaint, exit, run);
        }
        let verb = if run.form == Form::Map { "map" } else { "check" };
        let domain = |word: &String| format!("--domain {}", quote_path(Path::new(word)));
        let domains: Vec<String> = run.arguments.domains.iter().map(domain).collect();
        let words = if domains.is_empty() { quote_path(Path::new(&name)) } else { domains.join(" ") };
        // A command to run instead, if there is one.
        let ready = subject.path().and_then(|path| {
            target::allowing_backing(&error, verb, path, &words, &run.arguments.allow_backing)
        });
        let mut message = format!("{error:#}");
        let mut complaint = output::printable(&format!("{name}: {message}"));
        if let Some(line) = ready {
            complaint += &format!(":\n    {}", output::printable(&line));
            message += &format!(": {line}");
        }
        unjudged(TargetReport::failed(name, message), complaint, Exit::Failed, run)
    }
}

fn judged(name: &str, examined: &Examined, run: &Run) -> Outcome {
    let arguments = &run.arguments;
    let severities = [Severity::Error, Severity::Warning, Severity::Advice];
    let count = |severity| examined.reported().filter(|(finding, _)| finding.severity == severity).count();
    let counts = |f: &Finding| matches!(f.reported, Reported::Here | Reported::At(_));
    let fails = examined.findings().iter().any(|f| counts(f) && f.severity >= arguments.fails_from());
    let unknown = examined.not_judged().filter(|_| !arguments.allow_unknown);
    // The text output says this in its place. A list of findings has no place for it, but a failure needs a reason.
    // Of all disks of this machine, some may well be blank.
    let nothing = examined.nothing_to_judge().filter(|_| !arguments.is_of_this_machine());
    let not_judged = examined.not_judged().map(|why| format!("not judged: {why}"));
    let nothing = nothing.filter(|_| arguments.quiet || arguments.fails_blank());
    let alone = not_judged.filter(|_| arguments.quiet).or(nothing.map(str::to_owned));
    let unjudged = match arguments.fails_blank() && examined.nothing_to_judge().is_some() {
        _ if unknown.is_some() => Exit::Failed,
        true => Exit::Findings,
        false => Exit::Success,
    };
    let read = if examined.judgement().is_unread() { Exit::Failed } else { Exit::Success };
    let found = if fails { Exit::Findings } else { Exit::Success };
    Outcome {
        text: render(examined, run),
        report: report::is_wanted(arguments).then(|| TargetReport::of(examined)),
        complaint: alone.map(|why| output::printable(&format!("{name}: {why}"))),
        status: examined.judgement().status(),
        exit: read.max(found).max(unjudged),
        unjudged,
        severities: severities.map(count),
    }
}

fn unjudged(of: TargetReport, complaint: String, exit: Exit, run: &Run) -> Outcome {
    Outcome {
        text: String::new(),
        complaint: Some(complaint),
        status: of.status,
        exit,
        unjudged: exit,
        severities: [0; 3],
        report: report::is_wanted(&run.arguments).then_some(of),
    }
}

fn render(examined: &Examined, run: &Run) -> String {
    if report::is_wanted(&run.arguments) {
        String::new()
    } else if run.arguments.quiet {
        text::lines(examined)
    } else if run.form == Form::Map {
        text::map(examined, run.arguments.verbose)
    } else {
        text::target(examined, run.arguments.verbose)
    }
}
