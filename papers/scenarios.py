"""Runs to scenarios: every combination of places on the axes, with each start in the trace and each seed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import cellpace as cp
from papers.figures import WrongClaim
from papers.trace_sets import SETS
from papers.traces import Traces, is_recorded, period_s, quoted

_RED = "red:min=3mbit,max=9mbit,p={},gentle=false"
_BLOCKS = {
    "CELL": {"rtt": "40ms", "queue": "droptail:2MB", "duration": "120s", "skip": "2s"},
    "OPNET": {"rtt": "40ms", "queue": _RED.format("0.1%"), "duration": "120s", "skip": "2s"},
    "OPNET-10": {"rtt": "40ms", "queue": _RED.format("10%"), "duration": "120s", "skip": "2s"},
}
"""Conditions that many claims share."""
_FIELDS = ["trace", "uplink", "queue", "rtt", "loss", "acks", "duration", "skip"]
"""What a scenario has once."""
_LISTED = ["trace", "uplink", "cc", "flows", "queue", "rtt", "loss", "acks", "duration", "skip", "spacing", "train"]
_ALWAYS_AXES = ["trace", "uplink", "cc", "train"]
ASKED = [
    *_LISTED, "block", "starts_within", "after_last_start", "path", "flow", "scenario", "recording", "sweep",
    "starts", "seeds", "analysis", "series",
]  # fmt: skip
"""What a run may ask for."""
_MS = 1_000_000
"""Nanoseconds."""


class Cell(NamedTuple):
    """One simulation: where it is on the axes of its run, and its scenario."""

    places: tuple[str, ...]
    text: str
    seed: int


def text_of(value: object) -> str:
    """A place as it is written: 0.5, and 2 for 2.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def axes_of(asked: dict[str, Any]) -> dict[str, list[str]]:
    """The axes of a run but for start and seed, with their places: trace and controller, and whatever is a list."""
    axes = {}
    for name in _LISTED:
        if name in asked and (name in _ALWAYS_AXES or isinstance(asked[name], list)):
            axes[name] = _places(name, asked[name])
    for name in sorted(asked.get("sweep", {})):
        axes[name] = _places(name, asked["sweep"][name])
    return axes


def _places(name: str, value: Any) -> list[str]:
    texts = [text_of(one) for one in (value if isinstance(value, list) else [value])]
    if name in ("trace", "uplink"):
        texts = [member for text in texts for member in SETS.get(text, [text])]
    if len(set(texts)) < len(texts):
        raise WrongClaim(f"{name}: a place is there twice")
    return texts


def seeds_of(asked: dict[str, Any], depth: str) -> list[int]:
    """The seeds of a run."""
    seeds: list[int] = asked.get("seeds", [1])
    if depth == "quick":
        return seeds[:1]
    return list(range(1, max(5, len(seeds)) + 1)) if depth == "full" and len(seeds) > 1 else seeds


