//! Traces in files, and histograms as tables.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use straddle_trace::{Account, Columns, Format, Histogram, How, Origin, Recording, SECTOR};

use crate::errors;

/// Counts the requests of the trace at `path`. Warns if requests are missing from it.
pub(crate) fn read(
    py: Python<'_>,
    path: PathBuf,
    columns: Columns,
    format: Option<&str>,
) -> PyResult<Account> {
    let named = |name: &str| {
        Format::named(name).ok_or_else(|| {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            errors::wrong(format!("{name}: unknown format; the formats are {}", names.join(", ")))
        })
    };
    let how = How { format: format.map(named).transpose()?, columns, timed: false, ..How::default() };
    let traces = Recording::group(std::slice::from_ref(&path));
    let counted = py.detach(|| Account::of(&traces, None, |trace| trace.open(&how)));
    let (account, abouts) = counted.map_err(|error| errors::trace(&path, &error))?;
    for origin in abouts.iter().filter_map(|about| about.origin.as_ref()) {
        warn(py, &path, origin)?;
    }
    Ok(account)
}

fn warn(py: Python<'_>, path: &Path, origin: &Origin) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    let cut_off = origin.is_cut_off().then(|| "the recording is truncated".to_owned());
    let lost = origin.lost_events.filter(|lost| *lost > 0);
    let lost = lost.map(|lost| format!("{lost} events were lost during the recording"));
    for what in cut_off.into_iter().chain(lost) {
        let text = CString::new(format!("{}: {what}, so requests are missing", path.display()))?;
        PyErr::warn(py, &category, &text, 1)?;
    }
    Ok(())
}

/// Returns the requests by volume, operation, first sector and length.
pub(crate) fn classes(account: &Account) -> Result<RecordBatch, ArrowError> {
    let mut rows = Rows::default();
    for (name, volume) in account.volumes() {
        rows.add(name, "R", &volume.reads);
        rows.add(name, "W", &volume.writes);
        rows.add(name, "D", &volume.discards);
        if volume.flushes > 0 {
            rows.push(name, "F", None, (volume.flushes, 0));
        }
    }
    rows.finish()
}

#[derive(Default)]
struct Rows {
    volume: StringBuilder,
    op: StringBuilder,
    offset: UInt64Builder,
    length: UInt64Builder,
    requests: UInt64Builder,
    bytes: UInt64Builder,
}

impl Rows {
    fn add(&mut self, volume: &str, op: &str, histogram: &Histogram) {
        for (class, count) in histogram.classes() {
            let bytes = |sectors: u16| u64::from(sectors) * SECTOR;
            let total = count.sectors(class) * u128::from(SECTOR);
            let counted = (count.requests, u64::try_from(total).unwrap_or(u64::MAX));
            self.push(volume, op, Some((bytes(class.first), bytes(class.length))), counted);
        }
    }

    fn push(&mut self, volume: &str, op: &str, class: Option<(u64, u64)>, (requests, bytes): (u64, u64)) {
        let (offset, length) = class.unzip();
        self.volume.append_value(volume);
        self.op.append_value(op);
        self.offset.append_option(offset);
        self.length.append_option(length);
        self.requests.append_value(requests);
        self.bytes.append_value(bytes);
    }

    fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef, bool); 6] = [
            ("volume", Arc::new(self.volume.finish()), false),
            ("op", Arc::new(self.op.finish()), false),
            ("offset_bytes", Arc::new(self.offset.finish()), true),
            ("length_bytes", Arc::new(self.length.finish()), true),
            ("requests", Arc::new(self.requests.finish()), false),
            ("bytes", Arc::new(self.bytes.finish()), false),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}
