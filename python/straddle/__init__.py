"""What block traces do to sectors and units, and audits of disks and images.

``Histogram`` counts the requests of Arrow tables as ``straddle trace`` does, ``check`` and ``check_all``
audit disks and images as ``straddle check`` does, and ``drives`` lists the modelled drives.
``straddle.spark`` and ``straddle.ray`` do the same on a cluster.
"""

from straddle._errors import Error, InputError, TargetError
from straddle._straddle import Histogram, __version__, check, check_all, drive, drives

__all__ = [
    "Error",
    "Histogram",
    "InputError",
    "TargetError",
    "__version__",
    "check",
    "check_all",
    "drive",
    "drives",
]
