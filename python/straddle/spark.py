"""Histograms and audits on Apache Spark.

Spark decides where tasks run, retries those that are lost, and merges; nothing here schedules. A task returns
bytes that depend on its rows only, and merging is addition, so the result is byte-identical for any number of
partitions and executors.

The package has to be installed where the executors run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow

import straddle
from straddle._straddle import check_each, needed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check", "histogram"]

_REPORTS = "target string, status string, report string"
_PATHS_PER_TASK = 1000


def histogram(
    df: DataFrame, columns: str | Mapping[str, str] | None = None, *, depth: int = 2
) -> straddle.Histogram:
    """Return the histogram of the requests of a data frame.

    ``columns`` is as for ``Histogram.update``; only the columns that are needed are read. Each task counts a
    partition (``mapInArrow``); Spark merges the histograms in a tree of ``depth`` levels (``treeReduce``), which
    with two are groups of the square root of the number of partitions.
    """

    def count(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        counted = straddle.Histogram()
        for batch in batches:
            counted.update(batch, columns)
        yield pyarrow.record_batch({"histogram": [counted.to_bytes()]})

    read = needed(df.columns, columns)
    if len(read) < len(df.columns):
        df = df.select(*(f"`{name.replace('`', '``')}`" for name in read))
    parts = df.mapInArrow(count, "histogram binary").rdd.map(_of_row)
    if parts.getNumPartitions() == 0:
        return straddle.Histogram()
    return parts.treeReduce(_merged, depth)


def _of_row(row: Sequence[bytes]) -> straddle.Histogram:
    return straddle.Histogram.from_bytes(bytes(row[0]))


def _merged(one: straddle.Histogram, other: straddle.Histogram) -> straddle.Histogram:
    return one.merge(other)


def check(
    paths: DataFrame | Iterable[str],
    *,
    spark: SparkSession | None = None,
    assume: str | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> DataFrame:
    """Return a data frame with the audit of each path: ``target``, ``status`` and ``report``.

    ``paths`` are images that every executor can open, or addresses on servers: strings, or a data frame with them
    in its first column. ``report`` is the target's part of ``straddle check --json``; each target is judged for
    itself. One that cannot be opened or read has the status ``failed``. The data frame is lazy: what is not stored
    is audited again when it is used again.
    """

    def audit(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            rows = check_each(batch.column(0).to_pylist(), assume=assume, only=only, ignore=ignore)
            names = ("target", "status", "report")
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            yield pyarrow.record_batch(
                {
                    name: pyarrow.array(column, pyarrow.string())
                    for name, column in zip(names, columns, strict=True)
                }
            )

    if not hasattr(paths, "mapInArrow"):
        from pyspark.sql import SparkSession

        spark = spark or SparkSession.builder.getOrCreate()
        listed = [(str(path),) for path in paths]
        tasks = max(-(-len(listed) // _PATHS_PER_TASK), spark.sparkContext.defaultParallelism)
        paths = spark.createDataFrame(listed, "path string").repartition(tasks)
    return paths.mapInArrow(audit, _REPORTS)
