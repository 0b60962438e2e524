//! Volumes built by hand, independently of the code under test.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use std::sync::atomic::{AtomicU64, Ordering};

use straddle_device::{Medium, ReadError};
use straddle_layout::layer::Layer;
use straddle_layout::read_layers;
use straddle_layout::view::View;
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::tests::common::put;

/// The layers on the whole of a medium.
pub(crate) fn layers(medium: &dyn Medium) -> Option<Layer> {
    let whole = Span::new(ByteOffset::ZERO, medium.len()).expect("a medium has an end");
    read_layers(&View::of_drive(medium), whole, None)
}

/// A layer and all layers above it.
pub(crate) fn all(layer: &Layer) -> Vec<&Layer> {
    let mut layers = vec![layer];
    layers.extend(layer.children.iter().flat_map(all));
    layers
}

pub(crate) fn remarked(layer: &Layer, text: &str) -> bool {
    layer.remarks.iter().any(|remark| remark.contains(text))
}

/// A medium that counts the bytes read from it.
pub(crate) struct Counted<M> {
    medium: M,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<M> Counted<M> {
    pub(crate) fn new(medium: M) -> Self {
        Self { medium, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl<M: Medium> Medium for Counted<M> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.medium.read_at(at, buf)
    }
}

/// LVM's checksum, computed bit by bit.
pub(crate) fn lvm_crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

pub(crate) const UUID: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A physical volume whose metadata area of `area` bytes at 4096 holds `text` at `offset`, with a recorded
/// size of `size` bytes.
pub(crate) fn pv(text: &str, area: u64, offset: u64, size: u64) -> Vec<u8> {
    let mut image = vec![0; 2 << 20];
    let mut label = vec![0; 512];
    put(&mut label, 0, b"LABELONE");
    put(&mut label, 8, &1u64.to_le_bytes());
    put(&mut label, 20, &32u32.to_le_bytes());
    put(&mut label, 24, b"LVM2 001");
    put(&mut label, 32, UUID);
    for (at, value) in [(64, 2 * MIB), (72, MIB), (80, 0), (88, 0), (96, 0), (104, 4096), (112, area)] {
        put(&mut label, at, &u64::to_le_bytes(value));
    }
    let sum = lvm_crc(&label[20..]);
    put(&mut label, 16, &sum.to_le_bytes());
    put(&mut image, 512, &label);
    let mut header = vec![0; 512];
    put(&mut header, 4, b" LVM2 x[5A%r0N*>");
    put(&mut header, 20, &1u32.to_le_bytes());
    for (at, value) in [(24, 4096), (32, area), (40, offset), (48, size)] {
        put(&mut header, at, &u64::to_le_bytes(value));
    }
    put(&mut header, 56, &lvm_crc(text.as_bytes()).to_le_bytes());
    let sum = lvm_crc(&header[4..]);
    put(&mut header, 0, &sum.to_le_bytes());
    put(&mut image, 4096, &header);
    for (index, byte) in text.bytes().enumerate() {
        let at = offset + index as u64;
        let at = if at < area { at } else { at - area + 512 };
        if let Some(place) = usize::try_from(4096 + at).ok().and_then(|at| image.get_mut(at)) {
            *place = byte;
        }
    }
    image
}

pub(crate) fn plain_pv(text: &str) -> Vec<u8> {
    pv(text, MIB - 4096, 512, text.len() as u64)
}

/// The metadata of a group with the logical volumes `volumes`.
pub(crate) fn group(volumes: &str) -> String {
    format!(
        "# generated\nvg {{ extent_size = 8 physical_volumes {{ pv0 {{ id = \"012345-6789-abcd-efgh-ijkl-mnop-qrstuv\"\n\
         pe_start = 2048 pe_count = 256 }} pv1 {{ id = \"x\" pe_start = 1 pe_count = 1 }} }}\n\
         logical_volumes {{ {volumes} }} }}\ndescription = \"a \\\"quoted\\\" text # no comment\"\n"
    )
}

/// A visible logical volume with one segment of `extents` extents.
pub(crate) fn volume(name: &str, extents: u64, segment: &str) -> String {
    format!(
        "{name} {{ status = [\"READ\", \"VISIBLE\"] segment_count = 1\n\
         segment1 {{ start_extent = 0 extent_count = {extents} {segment} }} }}\n"
    )
}

pub(crate) const LINEAR: &str = "type = \"striped\" stripe_count = 1 stripes = [ \"pv0\", 3 ]";

/// An md 1.x superblock of a RAID1 with `sectors` sectors from sector `data` on; `at` is its own position.
pub(crate) fn md_superblock(at: u64, data: u64, sectors: u64) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let words: [(usize, u32); 6] = [(0, 0xa92b_4efc), (4, 1), (72, 1), (92, 2), (220, 128), (256, 0)];
    for (at, value) in words {
        put(&mut block, at, &value.to_le_bytes());
    }
    for (offset, value) in [(80, sectors), (128, data), (136, sectors), (144, at / 512)] {
        put(&mut block, offset, &u64::to_le_bytes(value));
    }
    put(&mut block, 32, b"host:name");
    let sum: u64 = block[..512]
        .chunks(4)
        .map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("4 bytes"))))
        .sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).expect("a small sum");
    put(&mut block, 216, &sum.to_le_bytes());
    block
}

/// A medium of 8 MiB with a LUKS2 header of `size` bytes that has this JSON.
pub(crate) fn luks2(json: &[u8], size: u64) -> Vec<u8> {
    let mut image = vec![0; 8 << 20];
    for (magic, at) in [(b"LUKS\xBA\xBE", 0), (b"SKUL\xBA\xBE", usize::try_from(size).expect("a small size"))]
    {
        put(&mut image, at, magic);
        put(&mut image, at + 6, &2u16.to_be_bytes());
        put(&mut image, at + 8, &size.to_be_bytes());
        put(&mut image, at + 256, &(at as u64).to_be_bytes());
        put(&mut image, at + 4096, json);
    }
    image
}
