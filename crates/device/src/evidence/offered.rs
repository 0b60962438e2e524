//! The sectors that a drive can be set to, and the answers to commands that a captured tree keeps.

use std::fs::File;

use crate::identify::{
    AtaIdentify, FormatNvm, NvmeIdentifyNamespace, SECTOR_LOG, block_lengths, has_log, sector_configurations,
};
use crate::ioctl;
use crate::sysfs::Attributes;
use crate::topology::{Formats, LbaFormats};

use super::Answers;

/// The page of supported block lengths, and where the list of supported pages begins in page 00h.
const LENGTHS_PAGE: u8 = 0xb4;
const PAGES: usize = 4;

/// A log or page is requested only if the drive lists it: a drive may count another request as an error.
pub(super) fn ask(file: &File, answers: &mut Answers) {
    if answers.nvme.is_some() {
        let controller = ioctl::nvme_identify_controller(file).ok();
        answers.nvme_format = controller.and_then(|bytes| FormatNvm::parse(&bytes));
    }
    if answers.ata.as_ref().is_some_and(|ata| ata.has_logs) {
        let directory = ioctl::ata_log(file, 0).ok();
        if directory.is_some_and(|directory| has_log(&directory, SECTOR_LOG)) {
            let log = ioctl::ata_log(file, SECTOR_LOG);
            answers.ata_sectors = log.map_or(Vec::new(), |bytes| sector_configurations(&bytes));
        }
    } else if answers.capacity.is_some() {
        let pages = ioctl::scsi_inquiry_vpd(file, 0).unwrap_or_default();
        if pages.get(PAGES..).is_some_and(|list| list.contains(&LENGTHS_PAGE)) {
            let page = ioctl::scsi_inquiry_vpd(file, LENGTHS_PAGE);
            answers.scsi_lengths = page.map_or(Vec::new(), |bytes| block_lengths(&bytes));
        }
    }
}

impl Answers {
    pub(crate) fn kept(kept: &dyn Attributes) -> Self {
        let block = |name: &str| kept.bytes(name)?.first_chunk::<512>().copied();
        let page = |name: &str| kept.bytes(name)?.first_chunk::<4096>().copied();
        Self {
            nvme: page("nvme-id-ns").and_then(|bytes| NvmeIdentifyNamespace::parse(&bytes)),
            nvme_format: page("nvme-id-ctrl").and_then(|bytes| FormatNvm::parse(&bytes)),
            ata: block("ata-identify").and_then(|bytes| AtaIdentify::parse(&bytes)),
            ata_sectors: block("ata-log-2f").map_or(Vec::new(), |bytes| sector_configurations(&bytes)),
            scsi_lengths: kept.bytes("scsi-vpd-b4").map_or(Vec::new(), |bytes| block_lengths(&bytes)),
            ..Self::default()
        }
    }
}

pub(super) fn formats(answers: &Answers) -> Option<Formats> {
    if let Some(nvme) = &answers.nvme {
        let (current, list) = (nvme.current_format, nvme.formats.clone());
        return Some(Formats::Nvme(LbaFormats { current, list, command: answers.nvme_format }));
    }
    let listed = |sizes: &Vec<_>| (!sizes.is_empty()).then(|| sizes.clone());
    let ata = listed(&answers.ata_sectors).map(Formats::Ata);
    ata.or_else(|| listed(&answers.scsi_lengths).map(Formats::Scsi))
}
