//! The new form of a partition's entry, and the command that makes the change.
//!
//! The law of this module: a command changes where the entry points, and nothing else that a system uses. No
//! command is given for a tool that would lose something.

use straddle_device::shown::is_hidden;
use straddle_layout::{Partition, PartitionType, Role, TableKind, types};
use straddle_units::{Lba, LbaCount};

use crate::Context;
use crate::finding::Command;
use crate::shell::{operand, quote};

/// The partition types that parted sets for the file system type that it is given: MBR types, and names of
/// GPT types. It sets no others.
const PARTED_TYPES: [(u8, &str, &str); 3] = [
    (0x83, "Linux filesystem", "ext4"),
    (0x82, "Linux swap", "linux-swap"),
    (0x07, "Microsoft basic data", "ntfs"),
];

/// The new form of a partition's entry.
pub(super) struct Entry<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) partition: &'a Partition,
    pub(super) start: Lba,
    pub(super) count: LbaCount,
}

impl Entry<'_> {
    fn operand(&self) -> String {
        operand(self.context.target)
    }

    fn last(&self) -> u64 {
        self.start.get() + self.count.get() - 1
    }

    /// The sector size to pass on the command line: needed for an image, as no device reports it.
    fn explicit_sector_size(&self) -> Option<u64> {
        super::explicit_sector_size(self.context)
    }

    /// Whether the partition's name may appear in a command. A terminal obeys control characters, quoted or
    /// not, and a reader would see something other than the actual text.
    fn name_can_be_shown(&self) -> bool {
        !self.partition.attributes.name.contains(is_hidden)
    }

    /// Whether sgdisk can write the name: it takes a colon as the end of the name, and nothing quotes one
    /// (sgdisk 1.0.10).
    fn name_is_for_sgdisk(&self) -> bool {
        !self.partition.attributes.name.contains(':')
    }

    /// The command that changes the entry and no data, with the tool that preserves the most: sfdisk, if it
    /// can find the place.
    pub(super) fn table_only(&self, by_sfdisk: bool) -> Option<Command> {
        if by_sfdisk { Some(self.sfdisk()) } else { self.sgdisk().or_else(|| self.parted()) }
    }

    /// The sfdisk command, which changes the entry's place and preserves everything else.
    pub(super) fn sfdisk(&self) -> Command {
        Command::of_table(
            "sfdisk",
            self.sfdisk_line(&format!("start={}, size={}", self.start, self.count), ""),
        )
    }

    /// The same, which moves the data as well.
    pub(super) fn sfdisk_moving(&self) -> Command {
        let fields = format!("start={}, size={}", self.start, self.count);
        Command::of_data("sfdisk", self.sfdisk_line(&fields, "--move-data "))
    }

    /// The sfdisk command that changes the entry's size and preserves everything else, including the start,
    /// wherever it is. Pasting the line a second time therefore does not restore a former start.
    pub(super) fn sfdisk_size(&self) -> Command {
        Command::of_table("sfdisk", self.sfdisk_line(&format!("size={}", self.count), ""))
    }

    fn sfdisk_line(&self, fields: &str, options: &str) -> String {
        let number = self.partition.number;
        let size =
            self.explicit_sector_size().map(|size| format!("--sector-size {size} ")).unwrap_or_default();
        format!("echo '{fields}' | sfdisk {size}{options}-N {number} {}", self.operand())
    }

    /// The parted commands. parted can only remove the partition and make a new one, with at most a type and
    /// the boot flag.
    fn parted(&self) -> Option<Command> {
        let attributes = &self.partition.attributes;
        let keeps = self.parted_keeps_number() && self.context.stack.kind != TableKind::HybridMbr;
        if !keeps || !self.name_can_be_shown() || attributes.gpt != 0 {
            return None;
        }
        let made_for = self.parted_file_system()?;
        let Self { partition, start, .. } = self;
        let label = match (partition.kind, partition.role) {
            // parted requires a name for a partition of a GPT.
            (PartitionType::Guid(_), _) if attributes.name.is_empty() => {
                format!("partition{}", partition.number)
            }
            (PartitionType::Guid(_), _) => word_for_parted(&attributes.name),
            (_, Role::Logical { .. }) => "logical".to_owned(),
            _ => "primary".to_owned(),
        };
        let environment =
            self.explicit_sector_size().map(|size| format!("PARTED_SECTOR_SIZE={size} ")).unwrap_or_default();
        let (number, last) = (partition.number, self.last());
        let active = match partition.kind {
            PartitionType::Mbr(_) if attributes.bootable => format!(" set {number} boot on"),
            _ => String::new(),
        };
        let line = format!(
            "{environment}parted -s -a none {} rm {number} mkpart {label} {made_for} {start}s {last}s{active}",
            self.operand()
        );
        Some(Command::of_table("parted", line))
    }

    /// The file system type that makes parted give the partition its present type.
    fn parted_file_system(&self) -> Option<&'static str> {
        let has = |(mbr, name, _): &&(u8, &str, &str)| match self.partition.kind {
            PartitionType::Mbr(kind) => kind == *mbr,
            PartitionType::Guid(_) => types::name(&self.partition.kind) == Some(name),
            PartitionType::Unknown => false,
        };
        PARTED_TYPES.iter().find(has).map(|(_, _, file_system)| *file_system)
    }

    /// Whether a partition that parted makes in place of this one gets the same number: a new one gets the
    /// lowest free number, and when a logical one is removed, those behind it are renumbered.
    fn parted_keeps_number(&self) -> bool {
        let others = self.context.stack.partitions.iter().map(|p| p.number);
        let number = self.partition.number;
        match self.partition.role {
            Role::Logical { .. } => others.max() == Some(number),
            _ => others.filter(|other| *other < number).count() == number.saturating_sub(1) as usize,
        }
    }

    /// The sgdisk command: it handles GPT only, and has no option for an image's sector size.
    fn sgdisk(&self) -> Option<Command> {
        let PartitionType::Guid(kind) = self.partition.kind else { return None };
        if self.explicit_sector_size().is_some() || !self.name_can_be_shown() || !self.name_is_for_sgdisk() {
            return None;
        }
        let (number, start, last) = (self.partition.number, self.start, self.last());
        let attributes = &self.partition.attributes;
        let mut line = format!(
            "sgdisk -a 1 -d {number} -n {number}:{start}:{last} -t {number}:{}",
            types::guid_text(kind)
        );
        if let Some(guid) = attributes.guid {
            line += &format!(" -u {number}:{}", types::guid_text(guid));
        }
        if !attributes.name.is_empty() {
            line += &format!(" -c {}", quote(&format!("{number}:{}", attributes.name)));
        }
        if attributes.gpt != 0 {
            line += &format!(" -A {number}:=:{:016x}", attributes.gpt);
        }
        Some(Command::of_table("sgdisk", format!("{line} {}", self.operand())))
    }
}

/// Quotes a word for parted on a shell's command line. parted splits its own arguments once more, so a word
/// with special characters needs quotes that reach parted.
fn word_for_parted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if word.chars().all(plain) && word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let quoted = quote_for_parted(word);
    // These characters keep their meaning between double quotes.
    if quoted.contains(['"', '$', '`', '\\', '!']) { quote(&quoted) } else { format!("\"{quoted}\"") }
}

/// Quotes a word as parted itself requires: within its quotes a backslash escapes the next character.
fn quote_for_parted(word: &str) -> String {
    format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'"))
}
