"""The effect of block traces on sectors and units, and audits of disks and images.

``Histogram`` counts the requests of tables and traces as ``straddle trace`` does, ``check`` and ``check_all``
audit disks and images as ``straddle check`` does, and ``drives`` lists the modelled drives.
``straddle_align.spark`` and ``straddle_align.ray`` do the same on a cluster, and ``straddle_align.plot`` draws charts.
"""

from straddle_align._errors import Error, InputError, TargetError
from straddle_align._straddle import Histogram, __version__, check, check_all, drive, drives
from straddle_align.reports import Report

__all__ = [
    "Error",
    "Histogram",
    "InputError",
    "Report",
    "TargetError",
    "__version__",
    "check",
    "check_all",
    "drive",
    "drives",
]
