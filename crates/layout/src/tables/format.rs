//! The positions of fields in partition tables, each defined here once for reading and writing (UEFI 2.10, section
//! 5.2.1 and tables 5-5 and 5-6).

/// A master boot record, or an extended boot record, which has the same format.
pub mod mbr {
    /// How many bytes of a block the structure occupies, whatever the block size.
    pub const SECTOR_BYTES: usize = 512;
    /// Offset of the four bytes of the disk identifier.
    pub const DISK_ID_AT: usize = 440;
    /// Offset of the four entries.
    pub const ENTRIES_AT: usize = 446;
    /// Size of an entry in bytes.
    pub const ENTRY_BYTES: usize = 16;
    /// Offset of the signature.
    pub const SIGNATURE_AT: usize = 510;
    /// The signature at the end of the sector.
    pub const SIGNATURE: &[u8; 2] = &[0x55, 0xAA];
    /// How many blocks the 32 bits of an entry can address.
    pub const LBAS: u64 = 1 << 32;
    /// The "active" flag. Any other status byte except 0 means that the sector is not a table.
    pub const ACTIVE: u8 = 0x80;
}

/// A GUID partition table.
pub mod gpt {
    /// The first bytes of a header.
    pub const SIGNATURE: &[u8; 8] = b"EFI PART";
    /// The header size in the specification; a larger header is reserved for future revisions.
    pub const HEADER_BYTES: u32 = 92;
    /// The smallest entry. Others are 128 * 2^n by the specification; this crate accepts multiples of 8.
    pub const ENTRY_BYTES: u32 = 128;
    /// Actual arrays have 16 KiB, rarely 32; Linux gives up at 4 MiB (`KMALLOC_MAX_SIZE`).
    pub const MAX_ARRAY_BYTES: u64 = 8 * 1024 * 1024;

    /// Offsets in a header.
    pub mod header {
        /// The revision of the specification.
        pub const REVISION: usize = 8;
        /// The number of header bytes that the CRC covers.
        pub const HEADER_SIZE: usize = 12;
        /// The CRC-32 of those bytes.
        pub const HEADER_CRC: usize = 16;
        /// The block of this header.
        pub const MY_LBA: usize = 24;
        /// The block of the other copy's header.
        pub const ALTERNATE_LBA: usize = 32;
        /// The first block that partitions may use.
        pub const FIRST_USABLE: usize = 40;
        /// The last block that partitions may use.
        pub const LAST_USABLE: usize = 48;
        /// The disk's own GUID.
        pub const DISK_GUID: usize = 56;
        /// The first block of the array of entries.
        pub const ENTRIES_LBA: usize = 72;
        /// The number of entries.
        pub const ENTRY_COUNT: usize = 80;
        /// The size of an entry in bytes.
        pub const ENTRY_SIZE: usize = 84;
        /// The CRC-32 of the array.
        pub const ENTRIES_CRC: usize = 88;
    }

    /// Offsets in an entry; its first 16 bytes are the type.
    pub mod entry {
        /// The partition's own GUID.
        pub const GUID: usize = 16;
        /// Its first block.
        pub const START: usize = 32;
        /// Its last block.
        pub const LAST: usize = 40;
        /// 64 attribute bits.
        pub const ATTRIBUTES: usize = 48;
        /// UTF-16, little-endian.
        pub const NAME: std::ops::Range<usize> = 56..128;
    }

    /// The CRC of a header, which must be cut to the bytes it covers; its own field counts as zero.
    pub fn header_crc(header: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header[..header::HEADER_CRC]);
        crc.update(&[0; 4]);
        crc.update(&header[header::HEADER_CRC + 4..]);
        crc.finalize()
    }
}
