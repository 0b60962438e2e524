//! Power cuts: when they come, and what remains of the data that was being written.
//!
//! Disks write sector after sector. When the power fails, the physical sector under the head is torn and lost as a
//! whole, with 512-byte emulation also logical sectors that the host did not write. A real drive reports a torn
//! sector as unreadable; here it reads as noise, because the contents have to fit a plain file.
//!
//! Disks with a media cache repair a torn sector from it. Flash maps the old or the new version of a unit. Neither
//! tears.

use std::io;
use std::ops::Range;

use straddle_drive::disk::Protection;
use straddle_drive::profile::{Body, Profile};
use straddle_units::io::{Nanos, SplitMix64, Time};

use crate::media::store::Store;
use crate::media::unsettled::{Fate, Unsettled};

/// The longest time from a request to the power loss that it triggers: a seek and some revolutions; a few programs.
const DISK_WINDOW: Nanos = Nanos::new(40_000_000);
const FLASH_WINDOW: Nanos = Nanos::new(4_000_000);

/// A planned power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The number of requests that the drive takes first. Power is lost shortly after the last; 0 is at once.
    pub after: u64,
    /// The seed for the delay, and for the fate of what is being written then.
    pub seed: u64,
    /// What may happen to a physical sector that is being written.
    pub tear: Tear,
}

/// What happens to the physical sector that a disk is writing when the power fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tear {
    /// By the seed, it holds the old contents, the new ones, or noise in all of its logical sectors.
    #[default]
    Garbage,
    /// It holds the old contents or the new ones: the drive has the energy to finish the sector it has begun.
    Nothing,
}

impl Cut {
    /// Returns when the power fails, if the last of `taken` requests, which came at `at`, decides it: by the seed,
    /// less than `window` later, or at once before any request.
    pub fn due(&self, taken: u64, at: Time, window: Nanos) -> Option<Time> {
        let draw = SplitMix64::new(self.seed ^ 0x5eed).next();
        let delay = if taken == 0 { 0 } else { draw.checked_rem(window.get()).unwrap_or(0) };
        (self.after == taken).then(|| at + Nanos::new(delay))
    }
}

pub(crate) const fn window(body: &Body) -> Nanos {
    match body {
        Body::Disk(_) => DISK_WINDOW,
        Body::Ssd(_) => FLASH_WINDOW,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hazard {
    /// Everything that the drive has taken survives.
    None,
    /// Data not yet stored is lost; each unit is old or new: flash, and a disk with a media cache.
    Whole,
    /// Data not yet stored is lost; sectors are written in place. Their size and the firmware's shift in bytes.
    Platters { physical: u64, shift: u64 },
}

impl Hazard {
    pub(crate) fn of(profile: &Profile) -> Self {
        match &profile.body {
            Body::Ssd(ssd) if ssd.power_loss_protection() => Self::None,
            Body::Ssd(_) => Self::Whole,
            Body::Disk(disk) => match disk.protection {
                Protection::NonVolatile => Self::None,
                Protection::MediaCache { .. } => Self::Whole,
                Protection::None => {
                    let sectors = profile.sectors;
                    Self::Platters { physical: sectors.physical, shift: sectors.firmware_offset }
                }
            },
        }
    }
}

pub(crate) fn apply(
    store: &mut Store,
    unsettled: &mut Unsettled,
    hazard: Hazard,
    seed: u64,
    tear: Tear,
) -> io::Result<()> {
    let mut random = SplitMix64::new(seed);
    match hazard {
        Hazard::None => {}
        Hazard::Whole => {
            let spans: Vec<(Range<u64>, Fate)> =
                unsettled.in_flight.iter().map(|span| (span.clone(), toss(&mut random))).collect();
            let fate = |offset: u64| {
                let span = spans.iter().find(|(span, _)| span.contains(&offset));
                span.map_or(Fate::Old, |(_, fate)| *fate)
            };
            unsettled.roll_back(store, fate)?;
        }
        Hazard::Platters { physical, shift } => {
            let torn = Torn::choose(&unsettled.in_flight, physical, shift, &mut random);
            let torn_fate = toss(&mut random);
            let fate = |offset: u64| match ((offset + shift) / physical).cmp(&torn.sector) {
                std::cmp::Ordering::Less => Fate::New,
                std::cmp::Ordering::Equal => torn_fate,
                std::cmp::Ordering::Greater => Fate::Old,
            };
            unsettled.roll_back(store, fate)?;
            if torn.is_inside && tear == Tear::Garbage && random.next().is_multiple_of(2) {
                let start = (torn.sector * physical).saturating_sub(shift);
                let end = ((torn.sector + 1) * physical).saturating_sub(shift).min(store.size());
                let mut noise = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or_default()];
                random.fill(&mut noise);
                store.write(start, &noise)?;
            }
        }
    }
    store.sync()
}

fn toss(random: &mut SplitMix64) -> Fate {
    if random.next().is_multiple_of(2) { Fate::Old } else { Fate::New }
}

struct Torn {
    sector: u64,
    /// Whether the operation writes that sector. It may also be nearly over, passing over the sector, or only reading.
    is_inside: bool,
}

impl Torn {
    /// Chooses a point in the operation. Every sector is equally likely, and so is the end of the operation.
    fn choose(spans: &[Range<u64>], physical: u64, shift: u64, random: &mut SplitMix64) -> Self {
        let first = spans.iter().map(|span| (span.start + shift) / physical).min();
        let end = spans.iter().map(|span| (span.end - 1 + shift) / physical + 1).max();
        let (Some(first), Some(end)) = (first, end) else { return Self { sector: 0, is_inside: false } };
        let sector = first + random.below(end - first + 1);
        // An operation may pass over sectors between those that it writes.
        let writes = |span: &Range<u64>| {
            ((span.start + shift) / physical..=(span.end - 1 + shift) / physical).contains(&sector)
        };
        Self { sector, is_inside: spans.iter().any(writes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sector_that_is_written_is_torn() {
        let spans = [512..1024, 16_384..16_896];
        let mut random = SplitMix64::new(1);
        let mut torn = [false; 6];
        for _ in 0..1000 {
            let chosen = Torn::choose(&spans, 4096, 0, &mut random);
            torn[usize::try_from(chosen.sector).unwrap_or(5)] |= chosen.is_inside;
        }
        assert_eq!(torn, [true, false, false, false, true, false]);
    }
}
