//! Opening images: files of this machine, and objects on servers. A compressed file is unpacked within limits; an
//! object, which would have to be fetched whole, is not.

use std::path::Path;

use straddle_units::ByteCount;

use super::{OpenError, Options, Target, Through, describe, open_for_reading};
use crate::address::Address;
use crate::claim::FileId;
use crate::image::{self, Access, Allowed, Foreign, Format, Opened, SectorSizes, UnpackError, raw_name};
use crate::medium::{FileMedium, Medium};
use crate::topology::{Figure, Source, Topology};

pub(super) fn open_image(path: &Path, options: &Options) -> Result<Target, OpenError> {
    let file = open_for_reading(path).map_err(OpenError::Io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    // The path may have been replaced since its type was checked.
    if !metadata.is_file() {
        return Err(OpenError::NotATarget(describe(&metadata)));
    }
    let size = ByteCount::new(metadata.len());
    if size == ByteCount::ZERO {
        return Err(OpenError::Empty);
    }

    let mut medium: Box<dyn Medium> = Box::new(FileMedium::new(file, size));
    let mut through = None;
    let mut format = format_of(medium.as_ref(), options);
    if let (Err(foreign), Some(limits)) = (format, options.read_through)
        && let Some(packing) = foreign.packing
    {
        let name = path.display().to_string();
        let command = foreign.command(&name);
        let file = open_for_reading(path).map_err(OpenError::Io)?;
        medium = image::unpack(file, packing, limits).map_err(|source| {
            // No other program can unpack a damaged file either.
            let helps = !matches!(source, UnpackError::Damaged { .. });
            OpenError::Unpack { what: foreign.what, source, command: command.clone().filter(|_| helps) }
        })?;
        if medium.is_empty() {
            return Err(OpenError::Empty);
        }
        format = format_of(medium.as_ref(), options);
        let unpacked = raw_name(&name);
        through = Some(Through { packing, unpacked, command: command.unwrap_or_default() });
    }
    let not_read = |foreign: &Foreign| {
        let command = match &through {
            Some(through) => {
                let line = foreign.command(&through.unpacked);
                line.map(|line| format!("{} && {line}", through.command))
            }
            None => foreign.command(&path.display().to_string()),
        };
        let within = through.as_ref().map(|through| through.packing.a_file());
        OpenError::NotRead { what: foreign.what, packing: foreign.packing, within, command }
    };
    let mut target = open_in(medium, format.map_err(not_read)?, path, options)?;
    (target.through, target.id) = (through, Some(FileId::of(&metadata)));
    Ok(target)
}

/// Opens the object at `address`, fetched by `medium`. [`OpenError::Whole`] if it is compressed.
pub fn open_object(
    medium: Box<dyn Medium>,
    address: Address,
    options: &Options,
) -> Result<Target, OpenError> {
    if medium.is_empty() {
        return Err(OpenError::Empty);
    }
    let fetch = address.fetch_command();
    let format = format_of(medium.as_ref(), options);
    if let Err(foreign) = format
        && foreign.packing.is_some()
    {
        return Err(OpenError::Whole { what: foreign.what, command: fetch });
    }
    let name = address.copy_name();
    let not_read = |foreign: &Foreign| {
        let command = fetch.zip(foreign.command(&name)).map(|(fetch, line)| format!("{fetch} && {line}"));
        OpenError::NotRead { what: foreign.what, packing: foreign.packing, within: None, command }
    };
    let mut target = open_in(medium, format.map_err(not_read)?, Path::new(&name), options)?;
    target.address = Some(address);
    options.declare(&mut target.topology);
    Ok(target)
}

fn format_of(medium: &dyn Medium, options: &Options) -> Result<Format, &'static Foreign> {
    options.format.map_or_else(|| Format::detect(medium), Ok)
}

/// Opens the disk that `medium` holds in `format`. Relative names in it start from the folder of `path`.
pub fn open_in(
    medium: Box<dyn Medium>,
    format: Format,
    path: &Path,
    options: &Options,
) -> Result<Target, OpenError> {
    let allowed =
        Allowed::new(&options.allow_backing).map_err(|(path, source)| OpenError::Allowed { path, source })?;
    let access = Access::new(path, &allowed);
    match image::open_as(format, medium, &access).map_err(OpenError::Image)? {
        Opened::Raw(medium) => Ok(Target::image(medium)),
        Opened::Image(image) => {
            if image.len() == ByteCount::ZERO {
                return Err(OpenError::Empty);
            }
            let (container, sectors) = (image.container().clone(), image.sectors());
            let remarks = image.remarks().to_vec();
            let mut target = Target { container: Some(container), remarks, ..Target::image(image) };
            if let Some(sectors) = sectors {
                adopt_sectors(&mut target.topology, sectors);
            }
            Ok(target)
        }
    }
}

fn adopt_sectors(topology: &mut Topology, sectors: SectorSizes) {
    let SectorSizes { logical, physical } = sectors;
    topology.logical = Figure::new(logical, Source::Container("VHDX metadata, logical sector size"));
    // It describes the guest's disk: 512 here does not justify a more lenient judgement.
    let source = Source::Container("VHDX metadata, physical sector size");
    if physical < topology.physical.value() {
        topology.physical.use_larger(physical, source);
    } else {
        topology.physical = Figure::new(physical, source);
    }
}
