//! The content of a live device: its file system, recognised by its own bytes, and what uses it.

use std::path::Path;

use straddle_device::Medium;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::Standing;
use crate::fs;
use crate::model::content::{Content, FsKind};
use crate::model::layer::{Facts, FileSystem, Layer};
use crate::model::view::View;
use crate::reader::Reader;
use crate::signature;

/// Maps the kernel's name of a mounted file system to its content.
fn of_mount(name: &str) -> Content {
    let known = match name {
        // blkid uses the same names.
        "udf" | "ocfs2" | "gfs2" | "bcachefs" => signature::named(name),
        "ntfs3" => Some(Content::Live("ntfs3")),
        _ => FsKind::mounted(name).map(Content::FileSystem),
    };
    known.unwrap_or(Content::Live("filesystem"))
}

/// Returns the layer of what the device holds and what uses it; `None` if neither its bytes nor the kernel
/// show it.
pub(super) fn layer(place: &Standing<'_>) -> Option<Layer> {
    let device = place.device;
    let (found, mut remarks) = match read(place) {
        Ok(found) => (found, Vec::new()),
        Err(why) => (None, vec![format!("its content cannot be read: {why}")]),
    };
    let mount = device.used_by.mounts.first();
    let mounted = mount.map(|mount| of_mount(&mount.kind));
    let in_use = mounted.or_else(|| device.used_by.is_swap.then_some(FsKind::Swap.into()));
    let kind = found.as_ref().map(|(kind, ..)| *kind).or(in_use)?;
    let uuid = found.as_ref().map_or_else(String::new, |(_, uuid, _)| uuid.clone());
    let (facts, label) = match found.and_then(|(.., figures)| figures) {
        Some((figures, label)) => (Facts::FileSystem(figures), label),
        None => (Facts::Opaque, String::new()),
    };
    if kind.is_member() && in_use.is_none() {
        remarks.push("not active: its contents are not read".to_owned());
    }
    let name = mount.map_or(label, |mount| printable(&mount.point));
    let children = loops(place);
    Some(Layer { name, uuid, children, remarks, ..place.layer(kind, facts) })
}

/// The recognised content and its UUID, and for a file system its figures and label.
type Found = Option<(Content, String, Option<(FileSystem, String)>)>;

/// Identifies the content by the first bytes of the device's own node.
fn read(place: &Standing<'_>) -> Result<Found, String> {
    let medium = place.device.open()?;
    let reader = Reader::open(&medium, BlockSize::B512).map_err(|error| error.to_string())?;
    let kind = signature::identify(&reader, Span::first(medium.len()));
    let view = View::of_drive(&medium);
    Ok(kind.map(|kind| match kind {
        Content::FileSystem(fs) => (kind, fs::uuid(fs, &view), fs::file_system(fs, &view)),
        Content::Volume(_)
        | Content::LogicalVolume
        | Content::Table
        | Content::Named(_)
        | Content::Live(_) => (kind, String::new(), None),
    }))
}

/// Returns the loop devices over files of the file system. The position of these files in it is not
/// determined.
fn loops(place: &Standing<'_>) -> Vec<Layer> {
    let used = place.device.used_by.loops.iter();
    let layers = used.filter_map(|used| {
        Some(Layer {
            name: format!("{} over {}", used.name, printable(&used.file)),
            below: Span::new(ByteOffset::new(used.offset), ByteCount::new(used.size))?,
            drive: None,
            remarks: vec!["the location of its file in the file system is not traced".to_owned()],
            ..place.layer(Content::Live("loop"), Facts::Opaque)
        })
    });
    layers.collect()
}

/// Escapes a path for printing.
fn printable(path: &Path) -> String {
    straddle_device::shown::printable(&path.to_string_lossy())
}
