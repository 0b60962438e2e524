from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, final

from straddle_align.reports import Report

if TYPE_CHECKING:
    from pyarrow import RecordBatch as _RecordBatch  # type: ignore

__all__ = ["Histogram", "__version__", "check", "check_all", "check_each", "drive", "drives", "needed"]

__version__: str

class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _Structured(Protocol):
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, name: Any, /) -> Any: ...

@final
class Histogram:
    def __new__(cls) -> Histogram: ...
    def update(
        self,
        table: _Stream | _Array | Mapping[str, Any] | _Structured,
        columns: str | dict[str, str] | None = None,
        *,
        name: str = "table",
    ) -> Histogram: ...
    @staticmethod
    def from_file(
        path: str | PathLike[str], columns: str | dict[str, str] | None = None, *, format: str | None = None
    ) -> Histogram: ...
    def merge(self, other: Histogram) -> Histogram: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes, /) -> Histogram: ...
    def to_arrow(self) -> _RecordBatch: ...
    def report(
        self, *, units: Sequence[int] | None = None, started_at: int = 0, best: bool = False
    ) -> Report: ...
    @property
    def requests(self) -> int: ...
    @property
    def volumes(self) -> list[str]: ...
    def __add__(self, other: Histogram, /) -> Histogram: ...
    def __radd__(self, other: Histogram, /) -> Histogram: ...

def check(
    path: str | PathLike[str],
    /,
    *,
    assume: str | None = None,
    only: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    allow_backing: Sequence[str | PathLike[str]] = (),
) -> dict[str, Any]: ...
def check_all(
    paths: Sequence[str | PathLike[str]],
    /,
    *,
    assume: str | None = None,
    only: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    allow_backing: Sequence[str | PathLike[str]] = (),
) -> dict[str, Any]: ...
def check_each(
    paths: Sequence[str | PathLike[str]],
    /,
    *,
    assume: str | None = None,
    only: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    allow_backing: Sequence[str | PathLike[str]] = (),
) -> list[tuple[str, str, str]]: ...
def needed(names: Sequence[str], columns: str | dict[str, str] | None = None) -> list[str]: ...
def drive(name: str, /) -> dict[str, Any]: ...
def drives() -> list[dict[str, Any]]: ...
