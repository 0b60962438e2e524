"""Spark on this machine: `straddle_align.spark.histogram` beside PySpark's own ways to the same answer, and one executor beside two.

Sessions with one and two executors of one core take turns, and in each the arms do. A figure is a median: of seconds on the
clock, which are of this machine under its load, and of processor time of the driver, the executors and their workers.
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

import straddle_align.spark

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


def processor_time() -> float:
    """Return the seconds that this process and all below it have used, with those that ended."""
    parents, used = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = Path(path).read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        number = int(path.split("/")[2])
        parents[number] = int(fields[1])
        used[number] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(used.get(number, 0) for number in own) / os.sysconf("SC_CLK_TCK")


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
        times: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for _ in range(SESSIONS):
            for executors in (1, 2):
                spark = session(executors)
                df = spark.read.parquet(*paths)
                arms: dict[str, Callable[[], object]] = {
                    "straddle": lambda df=df: straddle_align.spark.histogram(df),
                    "SQL, histogram": lambda df=df: grouped(df).toArrow(),
                    "SQL, figures": lambda df=df: figures(df).toArrow(),
                }
                names = list(arms)
                for turn in range(ROUNDS + 1):
                    for name in names[turn % 3 :] + names[: turn % 3]:
                        begun, before = time.monotonic(), processor_time()
                        arms[name]()
                        taken = time.monotonic() - begun, processor_time() - before
                        print(f"{executors} executors, turn {turn}: {name} {taken}", file=sys.stderr)
                        # The first turn starts workers and compiles.
                        if turn > 0:
                            times.setdefault((name, executors), []).append(taken)
                spark.stop()
        medians = {
            key: tuple(statistics.median(column) for column in zip(*of, strict=True)) for key, of in times.items()
        }
        print(
            f"{ROWS} requests of 1000 volumes in {FILES} Parquet files of {size / 1e6:.0f} MB, "
            f"medians of {SESSIONS * ROUNDS} runs:"
        )
        for (name, executors), (clock, used) in medians.items():
            rate = ROWS / used / 1e6
            print(
                f"  {executors} executors, {name:14} {clock:6.2f} s on the clock, "
                f"{used:6.2f} s of a processor, {rate:5.2f} million rows for each of these"
            )
        for executors in (1, 2):
            ours = medians["straddle", executors]
            for name in ("SQL, histogram", "SQL, figures"):
                clock, used = (one / other for one, other in zip(medians[name, executors], ours, strict=True))
                print(
                    f"  {executors} executors: straddle has {clock:.2f} x the rate of {name} on the clock, "
                    f"{used:.2f} x for processor time"
                )
        print(f"  straddle: one executor takes {medians['straddle', 1][0] / medians['straddle', 2][0]:.2f} x the time of two")
        rate = size / medians["straddle", 1][1]
        print(
            f"  derived: 100 TB of such files in an hour take {100e12 / 3600 / rate:.0f} cores "
            f"at {rate / 1e6:.1f} MB/s each"
        )


main()
