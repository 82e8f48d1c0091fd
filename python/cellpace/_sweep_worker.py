"""What a worker of a cluster does: the cells of a unit, and their results to where they belong."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cellpace import _native

TOKEN_FILE = ".sweep-token"
"""In the folder of a sweep while a client works on it: a worker that reads the client's token there
shares the folder."""


@dataclass(frozen=True)
class SharedSweep:
    """A sweep as it travels to workers, once to each: its plan and the contents of its files."""

    plan: str
    files: list[tuple[str, bytes]]
    version: str
    identity: str
    root: str
    """The folder of the results as an absolute path."""
    token: str
    """What is in the file ``TOKEN_FILE`` of that folder."""
    own: list[tuple[str, bytes, bytes]]
    """Controllers in Python: name, source, and what makes them in a form for other processes."""

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "planned"}

    @cached_property
    def planned(self) -> _native.Sweep:
        """The sweep, read once by each worker."""
        if _native.__version__ != self.version:
            raise _native.CellpaceError(
                f"a worker has cellpace {_native.__version__}, this is {self.version}: "
                f"pip install cellpace=={self.version} there"
            )
        own = [(name, source, pickle.loads(make)) for name, source, make in self.own]
        planned = _native.Sweep("plan", self.plan, True, self.files, False, own)
        if planned.identity != self.identity:
            raise _native.CellpaceError("a worker has another build of cellpace: install the same one")
        return planned

    def is_shared(self) -> bool:
        """Whether this machine has the folder of the results."""
        try:
            return (Path(self.root) / TOKEN_FILE).read_text() == self.token
        except OSError:
            return False


@dataclass(frozen=True)
class UnitPiece:
    """Results of cells next to each other."""

    first: int
    end: int
    bytes: bytes | None
    """The Parquet file; ``None``: it is in the folder already."""


@dataclass(frozen=True)
class UnitReport:
    """What came of a unit."""

    pieces: list[UnitPiece]
    seconds: float
    """How long its cells took."""
    problem: str | None
    """Why results were not written where they could have been."""


def run_cells(sweep: SharedSweep, first: int, end: int) -> _native.SweepUnit:
    """Runs cells in this process."""
    return sweep.planned.run(first, end)


def run_unit(sweep: SharedSweep, first: int, end: int) -> UnitReport:
    """Runs cells, and writes their results if this machine shares the folder."""
    begun = time.perf_counter()
    unit = run_cells(sweep, first, end)
    seconds = time.perf_counter() - begun
    problem = None
    if sweep.is_shared():
        try:
            unit.write(Path(sweep.root) / "work")
            return UnitReport([UnitPiece(first, end, None)], seconds, None)
        except _native.CellpaceError as error:
            problem = str(error)
    return UnitReport([UnitPiece(first, end, unit.to_bytes())], seconds, problem)


def run_unit_apart(sweep: SharedSweep, first: int, end: int) -> UnitReport:
    """Runs cells in processes of their own, after a worker has died with them. The cell that ends
    its process is found by halves, and its row says how it ended."""
    begun = time.perf_counter()
    pieces = _run_apart(sweep, first, end)
    return UnitReport(pieces, time.perf_counter() - begun, None)


def _run_apart(sweep: SharedSweep, first: int, end: int) -> list[UnitPiece]:
    code = "from cellpace._sweep_worker import run_child; run_child()"
    child = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps((sweep, first, end)), capture_output=True
    )
    if child.returncode == 0:
        return [UnitPiece(first, end, child.stdout)]
    if end - first > 1:
        middle = (first + end) // 2
        return _run_apart(sweep, first, middle) + _run_apart(sweep, middle, end)
    failed = sweep.planned.failed(first, end, _ending(child))
    return [UnitPiece(first, end, failed.to_bytes())]


def _ending(child: subprocess.CompletedProcess[bytes]) -> str:
    if child.returncode < 0:
        name = signal.strsignal(-child.returncode) or f"signal {-child.returncode}"
        return f"the run ended its process: {name}"
    lines = child.stderr.decode(errors="replace").strip().splitlines()
    return f"the run ended its process: {lines[-1] if lines else child.returncode}"


def run_child() -> None:
    """What such a process does: reads what to run, and writes the results."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # whatever else is printed
        sweep, first, end = pickle.load(sys.stdin.buffer)
        out.write(run_cells(sweep, first, end).to_bytes())
