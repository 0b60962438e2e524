use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::ImageError;
use super::host::Host;
use crate::fields::{le16, le32, le64};

/// The largest unit that is decompressed: qcow2's largest cluster.
pub(super) const MAX_UNIT: usize = 2 << 20;

/// The compressed form may be slightly longer than the plain one.
const MAX_PACKED: u64 = MAX_UNIT as u64 + (64 << 10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Deflate,
    Zstd,
    /// A VMDK grain marker (eight bytes of address, four of length), then zlib.
    MarkedZlib,
}

/// A byte of a compressed unit of the guest's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    pub(super) file: usize,
    pub(super) at: u64,
    /// The maximum length in the file; a grain marker gives its own length.
    pub(super) len: u64,
    /// The decompressed length.
    pub(super) unit: usize,
    /// The byte in it.
    pub(super) into: usize,
    pub(super) method: Method,
}

pub(super) fn unpack(host: &Host, packed: &Packed) -> Result<Vec<u8>, ImageError> {
    if packed.unit > MAX_UNIT {
        return Err(host.unsupported(packed.at, format!("a compressed unit of {} bytes", packed.unit)));
    }
    let (at, len) = match packed.method {
        Method::MarkedZlib => {
            let marker: [u8; 12] = host.bytes(packed.at)?;
            (packed.at.saturating_add(12), u64::from(le32(&marker, 8)))
        }
        // The length is in whole sectors; the last cluster of a file may end earlier.
        Method::Deflate | Method::Zstd => (packed.at, packed.len.min(host.len().saturating_sub(packed.at))),
    };
    if len > MAX_PACKED {
        return Err(host.damaged(packed.at, "compressed data that is longer than its contents"));
    }
    let input = host.vec(at, len)?;
    let mut output = vec![0; packed.unit];
    let whole = match packed.method {
        Method::Deflate => inflate(&input, &mut output, false),
        Method::MarkedZlib => inflate(&input, &mut output, true),
        Method::Zstd => unpack_zstd(&input, &mut output),
    };
    if whole { Ok(output) } else { Err(host.damaged(at, "compressed data that cannot be decompressed")) }
}

/// Fills `output` from the start of `input`, and returns whether that succeeded. With a zlib header the data may
/// end early: the last grain of a disk may be shorter than a unit.
fn inflate(input: &[u8], output: &mut [u8], zlib_header: bool) -> bool {
    let mut state = Decompress::new(zlib_header);
    match state.decompress(input, output, FlushDecompress::Finish) {
        Ok(_) if state.total_out() == output.len() as u64 => true,
        Ok(Status::StreamEnd) => zlib_header,
        _ => false,
    }
}

fn unpack_zstd(input: &[u8], output: &mut [u8]) -> bool {
    if zstd_window(input).is_none_or(|window| window > MAX_UNIT) {
        return false;
    }
    let mut decoder = FrameDecoder::new();
    let mut source = input;
    if decoder.reset(&mut source).is_err() {
        return false;
    }
    let mut filled = 0;
    while filled < output.len() {
        let step = BlockDecodingStrategy::UptoBytes(128 << 10);
        let blocks = decoder.decode_blocks(&mut source, step);
        let read = std::io::Read::read(&mut decoder, &mut output[filled..]).unwrap_or(0);
        filled += read;
        if blocks.is_err() || (read == 0 && decoder.is_finished()) {
            break;
        }
    }
    filled == output.len()
}

/// Returns the memory that a zstd frame needs (RFC 8878, 3.1.1.1); `None` when it is not a frame or needs a
/// dictionary.
fn zstd_window(frame: &[u8]) -> Option<usize> {
    const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
    let rest = frame.strip_prefix(&MAGIC)?;
    let (&descriptor, rest) = rest.split_first()?;
    if descriptor & 0x03 != 0 {
        return None;
    }
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1_usize.checked_shl(10 + u32::from(window >> 3))?;
        return base.checked_add(base / 8 * usize::from(window & 7));
    }
    // A single segment: the window is as large as the contents.
    let size = match descriptor >> 6 {
        0 => u64::from(*rest.first()?),
        1 => u64::from(le16(rest, 0)) + 256,
        2 => u64::from(le32(rest, 0)),
        _ => le64(rest, 0),
    };
    usize::try_from(size).ok()
}
