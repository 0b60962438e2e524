"""Judges of the tests: random requests, a loop over every one of them, and the command line."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

SEED = int(os.environ.get("SEED", "19"))
STRADDLE = os.environ.get("STRADDLE", "straddle")
NAMES = {"R": "reads", "W": "writes", "D": "discards"}


def requests_of(seed: int, count: int) -> list[dict[str, Any]]:
    """Return random requests."""
    print(f"SEED={SEED}")
    order = random.Random(seed)
    volumes = ["", "a", "8:16", "a volume with a long name", "ü"]
    rows = []
    for _ in range(count):
        length = order.choice([512, 4096, 4096, 16384, order.randrange(1, 1 << 22), 3 << 20])
        rows.append(
            {
                "op": order.choice(["R", "W", "W", "D", "F"]),
                "offset": order.randrange(1 << 40) * order.choice([1, 512, 4096]) % (1 << 45),
                "length": length,
                "volume": order.choice(volumes),
            }
        )
    return rows


def brute_force(rows: list[dict[str, Any]], units: list[int], start: int) -> dict[str, Any]:
    """Return what a loop over each request finds, in bytes, with no algebra of sectors."""
    found: dict[str, Any] = {}
    for row in rows:
        operations, flushes = found.setdefault(
            row["volume"], ({name: [0, 0, {}] for name in NAMES.values()}, 0)
        )
        if row["op"] == "F":
            found[row["volume"]] = (operations, flushes + 1)
            continue
        # A request touches whole sectors of 512 bytes.
        first = row["offset"] // 512 * 512 + start
        end = -(-(row["offset"] + row["length"]) // 512) * 512 + start
        operation = operations[NAMES[row["op"]]]
        operation[0] += 1
        operation[1] += end - first
        for unit in units:
            counts = operation[2].setdefault(unit, [0] * 6)
            touched = range(first // unit, (end - 1) // unit + 1)
            needed = -(-(end - first) // unit)
            partial = sum(
                max(first, index * unit) > index * unit or min(end, (index + 1) * unit) < (index + 1) * unit
                for index in {touched[0], touched[-1]}
            )
            head, tail = first % unit > 0, end % unit > 0
            for index, count in enumerate(
                [head or tail, len(touched) > needed, head, tail, partial, len(touched)]
            ):
                counts[index] += count
    keys = [
        "misaligned_requests",
        "straddling_requests",
        "partial_head_requests",
        "partial_tail_requests",
        "partial_units",
        "touched_units",
    ]
    none = dict.fromkeys(keys, 0)
    return {
        volume: (
            {
                name: (
                    requests,
                    size,
                    {unit: dict(zip(keys, counts.get(unit, none.values()), strict=True)) for unit in units},
                )
                for name, (requests, size, counts) in operations.items()
            },
            flushes,
        )
        for volume, (operations, flushes) in found.items()
    }


def run(*arguments: str) -> dict[str, Any]:
    """Return the JSON of a command; findings are no failure."""
    done = subprocess.run([STRADDLE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)


def trace_json(table: pyarrow.Table, folder: Path, *arguments: str) -> dict[str, Any]:
    """Return what `straddle trace --json` prints of a table."""
    path = folder / "trace.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=1000)
    return run("trace", str(path), "--json", *arguments)
