//! Mistakes that the tests plant in the engine, to show that they would be found.

#[cfg_attr(not(test), allow(dead_code, reason = "only tests plant them"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NoFlush,
    DataFirst,
    /// No copy in the journal, however short the distance.
    ShortDirect,
    OneSlot,
    /// The end is recorded together with the last data.
    EarlyEnd,
    /// Only the last window is written again.
    NoPrevious,
    /// A rollback begins without undoing what is in flight.
    NoUndo,
    /// What is in flight is said to be undone before it is.
    EarlyUndone,
    /// The rest of a physical sector is not written with its data.
    NoEdges,
    EraseRecordsFirst,
    /// A new journal leaves the records of an old one.
    StaleRecords,
    /// A window is compared when its copy in the journal is overwritten already.
    LateCheck,
    /// What could not be read is listed without a flush.
    LateList,
    /// What is in flight is not compared with the journal.
    NoCheck,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

impl Fault {
    #[cfg(test)]
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }

    #[cfg(not(test))]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}
