"""Ray: a local cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
import ray

import straddle_align
import straddle_align.ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("blocks", [1, 3, 70])
def test_any_number_of_blocks_is_one_process(
    table: pyarrow.Table, expected: straddle_align.Histogram, blocks: int
) -> None:
    dataset = ray.data.from_arrow(table).repartition(blocks)
    assert straddle_align.ray.histogram(dataset).to_bytes() == expected.to_bytes()


def test_columns_have_other_names(table: pyarrow.Table, expected: straddle_align.Histogram) -> None:
    dataset = ray.data.from_arrow(table.rename_columns(["kind", "first", "length", "disk"]))
    found = straddle_align.ray.histogram(dataset, {"op": "kind", "offset": "first", "volume": "disk"})
    assert found.to_bytes() == expected.to_bytes()


def test_images_are_judged_as_by_one_process(tmp_path: Path) -> None:
    from test_check import image

    paths = [str(image(tmp_path / f"{start}.img", start)) for start in (63, 2048, 2049)]
    paths.append("/no/such/image")
    rows = {row["target"]: row for row in straddle_align.ray.check(paths).iter_rows()}
    for target in straddle_align.check_all(paths)["targets"]:
        row = rows[target["target"]]
        assert (row["status"], json.loads(row["report"])) == (target["status"], target)
    as_dataset = ray.data.from_items([{"path": path} for path in paths])
    assert straddle_align.ray.check(as_dataset, only="S001").count() == len(paths)


def test_a_killed_worker_changes_no_byte(
    table: pyarrow.Table, expected: straddle_align.Histogram, tmp_path: object
) -> None:
    """The worker of one block ends as if it was killed, the first time."""
    flag = f"{tmp_path}/killed"

    def fail(block: pyarrow.Table) -> pyarrow.Table:
        import os
        import signal

        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
        return block

    dataset = ray.data.from_arrow(table).repartition(8).map_batches(fail, batch_format="pyarrow", batch_size=None)
    assert straddle_align.ray.histogram(dataset).to_bytes() == expected.to_bytes()
    import os

    assert os.path.exists(flag)
