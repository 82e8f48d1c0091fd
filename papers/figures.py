"""Figures of runs along named axes: what checks and charts calculate with.

``run["queue_delay_ms.p95"].at(cc="cubic").mean("start")`` selects and reduces; two of them with different axes
are joined where their places are the same. Values are in seconds, bits and packets, so that ``40 * ms`` can be
compared with them, and a time with a rate cannot.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

import cellpace as cp
from papers.trace_sets import SETS

Unit = tuple[int, int, int]
"""Powers of seconds, bits and packets."""
NUMBER, TIME, RATE, SIZE, PACKETS = (0, 0, 0), (1, 0, 0), (-1, 1, 0), (0, 1, 0), (0, 0, 1)
_SUFFIXES = {
    "": (NUMBER, 1.0), "%": (NUMBER, 0.01), "us": (TIME, 1e-6), "ms": (TIME, 1e-3), "s": (TIME, 1.0),
    "min": (TIME, 60.0), "kbit": (RATE, 1e3), "mbit": (RATE, 1e6), "gbit": (RATE, 1e9), "B": (SIZE, 8.0),
    "kB": (SIZE, 8e3), "MB": (SIZE, 8e6), "pkts": (PACKETS, 1.0),
}  # fmt: skip
_SHOWN = {TIME: ("ms", 1e3), RATE: ("Mbit/s", 1e-6), SIZE: ("kB", 1 / 8e3), PACKETS: ("packets", 1.0)}
_JOINED = 300_000
"""Rows of two tables joined: tables with different axes multiply."""


class WrongClaim(ValueError):
    """A claim asks for what makes no sense. The text says what."""


def quantity(text: str) -> tuple[float, Unit] | None:
    """Reads a number with its unit, such as ``10ms``; ``None`` if it is none."""
    found = re.fullmatch(r"\s*(-?)\s*([0-9.]+)([a-zA-Z%]*)\s*", text)
    if not found or found[3] not in _SUFFIXES or found[2].count(".") > 1 or found[2] == ".":
        return None
    unit, scale = _SUFFIXES[found[3]]
    return float(found[1] + found[2]) * scale, unit


def short(value: float) -> str:
    """Three significant digits; a dash for what is no number."""
    return cp._native.short(value)


def show(value: float, unit: Unit) -> str:
    """A value in the unit in which this field writes it."""
    if unit == TIME and abs(value) >= 10:
        return f"{short(value)} s"
    if unit == NUMBER:
        return short(value)
    if unit not in _SHOWN:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa}e{int(exponent)} {_what(unit)}"
    name, scale = _SHOWN[unit]
    return f"{short(value * scale)} {name}"


def of_charts(unit: Unit) -> tuple[str, float]:
    """The unit of charts, and how many of it one of ours is."""
    return _SHOWN.get(unit, ("", 1.0))


def _what(unit: Unit) -> str:
    names = {NUMBER: "a number", TIME: "a time", RATE: "a rate", SIZE: "an amount of data", PACKETS: "packets"}
    return names.get(unit, "s^{} bit^{} packet^{}".format(*unit))


@dataclass(frozen=True)
class Margin:
    """The two sides of the comparison that decided a truth, and where that was."""

    value: float
    bound: float
    unit: Unit
    place: tuple[str, ...] = ()

    def distance(self) -> float:
        """How far the sides are apart, in proportion."""
        return abs(self.value - self.bound) / max(abs(self.bound), 2.2250738585072014e-308)


@dataclass(frozen=True)
class Row:
    """A value, where it is on each axis, by what else it can be selected, and what decided it."""

    places: tuple[str, ...]
    value: float
    labels: dict[str, str] = field(default_factory=dict)
    margin: Margin | None = None

    def rank(self) -> tuple[float, float]:
        """What decides which of several truths decides: whether it is so, then how far its sides are apart."""
        return self.value, math.inf if self.margin is None else self.margin.distance()


class Figures:
    """Values of one unit along axes; ``unit`` is ``None`` where they are true (1) or false (0)."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, unit: Unit | None, axes: Iterable[str], rows: list[Row], name: str = "") -> None:
        self.unit, self.axes, self.rows, self.name = unit, tuple(axes), rows, name

    # What is selected.

    def at(self, **wanted: object) -> Figures:
        """Keeps what is at a place of an axis, at one of several, or within ``"10s..20s"``."""
        return self._selected(wanted, lambda is_meant: is_meant)

    def without(self, **unwanted: object) -> Figures:
        """Keeps all others."""
        return self._selected(unwanted, lambda is_meant: not is_meant)

    def _selected(self, wanted: dict[str, object], keeps: Callable[[bool], bool]) -> Figures:
        figures = self
        for axis, places in wanted.items():
            names = [str(place) for place in (places if isinstance(places, list | tuple) else [places])]
            is_wanted = partial(_are_meant, names, keeps)
            figures = figures._kept(axis, is_wanted)
            if not figures.rows:
                raise WrongClaim(f"{axis}={'|'.join(names)} selects nothing of {self.name}")
            is_one = len(names) == 1 and ".." not in names[0] and names[0] not in SETS
            if is_one and keeps(True) and axis in figures.axes:
                figures = figures._dropped(figures.axes.index(axis))
        return figures

    def _kept(self, axis: str, is_wanted: Callable[[str], bool]) -> Figures:
        if axis in self.axes:
            at = self.axes.index(axis)
            return self._with([row for row in self.rows if is_wanted(row.places[at])])
        return self._with([row for row in self.rows if axis in row.labels and is_wanted(row.labels[axis])])

    def _dropped(self, at: int) -> Figures:
        axes = self.axes[:at] + self.axes[at + 1 :]
        rows = [replace(row, places=row.places[:at] + row.places[at + 1 :]) for row in self.rows]
        return Figures(self.unit, axes, rows, self.name)

    def _with(self, rows: list[Row]) -> Figures:
        return Figures(self.unit, self.axes, rows, self.name)

    def where(self, is_so: Figures) -> Figures:
        """Keeps the values at places at which that is true."""
        axes, pairs = self.joined(_truth(is_so))
        rows = [Row(places, row.value, row.labels) for row, is_true, places in pairs if is_true.value == 1]
        if not rows:
            raise WrongClaim(f"where(...): nothing of {self.name} is so")
        return Figures(self.unit, axes, rows, self.name)

    # What is calculated.

    def __add__(self, other: Any) -> Figures:
        return self._binary(other, operator.add, _same)

    def __radd__(self, other: Any) -> Figures:
        return scalar(other) + self

    def __sub__(self, other: Any) -> Figures:
        return self._binary(other, operator.sub, _same)

    def __rsub__(self, other: Any) -> Figures:
        return scalar(other) - self

    def __mul__(self, other: Any) -> Figures:
        return self._binary(other, operator.mul, lambda a, b: _added(a, b, 1))

    def __rmul__(self, other: Any) -> Figures:
        return scalar(other) * self

    def __truediv__(self, other: Any) -> Figures:
        return self._binary(other, lambda a, b: a / b if b else math.nan, lambda a, b: _added(a, b, -1))

    def __rtruediv__(self, other: Any) -> Figures:
        return scalar(other) / self

    def __neg__(self) -> Figures:
        return self._with([replace(row, value=-row.value) for row in self.rows])

    def __abs__(self) -> Figures:
        return self._with([replace(row, value=abs(row.value)) for row in self.rows])

    def __le__(self, other: Any) -> Figures:
        return self._compared(other, operator.le)

    def __ge__(self, other: Any) -> Figures:
        return self._compared(other, operator.ge)

    def __lt__(self, other: Any) -> Figures:
        return self._compared(other, operator.lt)

    def __gt__(self, other: Any) -> Figures:
        return self._compared(other, operator.gt)

    def __eq__(self, other: Any) -> Figures:  # type: ignore[override]
        return self._compared(other, _equal)

    def __ne__(self, other: Any) -> Figures:  # type: ignore[override]
        return self._compared(other, lambda a, b: not _equal(a, b))

    def __and__(self, other: Figures) -> Figures:
        return self._both(other, _least)

    def __or__(self, other: Figures) -> Figures:
        return self._both(other, _most)

    def __invert__(self) -> Figures:
        return _truth(self)._with([replace(row, value=1 - row.value) for row in self.rows])

    def __bool__(self) -> bool:
        raise WrongClaim("write & and | between comparisons, and .all() or .any() behind them")

    def _binary(
        self,
        other: Any,
        calculate: Callable[[float, float], float],
        unit: Callable[[Unit, Unit], Unit],
    ) -> Figures:
        other = scalar(other)
        of_result = unit(_quantity(self), _quantity(other))
        axes, pairs = self.joined(other)
        rows = [Row(at, calculate(a.value, b.value), b.labels or a.labels) for a, b, at in pairs]
        return Figures(of_result, axes, rows, other.name or self.name)

    def _compared(self, other: Any, compare: Callable[[float, float], bool]) -> Figures:
        other = scalar(other)
        unit = _same(_quantity(self), _quantity(other))
        axes, pairs = self.joined(other)

        def row(a: Row, b: Row, places: tuple[str, ...]) -> Row:
            # What is no number compares with nothing; so a division by zero is none.
            is_so = math.isfinite(a.value) and math.isfinite(b.value) and compare(a.value, b.value)
            return Row(places, float(is_so), b.labels or a.labels, Margin(a.value, b.value, unit))

        return Figures(None, axes, [row(*pair) for pair in pairs], other.name or self.name)

    def _both(self, other: Figures, decides: Callable[[list[Row]], Row]) -> Figures:
        axes, pairs = _truth(self).joined(_truth(other))
        rows = [replace(decides([a, b]), places=places, labels=b.labels or a.labels) for a, b, places in pairs]
        return Figures(None, axes, rows, other.name or self.name)

    def joined(self, other: Figures) -> tuple[tuple[str, ...], list[tuple[Row, Row, tuple[str, ...]]]]:
        """The pairs of rows at the same place on the axes of both, and the axes of the result."""
        shared = [(self.axes.index(name), at) for at, name in enumerate(other.axes) if name in self.axes]
        own = [at for at, name in enumerate(other.axes) if name not in self.axes]
        by_place: dict[tuple[str, ...], list[Row]] = {}
        for row in other.rows:
            by_place.setdefault(tuple(row.places[at] for _, at in shared), []).append(row)
        most = max(_JOINED, len(self.rows), len(other.rows))
        pairs: list[tuple[Row, Row, tuple[str, ...]]] = []
        for row in self.rows:
            for partner in by_place.get(tuple(row.places[at] for at, _ in shared), ()):
                if len(pairs) == most:
                    raise WrongClaim(f"the two sides make more than {most} values")
                pairs.append((row, partner, row.places + tuple(partner.places[at] for at in own)))
        if not pairs:
            raise WrongClaim("the two sides have no place in common")
        return self.axes + tuple(other.axes[at] for at in own), pairs

    # What makes one value of many: over the axes that are named, or over all.

    def mean(self, *over: str) -> Figures:
        """The mean."""
        return self._reduced(over, mean)

    def sum(self, *over: str) -> Figures:
        """The sum."""
        return self._reduced(over, _sum)

    def min(self, *over: str) -> Figures:
        """The smallest."""
        return self._reduced(over, min)

    def max(self, *over: str) -> Figures:
        """The largest."""
        return self._reduced(over, max)

    def median(self, *over: str) -> Figures:
        """The median."""
        return self._reduced(over, lambda x: quantile(sorted(x), 0.5))

    def percentile(self, percent: float, *over: str) -> Figures:
        """A percentile, linear between the values beside it."""
        return self._reduced(over, lambda x: quantile(sorted(x), percent / 100))

    def deviation(self, *over: str) -> Figures:
        """The standard deviation of a sample."""
        return self._reduced(over, _deviation)

    def jain(self, *over: str) -> Figures:
        """Jain's index: 1 if all have the same, 1/n if one has all."""
        return self._reduced(over, jain_index, NUMBER)

    def count(self, *over: str) -> Figures:
        """How often it is true."""
        return _truth(self)._reduced(over, _sum, NUMBER)

    def share(self, *over: str) -> Figures:
        """How often it is true, of all."""
        return _truth(self)._reduced(over, lambda x: _sum(x) / len(x), NUMBER)

    def all(self, *over: str) -> Figures:
        """Whether it is true everywhere."""
        return _truth(self)._reduced(over, min, None, _least)

    def any(self, *over: str) -> Figures:
        """Whether it is true anywhere."""
        return _truth(self)._reduced(over, max, None, _most)

    def _reduced(
        self,
        over: tuple[str, ...],
        calculate: Callable[[list[float]], float],
        unit: Unit | None | str = "its own",
        decides: Callable[[list[Row]], Row] | None = None,
    ) -> Figures:
        if unknown := [axis for axis in over if axis not in self.axes]:
            raise WrongClaim(f"{self.name}: no axis `{unknown[0]}`; there are {', '.join(self.axes)}")
        if unit == "its own":
            unit = _quantity(self)
        gone = [at for at, axis in enumerate(self.axes) if not over or axis in over]
        kept = [at for at in range(len(self.axes)) if at not in gone]
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row.places[at] for at in kept), []).append(row)

        def result(places: tuple[str, ...], rows: list[Row]) -> Row:
            values = [row.value for row in rows]
            # A value that is none makes none.
            value = math.nan if any(map(math.isnan, values)) else calculate(values)
            margin = None
            if decides is not None and (best := decides(rows)).margin is not None:
                beyond = tuple(best.places[at] for at in gone)
                margin = replace(best.margin, place=best.margin.place + beyond)
            return Row(places, value, {}, margin)

        rows = [result(places, rows) for places, rows in groups.items()]
        return Figures(unit, [self.axes[at] for at in kept], rows, self.name)  # type: ignore[arg-type]


