//! Disks that fail: every call, at random, for good.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use straddle_units::io::SplitMix64;
use straddle_units::{ByteOffset, ErrorKind};

use super::machine::{Failing, Image, Machine};
use super::shapes::{Decision, Final, Shape, World, shapes};
use crate::relocate::RelocateError;
use crate::relocate::Sequence;
use crate::relocate::fault::{Fault, plant};
use crate::relocate::filler;

/// A job that is possible on a small disk.
fn random_shape(random: &mut SplitMix64) -> Shape {
    let room = 40;
    let block = [(1, 0), (2, 0), (4, 0), (4, 3), (8, 0)][random.index(5)];
    let window = block.0 * (1 + random.below(3));
    loop {
        let mut moves = Vec::new();
        for _ in 0..=random.below(3) {
            let len = 1 + random.below(14);
            moves.push([random.below(room - len + 1), len, random.below(room - len + 1)]);
        }
        let shape = Shape {
            name: "random",
            moves,
            block,
            window,
            holes: &[],
            bad: &[],
            is_two: random.once_in(3),
            room,
        };
        if is_possible(&shape) {
            return shape;
        }
    }
}

fn is_possible(shape: &Shape) -> bool {
    use straddle_units::{Boundary, ByteOffset};
    let moves = shape.moves.iter().map(|[start, len, to]| crate::relocate::Move {
        from: super::shapes::span(*start, *len),
        to: ByteOffset::new(to * 512),
    });
    let size = super::shapes::sectors(shape.room);
    let blocks = Boundary::new(super::shapes::sectors(shape.block.0), super::shapes::sectors(shape.block.1));
    let window = super::shapes::sectors(shape.window);
    let (id, payload, moves) = ([0; 16], Vec::new(), moves.collect());
    crate::relocate::Job::new(crate::relocate::Parts {
        size,
        blocks: blocks.unwrap(),
        window,
        id,
        moves,
        payload,
    })
    .is_ok()
}

/// Starts or recovers again and again, until there is no error; returns how it ended and the number of
/// errors.
fn persist(
    world: &World,
    image: &Image,
    random: &mut SplitMix64,
    decide: impl Fn(&mut SplitMix64) -> Decision,
) -> (Rc<RefCell<Machine>>, Final, u32) {
    let machine = world.boot(image);
    machine.borrow_mut().records = false;
    let mut errors = 0;
    loop {
        machine.borrow_mut().failing = Failing {
            call: (errors < 10).then(|| random.below(80)),
            seed: random.next(),
            ..Failing::default()
        };
        let ended = match world.recover(&machine, decide(random)) {
            Ok(Final::None) => world.start(&machine),
            other => other,
        };
        match ended {
            Ok(end) => return (machine, end, errors),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Failed, "{error:?}");
                errors += 1;
            }
        }
        assert!(errors < 20);
        if random.once_in(3) {
            // The machine starts again: the caches are gone.
            let all = super::shapes::span(0, world.split as u64);
            let mut disk = super::machine::SimDisk { machine: Rc::clone(&machine), is_second: false };
            crate::relocate::Disk::drop_cache(&mut disk, all);
        }
    }
}

#[test]
fn errors_lose_nothing() {
    let (mut ends, mut errors) = ([0, 0], 0);
    for seed in 0..4000 {
        let mut random = SplitMix64::new(seed);
        let shape = random_shape(&mut random);
        let world = World::new(&shape);
        let (machine, end, failed) = persist(&world, world.original.as_ref(), &mut random, |random| {
            if random.once_in(3) { Decision::Rollback } else { Decision::Resume }
        });
        let right = world.is_right(&machine.borrow().current, end);
        assert_eq!(right, Ok(()), "seed {seed}: {shape:?}");
        ends[usize::from(end == Final::Back)] += 1;
        errors += failed;
    }
    println!("4000 random jobs, {errors} errors: {} moved, {} moved back", ends[0], ends[1]);
    assert!(ends[0] > 1000 && ends[1] > 300 && errors > 2000);
}

