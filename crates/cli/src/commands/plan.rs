//! `straddle plan`: turns a request into a plan for one disk. All plans are saved and loaded here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use straddle_device::Options;
use straddle_repair::apply::Backup;
use straddle_repair::copy::Copy;
use straddle_repair::realign::Realign;
use straddle_repair::{
    Depth, Document, Fingerprint, Format, Grow, Part, Place, Plan, Present, Request, Seed, make,
};
use straddle_units::{BlockSize, ByteCount};

use crate::args::{
    FormatArguments, SectorArguments, block_size, known, named, partition_number, positive_size,
};
use crate::exit::{Exit, UsageError, refuse, usage};
use crate::target::local_targets;
use crate::view::text;
use crate::{exit, input, output, output_file};

const PLAN_EXAMPLES: &str = "\
Examples:
  straddle plan disk.img --table gpt --part rest --save plan.json
  straddle apply plan.json --write disk.img           # write the table
  straddle undo plan.json.undo --write disk.img       # restore the old table
  straddle plan sdb --table gpt --part 512MiB,type=esp --part rest
  straddle plan sdb --table mbr --part 20GiB,boot --part rest,role=logical
  straddle plan sdb --add 10GiB,type=swap --delete 3 --grow 2
  straddle plan disk.img --assume stripe=192KiB --table gpt --part rest
  straddle plan sdb --assume 4kn,chunk=512KiB --table gpt --part rest
  straddle plan disk.img --table gpt --part 64MiB,start=34s --allow-misaligned
  straddle plan disk.img --relocate-backup            # the disk has grown
  straddle plan sdb --convert-table 512   # was in a 4096-byte enclosure

PART is SIZE[,key=value...]. SIZE has the form 512MiB, 2048s (sectors), 25% (of
the usable space) or rest (all remaining space). The keys are type, name, fs,
start, role (primary, logical), uuid, number, attrs, and boot (without a value).
A partition type is linux, esp, bios, xbootldr, swap, root, root-arm64, usr,
home, srv, var, tmp, raid, lvm, luks, msdata, msr, prep, zfs, a GUID, or an MBR
type in hexadecimal.";

#[derive(Debug, Args)]
#[command(after_help = format!("{PLAN_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct PlanArguments {
    /// Block device or raw image to plan for. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Create a new table in this format. Existing partitions are not kept.
    #[arg(long, value_parser = formats(), ignore_case = true, value_name = "FORMAT")]
    pub(crate) table: Option<Format>,

    /// Add a partition to the new table. Can be repeated.
    #[arg(long, value_name = "PART", requires = "table")]
    pub(crate) part: Vec<Part>,

    /// Add a partition to the existing table, in the first unallocated space that is large enough. Can be
    /// repeated.
    #[arg(long, value_name = "PART", conflicts_with = "table")]
    pub(crate) add: Vec<Part>,

    /// Remove a partition from the existing table. Can be repeated.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = partition_number)]
    pub(crate) delete: Vec<u32>,

    /// Grow a partition to SIZE or, without SIZE, into all the space that --add leaves free. Only the entry
    /// in the table changes, not the contents of the partition. Can be repeated.
    #[arg(long, value_name = "NUMBER[=SIZE]")]
    pub(crate) grow: Vec<Grow>,

    /// Rewrite both copies of a GPT from the intact copy.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Move the backup GPT to the end of a disk that has grown, and make the new space usable. Implies
    /// --repair.
    #[arg(long)]
    pub(crate) relocate_backup: bool,

    /// Convert the partition table from another logical sector size to this size. Partitions stay at the same
    /// byte offsets.
    ///
    /// Use --convert-table after moving a disk into or out of a USB enclosure.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = named(&[("512", "512 bytes", BlockSize::B512), ("4096", "4096 bytes", BlockSize::B4096)]),
        conflicts_with_all = [
            "table", "part", "add", "delete", "grow", "repair", "relocate_backup", "start", "wipe",
        ]
    )]
    pub(crate) convert_table: Option<BlockSize>,

    /// Start of the first partition created by --part or --add, in bytes (1MiB) or sectors (34s).
    #[arg(long, value_name = "START")]
    pub(crate) start: Option<Place>,

    /// Accept misaligned starts, for experiments.
    #[arg(long)]
    pub(crate) allow_misaligned: bool,

    /// Start partitions at multiples of this size, instead of multiples of 1 MiB and of the erase block.
    /// Partition starts remain aligned to the drive's other boundaries, such as those of its physical
    /// sectors.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) grain: Option<ByteCount>,

    /// Erase the first 68 KiB of new partitions, and accept a disk that holds something other than a GPT or
    /// an MBR. The disk may hold a file system, another kind of table, firmware RAID metadata, or data where
    /// the table goes, such as a boot loader. The plan lists the contents that will be lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// Seed for new UUIDs, in hexadecimal [default: random]. The plan records the seed.
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<Seed>,

    #[command(flatten)]
    pub(crate) sectors: SectorArguments,

    /// Logical sector size of an image [default: detected from its partition table, or else 512].
    ///
    /// With --convert-table: the sector size of the existing table, if it cannot be detected.
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    #[command(flatten)]
    pub(crate) image: FormatArguments,

    /// Explain why each partition starts where it does.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Save the plan to this file, for 'straddle apply'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Print JSON (see `straddle schema plan`).
    #[arg(long)]
    pub(crate) json: bool,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    known(&[Format::Gpt, Format::Mbr], |format| match format {
        Format::Gpt => PossibleValue::new("gpt").help("GUID partition table"),
        Format::Mbr => PossibleValue::new("mbr")
            .help("Master boot record (\"dos\"), for disks up to 2 TiB and old firmware")
            .aliases(["dos", "msdos"]),
    })
}

