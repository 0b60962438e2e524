//! What partition tables and journals of this program leave in unallocated space: it is nobody's data.
//!
//! Invariants: a sector is debris only if it says itself what it is: a copy of a GPT that is whole, or the
//! header of one, in its own place, and the GPT that counts is the same one and names another; or a part of a journal that
//! nothing follows, as its titles were never written, are gone, or say that its move never began or is over.

use crate::relocate::{Disks, State, body_at, inspect, is_title, says_nothing};
use straddle_device::Medium;
use straddle_device::fields::{has, le64};
use straddle_layout::format::gpt::{SIGNATURE, header};
use straddle_layout::{Stack, gpt_copy, is_erased, is_gpt_header, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KIB, MIB, Span};

use super::journals::{at_end, ends, is_over};
use super::payload::Payload;
use super::survey::Reading;
use crate::fingerprint::bytes_of;
use crate::target::Disk;

/// The unit in which debris is found.
const SECTOR: usize = 512;
/// What is cleared at once.
const PIECE: ByteCount = ByteCount::new(4 * KIB);
/// How far the header of a GPT is from its entries: 1024 of them, and a sector of 4096 bytes, are between the two.
const NEAR: u64 = 132 * KIB;

/// What is known of a medium's debris.
pub(super) struct Debris<'m> {
    medium: &'m dyn Medium,
    /// The sectors in which its table counts.
    block: BlockSize,
    /// What was found: what says what the rest is, and the rest.
    known: Vec<(Span, Vec<Span>)>,
    stack: Option<Stack>,
    /// The places of journals with titles, and whether they are over.
    journals: Option<Vec<(Span, bool)>>,
}

impl<'m> Debris<'m> {
    pub(super) fn of(medium: &'m dyn Medium, block: BlockSize) -> Self {
        Self { medium, block, known: Vec::new(), stack: None, journals: None }
    }

    /// Whether the sector at byte `at` is debris.
    pub(super) fn has(&mut self, at: ByteOffset, bytes: &[u8]) -> bool {
        let Some(sector) = Span::new(at, ByteCount::new(bytes.len() as u64)) else { return false };
        let is_known = |known: &(Span, Vec<Span>)| {
            known.0.contains(sector) || known.1.iter().any(|span| span.contains(sector))
        };
        if self.known.iter().any(is_known) {
            return true;
        }
        let found = match bytes {
            bytes if is_title(bytes) => {
                self.judge_at(&[sector.end()]);
                self.is_of_over(sector).then(|| (sector, Vec::new()))
            }
            bytes if says_nothing(bytes) => self.is_free(sector).then(|| (sector, Vec::new())),
            _ => self.body(sector).or_else(|| self.table(sector)),
        };
        let is_found = found.as_ref().is_some_and(is_known);
        self.known.extend(found);
        is_found
    }

    /// All that was found in `place`, in an order in which it can be cleared: what says what the rest is comes last.
    pub(super) fn within(&self, place: Span) -> Vec<Span> {
        let rest = self.known.iter().flat_map(|(_, rest)| rest.iter().rev());
        let all = rest.chain(self.known.iter().map(|(first, _)| first));
        all.filter_map(|span| {
            let (start, end) = (span.start().max(place.start()), span.end().min(place.end()));
            Span::new(start, end.checked_since(start)?).filter(|span| !span.is_empty())
        })
        .collect()
    }

    /// The body of a journal that this sector is in.
    fn body(&mut self, sector: Span) -> Option<(Span, Vec<Span>)> {
        let (run, place) = body_at(&mut Reading(self.medium), sector.start(), &Payload::is_begun)?;
        self.judge(place);
        let first = Span::new(run.start(), ByteCount::new(SECTOR as u64))?;
        let rest = Span::new(first.end(), run.end().checked_since(first.end())?)?;
        self.is_free(run).then(|| (first, rest.pieces(PIECE).collect()))
    }

    /// The copy of a GPT that this sector is in.
    fn table(&self, sector: Span) -> Option<(Span, Vec<Span>)> {
        let size = self.medium.len().get();
        let from = sector.start().get().saturating_sub(NEAR);
        let to = sector.end().get().saturating_add(NEAR).min(size);
        let around = Span::new(ByteOffset::new(from), ByteCount::new(to.checked_sub(from)?))?;
        let bytes = bytes_of(self.medium, around).ok()?;
        let headers = (from..).step_by(SECTOR).zip(bytes.chunks(SECTOR));
        let headers =
            headers.filter(|(_, bytes)| has(bytes, 0, SIGNATURE)).map(|(at, _)| ByteOffset::new(at));
        let mut headers = headers.filter(|at| !self.counts(*at));
        headers.find_map(|at| match gpt_copy(self.medium, at) {
            Some([head, array]) => {
                (head.contains(sector) || array.contains(sector)).then(|| (head, vec![array]))
            }
            // Its entries were written over, as by data that moved there.
            None => (at == sector.start() && is_gpt_header(self.medium, at)).then(|| (sector, Vec::new())),
        })
    }

