use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};

use super::ImageError;
use super::host::Host;
use super::through::Frames;
use crate::fields::le32;

/// qcow2's largest cluster.
pub(super) const MAX_UNIT: usize = 2 << 20;

/// The compressed form may be slightly longer.
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
    /// A grain marker gives its own length.
    pub(super) len: u64,
    pub(super) unit: usize,
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
        // The length is in whole sectors; a file may end earlier.
        Method::Deflate | Method::Zstd => (packed.at, packed.len.min(host.len().saturating_sub(packed.at))),
    };
    if len > MAX_PACKED {
        return Err(host.damaged(packed.at, "a compressed unit is longer than its contents"));
    }
    let input = host.vec(at, len)?;
    let mut output = vec![0; packed.unit];
    let whole = match packed.method {
        Method::Deflate => inflate(&input, &mut output, false),
        Method::MarkedZlib => inflate(&input, &mut output, true),
        Method::Zstd => Frames::new(&input[..], MAX_UNIT as u64).read_exact(&mut output).is_ok(),
    };
    if whole { Ok(output) } else { Err(host.damaged(at, "a compressed unit cannot be decompressed")) }
}

/// With a zlib header, the last grain may end early.
fn inflate(input: &[u8], output: &mut [u8], zlib_header: bool) -> bool {
    let mut state = Decompress::new(zlib_header);
    match state.decompress(input, output, FlushDecompress::Finish) {
        Ok(_) if state.total_out() == output.len() as u64 => true,
        Ok(Status::StreamEnd) => zlib_header,
        _ => false,
    }
}
