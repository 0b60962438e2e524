//! The content of a live device: its file system, recognised by its own bytes, and what uses it.

use straddle_units::BlockSize;

use super::Standing;
use crate::fs;
use crate::model::content::{Content, FsKind};
use crate::model::layer::{Facts, Layer};
use crate::model::view::View;
use crate::reader::Reader;
use crate::signature;

fn of_mount(name: &str) -> Content {
    let known = match name {
        "udf" | "ocfs2" | "gfs2" | "bcachefs" => signature::named(name),
        "ntfs3" => Some(Content::Live("ntfs3")),
        _ => FsKind::mounted(name).map(Content::FileSystem),
    };
    known.unwrap_or(Content::Live("filesystem"))
}

pub(super) fn layer(place: &Standing<'_>) -> Option<Layer> {
    let usage = &place.device.used_by;
    let (found, mut remarks) = match read(place) {
        Ok(found) => (found, Vec::new()),
        Err(why) => (None, vec![format!("the contents cannot be read: {why}")]),
    };
    let mount = usage.mounts.first();
    let mounted = mount.map(|mount| of_mount(&mount.kind));
    let in_use = mounted.or_else(|| usage.is_swap.then_some(FsKind::Swap.into()));
    let mut layer = found.or_else(|| Some(place.layer(in_use?, Facts::Opaque)))?;
    if layer.kind.is_member() && in_use.is_none() {
        remarks.push("the device is not active, so its contents were not read".to_owned());
    }
    if let Some(mount) = mount {
        layer.name = straddle_device::shown::printable(&mount.point.to_string_lossy());
    }
    Some(Layer { remarks, ..layer })
}

fn read(place: &Standing<'_>) -> Result<Option<Layer>, String> {
    let medium = place.device.open()?;
    let reader = Reader::open(&medium, BlockSize::B512).map_err(|error| error.to_string())?;
    let Some(content) = reader.whole() else { return Ok(None) };
    let mut layer = place.layer(content, Facts::Opaque);
    if let Content::FileSystem(kind) = content {
        fs::fill_in(&mut layer, kind, &View::of_drive(&medium));
    }
    Ok(Some(layer))
}
