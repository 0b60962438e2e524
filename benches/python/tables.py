"""Counting a table in memory: `Histogram.update` beside polars and DuckDB, which group by the same classes, on one thread.

The arms take turns. A figure is the median of the processor's time, so that a busy machine changes little.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"
os.environ["RAYON_NUM_THREADS"] = "1"

import statistics
import sys
import time
from collections.abc import Callable

import duckdb
import polars
import pyarrow

import straddle_align

from loads import table

ROWS = int(os.environ.get("ROWS", "10000000"))
ROUNDS = int(os.environ.get("ROUNDS", "7"))
SQL = (
    'SELECT volume, op, "offset" // 512 % 2048, ("length" + 511) // 512, count(*) FROM requests GROUP BY ALL'
)


def by_polars(requests: polars.DataFrame) -> int:
    first = (polars.col("offset") // 512 % 2048).alias("first")
    sectors = ((polars.col("length") + 511) // 512).alias("sectors")
    return requests.lazy().group_by("volume", "op", first, sectors).len().collect().height


def arms(requests: pyarrow.Table) -> dict[str, Callable[[], object]]:
    frame = polars.from_arrow(requests)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("requests", requests)
    return {
        "straddle, pyarrow": lambda: straddle_align.Histogram().update(requests),
        "straddle, polars": lambda: straddle_align.Histogram().update(frame),
        "polars": lambda: by_polars(frame),
        "DuckDB": lambda: connection.sql(SQL).to_arrow_table(),
    }


def main() -> None:
    for volumes in (1, 1000):
        measured = arms(table(ROWS, volumes, 1))
        times: dict[str, list[float]] = {name: [] for name in measured}
        names = list(measured)
        for turn in range(ROUNDS + 1):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                begun = time.process_time()
                measured[name]()
                if turn > 0:
                    times[name].append(time.process_time() - begun)
        print(f"{ROWS} requests of {volumes} volumes in memory, processor time of one thread, {ROUNDS} rounds:")
        medians = {name: statistics.median(of) for name, of in times.items()}
        for name, median in medians.items():
            print(f"  {name:20} {median:6.3f} s, {ROWS / median / 1e6:6.1f} million rows/s")
        for name in ("polars", "DuckDB"):
            print(f"  straddle, pyarrow has {medians[name] / medians['straddle, pyarrow']:.1f} x the rate of {name}")
        sys.stdout.flush()


main()