/// A crash right after an error.
#[test]
fn errors_and_crashes_lose_nothing() {
    let mut ends = [0, 0];
    for seed in 0..1500 {
        let mut random = SplitMix64::new(seed);
        let shape = random_shape(&mut random);
        let world = World::new(&shape);
        let mut image = world.original.to_vec();
        for _ in 0..3 {
            let machine = world.boot(&image);
            machine.borrow_mut().failing =
                Failing { call: Some(random.below(80)), seed: random.next(), ..Failing::default() };
            let decision = if random.once_in(3) { Decision::Rollback } else { Decision::Resume };
            let ended = match world.recover(&machine, decision) {
                Ok(Final::None) => world.start(&machine),
                other => other,
            };
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::Failed, "seed {seed}: {error:?}");
            }
            let mut machine = machine.borrow_mut();
            machine.note();
            let at = random.index(machine.epochs.len().max(1));
            // The last one as often as all others: what follows an error.
            let epoch = if random.once_in(2) { machine.epochs.last() } else { machine.epochs.get(at) };
            if let Some(epoch) = epoch {
                image = epoch.crash(world.garbage, |_| {
                    use super::machine::Outcome::{Kept, Lost, Torn};
                    [Lost, Kept, Kept, Torn][random.index(4)]
                });
            }
        }
        let machine = world.boot(&image);
        let decision = if random.once_in(2) { Decision::Rollback } else { Decision::Resume };
        let end = world.recover(&machine, decision).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert_eq!(world.is_right(&machine.borrow().current, end), Ok(()), "seed {seed}: {shape:?}");
        ends[usize::from(end == Final::Back)] += 1;
    }
    assert!(ends[0] > 300 && ends[1] > 300, "{ends:?}");
}

/// A sector that cannot be written stops the job; the way back does not need it.
#[test]
fn a_sector_that_cannot_be_written_does_not_block_the_way_back() {
    let mut tried = 0;
    for shape in shapes() {
        let world = World::new(&shape);
        let old: Vec<usize> = world.data.iter().map(|(sector, _)| *sector).collect();
        let block = usize::try_from(shape.block.0).unwrap();
        // Where nothing was, and none of its physical sector: nobody can write the others back.
        let is_apart = |sector: usize| old.iter().all(|other| other.abs_diff(sector) >= block);
        let is_old = |sector: &usize| old.contains(sector);
        for bad in world.moved.iter().map(|(sector, _)| *sector).filter(|sector| !is_old(sector)) {
            let machine = world.boot(&world.original);
            machine.borrow_mut().failing.bad = Some(bad);
            let error = world.start(&machine).unwrap_err();
            assert!(matches!(error, RelocateError::Write { .. }), "{error:?}");
            let again = world.recover(&machine, Decision::Resume).unwrap_err();
            assert!(matches!(again, RelocateError::Write { .. }), "{again:?}");
            let back = world.recover(&machine, Decision::Rollback);
            if is_apart(bad) {
                assert_eq!(back.unwrap(), Final::Back, "{shape:?}: sector {bad}");
                tried += 1;
            }
            // With a drive that writes it after all.
            machine.borrow_mut().failing.bad = None;
            let end = world.recover(&machine, Decision::Rollback).unwrap();
            assert_eq!(world.is_right(&machine.borrow().current, end), Ok(()));
        }
    }
    println!("{tried} bad sectors");
    assert!(tried > 50, "{tried}");
}

/// The error names the sector that cannot be read, and there is a way back.
#[test]
fn a_sector_that_cannot_be_read_is_named() {
    for shape in shapes().into_iter().filter(|shape| shape.bad.is_empty()) {
        let world = World::new(&shape);
        for (bad, _) in &world.data {
            let machine = world.boot(&world.original);
            machine.borrow_mut().failing.unreadable = Some(*bad);
            match world.start(&machine).unwrap_err() {
                RelocateError::Read { at, .. } => assert_eq!(at.get(), *bad as u64 * 512),
                other => panic!("{other:?}"),
            }
            let end = world.recover(&machine, Decision::Rollback).unwrap_or_else(|error| {
                panic!("{shape:?}: sector {bad}: {error:?}");
            });
            assert_eq!(end, Final::Back);
            assert_eq!(world.is_right(&machine.borrow().current, end), Ok(()));
        }
    }
}

