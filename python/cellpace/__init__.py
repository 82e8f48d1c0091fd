"""Congestion control for cellular networks, from Python.

Quantities are written with their units, as on the command line of ``cellpace``: ``"40ms"``,
``"12mbit"``, ``"droptail:2MB"``. Time spans may also be ``datetime.timedelta``.
"""

from cellpace._compare import compare
from cellpace._controller import Controller, ControllerLike
from cellpace._describe import ControllerInfo, Param, cite, controllers, params, profiles
from cellpace._native import (
    AckEvent,
    Beside,
    CellpaceError,
    EpochEvent,
    InternalError,
    LossEvent,
    MarkEvent,
    PacketEvent,
    TimeoutEvent,
    __version__,
)
from cellpace._observe import DelayProfile, Observed, observe
from cellpace._report import Page, report
from cellpace._results import Results
from cellpace._scenario import Flow, Scenario, ScenarioFile, TomlValue, simulate
from cellpace._send import Transfer, send
from cellpace._sweep import SweepProgress, SweepResults, sweep
from cellpace._table import Table
from cellpace._trace import Profile, Trace, TraceLike, drive
from cellpace._train import MarkovTable, Watched, train, watch
from cellpace._tune import Candidate, Tuning, tune

__all__ = [
    "AckEvent",
    "Beside",
    "Candidate",
    "CellpaceError",
    "Controller",
    "ControllerInfo",
    "ControllerLike",
    "DelayProfile",
    "EpochEvent",
    "Flow",
    "InternalError",
    "LossEvent",
    "MarkEvent",
    "MarkovTable",
    "Observed",
    "PacketEvent",
    "Page",
    "Param",
    "Profile",
    "Results",
    "Scenario",
    "ScenarioFile",
    "SweepProgress",
    "SweepResults",
    "Table",
    "TimeoutEvent",
    "TomlValue",
    "Trace",
    "TraceLike",
    "Transfer",
    "Tuning",
    "Watched",
    "__version__",
    "cite",
    "compare",
    "controllers",
    "drive",
    "observe",
    "params",
    "profiles",
    "report",
    "send",
    "simulate",
    "sweep",
    "train",
    "tune",
    "watch",
]