    /// Whether the header at byte `at` may count: it is the first of a GPT, or the backup that the first names, whatever
    /// else that says; or no good first header is of the same GPT, of which this may be the only copy.
    fn counts(&self, at: ByteOffset) -> bool {
        let bytes_at = |at| bytes_of(self.medium, Span::new(at, ByteCount::new(SECTOR as u64))?).ok();
        let Some(own) = bytes_at(at) else { return true };
        let guid = header::DISK_GUID..header::DISK_GUID + 16;
        let mut is_copy = false;
        for block in [BlockSize::B512, BlockSize::B4096] {
            let first = ByteOffset::new(block.get());
            let Some(head) = bytes_at(first) else { continue };
            if at == first || le64(&head, header::ALTERNATE_LBA).checked_mul(block.get()) == Some(at.get()) {
                return true;
            }
            is_copy |= is_gpt_header(self.medium, first) && head.get(guid.clone()) == own.get(guid.clone());
        }
        !is_copy
    }

    /// Whether this lies in a journal that says that its move never began, or is over.
    fn is_of_over(&mut self, span: Span) -> bool {
        self.look();
        self.journals.iter().flatten().any(|(place, is_over)| *is_over && place.contains(span))
    }

    /// Whether this lies in no journal that may be needed.
    fn is_free(&mut self, span: Span) -> bool {
        self.look();
        self.journals.iter().flatten().all(|(place, is_over)| *is_over || !place.overlaps(span))
    }

    /// Looks where journals end as a rule.
    fn look(&mut self) {
        if self.journals.is_some() {
            return;
        }
        self.journals = Some(Vec::new());
        let Ok(stack) = read_stack(self.medium, Some(self.block), None) else { return };
        let ends = ends(self.medium.len(), &stack);
        self.stack = Some(stack);
        self.judge_at(&ends);
    }

    /// Judges the journals with a title at one of `ends`.
    fn judge_at(&mut self, ends: &[ByteOffset]) {
        self.look();
        for place in ends.iter().flat_map(|end| at_end(self.medium, *end)).collect::<Vec<_>>() {
            self.judge(place);
        }
    }

    /// Judges the journal at `place`, if there is one.
    fn judge(&mut self, place: Span) {
        self.look();
        let is_over = match (inspect(Disks::one(&mut Reading(self.medium)), place), &self.stack) {
            (Ok(None), _) => return,
            (Ok(Some((job, state))), Some(stack)) => {
                Payload::decode(job.payload()).is_ok_and(|payload| is_over(&payload, state, stack))
            }
            _ => false,
        };
        self.journals.get_or_insert_default().push((place, is_over));
    }
}

/// Whether a journal with a title at one of the ends of `place` may be that of a move that is not over.
pub(super) fn has_needed(medium: &dyn Medium, place: Span) -> bool {
    let first = place.start().checked_add(ByteCount::new(SECTOR as u64));
    let named = first.into_iter().chain([place.end()]).flat_map(|end| at_end(medium, end));
    named.into_iter().any(|place| {
        let found = inspect(Disks::one(&mut Reading(medium)), place);
        matches!(found, Ok(Some((_, State::Moving { .. } | State::RollingBack))))
    })
}

/// Clears the debris in `place`, on which nothing else is.
pub(super) fn clear(disk: &mut dyn Disk, place: Span, block: BlockSize) -> std::io::Result<()> {
    let mut debris = Debris::of(&*disk, block);
    for piece in place.pieces(ByteCount::new(MIB)) {
        let mut bytes = vec![0; usize::try_from(piece.len().get()).unwrap_or(0)];
        debris.medium.read_at(piece.start(), &mut bytes).map_err(std::io::Error::other)?;
        for (at, sector) in (piece.start().get()..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            if !is_erased(sector) {
                debris.has(ByteOffset::new(at), sector);
            }
        }
    }
    let found = debris.within(place);
    for span in &found {
        disk.write_at(span.start(), &vec![0; usize::try_from(span.len().get()).unwrap_or(0)])?;
    }
    if found.is_empty() { Ok(()) } else { disk.flush() }
}
