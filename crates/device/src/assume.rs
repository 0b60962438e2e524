//! `--assume`: the topology that an image is meant for, or a correction of what a device reports.

use std::path::Path;
use std::str::FromStr;

use straddle_units::{BlockSize, BlockSizeError, ByteCount, ParseSizeError, parse_size};

use crate::shown::quote_path;
use crate::topology::{AT_LEAST_LOGICAL, AlignmentOffset, AtomicWrites, Figure, Source, Topology};

/// A declared topology; figures that are `None` stay as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assume {
    logical: Option<BlockSize>,
    physical: Option<ByteCount>,
    offset: Option<ByteCount>,
    io_min: Option<ByteCount>,
    io_opt: Option<ByteCount>,
    indirection_unit: Option<ByteCount>,
    stripe: Option<ByteCount>,
    chunk: Option<ByteCount>,
    erase_block: Option<ByteCount>,
    atomic: Option<ByteCount>,
    atomic_boundary: Option<ByteCount>,
    /// The file of the measurements, if it was measured rather than declared.
    measured: Option<String>,
}

/// Why an `--assume` text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum AssumeError {
    #[error("unknown value '{0}'; use 512n, 512e, 4kn, or KEY=SIZE. The keys are {KEYS}")]
    UnknownWord(String),
    #[error("{key}")]
    Size { key: String, source: ParseSizeError },
    #[error("logical")]
    Logical(#[source] BlockSizeError),
    #[error("'{0}' is specified twice")]
    Twice(String),
    #[error("{key}={value}: {why}")]
    Impossible { key: &'static str, value: u64, why: &'static str },
}

straddle_units::error_kind!(AssumeError: Usage);

const KEYS: &str =
    "logical, physical, offset, io-min, io-opt, iu, stripe, chunk, erase, atomic, atomic-boundary";

/// Larger values are typing errors.
const MAX_SIZE: u64 = 1 << 32;

impl FromStr for Assume {
    type Err = AssumeError;

    fn from_str(text: &str) -> Result<Self, AssumeError> {
        let mut assume = Self::default();
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "512n" => assume.set_format(BlockSize::B512, 512)?,
                "512e" => assume.set_format(BlockSize::B512, 4096)?,
                "4kn" => assume.set_format(BlockSize::B4096, 4096)?,
                _ => assume.set_word(word)?,
            }
        }
        assume.validated()
    }
}

impl Assume {
    fn set_format(&mut self, logical: BlockSize, physical: u64) -> Result<(), AssumeError> {
        set("logical", &mut self.logical, logical)?;
        set("physical", &mut self.physical, ByteCount::new(physical))
    }

    fn set_word(&mut self, word: &str) -> Result<(), AssumeError> {
        let (key, value) = word.split_once('=').ok_or_else(|| AssumeError::UnknownWord(word.to_owned()))?;
        let size = || parse_size(value).map_err(|source| AssumeError::Size { key: key.to_owned(), source });
        let slot = match key {
            "logical" => {
                let block = BlockSize::new(size()?.get()).map_err(AssumeError::Logical)?;
                return set(key, &mut self.logical, block);
            }
            "physical" => &mut self.physical,
            "offset" => &mut self.offset,
            "io-min" => &mut self.io_min,
            "io-opt" => &mut self.io_opt,
            "iu" => &mut self.indirection_unit,
            "stripe" => &mut self.stripe,
            "chunk" => &mut self.chunk,
            "erase" => &mut self.erase_block,
            "atomic" => &mut self.atomic,
            "atomic-boundary" => &mut self.atomic_boundary,
            _ => return Err(AssumeError::UnknownWord(word.to_owned())),
        };
        set(key, slot, size()?)
    }

    /// Declares a disk whose first physical sector starts at byte `offset`.
    pub fn disk(logical: BlockSize, physical: ByteCount, offset: ByteCount) -> Result<Self, AssumeError> {
        let (logical, physical, offset) = (Some(logical), Some(physical), Some(offset));
        Self { logical, physical, offset, ..Self::default() }.validated()
    }

