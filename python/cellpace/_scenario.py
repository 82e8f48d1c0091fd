"""Scenarios: several flows of different kinds over one path."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path

from cellpace import _native
from cellpace._controller import ControllerLike, named
from cellpace._results import Results
from cellpace._trace import Trace, TraceLike
from cellpace._written import Quantity, Seeds, asked, jobs_of, seeds_of, written

_STAND_IN = "fixed"

TomlValue = str | int | float | bool | list["TomlValue"] | Mapping[str, "TomlValue"]


@dataclass
class Flow:
    """A flow, or several of the same kind."""

    cc: ControllerLike | None = None
    """Its controller."""
    start: Quantity | None = None
    """When it starts; ``None``: at once."""
    stop: Quantity | None = None
    """When it stops sending; ``None``: at the end."""
    rtt: Quantity | None = None
    """Its own round-trip delay in place of the path's."""
    count: int = 1
    """How many of them there are."""
    transfer: Mapping[str, TomlValue] | None = None
    """Downloads, e.g. ``{"size": "2MB", "count": 20, "gap": "1s"}``; ``None``: it always has data."""
    onoff: Mapping[str, TomlValue] | None = None
    """Files with pauses between them, e.g. ``{"mean": "4MB", "off": "10s"}``."""
    video: Mapping[str, TomlValue] | None = None
    """Frames of a video whose rate follows the controller, e.g. ``{"fps": 30, "max": "4mbit"}``;
    ``{}``: with all defaults. Rates and times have their units, ``fps`` is frames per second."""
    udp: str | None = None
    """A constant rate in place of a controller, e.g. ``"2mbit"``."""
    stagger: Quantity | None = None
    """Time from the start of each of ``count`` flows to that of the next, e.g. ``"2s"``, or at random
    within ``"uniform:0s..1s"``."""
    user: str | None = None
    """The user of a ``[cell]`` (in ``Scenario.more``) that it belongs to."""
    reverse: str | None = None
    """What the other end sends under, where both ends of ``"sprout"`` send; the scenario needs an
    ``uplink`` (in ``Scenario.more``)."""

    stack: str | None = None
    """Who sends in place of the simulator's own sender, e.g. ``"noq"``, or ``"quinn:cc=cubic"`` (its own
    controller; leave ``cc`` out); ``None``: the simulator's own."""

    path: Sequence[str] = ()
    """Names of the scenario's ``links`` over which it leads, one behind the other; empty: all of them."""

    def _toml(self) -> str:
        lines = ["[[flow]]"]
        if self.cc is not None:
            lines.append(f"cc = {_toml(self.cc if isinstance(self.cc, str) else _STAND_IN)}")
        if self.count != 1:
            lines.append(f"count = {self.count}")
        for key in ("start", "stop", "rtt", "udp", "stagger", "user", "reverse", "stack"):
            if (value := getattr(self, key)) is not None:
                lines.append(f"{key} = {_toml(written(key, value))}")
        if self.path:
            lines.append(f"path = {_toml(list(self.path))}")
        for key in ("transfer", "onoff", "video"):
            if (value := getattr(self, key)) is not None:
                lines.append(f"{key} = {_toml(value)}")
        return "\n".join(lines)


