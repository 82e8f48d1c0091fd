"""What a run leaves, as a document, and its values as figures along axes."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import cellpace as cp
from papers.figures import (
    NUMBER, PACKETS, RATE, SIZE, TIME, Figures, Row, Unit, WrongClaim, jain_index, mean, quantile, rank_correlation,
    short,
)  # fmt: skip

_TOGETHER_NS = 200_000
"""Packets that arrive within this time of another arrive together: a sender of 10 Mbit/s has more than a
millisecond between two."""
_BURST_GAP_NS = 1_000_000
"""A gap of this time ends a burst: packets of successive milliseconds, the time between two transmissions of LTE, are
bursts of their own."""
_WINDOW = 40.0
"""The window whose delay in the profile is followed, in packets: one that a flow has in good and bad times. The slope
at the end of the curve would not do, since points of large windows exist from good times only."""
_BEFORE_S = 5.0
"""The time before a look at the profile over which the channel's rate is taken."""
_PREDICTED_MS = [20, 100]
"""Widths of the windows in which rates are predicted."""
ANALYSES = ["trace", "predict", "profile", "radio", "arrivals"]
"""What is looked at besides the figures of runs, or in their place."""

Record = dict[str, Any]
"""The document of a run, as ``cellpace sim --json`` writes it, with what analyses add."""


def observed(text: str, seed: int, series: bool, analysis: str | None) -> Record:
    """Simulates a scenario, or looks at its trace alone."""
    if analysis in ("trace", "predict", "radio"):
        return _of_trace(text, seed, analysis)
    seen = cp.observe(
        text, seed=seed, series=series or analysis == "profile", arrivals=analysis == "arrivals",
        profiles=analysis == "profile",
    )  # fmt: skip
    record = dict(seen.figures)
    if analysis == "profile":
        record["profile"] = _profile(seen)
    if analysis == "arrivals":
        record["arrivals"] = _arrivals(seen, record["skip_s"])
    if not series:
        record.pop("series", None)
    throughputs = [flow["throughput_mbps"] for flow in record["per_flow"]]
    record["shares"] = jain_index(throughputs)
    record["spread"] = _spread(throughputs)
    if record["packets"] == 0:
        # Zeros would make the worst run look like the best.
        record["queue_delay_ms"] = record["one_way_delay_ms"] = None
    return record


def _spread(values: list[float]) -> float:
    """Standard deviation over mean."""
    if len(values) < 2 or not sum(values):
        return math.nan
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)) / middle


def _of_trace(text: str, seed: int, analysis: str) -> Record:
    scenario = tomllib.loads(text)
    if analysis == "radio":
        return {"radio": _radio(scenario["trace"], scenario["duration"], seed)}
    trace = cp.Trace.load(scenario["trace"], seed=seed)
    if analysis == "predict":
        return {"predict": _predictions(trace)}
    figures = trace.stats()
    return {"trace": figures | {"cv_100ms": figures["cv"]["100ms"]}}


def _predictions(trace: cp.Trace) -> dict[str, float | None]:
    """For each width the least error and the most of the variance explained of all predictors, and how much of it
    the line explains."""
    figures: dict[str, float | None] = {}
    for width, windows in zip(_PREDICTED_MS, trace.predict(_PREDICTED_MS), strict=True):
        found = windows["predictions"]
        figures[f"least_nrmse_{width}ms"] = min(one["nrmse"] for one in found)
        figures[f"most_r2_{width}ms"] = max(one["r2"] for one in found)
        figures[f"linear_r2_{width}ms"] = next((one["r2"] for one in found if one["predictor"] == "linear"), None)
    return figures


