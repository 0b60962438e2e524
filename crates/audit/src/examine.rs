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
mod merge;
mod modelled;
mod named;
mod object;
mod read;
mod recognised;
mod sectors;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{Code, Moves, Platform};
use straddle_device::live::Machine;
use straddle_device::shown::with_causes;
use straddle_device::{OpenError, ReadError, Target};
use straddle_layout::Stack;
use straddle_units::ByteCount;

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

/// What else is examined in the same run. A disk that shows only part of an array is judged in full if the
/// array is examined too.
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
        "is on a server, but this build of straddle lacks the 'remote' feature; download it and check the \
         file"
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
    /// Why the target was not judged: it is of a kind that is not read, was left asleep, or is out of reach.
    /// `None` if examining it failed.
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
    /// The kernel's block devices, read once, and only if a target is one of them.
    machine: Arc<OnceLock<Machine>>,
    /// The connections to servers, made only if a target is on one.
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

    /// Creates an examiner with the same options and view of the machine, but for what is declared of the
    /// targets' sectors.
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
    pub fn examine_target(&self, name: String, target: Target) -> Result<Examined, ExamineError> {
        examined::examine(self, name, target)
    }

    /// Reports findings that several targets of a run share at one of them only, and judges members of arrays
    /// and of volume groups with what the others among them show.
    pub fn merge(&self, examined: &mut [&mut Examined]) {
        member::settle(examined);
        joined::settle(examined, &self.options);
        // Without the kernel's view it is unknown which targets share a device.
        if let Some(machine) = self.machine.get().filter(|_| examined.len() > 1) {
            merge::merge(examined, machine);
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
