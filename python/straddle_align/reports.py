"""The types of the values that ``Histogram.report`` returns, as in ``docs/trace.schema.json``."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    from typing import NotRequired, TypedDict
else:
    from typing_extensions import NotRequired, TypedDict

__all__ = ["Best", "Effect", "Report", "Requests", "Size", "Unit", "Volume"]


class Effect(TypedDict):
    """What requests do to units from one start."""

    misaligned_requests: int
    straddling_requests: int
    partial_head_requests: int
    partial_tail_requests: int
    partial_units: int
    touched_units: int
    amplification: NotRequired[float]


class Best(Effect):
    """The start with the fewest units covered in part."""

    started_at_sectors: int


class Unit(Effect):
    """What requests do to units of one size, each request alone."""

    unit_bytes: int
    best: NotRequired[Best]


class Size(TypedDict):
    """The requests of one length."""

    length_bytes: NotRequired[int]
    requests: int
    bytes: int


class Requests(TypedDict):
    """The requests of one operation."""

    requests: int
    bytes: int
    off_sector_requests: int
    sizes: list[Size]
    units: list[Unit]


class Volume(TypedDict):
    """What is asked of a volume."""

    name: NotRequired[str]
    reads: Requests
    writes: Requests
    discards: Requests
    flushes: int


class Report(TypedDict):
    """The figures of a histogram. ``files`` is empty."""

    files: list[Any]
    other_lines: int
    span_ns: NotRequired[int]
    started_at_sectors: int
    total: Volume
    volumes: list[Volume]
