"""Arguments in the written forms that the program reads."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from os import PathLike, fspath
from typing import SupportsIndex, TypeVar

from cellpace._native import CellpaceError

_MAX_JOBS = 1024
_MAX_SEED = 2**64 - 1
_MAX_SEEDS = 1_000_000

_Wish = TypeVar("_Wish")
_Answer = TypeVar("_Answer")

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


Seeds = SupportsIndex | str | Iterable[SupportsIndex]
"""One seed, several, or a range as text: ``"1..5"`` is 1 to 5, as in the plan of a sweep."""


def seeds_of(seeds: Seeds) -> list[int]:
    """Returns one seed or many as a list."""
    if isinstance(seeds, str):
        return list(_range(seeds))
    if not isinstance(seeds, Iterable):
        return [_seed(seeds)]
    found = [_seed(one) for one in seeds]
    if not found:
        raise CellpaceError("seeds: at least one seed is needed")
    return found


def _seed(value: object) -> int:
    try:
        seed = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"seeds: `{value!r}` is no whole number") from None
    if isinstance(value, bool) or not 0 <= seed <= _MAX_SEED:
        raise CellpaceError(f"seeds: `{value!r}` is no whole number from 0 to 2^64 - 1")
    return seed


def _range(text: str) -> range:
    ends = re.fullmatch(r"\s*(\d+)\s*\.\.\s*(\d+)\s*", text)
    if ends is None:
        raise CellpaceError(f'seeds: `{text}` is no range such as "1..5"')
    seeds = range(_seed(int(ends[1])), _seed(int(ends[2])) + 1)
    if not 0 < len(seeds) <= _MAX_SEEDS:
        why = "is empty" if not seeds else f"has more than {_MAX_SEEDS} seeds"
        raise CellpaceError(f"seeds: the range `{text}` {why}")
    return seeds


def jobs_of(jobs: int | None) -> int | None:
    """Returns how many runs there are at the same time, or ``None``."""
    if jobs is None:
        return None
    if isinstance(jobs, bool) or not hasattr(jobs, "__index__"):
        raise TypeError(f"jobs: a whole number or None is needed, not {jobs!r}")
    if not 1 <= operator.index(jobs) <= _MAX_JOBS:
        raise CellpaceError(f"jobs: `{jobs}`; allowed: 1 to {_MAX_JOBS}, or None: one per core")
    return operator.index(jobs)


def asked(function: Callable[[_Wish], _Answer], wish: _Wish) -> _Answer:
    """Calls the native half. Where an argument has a wrong type, the error names the argument."""
    try:
        return function(wish)
    except TypeError as error:
        field = re.fullmatch(r"failed to extract field \w+\.(\w+)", str(error))
        if field is None:
            raise
        raise TypeError(f"{field[1]}: {error.__cause__ or 'is of a wrong type'}") from None