/// Every destination once gets on the medium something else than what was written: that is found while there
/// is a way back. Returns the number of sectors that were tried.
fn rotten(shapes: &[Shape]) -> Result<usize, String> {
    let mut tried = 0;
    for shape in shapes {
        let world = World::new(shape);
        let sectors = shape.moves.iter().flat_map(|[_, len, to]| *to..to + len);
        for sector in sectors.map(|sector| usize::try_from(sector).unwrap()) {
            let machine = world.boot(&world.original);
            machine.borrow_mut().records = false;
            machine.borrow_mut().failing.rot = Some((sector, world.garbage));
            let found = world.start(&machine);
            if !matches!(found, Err(RelocateError::Changed { .. })) {
                return Err(format!("{}: sector {sector}: {found:?}", shape.name));
            }
            let wrong = |why: String| format!("{}: sector {sector}: {why}", shape.name);
            let end = world
                .recover(&machine, Decision::Rollback)
                .map_err(|error| wrong(format!("no way back: {error:?}")))?;
            world.is_right(&machine.borrow().current, end).map_err(wrong)?;
            tried += 1;
        }
    }
    Ok(tried)
}

#[test]
fn what_is_not_as_it_was_written_can_be_undone() {
    let tried = rotten(&shapes()).unwrap();
    println!("{tried} rotten sectors");
    plant(Some(Fault::LateCheck));
    let late = rotten(&shapes());
    plant(None);
    println!("compared too late: {late:?}");
    assert!(late.is_err());
}

/// A disk that takes data for holes loses none of them.
#[test]
fn only_zeros_become_holes() {
    let mut punched = 0;
    for shape in shapes() {
        let world = World::new(&shape);
        let machine = world.boot(&world.original);
        machine.borrow_mut().holes_lie = true;
        let end = world.start(&machine).unwrap();
        assert_eq!(world.is_right(&machine.borrow().current, end), Ok(()), "{shape:?}");
        let machine = world.boot(&world.original);
        world.start(&machine).unwrap();
        punched += machine.borrow().punched;
        assert_eq!(machine.borrow().punched > 0, !shape.holes.is_empty(), "{shape:?}");
    }
    println!("{punched} sectors punched");
}

/// A sector that was read before a crash, and cannot be read again after it.
#[test]
fn what_cannot_be_read_again_is_listed_or_there_already() {
    let shape = shapes().into_iter().find(|shape| shape.name == "far up").unwrap();
    let world = World::new(&shape);
    let machine = world.boot(&world.original);
    world.start(&machine).unwrap();
    let (mut listed, mut there) = (0, 0);
    for epoch in &machine.borrow().epochs {
        let mut images = Vec::new();
        super::exhaustive::crashes(epoch, world.garbage, &mut |image| images.push(image));
        for (image, (bad, contents)) in
            images.iter().flat_map(|image| world.data.iter().map(move |bad| (image, bad)))
        {
            let machine = world.boot(image);
            machine.borrow_mut().failing.unreadable = Some(*bad);
            let found = world.with(&machine, |disks, place| {
                let Some(crate::relocate::Recovered::Unfinished(found)) =
                    crate::relocate::open(disks, place).unwrap()
                else {
                    return None;
                };
                let ended = found.skip_bad().resume(&mut |_| ControlFlow::Continue(())).unwrap();
                let Some(mut moved) = ended else { panic!("{ended:?}") };
                Some(moved.bad())
            });
            let Some(found) = found else { continue };
            let is_listed =
                found.iter().any(|other| other.from.contains(super::shapes::span(*bad as u64, 1)));
            for (sector, number) in &world.moved {
                let now = machine.borrow().current[*sector];
                assert!(
                    now == *number || (*number == *contents && is_listed),
                    "{bad}: sector {sector} is lost"
                );
            }
            assert!(found.len() <= 1);
            listed += usize::from(is_listed);
            there += usize::from(!is_listed);
        }
    }
    println!("{listed} listed, {there} moved before");
    assert!(listed > 100 && there > 100);
}

