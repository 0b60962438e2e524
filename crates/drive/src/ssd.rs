//! A solid-state drive: flash behind a mapping table.
//!
//! Nothing is written in place. The mapping table counts in *indirection units*; a write of less than a unit makes
//! the drive read the rest of the unit first, unless the host sends it in time. Garbage collection moves what is
//! still valid in a block, and then the block is erased. Every byte that is programmed is counted once, for the host
//! (whole units, and the padding of a page) or for garbage collection; every unit is mapped to exactly one valid
//! slot, or none.
//!
//! Not modelled: wear and bad blocks, read retries, planes as such (a page may stand for those of all
//! planes), program suspension, a second register in a die, an SLC cache, the flash that holds the mapping
//! table itself, reading ahead, a link that carries both directions at once, and power states. The mapping
//! table changes when a program begins, not when it ends; that shows only in the time of an erasure.

mod agenda;
mod blocks;
mod buffer;
mod card;
mod collect;
mod destage;
mod host;
mod index;
mod mapping;
mod nand;
mod parameters;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use card::Card;
pub use parameters::{FlashError, FlashFile, SsdParameters};
pub use start::FlashStart;

use straddle_units::io::{Completion, Request, Time};

use crate::drive::{MediaEvent, Record};
use crate::interface::Interface;

use agenda::{Agenda, Lane};
use blocks::Blocks;
use buffer::Buffer;
use collect::Collector;
use destage::Groups;
use host::Host;
use index::{Die, Unit};
use mapping::Mapping;
use nand::{Nand, Work};
use parameters::Layout;

#[allow(clippy::cast_possible_truncation, reason = "the parameters are checked so that it fits")]
const fn narrow(value: u64) -> u32 {
    debug_assert!(value <= u32::MAX as u64);
    value as u32
}

#[derive(Clone, Debug)]
pub(crate) struct Ssd {
    layout: Layout,
    /// Nanoseconds since power-on.
    now: u64,
    agenda: Agenda,
    host: Host,
    buffer: Buffer,
    /// With more partial units than this in the buffer, the rests of some are read.
    partial_limit: u32,
    destage_after: u64,
    age_timer: bool,
    power_loss_protection: bool,
    mapping: Mapping,
    blocks: Blocks,
    groups: Groups,
    units: Vec<Option<Unit>>,
    collector: Collector,
    nand: Nand,
    pub(crate) record: Record,
}

impl Ssd {
    pub(crate) fn new(parameters: &SsdParameters, interface: Interface) -> Self {
        let layout = parameters.layout;
        let units = parameters.buffer_units;
        Self {
            layout,
            now: 0,
            agenda: Agenda::new(),
            host: Host::new(interface, parameters.timing.command),
            buffer: Buffer::new(layout, units),
            partial_limit: units - units.div_ceil(4),
            destage_after: parameters.destage_after,
            age_timer: false,
            power_loss_protection: parameters.power_loss_protection,
            mapping: Mapping::new(layout, parameters.start),
            blocks: Blocks::new(layout, parameters.start),
            groups: Groups::default(),
            units: Vec::new(),
            collector: Collector::new(&layout),
            nand: Nand::new(&layout, parameters.timing),
            record: Record::default(),
        }
    }

    pub(crate) fn submit(&mut self, at: Time, request: Request) {
        self.now = at.get();
        self.host.waiting.push_back(request);
        self.admit();
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        self.agenda.next().map(|(at, _)| Time::from_nanos(at))
    }

    pub(crate) fn advance(&mut self, until: Time, done: &mut Vec<Completion>) {
        while let Some((at, lane)) = self.agenda.next().filter(|event| event.0 <= until.get()) {
            self.now = self.now.max(at);
            if let Some(value) = self.agenda.pop(lane) {
                self.happen(lane, value, done);
            }
        }
        self.now = until.get();
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.host.outstanding()
    }

    pub(crate) fn buffered_bytes(&self) -> u64 {
        u64::from(self.buffer.used) << self.layout.unit_shift
    }

    fn happen(&mut self, lane: Lane, value: u32, done: &mut Vec<Completion>) {
        let work = match lane {
            Lane::Completion => return self.finish(value, done),
            Lane::WriteReady => return self.write_ready(value),
            Lane::ReadReady => return self.read_on(value),
            Lane::Link => return self.arrived(),
            Lane::Age => return self.aged(),
            Lane::Sense => return self.nand.want_channel(Die::new(value), self.now, &mut self.agenda),
            Lane::Channel => self.nand.carried(value, self.now, &mut self.agenda),
            Lane::Program | Lane::Erase => self.nand.over(Die::new(value), self.now, &mut self.agenda),
        };
        match work {
            Some(Work::HostRead { command, bytes }) => self.page_read(command, bytes),
            Some(Work::UnitRead { entry }) => self.rest_read(entry),
            Some(Work::CollectRead { read }) => self.victim_read(read),
            Some(Work::Program { group }) => self.page_programmed(group),
            Some(Work::Erase { superblock }) => self.block_erased(superblock),
            None => {}
        }
    }

    fn note(&mut self, event: impl FnOnce() -> MediaEvent) {
        if let Some(events) = &mut self.record.media_events {
            events.push(event());
        }
    }
}
