//! The command lines of `plan`, `apply` and `undo`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use straddle_repair::relocate::Verify;
use straddle_repair::{Format, Grow, Part, Place, Seed};
use straddle_units::{BlockSize, ByteCount};

use super::copy::CopyArguments;
use super::{SectorArguments, block_size, named, partition_number, positive_size};
use crate::exit;
use crate::target::{local_paths, local_targets};

/// Examples for `plan --help`.
const PLAN_EXAMPLES: &str = "\
Examples:
  straddle plan disk.img --table gpt --part rest --save plan.json
  straddle apply plan.json --write disk.img           # write it
  straddle undo plan.json.undo --write disk.img       # revert it
  straddle plan sdb --table gpt --part 512MiB,type=esp --part rest
  straddle plan sdb --table mbr --part 20GiB,boot --part rest,role=logical
  straddle plan sdb --add 10GiB,type=swap --delete 3 --grow 2
  straddle plan sdb --file layout.toml --explain
  straddle plan disk.img --assume stripe=192KiB --table gpt --part rest
  straddle plan disk.img --table gpt --part 64MiB,start=34s --allow-misaligned
  straddle plan disk.img --relocate-backup            # the disk has grown
  straddle plan sdb --convert-table 512   # comes from a 4096-byte enclosure
  straddle plan disk.img --table gpt --part rest --to-sfdisk | sfdisk other.img

A partition is SIZE[,key=value...]. SIZE is 512MiB, 2048s (sectors), 25% (of the
usable space) or rest. The keys are type, name, fs, start, role (primary,
logical), uuid, number, attrs and boot, which takes no value. A type is linux,
esp, bios, xbootldr, swap, root, root-arm64, usr, home, srv, var, tmp, raid,
lvm, luks, msdata, msr, prep, zfs, a GUID, or an MBR type in hexadecimal.";

