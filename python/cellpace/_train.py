"""Markov tables learnt from controllers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from cellpace import _native
from cellpace._controller import ControllerLike, named
from cellpace._table import Table
from cellpace._written import Quantity, asked, jobs_of, optional, several, written


def train(
    cc: ControllerLike,
    trace: str | PathLike[str] | Iterable[str | PathLike[str]],
    output: str | PathLike[str],
    *,
    users: Iterable[int] = (1, 2, 3, 4),
    states: str = "levels",
    rtt: Quantity = "40ms",
    queue: str = "droptail:2MB",
    loss: str = "0%",
    duration: Quantity | None = None,
    seed: int = 1,
    jobs: int | None = None,
) -> Mapping[str, Any]:
    """Learns a Markov table by watching a controller, as ``cellpace mdi train`` does.

    ``"mdi:model=FILE"`` is then a controller, which also runs in the kernel.

    cc: the teacher; its name is in the table's file.
    trace: what it is watched on.
    output: where to write the table; the same training makes the same bytes as the program.
    users: numbers of flows that share the link, one run of each per trace.
    states: which delays and windows the table distinguishes, in the form of ``--states``.
    rtt, queue, loss, duration, seed: as of ``compare``.
    jobs: runs at the same time; ``None``: one per core.

    Returns how many samples, states, transitions and cells there are.
    """
    _native.check_states(states)
    watched = watch(
        cc, trace, users=users, rtt=rtt, queue=queue, loss=loss, duration=duration, seed=seed, jobs=jobs
    )
    return watched.learn(output, states=states)


class Watched:
    """What was logged of a controller: of each flow its largest delay and window in every epoch of 5 ms."""

    def __init__(self, native: _native.Watched, users: Iterable[int]) -> None:
        self._native = native
        self.users = sorted(set(users))
        """Numbers of flows that shared the link."""

    def learn(
        self, output: str | PathLike[str], *, states: str = "levels", users: Iterable[int] | None = None
    ) -> Mapping[str, Any]:
        """Writes the Markov table that follows from it; ``users``: from flows with these numbers of others only."""
        wanted = None if users is None else list(users)
        learnt: Mapping[str, Any] = json.loads(self._native.learn(fspath(output), states, wanted))
        return learnt

    def samples(self, *, users: Iterable[int] | None = None) -> Table:
        """Returns a row for each epoch of each flow: ``users``, ``delay_ms``, ``window_packets``."""
        return Table(self._native.samples(None if users is None else list(users)))


def watch(
    cc: ControllerLike,
    trace: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    users: Iterable[int] = (1, 2, 3, 4),
    rtt: Quantity = "40ms",
    queue: str = "droptail:2MB",
    loss: str = "0%",
    duration: Quantity | None = None,
    seed: int = 1,
    jobs: int | None = None,
) -> Watched:
    """Watches a controller, so that several tables can be learnt from it. Arguments as of ``train``."""
    path = {"rtt": written("rtt", rtt), "queue": queue, "loss": loss}
    users = list(users)
    wish = {
        "cc": named(cc),
        "trace": several("trace", trace),
        "users": users,
        "path": json.dumps(path),
        "duration": optional("duration", duration),
        "seed": seed,
        "jobs": jobs_of(jobs),
    }
    return Watched(asked(_native.watch, wish), users)


class MarkovTable:
    """A Markov table of a file."""

    def __init__(self, native: _native.MarkovTable, file_bytes: int) -> None:
        self._native = native
        self.file_bytes = file_bytes
        """Size of the file."""
        self.delays: list[float] = native.delays()
        """The delays that it distinguishes: in ms, or as changes where its states are relative."""
        self.windows: list[float] = native.windows()
        """The windows that it distinguishes: in packets, or as changes."""

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MarkovTable:
        """Reads the file that ``train`` or ``cellpace mdi train`` wrote, or a matrix in the layout of 2021 (``.csv``)."""
        return cls(_native.MarkovTable.load(fspath(path)), Path(path).stat().st_size)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it as ``mdi:model=FILE`` reads it."""
        self._native.save(fspath(path))

    @property
    def memory_bytes(self) -> int:
        """Size of the form in which the kernel and other runtimes have it in memory."""
        return self._native.memory_bytes

    def cells(self) -> Table:
        """Returns the transitions that were seen: ``from_delay``, ``from_window``, ``to_delay`` and ``to_window``
        are places in ``delays`` and ``windows``."""
        return Table(self._native.cells())

    def pictures(self) -> list[dict[str, Any]]:
        """Returns its matrix as heat maps of a page: whole, and enlarged."""
        pictures: list[dict[str, Any]] = json.loads(self._native.pictures())
        return pictures
