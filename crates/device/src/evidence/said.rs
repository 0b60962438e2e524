//! What drives say of themselves, from their bytes to the figures.

use std::collections::BTreeMap;

use super::*;

/// Attributes of any bytes.
#[derive(Default)]
struct Bytes(BTreeMap<&'static str, Vec<u8>>);

impl Bytes {
    fn of(texts: &[(&'static str, &str)]) -> Self {
        Self(texts.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect())
    }
}

impl Attributes for Bytes {
    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    fn list(&self, _dir: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A SATA disk of which the kernel shows `physical` and `offset`, and whose IDENTIFY data has these words 106 and 209.
fn sata(physical: &str, offset: &str, words: [u16; 2]) -> Topology {
    let mut identify = [0; 512];
    identify[0] = 0x40;
    identify[2 * 106..][..2].copy_from_slice(&words[0].to_le_bytes());
    identify[2 * 209..][..2].copy_from_slice(&words[1].to_le_bytes());
    let mut device = Bytes::of(&[
        ("alignment_offset", offset),
        ("queue/logical_block_size", "512"),
        ("queue/physical_block_size", physical),
    ]);
    let page: Vec<u8> = [&[0; VPD_89_IDENTIFY][..], &identify].concat();
    device.0.insert("device/vpd_pg89", page);
    topology(DeviceKind::Scsi, &device, &Identity::default(), &Answers::default())
}

#[test]
fn a_word_that_is_not_valid_says_nothing() {
    // Every value of the bits that make words 106 and 209 valid, with and without the bits that count.
    for validity in 0..4_u16 {
        let is_valid = validity == 0b01;
        for low in [0, 0x2003] {
            let found = sata("4096", "3584", [validity << 14 | low, 0x4001]);
            let said = found.physical.others().iter().any(|claim| matches!(claim.source, Source::Ata(_)));
            assert_eq!(said, is_valid, "word 106 is {:#06x}", validity << 14 | low);
            assert!(is_valid || found.physical.disagreeing().next().is_none());
        }
        let found = sata("4096", "3584", [0x6003, validity << 14 | 1]);
        let said = found.alignment_offset.others().len();
        assert_eq!(said, usize::from(is_valid), "word 209 is {:#06x}", validity << 14 | 1);
    }
    // A larger physical sector counts, but no offset is made up for it.
    let found = sata("512", "0", [0x6003, 0]);
    assert_eq!(found.physical.value(), ByteCount::new(4096));
    assert!(found.alignment_offset.others().is_empty());
}
