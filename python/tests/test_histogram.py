"""Histograms of tables: against a loop over every request, against `straddle trace --json`, from every library."""

from __future__ import annotations

import copy
import errno
import pickle
import random
import struct
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from judges import SEED, brute_force, requests_of, run, trace_json
from matplotlib.figure import Figure

import straddle_align

ROOT = Path(__file__).resolve().parents[2]
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
    histogram = straddle_align.Histogram().update(pyarrow.Table.from_pylist(rows))
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
        assert expected.pop("straddle") == straddle_align.__version__ and expected.pop("schema") > 0
        report = straddle_align.Histogram().update(table).report(**options)
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
    rows = requests_of(SEED + 2, 3_000)
    table = pyarrow.Table.from_pylist(rows)
    expected = straddle_align.Histogram().update(table)
    histogram = straddle_align.Histogram().update(LIBRARIES[library](table))
    assert histogram.requests > 2_000
    assert histogram.to_bytes() == expected.to_bytes()


def test_parts_in_any_order_are_the_same_bytes() -> None:
    rows = requests_of(SEED + 3, 2_000)
    table = pyarrow.Table.from_pylist(rows)
    whole = straddle_align.Histogram().update(table)
    order = random.Random(SEED)
    for parts in [1, 2, 7, 40]:
        cuts = [0, *sorted(order.sample(range(1, len(rows)), parts - 1)), len(rows)]
        histograms = [
            straddle_align.Histogram().update(table.slice(first, last - first))
            for first, last in zip(cuts, cuts[1:], strict=False)
        ]
        order.shuffle(histograms)
        while len(histograms) > 1:
            histograms.append(histograms.pop(0).merge(histograms.pop(0)))
        assert histograms[0] == whole
        assert histograms[0].to_bytes() == whole.to_bytes()


def test_a_histogram_comes_back_from_its_bytes_and_from_a_pickle() -> None:
    histogram = straddle_align.Histogram().update(pyarrow.Table.from_pylist(requests_of(SEED + 4, 500)))
    data = histogram.to_bytes()
    for again in [
        straddle_align.Histogram.from_bytes(data),
        pickle.loads(pickle.dumps(histogram)),
        copy.deepcopy(histogram),
    ]:
        assert again == histogram and again.to_bytes() == data and again.report() == histogram.report()
    assert histogram != straddle_align.Histogram()
    # A histogram that is merged with itself has every request twice.
    assert again.merge(again).requests == 2 * histogram.requests


def test_columns_are_a_string_or_a_dict() -> None:
    table = pyarrow.table({"is_write": [True, False], "lba": [63, 64], "size": [8, 8], "disk": ["a", "b"]})
    text = "op=is_write:false/true,offset=lba:sectors,length=size:sectors,volume=disk"
    pairs = dict(part.split("=") for part in text.split(","))
    one, other = (straddle_align.Histogram().update(table, columns) for columns in (text, pairs))
    assert one == other and one.volumes == ["a", "b"]
    assert one.report()["total"]["writes"]["bytes"] == 4096


def traces(folder: Path) -> dict[str, tuple[Path, list[str], dict[str, Any]]]:
    """Return traces in files, with the arguments of the command line and of Python."""
    text = ROOT / "crates/trace/tests/trace/captured/text"
    table = folder / "table.csv"
    table.write_text("kind,lba,size\n1,63,4096\n0,64,4096\n")
    columns = {"op": "kind:0/1", "offset": "lba:sectors", "length": "size"}
    given = ",".join(f"{quantity}={column}" for quantity, column in columns.items())
    log = folder / "fio.log"
    log.write_text("fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb write 32256 4096\n/dev/sdb close\n")
    parquet = folder / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(requests_of(SEED + 8, 500)), parquet)
    return {
        "tracefs": (text, [], {}),
        "csv": (table, ["--columns", given], {"columns": columns}),
        "fio": (log, ["--format", "iolog"], {"format": "iolog"}),
        "Parquet": (parquet, [], {}),
    }


