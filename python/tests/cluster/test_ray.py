"""Ray: a local cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
import pytest
import ray

import straddle
import straddle.ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("blocks", [1, 3, 70])
def test_any_number_of_blocks_is_one_process(
    table: pyarrow.Table, expected: straddle.Histogram, blocks: int
) -> None:
    dataset = ray.data.from_arrow(table).repartition(blocks)
    assert straddle.ray.histogram(dataset).to_bytes() == expected.to_bytes()


def test_columns_have_other_names(table: pyarrow.Table, expected: straddle.Histogram) -> None:
    dataset = ray.data.from_arrow(table.rename_columns(["kind", "first", "length", "disk"]))
    found = straddle.ray.histogram(dataset, {"op": "kind", "offset": "first", "volume": "disk"})
    assert found.to_bytes() == expected.to_bytes()


def test_a_killed_worker_changes_no_byte(
    table: pyarrow.Table, expected: straddle.Histogram, tmp_path: object
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
    assert straddle.ray.histogram(dataset).to_bytes() == expected.to_bytes()
    import os

    assert os.path.exists(flag)
