//! Histograms of the requests of block traces.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use straddle_trace::form::{Counted, TraceReport};
use straddle_trace::{Account, Columns, SECTOR, Tables, UNITS};

use crate::{as_python, errors, trace};

/// The units of a report, in bytes, as in ``straddle trace``.
const USUAL: [u64; 6] = [4096, 8192, 16384, 32768, 65536, 1 << 20];

/// The effect of the requests of block traces on units of every size, for every start of the partition.
///
/// A histogram counts the requests of each volume and operation by their length and their first sector modulo
/// 1 MiB. Its size does not depend on the number of requests, and every figure of ``straddle trace`` can be
/// computed from it. Histograms of the parts of a trace add up, in any order, to that of the whole.
///
/// >>> import straddle_align
/// >>> table = {"op": ["W", "R"], "offset": [32256, 0], "length": [4096, 4096]}
/// >>> histogram = straddle_align.Histogram().update(table)
/// >>> histogram
/// <straddle_align.Histogram: 2 requests on 1 volume>
/// >>> histogram.report()["total"]["writes"]["units"][0]["misaligned_requests"]
/// 1
#[pyclass(module = "straddle_align", skip_from_py_object)]
pub(crate) struct Histogram {
    account: Account,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self { account: Account::new() }
    }

    /// Count the requests of a table, and return the histogram.
    ///
    /// ``table`` is any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a table, batch or reader
    /// of pyarrow, a data frame of polars or pandas, a relation of DuckDB. Its columns are not copied. A dict
    /// of columns (lists, NumPy arrays) or a structured NumPy array is converted by pyarrow or polars,
    /// whichever is installed.
    ///
    /// The columns are ``op`` (R, W, F, D), ``offset`` and ``length`` in bytes, and ``volume``, which may be
    /// missing. For other columns or units, ``columns`` maps these names to the table's columns, as a
    /// string or a dict.
    ///
    /// If the table is invalid, for example if a row has no operation, ``InputError`` names the row, and
    /// nothing is counted. Other threads can run during the call.
    ///
    /// >>> import straddle_align
    /// >>> table = {"is_write": [True, False], "lba": [63, 64], "length": [4096, 4096]}
    /// >>> columns = {"op": "is_write:false/true", "offset": "lba:sectors"}
    /// >>> straddle_align.Histogram().update(table, columns).requests
    /// 2
    #[pyo3(signature = (table, columns=None, *, name="table"))]
    fn update<'py>(
        slf: Bound<'py, Self>,
        table: &Bound<'py, PyAny>,
        columns: Option<Bound<'py, PyAny>>,
        name: &str,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let columns = columns_of(columns.as_ref())?;
        let batches = batches(table)?;
        let account = py.detach(|| count(batches, &columns, name))?;
        slf.try_borrow_mut()?.account.join(account);
        Ok(slf)
    }

    /// Return the histogram of a trace in a file.
    ///
    /// The file can have the format of blktrace, blkparse, fio or MSR Cambridge, CSV, Parquet, or any other
    /// format that ``straddle trace`` reads, and can be compressed. The format is detected, unless ``format``
    /// names it. For CSV and Parquet, ``columns`` is used as in ``update``. The path ``NAME`` stands for the
    /// files ``NAME.blktrace.0``, ``NAME.blktrace.1`` and so on, one for each processor.
    ///
    /// >>> import straddle_align, tempfile
    /// >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
    /// ...     _ = trace.write("time,op,offset,length\n0.5,W,32256,4096\n")
    /// ...     trace.flush()
    /// ...     straddle_align.Histogram.from_file(trace.name)
    /// <straddle_align.Histogram: 1 request on 1 volume>
    #[staticmethod]
    #[pyo3(signature = (path, columns=None, *, format=None))]
    fn from_file(
        py: Python<'_>,
        path: PathBuf,
        columns: Option<Bound<'_, PyAny>>,
        format: Option<&str>,
    ) -> PyResult<Self> {
        Ok(Self { account: trace::read(py, path, columns_of(columns.as_ref())?, format)? })
    }

    /// Add the requests of another histogram, and return this one.
    ///
    /// >>> import straddle_align
    /// >>> table = {"op": ["W"], "offset": [0], "length": [4096]}
    /// >>> one, other = straddle_align.Histogram().update(table), straddle_align.Histogram().update(table)
    /// >>> one.merge(other).requests
    /// 2
    fn merge<'py>(slf: Bound<'py, Self>, other: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let other = other.try_borrow()?.account.clone();
        let mut own = slf.try_borrow_mut()?;
        let account = &mut own.account;
        py.detach(|| account.join(other));
        drop(own);
        Ok(slf)
    }

    /// Return the histogram as bytes. Equal histograms give equal bytes on every machine.
    ///
    /// >>> import straddle_align
    /// >>> straddle_align.Histogram.from_bytes(straddle_align.Histogram().to_bytes()) == straddle_align.Histogram()
    /// True
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.account.to_bytes());
        PyBytes::new(py, &bytes)
    }

    /// Return the histogram stored in bytes from ``to_bytes``. Other bytes raise ``InputError``.
    #[staticmethod]
    #[pyo3(signature = (data, /))]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let account = py.detach(|| Account::from_bytes(data)).map_err(|error| errors::input(&error))?;
        Ok(Self { account })
    }

    /// Return the requests as a pyarrow record batch: ``volume``, ``op`` (R, W, D, F), ``offset_bytes``,
    /// ``length_bytes``, ``requests``, ``bytes``.
    ///
    /// Each row counts the requests that begin in the same sector of their MiB (``offset_bytes``) and have
    /// the same length. A length of 2 MiB or more is stored as 2 MiB plus its remainder modulo 1 MiB;
    /// ``bytes`` is the sum of the true lengths. A flush has neither offset nor length.
    ///
    /// >>> import straddle_align
    /// >>> table = {"op": ["W", "W"], "offset": [32256, 32256 + (1 << 20)], "length": [4096, 4096]}
    /// >>> straddle_align.Histogram().update(table).to_arrow().to_pylist()
    /// [{'volume': '', 'op': 'W', 'offset_bytes': 32256, 'length_bytes': 4096, 'requests': 2, 'bytes': 8192}]
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = py.detach(|| trace::classes(&self.account)).map_err(|error| errors::input(&error))?;
        batch.to_pyarrow(py)
    }

    /// Return the figures as ``straddle trace --json`` prints them, without the names of files. Their type
    /// is ``straddle_align.Report``.
    ///
    /// ``units`` are sizes in bytes, ``started_at`` is the byte at which the partition would begin, and
    /// ``best`` also finds the start with the fewest read-modify-writes, for each unit.
    ///
    /// >>> import straddle_align
    /// >>> table = {"op": ["W"], "offset": [0], "length": [4096]}
    /// >>> report = straddle_align.Histogram().update(table).report(units=[4096], started_at=63 * 512, best=True)
    /// >>> report["total"]["writes"]["units"][0]["partial_units"]
    /// 2
    /// >>> report["total"]["writes"]["units"][0]["best"]["started_at_sectors"]
    /// 0
    #[pyo3(signature = (*, units=None, started_at=0, best=false))]
    fn report<'py>(
        &self,
        py: Python<'py>,
        units: Option<Vec<u64>>,
        started_at: u64,
        best: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let units = units.unwrap_or_else(|| USUAL.to_vec());
        let units = units.into_iter().map(sectors).collect::<PyResult<Vec<u64>>>()?;
        if !started_at.is_multiple_of(SECTOR) {
            return Err(errors::wrong(format!("started_at={started_at}: must be a multiple of 512 bytes")));
        }
        let report = py.detach(|| {
            TraceReport::of(&Counted {
                files: &[],
                account: &self.account,
                total: self.account.total(),
                units: &units,
                start: started_at / SECTOR,
                best,
                window: None,
            })
        });
        as_python(py, &report)
    }

    /// The number of requests, including flushes.
    #[getter]
    fn requests(&self) -> u64 {
        self.account.volumes().map(|(_, volume)| volume.requests()).fold(0, u64::saturating_add)
    }

    /// The names of the volumes, in order. For a table without a volume column, the name is empty.
    #[getter]
    fn volumes(&self) -> Vec<&str> {
        self.account.volumes().map(|(name, _)| name).collect()
    }

    fn __add__(&self, py: Python<'_>, other: &Self) -> Self {
        let mut account = self.account.clone();
        py.detach(|| account.join(other.account.clone()));
        Self { account }
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.account == other.account
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let bytes = slf.try_borrow()?.to_bytes(py);
        Ok((slf.get_type().getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
    }

    fn __repr__(&self) -> String {
        let of = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let volumes = self.account.volumes().count() as u64;
        format!("<straddle_align.Histogram: {} on {}>", of(self.requests(), "request"), of(volumes, "volume"))
    }
}

fn sectors(bytes: u64) -> PyResult<u64> {
    let sectors = UNITS.into_iter().find(|sectors| sectors * SECTOR == bytes);
    sectors.ok_or_else(|| {
        errors::wrong(format!("{bytes} is not a unit: it must be a power of two from 512 to 1048576"))
    })
}

fn columns_of(columns: Option<&Bound<'_, PyAny>>) -> PyResult<Columns> {
    let Some(columns) = columns else { return Ok(Columns::default()) };
    let text = match columns.extract::<String>() {
        Ok(text) => text,
        Err(_) => {
            let parts: BTreeMap<String, String> = columns.extract()?;
            let parts = parts.iter().map(|(quantity, column)| format!("{quantity}={column}"));
            parts.collect::<Vec<_>>().join(",")
        }
    };
    if text.trim().is_empty() {
        return Ok(Columns::default());
    }
    text.parse().map_err(|error| errors::input(&error))
}

/// Return the names of the columns that are needed, given the names of all columns of a table.
///
/// >>> import straddle_align._straddle
/// >>> straddle_align._straddle.needed(["time", "op", "offset", "length"])
/// ['op', 'offset', 'length']
#[pyfunction]
#[pyo3(signature = (names, columns=None))]
pub(crate) fn needed(names: Vec<String>, columns: Option<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let columns = columns_of(columns.as_ref())?;
    let field = |name: &String| Field::new(name, DataType::Int64, true);
    let schema = Schema::new(names.iter().map(field).collect::<Vec<_>>());
    let tables = Tables::new(&schema, &columns, "table").map_err(|error| errors::input(&error))?;
    let is_needed = |index: &usize| columns.has_numbers() || tables.columns().contains(index);
    Ok(names.into_iter().enumerate().filter(|(index, _)| is_needed(index)).map(|(_, name)| name).collect())
}

/// Returns the batches of an object, which is converted if it has none.
fn batches(table: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let py = table.py();
    let converted;
    let is_array = table.hasattr("__arrow_c_array__")?;
    let table = if table.hasattr("__arrow_c_stream__")? || is_array {
        table
    } else {
        converted = py.import("straddle_align._tables")?.call_method1("as_arrow", (table,))?;
        &converted
    };
    if table.hasattr("__arrow_c_stream__")? {
        return Ok(Box::new(RecordBatchStreamReader::from_pyarrow_bound(table)?));
    }
    let batch = RecordBatch::from_pyarrow_bound(table)?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

fn count(batches: Box<dyn RecordBatchReader + Send>, columns: &Columns, name: &str) -> PyResult<Account> {
    let mut tables = Tables::new(&batches.schema(), columns, name).map_err(|error| errors::input(&error))?;
    for batch in batches {
        let batch = batch.map_err(|error| errors::input(&error))?;
        tables.count(&batch).map_err(|error| errors::input(&error))?;
    }
    Ok(tables.finish())
}
