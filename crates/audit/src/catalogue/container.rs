//! S07x: image containers.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const CONTAINER_OFF: Definition = Definition {
    code: Code::S070,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Container,
    title: "image format puts guest blocks off the host's sectors",
    what: "The image's container stores the guest's blocks at host offsets that are off a physical sector.",
    why: "A dynamic VHD puts a 512-byte bitmap before each block; sparse VMDK and old VDI files start their \
          data behind headers of any length. Aligned inside the guest, everything straddles on the host.",
    cost: "Each guest write of 4 KiB costs the host two partial ones: about 18 % longer runs were reported on NetApp's forum.",
    fix: "Convert the image: to raw, qcow2 or VHDX, or to a fixed VHD.",
    sources: &[
        "Microsoft Virtual Hard Disk Image Format Specification, Block Allocation Table and Data Blocks",
        "VMware Virtual Disk Format 1.1, overHead",
        "community.netapp.com, thread 60780 (about 18 % longer runs)",
    ],
};

pub(super) const CONTAINER_UNIT_SMALL: Definition = Definition {
    code: Code::S071,
    severity: Severity::Advice,
    kind: Kind::Granularity,
    about: About::Container,
    title: "image format allocates in small units",
    what: "The container's cluster or grain is smaller than the physical sector.",
    why: "A qcow2 of 512-byte clusters was possible; allocation then scatters parts of sectors.",
    cost: "Read-modify-writes on the host at each newly written cluster.",
    fix: "Convert with larger clusters (qemu-img convert -o cluster_size=64k).",
    sources: &["QEMU docs/interop/qcow2.rst, cluster_bits"],
};
