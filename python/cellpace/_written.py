"""Arguments in the written forms that the program reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from os import PathLike, fspath

from cellpace._native import CellpaceError

Quantity = str | timedelta
"""A quantity with its unit, e.g. ``"40ms"``; a time span may be a ``timedelta``."""


def written(name: str, value: object) -> str:
    """Returns a quantity, name or path as the program reads it."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, PathLike):
        return str(fspath(value))
    if isinstance(value, bool | int | float):
        raise CellpaceError(f"{name}: `{value}` needs a unit, in quotes (40ms, 12mbit, 2MB, 1%)")
    raise TypeError(f"{name}: a text such as '40ms' is needed, not {type(value).__name__}")


def optional(name: str, value: object) -> str | None:
    """Like ``written``, or ``None``."""
    return None if value is None else written(name, value)


def several(name: str, value: object) -> list[str]:
    """Returns one text or many as a list of texts."""
    if isinstance(value, Iterable) and not isinstance(value, str | PathLike):
        return [written(name, one) for one in value]
    return [written(name, value)]


def seeds_of(seeds: int | Iterable[int]) -> Sequence[int]:
    """Returns one seed or many as a list."""
    return [seeds] if isinstance(seeds, int) else list(seeds)