def test_a_file_is_counted_as_by_the_command_line(tmp_path: Path) -> None:
    found = traces(tmp_path)
    for path, arguments, options in found.values():
        expected = run("trace", str(path), "--json", *arguments)
        histogram = straddle_align.Histogram.from_file(path, **options)
        assert histogram.report() == {
            key: [] if key == "files" else value for key, value in expected.items() if key not in ("schema", "straddle")
        }
        assert histogram.requests > 0, path


def blktrace(action: int, sector: int = 0, length: int = 0, text: bytes = b"") -> bytes:
    """Return a struct blk_io_trace: magic, sequence, time, sector, bytes, action, pid, device, cpu, error, pdu_len."""
    fields = 0x65617407, 1, 1, sector, length, action, 1, 8 << 20, 0, 0, len(text)
    return struct.pack("<IIQQIIIIIHH", *fields) + text


ISSUED_WRITE, MESSAGE = 0x00420007, 0x04000002


def test_the_files_of_blktrace_are_one_trace(tmp_path: Path) -> None:
    for processor, sector in enumerate([0, 63]):
        (tmp_path / f"name.blktrace.{processor}").write_bytes(blktrace(ISSUED_WRITE, sector, 4096))
    assert straddle_align.Histogram.from_file(tmp_path / "name").requests == 2
    assert straddle_align.Histogram.from_file(tmp_path / "name.blktrace.1").requests == 1


def test_requests_that_a_recording_has_lost_are_a_warning(tmp_path: Path) -> None:
    recording = tmp_path / "sdb.rec"
    said = blktrace(MESSAGE, text=b"straddle: lost_events: 3")
    recording.write_bytes(blktrace(ISSUED_WRITE, 63, 4096) + said)
    with pytest.warns(UserWarning, match="sdb.rec: 3 events were lost during the recording, so requests are missing"):
        straddle_align.Histogram.from_file(recording)


def test_a_file_that_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(straddle_align.TargetError) as raised:
        straddle_align.Histogram.from_file(tmp_path / "none")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(tmp_path / "none"))


def test_histograms_are_added() -> None:
    tables = [pyarrow.Table.from_pylist(requests_of(SEED + part, 500)) for part in (5, 6)]
    one, other = (straddle_align.Histogram().update(table) for table in tables)
    data = one.to_bytes()
    whole = straddle_align.Histogram().update(pyarrow.concat_tables(tables))
    assert one + other == other + one == sum([one, other], straddle_align.Histogram()) == whole
    assert one.to_bytes() == data and (one + one).requests == 2 * one.requests
    with pytest.raises(TypeError):
        one + 1


def test_a_histogram_is_a_table_of_its_requests() -> None:
    rows = requests_of(SEED + 7, 2_000)
    found = straddle_align.Histogram().update(pyarrow.Table.from_pylist(rows)).to_arrow().to_pylist()
    expected: dict[Any, list[int]] = {}
    for row in rows:
        first, end = row["offset"] // 512 * 512, -(-(row["offset"] + row["length"]) // 512) * 512
        length = end - first
        kept = length if length < 2 << 20 else (2 << 20) + length % (1 << 20)
        place = (None, None) if row["op"] == "F" else (first % (1 << 20), kept)
        sums = expected.setdefault((row["volume"], row["op"], *place), [0, 0])
        sums[0] += 1
        sums[1] += 0 if row["op"] == "F" else length
    keys = ("volume", "op", "offset_bytes", "length_bytes")
    assert {tuple(row[key] for key in keys): [row["requests"], row["bytes"]] for row in found} == expected


def test_a_chart_has_the_amplification_of_each_unit() -> None:
    from straddle_align.plot import amplification

    figure = Figure()
    histogram = straddle_align.Histogram().update({"op": ["W"], "offset": [0], "length": [4096]})
    axes = amplification(histogram, started_at=63 * 512, ax=figure.add_subplot())
    assert [bar.get_height() for bar in axes.patches] == [2, 4, 8, 16, 16, 256, 1, 2, 4, 8, 16, 256]


