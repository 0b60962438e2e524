//! Tables in memory: batches of Arrow columns, counted as a Parquet file is.
//!
//! Invariants: no column is copied but a few thousand rows at a time, and a table that is wrong counts for
//! nothing: its account exists only once all of it was read.

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use crate::account::{Account, PartialAccount};
use crate::columnar::{Converter, Plan, Problem, ROWS};
use crate::columns::Columns;
use crate::error::{TableError, TraceError};
use crate::volumes::Volumes;

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
    volumes: Volumes,
    unnamed: usize,
    part: PartialAccount,
    others: u64,
    name: String,
}

impl Tables {
    /// Finds the columns. `name` is what errors call the table.
    pub fn new(schema: &Schema, columns: &Columns, name: &str) -> Result<Self, TraceError> {
        let of_table = |source| TraceError::Table { name: name.to_owned(), source };
        let plan = Plan::of(schema, columns, false).map_err(of_table)?;
        let mut volumes = Volumes::default();
        let unnamed = if plan.has_volumes() { 0 } else { volumes.unnamed() };
        let (part, others, name) = (PartialAccount::default(), 0, name.to_owned());
        Ok(Self { converter: Converter::new(plan), volumes, unnamed, part, others, name })
    }

    /// Returns the numbers of the columns that are read, in order.
    pub fn columns(&self) -> &[usize] {
        &self.converter.plan().read
    }

    /// Counts the requests of a batch. After an error the account is of no use.
    pub fn count(&mut self, batch: &RecordBatch) -> Result<(), TraceError> {
        let name = &self.name;
        let of_table = |source| TraceError::Table { name: name.clone(), source };
        let needed = batch.project(&self.converter.plan().read).map_err(|_| {
            let (expected, found) = (self.converter.plan().width, batch.num_columns());
            of_table(TableError::Batch { found, expected })
        })?;
        for from in (0..needed.num_rows()).step_by(ROWS) {
            let rows = needed.slice(from, ROWS.min(needed.num_rows() - from));
            let converted = self.converter.convert(&rows, &mut self.volumes);
            converted.map_err(|problem| problem.of(name, of_table))?;
            let counted = self.part.rows(&self.converter.rows, self.unnamed, &mut self.others);
            counted.map_err(|(line, source)| Problem::Row(line, source).of(name, of_table))?;
        }
        Ok(())
    }

    /// Returns the account of all batches.
    pub fn finish(self) -> Account {
        Account::of_table(self.volumes.names(), self.part, self.others)
    }
}

#[cfg(test)]
mod tests;
