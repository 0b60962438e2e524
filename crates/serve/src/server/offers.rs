//! What a drive is to those who come in.

use straddle_drive::Profile;
use straddle_vhost::Offer;

use crate::nbd::{Export, LARGEST_REQUEST};
use crate::served::Served;

/// Queues of a virtual machine.
const QUEUES: u16 = 4;

/// The drive as NBD describes it.
pub(super) fn export(profile: &Profile) -> Export {
    let claims = &profile.claims;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(LARGEST_REQUEST);
    let minimum_block = narrow(claims.logical_sector);
    // NBD knows one preference, and wants a power of two; a drive may claim anything.
    let preferred = narrow(claims.minimum_io.unwrap_or(0).max(claims.physical_sector));
    let fits = preferred.is_power_of_two() && (minimum_block..=LARGEST_REQUEST).contains(&preferred);
    Export {
        name: profile.name.clone(),
        description: profile.title.clone(),
        size: claims.capacity,
        minimum_block,
        preferred_block: if fits { preferred } else { minimum_block },
        rotational: claims.rotational,
        trim: claims.discard_granularity.is_some(),
    }
}

/// The drive as virtio describes it.
pub(super) fn offer(profile: &Profile, served: &Served) -> Offer {
    let claims = &profile.claims;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(0);
    Offer {
        capacity: claims.capacity,
        logical_sector: narrow(claims.logical_sector),
        physical_sector: narrow(claims.physical_sector),
        alignment_offset: narrow(claims.alignment_offset),
        minimum_io: narrow(claims.minimum_io.unwrap_or(0)),
        optimal_io: narrow(claims.optimal_io.unwrap_or(0)),
        discard_granularity: claims.discard_granularity.map(narrow),
        volatile_cache: served.has_volatile_cache(),
        queues: QUEUES,
        longest_segment: None,
        event_index: true,
        serial: profile.name.clone(),
    }
}
