//! Tables that are damaged, endless, or impossible.

use straddle_units::io::SplitMix64;

use super::*;

/// A boot record with these entries (type, start, count).
pub(crate) fn boot_record(entries: &[(u8, u32, u32)]) -> [u8; 512] {
    let mut sector = [0; 512];
    for (entry, (kind, start, count)) in sector[446..].chunks_exact_mut(16).zip(entries) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..16].copy_from_slice(&count.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The fields of a GPT header; all are written unchanged, with matching CRCs.
#[derive(Clone)]
pub(crate) struct Gpt {
    size: u64,
    entry_count: u32,
    entry_size: u32,
    header_size: u32,
    /// The first and the last block of each partition.
    partitions: Vec<(u64, u64)>,
}

impl Gpt {
    pub(crate) fn new(partitions: &[(u64, u64)]) -> Self {
        Self {
            size: 64 * MIB,
            entry_count: 128,
            entry_size: 128,
            header_size: 92,
            partitions: partitions.to_vec(),
        }
    }

    pub(crate) fn write(&self, path: &Path) {
        let last = self.size / BLOCK - 1;
        // The CRC of an entry array too large for any disk does not matter.
        let len = u64::from(self.entry_count) * u64::from(self.entry_size);
        let mut array = vec![0; usize::try_from(len.min(MIB)).unwrap()];
        let entry_size = usize::try_from(self.entry_size).unwrap();
        for (index, (first, end)) in self.partitions.iter().enumerate() {
            let Some(entry) = array.get_mut(index * entry_size..index * entry_size + 128) else { break };
            entry[..16].fill(0x11);
            entry[16..32].fill(u8::try_from(index % 255).unwrap() + 1);
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&end.to_le_bytes());
        }
        let header = |my: u64, other: u64, entries: u64| {
            let mut header = [0; 512];
            header[..8].copy_from_slice(b"EFI PART");
            header[8..12].copy_from_slice(&0x10000_u32.to_le_bytes());
            header[12..16].copy_from_slice(&self.header_size.to_le_bytes());
            for (at, value) in [(24, my), (32, other), (40, 34), (48, last - 33), (72, entries)] {
                header[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            header[80..84].copy_from_slice(&self.entry_count.to_le_bytes());
            header[84..88].copy_from_slice(&self.entry_size.to_le_bytes());
            header[88..92].copy_from_slice(&crc32fast::hash(&array).to_le_bytes());
            let summed = usize::try_from(self.header_size).unwrap().min(512);
            let crc = crc32fast::hash(&header[..summed]);
            header[16..20].copy_from_slice(&crc.to_le_bytes());
            header
        };
        let backup_array = last - (array.len() as u64).div_ceil(BLOCK);
        sparse(
            path,
            self.size,
            &[
                (0, &boot_record(&[(0xee, 1, u32::MAX)])),
                (BLOCK, &header(1, last, 2)),
                (2 * BLOCK, &array),
                (backup_array * BLOCK, &array),
                (last * BLOCK, &header(last, 1, backup_array)),
            ],
        );
    }
}

#[test]
fn tables_that_end_too_early() {
    let dir = TempDir::new().unwrap();
    let (gpt, mbr) = (dir.path().join("gpt.img"), dir.path().join("mbr.img"));
    Gpt::new(&[(2048, 4095), (4097, 9000)]).write(&gpt);
    let chain = boot_record(&[(0x83, 63, 1000), (5, 2048, 30000)]);
    sparse(
        &mbr,
        32 * MIB,
        &[
            (0, &chain),
            (2048 * BLOCK, &boot_record(&[(0x83, 63, 100), (5, 8192, 2048)])),
            (10240 * BLOCK, &boot_record(&[(0x83, 63, 100)])),
        ],
    );
    let around = |at: u64| [at - 1, at, at + 1];
    let mut lengths: Vec<u64> =
        [446, 510, 512, 1024, 1024 + 92, 4096, 8192, 34 * BLOCK, 2048 * BLOCK, 2049 * BLOCK]
            .into_iter()
            .chain((3..34).map(|block| block * BLOCK))
            .flat_map(around)
            .chain([1, 2, 10240 * BLOCK, 10240 * BLOCK + 511, 10241 * BLOCK, 31 * MIB])
            .collect();
    // The longest first, so that the file only has to be truncated and never copied.
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    for cut in [gpt, mbr] {
        for &length in &lengths {
            File::options().write(true).open(&cut).unwrap().set_len(length).unwrap();
            // Less than a sector cannot be judged, unless it is all zeros.
            let codes: &[i32] = if length < BLOCK { &[0, 3] } else { &[0, 1] };
            check(&cut).ended(codes).says(cut.to_str().unwrap());
        }
        File::create(&cut).unwrap();
        check(&cut).ended(&[3]).says("is empty (0 bytes)").says(cut.to_str().unwrap());
    }
}

#[test]
fn entry_arrays_that_nobody_could_store() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    let good = Gpt::new(&[(2048, 4095)]);
    for (entry_count, entry_size) in [
        (u32::MAX, 128),
        (u32::MAX, u32::MAX),
        (128, 1 << 31),
        (1, 1 << 31),
        (128, 0),
        (0, 128),
        (128, 1),
        (128, 127),
        (u32::MAX, 8),
        (65536, 4096),
        (1 << 25, 128),
    ] {
        Gpt { entry_count, entry_size, ..good.clone() }.write(&image);
        check(&image).ended(&[1]).says("the primary is at byte 512").says(image.to_str().unwrap());
    }
    for header_size in [0, 1, 91, 513, u32::MAX] {
        Gpt { header_size, ..good.clone() }.write(&image);
        check(&image)
            .ended(&[1])
            .says(&format!("the recorded length of the header, {header_size} bytes, is not valid"));
    }
}

#[test]
fn partitions_that_cannot_be() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    for (partitions, says) in [
        (vec![(4096, 2048)], "the partition ends (LBA 2048) before it starts (LBA 4096)"),
        (vec![(2048, u64::MAX)], "is beyond byte 2^64"),
        (vec![(u64::MAX, u64::MAX)], "is beyond byte 2^64"),
        (vec![(0, u64::MAX)], "is beyond byte 2^64"),
        (vec![(2048, (u64::MAX >> 9) - 1)], "is past the end of the disk from byte"),
        (vec![(2048, 1 << 30)], "is past the end of the disk from byte"),
        (vec![(2048, 8191), (4096, 6143)], "overlaps partition 2 from byte 2097152"),
        (vec![(0, 131_071), (1, 1)], "overlaps partition 2 from byte 512"),
        (vec![(2048, 4095); 128], "overlaps partition 2"),
    ] {
        Gpt::new(&partitions).write(&image);
        check(&image).ended(&[1]).says(says);
        run(command().args(["check", "--json", "--assume", "512e,stripe=192KiB"]).arg(&image)).ended(&[1]);
    }
    // More partitions than are listed, all of them misaligned.
    let entry_count = 8000;
    let partitions: Vec<(u64, u64)> = (0..8000).map(|n| (20481 + n * 10, 20488 + n * 10)).collect();
    Gpt { entry_count, ..Gpt::new(&partitions) }.write(&image);
    check(&image)
        .ended(&[1])
        .says("there are more than 1024 partitions")
        .says("512 bytes past a physical sector (S001)");
}