/// A sector that is at its destination already, and is lost at its source: the way back restores it.
#[test]
fn what_only_the_destination_has_is_written_back() {
    let shape = shapes().into_iter().find(|shape| shape.name == "far up").unwrap();
    let world = World::new(&shape);
    let machine = world.boot(&world.original);
    world.start(&machine).unwrap();
    let mut restored = 0;
    for epoch in &machine.borrow().epochs {
        let mut images = Vec::new();
        super::exhaustive::crashes(epoch, world.garbage, &mut |image| images.push(image));
        for (image, (bad, contents)) in
            images.iter().flat_map(|image| world.data.iter().map(move |bad| (image, bad)))
        {
            let is_there = |(sector, number): &&(usize, u32)| {
                number == contents && sector != bad && image[*sector] == *number
            };
            if image[*bad] != *contents || !world.moved.iter().any(|one| is_there(&one)) {
                continue;
            }
            let mut image = image.clone();
            image[*bad] = world.garbage;
            let machine = world.boot(&image);
            machine.borrow_mut().failing.unreadable = Some(*bad);
            if !matches!(world.recover(&machine, Decision::Rollback), Ok(Final::Back)) {
                continue;
            }
            assert_eq!(machine.borrow().current[*bad], *contents, "sector {bad} is lost");
            restored += 1;
        }
    }
    println!("{restored} sectors restored");
    assert!(restored > 10);
}

/// A sector that cannot be read while it is moved, and can be later: the way back leaves it as it is where
/// nothing was written over it, stopped anywhere or not.
#[test]
fn what_can_be_read_again_is_not_lost_on_the_way_back() {
    let (mut kept, mut lost) = (0, 0);
    for (shape, windows) in shapes().into_iter().flat_map(|shape| (1..6).map(move |n| (shape.clone(), n))) {
        let world = World::new(&shape);
        // What is in several sectors would be unreadable in all of them.
        let is_one = |number: u32| world.original.iter().filter(|other| **other == number).count() == 1;
        let data = world.data.iter().filter(|(_, number)| shape.bad.is_empty() && is_one(*number));
        for (bad, contents) in data {
            let machine = world.boot(&world.original);
            machine.borrow_mut().unreadable = *contents;
            let written = world.with(&machine, |disks, place| {
                let begun = crate::relocate::begin(disks, place, world.job.clone()).unwrap().skip_bad();
                let mut left = windows;
                let ended = begun.resume(&mut |_| {
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                let is_complete = ended.unwrap().is_some();
                let forward = Sequence::forward(&world.job);
                forward.written(if is_complete { forward.count } else { windows })
            });
            machine.borrow_mut().unreadable = u32::MAX;
            let end = world.recover(&machine, Decision::Rollback).unwrap();
            assert_eq!(end, Final::Back);
            let block = world.job.round_out(super::shapes::span(*bad as u64, 1));
            let now = machine.borrow().current[*bad];
            if written.iter().any(|span| span.overlaps(block)) {
                let at = ByteOffset::new(*bad as u64 * 512);
                let filler = world.store.borrow_mut().number(&filler(at));
                assert!(now == *contents || now == filler, "{shape:?}: sector {bad}");
                lost += 1;
            } else {
                assert_eq!(
                    now, *contents,
                    "{shape:?}, {windows} windows: sector {bad} was never overwritten"
                );
                kept += 1;
            }
            for (sector, number) in world.data.iter().filter(|(sector, _)| sector != bad) {
                assert_eq!(machine.borrow().current[*sector], *number, "{shape:?}: sector {sector}");
            }
        }
    }
    println!("{kept} sectors were never overwritten, {lost} were");
    assert!(kept > 100 && lost > 100, "{kept} {lost}");
}
