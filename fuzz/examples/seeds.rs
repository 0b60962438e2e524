//! Converts real images and real attributes to inputs for the fuzz targets; called by `fuzz/make-seeds`.
//!
//!     seeds image FLAGS BLOCKS FILE    an image, for gpt and mbr, to stdout (numbers as in `Disk`)
//!     seeds layers FLAGS BLOCKS FILE   the same, reduced to the parts of the image that are read
//!     seeds container FLAGS FILE       the same for an image in a container
//!     seeds sysfs DIR                  a directory of sysfs (…/sys/block/NAME), for sysfs, to stdout

use std::error::Error;
use std::io::Write;
use std::path::Path;

use straddle_device::DeviceKind;
use straddle_device::sysfs::{Attributes, Directory};
use straddle_fuzz::{Disk, KINDS, Map, NAMES};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let bytes = match words[..] {
        ["image", flags, blocks, file] => {
            Disk::encode(&std::fs::read(file)?, flags.parse()?, blocks.parse()?)
        }
        ["layers", flags, blocks, file] => {
            let disk = Disk::encode(&std::fs::read(file)?, flags.parse()?, blocks.parse()?);
            trim(&disk, straddle_fuzz::layers_say)
        }
        ["container", flags, file] => {
            let disk = Disk::encode(&std::fs::read(file)?, flags.parse()?, 0);
            trim(&disk, straddle_fuzz::image_says)
        }
        ["sysfs", dir] => sysfs(Path::new(dir)),
        _ => return Err("seeds image FLAGS BLOCKS FILE, or seeds sysfs DIR".into()),
    };
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}

/// Leaves out every patch without which `says` returns the same: first many at once, then one by one.
fn trim(data: &[u8], says: fn(&[u8]) -> String) -> Vec<u8> {
    let said = says(data);
    let (head, mut patches) = Disk::patches(data);
    let mut step = patches.len().next_power_of_two();
    while step > 0 {
        let mut at = 0;
        while at < patches.len() {
            let end = patches.len().min(at + step);
            let rest = [&patches[..at], &patches[end..]].concat();
            if says(&[&[head], &rest[..]].concat().concat()) == said {
                patches = rest;
            } else {
                at = end;
            }
        }
        step /= 2;
    }
    [&[head], &patches[..]].concat().concat()
}

fn sysfs(dir: &Path) -> Vec<u8> {
    let device = Directory::new(dir.to_owned());
    let kind = DeviceKind::of(dir.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    let index = KINDS.iter().position(|known| *known == kind).unwrap_or(0);
    let mut bytes = vec![u8::try_from(index).unwrap_or(0)];
    for name in NAMES {
        bytes.extend(device.bytes(name).and_then(|value| Map::record(name, &value)).unwrap_or_default());
    }
    let partitions =
        device.list("").into_iter().filter(|name| device.bytes(&format!("{name}/partition")).is_some());
    for (index, name) in partitions.enumerate() {
        for attribute in ["partition", "start", "size"] {
            let value = device.bytes(&format!("{name}/{attribute}")).unwrap_or_default();
            bytes.extend(Map::record(&format!("p{index}/{attribute}"), &value).unwrap_or_default());
        }
    }
    bytes
}
