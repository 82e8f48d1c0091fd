"""Charts of claims as pages draw them: lines, marks, bars, distributions, heat maps, tables."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from papers.claims import MAPS, Chart, Claim
from papers.figures import Figures, WrongClaim, of_charts, quantile, quantity, short
from papers.scenarios import text_of

_BAR_ROOM = 0.8
"""How much of the room between two names bars take up."""
_BINS = 40
"""Bins of a histogram."""


class _Mark(NamedTuple):
    """A value with its series and its place on the horizontal axis."""

    group: str
    x: float
    x_name: str
    y: float


def charts(claim: Claim) -> list[dict[str, Any]]:
    """The charts of a claim with the values of its runs."""
    drawn = []
    for at, chart in enumerate(claim.charts, 1):
        title = claim.where if len(claim.charts) == 1 else f"{claim.where} ({at})"
        try:
            drawn.append(_drawn(chart) | {"title": title})
        except WrongClaim as error:
            raise WrongClaim(f"{claim.id}: chart {at}: {error}") from None
    return drawn


def _document(chart: Chart, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": chart.kind, "unit": "", "x_label": "", "caption": chart.caption, "log": chart.log,
             "lines": [], "names": [], "table": None}  # fmt: skip
    return plain | more


def _drawn(chart: Chart) -> dict[str, Any]:
    if isinstance(chart.y, str):
        if chart.y not in MAPS:
            raise WrongClaim(f"`{chart.y}` is no picture; there are {', '.join(MAPS)}")
        return _document(chart, maps=chart.run.maps(chart.y))
    y = chart.y(chart.run)
    y_unit, y_scale = of_charts(y.unit) if y.unit is not None else ("", 1.0)
    x_label, marks = _marks(chart, y)
    marks = [mark._replace(y=mark.y * y_scale) for mark in marks]
    of_y = _label(_readable(y), y_unit)
    groups = list(dict.fromkeys(mark.group for mark in marks))
    names = list(dict.fromkeys(mark.x_name for mark in marks)) if chart.kind in ("bars", "table", "heatmap") else []
    if chart.kind in ("cdf", "ccdf", "histogram"):
        lines = [_DISTRIBUTIONS[chart.kind](group, marks, chart.log) for group in groups]
        return _document(chart, unit="share", x_label=of_y, lines=lines)
    if chart.kind == "regions":
        lines = [_region(group, marks) for group in groups] + _printed(chart, groups, names)
        return _document(chart, unit=of_y, x_label=x_label, lines=lines)
    if chart.kind == "heatmap":
        maps = [_heatmap(chart, marks, groups, names, of_y)]
        return _document(chart, unit=of_y, x_label=x_label, maps=maps)
    table = _table(chart, marks, groups, names, of_y) if names else None
    if chart.kind == "table":
        return _document(chart, unit=of_y, x_label=x_label, table=table)
    lines = [_line(at, group, len(groups), marks, names) for at, group in enumerate(groups)]
    lines += _printed(chart, groups, names)
    return _document(chart, unit=of_y, x_label=x_label, lines=lines, names=names, table=table)


def _label(what: str, unit: str) -> str:
    return f"{what} ({unit})" if unit else what


def _readable(figures: Figures) -> str:
    """What figures are about: ``queue_delay_ms.p95`` is the queue delay p95."""
    name = figures.name
    for end in ("_ms_seen", "_ms", "_mbps"):
        name = name.replace(end, "")
    return name.replace(".", " ").replace("_", " ").strip()


def _marks(chart: Chart, y: Figures) -> tuple[str, list[_Mark]]:
    """The label of the horizontal axis, and the values."""
    if chart.x is None:
        group = _groups(chart, y.axes)
        return "", [_Mark(group(row.places), math.nan, "", row.value) for row in y.rows]
    if isinstance(chart.x, str):
        if chart.x not in y.axes:
            raise WrongClaim(f"{y.name} has no axis `{chart.x}`")
        at, group = y.axes.index(chart.x), _groups(chart, y.axes)
        return chart.x.replace("_", " "), [
            _Mark(group(row.places), _number(row.places[at]), row.places[at], row.value) for row in y.rows
        ]
    x = chart.x(chart.run)
    x_unit, x_scale = of_charts(x.unit) if x.unit is not None else ("", 1.0)
    axes, pairs = y.joined(x)
    group = _groups(chart, axes)
    marks = [_Mark(group(places), right.value * x_scale, "", left.value) for left, right, places in pairs]
    return _label(_readable(x), x_unit), marks


def _groups(chart: Chart, axes: tuple[str, ...]) -> Any:
    if chart.group is not None and chart.group not in axes:
        raise WrongClaim(f"there is no axis `{chart.group}`")
    at = None if chart.group is None else axes.index(chart.group)
    return lambda places: "" if at is None else places[at]


def _number(place: object) -> float:
    found = quantity(text_of(place))
    return math.nan if found is None else found[0]


def _bar_offset(at: int, groups: int) -> float:
    """How far from the middle of its place a bar stands."""
    return (at - (groups - 1) / 2) * _BAR_ROOM / groups


def _points(points: list[tuple[float, float]]) -> tuple[list[float], list[float | None]]:
    ascending = sorted((point for point in points if math.isfinite(point[0])), key=lambda point: point[0])
    return [x for x, _ in ascending], [y if math.isfinite(y) else None for _, y in ascending]


def _line(at: int, group: str, groups: int, marks: list[_Mark], names: list[str]) -> dict[str, Any]:
    own = [mark for mark in marks if mark.group == group]
    offset = _bar_offset(at, groups)
    x, y = _points([(names.index(mark.x_name) + offset if names else mark.x, mark.y) for mark in own])
    return {"name": group, "x": x, "y": y}


def _printed(chart: Chart, groups: list[str], names: list[str]) -> list[dict[str, Any]]:
    """What the paper prints, beside the series of the same name."""
    lines = []
    for at, group in enumerate(groups):
        places = {text_of(place): value for place, value in chart.original.get(group, {}).items()}
        offset = _bar_offset(at, len(groups))
        x, y = _points([(names.index(p) + offset if p in names else _number(p), value) for p, value in places.items()])
        if x:
            lines.append({"name": f"{group}, as the paper prints it", "x": x, "y": y, "look": at, "printed": True})
    return lines


def _ascending(group: str, marks: list[_Mark], value: str = "y") -> list[float]:
    values = [getattr(mark, value) for mark in marks if mark.group == group]
    return sorted(filter(math.isfinite, values))


def _below(group: str, marks: list[_Mark], log: str) -> dict[str, Any]:
    """The share of the values up to each."""
    values = _ascending(group, marks)
    return {"name": group, "x": values, "y": [(at + 1) / len(values) for at in range(len(values))]}


def _above(group: str, marks: list[_Mark], log: str) -> dict[str, Any]:
    below = _below(group, marks, log)
    # 0 has no place on a logarithmic axis.
    return below | {"y": [1 - share if share < 1 else None for share in below["y"]]}


def _histogram(group: str, marks: list[_Mark], log: str) -> dict[str, Any]:
    """The share of the values in each of equally wide bins, in the logarithm where the axis has that. It ends with 0
    at the end of the last bin."""
    is_log = "x" in log
    values = [math.log(v) if is_log else v for v in _ascending(group, marks) if v > 0 or not is_log]
    if not values:
        return {"name": group, "x": [], "y": []}
    least, width = values[0], max((values[-1] - values[0]) / _BINS, 2.2250738585072014e-308)
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - least) / width), _BINS - 1)] += 1
    edges = [least + width * at for at in range(_BINS + 1)]
    x = [math.exp(edge) if is_log else edge for edge in edges]
    return {"name": group, "x": x, "y": [count / len(values) for count in counts] + [0.0]}


_DISTRIBUTIONS = {"cdf": _below, "ccdf": _above, "histogram": _histogram}


def _region(group: str, marks: list[_Mark]) -> dict[str, Any]:
    """The medians of both fields, and the region from their 25th to their 75th percentiles."""
    x, y = _ascending(group, marks, "x"), _ascending(group, marks)
    if not x or not y:
        return {"name": group, "x": [], "y": []}
    spread = [quantile(x, 0.25), quantile(x, 0.75), quantile(y, 0.25), quantile(y, 0.75)]
    return {"name": group, "x": [quantile(x, 0.5)], "y": [quantile(y, 0.5)], "spread": [spread]}


def _heatmap(chart: Chart, marks: list[_Mark], groups: list[str], names: list[str], unit: str) -> dict[str, Any]:
    """A row for each series, a column for each place."""

    def axis(title: str, places: list[str]) -> dict[str, Any]:
        return {"title": title, "len": len(places), "labels": [[at + 0.5, name] for at, name in enumerate(places)],
                "lines": []}  # fmt: skip

    cells = [[groups.index(mark.group), names.index(mark.x_name), mark.y] for mark in marks]
    columns, rows = axis(str(chart.x or ""), names), axis(chart.group or "", groups)
    return {"title": "", "unit": unit, "columns": columns, "rows": rows, "cells": cells}


def _table(chart: Chart, marks: list[_Mark], groups: list[str], names: list[str], of_y: str) -> dict[str, Any]:
    """A row for each series, a column for each place; in brackets what the paper prints."""
    ours = {(mark.group, mark.x_name): mark.y for mark in reversed(marks)}

    def cell(group: str, name: str) -> str:
        shown = short(ours.get((group, name), math.nan))
        printed = {text_of(place): value for place, value in chart.original.get(group, {}).items()}
        return f"{shown} ({short(printed[name])})" if name in printed else shown

    header = [f"{chart.group or ''} by {chart.x if isinstance(chart.x, str) else ''}", *names]
    rows = [[group, *(cell(group, name) for name in names)] for group in groups]
    return {"title": of_y, "note": chart.caption, "header": header, "rows": rows}
