//! A run of `check` or `map`: what all its targets share, what they are, how they are examined, and the output of each.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use straddle_audit::examine::{
    Alongside, ExamineError, Examined, Examiner, FoundDisk, GuestDisk, Named, Options, Price, TargetException,
};
use straddle_audit::{Finding, Reported, Severity, Status};
use straddle_device::domain::Libvirt;
use straddle_device::image::{Limits, is_named_as_image};
use straddle_device::shown::{quote_path, with_causes};
use straddle_device::{Address, OpenError};
use straddle_measure::bench::{Progress, float};

use crate::commands::check::CheckArguments;
use crate::exit::{Exit, usage};
use crate::input::below;
use crate::progress::Bar;
use crate::target::{Assumed, Drive, TargetSpec};
use crate::view::{report, text};
use crate::{config, output, target};
use straddle_audit::form::check::{Summary, TargetReport};

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

pub(crate) fn run(arguments: &CheckArguments, form: Form) -> Result<Exit> {
    if form == Form::Map && arguments.output_format.is_some() {
        return usage("--output-format works only with 'straddle check'");
    }
    let (completed, exceptions) = config::completed(arguments)?;
    let targets = all(arguments)?;
    let run = Run::new(completed, exceptions, form)?;
    let arguments = &run.arguments;
    let is_parallel = targets.len() >= PARALLEL_FROM;
    let (mut bar, mut done) = ((targets.len() > 1 && !io::stdout().is_terminal()).then(Bar::new), 0);
    let mut out = output::stdout();
    let (mut summary, mut severities, mut exit) = (Summary::default(), [0_usize; 3], Exit::Success);
    if targets.is_empty() && arguments.fails_blank() {
        exit = Exit::Findings;
    }
    let (mut is_priced, mut is_examined) = (arguments.cost.is_none(), false);
    let mut report = report::of(arguments);
    let is_text = report.is_none() && !arguments.quiet;
    let is_summed_last = targets.len() > BATCH || targets.is_empty();
    if let Some(report) = &mut report {
        out.write_all(report.opening().as_bytes())?;
    }
    for batch in targets.chunks(BATCH) {
        let examined = examine_all(batch, &run, is_parallel)?;
        for found in examined.iter().filter_map(|(_, it)| it.as_ref().ok()) {
            is_examined = true;
            is_priced |= found.reported().any(|(_, cost)| cost.is_some());
        }
        let of = |(subject, examined): (&Subject, Result<Examined>)| Outcome::of(subject, examined, &run);
        let outcomes: Vec<Outcome> = match is_parallel {
            true => examined.into_par_iter().map(of).collect(),
            false => examined.into_iter().map(of).collect(),
        };
        for outcome in &outcomes {
            summary.add(outcome.status);
            severities.iter_mut().zip(outcome.severities).for_each(|(all, its)| *all += its);
            exit = exit.max(outcome.exit);
        }
        let apart = is_text && targets.len() > 1;
        if apart && !is_summed_last {
            writeln!(out, "{}", text::summary(summary, severities))?;
        }
        print(&outcomes, apart, report.as_deref_mut(), &mut out)?;
        done += batch.len() as u64;
        if let Some(bar) = &mut bar {
            bar.advance(float(done) / float(targets.len() as u64));
        }
    }
    drop(bar);
    out.flush()?;
    if form == Form::Audit && is_examined && !is_priced && !arguments.quiet {
        output::complain(
            "note: no finding has a cost; to check the alignment for the drive of --cost, use --assume DRIVE or \
             --measured FILE",
        );
    }
    let paths = arguments.paths();
    if form == Form::Audit
        && arguments.captured().is_none()
        && arguments.domains.is_empty()
        && (arguments.targets.is_empty() || !paths.is_empty())
        && let Some(note) = crate::commands::at_boot::note(&paths)
    {
        out.flush()?;
        output::complain(&note);
    }
    if let Some(report) = &mut report {
        out.write_all(report.closing().as_bytes())?;
    } else if is_text && is_summed_last {
        writeln!(out, "{}", text::summary(summary, severities))?;
    }
    out.flush()?;
    Ok(exit)
}