def _radio(trace: str, duration: str, seed: int) -> dict[str, float]:
    """Distribution of the SINR, shares of the modulations, and the largest rates of whole seconds: of all, of those
    with QPSK alone, and of those with nothing above 16QAM."""
    # A drive goes on past its own length.
    length = max(cp._native.trace_period_s(trace) or 0.0, cp._native.span_seconds(duration))
    drive = cp.drive(trace, duration=f"{length}s", seed=seed)
    sinr, bits = drive["sinr_db"], drive["bits_per_symbol"]
    seconds = len(sinr) // 100
    most = bits[: seconds * 100].reshape(seconds, 100).max(axis=1)
    mbps = drive["bytes"][: seconds * 100].reshape(seconds, 100).sum(axis=1) * 8 / 1e6

    def max_mbps(most_bits: int) -> float:
        return float(mbps[most <= most_bits].max()) if (most <= most_bits).any() else math.nan

    ascending = np.sort(sinr).tolist()
    return {
        "sinr_p5_db": quantile(ascending, 0.05),
        "sinr_p50_db": quantile(ascending, 0.5),
        "share_above_20db": float((sinr > 20).mean()),
        "share_10_to_20db": float(((sinr >= 10) & (sinr <= 20)).mean()),
        "share_qpsk": float((bits == 2).mean()),
        "share_16qam": float((bits == 4).mean()),
        "share_64qam": float((bits == 6).mean()),
        "max_mbps": max_mbps(6),
        "max_qpsk_mbps": max_mbps(2),
        "max_16qam_mbps": max_mbps(4),
    }


def _arrivals(seen: cp.Observed, skip_s: float) -> dict[str, float] | None:
    """The share of packets that arrive together with another, the mean number of packets of a burst, and the longest
    time without an arrival between two of them. Nothing of fewer than two."""
    at = seen.arrivals_ns
    at = at[at >= round(skip_s * 1e9)]
    gaps = np.diff(at)
    if not gaps.size:
        return None
    close = gaps <= _TOGETHER_NS
    together = np.concatenate([close, [False]]) | np.concatenate([[False], close])
    return {
        "together": float(together.sum()) / len(at),
        "burst_mean_packets": len(at) / (1 + int((gaps >= _BURST_GAP_NS).sum())),
        "longest_gap_ms": float(gaps.max()) / 1e6,
    }


def _profile(seen: cp.Observed) -> dict[str, float]:
    """Of the last profile the rank correlation of window and delay of its points, the least step of its curve, and
    the median distance of points from it in proportion; of all the rank correlation of the delay of 40 packets with
    the channel's rate of the five seconds before."""
    points, curve = (seen.profiles[-1].points, seen.profiles[-1].curve) if seen.profiles else ([], [])
    curve_at = [(_value_at(curve, window), delay) for window, delay in points]
    distances = sorted(abs(at - delay) / delay for at, delay in curve_at if at is not None)
    capacity, bin_s = seen.figures["series"]["capacity_mbps"], seen.figures["series"]["bin_s"]
    followed = [(look.at_s, _value_at(look.curve, _WINDOW)) for look in seen.profiles if look.at_s > _BEFORE_S]
    pairs = [(at, delay) for at, delay in followed if delay is not None]

    def rate_before(at: float) -> float:
        begin, end = (min(int(of / bin_s), len(capacity)) for of in (at - _BEFORE_S, at))
        return mean(capacity[begin:end])

    return {
        "correlation": rank_correlation(*_columns(points)),
        "least_step_ms": min((b - a for (_, a), (_, b) in zip(curve, curve[1:], strict=False)), default=math.inf),
        "distance": quantile(distances, 0.5) if distances else math.nan,
        "follows_rate": rank_correlation([rate_before(at) for at, _ in pairs], [delay for _, delay in pairs]),
    }


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _value_at(curve: list[tuple[float, float]], window: float) -> float | None:
    """The curve at a window, by straight lines; ``None`` beyond its ends."""
    for (x0, y0), (x1, y1) in zip([(math.nan, math.nan), *curve], curve, strict=False):
        if x1 < window:
            continue
        return y1 if x1 == window else None if math.isnan(x0) else y0 + (y1 - y0) * (window - x0) / (x1 - x0)
    return None


class Located(NamedTuple):
    """A record with its place on each axis of its run."""

    places: tuple[str, ...]
    record: Record


def unit_of(name: str) -> tuple[Unit, float]:
    """The unit of a field and what one of it is, by the end of the part of its name that has one:
    ``queue_delay_ms.p95`` is a time in ms."""
    units = {"ms": (TIME, 1e-3), "seen": (TIME, 1e-3), "mbps": (RATE, 1e6), "s": (TIME, 1.0), "bytes": (SIZE, 8.0),
             "packets": (PACKETS, 1.0)}  # fmt: skip
    for part in reversed(name.split(".")):
        head, _, end = part.rpartition("_")
        if head and end in units and (end != "seen" or head.endswith("_ms")):
            return units[end]
    return NUMBER, 1.0


_MISSING = object()