    /// Takes the sectors of `topology`, except assumed ones, for a program that gets an image of the disk.
    #[must_use]
    pub fn with_sectors_of(self, topology: &Topology) -> Self {
        let unknown = Topology::unknown();
        let (physical, phase) = (topology.physical.value(), topology.phase());
        let is_usual = physical == unknown.physical.value() && phase == ByteCount::ZERO;
        if is_usual && self.logical.is_none() && self.physical.is_none() && self.offset.is_none() {
            return self;
        }
        let offset = Some(phase).filter(|phase| *phase != ByteCount::ZERO);
        let logical = Some(topology.logical.value());
        Self { logical, physical: Some(physical), offset, measured: None, ..self }
    }

    /// Declares an SSD with these sectors and this indirection unit.
    pub fn ssd(logical: BlockSize, physical: ByteCount, unit: ByteCount) -> Result<Self, AssumeError> {
        let (logical, physical) = (Some(logical), Some(physical));
        Self { logical, physical, indirection_unit: Some(unit), ..Self::default() }.validated()
    }

    fn validated(self) -> Result<Self, AssumeError> {
        let reject =
            |key, value: ByteCount, why| Err(AssumeError::Impossible { key, value: value.get(), why });
        let sizes = self.figures().into_iter().filter_map(|(key, size)| Some((key, size?)));
        for (key, size) in sizes.filter(|(key, _)| !["logical", "offset", "atomic-boundary"].contains(key)) {
            if size == ByteCount::ZERO {
                return reject(key, size, "the size must not be zero");
            }
            if size.get() > MAX_SIZE {
                return reject(key, size, "the size must not exceed 4 GiB");
            }
            if !size.is_multiple_of(ByteCount::new(512)) {
                return reject(key, size, "the size must be a multiple of 512 bytes");
            }
        }
        if let Some(physical) = self.physical {
            if !physical.get().is_power_of_two() {
                return reject("physical", physical, "a physical sector must be a power of two in bytes");
            }
            if self.logical.is_some_and(|logical| physical < logical.bytes()) {
                return reject(
                    "physical",
                    physical,
                    "a physical sector must not be smaller than the logical one",
                );
            }
        }
        if let Some(offset) = self.offset {
            if offset >= self.physical.unwrap_or(ByteCount::new(4096)) {
                return reject("offset", offset, "the offset must be less than the physical sector size");
            }
            if !offset.is_multiple_of(self.logical.unwrap_or(BlockSize::B512).bytes()) {
                return reject("offset", offset, "the offset must be a multiple of the logical sector size");
            }
        }
        match (self.atomic, self.atomic_boundary) {
            (None, Some(boundary)) => {
                reject("atomic-boundary", boundary, "atomic-boundary= requires atomic=")
            }
            (Some(unit), _) if !unit.get().is_power_of_two() => {
                reject("atomic", unit, "an atomic write unit must be a power of two in bytes")
            }
            (Some(unit), Some(boundary)) if boundary.get() != 0 && !boundary.is_multiple_of(unit) => reject(
                "atomic-boundary",
                boundary,
                "the boundary must be a multiple of the atomic write unit",
            ),
            _ => Ok(self),
        }
    }

    /// Returns the declared logical sector size, if any.
    pub fn logical(&self) -> Option<BlockSize> {
        self.logical
    }

    /// Whether these are the sectors of a 512e drive, and nothing else, or nothing is declared.
    pub fn is_512e(&self) -> bool {
        *self == Self::default() || "512e".parse().is_ok_and(|usual: Self| usual == *self)
    }

