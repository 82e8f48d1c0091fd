"""Sweeps: every combination of what a plan lists, on all cores or on a cluster."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cellpace import _native
from cellpace._controller import Controller, OwnController, controller_source, named
from cellpace._sweep_worker import TOKEN_FILE
from cellpace._table import Table, from_json
from cellpace._trace import Trace
from cellpace._written import jobs_of, written

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster

    ClusterLike: TypeAlias = str | Client | Cluster
    """A cluster of Dask: the address of a scheduler, ``"local"`` for processes of this machine, a
    client, or a cluster."""


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is."""

    done: int
    """Cells that are done, those of earlier times included."""
    cells: int
    """Cells in all."""
    new: int
    """Cells done this time."""
    seconds: float
    """Time since it began."""

    @property
    def per_second(self) -> float:
        """Cells done in a second."""
        return self.new / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest should take; ``None``: not known yet."""
        return (self.cells - self.done) / self.per_second if self.new else None

    def __str__(self) -> str:
        text = f"{self.done} of {self.cells} runs"
        left = self.seconds_left
        return text if left is None else f"{text}, {self.per_second:.0f}/s, {_time(left)} left"


Report = Callable[[SweepProgress], None]


class SweepResults:
    """What is in the folder of a sweep that is complete.

    Its files are Parquet: ``polars.scan_parquet(results.parts)`` reads what is asked for and no more.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], new: int) -> None:
        self.folder = folder
        """The folder."""
        self.manifest = manifest
        """Plan, version, hashes of files; the document ``manifest.json``."""
        self.new = new
        """Cells that were done this time."""

    def __len__(self) -> int:
        """Number of cells, which are rows."""
        return int(self.manifest["cells"])

    @property
    def parts(self) -> list[Path]:
        """The files of results, in the order of the plan."""
        return [self.folder / part["file"] for part in self.manifest["parts"]]

    @property
    def errors(self) -> int:
        """Cells that have a reason in the column ``error`` in place of figures."""
        return sum(part["errors"] for part in self.manifest["parts"])

    def table(self) -> Table:
        """Reads all results, one row for each cell."""
        return Table(_native.sweep_table(self.folder))

    def failed(self) -> list[dict[str, Any]]:
        """Returns the rows of cells that failed, with the reason as ``error``."""
        if not self.errors:
            return []
        return [row for row in self.table().to_dicts() if row["error"] is not None]

    def __repr__(self) -> str:
        text = f"{len(self)} runs in {self.folder}"
        if self.errors:
            first = self.failed()[0]
            text += f"; {self.errors} failed, the first: {first['cc']} on {first['trace']}: {first['error']}"
        return text


def sweep(
    plan: str | PathLike[str] | Mapping[str, Any],
    *,
    out: str | PathLike[str] | None = None,
    client: ClusterLike | None = None,
    jobs: int | None = None,
    progress: bool | Report | None = None,
) -> SweepResults:
    """Runs every cell of a plan that the folder ``out`` does not have yet, as ``cellpace sweep`` does.

    plan: a TOML file, or a dictionary with the same fields, e.g. ``{"trace": ["lte-driving"], "cc":
        ["copa", {"name": "verus", "r": [2, 4, 6]}], "rtt": ["20ms", "80ms"], "seeds": range(50)}``. Among ``cc``
        may be controllers of your own. Their source is part of the plan: a change of it is another sweep, one of
        what else it calls is not.
    out: the folder of the results; ``None``: the name of the plan's file without ``.toml``.
    client: a cluster of Dask (``pip install cellpace[sweep]``): the address of a scheduler,
        ``"local"`` for a process on each core of this machine, a ``distributed.Client``, or a cluster
        such as ``dask_jobqueue.SLURMCluster``. ``None``: the cores of this machine, without Dask.
    jobs: runs at the same time without a cluster; ``None``: one per core.
    progress: whether to show a line with an estimate, or what to call with a ``SweepProgress``;
        ``None``: show it on a terminal.

    A sweep that is interrupted, killed or loses its cluster keeps what is done, and the same call goes
    on from there. Its files have the same bytes wherever it ran. A run that fails is a row whose
    column ``error`` has the reason.

    Raises ``CellpaceError`` with the program's sentence.
    """
    jobs = jobs_of(jobs)
    own: list[OwnController] = []
    name, text = _read(plan, own)
    planned = _native.Sweep(name, text, not _is_file(plan), None, client is not None, own)
    root = _folder(plan, out)
    folder = _native.SweepFolder(root, planned)
    try:
        (root / TOKEN_FILE).unlink(missing_ok=True)  # of a client that was killed
        done = planned.cells - sum(end - first for first, end in folder.missing())
        begun = time.monotonic()
        new = 0
        with _shown(progress) as shown:

            def report(count: int) -> None:
                nonlocal new
                new = count
                seconds = time.monotonic() - begun
                if shown is not None:
                    shown(SweepProgress(done + count, planned.cells, count, seconds))

            if client is None:
                folder.run(jobs, report)
            elif done < planned.cells:
                from cellpace._dask import sweep_on

                sweep_on(client, planned, folder, root, report, own)
        manifest = from_json(folder.manifest())
        return SweepResults(root, manifest, planned.cells - done)
    finally:
        folder.close()