def field(records: list[Located], axes: list[str], name: str) -> Figures:
    """The values of a field of records: ``queue_delay_ms.p95``, ``flow.lost``, ``transfer.completion_ms``,
    ``series.throughput_mbps``, ``flow.series.throughput_mbps``; those of a table along an axis of theirs:
    ``window.packets``."""
    more, values = _kind(name)
    unit, scale = unit_of(name)
    rows = []
    is_there = False
    for places, record in records:
        for own, value, labels in values(record):
            is_there = is_there or value is not _MISSING
            number = float(value) if isinstance(value, int | float) else math.nan
            rows.append(Row(places + own, number * scale, labels))
    if not rows or not is_there:
        raise WrongClaim(f"no run has `{name}`")
    return Figures(unit, [*axes, *more], rows, name)


Values = Iterator[tuple[tuple[str, ...], Any, dict[str, str]]]
"""Places on axes of its own, the value, and by what else it can be selected."""


def _kind(name: str) -> tuple[list[str], Any]:
    """The axes that a field has beside those of its run, and what gives its values of a record."""
    head, _, rest = name.partition(".")
    if name.startswith("flow.series."):
        return ["flow", "time"], lambda record: _flow_series(record, name.removeprefix("flow.series."))
    if head == "flow":
        return ["flow"], lambda record: _flows(record, rest)
    if head == "transfer":
        return ["transfer"], lambda record: _transfers(record, rest)
    if head == "ping":
        return ["request"], lambda record: _pings(record, rest)
    if head == "series":
        return ["time"], lambda record: _series(record, rest)
    if head in ("window", "delay", "sample"):
        return [head], lambda record: _along(record, head, rest)
    return [], lambda record: [((), _at(record, name), {})]


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if document is None:
            return None
        if not isinstance(document, dict) or part not in document:
            return _MISSING
        document = document[part]
    return document


def _flows(record: Record, name: str) -> Values:
    for at, flow in enumerate(record["per_flow"]):
        yield (str(at),), _at(flow, name), _labels(flow)


def _transfers(record: Record, name: str) -> Values:
    complete = [one for one in record.get("transfers", []) if one["outcome"] == "complete"]
    for at, transfer in enumerate(complete):
        labels = _labels(record["per_flow"][transfer["flow"]])
        for label, key in (("handovers", "handovers"), ("cells", "cells"), ("sinr_db", "mean_sinr_db")):
            if transfer.get(key) is not None:
                labels[label] = _written(transfer[key])
        yield (str(at),), _at(transfer, name), labels


def _pings(record: Record, name: str) -> Values:
    """The RTTs of answered requests, as ``rtt_ms``, of all series one after the other."""
    known = [] if name != "rtt_ms" else [rtt for ping in record.get("pings", []) for rtt in ping["rtts_ms"]]
    for at, rtt in enumerate(known):
        if rtt is not None:
            yield (str(at),), rtt, {}


def _along(record: Record, axis: str, name: str) -> Values:
    of = record[axis]
    for place, value in zip(of["place"], of[name], strict=True):
        yield (place,), value, {}


def _series(record: Record, name: str) -> Values:
    series = record["series"]
    for at, value in enumerate(series[name]):
        yield (_second(series["bin_s"] * at),), value, {}


def _flow_series(record: Record, name: str) -> Values:
    series = record["series"]
    bin_s = series["bin_s"]
    listed = series.get(f"flow_{name}", series.get(name, []))
    if name == "busy_s":
        listed = [_busy(one, bin_s) for one in series["flow_throughput_mbps"]]
    for flow, values in enumerate(listed):
        labels = _labels(record["per_flow"][flow])
        for at, value in enumerate(values):
            yield (str(flow), _second(bin_s * at)), value, labels


def _busy(throughputs: list[float | None], bin_s: float) -> list[float]:
    """For each bin the seconds since the last one in which nothing left the link; 0 in such a bin."""
    busy, found = 0.0, []
    for throughput in throughputs:
        busy = busy + bin_s if (throughput or 0.0) > 0 else 0.0
        found.append(busy)
    return found


@lru_cache(maxsize=10_000)
def _second(seconds: float) -> str:
    return f"{short(seconds)}s"


def _labels(flow: dict[str, Any]) -> dict[str, str]:
    return {"cc": flow["cc"], "rtt": f"{_written(flow['rtt_ms'])}ms", "begin": f"{_written(flow['start_s'])}s"}


def _written(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
