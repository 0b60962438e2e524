//! The command lines of `plan`, `apply` and `undo`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use straddle_repair::relocate::Verify;
use straddle_repair::{Format, Grow, Part, Place, Seed};
use straddle_units::{BlockSize, ByteCount};

use super::copy::CopyArguments;
use super::{SectorArguments, block_size, named, partition_number, positive_size};
use crate::target::local_paths;

/// Examples for `plan --help`.
const PLAN_EXAMPLES: &str = "\
Examples:
  straddle plan disk.img --table gpt --part 512MiB,type=esp --part rest --save plan.json
  straddle apply plan.json --write disk.img       write it; straddle undo plan.json.undo --write disk.img reverts it
  straddle plan /dev/sdb --table mbr --part 20GiB,boot --part 50%,role=logical --part rest,role=logical
  straddle plan /dev/sdb --add 10GiB,type=swap --delete 3 --grow 2
  straddle plan /dev/sdb --file layout.toml --explain
  straddle plan disk.img --assume stripe=192KiB --table gpt --part rest --explain
  straddle plan disk.img --table gpt --part 64MiB,start=34s --allow-misaligned
  straddle plan disk.img --relocate-backup        the disk has grown: move the backup GPT to its end
  straddle plan /dev/sdb --convert-table 512      the disk was in an enclosure with 4096-byte sectors
  straddle plan disk.img --table gpt --part rest --to-sfdisk | sfdisk other.img

A partition is SIZE[,key=value...]. SIZE is 512MiB, 2048s (sectors), 25% (of the usable space) or rest. The keys are type
(linux, esp, bios, xbootldr, swap, root, root-arm64, usr, home, srv, var, tmp, raid, lvm, luks, msdata, msr, prep, zfs, a GUID, or
an MBR type in hexadecimal), name, fs, start, role (primary, logical), uuid, number, attrs, and boot, which takes no value.";

#[derive(Debug, Args)]
#[command(after_help = format!("{PLAN_EXAMPLES}\n\n{}", crate::exit::HELP))]
pub(crate) struct PlanArguments {
    /// Block device or raw image. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub(crate) target: PathBuf,

    /// Create a new table of this format; existing partitions are not kept.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) table: Option<TableFormat>,

    /// Add a partition to the new table, in the order given. Can be repeated.
    #[arg(long, value_name = "PART", value_parser = Part::from_str, requires = "table")]
    pub(crate) part: Vec<Part>,

    /// Add a partition to the existing table, in the first free space that is large enough. Can be repeated.
    #[arg(long, value_name = "PART", value_parser = Part::from_str, conflicts_with = "table")]
    pub(crate) add: Vec<Part>,

    /// Remove a partition from the existing table. Can be repeated.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = partition_number)]
    pub(crate) delete: Vec<u32>,

    /// Grow a partition to a size, or as far as there is room, with room left for --add. Only its entry
    /// changes, not its contents. Can be repeated.
    #[arg(long, value_name = "NUMBER[=SIZE]", value_parser = Grow::from_str)]
    pub(crate) grow: Vec<Grow>,

    /// Rewrite both copies of a GPT from the intact one.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Like --repair, with the backup at the end of the disk and all space up to it usable, for a disk that
    /// has grown.
    #[arg(long)]
    pub(crate) relocate_backup: bool,

    /// Convert a table that was written for the other logical sector size to sectors of this size. Every
    /// partition keeps its bytes.
    ///
    /// For a disk that was in a USB enclosure, or comes out of one.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = named(&[("512", "512 bytes", BlockSize::B512), ("4096", "4096 bytes", BlockSize::B4096)]),
        conflicts_with_all = [
            "table", "part", "add", "delete", "grow", "repair", "relocate_backup", "file", "from_sfdisk", "start", "wipe",
        ]
    )]
    pub(crate) convert_table: Option<BlockSize>,

    /// Read the request from this TOML file (see docs/plan.md), or from standard input if it is `-`; options
    /// add to it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "from_sfdisk")]
    pub(crate) file: Option<PathBuf>,

    /// Read the request from this sfdisk script (as dumped by sfdisk), or from standard input if it is `-`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) from_sfdisk: Option<PathBuf>,

    /// Start of the first partition of --part or --add, as a byte (1MiB) or a sector (34s).
    #[arg(long, value_name = "PLACE", value_parser = Place::from_str)]
    pub(crate) start: Option<Place>,

    /// Accept misaligned starts; for experiments.
    #[arg(long)]
    pub(crate) allow_misaligned: bool,

    /// Start partitions at multiples of this instead of 1 MiB (and of the erase block). Boundaries that cost
    /// when missed still apply.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) grain: Option<ByteCount>,

    /// Also erase the previous contents where new partitions begin (their first 68 KiB), and allow a disk
    /// that holds something besides a GPT or an MBR: a file system, another kind of table, firmware RAID
    /// metadata, or data where the table is written, such as a boot loader. The plan lists what is lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// Seed of new identities, in hexadecimal [default: random]. The plan records it.
    #[arg(long, value_name = "SEED", value_parser = Seed::from_str)]
    pub(crate) seed: Option<Seed>,

    #[command(flatten)]
    pub(crate) sectors: SectorArguments,

    /// Logical sector size of an image [default: detected from its table, 512 without a table].
    ///
    /// With --convert-table, the sector size of the present table, if nothing on the disk shows it.
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// Image format, if the contents suggest a different one; `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Explain why each partition starts where it does, and where other tools would start it.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Save the plan to this file, for 'straddle apply'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Print JSON (see `straddle schema plan`).
    #[arg(long, conflicts_with = "to_sfdisk")]
    pub(crate) json: bool,

    /// Print the table as an sfdisk script.
    #[arg(long)]
    pub(crate) to_sfdisk: bool,
}

