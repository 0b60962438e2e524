//! The sectors that a drive can be set to, and the answers to commands that a captured tree keeps.

use std::fs::File;

use crate::identify::{
    AtaIdentify, NvmeIdentifyController, NvmeIdentifyNamespace, SECTOR_LOG, block_lengths, has_log,
    sector_configurations,
};
use crate::ioctl;
use crate::sysfs::Attributes;
use crate::topology::{Formats, LbaFormats};

use super::Answers;

/// The page of supported block lengths, and where the list of supported pages begins in page 00h.
const LENGTHS_PAGE: u8 = 0xb4;
const PAGES: usize = 4;

/// Names of answers in a captured tree, each with the bytes as the drive sends them.
const KEPT_NAMESPACE: &str = "nvme-id-ns";
const KEPT_CONTROLLER: &str = "nvme-id-ctrl";
const KEPT_IDENTIFY: &str = "ata-identify";
const KEPT_LOG: &str = "ata-log-2f";
const KEPT_LENGTHS: &str = "scsi-vpd-b4";

/// Queries an open device for the sectors that it can be set to, after what identifies it. A log or page is
/// requested only if the drive lists it: a drive may count a request for another one as an error.
pub(super) fn ask(file: &File, answers: &mut Answers) {
    if answers.nvme.is_some() {
        let controller = ioctl::nvme_identify_controller(file).ok();
        let controller = controller.and_then(|bytes| NvmeIdentifyController::parse(&bytes).ok());
        answers.nvme_format = controller.map(|controller| controller.format);
    }
    if answers.ata.as_ref().is_some_and(|ata| ata.has_logs) {
        let log = ioctl::ata_log(file, 0)
            .ok()
            .filter(|directory| has_log(directory, SECTOR_LOG))
            .and_then(|_| ioctl::ata_log(file, SECTOR_LOG).ok());
        answers.ata_sectors = log.map(|bytes| sector_configurations(&bytes));
    } else if answers.capacity.is_some() {
        let pages = ioctl::scsi_inquiry_vpd(file, 0).unwrap_or_default();
        let is_listed = pages.get(PAGES..).is_some_and(|list| list.contains(&LENGTHS_PAGE));
        let page = is_listed.then(|| ioctl::scsi_inquiry_vpd(file, LENGTHS_PAGE).ok()).flatten();
        answers.scsi_lengths = page.and_then(|bytes| block_lengths(&bytes).ok());
    }
}

impl Answers {
    /// Adds the answers that a captured tree keeps of a device, where it was not queried itself.
    pub(crate) fn add_kept(&mut self, kept: &dyn Attributes) {
        let block = |name: &str| kept.bytes(name)?.first_chunk::<512>().copied();
        let page = |name: &str| kept.bytes(name)?.first_chunk::<4096>().copied();
        if let Some(namespace) = page(KEPT_NAMESPACE) {
            self.nvme = self.nvme.take().or_else(|| NvmeIdentifyNamespace::parse(&namespace).ok());
        }
        if let Some(controller) = page(KEPT_CONTROLLER) {
            let parsed = NvmeIdentifyController::parse(&controller).ok();
            self.nvme_format = self.nvme_format.or(parsed.map(|controller| controller.format));
        }
        if let Some(identify) = block(KEPT_IDENTIFY) {
            self.ata = self.ata.take().or_else(|| AtaIdentify::parse(&identify).ok());
        }
        if let Some(log) = block(KEPT_LOG) {
            self.ata_sectors = self.ata_sectors.take().or_else(|| Some(sector_configurations(&log)));
        }
        if let Some(lengths) = kept.bytes(KEPT_LENGTHS) {
            self.scsi_lengths = self.scsi_lengths.take().or_else(|| block_lengths(&lengths).ok());
        }
    }
}

/// Returns the sectors that the drive lists, if there are any.
pub(super) fn formats(answers: &Answers) -> Option<Formats> {
    let listed = |sizes: &Vec<_>| (!sizes.is_empty()).then(|| sizes.clone());
    let nvme = answers.nvme.as_ref().map(|nvme| {
        Formats::Nvme(LbaFormats {
            current: nvme.current_format,
            list: nvme.formats.clone(),
            command: answers.nvme_format,
        })
    });
    let ata = || answers.ata_sectors.as_ref().and_then(listed).map(Formats::Ata);
    let scsi = || answers.scsi_lengths.as_ref().and_then(listed).map(Formats::Scsi);
    nvme.or_else(ata).or_else(scsi)
}
