//! S08x: the running kernel, and unreadable bytes.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const VIEWS_DISAGREE: Definition = Definition {
    code: Code::S080,
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::Kernel,
    title: "the kernel's view differs from the disk",
    what: "What the kernel has in use (partitions, mappings, RAID) differs from what is written on the disk.",
    why: "The table or the metadata was changed while in use, and the kernel still uses the old one.",
    cost: "Data are written by the old layout, and read by the new one after the next boot.",
    fix: "Reboot, or have the kernel reread the table (partx -u, blockdev --rereadpt), before anything else is written.",
    sources: &["partx(8)", "blockdev(8), --rereadpt"],
};

pub(super) const UNREADABLE: Definition = Definition {
    code: Code::S081,
    severity: Severity::Error,
    kind: Kind::Unreadable,
    about: About::Medium,
    title: "cannot be read",
    what: "The drive gives no bytes where the table or the content of a partition stands.",
    why: "A sector went bad, a cable or an enclosure fails, or the device behind a mapping is gone. What is there is not \
          known, so nothing is said of its alignment.",
    cost: "Perhaps the data.",
    fix: "Look at the kernel's messages (dmesg) and the drive's health (smartctl -a); copy what can still be read \
           (ddrescue) before anything else.",
    sources: &["read(2), EIO", "ddrescue(1)"],
};