/// The exit statuses of commands that move data.
const MOVES: &[(u8, &str)] = &[
    (0, "success"),
    (1, "done, but some sectors could not be read"),
    (3, "a disk or file could not be read or written"),
    (4, "refused for safety; nothing was written"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{PLAN_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct PlanArguments {
    /// Block device or raw image. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Create a new table in this format. Existing partitions are not kept.
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

    /// Grow a partition to SIZE, or to all the space that --add leaves. Only its entry changes, not its contents. Can
    /// be repeated.
    #[arg(long, value_name = "NUMBER[=SIZE]", value_parser = Grow::from_str)]
    pub(crate) grow: Vec<Grow>,

    /// Rewrite both copies of a GPT from the intact one.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Move the backup GPT to the end of a disk that has grown, and make the new space usable. Implies --repair.
    #[arg(long)]
    pub(crate) relocate_backup: bool,

    /// Convert a table that was written for the other logical sector size to this one. Partitions keep their bytes.
    ///
    /// This is for a disk that is moved into a USB enclosure, or out of one.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = named(&[("512", "512 bytes", BlockSize::B512), ("4096", "4096 bytes", BlockSize::B4096)]),
        conflicts_with_all = [
            "table", "part", "add", "delete", "grow", "repair", "relocate_backup", "file", "from_sfdisk", "start", "wipe",
        ]
    )]
    pub(crate) convert_table: Option<BlockSize>,

    /// Read the request from this TOML file (see docs/plan.md), or from standard input if it is `-`. Options add to
    /// it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "from_sfdisk")]
    pub(crate) file: Option<PathBuf>,

    /// Read the request from this sfdisk script (as dumped by sfdisk), or from standard input if it is `-`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) from_sfdisk: Option<PathBuf>,

    /// Start of the first partition of --part or --add, as a byte (1MiB) or a sector (34s).
    #[arg(long, value_name = "PLACE", value_parser = Place::from_str)]
    pub(crate) start: Option<Place>,

    /// Accept misaligned starts, for experiments.
    #[arg(long)]
    pub(crate) allow_misaligned: bool,

    /// Start partitions at multiples of this instead of 1 MiB and of the erase block. Boundaries of sectors and units
    /// still apply.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) grain: Option<ByteCount>,

    /// Erase the first 68 KiB of new partitions. Allow a disk that holds more than a GPT or an MBR: a file system,
    /// another kind of table, firmware RAID metadata, or data where the table is written, such as a boot loader. The
    /// plan lists what is lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// Seed of new UUIDs, in hexadecimal [default: random]. The plan records it.
    #[arg(long, value_name = "SEED", value_parser = Seed::from_str)]
    pub(crate) seed: Option<Seed>,

    #[command(flatten)]
    pub(crate) sectors: SectorArguments,

    /// Logical sector size of an image [default: detected from its table, or 512].
    ///
    /// With --convert-table, the sector size of the existing table, if it cannot be detected.
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// Image format, if it is detected wrongly. `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Explain the start of each partition, and where other tools would start it.
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
    /// Master boot record ("dos"), for disks up to 2 TiB and old firmware.
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
  straddle apply plan.json --write disk.img           # backup: plan.json.undo
  straddle apply plan.json --write sdb --backup /root/sdb.undo
  straddle apply plan.json --write sdb --dry-run      # show every byte
  straddle apply sdb.move.json --write sdb            # from straddle realign
  straddle apply sdb.move.json --write sdb --journal sdb.move.journal
                                          # if the disk has no room for it
  straddle apply copy.json --from old.qcow2 --write new.img
                                          # from straddle realign --to

Nothing is written unless the target is the disk that the plan was made for,
unchanged since then and not in use.

Tables: every overwritten byte is saved in the backup first. After a power cut,
the disk has either the old or the new table. Moves: every overwritten byte is
in the journal first. After a power cut, 'straddle resume' completes the move or
rolls it back. Copies: the source is only read. After an interruption, run the
same command again.";

#[derive(Debug, Args)]
#[command(after_help = format!("{APPLY_EXAMPLES}\n\n{}", exit::help(MOVES)))]
pub(crate) struct ApplyArguments {
    /// Plan saved by 'straddle plan' or 'straddle realign' (with --save).
    #[arg(value_name = "PLAN", value_hint = clap::ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_targets(), required = true)]
    pub(crate) write: PathBuf,

    /// Image format, if it is detected wrongly. `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// For plans of tables: save the overwritten bytes to this new file on another disk [default: PLAN.undo].
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: Option<PathBuf>,

    /// For plans of copies: disk or image to copy from. It is opened read-only.
    #[arg(long, value_name = "SOURCE", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) from: Option<PathBuf>,

    /// With --from: format of that image, as given to 'straddle realign --to'.
    #[arg(long, value_name = "FORMAT", requires = "from", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) from_format: Option<straddle_device::image::Format>,

    /// With --from: also open this backing, parent or extent file if an image names it. Can be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "from")]
    pub(crate) allow_backing: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    /// For plans of tables: show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Examples for `undo --help`.
const UNDO_EXAMPLES: &str = "\
Examples:
  straddle undo plan.json.undo --write disk.img
  straddle undo plan.json.undo --write new.img --was /srv/disk.img    # renamed

This also reverts an interrupted 'straddle apply'. Nothing is changed in these
cases:
  the disk contains neither the original nor the written data
  another part of its partition table differs
  the first MiB or last 64 KiB of a new partition has been written to
  the contents of a grown partition no longer fit
A disk without a serial number is recognised by its path.";

#[derive(Debug, Args)]
#[command(after_help = format!("{UNDO_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct UndoArguments {
    /// Backup created by 'straddle apply'.
    #[arg(value_name = "BACKUP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_targets(), required = true)]
    pub(crate) write: PathBuf,

    /// Image format, if it is detected wrongly. `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Path of the disk when the backup was made, if it has been renamed since and has no serial number.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) was: Option<PathBuf>,

    /// Revert the table even if a new or grown partition has been written to. Its contents are lost.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Examples for `realign --help`.
const REALIGN_EXAMPLES: &str = "\
Examples:
  straddle realign sdb --save sdb.move.json           # nothing is written
  straddle apply sdb.move.json --write sdb            # move the data
  straddle resume sdb                     # continue after an interruption
  straddle resume sdb --rollback          # or restore the old layout
  straddle realign disk.img --partition 2 --start 2=8MiB --save move.json
  straddle realign old.qcow2 --to new.img --save copy.json    # copy instead
  straddle apply copy.json --from old.qcow2 --write new.img
  straddle realign sda --at-boot          # the system's disk, at the next boot

The new table becomes active when all data has been moved. An interruption
before that, even a power cut, loses nothing: a journal holds the data that is
being overwritten. The journal is in unallocated space of the disk. If there is
not enough, 'straddle apply' needs --journal FILE on another disk.";

#[derive(Debug, Args)]
#[command(after_help = format!("{REALIGN_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct RealignArguments {
    /// Block device or raw image. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Align only this partition [default: the misaligned ones]. Can be repeated.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = partition_number)]
    pub(crate) partition: Vec<u32>,

    /// Move a partition to this start instead of the nearest aligned one. Can be repeated.
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

    /// Image format, if it is detected wrongly. `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Estimate the time on this modelled drive (see 'straddle drive list'). A file saved by 'straddle probe' has no
    /// rates, so the time stays unknown.
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

    /// Move the partitions at the next boot, before the root file system is mounted, or cancel that.
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_missing_value = "prepare", conflicts_with_all = ["assume", "measured", "format", "logical", "json"])]
    pub(crate) at_boot: Option<AtBoot>,
}

/// When to move partitions of the running system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtBoot {
    /// Install the plan and a hook into the initramfs.
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

    /// How moved data is verified.
    #[arg(long, value_name = "HOW", default_value = "read", value_parser = named(&[
        ("read", "Read everything back after a flush", Verify::Read),
        ("none", "Trust the disk", Verify::None),
    ]))]
    pub(crate) verify: Verify,

    /// Skip sectors that cannot be read, and list them in this new file, a ddrescue map.
    #[arg(long, value_name = "MAP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) skip_bad: Option<PathBuf>,
}

/// Examples for `resume --help`.
const RESUME_EXAMPLES: &str = "\
Examples:
  straddle resume sdb                     # complete the move
  straddle resume sdb --rollback          # restore the old layout
  straddle resume disk.img --journal disk.img.move.journal
  straddle resume sdb --restore-table sdb.table
                                          # another program wrote a table

Nothing is written if the table is not the one that the move left. With
--restore-table, that table is saved ('straddle undo' restores it), and the move
continues or is rolled back. The whole disk is searched for the journal. Data of
the move that the other program overwrote cannot be restored.

A sector of the table that a power cut has torn is restored from the journal.";

#[derive(Debug, Args)]
#[command(after_help = format!("{RESUME_EXAMPLES}\n\n{}", exit::help(MOVES)))]
pub(crate) struct ResumeArguments {
    /// Block device or raw image with an unfinished move.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Restore the old layout, with its contents, instead of completing the new one.
    #[arg(long)]
    pub(crate) rollback: bool,

    /// If another program has written a table since then, save that table to this new file on another disk and
    /// restore the marker of the move. Also accept a copied journal, and data that has been written to.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) restore_table: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    /// Image format, if it is detected wrongly. `raw` takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,
}
