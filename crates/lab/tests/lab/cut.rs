//! Random workloads on random small drives, with power cuts at random points: data that was flushed survives.
//!
//! Each write fills its sectors with its own number, so that the remaining contents of a sector identify
//! their write. The seeds of workload and cut are part of the test case, which proptest prints and records.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "indexes of small drives")]

#[path = "../../../drive/tests/drive/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::shape::{Kept, shapes};
use common::{SECTOR, Wish, config, operations, wishes};
use proptest::prelude::*;
use straddle_drive::Profile;
use straddle_lab::media::{Cut, MediaError, Payload, Served, Store, Tear};
use straddle_units::io::{Nanos, Operation, Request, RequestId, Time};

/// A small solid-state drive.
fn flash(unit: u64, page: u64, buffer: u64, protected: bool) -> Profile {
    let text = format!(
        "name = \"small\"\ntitle = \"made by a test\"\n\
        [claims]\nmodel = \"TEST\"\ncapacity_bytes = 2097152\nlogical_sector_bytes = 512\nphysical_sector_bytes = 4096\n\
        rotational = false\ndiscard_granularity_bytes = 512\n\
        [interface]\nlink_mb_s = 500\nread_overhead_us = 3\nwrite_overhead_us = 8\ncompletion_overhead_us = 2\nqueue_depth = 32\n\
        [flash]\nindirection_unit_bytes = {unit}\npage_bytes = {page}\npages_per_block = 8\ndies = 2\nchannels = 2\n\
        read_us = 50\nprogram_us = 500\nerase_us = 2000\nchannel_mb_s = 400\nbuffer_bytes = {buffer}\n\
        over_provisioning = 1.0\ndestage_after_ms = 5\npower_loss_protection = {protected}\n"
    );
    Profile::parse("small", &text, &[]).unwrap()
}

fn flashes() -> impl Strategy<Value = Profile> {
    let unit = prop::sample::select(vec![512_u64, 4096, 16384]);
    let page = prop::sample::select(vec![4096_u64, 16384]);
    (unit, page, 2_u64..16, prop::bool::weighted(0.2))
        .prop_map(|(unit, page, buffer, protected)| flash(unit, page, buffer * unit.max(page), protected))
}

/// The host's knowledge of every sector. Changes are numbered from 1 in the order of submission.
struct Host {
    served: Served,
    requests: Vec<Request>,
    completed: Vec<bool>,
    /// The changes of each sector, in order. A discard among them may leave the sector unchanged, or zeroes.
    history: BTreeMap<u64, Vec<usize>>,
    /// For each sector, the change that must survive unless a later one does.
    promised: BTreeMap<u64, usize>,
    /// For each open flush, the changes that had completed when it was submitted.
    flushes: BTreeMap<usize, Vec<usize>>,
    all_survive: bool,
}

fn sectors(request: &Request) -> std::ops::Range<u64> {
    request.offset.get() / SECTOR..(request.offset.get() + request.length.get()) / SECTOR
}

impl Host {
    fn new(profile: &Profile, cut: Cut, all_survive: bool) -> Self {
        let store = Store::memory(profile.claims.capacity).unwrap();
        Self {
            served: Served::new(profile, store, Some(cut)),
            requests: Vec::new(),
            completed: Vec::new(),
            history: BTreeMap::new(),
            promised: BTreeMap::new(),
            flushes: BTreeMap::new(),
            all_survive,
        }
    }

    /// Advances to `until`. Returns false when the power is off.
    fn pass(&mut self, until: Time) -> bool {
        let mut done = Vec::new();
        self.served.advance(until, &mut done).unwrap();
        for completion in done {
            self.complete(completion.id);
        }
        !self.served.is_cut()
    }

    fn complete(&mut self, RequestId(id): RequestId) {
        let index = id as usize;
        assert!(!std::mem::replace(&mut self.completed[index - 1], true));
        let request = self.requests[index - 1];
        if request.operation == Operation::WriteFua || (self.all_survive && request.operation.is_write()) {
            self.promise(index);
        }
        for written in self.flushes.remove(&index).unwrap_or_default() {
            self.promise(written);
        }
    }

    fn promise(&mut self, index: usize) {
        for sector in sectors(&self.requests[index - 1]) {
            let promised = self.promised.entry(sector).or_default();
            *promised = index.max(*promised);
        }
    }

    fn submit(&mut self, request: Request) -> bool {
        let index = self.requests.len() + 1;
        assert_eq!(request.id.0, index as u64);
        let pattern: Vec<u8> = (index as u64).to_le_bytes().repeat(request.length.get() as usize / 8);
        let payload = if request.operation.is_write() { Payload::Bytes(&pattern) } else { Payload::None };
        let mut done = Vec::new();
        match self.served.submit(self.served.now(), request, payload, &mut done) {
            Ok(()) => {}
            Err(MediaError::Off) => return false,
            Err(error) => panic!("{error}"),
        }
        self.requests.push(request);
        self.completed.push(false);
        if request.operation == Operation::Flush {
            let written =
                |index: &usize| self.completed[*index - 1] && self.requests[*index - 1].operation.is_write();
            self.flushes.insert(index, (1..index).filter(written).collect());
        } else if request.operation != Operation::Read {
            for sector in sectors(&request) {
                self.history.entry(sector).or_default().push(index);
            }
        }
        for completion in done {
            self.complete(completion.id);
        }
        true
    }