#[test]
fn chains_of_ebrs_without_an_end() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    let mbr = boot_record(&[(5, 2048, 0xf000_0000)]);

    // Every sector of 50 MiB links to the next one: a hundred times more links than are followed.
    let mut file = File::create(&image).unwrap();
    file.write_all(&mbr).unwrap();
    file.seek(SeekFrom::Start(2048 * BLOCK)).unwrap();
    let mut bytes = Vec::new();
    for next in 1..=100_000 {
        bytes.extend(boot_record(&[(0x83, 1, 1), (5, next, 2)]));
    }
    file.write_all(&bytes).unwrap();
    check(&image).ended(&[1]).says("those from byte 1572864 on are not listed");

    let link = |to: u32| boot_record(&[(0x83, 63, 8), (5, to, 2048)]);
    let at = |block: u64| (2048 + block) * BLOCK;
    for (ebrs, says) in [
        (vec![(0, link(0))], "the extended boot record at byte 1048576 links back"),
        (vec![(0, link(4096)), (4096, link(0))], "the extended boot record at byte 3145728 links back"),
        (vec![(0, link(4096)), (4096, link(4096))], "the extended boot record at byte 3145728 links back"),
        (vec![(0, link(u32::MAX))], "the extended boot record at byte 1048576 points to byte 2199024303616"),
        (vec![(0, link(4096))], "byte 3145728 should be an extended boot record"),
        (vec![], "byte 1048576 should be an extended boot record"),
    ] {
        let mut pieces: Vec<(u64, &[u8])> = vec![(0, &mbr)];
        pieces.extend(ebrs.iter().map(|(block, ebr)| (at(*block), ebr.as_slice())));
        sparse(&image, 64 * MIB, &pieces);
        check(&image).ended(&[1]).says(says);
    }
    // Four containers that refer to each other.
    let four = boot_record(&[(5, 2048, 9999), (0xf, 2048, 9999), (0x85, 0, 9999), (5, u32::MAX, u32::MAX)]);
    sparse(&image, 64 * MIB, &[(0, &four), (at(0), &link(0))]);
    check(&image).ended(&[1]);
}

