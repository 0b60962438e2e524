//! MBR disks with logical partitions, byte by byte.

use super::Memory;

/// A disk with primary partitions of (start, sectors), and logical ones of (record, start, sectors) in a
/// container, which has the last entry.
pub(crate) fn mbr(
    sectors: u64,
    primary: &[(u64, u64)],
    extended: (u64, u64),
    logical: &[(u64, u64, u64)],
) -> Memory {
    let mut disk = Memory::new(sectors * 512);
    let mut entries: Vec<[u8; 16]> =
        primary.iter().map(|(start, sectors)| entry(0x83, *start, *sectors)).collect();
    entries.push(entry(0x0F, extended.0, extended.1));
    disk.put(0, &record(&entries));
    for (index, (ebr, start, sectors)) in logical.iter().enumerate() {
        let next = logical.get(index + 1);
        let link = next.map(|(next, start, sectors)| entry(5, next - extended.0, start + sectors - next));
        let entries: Vec<_> = [entry(0x83, start - ebr, *sectors)].into_iter().chain(link).collect();
        disk.put(ebr * 512, &record(&entries));
    }
    disk
}

fn entry(kind: u8, start: u64, sectors: u64) -> [u8; 16] {
    let mut bytes = [0, 0xFE, 0xFF, 0xFF, kind, 0xFE, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[8..12].copy_from_slice(&u32::try_from(start).unwrap().to_le_bytes());
    bytes[12..].copy_from_slice(&u32::try_from(sectors).unwrap().to_le_bytes());
    bytes
}

/// A table of four entries, with an identity.
fn record(entries: &[[u8; 16]]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[440..444].copy_from_slice(&[1, 2, 3, 4]);
    for (place, entry) in bytes[446..510].chunks_exact_mut(16).zip(entries) {
        place.copy_from_slice(entry);
    }
    bytes[510..].copy_from_slice(&[0x55, 0xAA]);
    bytes
}