    fn figures(&self) -> [(&'static str, Option<ByteCount>); 11] {
        [
            ("logical", self.logical.map(BlockSize::bytes)),
            ("physical", self.physical),
            ("offset", self.offset),
            ("io-min", self.io_min),
            ("io-opt", self.io_opt),
            ("iu", self.indirection_unit),
            ("stripe", self.stripe),
            ("chunk", self.chunk),
            ("erase", self.erase_block),
            ("atomic", self.atomic),
            ("atomic-boundary", self.atomic_boundary),
        ]
    }

    /// The option that declares the same, after a space; empty if nothing is declared.
    pub fn option(&self) -> String {
        if let Some(file) = &self.measured {
            return format!(" --measured {}", quote_path(Path::new(file)));
        }
        let set = self.figures().into_iter().filter_map(|(key, size)| Some(format!("{key}={}", size?.get())));
        let words = set.collect::<Vec<_>>().join(",");
        if words.is_empty() { words } else { format!(" --assume {words}") }
    }

    /// Marks the declaration as measured by a probe, which saved it in `file`.
    #[must_use]
    pub fn measured(self, file: &str) -> Self {
        Self { measured: Some(file.to_owned()), ..self }
    }

    /// Overrules `topology` with every declared or measured figure.
    pub fn apply(&self, topology: &mut Topology) {
        let (source, why) = match self.measured {
            Some(_) => (Source::Measured, "the measured value is used"),
            None => (Source::Declared, "the declared value is used"),
        };
        if let Some(logical) = self.logical {
            topology.logical.overrule(logical, source.clone(), why);
            if topology.physical.value() < logical.bytes() {
                topology.physical.overrule(logical.bytes(), Source::Derived(AT_LEAST_LOGICAL), why);
            }
        }
        if let Some(physical) = self.physical {
            topology.physical.overrule(physical, source.clone(), why);
        }
        if let Some(offset) = self.offset {
            topology.alignment_offset.overrule(AlignmentOffset::Bytes(offset), source.clone(), why);
        }
        let optional = [
            (&mut topology.io_min, self.io_min),
            (&mut topology.io_opt, self.io_opt),
            (&mut topology.indirection_unit, self.indirection_unit),
            (&mut topology.chunk, self.chunk),
            (&mut topology.stripe, self.stripe),
            (&mut topology.erase_block, self.erase_block),
        ];
        for (figure, declared) in optional {
            if let Some(declared) = declared {
                overrule(figure, declared, source.clone(), why);
            }
        }
        if let Some(unit) = self.atomic {
            let boundary = self.atomic_boundary.unwrap_or(ByteCount::ZERO);
            let atomic = AtomicWrites { unit_min: unit, unit_max: unit, boundary };
            overrule(&mut topology.atomic, atomic, source.clone(), why);
        }
    }
}

fn overrule<T: Copy + PartialEq>(
    figure: &mut Option<Figure<T>>,
    value: T,
    source: Source,
    why: &'static str,
) {
    match figure {
        Some(figure) => figure.overrule(value, source, why),
        None => *figure = Some(Figure::new(value, source)),
    }
}

fn set<T>(key: &str, slot: &mut Option<T>, value: T) -> Result<(), AssumeError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(AssumeError::Twice(key.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_keys_are_read() {
        let mut topology = Topology::unknown();
        let assume: Assume = "physical=4096,offset=3584,iu=16KiB,erase=4MiB,atomic=16KiB".parse().unwrap();
        assume.apply(&mut topology);
        assert_eq!(topology.physical.value(), ByteCount::new(4096));
        assert_eq!(topology.phase(), ByteCount::new(3584));
        assert_eq!(topology.indirection_unit.unwrap().value(), ByteCount::new(16384));
        assert_eq!(topology.atomic.unwrap().value().unit_min, ByteCount::new(16384));
        let native: Assume = "4kn".parse().unwrap();
        assert_eq!(native.logical(), Some(BlockSize::B4096));
    }

    #[test]
    fn impossible_values_are_refused() {
        for text in [
            "physical=0",
            "physical=3000",
            "physical=12288",
            "logical=4096,physical=512",
            "offset=4096",
            "offset=100",
            "iu=8GiB",
            "stripe=-1",
            "512e,4kn",
            "iu=4KB",
            "nonsense",
            "key=1",
            "atomic-boundary=4096",
            "logical=1000",
            "atomic=12288",
        ] {
            assert!(text.parse::<Assume>().is_err(), "{text} was accepted");
        }
    }
}