/// The formats of new tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// GUID partition table.
    Gpt,
    /// Master boot record, "dos"; for disks up to 2 TiB and old firmware.
    #[value(alias = "dos", alias = "msdos")]
    Mbr,
}

impl From<TableFormat> for Format {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Gpt => Self::Gpt,
            TableFormat::Mbr => Self::Mbr,
        }
    }
}

/// Examples for `apply --help`.
const APPLY_EXAMPLES: &str = "\
Examples:
  straddle apply plan.json --write disk.img               the backup is plan.json.undo
  straddle apply plan.json --write /dev/sdb --backup /root/sdb.undo
  straddle apply plan.json --write /dev/sdb --dry-run     show what would be written, byte by byte
  straddle apply sdb.move.json --write /dev/sdb                       move partitions (straddle realign)
  straddle apply sdb.move.json --write /dev/sdb --journal sdb.move.journal    if the disk has no room for it
  straddle apply old.qcow2.copy.json --from old.qcow2 --write new.img         make a copy (straddle realign --to)

Nothing is written unless the target is the disk that the plan was made for, unchanged since and not in use.

A plan of a table: every byte that is overwritten is saved in the backup first; a power cut at any point leaves either the
old or the new table. A plan of moves: what is overwritten is in the journal first; after a power cut, straddle resume goes
on or brings back the old layout. A copy only reads its source; after an interruption, run the same command again.";

#[derive(Debug, Args)]
#[command(after_help = format!("{APPLY_EXAMPLES}\n\n{}", crate::exit::HELP))]
pub(crate) struct ApplyArguments {
    /// Plan saved by 'straddle plan' or 'straddle realign' (with --save).
    #[arg(value_name = "PLAN", value_hint = clap::ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), required = true)]
    pub(crate) write: PathBuf,

    /// Image format, if the contents suggest a different one; `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// For plans of tables: save what is overwritten to this new file on another disk [default: PLAN.undo].
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: Option<PathBuf>,

    /// Disk or image to copy from, with a plan of 'straddle realign --to'. It is opened read-only.
    #[arg(long, value_name = "SOURCE", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub(crate) from: Option<PathBuf>,

    /// Format of the image to copy from, as 'straddle realign --to' was given it with --format.
    #[arg(long, value_name = "FORMAT", requires = "from", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) from_format: Option<straddle_device::image::Format>,

    /// With --from: also open this backing, parent or extent file if an image names it. Can be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "from")]
    pub(crate) allow_backing: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    /// For plans of tables: check everything and show what would be written, but write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Examples for `undo --help`.
const UNDO_EXAMPLES: &str = "\
Examples:
  straddle undo plan.json.undo --write disk.img
  straddle undo plan.json.undo --write new.img --was /srv/disk.img    the image was renamed since

It also reverts what an interrupted 'straddle apply' had written. Nothing is changed if the disk contains neither the
original nor the written data, if any other part of its partition table differs, or if the first MiB or the last 64 KiB
of a partition that the plan created has been written to, or if what is in a partition that it grew would not fit any
more. A disk without a serial number is recognised by its path.";

#[derive(Debug, Args)]
#[command(after_help = format!("{UNDO_EXAMPLES}\n\n{}", crate::exit::HELP))]
pub(crate) struct UndoArguments {
    /// Backup created by 'straddle apply'.
    #[arg(value_name = "BACKUP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), required = true)]
    pub(crate) write: PathBuf,

    /// Image format, if the contents suggest a different one; `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Path of the disk when the backup was made, if it was renamed since and has no serial number.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub(crate) was: Option<PathBuf>,

