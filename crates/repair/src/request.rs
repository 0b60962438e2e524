//! Requests: the partitions of a new table, or changes to the present one.

use std::collections::BTreeSet;
use std::str::FromStr;

use straddle_units::{ByteCount, parse_size};

use crate::error::PlanError;
use crate::guid::Seed;
use crate::plan::Format;

/// A size below this needs a unit: 1 MiB, the grain of every tool.
const SMALLEST_UNSAID: ByteCount = ByteCount::new(1 << 20);

/// The requested size of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "units, and a percentage of the usable space")]
pub enum Size {
    /// At least this many.
    Bytes(ByteCount),
    /// Exactly this many.
    Sectors(u64),
    Percent(u8),
    /// The space that the other partitions leave.
    #[default]
    Rest,
}

/// The requested start of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "units")]
pub enum Place {
    Byte(ByteCount),
    Sector(u64),
}

/// A requested partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of an entry of a table")]
pub struct Part {
    pub size: Size,
    /// `None` to place it where it fits.
    pub start: Option<Place>,
    /// Its type: a name, a GUID or an MBR type.
    pub kind: Option<String>,
    pub name: String,
    /// The file system that is to be created in it.
    pub fs: Option<String>,
    pub logical: bool,
    /// The active flag of an MBR.
    pub bootable: bool,
    /// The attribute bits of a GPT.
    pub attributes: u64,
    /// Its unique GUID; `None` for a random one.
    pub uuid: Option<String>,
    /// `None` for the lowest free one.
    pub number: Option<u32>,
}

/// A partition to be grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the number and the size of a partition")]
pub struct Grow {
    pub number: u32,
    /// `None` to grow it as far as there is space.
    pub size: Option<ByteCount>,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the options of straddle plan")]
pub struct Request {
    /// The format of a new table; `None` to change the present one.
    pub table: Option<Format>,
    /// Partitions to make, in order.
    pub parts: Vec<Part>,
    pub delete: Vec<u32>,
    pub grow: Vec<Grow>,
    /// Rewrite both copies of a GPT.
    pub repair: bool,
    /// Rewrite both copies, with the backup at the end of the disk and all space up to it usable.
    pub relocate_backup: bool,
    /// Convert a table that counts in sectors of another size to the disk's own.
    pub convert: bool,
    pub allow_misaligned: bool,
    /// A grain to use instead of 1 MiB.
    pub grain: Option<ByteCount>,
    /// Clear signatures where new partitions begin, and of content that fills the disk as a whole.
    pub wipe: bool,
    /// The identifier of a new table; `None` for a random one.
    pub disk_id: Option<String>,
    /// The number of entries of a new GPT; `None` for 128, as every tool makes.
    pub entries: Option<u32>,
    /// The type of a new extended partition; `None` for 0x0F.
    pub extended: Option<u8>,
    /// The seed of new identifiers.
    pub seed: Seed,
}

impl Request {
    pub(crate) fn grows(&self, number: u32) -> bool {
        self.grow.iter().any(|grow| grow.number == number)
    }

    /// A request that asks for nothing.
    pub fn new(seed: Seed) -> Self {
        Self { seed, ..Self::default() }
    }
}

impl Part {
    /// A partition of this size.
    pub fn new(size: Size) -> Self {
        Self { size, ..Self::default() }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), PlanError> {
        let wrong = |what: &str| PlanError::Syntax(format!("{key}={value}: {what}"));
        match key {
            "type" => self.kind = Some(value.to_owned()),
            "name" => value.clone_into(&mut self.name),
            "fs" => self.fs = Some(value.to_ascii_lowercase()),
            "start" => self.start = Some(value.parse()?),
            "uuid" => self.uuid = Some(value.to_owned()),
            "number" => self.number = Some(value.parse().map_err(|_| wrong("must be a number"))?),
            "attrs" => self.attributes = parse_bits(value).ok_or_else(|| wrong("must be a 64-bit number"))?,
            "role" => match value {
                "logical" => self.logical = true,
                "primary" => self.logical = false,
                _ => return Err(wrong("must be primary or logical")),
            },
            _ => {
                return Err(PlanError::Syntax(format!(
                    "'{key}' is unknown; use type, name, fs, start, role, uuid, number, attrs or boot"
                )));
            }
        }
        Ok(())
    }
}

fn parse_bits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl FromStr for Part {
    type Err = PlanError;

    /// Parses `512MiB,type=esp,name=boot,fs=vfat`: a size, followed by other properties of the partition.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut words = text.split(',');
        let mut part = Self::new(words.next().unwrap_or_default().parse()?);
        let mut given = BTreeSet::new();
        for word in words {
            let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
            let key = key.trim();
            if !given.insert(key) {
                return Err(PlanError::Syntax(format!("'{key}' is specified twice")));
            }
            match value {
                Some(value) => part.set(key, value.trim())?,
                None if key == "boot" => part.bootable = true,
                None => {
                    let why = format!("'{word}' is neither key=value nor the word boot");
                    return Err(PlanError::Syntax(why));
                }
            }
        }
        Ok(part)
    }
}

