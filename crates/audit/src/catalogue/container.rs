//! S07x: image containers.

use super::Definition;

pub(super) const CONTAINER_OFF: Definition = Definition {
    title: "image format misaligns guest blocks on the host",
    what: "The image format stores the guest's blocks at file offsets that are not on a physical sector \
           boundary.",
    why: "A dynamic VHD puts a 512-byte bitmap before each block; in sparse VMDK and old VDI files, the data \
          follows headers of arbitrary length. As a result, blocks that are aligned in the guest straddle \
          sector boundaries on the host.",
    cost: "Each 4 KiB guest write becomes two partial writes on the host. A user on NetApp's forum measured \
           that programs took about 18 % longer.",
    fix: "Convert the image to raw, qcow2, VHDX or a fixed VHD.",
    sources: &[
        "Microsoft Virtual Hard Disk Image Format Specification, Block Allocation Table and Data Blocks",
        "VMware Virtual Disk Format 1.1, overHead",
        "community.netapp.com, thread 60780 (about 18 % longer runs)",
    ],
};

pub(super) const CONTAINER_UNIT_SMALL: Definition = Definition {
    title: "image format allocates space in small units",
    what: "The image format's cluster or grain is smaller than the physical sector.",
    why: "Small clusters (qcow2 allows 512 bytes) scatter the data over the file in pieces smaller than a \
          physical sector.",
    cost: "The host does a read-modify-write for each newly written cluster.",
    fix: "Convert the image to one with larger clusters (qemu-img convert -o cluster_size=64k).",
    sources: &["QEMU docs/interop/qcow2.rst, cluster_bits"],
};

pub(super) const IMAGE_SIZE: Definition = Definition {
    title: "the image's size does not suit its storage",
    what: "The image's length is not a multiple of the sector size of the intended storage (--assume, \
           --logical), of the unit that a platform requires (--for), or of 512 bytes.",
    why: "Some image builders write the backup GPT (33 sectors of 512 bytes) right after the last partition, \
          or copy a file system of arbitrary length. qemu-img rounds the size of a VHD up to whole cylinders \
          unless force_size is set.",
    cost: "The incomplete last sector is inaccessible. QEMU (7.2) refuses to open the image for uncached \
           writing on the intended storage, and fastboot refuses to send it. Azure and Google Compute Engine \
           refuse to import the image.",
    fix: "Extend the image to a whole number of MiB, and move the backup GPT to its end (straddle plan \
          --repair --relocate-backup).",
    sources: &[
        "QEMU block.c: 'Image size is not a multiple of request alignment'",
        "https://github.com/kubevirt/containerized-data-importer/pull/1873 (QEMU), https://github.com/pengutronix/genimage/pull/133 (fastboot)",
        "https://learn.microsoft.com/powershell/module/az.compute/add-azvhd (Azure: a VHD of N * MiB + 512 bytes)",
        "https://docs.cloud.google.com/compute/docs/import/import-existing-image (Google: disk.raw in increments of 1 GB)",
    ],
};
