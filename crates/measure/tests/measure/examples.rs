//! Tests that the examples do what they say.

#[expect(dead_code, reason = "its main is not called here")]
#[path = "../../../../examples/bench_model.rs"]
mod bench_model;
#[expect(dead_code, reason = "its main is not called here")]
#[path = "../../../../examples/custom_drive.rs"]
mod custom_drive;

#[test]
fn bench_model_finds_the_aligned_offset_cheapest() {
    let sweep = bench_model::measure("wd20ears").unwrap();
    assert_eq!(sweep.arms().len(), 3);
    assert_eq!(sweep.best().offset, 0);
    assert!(sweep.worst_ratio().value > 1.5);
}

#[test]
fn the_custom_drive_reads_only_for_misaligned_writes() {
    assert_eq!(custom_drive::reads_caused(0).unwrap(), 0);
    assert!(custom_drive::reads_caused(4096).unwrap() >= 100);
}
