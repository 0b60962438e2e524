"""Spark on this machine: `straddle.spark.histogram` beside PySpark's own ways to the same answer, and one executor beside two.

Sessions with one and two executors of one core take turns, and in each the arms do. A figure is the median of seconds on the
clock, so it is of this machine under its load.
"""

import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import straddle.spark

FILES = int(os.environ.get("FILES", "8"))
ROWS = int(os.environ.get("ROWS", "10000000"))
SESSIONS = int(os.environ.get("SESSIONS", "3"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def session(executors: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1536]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.executor.memory": "1536m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def grouped(df: DataFrame) -> DataFrame:
    first = f.expr("cast((offset div 512) % 2048 as smallint)").alias("first")
    sectors = f.expr("cast((length + 511) div 512 as int)").alias("sectors")
    return df.groupBy("volume", "op", first, sectors).count()


def figures(df: DataFrame) -> DataFrame:
    """The figures of six units and one start only: less than the histogram holds, in one pass without a join."""
    df = df.selectExpr("volume", "op", "offset div 512 as first", "(offset + length + 511) div 512 as behind")
    sums = [f.count("*"), f.expr("sum(behind - first)")]
    for unit in (8, 16, 32, 64, 128, 2048):
        head, tail = f"first % {unit} <> 0", f"behind % {unit} <> 0"
        touched = f"((behind + {unit - 1}) div {unit} - first div {unit})"
        needed = f"((behind - first + {unit - 1}) div {unit})"
        for what in (
            f"int({head} or {tail})",
            f"int({touched} > {needed})",
            f"int({head})",
            f"int({tail})",
            f"if({touched} = 1, int(behind - first < {unit}), int({head}) + int({tail}))",
            touched,
        ):
            sums.append(f.expr(f"sum({what})"))
    return df.groupBy("volume", "op").agg(*sums)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(__file__).with_name("loads.py")
        subprocess.run([sys.executable, script, folder, str(FILES), str(ROWS // FILES), "1000"], check=True)
        paths = sorted(glob.glob(f"{folder}/*.parquet"))
        size = sum(os.path.getsize(path) for path in paths)
        times: dict[tuple[str, int], list[float]] = {}
        for _ in range(SESSIONS):
            for executors in (1, 2):
                spark = session(executors)
                df = spark.read.parquet(*paths)
                arms: dict[str, Callable[[], object]] = {
                    "straddle": lambda df=df: straddle.spark.histogram(df),
                    "SQL, histogram": lambda df=df: grouped(df).toArrow(),
                    "SQL, figures": lambda df=df: figures(df).toArrow(),
                }
                names = list(arms)
                for turn in range(ROUNDS + 1):
                    for name in names[turn % 3 :] + names[: turn % 3]:
                        begun = time.monotonic()
                        arms[name]()
                        taken = time.monotonic() - begun
                        print(f"{executors} executors, turn {turn}: {name} {taken:.2f} s", file=sys.stderr)
                        # The first turn starts workers and compiles.
                        if turn > 0:
                            times.setdefault((name, executors), []).append(taken)
                spark.stop()
        medians = {key: statistics.median(of) for key, of in times.items()}
        print(f"{ROWS} requests of 1000 volumes in {FILES} Parquet files of {size / 1e6:.0f} MB, medians of {SESSIONS * ROUNDS} runs:")
        for (name, executors), median in medians.items():
            print(f"  {name:14} {executors} executors: {median:6.2f} s, {ROWS / median / 1e6:5.2f} million rows/s")
        for executors in (1, 2):
            for name in ("SQL, histogram", "SQL, figures"):
                ratio = medians[name, executors] / medians["straddle", executors]
                print(f"  {executors} executors: straddle has {ratio:.2f} x the rate of {name}")
        rate = size / medians["straddle", 1]
        print(f"  derived: 100 TB of such files in an hour take {100e12 / 3600 / rate:.0f} cores at {rate / 1e6:.0f} MB/s each")
        print(f"  straddle: one executor takes {medians['straddle', 1] / medians['straddle', 2]:.2f} x the time of two")


main()
