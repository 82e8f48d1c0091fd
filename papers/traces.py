"""Traces that claims name: recorded ones of a folder, sets of them, and what stands for those that are not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import cellpace as cp
from papers.figures import WrongClaim
from papers.trace_sets import STAND_INS


class NeedsTraces(Exception):
    """A recorded trace is not there."""


def is_recorded(trace: str) -> bool:
    """Whether this is a recorded trace, several joined by ``+``, or one at another rate (``city-drive*0.5``)."""
    return bool(_stand_ins(trace))


def _stand_ins(trace: str) -> list[str]:
    name = re.split(r"[+*]", trace, maxsplit=1)[0]
    return STAND_INS.get(name) or (STAND_INS["mdi/"] if name.startswith("mdi/") else [])


def stand_in(trace: str) -> str:
    """Returns what is generated in place of a recorded trace, and any other trace as it is."""
    there = [name for name in _stand_ins(trace) if ":" in name or name in cp.profiles()]
    return there[0] if there else trace


def quoted(text: str) -> Iterator[str]:
    """What stands between quotes in a scenario, and what stands around them."""
    return iter(re.split("[\"']", text))


class Traces:
    """The recorded traces of a folder; without one, generated ones in their place."""

    def __init__(self, folder: Path | None, made: Path) -> None:
        self.folder = folder
        """``None``: there are none."""
        self._made = made
        self._known: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    @property
    def are_generated(self) -> bool:
        """Whether generated traces stand for the recorded ones."""
        return self.folder is None

    def written(self, trace: str) -> str:
        """Returns what a scenario writes for a trace of a claim: a file, a stand-in, or the same."""
        if not is_recorded(trace):
            return trace
        if trace not in self._known:
            self._known[trace] = stand_in(trace) if self.folder is None else str(self._file(trace))
        return self._known[trace]

    def in_scenario(self, text: str) -> str:
        """Returns a scenario with all recorded traces that it names as files, or what stands for them."""
        for name in sorted(set(filter(is_recorded, quoted(text)))):
            for quote in "\"'":
                text = text.replace(f"{quote}{name}{quote}", f"{quote}{self.written(name)}{quote}")
        return text

    def matrix(self, name: str) -> Path:
        """Returns the file of a matrix that its authors published, as a table that controllers read."""
        if self.folder is None:
            raise NeedsTraces(name)
        file = self._recorded(f"{name}.csv")
        made = self._made / f"{self._digest(str(file))}.mdi"
        if not made.exists():
            cp.MarkovTable.load(file).save(made)
        return made

    def digest(self, text: str) -> str:
        """Returns a short name of the contents of the files that a scenario names."""
        files = [name for name in quoted(text) if name.startswith("/") and name.endswith((".down", ".up"))]
        return " ".join(self._digest(file) for file in sorted(set(files)))

    def _digest(self, file: str) -> str:
        if file not in self._digests:
            self._digests[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
        return self._digests[file]

    def _file(self, trace: str) -> Path:
        parts = [part.partition("*") for part in trace.split("+")]
        files = [self._recorded(name) for name, _, _ in parts]
        if len(parts) == 1 and not parts[0][1]:
            return files[0]
        return self._joined(trace, files, [float(factor or 1) for _, _, factor in parts])

    def _recorded(self, name: str) -> Path:
        assert self.folder is not None, "without a folder there are stand-ins"
        file = self.folder / (name if name.endswith((".up", ".csv")) else f"{name}.down")
        if not file.is_file():
            raise NeedsTraces(f"there is no {file}")
        return file.resolve()

    def _joined(self, trace: str, files: list[Path], factors: list[float]) -> Path:
        """Writes traces one after the other, each at so many times its rate."""
        times = [np.zeros(0, dtype=np.int64)]
        for file, factor in zip(files, factors, strict=True):
            one = cp.Trace.load(file)
            one = one if factor == 1 else one.scaled(factor)
            end = times[-1][-1] if times[-1].size else 0
            times.append(one.times_ms().astype(np.int64) + end)
        joined = cp.Trace.from_times_ms(np.concatenate(times).tolist(), name=trace)
        parts = " ".join([trace, *(self._digest(str(file)) for file in files)])
        made = self._made / f"{hashlib.sha256(parts.encode()).hexdigest()[:16]}.down"
        joined.save(made)
        return made


@cache
def period_s(written: str) -> float | None:
    """Returns the seconds after which a trace repeats; ``None``: it has no end."""
    try:
        return cp._native.trace_period_s(written)
    except cp.CellpaceError as error:
        raise WrongClaim(str(error)) from None