def _least(rows: list[Row]) -> Row:
    """What decides whether all are so."""
    return reduce(lambda best, row: best if best.rank() <= row.rank() else row, rows)


def _most(rows: list[Row]) -> Row:
    """What decides whether any is so."""
    return reduce(lambda best, row: best if best.rank() >= row.rank() else row, rows)


def scalar(value: Any) -> Figures:
    """A number as a value without an axis."""
    return value if isinstance(value, Figures) else Figures(NUMBER, (), [Row((), float(value))])


def listed(*values: Any) -> Figures:
    """Single values in a row, on an axis of their own."""
    single = [scalar(value) for value in values]
    if any(one.axes or one.unit != single[0].unit for one in single):
        raise WrongClaim("a list has single values of one unit")
    return Figures(single[0].unit, ["list"], [Row((str(at),), one.rows[0].value) for at, one in enumerate(single)])


def _of(suffix: str) -> Figures:
    unit, scale = _SUFFIXES[suffix]
    return Figures(unit, (), [Row((), scale)])


us, ms, s, minutes = _of("us"), _of("ms"), _of("s"), _of("min")
kbit, mbit, gbit = _of("kbit"), _of("mbit"), _of("gbit")
byte, kB, MB, pkts = _of("B"), _of("kB"), _of("MB"), _of("pkts")