WRONG = {
    "row 2: op": lambda: straddle_align.Histogram().update(
        {"op": ["W", None], "offset": [0, 0], "length": [512, 512]}
    ),
    "row 1: op = \"\": there is no value": lambda: straddle_align.Histogram().update(
        {"op": [""], "offset": [0], "length": [512]}
    ),
    "nonsense: unknown format; there are": lambda: straddle_align.Histogram.from_file("x", format="nonsense"),
    "unknown trace format": lambda: straddle_align.Histogram.from_file(__file__),
    "row 2: offset": lambda: straddle_align.Histogram().update(
        {"op": ["W", "W"], "offset": [0, -1], "length": [512, 512]}
    ),
    "trace: row 1: op": lambda: straddle_align.Histogram().update(
        {"op": ["?"], "offset": [0], "length": [512]}, name="trace"
    ),
    "no column \"length\"": lambda: straddle_align.Histogram().update({"op": ["W"], "offset": [0]}),
    "which cannot be read as": lambda: straddle_align.Histogram().update(
        {"op": ["W"], "offset": [0.5], "length": [1]}
    ),
    "these columns do not form a table": lambda: straddle_align.Histogram().update({"op": ["W"], "offset": [0, 1]}),
    "is not a unit of offset": lambda: straddle_align.Histogram().update({}, "offset=lba:furlongs"),
    "not a straddle histogram": lambda: straddle_align.Histogram.from_bytes(b"nonsense"),
    "checksum": lambda: straddle_align.Histogram.from_bytes(straddle_align.Histogram().to_bytes()[:-1] + b"\xff"),
    "513 is not a unit": lambda: straddle_align.Histogram().report(units=[513]),
    "multiple of 512": lambda: straddle_align.Histogram().report(started_at=1),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_a_value_error_that_says_it(message: str) -> None:
    with pytest.raises(straddle_align.InputError) as raised:
        WRONG[message]()
    assert message in str(raised.value)
    assert "--" not in str(raised.value)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, straddle_align.Error)


def test_a_table_that_is_wrong_counts_for_nothing() -> None:
    histogram = straddle_align.Histogram().update({"op": ["W"], "offset": [0], "length": [512]})
    before = histogram.to_bytes()
    with pytest.raises(straddle_align.InputError):
        histogram.update({"op": ["W", "?"], "offset": [0, 0], "length": [512, 512]})
    assert histogram.to_bytes() == before


HINTS = {
    "int is not a table: it has neither __arrow_c_stream__": 1,
    "ndarray is not a table": numpy.zeros(3),
    "str is not a table: for a file, use Histogram.from_file": "trace.csv",
    "PosixPath is not a table: for a file, use Histogram.from_file": Path("trace.csv"),
    "list is not a table: for a list of dicts, use pyarrow.Table.from_pylist": [{"op": "W"}],
    r"LazyFrame is not a table: call its collect\(\) first": polars.LazyFrame({"op": ["W"]}),
}


@pytest.mark.parametrize("message", HINTS)
def test_what_is_no_table_is_a_type_error_with_a_hint(message: str) -> None:
    with pytest.raises(TypeError, match=message):
        straddle_align.Histogram().update(HINTS[message])


def test_a_reader_that_fails_is_an_error_with_its_message() -> None:
    def batches() -> Any:
        yield pyarrow.record_batch({"op": ["W"], "offset": [0], "length": [512]})
        raise OSError("the disk is gone")

    schema = next(batches()).schema
    with pytest.raises(straddle_align.InputError, match="the disk is gone"):
        straddle_align.Histogram().update(pyarrow.RecordBatchReader.from_batches(schema, batches()))


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
    assert straddle_align.Histogram().update(table).requests == 1
    other.join()
