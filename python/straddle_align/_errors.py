"""The exceptions of straddle_align."""

from __future__ import annotations


class Error(Exception):
    """The base class of all exceptions of straddle_align."""


class InputError(Error, ValueError):
    """An argument, a table or bytes that cannot be used. The message names the row or the byte."""


class TargetError(Error, OSError):
    """A disk, an image or a trace that cannot be opened or read."""

    def __init__(self, message: str, errno: int | None = None, filename: str | None = None) -> None:
        super().__init__(message)
        self.errno = errno
        self.filename = filename

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[TargetError], tuple[str, int | None, str | None]]:
        return type(self), (self.args[0], self.errno, self.filename)
