from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, final

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
        columns: str | Mapping[str, str] | None = None,
        *,
        name: str = "table",
    ) -> Histogram: ...
    def merge(self, other: Histogram) -> Histogram: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes, /) -> Histogram: ...
    def report(
        self, *, units: Sequence[int] | None = None, started_at: int = 0, best: bool = False
    ) -> dict[str, Any]: ...
    @property
    def requests(self) -> int: ...
    @property
    def volumes(self) -> list[str]: ...

def check(
    path: str | PathLike[str],
    /,
    *,
    assume: str | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> dict[str, Any]: ...
def check_all(
    paths: Sequence[str | PathLike[str]],
    /,
    *,
    assume: str | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> dict[str, Any]: ...
def check_each(
    paths: Sequence[str | PathLike[str]],
    /,
    *,
    assume: str | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> list[tuple[str, str, str]]: ...
def needed(names: Sequence[str], columns: str | Mapping[str, str] | None = None) -> list[str]: ...
def drive(name: str, /) -> dict[str, Any]: ...
def drives() -> list[dict[str, Any]]: ...
