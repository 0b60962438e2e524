"""The tasks of a cluster. Each returns bytes that depend only on its rows; merging adds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike

import pyarrow  # type: ignore

from straddle_align._straddle import Histogram, check_each

PATHS_PER_TASK = 100

_REPORTS = pyarrow.schema([(name, pyarrow.string()) for name in ("target", "status", "report")])


def counted(
    batches: Iterable[pyarrow.RecordBatch | pyarrow.Table], columns: str | dict[str, str] | None
) -> pyarrow.RecordBatch:
    """Return the histogram of batches of requests as a row."""
    histogram = Histogram()
    for batch in batches:
        if batch.num_rows:
            histogram.update(batch, columns)
    return _row(histogram)


def merged(batches: Iterable[pyarrow.RecordBatch | pyarrow.Table]) -> pyarrow.RecordBatch:
    """Return the sum of histograms in rows as a row."""
    rows = (data.as_py() for batch in batches for data in batch.column(0))
    return _row(total(rows))


def total(rows: Iterable[bytes]) -> Histogram:
    """Return the sum of histograms."""
    histogram = Histogram()
    for data in rows:
        histogram.merge(Histogram.from_bytes(bytes(data)))
    return histogram


def _row(histogram: Histogram) -> pyarrow.RecordBatch:
    return pyarrow.record_batch({"histogram": [histogram.to_bytes()]})


def auditor(
    assume: str | None,
    only: str | Sequence[str],
    ignore: str | Sequence[str],
    allow_backing: Sequence[str | PathLike[str]],
) -> Callable[[pyarrow.RecordBatch | pyarrow.Table], pyarrow.RecordBatch]:
    """Return a function that audits the images whose paths are in the first column of a batch."""
    audits = partial(check_each, assume=assume, only=only, ignore=ignore, allow_backing=allow_backing)

    def audit(batch: pyarrow.RecordBatch | pyarrow.Table) -> pyarrow.RecordBatch:
        rows = audits(batch.column(0).to_pylist())
        named = [dict(zip(_REPORTS.names, row, strict=True)) for row in rows]
        return pyarrow.RecordBatch.from_pylist(named, _REPORTS)

    return audit
