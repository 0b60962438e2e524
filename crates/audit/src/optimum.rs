//! Optimal I/O sizes: which of them are a property of the device, and which are other figures.
//!
//! The kernel does not always show what the drive reported. Before Linux 6.8, drivers pass it on unchanged (virtio)
//! or drop it if it is not a multiple of the physical sector (sd). Since 6.11 the block layer rounds it down to a
//! physical sector (`blk_validate_limits`, block/blk-settings.c): one wrong value has one form for each sector size.
//! Stacked devices take the least common multiple of the figures below (`blk_stack_limits`), in 32 bits. Since 6.17
//! sd reports its own limit on requests if the disk reports nothing (`sd_set_io_opt`, drivers/scsi/sd.c).

use straddle_device::topology::{Figure, Source, Topology};
use straddle_units::ByteCount;

/// USB bridges that fill a 16-bit count of 512-byte blocks with ones. It is the largest value that sd accepts
/// (`SD_DEF_XFER_BLOCKS`, drivers/scsi/sd.h).
const ALL_ONES: u64 = 65_535 * 512;

/// 0xFFF000 bytes, 32,767 sectors rounded to 4096: what mpt3sas reports as optimum (Debian bug 1121006).
const MPT3SAS: u64 = 0xFF_F000;

/// A count with this many one bits (255 units) is of no array: that would need as many data members.
const LEAST_ONES: u32 = 8;

const MOST_ONES: u32 = 32;

/// A size one physical sector short of a power of two is accepted below this: chunks may be small.
const LEAST_SHORT: u64 = 64 << 10;

/// Of 256 MiB: larger figures are multiples of bogus ones, overflowed or not.
const LARGEST_OPTIMUM: u64 = 256 << 20;

/// `None` unless it is a property of the device.
pub(crate) fn boundary(topology: &Topology) -> Option<ByteCount> {
    let figure = topology.io_opt.as_ref()?;
    let is_limit = *figure.source() == Source::KERNEL_LIMIT;
    (!is_limit && bogus_io_opt(topology).is_none()).then(|| figure.value())
}

/// Why the optimal I/O size is impossible, if it cannot.
pub fn bogus_io_opt(topology: &Topology) -> Option<String> {
    let figure = topology.io_opt.as_ref()?;
    // The kernel's own limit is a correct statement about the kernel.
    if *figure.source() == Source::KERNEL_LIMIT {
        return None;
    }
    let opt = figure.value();
    // Linux before 6.11 shows an NVMe NOWS of 0 as one block.
    if opt <= topology.logical.value().bytes() {
        return None;
    }
    let physical = topology.physical.value();
    let min = topology.io_min.as_ref().map(Figure::value);
    let multiple_of = |unit: u64| opt.is_multiple_of(ByteCount::new(unit));
    if multiple_of(ALL_ONES) {
        let unit = if multiple_of(8 * ALL_ONES) { 4096 } else { 512 };
        Some(format!("it is 65535 {unit}-byte blocks (a 16-bit field with every bit set)"))
    } else if multiple_of(MPT3SAS) {
        Some(
            "it is a multiple of 0xFFF000 bytes, the transfer limit of an HBA rather than a property of \
             the disk"
                .to_owned(),
        )
    } else if let Some((count, unit)) = count_of_ones(opt.get(), physical.get()) {
        Some(format!("it is {count} times {unit} bytes (a field with every bit set, rounded down)"))
    } else if !opt.is_multiple_of(physical) {
        Some(format!("it is not a multiple of the {}-byte physical sector", physical.get()))
    } else if let Some(min) = min.filter(|min| !opt.is_multiple_of(*min)) {
        Some(format!("it is not a multiple of the minimum I/O size, {} bytes", min.get()))
    } else if !multiple_of(4096) {
        Some("it is not a multiple of 4096 bytes".to_owned())
    } else if opt.get() > LARGEST_OPTIMUM {
        Some("it is over 256 MiB".to_owned())
    } else {
        None
    }
}

