//! What a live device holds itself: its file system, by its own bytes, and who uses that.

use std::path::Path;

use straddle_device::Medium;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::Place;
use crate::fs;
use crate::model::content::{Content, FsKind};
use crate::model::layer::{Facts, FileSystem, Layer};
use crate::model::view::View;
use crate::reader::Reader;
use crate::signature;

/// The file system that the kernel calls `name` where it is mounted.
fn of_mount(name: &str) -> Content {
    let known = match name {
        // The names of blkid too.
        "udf" | "ocfs2" | "gfs2" | "bcachefs" => signature::named(name),
        "ntfs3" => Some(Content::Live("ntfs3")),
        _ => FsKind::from_name(name).map(Content::FileSystem),
    };
    known.unwrap_or(Content::Live("filesystem"))
}

/// What the device holds, with what uses it; `None` when neither its bytes nor the kernel say.
pub(super) fn layer(place: &Place<'_>) -> Option<Layer> {
    let device = place.device;
    let (found, mut remarks) = match read(place) {
        Ok(found) => (found, Vec::new()),
        Err(why) => (None, vec![format!("its content cannot be read: {why}")]),
    };
    let mount = device.used_by.mounts.first();
    let told = mount.map(|mount| of_mount(&mount.kind));
    let told = told.or_else(|| device.used_by.is_swap.then_some(FsKind::Swap.into()));
    let kind = found.as_ref().map(|(kind, ..)| *kind).or(told)?;
    let uuid = found.as_ref().map_or_else(String::new, |(_, uuid, _)| uuid.clone());
    let (facts, label) = match found.and_then(|(.., figures)| figures) {
        Some((figures, label)) => (Facts::FileSystem(figures), label),
        None => (Facts::Opaque, String::new()),
    };
    if kind.is_member() && told.is_none() {
        remarks.push("not set up: what is in it is not followed".to_owned());
    }
    let name = mount.map_or(label, |mount| printable(&mount.point));
    let children = loops(place);
    Some(Layer { name, uuid, children, remarks, ..place.layer(kind, facts) })
}

/// What was read: what it is and its UUID, with the figures and the label of a file system.
type Found = Option<(Content, String, Option<(FileSystem, String)>)>;

/// Reads the first bytes of the device's own node.
fn read(place: &Place<'_>) -> Result<Found, String> {
    let medium = place.device.open()?;
    let reader = Reader::open(&medium, BlockSize::B512).map_err(|error| error.to_string())?;
    let kind = signature::identify(&reader, Span::first(medium.len()));
    let view = View::of_drive(&medium);
    Ok(kind.map(|kind| match kind {
        Content::FileSystem(fs) => (kind, fs::uuid(fs, &view), fs::file_system(fs, &view)),
        _ => (kind, String::new(), None),
    }))
}

/// Loop devices over files of the file system. Where a file lies in it is not asked.
fn loops(place: &Place<'_>) -> Vec<Layer> {
    let used = place.device.used_by.loops.iter();
    let layers = used.filter_map(|used| {
        Some(Layer {
            name: format!("{} over {}", used.name, printable(&used.file)),
            below: Span::new(ByteOffset::new(used.offset), ByteCount::new(used.size))?,
            drive: None,
            remarks: vec!["where its file lies in the file system is not followed".to_owned()],
            ..place.layer(Content::Live("loop"), Facts::Opaque)
        })
    });
    layers.collect()
}

/// A path as it is printed.
fn printable(path: &Path) -> String {
    straddle_device::shown::printable(&path.to_string_lossy())
}
