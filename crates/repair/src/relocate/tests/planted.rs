//! Mistakes in the engine are found by the search.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::exhaustive::{search, search_in};
use super::shapes::{Shape, World, shapes};
use crate::relocate::fault::{Fault, plant};

/// The first shape that shows the mistake, and how.
fn found(fault: Fault) -> Option<(&'static str, String)> {
    plant(Some(fault));
    // Sectors are not torn in the others.
    let is_torn = fault == Fault::NoEdges;
    let is_bad = fault == Fault::LateList;
    let fits = |shape: &&Shape| (!is_torn || shape.block.0 > 1) && (!is_bad || !shape.bad.is_empty());
    let found = shapes().iter().filter(fits).find_map(|shape| {
        let searched = catch_unwind(AssertUnwindSafe(|| search(shape, 1500, false)));
        match searched {
            Ok(Ok(_)) => None,
            Ok(Err(why)) => Some((shape.name, why)),
            Err(_) => Some((shape.name, "a panic".to_owned())),
        }
    });
    plant(None);
    found
}

#[test]
fn every_planted_mistake_is_found() {
    let faults = [
        Fault::NoFlush,
        Fault::DataFirst,
        Fault::ShortDirect,
        Fault::OneSlot,
        Fault::EarlyEnd,
        Fault::NoPrevious,
        Fault::NoUndo,
        Fault::EarlyUndone,
        Fault::NoEdges,
        Fault::EraseRecordsFirst,
        Fault::StaleRecords,
        Fault::LateList,
    ];
    let mut missed = Vec::new();
    for fault in faults {
        match found(fault) {
            Some((shape, why)) => println!("{fault:?}: {shape}: {why}"),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_disk_that_ignores_flushes_is_found() {
    let mut world = World::new(&shapes()[0]);
    world.flushes_lost = true;
    let searched = search_in(&world, 1500, false);
    println!("{searched:?}");
    assert!(searched.is_err());
}
