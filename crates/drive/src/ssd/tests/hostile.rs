//! Impossible parameters, and parameters that are only just possible.

use super::*;
use proptest::prelude::*;

fn refused(change: impl Fn(&mut FlashFile)) -> FlashError {
    let mut file = small();
    change(&mut file);
    SsdParameters::new(&file, CAPACITY).expect_err("no such drive")
}

#[test]
fn impossible_figures_are_refused_by_name() {
    assert_eq!(refused(|file| file.indirection_unit_bytes = 3000).key, "indirection_unit_bytes");
    assert_eq!(refused(|file| file.indirection_unit_bytes = 0).key, "indirection_unit_bytes");
    assert_eq!(refused(|file| file.indirection_unit_bytes = 2 << 20).key, "indirection_unit_bytes");
    assert_eq!(refused(|file| file.page_bytes = u64::MAX).key, "page_bytes");
    assert_eq!(refused(|file| file.dies = 0).key, "dies");
    assert_eq!(refused(|file| file.dies = u64::MAX).key, "dies");
    assert_eq!(refused(|file| file.channels = 0).key, "channels");
    assert_eq!(refused(|file| file.channels = 5).key, "channels");
    assert_eq!(refused(|file| file.pages_per_block = 0).key, "pages_per_block");
    assert_eq!(refused(|file| file.buffer_bytes = 0).key, "buffer_bytes");
    assert_eq!(refused(|file| file.buffer_bytes = 2 * 16384 - 1).key, "buffer_bytes");
    assert_eq!(refused(|file| file.buffer_bytes = u64::MAX).key, "buffer_bytes");
    assert_eq!(refused(|file| file.read_us = -1.0).key, "read_us");
    assert_eq!(refused(|file| file.program_us = f64::NAN).key, "program_us");
    assert_eq!(refused(|file| file.erase_us = f64::INFINITY).key, "erase_us");
    assert_eq!(refused(|file| file.channel_mb_s = 0.0).key, "channel_mb_s");
    assert_eq!(refused(|file| file.over_provisioning = 0.0).key, "over_provisioning");
    assert_eq!(refused(|file| file.command_us = -0.1).key, "command_us");
    assert_eq!(refused(|file| file.destage_after_ms = 0.0).key, "destage_after_ms");
}

#[test]
fn units_larger_than_a_block_of_each_die_are_refused() {
    let error = refused(|file| {
        file.indirection_unit_bytes = 1 << 20;
        file.pages_per_block = 1;
    });
    assert!(error.to_string().contains("larger than one block of each die, 65536 bytes"), "{error}");
}

#[test]
fn too_little_spare_is_refused() {
    let error = refused(|file| file.over_provisioning = 0.05);
    assert!(error.to_string().contains("2 spare superblocks of 524288 bytes"), "{error}");
}

#[test]
fn absurd_capacities_are_refused() {
    for capacity in [0, 511, u64::MAX, u64::MAX / 512 * 512, 1 << 60] {
        assert!(SsdParameters::new(&small(), capacity).is_err(), "{capacity} bytes");
    }
    let coarse = FlashFile { pages_per_block: 65536, dies: 4096, ..small() };
    assert_eq!(SsdParameters::new(&coarse, 1 << 60).unwrap_err().key, "pages_per_block");
}

#[test]
fn the_least_spare_that_is_taken_is_enough() {
    // 512 superblocks of 128 units: a hundredth of them is 5 superblocks.
    let file = FlashFile { over_provisioning: 0.01, start: FlashStart::InOrder, ..small() };
    let capacity = 512 * 128 * 4096;
    let mut bench = Bench::new(&file, capacity);
    let units = capacity / 4096;
    for step in 0..4000 {
        bench.write(step * 7919 % units * 4096, 4096);
    }
    bench.flush();
    assert_eq!(bench.ssd.mapped() as u64, units);
    bench.ssd.assert_consistent();
}