    /// Returns the change that a sector's contents belong to, 0 for zeroes; `None` if they belong to none.
    fn left(bytes: &[u8]) -> Option<usize> {
        let mut words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let first = words.next().unwrap();
        words.all(|word| word == first).then_some(first as usize)
    }

    /// Checks every sector except one torn physical sector. Returns whether there was one that also held
    /// another write's data.
    fn check(&self, torn_unit: Option<(u64, u64)>) -> bool {
        let mut torn = BTreeSet::new();
        let mut bytes = vec![0; self.served.claims().capacity as usize];
        self.served.read(0, &mut bytes).unwrap();
        for (sector, bytes) in (0..).zip(bytes.chunks_exact(SECTOR as usize)) {
            let history = self.history.get(&sector).map_or(&[][..], Vec::as_slice);
            let promised = self.promised.get(&sector).copied().unwrap_or_default();
            let left = Self::left(bytes);
            // Zeroes are the initial contents, and the result of a discard.
            let zeroes =
                history.iter().rev().find(|index| self.is_discard(**index)).copied().unwrap_or_default();
            let version = left.map(|left| if left == 0 { zeroes } else { left });
            let possible = version.is_some_and(|version| {
                (version == 0 || history.contains(&version)) && version >= self.owed(promised, history)
            });
            if !possible {
                let Some((physical, shift)) = torn_unit else {
                    panic!("sector {sector} holds {left:?}, of {history:?}; {promised} was promised");
                };
                torn.insert((sector * SECTOR + shift) / physical);
            }
        }
        assert!(torn.len() <= 1, "physical sectors {torn:?} are all torn");
        !torn.is_empty()
    }

    fn is_discard(&self, index: usize) -> bool {
        index > 0 && self.requests[index - 1].operation == Operation::Discard
    }

    /// Returns what was promised, unless a later discard cancelled the promise.
    fn owed(&self, promised: usize, history: &[usize]) -> usize {
        let taken_back = history.iter().any(|index| *index > promised && self.is_discard(*index));
        if taken_back { 0 } else { promised }
    }
}

/// Submits the wishes until the power fails. Returns whether a sector was torn.
fn run(
    profile: &Profile,
    all_survive: bool,
    tears: Option<(u64, u64)>,
    wishes: &[Wish],
    depth: usize,
    cut: Cut,
) -> bool {
    let mut host = Host::new(profile, cut, all_survive);
    let capacity = profile.claims.capacity;
    for (id, wish) in (1..).zip(wishes) {
        if !host.pass(host.served.now() + wish.pause) {
            break;
        }
        while host.served.outstanding() >= depth {
            host.pass(host.served.next_event().unwrap());
        }
        if host.served.is_cut() || !host.submit(wish.request(id, capacity)) {
            break;
        }
    }
    while let Some(next) = host.served.next_event() {
        host.pass(next);
    }
    assert!(host.served.is_cut());
    host.check(tears)
}

/// Cuts the power while the wishes are under way.
fn cuts() -> impl Strategy<Value = (prop::sample::Index, u64, Tear)> {
    (any::<prop::sample::Index>(), any::<u64>(), prop_oneof![Just(Tear::Garbage), Just(Tear::Nothing)])
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn disks_keep_what_was_flushed(
        shape in shapes(), wishes in wishes(operations(true), 60), depth in 1_usize..40, cut in cuts(),
    ) {
        let (after, seed, tear) = cut;
        let cut = Cut { after: after.index(wishes.len()) as u64, seed, tear };
        // A part that was on its way to the log counts as torn in place, as any other.
        let tears = matches!(shape.kept, Kept::Nothing | Kept::Log(_) | Kept::Bands(..));
        let torn = (tears && tear == Tear::Garbage)
            .then_some((shape.physical, shape.firmware_offset));
        run(&shape.profile(), shape.kept == Kept::WriteCache, torn, &wishes, depth, cut);
    }

    #[test]
    fn flash_keeps_what_was_flushed(
        profile in flashes(), wishes in wishes(operations(true), 60), depth in 1_usize..40, cut in cuts(),
    ) {
        let (after, seed, tear) = cut;
        let cut = Cut { after: after.index(wishes.len()) as u64, seed, tear };
        let protected = matches!(&profile.body, straddle_drive::profile::Body::Ssd(ssd) if ssd.power_loss_protection());
        run(&profile, protected, None, &wishes, depth, cut);
    }
}

/// Writes one logical sector of a flushed physical one. On a disk with such sectors, some cut must destroy a
/// neighbour too.
#[test]
fn a_torn_read_modify_write_takes_its_neighbours() {
    let write = |first, sectors| Wish { pause: Nanos::ZERO, ..Wish::new(Operation::Write, first, sectors) };
    let wishes = [
        write(0, 64),
        Wish::new(Operation::Flush, 0, 0),
        write(3, 1),
        write(19, 1),
        Wish::new(Operation::Flush, 0, 0),
    ];
    for policy in common::shape::POLICIES {
        let shape = common::shape::Shape { policy, write_cache: true, ..Default::default() };
        let torn = |tear| {
            (0..40)
                .filter(|seed| {
                    let cut = Cut { after: 4, seed: *seed, tear };
                    run(&shape.profile(), false, Some((4096, 0)), &wishes, 1, cut)
                })
                .count()
        };
        let (garbage, nothing) = (torn(Tear::Garbage), torn(Tear::Nothing));
        assert!(garbage > 0, "{policy}: no cut of 40 tears a sector");
        assert_eq!(nothing, 0, "{policy}");
    }
}
