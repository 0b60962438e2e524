//! DiskSim 4.0's parameter sets as profiles: drives that were measured in the laboratory, request by request.
//!
//! The parameters are read as DiskSim's reference manual defines them. A parameter that the model cannot
//! represent is an error that names it, unless it cannot matter to a drive that is given one request at a
//! time. A set is a `.parv` with the bus, the `.diskspecs` file that it sources (without a `.parv`, the one
//! of that name), the `.model` that this sources, and the `.seek` table that the `.model` names.

mod controller;
mod fields;
mod layout;
mod mechanics;
mod syntax;
#[cfg(test)]
mod tests;

use std::io;

use straddle_drive::disk::{GeometryError, SeekError};
use straddle_drive::profile::{Body, Claims, Profile, Sectors, Values};

use fields::Fields;
use syntax::{Block, Located, SyntaxError, Value};

/// The size of DiskSim's block, in bytes.
const BLOCK: u64 = 512;
/// The largest parameter file to read, in bytes.
pub(crate) const LARGEST_FILE: u64 = 4 << 20;

/// Why a parameter set cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("cannot read {file}")]
    Unreadable { file: String, source: io::Error },
    #[error("{file}:{line}: {named:?} is not a file in the same directory")]
    Elsewhere { file: String, line: usize, named: String },
    #[error("{file}:{line}: {message}")]
    Syntax { file: String, line: usize, message: String },
    #[error("{file}:{line}: the block has no {key:?}")]
    Missing { file: String, line: usize, key: String },
    #[error("{file}:{line}: {key} = {value}: {reason}")]
    Value { file: String, line: usize, key: String, value: String, reason: String },
    #[error("{file}: the zones")]
    Geometry { file: String, source: GeometryError },
    #[error("{file}: the seek times")]
    Seek { file: String, source: SeekError },
}

/// Imports the drive of `stem.parv`, or of `stem.diskspecs` if there is no such file. `read` returns the text
/// of a file of the set, which has at most [`LARGEST_FILE`] bytes.
pub(crate) fn import(stem: &str, read: &dyn Fn(&str) -> io::Result<String>) -> Result<Profile, ImportError> {
    let folder = Folder { read };
    let parv = format!("{stem}.parv");
    let has_parv = !matches!(read(&parv), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let parv = has_parv.then_some(parv);
    let (file, specs) = folder.specs(stem, parv.as_deref())?;
    let specs = Fields::new(&file, &specs);
    let (model_file, model) = folder.sourced(&specs, "Model")?;
    let model = Fields::new(&model_file, &model);

    let geometry = layout::read(&model)?;
    let mechanics = mechanics::read(&model, &folder, geometry.cylinders())?;
    let bus = folder.bus(parv.as_deref())?;
    let controller = controller::read(&specs, bus)?;
    let held = geometry.sectors();
    let claimed = u64::from(model.whole("Block count", 1, u32::MAX)?);
    if claimed > held {
        return Err(model.impossible("Block count", format!("the zones hold only {held}")));
    }
    let capacity = claimed * BLOCK;
    let name = specs.name().trim_end_matches("_validate").to_owned();
    Ok(Profile::of_checked(Values {
        title: format!("{name}, from DiskSim's parameters"),
        notes: None,
        claims: Claims {
            model: name.clone(),
            capacity,
            logical_sector: BLOCK,
            physical_sector: BLOCK,
            alignment_offset: 0,
            minimum_io: None,
            optimal_io: None,
            rotational: true,
            discard_granularity: None,
        },
        name,
        sectors: Sectors { physical: BLOCK, firmware_offset: 0 },
        interface: controller.interface,
        body: Body::Disk(Box::new(controller.disk(geometry, mechanics))),
        fit: None,
        figures: Vec::new(),
        variants: Vec::new(),
        files: Vec::new(),
    }))
}

struct Folder<'a> {
    read: &'a dyn Fn(&str) -> io::Result<String>,
}

fn refused(file: &str, error: SyntaxError) -> ImportError {
    ImportError::Syntax { file: file.to_owned(), line: error.line, message: error.message }
}

/// Milliseconds that a block takes on the bus.
#[derive(Clone, Copy, Debug, Default)]
struct Bus {
    read: f64,
    write: f64,
}

impl Folder<'_> {
    fn text(&self, file: &str) -> Result<String, ImportError> {
        (self.read)(file).map_err(|source| ImportError::Unreadable { file: file.to_owned(), source })
    }

    fn blocks(&self, file: &str) -> Result<Vec<Block>, ImportError> {
        let text = self.text(file)?;
        syntax::blocks(&text).map_err(|error| refused(file, error))
    }

    fn block(&self, file: &str, kind: &str) -> Result<Block, ImportError> {
        let blocks = self.blocks(file)?;
        let found = blocks.into_iter().find(|block| block.kind == kind);
        found.ok_or_else(|| ImportError::Missing { file: file.to_owned(), line: 1, key: kind.to_owned() })
    }

    /// Returns the block that `key` holds or sources, and the file that contains it.
    fn sourced(&self, fields: &Fields<'_>, key: &str) -> Result<(String, Block), ImportError> {
        let Located { line, value } = fields.get(key)?;
        match value {
            Value::Block(block) => Ok((fields.file().to_owned(), block.clone())),
            Value::Source(named) => {
                let named = self.named(fields.file(), *line, named)?;
                let block = self.block(named, "dm_disk")?;
                Ok((named.to_owned(), block))
            }
            _ => Err(fields.impossible(key, "must be a block, or source FILE")),
        }
    }

    /// Checks that `named`, which `file` refers to, is a plain name in the same folder.
    fn named<'n>(&self, file: &str, line: usize, named: &'n str) -> Result<&'n str, ImportError> {
        let plain = !named.contains(['/', '\\', '\0']) && !matches!(named, "." | "..");
        let elsewhere = || ImportError::Elsewhere { file: file.to_owned(), line, named: named.to_owned() };
        if plain { Ok(named) } else { Err(elsewhere()) }
    }

    /// Returns the drive's block and the file that contains it: the `.parv` itself, the first file with a
    /// drive that it sources, or the `.diskspecs` of the same name.
    fn specs(&self, stem: &str, parv: Option<&str>) -> Result<(String, Block), ImportError> {
        let kind = "disksim_disk";
        if let Some(parv) = parv {
            if let Some(own) = self.blocks(parv)?.into_iter().find(|block| block.kind == kind) {
                return Ok((parv.to_owned(), own));
            }
            let sources = syntax::sources(&self.text(parv)?).map_err(|error| refused(parv, error))?;
            for (line, source) in sources {
                let named = self.named(parv, line, &source)?;
                if let Some(block) = self.blocks(named)?.into_iter().find(|block| block.kind == kind) {
                    return Ok((named.to_owned(), block));
                }
            }
        }
        let file = format!("{stem}.diskspecs");
        let block = self.block(&file, kind)?;
        Ok((file, block))
    }

    /// Returns the times of the slowest bus that the `.parv` puts between host and drive; zero without one.
    fn bus(&self, parv: Option<&str>) -> Result<Bus, ImportError> {
        let Some(file) = parv else { return Ok(Bus::default()) };
        let blocks = self.blocks(file)?;
        let mut bus = Bus::default();
        for block in blocks.iter().filter(|block| block.kind == "disksim_bus") {
            let fields = Fields::new(file, block);
            bus.read = bus.read.max(fields.milliseconds("Read block transfer time")?);
            bus.write = bus.write.max(fields.milliseconds("Write block transfer time")?);
        }
        Ok(bus)
    }
}
