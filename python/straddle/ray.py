"""Histograms on Ray.

Ray decides where tasks run and retries those that are lost. A task returns bytes that depend on its rows only,
and merging is addition, so the result is byte-identical for any number of blocks and workers.

The package has to be installed where the workers run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow

import straddle
from straddle._straddle import needed

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["histogram"]

_GROUP = 64


def histogram(dataset: Dataset, columns: str | Mapping[str, str] | None = None) -> straddle.Histogram:
    """Return the histogram of the requests of a dataset.

    ``columns`` is as for ``Histogram.update``. Each task counts a block (``map_batches``); others merge the
    histograms in groups, and the last ones are merged here.
    """

    def count(table: pyarrow.Table) -> pyarrow.Table:
        counted = straddle.Histogram()
        if table.num_rows:
            counted.update(table, columns)
        return pyarrow.table({"histogram": [counted.to_bytes()]})

    names = dataset.columns() or []
    if names:
        dataset = dataset.select_columns(needed(names, columns))
    counted = dataset.map_batches(count, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
    merged = counted.map_batches(_merged, batch_format="pyarrow", batch_size=_GROUP)
    result = straddle.Histogram()
    for batch in merged.iter_batches(batch_format="pyarrow", batch_size=None):
        result.merge(_sum(batch))
    return result


def _sum(table: pyarrow.Table) -> straddle.Histogram:
    result = straddle.Histogram()
    for data in table["histogram"]:
        result.merge(straddle.Histogram.from_bytes(data.as_py()))
    return result


def _merged(table: pyarrow.Table) -> pyarrow.Table:
    return pyarrow.table({"histogram": [_sum(table).to_bytes()]})
