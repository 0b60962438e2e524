"""Histograms and audits on Apache Spark, also through Spark Connect.

Spark schedules the tasks, retries those that are lost, and merges the results. The result is
byte-identical for any number of partitions and executors.

The package has to be installed where the executors run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow  # type: ignore

from straddle_align import _cluster
from straddle_align._straddle import Histogram, needed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as _DataFrame, SparkSession as _SparkSession  # type: ignore

__all__ = ["check", "histogram"]

_HISTOGRAM = "histogram binary"
_REPORTS = "target string, status string, report string"
# What the driver merges.
_LAST = 8


def histogram(df: _DataFrame, columns: str | dict[str, str] | None = None) -> Histogram:
    """Return the histogram of the requests of a data frame.

    ``columns`` is as for ``Histogram.update``; only the columns that are needed are read. Each task counts a
    partition; further tasks merge the histograms in groups balanced by Spark, until eight are left.
    """

    def count(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        yield _cluster.counted(batches, columns)

    def merge(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        yield _cluster.merged(batches)

    read = needed(df.columns, columns)
    if len(read) < len(df.columns):
        df = df.select(*(f"`{name.replace('`', '``')}`" for name in read))
    parts = df.mapInArrow(count, _HISTOGRAM).hint("rebalance").mapInArrow(merge, _HISTOGRAM)
    last = parts.repartition(_LAST).mapInArrow(merge, _HISTOGRAM)
    return _cluster.total(row[0] for row in last.collect())


def check(
    paths: _DataFrame | Iterable[str | PathLike[str]],
    *,
    spark: _SparkSession | None = None,
    assume: str | None = None,
    only: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    allow_backing: Sequence[str | PathLike[str]] = (),
) -> _DataFrame:
    """Return a data frame with the audit of each path: ``target``, ``status`` and ``report``.

    ``paths`` are images that every executor can open, or addresses on servers: paths, or a data frame with them
    in its first column. ``report`` is the target's part of ``straddle check --json``; each target is judged separately. A target that
    cannot be opened or read has the status ``failed``. The data frame is lazy: unless it is cached, each use
    repeats the audits.
    """
    auditor = _cluster.auditor(assume, only, ignore, allow_backing)

    def audit(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        return map(auditor, batches)

    if not hasattr(paths, "mapInArrow"):
        from pyspark.sql import SparkSession  # type: ignore

        spark = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        listed = [(str(path),) for path in paths]
        tasks = max(-(-len(listed) // _cluster.PATHS_PER_TASK), 1)
        paths = spark.createDataFrame(listed, "path string").repartition(tasks)
    return paths.mapInArrow(audit, _REPORTS)
