//! The library's door: a target and options in, all that is known of it out.
//!
//! The law of this crate: it is the only place that decides in which sector size a table counts, what of a disk that could be two
//! things counts, and what the running kernel adds. Commands and other programs translate [`Examined`]; they decide nothing. It
//! writes nothing.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let image = folder.path().join("disk.img");
//! # let mut mbr = vec![0; 1 << 20];
//! # // The first entry: type 0x83, from sector 63 on, 1024 sectors.
//! # mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 4, 0, 0]);
//! # mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
//! # std::fs::write(&image, mbr)?;
//! use straddle_examine::{Examiner, Options};
//!
//! let examined = Examiner::new(Options::default()).examine(&image)?;
//! for (finding, _) in examined.reported() {
//!     println!("{} {}", finding.rule.code, finding.message);
//! }
//! # assert!(examined.findings.iter().any(|finding| finding.rule.code.as_str() == "S001"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod below;
mod connected;
mod error_kind;
mod examined;
mod gone;
mod in_use;
mod member;
mod merge;
mod read;
mod recognised;
mod sectors;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use straddle_audit::Code;
use straddle_device::live::Machine;
use straddle_device::{OpenError, ReadError, Target};
use straddle_units::ByteCount;

pub use examined::{Cost, Examined, Price};
pub use recognised::is_root;
pub use sectors::{read_converted, read_table};

/// How targets are opened and judged.
#[derive(Clone, Default)]
pub struct Options {
    /// How they are opened, and what is declared of them.
    pub open: straddle_device::Options,
    /// The page of a database that is to live on them.
    pub page: Option<ByteCount>,
    /// The rules to report, by code; all of them where this is empty.
    pub only: Vec<Code>,
    /// The rules not to report, by code.
    pub ignore: Vec<Code>,
    /// What else is examined in the same run.
    pub alongside: Alongside,
    /// What a misalignment costs; nothing is priced without it.
    pub price: Option<Arc<dyn Price>>,
}

/// What else is examined in the same run: a disk that shows part of an array is judged in full where the array is, too.
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
pub enum ExamineError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read, and the kernel lists no partitions of it either.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel no longer has the device.
    #[error("{} was unplugged or removed while it was read", .0.display())]
    Gone(PathBuf),
}

/// Examines targets, all with the same options.
pub struct Examiner {
    options: Options,
    /// The kernel's block devices: read once, and only when a target is one of them.
    machine: OnceLock<Machine>,
}

impl Examiner {
    /// With these options.
    pub fn new(options: Options) -> Self {
        Self { options, machine: OnceLock::new() }
    }

    /// The options that it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens, reads and audits the device or image at `path`.
    pub fn examine(&self, path: &Path) -> Result<Examined, ExamineError> {
        let target = straddle_device::open(path, &self.options.open)?;
        self.examine_target(path.display().to_string(), target)
    }

    /// The same of a target that is open; `name` is what the user calls it.
    pub fn examine_target(&self, name: String, target: Target) -> Result<Examined, ExamineError> {
        examined::examine(self, name, target)
    }

    /// Reports what several targets of a run show of the same thing at one of them only.
    pub fn merge(&self, examined: &mut [&mut Examined]) {
        // Without the kernel's view nothing is known of several.
        if let Some(machine) = self.machine.get().filter(|_| examined.len() > 1) {
            merge::merge(examined, machine);
        }
    }

    fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| Machine::read(self.options.open.sysroot.as_deref()))
    }
}