def spearman(x: Figures, y: Figures, *over: str) -> Figures:
    """Spearman's rank correlation."""
    return _paired(x, y, over, rank_correlation, NUMBER)


def overlap(x: Figures, y: Figures, *over: str) -> Figures:
    """Whether the 95 % intervals of the two means overlap."""

    def do_overlap(a: list[float], b: list[float]) -> float:
        (mean_a, half_a), (mean_b, half_b) = interval(a), interval(b)
        return float(abs(mean_a - mean_b) <= half_a + half_b)

    _same(_quantity(x), _quantity(y))
    return _paired(x, y, over, do_overlap, None)


def _paired(
    x: Figures,
    y: Figures,
    over: tuple[str, ...],
    calculate: Callable[[list[float], list[float]], float],
    unit: Unit | None,
) -> Figures:
    axes, pairs = x.joined(y)
    kept = [at for at, axis in enumerate(axes) if over and axis not in over]
    groups: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
    for a, b, places in pairs:
        group = groups.setdefault(tuple(places[at] for at in kept), ([], []))
        group[0].append(a.value)
        group[1].append(b.value)
    rows = [
        Row(places, math.nan if any(map(math.isnan, a + b)) else calculate(a, b)) for places, (a, b) in groups.items()
    ]
    return Figures(unit, [axes[at] for at in kept], rows, y.name)


