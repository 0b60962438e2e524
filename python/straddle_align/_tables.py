"""Converts columns to Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from straddle_align._errors import InputError


def as_arrow(table: Any) -> Any:
    """Return columns as an Arrow table made by pyarrow or, if it is not installed, polars.

    >>> as_arrow({"offset": [1, 2]}).num_rows
    2
    """
    names = getattr(getattr(table, "dtype", None), "names", None)
    if names:
        # A structured array of NumPy.
        table = {name: table[name] for name in names}
    if not isinstance(table, Mapping):
        raise TypeError(f"{type(table).__name__} is not a table: {_hint(table)}")
    columns = dict(table)
    try:
        import pyarrow  # type: ignore
    except ModuleNotFoundError:
        pass
    else:
        try:
            return pyarrow.table(columns)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"these columns do not form a table: {error}") from error
    try:
        import polars
    except ModuleNotFoundError:
        raise TypeError("a dict of columns needs pyarrow or polars (pip install pyarrow)") from None
    try:
        return polars.DataFrame(columns)
    except (polars.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"these columns do not form a table: {error}") from error


def _hint(table: Any) -> str:
    if isinstance(table, (str, PathLike)):
        return "for a file, use Histogram.from_file"
    if isinstance(table, list):
        return "for a list of dicts, use pyarrow.Table.from_pylist"
    if type(table).__name__ == "LazyFrame":
        return "call its collect() first"
    return "it has neither __arrow_c_stream__ nor __arrow_c_array__, and is not a dict of columns"
