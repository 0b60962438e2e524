//! How to recreate a layer with its data on a boundary, in words where one command cannot (several members, volumes).

use straddle_layout::layer::{Facts, Layer, Luks};
use straddle_layout::{Content, VolumeKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, KIB, MIB};

use crate::finding::{Command, Fix, Risk};

const LUKS2_DATA: ByteOffset = ByteOffset::new(16 * MIB);

/// Of vgcreate, and the unit of extents that are not a power of two.
const EXTENT: ByteOffset = ByteOffset::new(4 * MIB);
const EXTENT_GRAIN: ByteCount = ByteCount::new(128 * KIB);

const CHUNK: ByteCount = ByteCount::new(512 * KIB);

pub(crate) fn on_boundary(label: &str, layer: &Layer, boundary: Boundary) -> Fix {
    let pure = Boundary::multiples_of(boundary.size());
    // With the smallest multiple that is at least `least`, the layer adds no misalignment.
    let multiple = |least: ByteOffset| {
        pure.and_then(|boundary| boundary.ceil(least)).unwrap_or(ByteOffset::new(boundary.size().get())).get()
    };
    let unit = multiple(ByteOffset::new(MIB));
    let (kib, sectors) = (unit / KIB, unit / 512);
    match &layer.facts {
        Facts::Md(_) => Fix::advice(format!(
            "recreate the array on all its members with mdadm --create --data-offset={kib}K, and restore its \
             contents"
        )),
        Facts::Pv(_) => Fix::advice(format!(
            "move its extents to another physical volume (vgextend, pvmove, vgreduce), recreate this one \
             with pvcreate --dataalignment {kib}k --dataalignmentoffset 0, and move the extents back"
        )),
        Facts::Luks(luks) if luks.version == 1 => destroying(
            "cryptsetup",
            format!("cryptsetup luksFormat --type luks1 --align-payload {sectors} DEVICE"),
        ),
        Facts::Luks(_) => destroying(
            "cryptsetup",
            format!("cryptsetup luksFormat --type luks2 --offset {} DEVICE", multiple(LUKS2_DATA) / 512),
        ),
        Facts::Lv(_) => {
            let extent = multiple(EXTENT);
            if extent.is_power_of_two() || ByteCount::new(extent).is_multiple_of(EXTENT_GRAIN) {
                Fix::advice(format!(
                    "copy the volume to a group whose extent size is a multiple of {} bytes (vgcreate \
                     --physicalextentsize {}k --dataalignment {kib}k)",
                    boundary.size().get(),
                    extent / KIB
                ))
            } else {
                Fix::advice(format!(
                    "none: LVM supports no extent size that is a multiple of {} bytes",
                    boundary.size().get()
                ))
            }
        }
        Facts::Mapped(_) if layer.kind == Content::Volume(VolumeKind::Bcache) => Fix::advice(format!(
            "recreate the backing device with make-bcache --data-offset {sectors} -B, and restore its \
             contents"
        )),
        Facts::Table(_) => Fix::advice(format!(
            "move {label} to a multiple of {unit} bytes, relative to the device that holds its table"
        )),
        Facts::Mapped(_) | Facts::FileSystem(_) | Facts::Opaque => {
            Fix::advice(format!("recreate {label} with its data at a multiple of {unit} bytes"))
        }
    }
}

fn destroying(tool: &'static str, line: String) -> Fix {
    Fix {
        summary: "recreate the layer with its data on a boundary, and restore its contents".to_owned(),
        commands: vec![Command::other(tool, line)],
        risk: Some(Risk::Destroys),
        caution: Some("replace DEVICE with the device that holds the layer".to_owned()),
    }
}

pub(crate) fn larger_chunk(chunk: ByteCount, unit: ByteCount) -> Fix {
    if chunk == CHUNK || !CHUNK.is_multiple_of(unit) {
        return Fix::advice(format!(
            "recreate the array with a chunk size that is a multiple of {} bytes, and restore its contents",
            unit.get()
        ));
    }
    Fix::advice(
        "back up, then reshape the array to a larger chunk size (mdadm --grow --chunk=512 with \
         --backup-file), which rewrites the whole array",
    )
}