@dataclass
class Scenario:
    """What ``cellpace sim`` reads from a file, from Python.

    ``docs/reference`` has all fields of a scenario; those without an argument here go into ``more``.
    """

    trace: TraceLike = "lte-driving"
    """When the link may deliver."""
    flows: Iterable[Flow] = field(default_factory=lambda: [Flow("pace")])
    """The flows."""
    rtt: Quantity | None = None
    """Round-trip delay without queueing; ``None``: that of ``path``, or 40 ms."""
    queue: str = "droptail:2MB"
    """The queue at the bottleneck."""
    loss: str | None = None
    """Random loss; ``None``: that of ``path``, or none."""
    send_jitter: str = "100%"
    """Random delay before each packet where flows share the link, in shares of a packet's time."""
    duration: Quantity | None = None
    """Length of a run; ``None``: the trace's, at most 300 s, and 60 s where it has no end."""
    skip: Quantity | None = None
    """Left out of the figures at the start; ``None``: 2 s."""
    seed: int = 1
    """Seed of everything random."""
    links: Mapping[str, Mapping[str, TomlValue]] | None = None
    """Links in series, in the order of data, in place of ``trace``, ``rtt``, ``queue`` and ``loss``, e.g.
    ``{"wired": {"trace": "constant:1gbit", "rtt": "20ms"}, "radio": {"trace": "lte-driving"}}``."""
    more: str = ""
    """Further fields and tables as TOML, e.g. ``'jitter = "harq:bler=10%,rtt=8ms"'``."""
    path: str | PathLike[str] | None = None
    """Rate, RTT and loss at once in place of ``trace``: a table with a column of each, or a profile such as
    ``"leo-bent-pipe"``."""

    def __post_init__(self) -> None:
        self.flows = list(self.flows)

    def to_toml(self) -> str:
        """Returns the scenario as ``cellpace sim`` reads it."""
        of_link = ("rtt", "queue", "loss") if self.links is None else ()
        lines = [self._rates()] if self.links is None else []
        for key in (*of_link, "send_jitter", "duration", "skip"):
            if (value := getattr(self, key)) is not None:
                lines.append(f"{key} = {_toml(written(key, value))}")
        lines.append(f"seed = {self.seed}")
        if isinstance(self.trace, Trace) and self.duration is None:
            lines.append(f'duration = "{min(self.trace.period_s, 300)}s"')
        links = [
            "\n".join([f"[path.{_toml(name)}]", *(f"{key} = {_toml(value)}" for key, value in link.items())])
            for name, link in (self.links or {}).items()
        ]
        flows = [flow._toml() for flow in self.flows if flow.count]
        return "\n".join([*lines, self.more, *links, *flows]) + "\n"

    def _rates(self) -> str:
        if self.path is None:
            trace = "constant:1mbit" if isinstance(self.trace, Trace) else written("trace", self.trace)
            return f"trace = {_toml(trace)}"
        if self.trace != "lte-driving":
            raise _native.CellpaceError("path: has the trace as well; leave one of the two out")
        return f"path = {_toml(written('path', self.path))}"

    def _each_flow(self) -> list[Flow]:
        return [flow for flow in self.flows for _ in range(flow.count)]


@dataclass
class ScenarioFile:
    """A scenario that is written already."""

    text: str
    """The scenario as TOML."""
    name: str = "scenario"
    """What errors call it."""

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ScenarioFile:
        """Reads a file."""
        try:
            return cls(Path(path).read_text(encoding="utf-8"), fspath(path))
        except FileNotFoundError:
            raise _native.CellpaceError(f"there is no file `{fspath(path)}`") from None


def simulate(
    scenario: Scenario | ScenarioFile | str,
    *,
    seeds: Seeds | None = None,
    series: bool = True,
    logs: bool = False,
    jobs: int | None = None,
) -> Results:
    """Simulates a scenario: flows over one path, in virtual time.

    scenario: a ``Scenario``, a ``ScenarioFile``, or TOML as ``cellpace sim`` reads it.
    seeds: seeds in place of the scenario's, one run with each.
    series: whether to keep figures over time, for charts.
    logs: whether to keep every packet and what controllers decide, as of ``compare``.
    jobs: runs at the same time; ``None``: one per core.
    """
    if isinstance(scenario, str):
        scenario = ScenarioFile(scenario)
    own, trace = [], None
    if isinstance(scenario, Scenario):
        flows = enumerate(flow.cc for flow in scenario._each_flow())
        wanted = ((at, named(cc)) for at, cc in flows if cc is not None and not isinstance(cc, str))
        own = [(at, *cc) for at, cc in wanted if not isinstance(cc, str)]
        trace = scenario.trace._native if isinstance(scenario.trace, Trace) else None
        text, name = scenario.to_toml(), "scenario"
    else:
        text, name = scenario.text, scenario.name
    wish = {
        "name": name,
        "text": text,
        "trace": trace,
        "own": own,
        "seeds": None if seeds is None else seeds_of(seeds),
        "series": series,
        "logs": logs,
        "jobs": jobs_of(jobs),
    }
    return Results(asked(_native.simulate, wish))


def _toml(value: TomlValue) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(of)}" for key, of in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)  # strings, numbers and booleans are written alike
