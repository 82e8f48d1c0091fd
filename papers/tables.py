"""Markov tables that claims run or look at, each trained when a run first names it, and kept as results are."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import cellpace as cp
from papers.figures import WrongClaim, quantile, short
from papers.traces import Traces

_QUEUE = "red:min=3mbit,max=9mbit,p=0.1%,gentle=false"
"""The AQM of the MDI paper."""
_DEFAULTS: dict[str, Any] = {
    # The teacher of the MDI paper's evaluation, on channels other than those of the evaluation.
    "teacher": "verus:r=2",
    "traces": [f"mdi/channel{channel:02}" for channel in range(8)],
    "users": [1, 2, 3, 4],
    "duration": None,
    "states": "absolute:bin=2ms",
}
_FIRST_DELAYS = 10
"""Delays that figure 5 of the MDI paper shows."""
_NEAR = 5
"""Windows that are so near each other are near."""
_KEPT_SAMPLES = 400
"""Samples that are kept for charts."""
_BEYOND = 0.005
"""Of delays and windows so much lies beyond each side of the box that has the rest."""


def training(asked: dict[str, Any]) -> dict[str, Any]:
    """A training with all that it leaves out."""
    if unknown := asked.keys() - _DEFAULTS.keys():
        raise WrongClaim(f"unknown field `{min(unknown)}` of a training; there are {', '.join(_DEFAULTS)}")
    return _DEFAULTS | asked


def named_in(text: str, own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The trainings of the tables that a text names: a claim's own as ``model=train.NAME``, and those that every
    claim has, of other states each: ``model=trained-levels``, ``model=trained-absolute-2ms``."""
    found = {}
    for name in re.findall(r"model=([^,\"'\n ]*)", text):
        if name.startswith("train."):
            if name[6:] not in own:
                raise WrongClaim(f"there is no training `{name[6:]}`; there are {', '.join(own)}")
            found[name] = training(own[name[6:]])
        elif name.startswith("trained-"):
            found[name] = training({"states": name[8:].replace("absolute-", "absolute:bin=")})
    return found