pub(crate) fn run(arguments: &PlanArguments) -> Result<Exit> {
    let request = request(arguments)?;
    let options = Options {
        assume: arguments.sectors.topology(),
        // In a conversion this size is the table's, not the target's.
        logical: arguments.logical.filter(|_| arguments.convert_table.is_none()),
        format: arguments.image.format,
        ..Options::default()
    };
    let name = arguments.target.display().to_string();
    let depth = match arguments.convert_table {
        Some(size) => Depth::OtherSectors { former: arguments.logical, new: size },
        None => Depth::Contents,
    };
    let present = Present::to_change(&arguments.target, &options, depth).with_context(|| name.clone())?;
    let plan = make(&present.situation(), &request).with_context(|| name.clone())?;
    if let Some(path) = &arguments.save {
        save(path, &(plan.to_json()? + "\n"), &[&arguments.target])?;
    }
    if arguments.json {
        return output::print_json(&Document::of(&plan));
    }
    let saved = output_file::named(arguments.save.as_ref());
    output::print(&text::plan::plan(&arguments.target, &plan, saved, arguments.explain))
}

fn request(arguments: &PlanArguments) -> Result<Request> {
    let mut request = Request::new(match arguments.seed {
        Some(seed) => seed,
        None => random_seed()?,
    });
    request.table = arguments.table;
    request.allow_misaligned = arguments.allow_misaligned;
    request.grain = arguments.grain;
    request.wipe = arguments.wipe;
    request.convert = arguments.convert_table.is_some();
    (request.repair, request.relocate_backup) = (arguments.repair, arguments.relocate_backup);
    request.parts = [&arguments.part[..], &arguments.add].concat();
    UsageError::unless_once("--delete", arguments.delete.iter().copied())?;
    (request.delete, request.grow) = (arguments.delete.clone(), arguments.grow.clone());
    if arguments.start.is_some() {
        match request.parts.first_mut() {
            Some(first) => first.start = arguments.start,
            None => return usage("--start requires --part or --add"),
        }
    }
    Ok(request)
}

pub(super) fn random_seed() -> Result<Seed> {
    Ok(Seed(u128::from_be_bytes(input::random_bytes("cannot read random numbers")?)))
}

const LARGEST_PLAN: u64 = 16 << 20;

pub(super) enum Saved {
    Table(Box<Plan>),
    Moves(Box<Realign>),
    Copy(Box<Copy>),
}

impl Saved {
    pub(super) fn load(path: &Path) -> Result<Self> {
        let unread = || format!("{}: cannot read the plan", path.display());
        let metadata = fs::metadata(path).with_context(unread)?;
        if !metadata.is_file() || metadata.len() > LARGEST_PLAN {
            let why = if metadata.is_file() { "too large" } else { "not a regular file" };
            return usage(format!(
                "{}: is not a plan ({why}); use a file saved by 'straddle plan --save' or 'straddle realign \
                 --save'",
                path.display()
            ));
        }
        let text = fs::read_to_string(path).with_context(unread)?;
        Self::from_json(&text).with_context(|| path.display().to_string())
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::Moves(_) => "moves",
            Self::Copy(_) => "a copy",
        }
    }

    /// The disk that it was made for, as it was then; of a copy the source.
    fn disk(&self) -> &Fingerprint {
        match self {
            Self::Table(plan) => &plan.disk,
            Self::Moves(realign) => &realign.plan.disk,
            Self::Copy(copy) => &copy.source,
        }
    }

    /// Why this plan does not replace the `former` one: that may be needed.
    fn differs(&self, former: &Self) -> Option<String> {
        if self.kind() != former.kind() {
            return Some(format!(
                "already holds a plan for {}, and the new plan is for {}",
                former.kind(),
                self.kind()
            ));
        }
        // Its table may have changed since: the former plan is of no use then.
        let [now, then] = [self, former].map(|plan| (plan.disk().size, &plan.disk().serial));
        (now != then).then(|| "already holds a plan for another disk".to_owned())
    }

    fn from_json(text: &str) -> Result<Self> {
        let value = serde_json::from_str::<serde_json::Value>(text);
        let has = |key: &str| value.as_ref().is_ok_and(|value| value.get(key).is_some());
        Ok(match (has("extents"), has("moves")) {
            (true, _) => Self::Copy(Box::new(Copy::from_json(text)?)),
            (false, true) => Self::Moves(Box::new(Realign::from_json(text)?)),
            (false, false) => Self::Table(Box::new(Plan::from_json(text)?)),
        })
    }
}

/// Neither a plan for another disk or of another kind is replaced, nor the backup of what an `apply` overwrote: it is
/// the only copy.
pub(super) fn save(path: &Path, json: &str, targets: &[&Path]) -> Result<()> {
    if !output_file::is_stdout(path) && path.is_file() {
        let former = input::text(path, LARGEST_PLAN).map_err(anyhow::Error::from);
        let why = match former.and_then(|text| Saved::from_json(&text)) {
            Ok(former) => Saved::from_json(json)?.differs(&former),
            Err(_) => Backup::load(path)
                .is_ok_and(|backup| !backup.is_reverted())
                .then(|| "is a backup, with which a change can be reverted".to_owned()),
        };
        if let Some(why) = why {
            return refuse(format!("{}: {why}; choose another name", path.display()));
        }
    }
    output_file::write(path, json.as_bytes(), targets)
}