def _is_file(plan: object) -> bool:
    return isinstance(plan, str | PathLike)


def _read(plan: str | PathLike[str] | Mapping[str, Any], own: list[OwnController]) -> tuple[str, str]:
    """The name of a plan for errors, and its text. Controllers in it that are no texts go to ``own``."""
    if isinstance(plan, Mapping):
        return "plan", json.dumps(_plain("plan", _with_names(plan, own)))
    if not _is_file(plan):
        raise TypeError(f"plan: a file or a dictionary is needed, not {type(plan).__name__}")
    try:
        return fspath(plan), Path(plan).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _native.CellpaceError(f"there is no file `{fspath(plan)}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _native.CellpaceError(f"{fspath(plan)}: {error}") from None


def _with_names(plan: Mapping[str, Any], own: list[OwnController]) -> Mapping[str, Any]:
    """The plan with names in place of controllers that are no texts."""

    def name_of(cc: Any) -> Any:
        if not (callable(cc) or isinstance(cc, Controller)):
            return cc
        name, make = named(cc)
        own.append((name, controller_source(cc), make))
        return name

    cc = plan.get("cc")
    if callable(cc) or isinstance(cc, Controller):
        return {**plan, "cc": name_of(cc)}
    return {**plan, "cc": [name_of(one) for one in cc]} if isinstance(cc, list | tuple) else plan


def _folder(plan: object, out: str | PathLike[str] | None) -> Path:
    if out is not None:
        return Path(out)
    name = fspath(plan) if isinstance(plan, str | PathLike) else ""
    if not name.endswith(".toml") or name == ".toml":
        raise _native.CellpaceError("out: name the folder of the results")
    return Path(name.removesuffix(".toml"))


def _plain(place: str, value: Any) -> Any:
    """A value of a plan as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(str(key), of) for key, of in value.items()}
    if isinstance(value, range) and value.step == 1 and len(value):
        return f"{value.start}..{value.stop - 1}"
    if isinstance(value, timedelta | PathLike):
        return written(place, value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "tolist"):  # numpy's
        return _plain(place, value.tolist())
    if isinstance(value, Trace):
        raise TypeError(f"{place}: a plan names traces: save it to a file, and name that")
    if callable(value) or not hasattr(value, "__iter__"):
        raise TypeError(f"{place}: {value!r} cannot be written into a plan")
    return [_plain(place, one) for one in value]


@contextmanager
def _shown(progress: bool | Report | None) -> Iterator[Report | None]:
    if callable(progress):
        yield progress
        return
    if not (sys.stderr.isatty() if progress is None else progress):
        yield None
        return
    line = _Line()
    try:
        yield line
    finally:
        line.end()


class _Line:
    """A line that is written again and again."""

    EVERY_S = 0.2

    def __init__(self) -> None:
        self._written = 0.0
        self._last: SweepProgress | None = None

    def __call__(self, progress: SweepProgress) -> None:
        self._last = progress
        if time.monotonic() - self._written >= self.EVERY_S:
            self._write("")

    def end(self) -> None:
        if self._last is not None:
            self._write("\n")

    def _write(self, end: str) -> None:
        self._written = time.monotonic()
        print(f"\r{self._last}\033[K", end=end, file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
