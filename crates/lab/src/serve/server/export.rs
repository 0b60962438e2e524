//! The description of a drive as an NBD export.

use straddle_drive::Profile;

use crate::serve::nbd::{Export, LARGEST_REQUEST};

/// Describes the drive as an NBD export.
pub(super) fn export(profile: &Profile) -> Export {
    let claims = &profile.claims;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(LARGEST_REQUEST);
    let minimum_block = narrow(claims.logical_sector);
    // NBD has one preferred size, which must be a power of two. A drive may claim any size.
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