pub(crate) fn larger_luks_sector(luks: &Luks, len: ByteCount, physical: ByteCount) -> Fix {
    let sector = physical.get().min(4096);
    if luks.version == 1 {
        return Fix::advice(
            "none for LUKS1, whose sectors are always 512 bytes; convert the container to LUKS2 first \
             (cryptsetup convert)",
        );
    }
    if luks.sector_size.get() >= sector {
        return Fix::advice("none: LUKS2 sectors are at most 4096 bytes");
    }
    if !luks.is_plain {
        return Fix::advice(format!(
            "none in place: cryptsetup cannot change the sector size of a container that has an integrity \
             profile or is being re-encrypted. Recreate the container with --sector-size {sector}, and \
             restore its contents"
        ));
    }
    // cryptsetup requires both to be whole sectors (`check_sector_size`, lib/luks2/luks2_reencrypt.c).
    let unit = ByteCount::new(sector);
    let payload = luks.payload.map_or(ByteCount::ZERO, |payload| ByteCount::new(payload.get()));
    if !payload.is_multiple_of(unit) {
        return Fix::advice(format!(
            "none in place: cryptsetup refuses {sector}-byte sectors because the data starts at byte {} of \
             the container's device. Recreate the container, and restore its contents",
            payload.get()
        ));
    }
    let rest = luks.size.unwrap_or(len).remainder(unit);
    if rest != ByteCount::ZERO {
        return Fix::advice(format!(
            "cryptsetup refuses {sector}-byte sectors because the container's device ends inside such a \
             sector. Back up, make sure that the contents do not use the last {0} bytes (if they do, shrink \
             them), close the container, and shrink the device by {0} bytes; then run check again to get the \
             command",
            rest.get()
        ));
    }
    Fix {
        summary: format!("re-encrypt with {sector}-byte sectors"),
        commands: vec![Command::other(
            "cryptsetup",
            format!("cryptsetup reencrypt --sector-size {sector} DEVICE"),
        )],
        risk: Some(Risk::Backup),
        caution: Some(format!(
            "open the container first. The file system in it must have blocks of at least {sector} bytes, or \
             it cannot be mounted afterwards. Its size must be a multiple of {sector} bytes; replace DEVICE \
             with the device that holds the container"
        )),
    }
}

#[cfg(test)]
mod tests {
    use straddle_units::Span;

    use super::*;

    fn luks(version: u16) -> Layer {
        let facts = Facts::Luks(Luks { version, ..Luks::default() });
        Layer::new(VolumeKind::Luks.into(), facts, Span::first(ByteCount::new(1 << 30)), None)
    }

    #[test]
    fn every_figure_is_on_the_boundary_it_is_for() {
        // A power of two, stripes of three and five data members, and one larger than the data offset of
        // LUKS2.
        for size in [4096, 16 << 10, 192 << 10, 1_536 << 10, 320 << 10, 80 << 20] {
            let boundary = Boundary::multiples_of(ByteCount::new(size)).unwrap();
            for version in [1, 2] {
                let fix = on_boundary("", &luks(version), boundary);
                let line = &fix.commands[0].line;
                let mut words =
                    line.split(' ').skip_while(|word| !matches!(*word, "--offset" | "--align-payload"));
                let sectors: u64 = words.nth(1).unwrap().parse().unwrap();
                assert!((sectors * 512).is_multiple_of(size), "{line} for {size}");
                // The header of LUKS2 takes 16 MiB.
                assert!(version == 1 || sectors >= 32768, "{line}");
                assert_eq!(fix.risk, Some(Risk::Destroys));
            }
        }
    }

    #[test]
    fn what_changes_nothing_is_no_command() {
        let sector = |bytes, version| Luks {
            version,
            sector_size: ByteCount::new(bytes),
            is_plain: true,
            ..Luks::default()
        };
        let lines = |luks: &Luks, physical| {
            larger_luks_sector(luks, ByteCount::new(1 << 30), ByteCount::new(physical)).commands.len()
        };
        assert_eq!(lines(&sector(512, 2), 4096), 1);
        assert_eq!(lines(&sector(512, 1), 4096), 0);
        assert_eq!(lines(&sector(4096, 2), 16384), 0);
        // An integrity profile.
        assert_eq!(lines(&Luks { is_plain: false, ..sector(512, 2) }, 4096), 0);
    }

    /// cryptsetup accepts whole sectors only, both for the device and for the size in the header.
    #[test]
    fn a_container_that_ends_inside_a_larger_sector_is_made_smaller_first() {
        let whole = 1_u64 << 30;
        for (len, size, payload, command) in [
            (whole, None, 16 << 20, true),
            (whole + 512, None, 16 << 20, false),
            (whole + 3584, None, 16 << 20, false),
            (whole + 512, Some(4096), 16 << 20, true),
            (whole, Some(4608), 16 << 20, false),
            (whole, None, (16 << 20) + 512, false),
        ] {
            let luks = Luks {
                version: 2,
                sector_size: ByteCount::new(512),
                payload: Some(ByteOffset::new(payload)),
                size: size.map(ByteCount::new),
                is_plain: true,
            };
            let fix = larger_luks_sector(&luks, ByteCount::new(len), ByteCount::new(4096));
            assert_eq!(!fix.commands.is_empty(), command, "{len} {size:?} {payload}: {}", fix.summary);
        }
    }
}