impl FromStr for Size {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("rest") {
            return Ok(Self::Rest);
        }
        let wrong = |why: String| Err(PlanError::Syntax(why));
        if let Some(number) = text.strip_suffix('%') {
            return match number.trim().parse() {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => wrong(format!("'{text}' is not a whole percentage from 1 % to 100 %")),
            };
        }
        if let Some(sectors) = sectors(text) {
            return Ok(Self::Sectors(sectors));
        }
        let other = |error| {
            format!("{error}; also possible are sectors (2048s), a share of the space (50%) and rest")
        };
        let size = parse_size(text).map_err(|error| PlanError::Syntax(other(error)))?;
        // sfdisk and parted take a number without a unit as MiB or sectors.
        if size < SMALLEST_UNSAID && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return wrong(format!(
                "'{text}' has no unit; use {text}MiB, {text}s for sectors, or {text}B for bytes"
            ));
        }
        Ok(Self::Bytes(size))
    }
}

impl FromStr for Place {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if let Some(sector) = sectors(text.trim()) {
            return Ok(Self::Sector(sector));
        }
        let byte = parse_size(text);
        byte.map(Self::Byte)
            .map_err(|error| PlanError::Syntax(format!("{error}; also possible is a sector (2048s)")))
    }
}

fn sectors(text: &str) -> Option<u64> {
    text.strip_suffix('s')?.parse().ok()
}

impl FromStr for Grow {
    type Err = PlanError;

    /// Parses `3` or `3=20GiB`.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let (number, size) = text.split_once('=').map_or((text, None), |(number, size)| (number, Some(size)));
        let size = size.map(parse_size).transpose().map_err(|error| PlanError::Syntax(error.to_string()))?;
        match number.trim().parse() {
            Ok(number) => Ok(Self { number, size }),
            Err(_) => Err(PlanError::Syntax(format!("'{number}' is not a partition number"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use straddle_units::MIB;

    use super::*;

    #[test]
    fn parts_are_read() {
        let part: Part =
            "512M,type=esp,name=boot, fs=VFAT,start=2048s,role=logical,attrs=0x4,boot".parse().unwrap();
        let expected = Part {
            start: Some(Place::Sector(2048)),
            kind: Some("esp".to_owned()),
            name: "boot".to_owned(),
            fs: Some("vfat".to_owned()),
            logical: true,
            bootable: true,
            attributes: 4,
            ..Part::new(Size::Bytes(ByteCount::new(512 * MIB)))
        };
        assert_eq!(part, expected);
        assert_eq!("50%".parse::<Part>().unwrap().size, Size::Percent(50));
        assert_eq!("rest".parse::<Part>().unwrap().size, Size::Rest);
        assert_eq!("8192s".parse::<Part>().unwrap().size, Size::Sectors(8192));
        assert_eq!("3=20GiB".parse::<Grow>().unwrap().size, Some(ByteCount::new(20 << 30)));
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for text in [
            "",
            "x",
            "0%",
            "101%",
            "5.5%",
            "1G,x=1",
            "1G,type",
            "1G,role=x",
            "1G,number=x",
            "1G,attrs=-1",
            "1GB",
            "1G,name=a,name=b",
            "1G,boot,boot",
        ] {
            assert!(matches!(text.parse::<Part>(), Err(PlanError::Syntax(_))), "{text}");
        }
        assert!("x=1".parse::<Grow>().is_err() && "1=x".parse::<Grow>().is_err());
    }
}
