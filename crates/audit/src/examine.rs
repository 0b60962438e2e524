//! The library's entry point: takes a target and options, and returns everything that is known of the target.
//!
//! Invariants: it alone decides the sector size in which a table counts, which of two possible
//! contents of a disk counts, and what the running kernel adds. It writes nothing.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let image = folder.path().join("disk.img");
//! # let mut mbr = vec![0; 1 << 20];
//! # // The first entry: type 0x83, from sector 63 on, 1024 sectors.
//! # mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 4, 0, 0]);
//! # mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
//! # std::fs::write(&image, mbr)?;
//! use straddle_audit::examine::{Examiner, Options};
//!
//! let examined = Examiner::new(Options::default()).examine(&image)?;
//! for (finding, _) in examined.reported() {
//!     println!("{} {}", finding.rule.code, finding.message);
//! }
//! # assert!(examined.findings().iter().any(|finding| finding.rule.code.as_str() == "S001"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connected;
mod examined;
mod exception;
mod guest;
mod in_use;
mod joined;
mod member;
mod modelled;
mod named;
mod object;
mod recognised;
mod sectors;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use straddle_device::live::Machine;
use straddle_device::shown::with_causes;
use straddle_device::{DeviceKind, Medium, OpenError, ReadError, Remembered, Target};
use straddle_layout::live::Disagreement;
use straddle_layout::{Problem, Role, Stack, TableKind, read_all};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::{
    Asked, Code, Command, Context, Effect, Finding, Findings, Fix, Judgement, Kind, Moves, Platform,
    Recognised, Reported,
};

pub use crate::MoveJournal;
pub use examined::{Cost, CostSource, Examined, Price};
pub use exception::{ExceptionError, TargetException};
pub use guest::{FoundDisk, GuestDisk, disks_of};
pub use in_use::is_in_partitions;
pub use modelled::{assume_drive, blank_drive};
pub use named::{DRIVE, NameError, Named, assume, assume_below, specification};
pub use sectors::{adopt_tables, are_assumed, read_converted, read_present};

/// How targets are opened and judged.
#[derive(Clone, Default)]
pub struct Options {
    /// How targets are opened, and what is declared of them.
    pub open: straddle_device::Options,
    /// The page size of a database that is to be stored on the targets.
    pub page: Option<ByteCount>,
    /// The platform that images are meant for.
    pub platform: Option<Platform>,
    /// The rules to report, by code; all rules if empty.
    pub only: Vec<Code>,
    /// The rules not to report, by code.
    pub ignore: Vec<Code>,
    /// The findings that do not count, with the reasons.
    pub exceptions: Vec<TargetException>,
    /// What else is examined in the same run.
    pub alongside: Alongside,
    /// How long reading an object on a server may take; `None` for the default.
    pub fetch_time: Option<Duration>,
    /// Prices misalignment; without it no cost is computed.
    pub price: Option<Arc<dyn Price>>,
    /// Whether no fix is shown: nothing is read that only fixes need, and theirs are not complete.
    pub without_fixes: bool,
    /// Finds out what is known about moves of a target's partitions; without it fixes name no moves.
    pub moves: Option<Movers>,
}

/// What is known about moves of the partitions of a target with this name.
pub type Movers = fn(&Examiner, &str, &Target, &Stack) -> Moves;

/// What else is examined in the same run. A disk with only part of an array is judged in full if the array is, too.
#[derive(Clone, Debug)]
pub enum Alongside {
    /// Every disk of the machine.
    Everything,
    /// These targets.
    These(Vec<PathBuf>),
}

impl Default for Alongside {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

/// Why a target cannot be examined.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ExamineError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{} was unplugged or removed while it was being read", .0.display())]
    Gone(PathBuf),
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(Arc<straddle_device::remote::RemoteError>),
    #[cfg(not(feature = "remote"))]
    #[error(
        "is on a server, but this build of straddle lacks the 'remote' feature; download the image, then \
         check the downloaded file"
    )]
    NotBuilt,
    #[error("{0}")]
    OutOfReach(String),
}

straddle_units::error_kind! {
    ExamineError: Failed;
    Self::Open(error) => error.kind(),
    Self::Read(error) => error.kind(),
    #[cfg(feature = "remote")]
    Self::Remote(error) => error.kind(),
}