def starts_ms(asked: dict[str, Any], depth: str, period: float | None) -> list[int]:
    """Where in a trace of this length the runs begin."""
    starts = asked.get("starts")
    if starts is None:
        return [0]
    if isinstance(starts, list):
        times = [_ns(text) // _MS for text in starts]
        return times[:1] if depth == "quick" else times
    number = {"quick": 1, "as written": starts, "full": max(starts, 10)}[depth]
    if period is None:
        return [0]
    length = round(period * 1e9)
    duration = _value(asked, "duration")
    room = max(0, length - _ns(duration)) if duration is not None else 0
    # Where the run is about as long as the trace it begins anywhere: the trace repeats.
    step = room // (number - 1) if room >= length // 2 and number > 1 else length // max(number, 1)
    return [step * at // _MS for at in range(number)]


def cells_of(asked: dict[str, Any], depth: str, traces: Traces) -> Iterator[Cell]:
    """The simulations of a run."""
    unknown = [name for name in asked if name not in ASKED]
    if unknown:
        raise WrongClaim(f"unknown field `{unknown[0]}`; there are {', '.join(ASKED)}")
    if "scenario" not in asked and not ("trace" in asked and "cc" in asked):
        raise WrongClaim("a run has `trace` and `cc`, or `scenario`, or `train`, or `recording`")
    axes = axes_of(asked)
    for combination in itertools.product(*axes.values()):
        places = dict(zip(axes, combination, strict=True))
        period = period_s(traces.written(places["trace"])) if "trace" in places else None
        for start in starts_ms(asked, depth, period):
            for seed in seeds_of(asked, depth):
                text = traces.in_scenario(scenario_text(asked, places, seed))
                # Before all tables of the scenario.
                text = f'from = "{start}ms"\n{text}' if start else text
                yield Cell((*combination, f"{start}ms", str(seed)), text, seed)


def scenario_text(asked: dict[str, Any], places: dict[str, str], seed: int) -> str:
    """The scenario at these places as TOML, with the names of traces that claims write."""
    if "scenario" in asked:
        return _filled(asked["scenario"], places)

    def at(name: str) -> str | None:
        text = places.get(name) or _value(asked, name)
        return None if text is None else _filled(text, places)

    starts = _flow_starts(int(at("flows") or 1), at("spacing"), asked.get("starts_within"), seed)
    lines = []
    for name in _FIELDS:
        if (value := at(name)) is None:
            continue
        if asked.get("after_last_start") and name in ("duration", "skip"):
            value = f"{(_ns(value) + starts[-1]) // _MS}ms"
        lines.append(f"{name} = {json.dumps(value)}")
    lines.append(f"bin = {json.dumps(asked.get('series', '1s'))}")
    lines.append(_filled(asked.get("path", ""), places).strip())
    for start in starts:
        lines += ["", "[[flow]]", f"cc = {json.dumps(at('cc') or '')}"]
        lines += [f'start = "{start // _MS}ms"'] if start else []
        lines.append(_filled(asked.get("flow", ""), places).strip())
    return "\n".join(lines) + "\n"


def names_recorded_traces(asked: dict[str, Any], trainings: list[dict[str, Any]]) -> bool:
    """Whether generated traces may stand for recorded ones; ``trainings`` are those of its tables."""
    texts = "\n".join(asked.get(name, "") for name in ("scenario", "path", "flow"))
    places = [place for axis in axes_of(asked).values() for place in axis]
    taught = [trace for training in trainings for trace in training["traces"]]
    return any(map(is_recorded, (*places, *quoted(texts), *taught)))


def _value(asked: dict[str, Any], name: str) -> str | None:
    """The value of a field that is no list, of the run or its block."""
    value = asked.get(name)
    if value is not None:
        return None if isinstance(value, list) else text_of(value)
    block = asked.get("block")
    if block is not None and block not in _BLOCKS:
        raise WrongClaim(f"unknown block `{block}`")
    return _BLOCKS[block].get(name) if block else None


def _filled(text: str, places: dict[str, str]) -> str:
    """A text with the places of axes in it, which may themselves have placeholders."""
    for _ in range(2):
        for name, place in places.items():
            text = text.replace(f"{{{name}}}", place)
    return text


def _flow_starts(flows: int, spacing: str | None, within: str | None, seed: int) -> list[int]:
    """When the flows start, in nanoseconds."""
    apart = _ns(spacing) if spacing else 0
    starts = [apart * flow for flow in range(flows)]
    if within is None:
        return starts
    draws = _uniform(seed, _START_STREAM)
    return sorted(start + int(_ns(within) * next(draws)) // _MS * _MS for start in starts)


_START_STREAM = 40
"""The stream of draws of flows' starts."""
_64 = 2**64 - 1


def _uniform(seed: int, stream: int) -> Iterator[float]:
    """Draws from 0 to 1 as the simulator makes them (PCG XSL 128/64 MCG), the same in every version."""

    def mixed(word: int) -> int:
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _64
        return word ^ (word >> 31)

    high = mixed((seed + 0x9E3779B97F4A7C15) & _64)
    low = mixed((stream * 0x9E3779B97F4A7C15 + high) & _64)
    state = high << 64 | low | 1
    while True:
        state = state * 0x2360ED051FC65DA44385DF649FCCF645 & (2**128 - 1)
        turn, folded = state >> 122, (state >> 64 ^ state) & _64
        bits = (folded >> turn | folded << (64 - turn)) & _64
        yield (bits >> 11) / 2**53


def _ns(text: str) -> int:
    return round(cp._native.span_seconds(text) * 1e9)
