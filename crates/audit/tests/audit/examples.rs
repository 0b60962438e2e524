//! The examples do what they say.

#[expect(dead_code, reason = "its main is not called here")]
#[path = "../../examples/audit_image.rs"]
mod audit_image;

#[test]
fn audit_image_finds_a_misaligned_partition_only() {
    let path = std::env::temp_dir().join(format!("straddle-example-{}.img", std::process::id()));
    for (start, expected) in [(63_u32, true), (2048, false)] {
        let mut disk = vec![0; 64 << 20];
        disk[446 + 4] = 0x83;
        disk[446 + 8..446 + 12].copy_from_slice(&start.to_le_bytes());
        disk[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
        disk[510..512].copy_from_slice(&[0x55, 0xAA]);
        std::fs::write(&path, disk).unwrap();
        let findings = audit_image::audit(&path);
        std::fs::remove_file(&path).unwrap();
        let codes: Vec<&str> = findings.unwrap().findings().iter().map(|it| it.rule.code.as_str()).collect();
        assert_eq!(codes.contains(&"S001"), expected, "{start}: {codes:?}");
    }
}
