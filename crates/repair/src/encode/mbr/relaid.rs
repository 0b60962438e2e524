//! The chain of extended boot records after logical partitions have moved.
//!
//! Invariants: a record of a partition that stays changes at most in its link. These chains do not
//! become valid with one sector: they are written while the table does not list their container
//! ([`crate::realign`]).

use straddle_layout::Stack;
use straddle_layout::format::mbr::{SIGNATURE, SIGNATURE_AT};
use straddle_units::Lba;

use super::{Chain, Steps, link, replace, slot};
use crate::error::PlanError;
use crate::plan::{Change, Entry, Plan, Slot};

/// Records at their bytes.
pub(crate) type Laid = Vec<(u64, Vec<u8>)>;

/// The records of the table before and after the plan.
pub(crate) struct Chains {
    pub(crate) old: Laid,
    pub(crate) new: Laid,
}

impl Chain {
    /// Returns the present chain, and the one of the new table.
    pub(super) fn both(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<(Self, Self), PlanError> {
        let old = Self::read(plan, stack, steps)?;
        let new = old.relaid(plan, steps)?;
        Ok((old, new))
    }

    fn laid(self, steps: &Steps<'_>) -> Laid {
        self.records.into_iter().map(|(at, record)| (steps.byte(at), record)).collect()
    }

    /// Gives each logical partition its new record.
    fn relaid(&self, plan: &Plan, steps: &Steps<'_>) -> Result<Self, PlanError> {
        let missing = || PlanError::Unchangeable("its chain of logical partitions has gaps".to_owned());
        let entries = &plan.table.partitions;
        let extended = entries.iter().find(|entry| entry.slot == Slot::Extended).ok_or_else(missing)?;
        let logical: Vec<(Lba, &Entry)> = (entries.iter())
            .filter_map(|entry| match entry.slot {
                Slot::Logical { ebr } => Some((ebr, entry)),
                _ => None,
            })
            .collect();
        let mut chain = Self::default();
        let follower = |index: usize| logical.get(index).map(|(next, entry)| (*next, Some(entry)));
        if logical.first().is_none_or(|(ebr, _)| *ebr != extended.start) {
            let mut head = vec![0; usize::try_from(steps.block).unwrap_or(512)];
            head[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
            link(&mut head, extended, follower(0))?;
            chain.records.push((extended.start, head));
        }
        for (index, (ebr, entry)) in logical.iter().enumerate() {
            let was = plan.before.iter().find(|was| was.number == entry.number);
            let was = was.and_then(|was| match was.slot {
                Slot::Logical { ebr } => self.records.iter().find(|(at, _)| *at == ebr),
                _ => None,
            });
            let mut record = was.ok_or_else(missing)?.1.clone();
            if entry.change != Change::Kept {
                replace(&mut record[slot(0)], entry, *ebr)?;
            }
            let next = follower(index + 1);
            if next.is_some_and(|(_, next)| next.is_some_and(|next| next.change != Change::Kept)) {
                record[slot(1)].fill(0);
            }
            link(&mut record, extended, next)?;
            chain.records.push((*ebr, record));
        }
        Ok(chain)
    }
}

/// Returns the records of both chains; `None` if no logical partition moves.
pub(crate) fn chains(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<Option<Chains>, PlanError> {
    if !plan.moves_logical() {
        return Ok(None);
    }
    let (old, new) = Chain::both(plan, stack, steps)?;
    Ok(Some(Chains { old: old.laid(steps), new: new.laid(steps) }))
}

/// Writes the records of the new chain, and then the MBR.
pub(super) fn commit(new: &Chain, mbr: &[u8], steps: &mut Steps<'_>) -> Result<(), PlanError> {
    for (at, record) in new.records.iter().rev() {
        steps.write(steps.byte(*at), record, "extended boot record")?;
    }
    steps.flush();
    Ok(steps.write(0, mbr, "MBR")?)
}