#[test]
fn memory_does_not_grow_with_what_a_table_claims() {
    let dir = TempDir::new().unwrap();
    let mut images: Vec<PathBuf> = Vec::new();
    let mut add = |gpt: Gpt| {
        let image = dir.path().join(format!("{}.img", images.len()));
        gpt.write(&image);
        images.push(image);
    };
    let partitions: Vec<(u64, u64)> = (0..8000).map(|n| (20481 + n * 10, 20488 + n * 10)).collect();
    add(Gpt { entry_count: 8000, ..Gpt::new(&partitions) });
    add(Gpt { entry_count: u32::MAX, entry_size: 1 << 31, ..Gpt::new(&[]) });
    add(Gpt { entry_count: 65536, entry_size: 128, ..Gpt::new(&partitions) });
    let loops = dir.path().join("loop.img");
    let mut pieces = vec![(0, boot_record(&[(5, 1, u32::MAX)]))];
    pieces.extend((1..3000).map(|n| (u64::from(n) * BLOCK, boot_record(&[(0x83, 1, 1), (5, n, 1)]))));
    let pieces: Vec<(u64, &[u8])> = pieces.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
    sparse(&loops, 1 << 40, &pieces);
    images.push(loops);
    for image in images {
        // The limit is 256 MiB of address space, not of memory in use: no allocation of this size may even be
        // attempted.
        let limited = "ulimit -v 262144 && exec \"$0\" check -v \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, STRADDLE]).arg(&image).stdin(Stdio::null());
        run(&mut command).ended(&[1]).says(image.to_str().unwrap());
    }
}

/// Images written by sfdisk, if it is installed.
fn images_by_sfdisk(dir: &Path) -> Option<Vec<PathBuf>> {
    let scripts = [
        "label: gpt\nstart=2048,size=4096,name=\"a b'c\"\nstart=6207,size=63\n,8192,U\n",
        "label: gpt\nlabel-id: 00000000-0000-0000-0000-000000000001\n,\n",
        "label: dos\nstart=63,size=5000,type=c,bootable\n,,83\n",
        "label: dos\n2048,1000\n3072,,E\n4096,500\n,100\n,63\n,,\n",
    ];
    let mut images = Vec::new();
    for (index, script) in scripts.into_iter().enumerate() {
        let image = dir.join(format!("sfdisk-{index}.img"));
        sparse(&image, 16 * MIB, &[]);
        let mut sfdisk = Command::new("sfdisk");
        sfdisk.env("PATH", PATH).args(["-q", "--no-tell-kernel"]).arg(&image).stdin(Stdio::piped());
        let mut child = sfdisk.spawn().ok()?;
        child.stdin.take()?.write_all(script.as_bytes()).ok()?;
        assert!(child.wait().unwrap().success(), "sfdisk does not take {script}");
        images.push(image);
    }
    Some(images)
}

#[test]
fn tables_with_random_damage() {
    let count: u32 = if crate::tools::skip::is_sampled() { 100 } else { 300 };
    let options: [&[&str]; 8] = [
        &[],
        &["-v"],
        &["--quiet"],
        &["--json"],
        &["--json", "--assume", "4kn"],
        &["--assume", "512e,offset=3584,stripe=192KiB,atomic=16KiB"],
        &["--logical", "4096"],
        &["--logical", "512", "--assume", "512n"],
    ];
    let dir = TempDir::new().unwrap();
    let Some(images) = images_by_sfdisk(dir.path()) else {
        return skipped("random damage: sfdisk is not installed");
    };
    let seed = std::env::var("STRADDLE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(0x5eed_0001_u64).max(1);
    // Only the tables are worth damaging: the sectors that are not all zeros.
    let tables = |bytes: &[u8]| -> Vec<usize> {
        (0..bytes.len() / 512).filter(|sector| bytes[sector * 512..][..512] != [0; 512]).collect()
    };
    let contents: Vec<(Vec<u8>, Vec<usize>)> = images
        .iter()
        .map(|image| fs::read(image).unwrap())
        .map(|bytes| (bytes.clone(), tables(&bytes)))
        .collect();
    let damaged = dir.path().join("damaged.img");
    for case in 0..count {
        let mut random = SplitMix64::new(seed.wrapping_add(u64::from(case) << 32));
        let (content, sectors) = &contents[random.index(contents.len())];
        let mut bytes = content.clone();
        for _ in 0..=random.index(12) {
            let at = sectors[random.index(sectors.len())] * 512 + random.index(512);
            match random.index(4) {
                0 => bytes[at] ^= 1 << random.index(8),
                1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.index(4)],
                2 => bytes[at] = u8::try_from(random.index(256)).unwrap(),
                _ => {
                    let sector = at / 512 * 512;
                    let fill = [0, 0xff][random.index(2)];
                    bytes[at..(at + random.index(64)).min(sector + 512)].fill(fill);
                }
            }
        }
        if random.index(8) == 0 {
            bytes.truncate(1 + random.index(bytes.len()));
        }
        // Zeros between the sectors stay a hole.
        let file = File::create(&damaged).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for sector in sectors.iter().map(|sector| sector * 512).filter(|sector| *sector < bytes.len()) {
            file.write_all_at(&bytes[sector..(sector + 512).min(bytes.len())], sector as u64).unwrap();
        }
        let options = options[random.index(options.len())];
        let run = run(command().arg("check").args(options).arg(&damaged));
        let fine = matches!(run.code, Some(0 | 1 | 3)) && !run.err.contains("panicked");
        if !fine {
            let kept = std::env::temp_dir().join(format!("straddle-damaged-{case}.img"));
            fs::copy(&damaged, &kept).unwrap();
            panic!(
                "seed {seed}, case {case}, {options:?}: exit {:?}, {}: {}",
                run.code,
                kept.display(),
                run.err
            );
        }
    }
}
