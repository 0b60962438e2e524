"""A chart of a histogram. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from straddle_align._straddle import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["amplification"]


def amplification(histogram: Histogram, *, started_at: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the write amplification for each unit size, as it is and with the best start.

    ``started_at`` is the byte at which the partition begins. The chart is drawn on ``ax``, or on a new figure.
    """
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(layout="constrained").add_subplot()
    units = histogram.report(started_at=started_at, best=True)["total"]["writes"]["units"]
    places = range(len(units))
    present = [unit.get("amplification", 0.0) for unit in units]
    best = [unit["best"].get("amplification", 0.0) for unit in units]
    ax.bar([place - 0.2 for place in places], present, 0.4, label=f"partition at byte {started_at}")
    ax.bar([place + 0.2 for place in places], best, 0.4, label="best start")
    ax.set_xticks(places, [f"{unit['unit_bytes'] / 1024:g} KiB" for unit in units])
    ax.set_xlabel("unit")
    ax.set_ylabel("bytes written / bytes requested")
    ax.legend()
    return ax
