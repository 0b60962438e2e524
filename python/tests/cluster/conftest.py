"""The table that is counted, and what one process makes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from judges import SEED, requests_of

import straddle_align


@pytest.fixture(scope="session")
def table() -> pyarrow.Table:
    return pyarrow.Table.from_pylist(requests_of(SEED, 20_000))


@pytest.fixture(scope="session")
def expected(table: pyarrow.Table) -> straddle_align.Histogram:
    return straddle_align.Histogram().update(table)
