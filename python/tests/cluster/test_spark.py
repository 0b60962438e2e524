"""Spark: two executors, each a process of its own, and a server of Spark Connect with two others."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import straddle_align
import straddle_align.spark

IMAGES = int(os.environ.get("IMAGES", "2000"))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # What executors run is this environment's Python.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("straddle")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # A lost executor is replaced, and its tasks are run again.
        "spark.task.maxFailures": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def stored(table: pyarrow.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("spark") / "trace.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=2000)
    return str(path)


@pytest.mark.parametrize("partitions", [1, 2, 7, 50])
def test_any_number_of_partitions_is_one_process(
    spark: SparkSession, stored: str, expected: straddle_align.Histogram, partitions: int
) -> None:
    df = spark.read.parquet(stored).repartition(partitions)
    assert straddle_align.spark.histogram(df).to_bytes() == expected.to_bytes()


def test_no_rows_are_no_requests(spark: SparkSession, stored: str) -> None:
    df = spark.read.parquet(stored).where("false")
    assert straddle_align.spark.histogram(df) == straddle_align.Histogram()


def test_columns_have_other_names_or_numbers(
    spark: SparkSession, stored: str, expected: straddle_align.Histogram
) -> None:
    df = spark.read.parquet(stored)
    df = df.selectExpr("op as kind", "offset as first", "length", "volume as disk")
    # PySpark's mapInArrow takes no name with a dot, but this column is not needed.
    more = df.selectExpr("*", "'a' as `a.b`")
    columns = {"op": "kind", "offset": "first", "volume": "disk"}
    assert straddle_align.spark.histogram(more, columns).to_bytes() == expected.to_bytes()
    numbers = "op=1,offset=2,length=3,volume=4"
    assert straddle_align.spark.histogram(df, numbers).to_bytes() == expected.to_bytes()
    with pytest.raises(straddle_align.InputError, match='no column "op"'):
        straddle_align.spark.histogram(df)


def test_the_example_runs(stored: str, expected: straddle_align.Histogram) -> None:
    example = Path(__file__).resolve().parents[2] / "examples/spark_units.py"
    done = subprocess.run([sys.executable, example, stored], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"<straddle_align.Histogram: {expected.requests} requests on 5 volumes>"), done.stdout


def test_a_killed_executor_changes_no_byte(
    spark: SparkSession, stored: str, expected: straddle_align.Histogram, tmp_path: Path
) -> None:
    """One task waits until the executor below it is killed; it is run again, and so are the finished ones of that executor
    whose results are lost."""
    flags = str(tmp_path)

    def wait(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pathlib import Path

        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == 5:
                # The worker is forked by a daemon, whose parent is the executor.
                stat = Path(f"/proc/{os.getppid()}/stat").read_text()
                executor = stat.rsplit(")", 1)[1].split()[1]
                try:
                    os.close(os.open(f"{flags}/first", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    Path(f"{flags}/again-{executor}").touch()
                else:
                    Path(f"{flags}/written").write_text(executor)
                    os.rename(f"{flags}/written", f"{flags}/waiting")
                    time.sleep(600)
                    raise AssertionError("the executor was not killed")
            yield batch

    killed: list[int] = []

    def kill() -> None:
        first = Path(flags) / "waiting"
        while not first.exists():
            time.sleep(0.1)
        executor = int(first.read_text())
        command = Path(f"/proc/{executor}/cmdline").read_bytes()
        assert b"CoarseGrainedExecutorBackend" in command, command
        os.kill(executor, signal.SIGKILL)
        killed.append(executor)

    df = spark.read.parquet(stored).repartition(8)
    slow = df.mapInArrow(wait, df.schema)
    other = threading.Thread(target=kill, daemon=True)
    other.start()
    found = straddle_align.spark.histogram(slow)
    other.join(60)
    assert len(killed) == 1
    again = [int(path.name.removeprefix("again-")) for path in Path(flags).glob("again-*")]
    assert again and killed[0] not in again
    assert found.to_bytes() == expected.to_bytes()


def test_spark_connect_has_the_same(
    spark: SparkSession, stored: str, expected: straddle_align.Histogram, tmp_path: Path
) -> None:
    """In a process of its own: one has sessions of one kind only."""
    from test_check import image

    paths = [str(image(tmp_path / f"{start}.img", start)) for start in (63, 2048)]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("connect.py"), stored, *paths],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    digest, *statuses = done.stdout.split()
    assert digest == hashlib.sha256(expected.to_bytes()).hexdigest()
    assert statuses == [straddle_align.check(path)["targets"][0]["status"] for path in paths]


def test_a_wrong_row_fails_the_job_with_its_message(spark: SparkSession) -> None:
    df = spark.createDataFrame([("?", 0, 512)], "op string, offset long, length long")
    with pytest.raises(Exception, match="InputError"):
        straddle_align.spark.histogram(df)


def test_images_are_judged_as_by_one_process(spark: SparkSession, tmp_path: Path) -> None:
    from test_check import image

    first = [image(tmp_path / f"{start}.img", start) for start in (63, 2048, 2049)]
    paths = []
    for number in range(IMAGES):
        path = tmp_path / f"{number:06}.raw"
        os.link(first[number % 3], path)
        paths.append(str(path))
    paths.append("/no/such/image")
    begun = time.monotonic()
    rows = {row.target: row for row in straddle_align.spark.check(paths, spark=spark).collect()}
    print(f"{len(paths)} images in {time.monotonic() - begun:.1f} s")
    assert len(rows) == len(paths)
    document: dict[str, Any] = straddle_align.check_all(paths)
    for target in document["targets"]:
        row = rows[target["target"]]
        assert (row.status, json.loads(row.report)) == (target["status"], target)
    as_frame = spark.createDataFrame([(path,) for path in paths[:5]], "path string")
    assert straddle_align.spark.check(as_frame).where("status = 'error'").count() == 3