def interval(samples: list[float]) -> tuple[float, float]:
    """The mean and the half width of its 95 % interval (Student's t); 0 for a single sample."""
    return cp._native.interval(samples)


def quantile(ascending: list[float], level: float) -> float:
    """The quantile of ascending values, linear between them; 0 of none."""
    if not ascending:
        return 0.0
    rank = level * (len(ascending) - 1)
    below, above = ascending[int(rank)], ascending[min(math.ceil(rank), len(ascending) - 1)]
    return below + (rank - math.floor(rank)) * (above - below)


def _sum(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def _deviation(x: list[float]) -> float:
    if len(x) < 2:
        return math.nan
    mean = _sum(x) / len(x)
    return math.sqrt(_sum((value - mean) ** 2 for value in x) / (len(x) - 1))


def jain_index(values: list[float]) -> float:
    """Jain's index: 1 if all have the same or none has anything, 1/n if one has all."""
    squares = _sum(value * value for value in values)
    return _sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def mean(values: list[float]) -> float:
    """The mean; not a number of none."""
    return _sum(values) / len(values) if values else math.nan


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's correlation; not a number where one side does not vary."""
    return _correlation(_ranks(x), _ranks(y)) if x else math.nan


def _ranks(values: list[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    ascending = np.sort(np.array(values))
    below, up_to = (np.searchsorted(ascending, values, side) for side in ("left", "right"))
    ranks: list[float] = ((below + 1 + up_to) / 2).tolist()
    return ranks


def _correlation(x: list[float], y: list[float]) -> float:
    mean_x, mean_y = _sum(x) / len(x), _sum(y) / len(y)
    products = _sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    squares = _sum((a - mean_x) ** 2 for a in x) * _sum((b - mean_y) ** 2 for b in y)
    return products / math.sqrt(squares) if squares else math.nan


def _are_meant(wanted: list[str], keeps: Callable[[bool], bool], place: str) -> bool:
    return keeps(any(_is_meant(name, place) for name in wanted))


def _is_meant(wanted: str, place: str) -> bool:
    if wanted == place:
        return True
    if wanted in SETS:
        return place in SETS[wanted]
    here = quantity(place)
    if here is None:
        return False
    ends = [quantity(text) for text in wanted.split("..", 1)]
    if any(end is None or end[1] != here[1] for end in ends):
        return False
    values = [end[0] for end in ends if end is not None]
    return values[0] <= here[0] < values[1] if len(values) == 2 else values[0] == here[0]


def _equal(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(abs(b), 1.0)


def _quantity(figures: Figures) -> Unit:
    if figures.unit is None:
        raise WrongClaim("a comparison is no quantity")
    return figures.unit


def _truth(figures: Figures) -> Figures:
    if figures.unit is not None:
        raise WrongClaim(f"{_what(figures.unit)} is neither true nor false")
    return figures


def _same(left: Unit, right: Unit) -> Unit:
    if left != right:
        raise WrongClaim(f"units do not fit: {_what(left)} and {_what(right)}")
    return left


def _added(left: Unit, right: Unit, sign: int) -> Unit:
    seconds, bits, packets = (a + sign * b for a, b in zip(left, right, strict=True))
    return seconds, bits, packets
