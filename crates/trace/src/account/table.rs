//! The requests of a table, its columns counted as such.

use rayon::prelude::*;

use super::{Account, PartialAccount};
use crate::columnar::{Columnar, Rows};
use crate::error::{LineError, TraceError};
use crate::reader::{Numbered, Reader};
use crate::record::{BATCH, is_empty};
use crate::volumes::Volumes;

impl Account {
    /// Counts the rows of a trace that is a table, its row groups at the same time; false if it is none, or has times
    /// that are wanted.
    pub(super) fn table(&mut self, trace: &mut Reader<'_>) -> Result<bool, TraceError> {
        let Some(table) = trace.columnar().filter(|table| !table.is_timed()) else { return Ok(false) };
        let counted: Vec<_> = table.shares(rayon::current_num_threads()).into_par_iter().map(share).collect();
        for counted in counted {
            self.join(counted?);
        }
        Ok(true)
    }

    /// Returns the account of the rows of a table.
    pub(crate) fn of_table(names: &[String], part: PartialAccount, others: u64) -> Self {
        let mut account = Self { others, ..Self::new() };
        account.add(names, part);
        // The times were not read.
        account.span = account.span.filter(|_| account.volumes.is_empty());
        account
    }
}

/// Counts the rows of a part of a table.
fn share(mut table: Columnar) -> Result<Account, TraceError> {
    let (mut part, mut others, mut volumes) = (PartialAccount::default(), 0, Volumes::default());
    let name = table.name().to_owned();
    let unnamed = if table.has_volumes() { 0 } else { volumes.unnamed() };
    while let Some(rows) = table.next_rows(&mut volumes)? {
        part.rows(rows, unnamed, &mut others).map_err(|(line, source)| TraceError::Line {
            name: name.clone(),
            place: Numbered::Row,
            line,
            byte: None,
            source,
        })?;
    }
    Ok(Account::of_table(volumes.names(), part, others))
}

impl PartialAccount {
    /// Counts the rows of a table.
    pub(crate) fn rows(
        &mut self,
        rows: &Rows,
        unnamed: usize,
        others: &mut u64,
    ) -> Result<(), (u64, LineError)> {
        for from in (0..rows.operations.len()).step_by(BATCH) {
            let range = from..rows.operations.len().min(from + BATCH);
            let columns =
                [&rows.offsets, &rows.lengths].map(|column| column.get(range.clone()).unwrap_or_default());
            let operations = rows.operations.get(range.clone()).unwrap_or_default();
            let volumes = rows.volumes.get(range).unwrap_or_default();
            let index = |row: usize| volumes.get(row).map_or(unnamed, |index| *index as usize);
            let [offsets, lengths] = columns;
            let mut touched = 0;
            let ahead = if self.is_wide() { operations } else { &[] };
            for (row, ((operation, offset), length)) in ahead.iter().zip(offsets).zip(lengths).enumerate() {
                let volume =
                    operation.and_then(|operation| self.volumes.get(index(row))?.histogram(operation));
                touched ^= volume.map_or(0, |histogram| histogram.touch(*offset, *length));
            }
            std::hint::black_box(touched);
            for (row, ((operation, offset), length)) in
                operations.iter().zip(offsets).zip(lengths).enumerate()
            {
                let Some(operation) = operation.filter(|operation| !is_empty(*operation, *length)) else {
                    *others += 1;
                    continue;
                };
                let counted =
                    self.volume(index(row)).is_none_or(|volume| volume.add(operation, *offset, *length));
                if !counted {
                    let error = LineError::TooFar { offset: *offset, length: *length };
                    return Err((rows.first + (from + row) as u64, error));
                }
            }
        }
        Ok(())
    }
}
