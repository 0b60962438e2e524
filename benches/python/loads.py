"""Requests as those of the published traces: mostly small, some volumes busier than others."""

import sys

import numpy
import pyarrow
import pyarrow.parquet


def table(rows: int, volumes: int, seed: int) -> pyarrow.Table:
    """Return a table of requests, with names of volumes and operations as strings."""
    random = numpy.random.default_rng(seed)
    busy = max(volumes // 20, 1)
    volume = numpy.where(
        random.integers(4, size=rows) == 0, random.integers(volumes, size=rows), random.integers(busy, size=rows)
    )
    sectors = numpy.array([1, 8, 8, 8, 8, 8, 8, 16, 16, 32, 32, 48, 128, 128, 256, 1024])
    ahead = numpy.where(volume % 7 == 1, 63 * 512, 0)
    names = pyarrow.array([str(number) for number in range(volumes)])
    operations = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array((random.integers(10, size=rows) < 7).astype("i4")), pyarrow.array(["R", "W"])
    )
    return pyarrow.table(
        {
            "volume": pyarrow.DictionaryArray.from_arrays(pyarrow.array(volume.astype("i4")), names).cast(
                pyarrow.string()
            ),
            "op": operations.cast(pyarrow.string()),
            "offset": random.integers(1 << 28, size=rows) * 4096 + ahead,
            "length": sectors[random.integers(16, size=rows)] * 512,
        }
    )


if __name__ == "__main__":
    folder, files, rows, volumes = sys.argv[1], *map(int, sys.argv[2:])
    for number in range(files):
        pyarrow.parquet.write_table(table(rows, volumes, number), f"{folder}/{number}.parquet")
