//! S08x: the running kernel, and unreadable bytes.

use super::Definition;

pub(super) const VIEWS_DISAGREE: Definition = Definition {
    title: "the kernel's view differs from the disk",
    what: "The partitions that the kernel uses differ from those on the disk.",
    why: "The table was changed while in use, and the kernel still uses the old version.",
    cost: "Data is written according to the old layout, but after the next boot it is read according to the \
           new layout.",
    fix: "Reboot, or have the kernel reread the table (partx -u, blockdev --rereadpt), before anything else is written.",
    sources: &["partx(8)", "blockdev(8), --rereadpt"],
};

pub(super) const UNREADABLE: Definition = Definition {
    title: "cannot be read",
    what: "The drive returns errors when the table or the contents of a partition are read.",
    why: "A sector is bad, a cable or enclosure is faulty, or the device below a mapping is gone.",
    cost: "Possibly data loss. The alignment of contents that cannot be read is not checked.",
    fix: "First save everything that is still readable (ddrescue). Then check the kernel's messages (dmesg) \
          and the drive's health (smartctl -a).",
    sources: &["read(2), EIO", "ddrescue(1)"],
};
