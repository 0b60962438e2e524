//! An image of a disk with sectors of 4096 bytes: its MBR does not say so.

use std::fs;

use super::{NAME, begin, check, content, of_rule, run};
use crate::tools::{self, Dir, list, word, write_table};

/// Each in sectors.
const PARTS: [(usize, usize); 2] = [(63, 5001), (8000, 1000)];

#[test]
fn a_move_on_large_sectors_is_known_and_goes_back() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("large");
    let image = dir.image(NAME, 96 << 20);
    write_table(&image, 4096, "label: dos\nstart=63, size=5001\nstart=8000, size=1000\n");
    let mut before = fs::read(&image).unwrap();
    for (start, sectors) in PARTS {
        let content = content(u32::try_from(sectors * 8).unwrap());
        before.splice(start * 4096..(start + sectors) * 4096, content);
    }
    fs::write(&image, &before).unwrap();
    let words =
        ["realign", NAME, "--logical", "4096", "--partition", "1", "--start", "1=64s", "--save", "move.json"];
    let (status, said) = run(&dir, &words);
    assert_eq!(status, Some(0), "{said}");
    begin(&dir, None);
    let report = check(&dir);
    let finding = of_rule(&report, "S047")[0];
    let commands = list(&finding["fix"], "commands");
    assert!(word(&commands[0], "line") == "straddle resume disk.img", "{finding}");
    // The old table, put back by another program.
    let mut half = fs::read(&image).unwrap();
    half[..512].copy_from_slice(&before[..512]);
    fs::write(&image, &half).unwrap();
    let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
    assert_eq!(status, Some(0), "{said}");
    let now = fs::read(&image).unwrap();
    for (start, sectors) in PARTS {
        let place = start * 4096..(start + sectors) * 4096;
        assert!(now[place.clone()] == before[place], "{start}: {said}");
    }
}
