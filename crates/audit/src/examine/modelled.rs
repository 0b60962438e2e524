//! Modelled drives as targets, and as the drives that images are meant for.

use straddle_device::topology::{AlignmentOffset, Figure, Source, Topology};
use straddle_device::{Assume, AssumeError, DeviceKind, Identity, MemoryMedium, Target};
use straddle_drive::Profile;
use straddle_drive::profile::Body;
use straddle_units::{BlockSize, BlockSizeError, ByteCount};

/// Returns a modelled drive as it comes from the factory, with nothing written on it.
///
/// # Errors
///
/// If the drive's logical sector is not a block size.
pub fn blank_drive(
    profile: &Profile,
    assume: &Assume,
    logical: Option<BlockSize>,
) -> Result<Target, BlockSizeError> {
    let size = ByteCount::new(profile.claims.capacity);
    let mut topology = topology(profile)?;
    assume.apply(&mut topology);
    if let Some(logical) = logical {
        topology.logical.overrule(logical, Source::Declared, "the declared value is used");
    }
    Ok(Target {
        kind: DeviceKind::Modelled,
        topology,
        identity: Identity {
            model: Some(profile.claims.model.clone()),
            rotational: Some(profile.claims.rotational),
            ..Identity::default()
        },
        remarks: vec![format!("modelled: {}; the drive is empty", profile.title)],
        ..Target::image(Box::new(MemoryMedium::sparse(Vec::new(), size)))
    })
}

fn topology(profile: &Profile) -> Result<Topology, BlockSizeError> {
    const WHY: &str = "the drive's actual value is used, not the reported one";
    let (claims, sectors) = (&profile.claims, &profile.sectors);
    let size = |bytes: u64, key: &'static str| Figure::new(ByteCount::new(bytes), Source::Profile(key));
    let mut physical = size(claims.physical_sector, "claims.physical_sector_bytes");
    let claimed = AlignmentOffset::Bytes(ByteCount::new(claims.alignment_offset));
    let mut offset = Figure::new(claimed, Source::Profile("claims.alignment_offset_bytes"));
    let mut unit = None;
    match profile.body {
        Body::Disk(_) => {
            let truth = Source::Profile("sectors.physical_bytes");
            physical.overrule(ByteCount::new(sectors.physical), truth, WHY);
            let first = AlignmentOffset::Bytes(ByteCount::new(profile.first_boundary()));
            offset.overrule(first, Source::Profile("sectors.firmware_offset_bytes"), WHY);
        }
        Body::Ssd(_) => unit = Some(size(sectors.physical, "flash.indirection_unit_bytes")),
    }
    Ok(Topology {
        logical: Figure::new(
            BlockSize::new(claims.logical_sector)?,
            Source::Profile("claims.logical_sector_bytes"),
        ),
        physical,
        alignment_offset: offset,
        io_min: claims.minimum_io.map(|bytes| size(bytes, "claims.minimum_io_bytes")),
        io_opt: claims.optimal_io.map(|bytes| size(bytes, "claims.optimal_io_bytes")),
        indirection_unit: unit,
        ..Topology::unknown()
    })
}

/// Returns the topology to assume for an image that is meant for this drive.
///
/// # Errors
///
/// If the drive's sectors are not those of a device.
pub fn assume_drive(profile: &Profile) -> Result<Assume, AssumeError> {
    let logical = BlockSize::new(profile.claims.logical_sector).map_err(AssumeError::Logical)?;
    let unit = ByteCount::new(profile.sectors.physical);
    match profile.body {
        Body::Disk(_) => Assume::disk(logical, unit, ByteCount::new(profile.first_boundary())),
        Body::Ssd(_) => Assume::ssd(logical, ByteCount::new(profile.claims.physical_sector), unit),
    }
}
