//! Who uses a disk: mounts, swap, devices on top, loop devices over an image.

use std::path::Path;

use straddle_device::live::{LiveDevice, Machine};
use straddle_device::sysfs::{Attributes, Directory};

/// One use, in words.
pub type Use = String;

/// Who uses the block device `name` or one of its `partitions`; and, as a use too, what could not be found out.
pub fn users_of_device(machine: &Machine, name: &str, partitions: &[String]) -> Vec<Use> {
    let mut uses = Vec::new();
    for name in std::iter::once(name).chain(partitions.iter().map(String::as_str)) {
        if let (Some(device), _) = machine.layers(name) {
            collect(&device, &mut uses);
        }
    }
    uses
}

fn collect(device: &LiveDevice, uses: &mut Vec<Use>) {
    let used = &device.used_by;
    uses.extend(
        used.mounts.iter().map(|mount| format!("{} is mounted at {}", device.name, mount.point.display())),
    );
    uses.extend(used.is_swap.then(|| format!("{} is swap", device.name)));
    uses.extend(device.holders.iter().map(|holder| format!("{} holds {}", holder.name, device.name)));
}

/// Which loop devices are over the file at `path`.
pub fn users_of_file(path: &Path) -> Vec<Use> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let over = |entry: std::fs::DirEntry| {
        let backing = Directory::new(entry.path()).text("loop/backing_file")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        (Path::new(&backing) == path).then(|| format!("it is the file behind /dev/{name}"))
    };
    devices.filter_map(Result::ok).filter_map(over).collect()
}
