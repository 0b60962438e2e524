//! A partition's entry as it should become, and the command that makes it so.
//!
//! The law of this module: a command changes where the entry points, and nothing else that a system looks at. What a tool
//! would lose, it is not printed for.

use straddle_device::shown::is_hidden;
use straddle_layout::{Partition, PartitionType, Role, TableKind, types};
use straddle_units::{Lba, LbaCount};

use crate::Context;
use crate::finding::Command;
use crate::shell::{operand, quote};

/// The types that parted gives to a partition made for a file system, by what it is passed: MBR types, and names of GPT
/// types. Others it does not give.
const PARTED_TYPES: [(u8, &str, &str); 3] = [
    (0x83, "Linux filesystem", "ext4"),
    (0x82, "Linux swap", "linux-swap"),
    (0x07, "Microsoft basic data", "ntfs"),
];

/// A partition's entry as it should become.
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

    /// The sector size to be passed on the command line: an image has no device that reports it.
    fn explicit_sector_size(&self) -> Option<u64> {
        super::explicit_sector_size(self.context)
    }

    /// Whether the partition's name may stand in a command: a terminal obeys control characters, quoted or not, and who
    /// reads it sees something else than is there.
    fn name_can_be_shown(&self) -> bool {
        !self.partition.attributes.name.contains(is_hidden)
    }

    /// Whether sgdisk can write the name: for it a colon ends the name, and nothing quotes one (sgdisk 1.0.10).
    fn name_is_for_sgdisk(&self) -> bool {
        !self.partition.attributes.name.contains(':')
    }

    /// The command that changes the entry and no data, by the tool that keeps the most: sfdisk, where it finds the place.
    pub(super) fn table_only(&self, by_sfdisk: bool) -> Option<Command> {
        if by_sfdisk { Some(self.sfdisk("")) } else { self.sgdisk().or_else(|| self.parted()) }
    }

    /// sfdisk changes the entry's place and keeps everything else.
    pub(super) fn sfdisk(&self, options: &str) -> Command {
        self.sfdisk_of(&format!("start={}, size={}", self.start, self.count), options)
    }

    /// sfdisk changes the entry's size and keeps everything else, its start too, wherever that is: whoever gives a line twice
    /// does not bring a former start back.
    pub(super) fn sfdisk_size(&self) -> Command {
        self.sfdisk_of(&format!("size={}", self.count), "")
    }

    fn sfdisk_of(&self, fields: &str, options: &str) -> Command {
        let number = self.partition.number;
        let size =
            self.explicit_sector_size().map(|size| format!("--sector-size {size} ")).unwrap_or_default();
        let line = format!("echo '{fields}' | sfdisk {size}{options}-N {number} {}", self.operand());
        Command { tool: "sfdisk", line }
    }

    /// parted can only remove the partition and make another, with a type and the flag of a boot loader at the most.
    fn parted(&self) -> Option<Command> {
        let attributes = &self.partition.attributes;
        let keeps = self.parted_keeps_number() && self.context.stack.kind != TableKind::HybridMbr;
        if !keeps || !self.name_can_be_shown() || attributes.gpt != 0 {
            return None;
        }
        let made_for = self.parted_file_system()?;
        let Self { partition, start, .. } = self;
        let label = match (partition.kind, partition.role) {
            // parted wants a name for a partition of a GPT.
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
        Some(Command { tool: "parted", line })
    }

    /// The file system to be passed to parted, to give the partition the type that it has.
    fn parted_file_system(&self) -> Option<&'static str> {
        let has = |(mbr, name, _): &&(u8, &str, &str)| match self.partition.kind {
            PartitionType::Mbr(kind) => kind == *mbr,
            PartitionType::Guid(_) => types::name(&self.partition.kind) == Some(name),
            PartitionType::Unknown => false,
        };
        PARTED_TYPES.iter().find(has).map(|(_, _, file_system)| *file_system)
    }

    /// Whether a partition that parted makes in place of this one has its number: a new one gets the lowest free
    /// number, and when a logical one goes those behind it move up.
    fn parted_keeps_number(&self) -> bool {
        let others = self.context.stack.partitions.iter().map(|p| p.number);
        let number = self.partition.number;
        match self.partition.role {
            Role::Logical { .. } => others.max() == Some(number),
            _ => others.filter(|other| *other < number).count() == number.saturating_sub(1) as usize,
        }
    }

    /// sgdisk works on GPT only, and has no option for an image's sector size.
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
        Some(Command { tool: "sgdisk", line: format!("{line} {}", self.operand()) })
    }
}

/// A word for parted on a shell's line. parted splits its own arguments once more, so what is no plain word needs quotes that
/// reach it.
fn word_for_parted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if word.chars().all(plain) && word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let quoted = quote_for_parted(word);
    // Between double quotes these keep a meaning.
    if quoted.contains(['"', '$', '`', '\\', '!']) { quote(&quoted) } else { format!("\"{quoted}\"") }
}

/// A word in the quotes that parted itself understands: in them a backslash keeps what follows.
fn quote_for_parted(word: &str) -> String {
    format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'"))
}