class Trainer:
    """Trains tables, each once, and watches a teacher that several have in common once."""

    def __init__(self, traces: Traces, folder: Path, fresh: bool) -> None:
        self._traces, self._folder, self._fresh = traces, folder, fresh
        self._watched: dict[str, cp.Watched] = {}
        self._done: set[str] = set()

    def in_scenario(self, text: str, own: dict[str, dict[str, Any]]) -> str:
        """Returns a scenario with the files of the tables that it names."""
        # A name may be the beginning of another.
        for name, asked in sorted(named_in(text, own).items(), key=lambda item: -len(item[0])):
            text = text.replace(f"model={name}", f"model={self.table(asked)}")
        return re.sub(r"model=(mdi/[^,\"'\n ]*)", lambda found: f"model={self._traces.matrix(found[1])}", text)

    def table(self, asked: dict[str, Any]) -> Path:
        """Returns the file of a training's table."""
        file = self._file(asked, ".mdi")
        if self._is_missing(file):
            self._watch(asked).learn(file, states=asked["states"], users=asked["users"])
        self._done.add(str(file))
        return file

    def figures(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns the figures of a training's table and of its samples, as the record of a run."""
        file = self._file(asked, ".json")
        if self._is_missing(file):
            table = cp.MarkovTable.load(self.table(asked))
            made = _figures(self._watch(asked).samples(users=asked["users"]), table)
            file.write_text(json.dumps(made), encoding="utf-8")
        self._done.add(str(file))
        figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return figures

    def _is_missing(self, file: Path) -> bool:
        return not file.exists() or (self._fresh and str(file) not in self._done)

    def _channels(self, asked: dict[str, Any]) -> list[str]:
        """What it is watched on. What stands for several channels may be one profile for all."""
        return list(dict.fromkeys(map(self._traces.written, asked["traces"])))

    def _file(self, asked: dict[str, Any], suffix: str) -> Path:
        """A name that depends on all that the table does."""
        channels = self._channels(asked)
        digests = [self._traces.digest(f'"{channel}"') for channel in channels]
        parts = json.dumps([asked, channels, digests], sort_keys=True)
        return self._folder / f"trained-{hashlib.sha256(parts.encode()).hexdigest()[:16]}{suffix}"

    def _watch(self, asked: dict[str, Any]) -> cp.Watched:
        key = json.dumps([asked["teacher"], asked["traces"], asked["duration"]])
        watched = self._watched.get(key)
        if watched is None or not set(asked["users"]) <= set(watched.users):
            users = sorted({*asked["users"], *(watched.users if watched else [])})
            channels, duration = self._channels(asked), asked["duration"]
            watched = cp.watch(asked["teacher"], channels, users=users, queue=_QUEUE, duration=duration)
            self._watched = {key: watched}
        return watched


def _figures(samples: cp.Table, table: cp.MarkovTable) -> dict[str, Any]:
    cells = table.cells()
    come, go, count = cells["from_delay"], cells["to_delay"], cells["count"]
    states = len(table.delays) * len(table.windows)
    first = (come < _FIRST_DELAYS) & (go < _FIRST_DELAYS)

    def share(among: npt.NDArray[np.bool_], holds: npt.NDArray[np.bool_]) -> float:
        total = int(count[among].sum())
        return int(count[among & holds].sum()) / total if total else float("nan")

    delays, windows = samples["delay_ms"], samples["window_packets"]
    every = max(1, -(-len(delays) // _KEPT_SAMPLES))
    kept = range(len(delays[::every]))
    overview, zoom = table.pictures()
    return {
        "table": {
            "samples": len(samples),
            "states": states,
            "cells": len(cells),
            "transitions": int(count.sum()),
            # The paper's form: a probability of four bytes for each pair of states.
            "dense_bytes": states**2 * 4.0,
            "file_bytes": table.file_bytes,
            "memory_bytes": table.memory_bytes,
            # Shares of the transitions: to the same delay; of those among the first ten delays to larger and to
            # smaller ones.
            "diagonal": share(come >= 0, go == come),
            "above": share(first, go > come),
            "below": share(first, go < come),
            # Of the box with 99 % of the samples, in ms times packets.
            "area": _side(delays) * _side(windows),
        },
        "window": _by_window(table, cells["from_window"][first]),
        "delay": _by_delay(table, cells),
        "sample": {
            "place": [str(at) for at in kept],
            "delay_ms": delays[::every].tolist(),
            "window_packets": windows[::every].tolist(),
        },
        "maps": {"transitions": overview, "zoom": zoom},
    }


def _side(values: npt.NDArray[np.float64]) -> float:
    ascending = np.sort(values).tolist()
    return quantile(ascending, 1 - _BEYOND) - quantile(ascending, _BEYOND)


def _by_window(table: cp.MarkovTable, windows: npt.NDArray[np.uint64]) -> dict[str, Any]:
    """For each window the filled cells of a row, of rows and columns among the first delays."""
    rows = min(_FIRST_DELAYS, len(table.delays))
    cells = np.bincount(windows.astype(np.int64), minlength=len(table.windows)) / rows
    packets = table.windows
    return {"place": [short(one) for one in packets], "packets": packets, "cells_per_row": cells.tolist()}


def _by_delay(table: cp.MarkovTable, cells: cp.Table) -> dict[str, Any]:
    """For each delay that was seen the filled cells of a row, and of the transitions that stay at the delay the
    share to a window that is near."""
    come, count, most = cells["from_delay"].astype(np.int64), cells["count"], len(table.delays)
    moved = np.abs(cells["from_window"].astype(np.int64) - cells["to_window"].astype(np.int64))
    stays = cells["to_delay"] == cells["from_delay"]
    filled = np.bincount(come, minlength=most) / len(table.windows)
    staying = np.bincount(come[stays], weights=count[stays], minlength=most)
    near = stays & (moved <= _NEAR)
    staying_near = np.bincount(come[near], weights=count[near], minlength=most)
    seen = np.flatnonzero(staying > 0)
    values = np.array(table.delays)[seen].tolist()
    return {
        "place": [short(value) for value in values],
        "value": values,
        "cells_per_row": filled[seen].tolist(),
        "near": (staying_near[seen] / staying[seen]).tolist(),
    }