impl ExamineError {
    /// Why the target was not judged: not read, left asleep, or out of reach. `None` if examining it failed.
    pub fn not_judged(&self) -> Option<String> {
        match self {
            Self::Open(error @ (OpenError::NotRead { .. } | OpenError::Whole { .. })) => {
                Some(format!("it {}", with_causes(error)))
            }
            Self::Open(error @ OpenError::Standby { .. }) => Some(error.to_string()),
            Self::OutOfReach(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Examines targets, all with the same options.
pub struct Examiner {
    options: Options,
    /// Read once, and only if a target is a block device.
    machine: Arc<OnceLock<Machine>>,
    /// Made only if a target is on a server.
    #[cfg(feature = "remote")]
    client: OnceLock<straddle_device::remote::Client>,
}

impl Examiner {
    /// Creates an examiner with these options.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            machine: Arc::default(),
            #[cfg(feature = "remote")]
            client: OnceLock::new(),
        }
    }

    /// Creates an examiner with the same options and view of the machine, but other declared sectors of targets.
    #[must_use]
    pub fn assuming(&self, assume: straddle_device::Assume) -> Self {
        let open = straddle_device::Options { assume, ..self.options.open.clone() };
        let options = Options { open, ..self.options.clone() };
        Self { machine: Arc::clone(&self.machine), ..Self::new(options) }
    }

    /// The options in effect.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens, reads and audits the device or image at `path`.
    pub fn examine(&self, path: &Path) -> Result<Examined, ExamineError> {
        let target = straddle_device::open(path, &self.options.open)?;
        self.examine_target(path.display().to_string(), target)
    }

    /// Examines a target that is already open; `name` is what the user calls it.
    pub fn examine_target(&self, name: String, mut target: Target) -> Result<Examined, ExamineError> {
        let options = &self.options;
        target.medium = target.medium.map(|medium| Box::new(Remembered::new(medium)) as Box<dyn Medium>);
        let mut stack = read(&mut target, &options.open)?;
        check_there(&target, options, 1)?;
        if let Some(in_use) = in_use::stack(&target, self, &stack)? {
            stack = in_use;
        }
        let disagreements = attach_live(&mut target, self, &mut stack);
        let doubt = sectors::in_question(&target, &stack);
        sectors::adopt(&mut target, &stack);
        let beside = recognised::beside(&target, &stack);
        let remarks = recognised::remarks_beside(&target, &stack, &beside);
        target.remarks.extend(remarks);
        target.remarks.extend(recognised::remark_by_name(&target, &stack));

        let local = object::local_name(&target, &name);
        let mut findings = audit(self, (&name, &local), &target, &stack, &disagreements);
        member::spare(&stack, &beside, &mut findings);
        guest::withhold(&mut target, &mut findings);
        let mut ready: Vec<String> =
            connected::prepare(&mut target, &local, &mut findings).into_iter().collect();
        // The device may have been removed between those reads.
        let has_failed = findings.iter().any(|finding| finding.rule.kind == Kind::Unreadable);
        if has_failed {
            check_there(&target, options, 6)?;
        }
        read_through(&mut target, &findings);
        ready.extend(object::remark_copy(&mut target, &findings));

        let unsure = doubt.and_then(|doubt| doubted(doubt, &mut target, &mut findings));
        let recognised = recognised::all(&target, &stack, &beside, self, unsure);
        if !matches!(stack.kind, TableKind::Foreign(_) | TableKind::Kernel | TableKind::None)
            && matches!(recognised, Recognised::Nothing(_))
        {
            // The commands would overwrite the other content.
            findings.withhold_commands(|_| true);
        }
        let unseen = match &recognised {
            Recognised::Part(why) => Some(why.clone()),
            _ => None,
        };
        let nothing = nothing(&recognised, &stack);
        let judgement = Judgement::of(&findings, recognised);
        // With findings, the status cannot give this reason: it becomes a remark.
        target.remarks.extend(unseen.clone().filter(|_| judgement.not_judged().is_none()));
        let is_unread = target.medium.is_none();
        // A run may keep thousands of targets.
        target.medium = None;
        let costs = costs(options, &findings);
        let in_table = stack.partitions.iter().filter(|partition| partition.role != Role::Extended).count();
        if let Some(number) = target.partition {
            stack.partitions.retain(|p| p.number == number);
        }
        Ok(Examined {
            name,
            target,
            stack,
            in_table,
            findings,
            costs,
            judgement,
            unseen,
            nothing,
            ready,
            is_unread,
            page: options.page,
        })
    }

    /// Reports shared findings at one target only, and judges members by what the other ones show.
    pub fn merge(&self, examined: &mut [&mut Examined]) {
        member::settle(examined);
        joined::settle(examined, &self.options);
        // Only the kernel's view shows which targets share a device.
        if let Some(machine) = self.machine.get().filter(|_| examined.len() > 1) {
            joined::merge(examined, machine);
        }
    }

    #[cfg(feature = "remote")]
    fn client(&self) -> &straddle_device::remote::Client {
        let usual = straddle_device::remote::Limits::default();
        let time = self.options.fetch_time.unwrap_or(usual.time);
        self.client.get_or_init(|| {
            straddle_device::remote::Client::new(straddle_device::remote::Limits { time, ..usual })
        })
    }

    fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| {
            let machine = Machine::read(self.options.open.sysroot.as_deref());
            if self.options.open.no_wake { machine.leaving_asleep() } else { machine }
        })
    }
}