/// Prints the outcomes; if `apart`, with an empty line around each of several lines.
fn print(
    outcomes: &[Outcome],
    apart: bool,
    mut report: Option<&mut (dyn report::Report + '_)>,
    out: &mut impl Write,
) -> Result<()> {
    let mut is_block = false;
    for outcome in outcomes {
        if let (Some(report), Some(of)) = (&mut report, &outcome.report) {
            out.write_all(report.target(of, outcome.exit, outcome.unjudged).as_bytes())?;
        }
        let follows_block = std::mem::replace(&mut is_block, outcome.text.lines().count() > 1);
        if apart && (follows_block || is_block) && !outcome.text.is_empty() {
            out.write_all(b"\n")?;
        }
        out.write_all(outcome.text.as_bytes())?;
        if let Some(complaint) = &outcome.complaint {
            // Flush, so that the complaint follows what was printed before it.
            out.flush()?;
            output::complain(complaint);
        }
    }
    Ok(())
}

/// Each batch is printed before the next, so memory does not grow with the number of targets.
const BATCH: usize = 512;

/// From this number of targets on, they are spread over the cores; for fewer, threads cost more than they save.
const PARALLEL_FROM: usize = 16;

/// Objects on servers that are read at a time, each over one connection.
const CONNECTIONS: usize = 16;

/// In order. A device that does not answer delays neither the other targets nor the listing.
fn examine_all<'a>(
    batch: &'a [Subject],
    run: &Arc<Run>,
    in_parallel: bool,
) -> Result<Vec<(&'a Subject, Result<Examined>)>> {
    let limit = Duration::from_secs(run.arguments.time_limit);
    let is_device = |subject: &Subject| {
        run.examiner.options().open.sysroot.is_none() && subject.path().is_some_and(target::is_device)
    };
    let mut pending = Vec::new();
    for subject in batch.iter().filter(|subject| is_device(subject)) {
        let (run, device) = (Arc::clone(run), subject.clone());
        pending.push(target::Pending::start(limit, move || examine(&device, &run)));
    }
    let is_object = |subject: &Subject| matches!(subject, Subject::Object(_));
    let single =
        |subject: &Subject| (!is_device(subject) && !is_object(subject)).then(|| examine(subject, run));
    let objects: Vec<&Subject> = batch.iter().filter(|subject| is_object(subject)).collect();
    let files = || match in_parallel {
        true => batch.par_iter().map(single).collect(),
        false => batch.iter().map(single).collect(),
    };
    let (files, objects): (Vec<_>, Vec<_>) = if objects.is_empty() {
        // A thread takes a tenth of a millisecond, which counts for one image.
        (files(), Vec::new())
    } else {
        let connections = ThreadPoolBuilder::new().num_threads(CONNECTIONS).build()?;
        let fetch = || objects.par_iter().map(|subject| examine(subject, run)).collect();
        rayon::join(files, || connections.install(fetch))
    };
    let mut objects = objects.into_iter();
    let mut devices = pending.into_iter().map(|pending| {
        let late = || Err(anyhow::anyhow!("timed out after {} seconds (--time-limit)", limit.as_secs()));
        pending.wait().unwrap_or_else(late)
    });
    let examined = files.into_iter().zip(batch).filter_map(|(file, subject)| {
        file.or_else(|| if is_object(subject) { objects.next() } else { devices.next() })
    });
    let mut examined: Vec<_> = batch.iter().zip(examined).collect();
    let mut all: Vec<&mut Examined> = examined.iter_mut().filter_map(|(_, it)| it.as_mut().ok()).collect();
    run.examiner.merge(&mut all);
    Ok(examined)
}

fn examine(subject: &Subject, run: &Run) -> Result<Examined> {
    let open = &run.examiner.options().open;
    Ok(match subject {
        Subject::Local(TargetSpec::Modelled(drive)) => {
            let target = straddle_audit::examine::blank_drive(&drive.profile, &open.assume, open.logical)?;
            run.examiner.examine_target(drive.to_string(), target)?
        }
        Subject::Local(TargetSpec::Path(path)) => {
            let examined = run.examiner_for(path).examine(path);
            examined.map_err(|error| match target::misspelt(path) {
                Some(drive) => anyhow::anyhow!(target::did_you_mean(drive)),
                None => error.into(),
            })?
        }
        Subject::Object(address) => run.examiner_for_objects().examine_object(address)?,
        Subject::Disk(disk) => run.examiner.examine_guest_disk(disk)?,
        Subject::OutOfReach { why, .. } => return Err(ExamineError::OutOfReach(why.clone()).into()),
        Subject::Failed { why, .. } => return Err(anyhow::anyhow!("{why}")),
    })
}