    /// Revert the table even if a partition that the plan created or grew has been written to; its contents are lost.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Examples for `realign --help`.
const REALIGN_EXAMPLES: &str = "\
Examples:
  straddle realign /dev/sdb --save sdb.move.json      plan; nothing is written
  straddle apply sdb.move.json --write /dev/sdb       move the data, then write the new table
  straddle resume /dev/sdb                        go on after an interruption
  straddle resume /dev/sdb --rollback             bring back the old layout
  straddle realign disk.img --partition 2 --start 2=8MiB --save move.json
  straddle realign old.qcow2 --to new.img --save copy.json    copy it to a new image, laid out right
  straddle apply copy.json --from old.qcow2 --write new.img
  straddle realign /dev/sda --at-boot             the disk of the running system: move at the next boot

The new table counts only when all data are in their new places. Until then an interruption of any kind, including a power
cut, loses nothing: a journal has what is being overwritten. It is in unallocated space of the disk; if there is too little,
'straddle apply' needs --journal FILE on another disk.";

#[derive(Debug, Args)]
#[command(after_help = format!("{REALIGN_EXAMPLES}\n\n{}", crate::exit::HELP))]
pub(crate) struct RealignArguments {
    /// Block device or raw image. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub(crate) target: PathBuf,

    /// Align only this partition [default: those that have to move, as `check` says]. Can be repeated.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = partition_number)]
    pub(crate) partition: Vec<u32>,

    /// Move a partition to this place instead of the nearest aligned one. Can be repeated.
    #[arg(long, value_name = "NUMBER=PLACE", value_parser = start_of)]
    pub(crate) start: Vec<(u32, Place)>,

    /// Align to multiples of this instead of 1 MiB.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) grain: Option<ByteCount>,

    #[command(flatten)]
    pub(crate) sectors: SectorArguments,

    /// Logical sector size of an image [default: detected from its table].
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// Image format, if the contents suggest a different one; `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Estimate the time on this modelled drive (see 'straddle drive list') [default: unknown]. A file of
    /// 'straddle probe --save' has no rates: the time stays unknown.
    #[arg(long, value_name = "DRIVE", value_parser = crate::measured::Known::parse)]
    pub(crate) drive: Option<crate::measured::Known>,

    #[command(flatten)]
    pub(crate) copy: CopyArguments,

    /// Save the plan to this file, for 'straddle apply'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Print JSON (see `straddle schema realign`, and `realign-to` for --to).
    #[arg(long)]
    pub(crate) json: bool,

    /// Move the partitions at the next boot, before the root file system is mounted, or remove what was
    /// prepared for that.
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_missing_value = "prepare", conflicts_with_all = ["assume", "measured", "format", "logical", "json"])]
    pub(crate) at_boot: Option<AtBoot>,
}

/// What is done about moving partitions when the machine starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtBoot {
    /// Install a hook and the plan into the initramfs.
    Prepare,
    /// Remove them.
    Cancel,
    /// Begin or resume the move, as the initramfs does.
    #[value(hide = true)]
    Now,
}

fn start_of(text: &str) -> Result<(u32, Place), String> {
    let (number, place) = text.split_once('=').ok_or("not NUMBER=PLACE, as in 2=8MiB or 2=2048s")?;
    let number = number.parse().map_err(|_| format!("'{number}' is not the number of a partition"))?;
    Ok((number, place.parse().map_err(|error: straddle_repair::PlanError| error.to_string())?))
}

#[derive(Debug, Args)]
pub(crate) struct MoveArguments {
    /// File on another disk for the journal of moves [default: unallocated space of the target].
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,

    /// How moved data are checked.
    #[arg(long, value_name = "HOW", default_value = "read", value_parser = named(&[
        ("read", "Read everything back after it was flushed", Verify::Read),
        ("none", "Trust the disk", Verify::None),
    ]))]
    pub(crate) verify: Verify,

    /// Go on if a sector cannot be read, and write this new file: a ddrescue map of the sectors.
    #[arg(long, value_name = "MAP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) skip_bad: Option<PathBuf>,
}

/// Examples for `resume --help`.
const RESUME_EXAMPLES: &str = "\
Examples:
  straddle resume /dev/sdb
  straddle resume /dev/sdb --rollback
  straddle resume disk.img --journal disk.img.move.journal
  straddle resume /dev/sdb --restore-table sdb.table      another program has written a table meanwhile

If the table is not the one that the move left, nothing is written. With --restore-table that table is saved ('straddle undo'
brings it back), and the move goes on, or with --rollback back. The journal is searched on all of the disk. What the other
program wrote where data of the move are is not brought back.

A sector of the table that a power cut has torn is restored from the journal, on the disk or in the file.";

#[derive(Debug, Args)]
#[command(after_help = format!("{RESUME_EXAMPLES}\n\n{}", crate::exit::HELP))]
pub(crate) struct ResumeArguments {
    /// Block device or raw image with an unfinished move.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub(crate) target: PathBuf,

    /// Bring back the old layout, contents included, instead of completing the new one.
    #[arg(long)]
    pub(crate) rollback: bool,

    /// If another program has written the table since, save it to this new file on another disk, and restore the
    /// marker of the move. Also follows a journal that was copied, or although something has written to the data.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) restore_table: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    /// Image format, if the contents suggest a different one; `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,
}
