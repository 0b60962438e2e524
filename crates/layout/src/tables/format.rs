//! Where the fields of partition tables stand: for those who read them, and for those who write them.
//!
//! The law of this module: a number stands here once. Sources: UEFI specification 2.10, section 5.2.1 (MBR) and tables 5-5 and
//! 5-6 (GPT).

/// A master boot record, and an extended one, which has the same form.
pub mod mbr {
    /// How much of a block the structure fills, whatever the block size.
    pub const SECTOR_BYTES: usize = 512;
    /// Where the four bytes of the disk's identity stand.
    pub const DISK_ID_AT: usize = 440;
    /// Where the four entries stand.
    pub const ENTRIES_AT: usize = 446;
    /// How long each entry is.
    pub const ENTRY_BYTES: usize = 16;
    /// Where the signature stands.
    pub const SIGNATURE_AT: usize = 510;
    /// The signature that ends the sector.
    pub const SIGNATURE: &[u8; 2] = &[0x55, 0xAA];
    /// The "active" flag; any other status byte but 0 says that this is no table.
    pub const ACTIVE: u8 = 0x80;
}

/// A GUID partition table.
pub mod gpt {
    /// What a header begins with.
    pub const SIGNATURE: &[u8; 8] = b"EFI PART";
    /// The size of the header that the specification defines; a larger one is reserved for its revisions.
    pub const HEADER_BYTES: u32 = 92;
    /// The smallest entry; the specification wants 128 * 2^n, libfdisk any multiple, we any whole number of u64.
    pub const ENTRY_BYTES: u32 = 128;
    /// Real arrays have 16 KiB, rarely 32; Linux gives up at 4 MiB (`KMALLOC_MAX_SIZE`).
    pub const MAX_ARRAY_BYTES: u64 = 8 * 1024 * 1024;

    /// Offsets in a header.
    pub mod header {
        /// The revision of the specification.
        pub const REVISION: usize = 8;
        /// How many bytes of the header count.
        pub const HEADER_SIZE: usize = 12;
        /// The CRC-32 of these.
        pub const HEADER_CRC: usize = 16;
        /// The block in which this header stands.
        pub const MY_LBA: usize = 24;
        /// The block of the other copy's header.
        pub const ALTERNATE_LBA: usize = 32;
        /// The first block that partitions may use.
        pub const FIRST_USABLE: usize = 40;
        /// The last one.
        pub const LAST_USABLE: usize = 48;
        /// The disk's own GUID.
        pub const DISK_GUID: usize = 56;
        /// The first block of the array of entries.
        pub const ENTRIES_LBA: usize = 72;
        /// How many entries it has.
        pub const ENTRY_COUNT: usize = 80;
        /// How many bytes each has.
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
        /// 64 flags.
        pub const ATTRIBUTES: usize = 48;
        /// UTF-16, little endian.
        pub const NAME: std::ops::Range<usize> = 56..128;
    }

    /// The CRC of a header, cut to the bytes that count, in which its own field counts as zero.
    pub fn header_crc(header: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header[..header::HEADER_CRC]);
        crc.update(&[0; 4]);
        crc.update(&header[header::HEADER_CRC + 4..]);
        crc.finalize()
    }
}
