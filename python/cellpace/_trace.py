"""Traces: when a link may deliver."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from cellpace import _native
from cellpace._report import write_text
from cellpace._table import Table, from_json
from cellpace._written import Quantity, optional, written


class Profile:
    """A stochastic model of a link, fitted to a trace."""

    def __init__(self, text: str) -> None:
        self.text = text
        """The profile in the form of its file."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file; ``trace="profile:FILE"`` then draws from it."""
        write_text(path, self.text)


class Trace:
    """Opportunities to send 1500 bytes each, over and over."""

    def __init__(self, native: _native.Trace) -> None:
        self._native = native

    @classmethod
    def load(
        cls, trace: str | PathLike[str], *, duration: Quantity | None = None, seed: int = 1
    ) -> Trace:
        """Loads a file in Mahimahi format, or draws ``duration`` of a profile or generated trace."""
        text = written("trace", trace)
        return cls(_native.Trace.load(text, optional("duration", duration), seed))

    @classmethod
    def from_times_ms(cls, times: Iterable[float], name: str = "own") -> Trace:
        """Makes a trace of the times of its opportunities, in ms from its start, ascending.

        Times are rounded up to whole milliseconds, as of ``cellpace trace make``; the last one is
        the length of the trace.
        """
        array = np.ceil(np.asarray(list(times), dtype=np.float64))
        if array.size and not (array.min() >= 0 and array.max() < 2**32):
            raise _native.CellpaceError("times: from 0 to 4294967295 ms")
        return cls(_native.Trace.from_times_ms(name, array.astype(np.uint32).tolist()))

    @classmethod
    def from_rates(
        cls, times_s: Iterable[float], rates_mbps: Iterable[float], name: str = "own"
    ) -> Trace:
        """Makes a trace of rates in Mbit/s from times in s on, ascending.

        A rate holds until the next time, the last one as long as is usual; times count from the first.
        """
        times, rates = (np.asarray(list(of), dtype=np.float64).tolist() for of in (times_s, rates_mbps))
        return cls(_native.Trace.from_rates(name, times, rates))

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        *,
        time: str | int | None = None,
        rate: str | int | None = None,
        unit: str | None = None,
        gap: str | None = None,
    ) -> Trace:
        """Reads a table of rates, as ``cellpace trace convert`` does.

        ``time`` and ``rate`` are columns by name or number from 1 on, ``unit`` is what the rates count, such as
        ``kbit/s`` or ``bytes``, and ``gap`` is ``hold`` or ``zero``. What is not given is guessed from the header, and a warning says what was guessed.
        """
        columns = [None if column is None else str(column) for column in (time, rate)]
        native, said = _native.Trace.from_csv(fspath(path), *columns, unit, gap)
        if said:
            warnings.warn(f"{fspath(path)}: {said}", stacklevel=2)
        return cls(native)

    @property
    def name(self) -> str:
        """What results call it."""
        return self._native.name

    @property
    def period_s(self) -> float:
        """Length in seconds before it repeats."""
        return self._native.period_s

    @property
    def mean_mbps(self) -> float:
        """Mean rate in Mbit/s."""
        return self._native.mean_mbps

    def __len__(self) -> int:
        """Number of opportunities."""
        return len(self._native)

    def __reduce__(self) -> tuple[Callable[[Iterable[float], str], Trace], tuple[Any, str]]:
        return type(self).from_times_ms, (self.times_ms(), self.name)

    def __repr__(self) -> str:
        return f"{self.name}: {self.period_s:g} s, {self.mean_mbps:.2f} Mbit/s"

    def times_ms(self) -> npt.NDArray[np.uint32]:
        """Returns the times of its opportunities, in ms."""
        return Table(self._native.times_ms())["time_ms"]

    def rates(self, bins: int = 300) -> Table:
        """Returns mean rates in at most ``bins`` bins of equal length."""
        return Table(self._native.rates(bins))

    def stats(self) -> dict[str, Any]:
        """Returns the figures that ``cellpace trace show --json`` writes."""
        stats: dict[str, Any] = from_json(self._native.stats())
        return stats

    def predict(self, widths_ms: Iterable[int] = (20, 100)) -> list[dict[str, Any]]:
        """Returns how well its rate is predicted in windows of these widths, as ``cellpace trace predict --json``
        writes it: of each width ``predictions`` has ``nrmse`` and ``r2`` of every predictor."""
        windows: list[dict[str, Any]] = from_json(self._native.predict(list(widths_ms)))["traces"][0]["windows"]
        return windows

    def scaled(self, factor: float) -> Trace:
        """Returns the same link at ``factor`` times its rate."""
        return Trace(self._native.scaled(factor))

    def fit(self) -> Profile:
        """Fits a profile, from which other traces like this one can be drawn.

        The trace needs at least 20 s with service, better several minutes.
        """
        return Profile(self._native.fit())

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it in Mahimahi format."""
        self._native.save(fspath(path))


def drive(radio: str, *, duration: Quantity | None = None, seed: int = 1) -> Table:
    """Draws a drive through a radio layer, e.g. ``"radio:highway-700"``.

    Returns a row for each 10 ms: ``position_m``, ``sinr_db``, ``bits_per_symbol`` (2 with QPSK, 4 with 16QAM, 6 with
    64QAM, 0 while nothing is sent), ``bytes`` that were delivered, and other ``users`` of the cell.
    """
    return Table(_native.drive(radio, optional("duration", duration), seed))


TraceLike = str | PathLike[str] | Trace
"""A trace: a profile's name, a file, a generated one such as ``"constant:12mbit"``, or an object."""


def native_trace(trace: TraceLike) -> str | _native.Trace:
    """Returns a trace for the native half."""
    return trace._native if isinstance(trace, Trace) else written("trace", trace)


def native_traces(traces: TraceLike | Iterable[TraceLike]) -> list[str | _native.Trace]:
    """Returns one trace or many for the native half."""
    if isinstance(traces, str | PathLike | Trace):
        return [native_trace(traces)]
    found = [native_trace(trace) for trace in traces]
    if not found:
        raise _native.CellpaceError("trace: at least one trace is needed")
    return found