/// Commands of other programs move partitions by less.
const LOOK: ByteCount = ByteCount::new(64 * MIB);

/// The usual size of a GPT's entries, which follow two logical sectors.
const ENTRIES: usize = 16 << 10;
const SECTOR: usize = 512;

fn read(target: &mut Target, options: &straddle_device::Options) -> Result<Stack, ReadError> {
    let block = sectors::known(target, options);
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let by_kernel = || straddle_layout::kernel_stack(listed, target.topology.logical.value());
    let Some(medium) = &target.medium else { return Ok(by_kernel()) };
    match read_all(medium.as_ref(), block, options.logical) {
        Ok(stack) if matches!(stack.kind, TableKind::None | TableKind::Foreign(_)) && !listed.is_empty() => {
            Ok(by_kernel())
        }
        Ok(stack) => Ok(stack),
        Err(ReadError::Io { at, source }) => {
            let mut stack = by_kernel();
            stack.problems.push(Problem::Unreadable { number: None, at, why: source.to_string() });
            Ok(stack)
        }
        Err(error) if listed.is_empty() => Err(error),
        Err(error) => {
            target.remarks.push(with_causes(&error));
            Ok(by_kernel())
        }
    }
}

/// The kernel may remove it later: it is looked for `times`, every 0.1 s.
fn check_there(target: &Target, options: &Options, times: u32) -> Result<(), ExamineError> {
    let name = target.kernel_name.as_ref().filter(|_| options.open.sysroot.is_none());
    let Some((name, node)) = name.zip(target.node.as_ref()) else { return Ok(()) };
    for time in 0..times {
        if time > 0 {
            thread::sleep(Duration::from_millis(100));
        }
        if !Path::new("/sys/block").join(name).exists() {
            return Err(ExamineError::Gone(node.clone()));
        }
    }
    Ok(())
}

fn costs(options: &Options, findings: &Findings) -> Vec<Option<Cost>> {
    let price = |finding: &Finding| {
        let price = options.price.as_ref().filter(|_| finding.reported == Reported::Here)?;
        price.price(finding.shifting_start()?)
    };
    findings.iter().map(price).collect()
}

fn nothing(recognised: &Recognised, stack: &Stack) -> Option<&'static str> {
    match stack.kind {
        _ if *recognised == Recognised::Blank => Some("nothing to check: no partition table and no contents"),
        TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr if stack.partitions.is_empty() => {
            Some("nothing to check: its table has no partitions")
        }
        _ => None,
    }
}

/// In doubt no command writes: it might hit data.
fn doubted(doubt: sectors::Doubt, target: &mut Target, findings: &mut Findings) -> Option<String> {
    findings.withhold_commands(Fix::writes_table);
    if doubt.is_likelier {
        return Some(doubt.why);
    }
    target.remarks.push(doubt.why);
    None
}

