"""Histograms of tables: against a loop over every request, against `straddle trace --json`, from every library."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest
from judges import SEED, brute_force, requests_of, trace_json

import straddle

UNITS = [512, 4096, 16384, 65536, 1 << 20]


def figures(report: dict[str, Any], start: int) -> dict[str, Any]:
    """What the loop counts, from a report."""
    volumes = {}
    for volume in report["volumes"]:
        operations = {}
        for name in ("reads", "writes", "discards"):
            operation = volume[name]
            units = {unit.pop("unit_bytes"): unit for unit in copy.deepcopy(operation["units"])}
            for unit in units.values():
                unit.pop("amplification", None)
            operations[name] = (operation["requests"], operation["bytes"], units)
        volumes[volume.get("name", "")] = (operations, volume["flushes"])
    assert report["started_at_sectors"] * 512 == start
    return volumes


@pytest.mark.parametrize("start", [0, 63 * 512, 2047 * 512])
def test_the_figures_are_those_of_a_loop_over_every_request(start: int) -> None:
    rows = requests_of(SEED, 2_000)
    histogram = straddle.Histogram().update(pyarrow.Table.from_pylist(rows))
    report = histogram.report(units=UNITS, started_at=start)
    assert figures(report, start) == brute_force(rows, UNITS, start)


def test_the_report_is_what_the_command_line_prints(tmp_path: Any) -> None:
    rows = requests_of(SEED + 1, 5_000)
    table = pyarrow.Table.from_pylist(rows)
    for options, arguments in [
        ({}, []),
        ({"best": True, "started_at": 63 * 512}, ["--best", "--started-at", "63s"]),
        ({"units": [512, 2048]}, ["--unit", "512,2KiB"]),
    ]:
        expected = trace_json(table, tmp_path, *arguments)
        assert expected.pop("files")[0]["format"] == "parquet"
        report = straddle.Histogram().update(table).report(**options)
        assert report.pop("files") == []
        assert report == expected


def structured(frame: pandas.DataFrame) -> numpy.ndarray:
    array = numpy.empty(len(frame), [("op", "U2"), ("offset", "i8"), ("length", "u4"), ("volume", "U40")])
    for name in array.dtype.names:
        array[name] = frame[name].to_numpy()
    return array


def reader(table: pyarrow.Table) -> pyarrow.RecordBatchReader:
    return pyarrow.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=700)))


LIBRARIES = {
    "pyarrow": lambda table: table,
    "pyarrow, in chunks": lambda table: pyarrow.Table.from_batches(table.to_batches(max_chunksize=333)),
    "pyarrow, a reader": reader,
    "pyarrow, a batch": lambda table: table.combine_chunks().to_batches()[0],
    "pyarrow, dictionaries": lambda table: table.set_column(
        table.schema.get_field_index("volume"), "volume", table["volume"].dictionary_encode()
    ),
    "polars": polars.from_arrow,
    "polars, categories": lambda table: polars.from_arrow(table).with_columns(
        polars.col("op", "volume").cast(polars.Categorical)
    ),
    "pandas": lambda table: table.to_pandas(),
    "pandas, categories": lambda table: table.to_pandas().astype({"op": "category", "volume": "category"}),
    "DuckDB": lambda table: duckdb.from_arrow(table),
    "a dict of lists": lambda table: table.to_pydict(),
    "a dict of numpy arrays": lambda table: {
        name: column.to_numpy() for name, column in table.to_pandas().items()
    },
    "a structured numpy array": lambda table: structured(table.to_pandas()),
    "an object of our own": lambda table: Capsule(table),
}


class Capsule:
    """Nothing of a library but the stream."""

    def __init__(self, table: pyarrow.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_counts_the_same(library: str) -> None:
    rows = [row for row in requests_of(SEED + 2, 3_000) if row["op"] is not None]
    table = pyarrow.Table.from_pylist(rows)
    expected = straddle.Histogram().update(table)
    histogram = straddle.Histogram().update(LIBRARIES[library](table))
    assert histogram.requests > 2_000
    assert histogram.to_bytes() == expected.to_bytes()


def test_parts_in_any_order_are_the_same_bytes() -> None:
    rows = requests_of(SEED + 3, 2_000)
    table = pyarrow.Table.from_pylist(rows)
    whole = straddle.Histogram().update(table)
    order = random.Random(SEED)
    for parts in [1, 2, 7, 40]:
        cuts = [0, *sorted(order.sample(range(1, len(rows)), parts - 1)), len(rows)]
        histograms = [
            straddle.Histogram().update(table.slice(first, last - first))
            for first, last in zip(cuts, cuts[1:], strict=False)
        ]
        order.shuffle(histograms)
        while len(histograms) > 1:
            histograms.append(histograms.pop(0).merge(histograms.pop(0)))
        assert histograms[0] == whole
        assert histograms[0].to_bytes() == whole.to_bytes()


def test_a_histogram_comes_back_from_its_bytes_and_from_a_pickle() -> None:
    histogram = straddle.Histogram().update(pyarrow.Table.from_pylist(requests_of(SEED + 4, 500)))
    data = histogram.to_bytes()
    for again in [
        straddle.Histogram.from_bytes(data),
        pickle.loads(pickle.dumps(histogram)),
        copy.deepcopy(histogram),
    ]:
        assert again == histogram and again.to_bytes() == data and again.report() == histogram.report()
    assert histogram != straddle.Histogram()
    # A histogram that is merged with itself has every request twice.
    assert again.merge(again).requests == 2 * histogram.requests


def test_columns_are_a_string_or_a_dict() -> None:
    table = pyarrow.table({"is_write": [True, False], "lba": [63, 64], "size": [8, 8], "disk": ["a", "b"]})
    text = "op=is_write:false/true,offset=lba:sectors,length=size:sectors,volume=disk"
    pairs = dict(part.split("=") for part in text.split(","))
    one, other = (straddle.Histogram().update(table, columns) for columns in (text, pairs))
    assert one == other and one.volumes == ["a", "b"]
    assert one.report()["total"]["writes"]["bytes"] == 4096


WRONG = {
    "row 2: offset": lambda: straddle.Histogram().update(
        {"op": ["W", "W"], "offset": [0, -1], "length": [512, 512]}
    ),
    "trace: row 1: op": lambda: straddle.Histogram().update(
        {"op": ["?"], "offset": [0], "length": [512]}, name="trace"
    ),
    "no column \"length\"": lambda: straddle.Histogram().update({"op": ["W"], "offset": [0]}),
    "which cannot be read as": lambda: straddle.Histogram().update(
        {"op": ["W"], "offset": [0.5], "length": [1]}
    ),
    "these columns do not make a table": lambda: straddle.Histogram().update({"op": ["W"], "offset": [0, 1]}),
    "is not a unit of offset": lambda: straddle.Histogram().update({}, "offset=lba:furlongs"),
    "not a histogram of straddle": lambda: straddle.Histogram.from_bytes(b"nonsense"),
    "checksum": lambda: straddle.Histogram.from_bytes(straddle.Histogram().to_bytes()[:-1] + b"\xff"),
    "513 is not a unit": lambda: straddle.Histogram().report(units=[513]),
    "multiple of 512": lambda: straddle.Histogram().report(started_at=1),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_a_value_error_that_says_it(message: str) -> None:
    with pytest.raises(straddle.InputError) as raised:
        WRONG[message]()
    assert message in str(raised.value)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, straddle.Error)


def test_a_table_that_is_wrong_counts_for_nothing() -> None:
    histogram = straddle.Histogram().update({"op": ["W"], "offset": [0], "length": [512]})
    before = histogram.to_bytes()
    with pytest.raises(straddle.InputError):
        histogram.update({"op": ["W", "?"], "offset": [0, 0], "length": [512, 512]})
    assert histogram.to_bytes() == before


def test_what_is_no_table_is_a_type_error() -> None:
    for wrong in [1, "text", [1, 2], numpy.zeros(3)]:
        with pytest.raises(TypeError, match="is not a table"):
            straddle.Histogram().update(wrong)


def test_a_reader_that_fails_is_an_error_with_its_message() -> None:
    def batches() -> Any:
        yield pyarrow.record_batch({"op": ["W"], "offset": [0], "length": [512]})
        raise OSError("the disk is gone")

    schema = next(batches()).schema
    with pytest.raises(straddle.InputError, match="the disk is gone"):
        straddle.Histogram().update(pyarrow.RecordBatchReader.from_batches(schema, batches()))


def test_other_threads_run_while_a_table_is_counted() -> None:
    """A reader that only returns once another thread has run: with the lock held, neither would go on."""
    asked, answered = threading.Event(), threading.Event()
    batch = pyarrow.record_batch({"op": ["W"], "offset": [0], "length": [512]})

    def batches() -> Any:
        asked.set()
        assert answered.wait(60)
        yield batch

    def answer() -> None:
        assert asked.wait(60)
        answered.set()

    other = threading.Thread(target=answer)
    other.start()
    table = pyarrow.RecordBatchReader.from_batches(batch.schema, batches())
    assert straddle.Histogram().update(table).requests == 1
    other.join()
