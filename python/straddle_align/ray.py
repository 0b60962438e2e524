"""Histograms and audits on Ray.

Ray decides where tasks run and retries those that are lost. The result is byte-identical for any number of blocks
and workers.

The package has to be installed where the workers run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow  # type: ignore

from straddle_align import _cluster
from straddle_align._straddle import Histogram, needed

if TYPE_CHECKING:
    from ray.data import Dataset as _Dataset  # type: ignore

__all__ = ["check", "histogram"]

_GROUP = 64


def histogram(dataset: _Dataset, columns: str | dict[str, str] | None = None) -> Histogram:
    """Return the histogram of the requests of a dataset.

    ``columns`` is as for ``Histogram.update``. Each task counts a block (``map_batches``); further tasks merge the histograms in
    groups, and the caller merges the last ones.
    """

    def count(table: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_batches([_cluster.counted([table], columns)])

    def merge(table: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_batches([_cluster.merged([table])])

    names = dataset.columns() or []
    if names:
        dataset = dataset.select_columns(needed(names, columns))
    counted = dataset.map_batches(count, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
    merged = counted.map_batches(merge, batch_format="pyarrow", batch_size=_GROUP)
    return _cluster.total(row["histogram"] for row in merged.iter_rows())


def check(
    paths: _Dataset | Iterable[str | PathLike[str]],
    *,
    assume: str | None = None,
    only: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    allow_backing: Sequence[str | PathLike[str]] = (),
) -> _Dataset:
    """Return a dataset with the audit of each path: ``target``, ``status`` and ``report``.

    ``paths`` are images that every worker can open, or addresses on servers: paths, or a dataset with them in its
    first column. ``report`` is the target's part of ``straddle check --json``; each target is judged separately. A target that
    cannot be opened or read has the status ``failed``.
    """
    auditor = _cluster.auditor(assume, only, ignore, allow_backing)

    def audit(table: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_batches([auditor(table)])

    if not hasattr(paths, "map_batches"):
        from ray.data import from_items  # type: ignore

        paths = from_items([{"path": str(path)} for path in paths])
    return paths.map_batches(audit, batch_format="pyarrow", batch_size=_cluster.PATHS_PER_TASK)
