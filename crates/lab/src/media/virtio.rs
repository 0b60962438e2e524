//! A drive with contents as a virtio block device.

use std::io;

use crate::vhost::{BlockRequest, Connection, Kind, Offer};
use straddle_units::io::Operation;

use crate::media::served::{Payload, Served};

const SERIAL_BYTES: usize = 20;

/// Describes the drive as a virtio device with one queue; its owner sets what depends on the guest. A figure that
/// does not fit its field is omitted. A volatile cache is reported if a power cut would lose acknowledged data.
pub fn offer(served: &Served) -> Offer {
    let claims = served.claims();
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(0);
    Offer {
        capacity: claims.capacity,
        logical_sector: narrow(claims.logical_sector),
        physical_sector: narrow(claims.physical_sector),
        alignment_offset: narrow(claims.alignment_offset),
        minimum_io: claims.minimum_io.map_or(0, narrow),
        optimal_io: claims.optimal_io.map_or(0, narrow),
        discard_granularity: claims.discard_granularity.map(narrow),
        volatile_cache: served.has_volatile_cache(),
        queues: 1,
        longest_segment: None,
        event_index: false,
        serial: claims.model.chars().filter(char::is_ascii).take(SERIAL_BYTES).collect(),
    }
}

/// Translates the request for the drive. The data of a write are copied to `data`; where they are not in the guest's
/// memory, the drive refuses the write.
pub fn submission<'a>(
    connection: &Connection,
    request: &BlockRequest,
    data: &'a mut Vec<u8>,
) -> (Operation, Payload<'a>) {
    match request.kind {
        Kind::Read => (Operation::Read, Payload::None),
        Kind::Write => {
            let fetched = connection.fetch(request, data);
            (Operation::Write, Payload::Bytes(if fetched { data } else { &[] }))
        }
        Kind::WriteZeroes => (Operation::Write, Payload::Zeroes),
        Kind::Flush => (Operation::Flush, Payload::None),
        Kind::Discard => (Operation::Discard, Payload::None),
    }
}

/// Sets `data` to what a successful request returns: the current contents for a read, otherwise nothing.
pub fn answer(served: &Served, request: &BlockRequest, data: &mut Vec<u8>) -> io::Result<()> {
    data.clear();
    if request.kind == Kind::Read {
        data.resize(usize::try_from(request.length).unwrap_or_default(), 0);
        served.read(request.offset, data)?;
    }
    Ok(())
}
