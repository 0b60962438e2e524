//! Flash dies and channels.
//!
//! A die does one operation at a time; a channel carries the data of one die at a time. Reads for the host go
//! before all other work waiting at a die. The other work is done in the order in which it came, so that a
//! page is never read before it is programmed nor erased before it is read.

use std::collections::VecDeque;

use crate::ssd::agenda::{Agenda, Lane};
use crate::ssd::index::{Die, EntryIndex, Superblock};
use crate::ssd::narrow;
use crate::ssd::parameters::{Layout, Timing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Reads for a command of the host, which gets `bytes` of the page.
    HostRead {
        command: u32,
        bytes: u32,
    },
    UnitRead {
        entry: EntryIndex,
    },
    CollectRead {
        read: u32,
    },
    Program {
        group: u32,
    },
    Erase {
        superblock: Superblock,
    },
}

#[derive(Clone, Copy, Debug)]
struct Job {
    work: Work,
    bytes: u32,
}

#[derive(Clone, Debug)]
struct DieState {
    channel: u32,
    current: Option<Job>,
    urgent: VecDeque<Job>,
    others: VecDeque<Job>,
}

#[derive(Clone, Debug)]
struct Channel {
    serves: Option<Die>,
    waiting: VecDeque<Die>,
}

#[derive(Clone, Debug)]
pub(super) struct Nand {
    timing: Timing,
    dies: Vec<DieState>,
    channels: Vec<Channel>,
}

impl Nand {
    pub(super) fn new(layout: &Layout, timing: Timing) -> Self {
        let die = |index| DieState {
            channel: index % layout.channels,
            current: None,
            urgent: VecDeque::new(),
            others: VecDeque::new(),
        };
        let channel = Channel { serves: None, waiting: VecDeque::new() };
        Self {
            timing,
            dies: (0..layout.dies).map(die).collect(),
            channels: vec![channel; layout.channels as usize],
        }
    }

    /// Queues an operation for a die, with `bytes` to transfer to or from it.
    pub(super) fn push(&mut self, die: Die, work: Work, bytes: u32, now: u64, agenda: &mut Agenda) {
        let job = Job { work, bytes };
        if self.dies[die.at()].current.is_none() {
            self.start(die, job, now, agenda);
        } else if matches!(work, Work::HostRead { .. }) {
            self.dies[die.at()].urgent.push_back(job);
        } else {
            self.dies[die.at()].others.push_back(job);
        }
    }

    /// Handles the end of the channel's transfer; returns the operation that this ends, if any.
    pub(super) fn carried(&mut self, channel: u32, now: u64, agenda: &mut Agenda) -> Option<Work> {
        let served = &mut self.channels[channel as usize];
        let die = served.serves.take()?;
        if let Some(next) = served.waiting.pop_front() {
            self.carry(next, now, agenda);
        }
        match self.dies[die.at()].current?.work {
            Work::Program { .. } => {
                agenda.push(Lane::Program, now.saturating_add(self.timing.program), die.get());
                None
            }
            _ => self.over(die, now, agenda),
        }
    }

    /// Handles the end of the die's operation; returns that operation.
    pub(super) fn over(&mut self, die: Die, now: u64, agenda: &mut Agenda) -> Option<Work> {
        let state = &mut self.dies[die.at()];
        let done = state.current.take();
        if let Some(job) = state.urgent.pop_front().or_else(|| state.others.pop_front()) {
            self.start(die, job, now, agenda);
        }
        done.map(|job| job.work)
    }

    fn start(&mut self, die: Die, job: Job, now: u64, agenda: &mut Agenda) {
        self.dies[die.at()].current = Some(job);
        match job.work {
            Work::Program { .. } => self.want_channel(die, now, agenda),
            Work::Erase { .. } => agenda.push(Lane::Erase, now.saturating_add(self.timing.erase), die.get()),
            _ => agenda.push(Lane::Sense, now.saturating_add(self.timing.read), die.get()),
        }
    }

    pub(super) fn want_channel(&mut self, die: Die, now: u64, agenda: &mut Agenda) {
        let channel = self.dies[die.at()].channel;
        if self.channels[channel as usize].serves.is_none() {
            self.carry(die, now, agenda);
        } else {
            self.channels[channel as usize].waiting.push_back(die);
        }
    }

    fn carry(&mut self, die: Die, now: u64, agenda: &mut Agenda) {
        let state = &self.dies[die.at()];
        let bytes = state.current.map_or(0, |job| u64::from(job.bytes));
        self.channels[state.channel as usize].serves = Some(die);
        let nanos = (bytes * self.timing.channel_nanos_per_mib) >> 20;
        agenda.push(Lane::Channel, now.saturating_add(nanos), state.channel);
    }

    /// The die of a page; pages are counted in turn over the dies of a superblock.
    pub(super) fn die_of(&self, page: u32) -> Die {
        Die::new(page % narrow(self.dies.len() as u64))
    }
}