/// A count of all one bits in some unit, as `(count, unit)`, if `opt` is one or a stacked device's multiple of one.
/// Rounded down to a larger sector, a count of 512-byte sectors has fewer one bits.
fn count_of_ones(opt: u64, physical: u64) -> Option<(u64, u64)> {
    let shift = opt.trailing_zeros();
    let (odd, unit) = (opt.checked_shr(shift)?, 1_u64.checked_shl(shift)?);
    let ones = |bits: u32| (1_u64 << bits) - 1;
    let short = opt.checked_add(physical).filter(|sum| sum.is_power_of_two() && opt >= LEAST_SHORT);
    if short.is_some() && odd > 1 {
        return Some((odd, unit));
    }
    let found = (LEAST_ONES..=MOST_ONES).rev().map(ones).find(|count| odd.is_multiple_of(*count))?;
    Some((found, opt / found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(opt: u64, physical: u64, io_min: u64, source: Source) -> Topology {
        let mut topology = Topology::unknown();
        topology.physical = Figure::new(ByteCount::new(physical), Source::Assumed);
        topology.io_min = Some(Figure::new(ByteCount::new(io_min), Source::Assumed));
        topology.io_opt = Some(Figure::new(ByteCount::new(opt), source));
        topology
    }

    fn is_bogus(opt: u64, physical: u64, io_min: u64) -> bool {
        bogus_io_opt(&with(opt, physical, io_min, Source::Sysfs("queue/optimal_io_size"))).is_some()
    }

    /// Counts that mean "no limit" or a limit: 16 bits of 512- and 4096-byte blocks, 15 bits of sectors.
    const RAW: [u64; 4] = [65_535 * 512, 65_535 * 4096, 32_767 * 512, 32_767 * 4096];

    #[test]
    fn a_count_of_ones_is_recognised_after_rounding_to_any_sector() {
        for raw in RAW {
            for physical in (9..=16).map(|bits| 1_u64 << bits) {
                // The forms that kernels show: unchanged (virtio before 6.8), or rounded down (6.11 and
                // later).
                for opt in [raw, raw / physical * physical] {
                    assert!(is_bogus(opt, physical, physical), "{raw} shown as {opt} on {physical}");
                    // On a stacked device, whose sectors may be larger, and which has multiplied the figure
                    // by its stripe.
                    for data in [1, 2, 3, 5, 6, 7] {
                        let (chunk, stripe) = (65536, data * 65536);
                        let stacked = lcm(opt, stripe) % (1 << 32);
                        assert!(
                            stacked == 0 || is_bogus(stacked, physical, chunk),
                            "{opt} over {stripe}: {stacked}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn no_stripe_of_a_real_array_is_taken_for_one() {
        for physical in [512, 4096] {
            for data in 1..=64 {
                for chunk in (12..=22).map(|bits| 1_u64 << bits) {
                    let opt = data * chunk;
                    let array = chunk > physical || opt < LEAST_SHORT;
                    assert!(
                        !array || !is_bogus(opt, physical, chunk),
                        "{data} members with chunks of {chunk}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_declared_figure_passes_the_same_checks() {
        for opt in [33_553_920, 16_773_120, 1_000_448, 512 << 20] {
            for source in [Source::Declared, Source::Measured, Source::Sysfs("queue/optimal_io_size")] {
                let topology = with(opt, 4096, 4096, source);
                assert!(bogus_io_opt(&topology).is_some() && boundary(&topology).is_none(), "{opt}");
            }
        }
        assert_eq!(
            boundary(&with(192 << 10, 4096, 65_536, Source::Declared)),
            Some(ByteCount::new(192 << 10))
        );
    }

    #[test]
    fn a_block_and_a_limit_of_the_kernel_say_nothing() {
        for opt in [0, 512] {
            assert!(!is_bogus(opt, 512, 512) && !is_bogus(opt, 4096, 16384), "{opt}");
        }
        let limit = with(1280 << 10, 4096, 4096, Source::KERNEL_LIMIT);
        assert_eq!((bogus_io_opt(&limit), boundary(&limit)), (None, None));
        let said = with(1280 << 10, 4096, 4096, Source::Sysfs("queue/optimal_io_size"));
        assert_eq!(boundary(&said), Some(ByteCount::new(1280 << 10)));
        assert_eq!(boundary(&with(33_550_336, 4096, 4096, Source::Sysfs(""))), None);
    }

    fn lcm(a: u64, b: u64) -> u64 {
        let (mut x, mut y) = (a, b);
        while y != 0 {
            (x, y) = (y, x % y);
        }
        a / x * b
    }
}
