//! Tables counted by columns: Parquet files, and Arrow batches in memory. A wrong table counts for nothing.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use rayon::prelude::*;

use crate::account::{Account, PartialAccount};
use crate::columnar::{Columnar, Converter, Plan, Problem, ROWS, Rows};
use crate::columns::Columns;
use crate::error::{LineError, TableError, TraceError};
use crate::format::wrong;
use crate::reader::Reader;
use crate::record::{BATCH, Volumes, is_empty};

impl Account {
    /// Counts a trace that is a table, its row groups at the same time; false if it is none, or its times are wanted.
    pub(crate) fn table(&mut self, trace: &mut Reader<'_>) -> Result<bool, TraceError> {
        let Some(table) = trace.columnar().filter(|table| !table.plan().is_timed()) else { return Ok(false) };
        let counted: Vec<_> = table.shares(rayon::current_num_threads()).into_par_iter().map(share).collect();
        for counted in counted {
            self.join(counted?);
        }
        Ok(true)
    }
}

fn share(mut table: Columnar) -> Result<Account, TraceError> {
    let (mut count, name) = (RowCount::new(table.plan()), table.name().to_owned());
    while let Some(rows) = table.next_rows(&mut count.volumes)? {
        count.add(rows, &name)?;
    }
    Ok(count.account())
}

struct RowCount {
    volumes: Volumes,
    unnamed: usize,
    part: PartialAccount,
    others: u64,
}

impl RowCount {
    fn new(plan: &Plan) -> Self {
        let mut volumes = Volumes::default();
        let unnamed = if plan.has_volumes() { 0 } else { volumes.unnamed() };
        Self { volumes, unnamed, part: PartialAccount::default(), others: 0 }
    }

    fn add(&mut self, rows: &Rows, name: &str) -> Result<(), TraceError> {
        for from in (0..rows.operations.len()).step_by(BATCH) {
            let batch = from..rows.operations.len().min(from + BATCH);
            let request = |row| rows.request(row, self.unnamed);
            if self.part.is_wide() {
                self.part.touch(batch.clone().filter_map(request));
            }
            for row in batch {
                let request = request(row).filter(|(_, operation, _, length)| !is_empty(*operation, *length));
                let Some((volume, operation, offset, length)) = request else {
                    self.others += 1;
                    continue;
                };
                if !self.part.add(volume, operation, offset, length) {
                    let line = rows.first + row as u64;
                    return Err(TraceError::row(name, line, LineError::TooFar { offset, length }));
                }
            }
        }
        Ok(())
    }

    fn account(self) -> Account {
        let mut account = Account { others: self.others, ..Account::new() };
        account.add(self.volumes.names(), self.part);
        // The times were not read.
        account.span = account.span.filter(|_| account.volumes.is_empty());
        account
    }
}

/// Counts the requests of batches of one schema. Times are not read.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use straddle_trace::{Columns, Tables};
///
/// let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// let batch = RecordBatch::try_from_iter([
///     ("op", Arc::new(StringArray::from(vec!["W", "R"])) as ArrayRef),
///     ("lba", column(&[63, 64])),
///     ("length", column(&[4096, 4096])),
/// ])?;
/// let columns: Columns = "offset=lba:sectors".parse()?;
/// let mut tables = Tables::new(&batch.schema(), &columns, "requests")?;
/// tables.count(&batch)?;
/// let writes = tables.finish().total().writes;
/// assert_eq!(writes.effects(8).map(|effects| effects.started_at(0).misaligned), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tables {
    converter: Converter,
    count: RowCount,
    name: String,
}

impl Tables {
    /// Finds the columns. `name` is what errors call the table.
    pub fn new(schema: &Schema, columns: &Columns, name: &str) -> Result<Self, TraceError> {
        let name = name.to_owned();
        match Plan::of(schema, columns, false) {
            Ok(plan) => Ok(Self { count: RowCount::new(&plan), converter: Converter::new(plan, 0), name }),
            Err(source) => Err(TraceError::Table { name, source }),
        }
    }

    /// Returns the numbers of the columns that are read, in order.
    pub fn columns(&self) -> &[usize] {
        &self.converter.plan.read
    }

    /// Counts a batch, which has an operation in every row. After an error the account is of no use.
    pub fn count(&mut self, batch: &RecordBatch) -> Result<(), TraceError> {
        let name = &self.name;
        let of_table = |source| TraceError::Table { name: name.clone(), source };
        let needed = batch.project(&self.converter.plan.read).map_err(|_| {
            let (expected, found) = (self.converter.plan.width, batch.num_columns());
            of_table(TableError::Batch { found, expected })
        })?;
        for from in (0..needed.num_rows()).step_by(ROWS) {
            let rows = needed.slice(from, ROWS.min(needed.num_rows() - from));
            match self.converter.convert(&rows, &mut self.count.volumes) {
                Ok(()) => {
                    let rows = &self.converter.rows;
                    if let Some(row) = rows.operations.iter().position(Option::is_none) {
                        let source = wrong("op", "", "there is no value");
                        return Err(TraceError::row(name, rows.first + row as u64, source));
                    }
                    self.count.add(rows, name)?;
                }
                Err(Problem::Row(line, source)) => return Err(TraceError::row(name, line, source)),
                Err(Problem::Table(source)) => return Err(of_table(source)),
            }
        }
        Ok(())
    }

    /// Returns the account of all batches.
    pub fn finish(self) -> Account {
        self.count.account()
    }
}

#[cfg(test)]
mod tests;