/// `name` is the target's, `local` that of the file that commands are for.
fn audit(
    examiner: &Examiner,
    (name, local): (&str, &str),
    target: &Target,
    stack: &Stack,
    disagreements: &[Disagreement],
) -> Findings {
    let options = examiner.options();
    let file = target.through.as_ref().map_or(local, |through| &through.unpacked);
    let node = target.node.as_ref().map_or_else(|| file.to_owned(), |node| node.display().to_string());
    let in_container = target.container.is_some();
    let moves = options.moves.map_or_else(Moves::default, |of| of(examiner, local, target, stack));
    let written = |span: Span| match options.without_fixes {
        true => Some(span.start()),
        false => first_written(target, stack, span),
    };
    let context = Context {
        // Partitioning tools would overwrite the format of such an image: it is connected first.
        target: if in_container { connected::NODE } else { &node },
        file,
        is_image: target.kind == DeviceKind::Image && !in_container,
        kind: target.kind,
        zone: target.zoned.as_ref().map(|zoned| zoned.zone),
        size: target.size,
        topology: &target.topology,
        model: target.identity.model.as_deref(),
        stack,
        container: target.container.as_ref(),
        disagreements,
        moves: &moves,
        written: &written,
        page: options.page,
        platform: options.platform,
    };
    let mut findings = crate::run(&context);
    crate::ask(&mut findings, &asked(options, name, target));
    findings
}

fn asked(options: &Options, name: &str, target: &Target) -> Asked {
    let (only, ignore) = (options.only.clone(), options.ignore.clone());
    let exceptions = exception::on(&options.exceptions, name);
    Asked { only, ignore, exceptions, partition: target.partition }
}

/// The first byte of the span if that is not known.
fn first_written(target: &Target, stack: &Stack, span: Span) -> Option<ByteOffset> {
    // A copy of an object is checked again ([`object::remark_copy`]).
    if target.address.is_some() {
        return None;
    }
    let medium = target.medium.as_deref().filter(|_| span.len() <= LOOK);
    let unknown = Some(span.start());
    medium.map_or(unknown, |medium| written_in(medium, stack, span).unwrap_or(unknown))
}

/// Without the remains of an earlier copy of this disk's GPT.
fn written_in(medium: &dyn Medium, stack: &Stack, span: Span) -> Result<Option<ByteOffset>, ReadError> {
    let mut own = Vec::new();
    if stack.kind == TableKind::Gpt {
        let table = usize::try_from(stack.block.get()).unwrap_or(SECTOR) * 2 + ENTRIES;
        own.resize(usize::try_from(medium.len().get()).map_or(table, |len| len.min(table)), 0);
        medium.read_at(ByteOffset::ZERO, &mut own)?;
    }
    let mut rest = span;
    while let Some(at) = straddle_layout::first_written(medium, rest)? {
        let mut sector = [0; SECTOR];
        let behind = ByteOffset::new(at.get().saturating_add(SECTOR as u64));
        let Some(left) = span.end().checked_since(behind).and_then(|len| Span::new(behind, len)) else {
            return Ok(Some(at));
        };
        medium.read_at(at, &mut sector)?;
        let is_of_table = stack.kind == TableKind::Gpt
            && (sector.starts_with(straddle_layout::format::gpt::SIGNATURE)
                || own.chunks_exact(SECTOR).any(|one| one == sector));
        if !is_of_table {
            return Ok(Some(at));
        }
        rest = left;
    }
    Ok(None)
}

/// The kernel does not see a guest's writes.
fn attach_live(target: &mut Target, examiner: &Examiner, stack: &mut Stack) -> Vec<Disagreement> {
    let name = target.kernel_name.as_ref().filter(|_| target.topology.guest.is_none());
    let Some(name) = name else { return Vec::new() };
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let (disagreements, remarks) = straddle_layout::live::attach(examiner.machine(), name, listed, stack);
    target.remarks.extend(remarks);
    disagreements
}

fn read_through(target: &mut Target, findings: &Findings) {
    let Some(through) = &target.through else { return };
    let (what, command) = (through.packing.a_file(), &through.command);
    let commands = || findings.iter().flat_map(Finding::fixes).flat_map(|fix| &fix.commands);
    let is_copy = |command: &Command| command.effect == Effect::Copy;
    let unpack = match (commands().any(is_copy), commands().all(is_copy)) {
        (_, true) => String::new(),
        (false, _) => format!("; before running the commands below, unpack it: {command}"),
        (true, _) => {
            format!(
                "; straddle's own commands can read the image as it is; for the other commands below, unpack \
                 it first: {command}"
            )
        }
    };
    target
        .remarks
        .insert(0, format!("checked: the image inside {what}, unpacked to a temporary file{unpack}"));
}