#[test]
fn a_superblock_of_one_page_still_collects() {
    let file = FlashFile { dies: 1, channels: 1, pages_per_block: 1, ..small() };
    let file = FlashFile { over_provisioning: 0.08, start: FlashStart::InOrder, ..file };
    let mut bench = Bench::new(&file, 1 << 20);
    for step in 0..5000 {
        bench.write(step * 7919 % 256 * 4096, 4096);
        if step % 3 == 0 {
            bench.flush();
        }
    }
    bench.flush();
    assert_eq!(bench.ssd.mapped(), 256);
    bench.ssd.assert_consistent();
}

#[test]
fn a_large_drive_costs_nothing_until_it_is_written() {
    // 8 TB with 4 KiB units, and full: the tables would take gigabytes.
    let file =
        FlashFile { dies: 64, channels: 16, pages_per_block: 1024, start: FlashStart::InOrder, ..small() };
    let mut bench = Bench::new(&file, 8_000_000_000_000 / 4096 * 4096);
    bench.write(1 << 40, 1 << 20);
    bench.flush();
    bench.run(Operation::Read, 1 << 41, 4096);
    assert_eq!(bench.counters().unit_write_bytes, 1 << 20);
}

#[test]
fn the_section_of_a_profile_reads() {
    let text = "indirection_unit_bytes = 4096\npage_bytes = 16384\npages_per_block = 256\ndies = 16\nchannels = 8\n\
                read_us = 60\nprogram_us = 700.5\nerase_us = 3500\nchannel_mb_s = 533\nbuffer_bytes = 16777216\n\
                over_provisioning = 0.07\n";
    let file: FlashFile = toml::from_str(text).unwrap();
    assert!(!file.power_loss_protection && file.start == FlashStart::Empty);
    let parameters = SsdParameters::new(&file, 32 << 30).unwrap();
    assert_eq!((parameters.indirection_unit(), parameters.layout.capacity), (4096, 32 << 30));
    assert!(toml::from_str::<FlashFile>(&format!("{text}colour = 1\n")).is_err());
}

/// Any number, but often one of a plausible drive.
fn number(plausible: std::ops::Range<u32>) -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => plausible.prop_map(|shift| 1_u64 << shift),
        1 => any::<u64>(),
        1 => (0_u32..64).prop_map(|shift| (1_u64 << shift).wrapping_sub(1)),
        1 => 0..100_u64,
    ]
}

fn quantity() -> impl Strategy<Value = f64> {
    prop_oneof![10 => 1.0..1000.0, 10 => 0.01..1.0, 1 => any::<f64>(), 1 => Just(f64::NAN), 1 => Just(0.0)]
}

proptest! {
    #[test]
    fn no_parameters_break_the_model(
        sizes in (number(9..21), number(9..21), number(0..17), number(0..13), number(0..3), number(16..33)),
        capacity in number(20..44),
        superblocks in prop_oneof![1 => Just(None), 4 => (3_u64..400).prop_map(Some)],
        times in [quantity(), quantity(), quantity()],
        (channel_mb_s, over_provisioning) in (prop_oneof![9 => 1.0..2000.0, 1 => quantity()], prop_oneof![9 => 0.02..1.0, 1 => quantity()]),
        flags in any::<(bool, bool)>(),
    ) {
        let (indirection_unit_bytes, page_bytes, pages_per_block, dies, channels, buffer_bytes) = sizes;
        let [read_us, program_us, erase_us] = times;
        let superblock = dies.checked_mul(pages_per_block).and_then(|pages| pages.checked_mul(page_bytes));
        let fitting = superblocks.and_then(|count| superblock?.checked_mul(count));
        let capacity = fitting.unwrap_or(capacity);
        let file = FlashFile {
            indirection_unit_bytes, page_bytes, pages_per_block, dies, channels, buffer_bytes, read_us, program_us,
            erase_us, channel_mb_s, over_provisioning, power_loss_protection: flags.0, start: if flags.1 { FlashStart::InOrder } else { FlashStart::Empty }, ..small()
        };
        if let Ok(parameters) = SsdParameters::new(&file, capacity) {
            let mut bench = Bench { ssd: Ssd::new(&parameters, link()), now: Time::ZERO, id: 0 };
            for step in 0..20 {
                bench.write(step * 7_919 * 512 % capacity, 512);
                bench.flush();
            }
        }
    }
}
