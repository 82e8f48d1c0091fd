"""What was measured with real packets, as figures, and how it is measured.

``evaluation/recordings.toml`` says what is in the files that the measuring programs write, and
``papers/recorded/NAME.json`` on what machine they were measured.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import cellpace as cp
from papers.figures import Figures, Row, WrongClaim
from papers.records import unit_of

ROOT = Path(__file__).parent.parent
"""The repository."""
_DESCRIPTIONS = "evaluation/recordings.toml"
_CONDITIONS = "papers/recorded"
_SCHEMA = "cellpace.recording/1"
_FINE_BINS = 100
"""Bins of delays of 1 ms, before those of a twentieth of a decade each (``alcc_statistics.py``)."""
_BINS_PER_DECADE = 20
_RUN = ["base", "mdi", "cc", "recovery", "path", "alcc", "udp", "os", "emu", "kernel", "tcp", "control", "preload", "run",
        "proxy"]  # fmt: skip
"""The crates whose code a recording has run."""
_CODE = (".rs", ".c", ".h")
_MAX_LATENESS_US = 1_000
"""Timers that are later than this make a recording invalid."""


class Recording:
    """A part of a file of figures: where it is, what its parts are called, how it was measured."""

    def __init__(self, name: str, description: dict[str, Any], root: Path) -> None:
        self.name, self.root, self._about = name, root, description
        self.conditions: str = description["conditions"]
        """How long, how often, over what."""
        described = {key: value for key, value in description.items() if key not in ("date", "machine")}
        self._description = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]
        conditions = root / _CONDITIONS / f"{name}.json"
        self.measured: dict[str, Any] | None = _read_conditions(conditions) if conditions.exists() else None
        """On what it was measured by ``--record``."""
        self._cells = self._read((root / description["file"]).read_text(encoding="utf-8"))

    @property
    def date(self) -> str:
        """The day of the measurement, as ``2026-11-23``."""
        date: str = (self.measured or self._about).get("date", "at an unknown time")
        return date

    @property
    def machine(self) -> str:
        """What is known of the machine."""
        return _machine_text(self.measured["machine"]) if self.measured else self._about.get("machine", "unknown")

    @property
    def commands(self) -> list[str]:
        """The commands that measure it."""
        command = self._about["command"]
        return [command] if isinstance(command, str) else command

    @property
    def note(self) -> str:
        """What speaks against it: that something else is described now, that the code has changed since or is not known, or
        that the machine was too slow."""
        if self.measured is None or self.measured["description"] != self._description:
            return " (stale)"
        if self.measured.get("code") != code_digest(self.root):
            return " (stale)"
        return " (invalid)" if self.measured["invalid"] else ""

    def field(self, name: str, only: tuple[str, str] | None = None) -> Figures:
        """The values of a field; ``only`` keeps those at one place of an axis."""
        axes, rows = self._values(name)
        if only is not None and only[0] in axes:
            rows = [row for row in rows if row.places[axes.index(only[0])] == only[1]]
        return Figures(unit_of(name)[0], axes, rows, name)

    def places(self, axis: str) -> list[str]:
        """The places of an axis."""
        tables = [self._values(name) for name in sorted(self._about["fields"])]
        found = [row.places[axes.index(axis)] for axes, rows in tables if axis in axes for row in rows]
        return list(dict.fromkeys(found))

    def check(self) -> None:
        """Refuses figures in which a field is missing."""
        for name in self._about["fields"]:
            self._values(name)

    def _read(self, text: str) -> list[tuple[tuple[str, ...], Any]]:
        """The cells that belong to it, by their places."""
        if "table" not in self._about:
            return self._documents(text)
        keys = sorted(json.loads(text)[self._about["table"]].items())
        return [(places, cell) for key, cell in keys if (places := self._places_of(key)) is not None]

    def _places_of(self, key: str) -> tuple[str, ...] | None:
        under = self._about.get("under")
        if under is not None:
            if not key.startswith(f"{under}/"):
                return None
            key = key.removeprefix(f"{under}/")
        parts = key.split("/")
        missing = len(self._about["axes"]) - len(parts)
        if missing == 1 and "otherwise" in self._about:
            parts.append(self._about["otherwise"])
        if len(parts) != len(self._about["axes"]):
            return None
        called = self._about.get("places", {})
        return tuple(called.get(part, part) for part in parts)

    def _documents(self, text: str) -> list[tuple[tuple[str, ...], Any]]:
        """Each document that a command wrote is a cell; those with the same places are its runs."""
        cells: list[tuple[tuple[str, ...], Any]] = []
        for document in _documents(text):
            values = [_at_path(document, axis) for axis in self._about["axes"]]
            places = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
            run = sum(known[:-1] == places for known, _ in cells)
            cells.append(((*places, str(run)), document))
        return cells

    def _values(self, name: str) -> tuple[list[str], list[Row]]:
        if name not in self._about["fields"]:
            known = ", ".join(sorted(self._about["fields"]))
            raise WrongClaim(f"unknown field `{name}`; the recording has {known}")
        field = self._about["fields"][name]
        field = {"of": field} if isinstance(field, str) else field
        scale = unit_of(name)[1] * field.get("scale", 1)
        values = [_at_path(cell, field["of"]) if field["of"] else cell for _, cell in self._cells]
        axes = list(self._about["axes"]) + ([] if "table" in self._about else ["run"])
        axes += [field["along"]] if "along" in field else []
        axes += ["run"] if any(isinstance(value, dict) and "runs" in value for value in values) else []
        # A histogram ends with its last packet.
        longest = max((len(value) for value in values if isinstance(value, list)), default=0)
        rows = [
            Row(places + own, number * scale)
            for (places, cell), value in zip(self._cells, values, strict=True)
            for own, number in _numbers(value, field, cell, longest)
        ]
        if not rows:
            raise WrongClaim(f"{self._about['file']} has no `{name}`")
        return axes, rows


@cache
def recordings(root: Path = ROOT) -> dict[str, Recording]:
    """All recordings by their names."""
    descriptions = tomllib.loads((root / _DESCRIPTIONS).read_text(encoding="utf-8"))
    return {name: Recording(name, description, root) for name, description in descriptions.items()}


def recording(name: str) -> Recording:
    """The recording of this name."""
    known = recordings()
    if name not in known:
        raise WrongClaim(f"there is no recording `{name}`; there are {', '.join(known)}")
    return known[name]


@cache
def code_digest(root: Path) -> str:
    """A short name of the code that handles real packets."""
    files = [file for crate in _RUN for file in (root / "crates" / crate).rglob("*") if file.suffix in _CODE]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:32]


def _documents(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = decoder.raw_decode(text, at)
        yield document


def _at_path(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _numbers(value: Any, field: dict[str, Any], cell: Any, longest: int) -> list[tuple[tuple[str, ...], float]]:
    """The numbers of a cell with their places beside those of the cell."""
    if isinstance(value, list):
        if "along" in field:
            return _listed(value, field, longest)
        return [((), _delay_ms(value, field["percentile"]))] if "percentile" in field else []
    if isinstance(value, dict) and "along" not in field:
        # By the minute of the trace over which each run was, where that is known.
        minutes = cell.get("minutes") or []
        places = [str(minutes[at]) if at < len(minutes) else str(at) for at in range(len(value["runs"]))]
        return [((place,), _number(run)) for place, run in zip(places, value["runs"], strict=True)]
    return [((), float(value))] if isinstance(value, int | float) and "along" not in field else []


def _listed(value: list[Any], field: dict[str, Any], longest: int) -> list[tuple[tuple[str, ...], float]]:
    numbers = [_number(one) for one in value]
    total = 1.0
    if field.get("is_histogram"):
        total = sum(numbers)
        numbers += [0.0] * (longest - len(numbers))
    unit = "s" if field["along"] == "time" else ""
    return [((f"{at}{unit}",), number / total) for at, number in enumerate(numbers)]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _delay_ms(counts: list[float], percent: float) -> float:
    """A percentile of a histogram of delays; within a bin they are as if spread evenly."""

    def begin(bin_: int) -> float:
        above = bin_ - _FINE_BINS
        return float(bin_) if above < 0 else _FINE_BINS * 10 ** (above / _BINS_PER_DECADE)

    left = sum(counts) * percent / 100
    for at, count in enumerate(counts):
        if count > 0 and left <= count:
            return begin(at) + (begin(at + 1) - begin(at)) * left / count
        left -= count
    return math.nan


# How it is measured.


def record(wanted: Recording, program: str) -> str:
    """Runs the commands of a recording, stores figures and conditions, and says where. ``program`` is the cellpace
    that they call."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        stored = wanted.root / wanted._about["file"]
        has_documents = "table" not in wanted._about
        if stored.exists() and not has_documents:
            # A part of a file is measured beside the others, which it may be compared with.
            shutil.copyfile(stored, out)
        machine, late, load = _machine(), _lateness_us(), os.getloadavg()[0]
        documents = ""
        for command in wanted.commands:
            _measure(command, program, out, wanted.root)
            documents += out.read_text(encoding="utf-8") if has_documents else ""
        late = {key: max(late[key], after) for key, after in _lateness_us().items()}
        figures = documents if has_documents else out.read_text(encoding="utf-8")
    invalid = _invalid(machine, late, load)
    conditions = {
        "schema": _SCHEMA,
        "date": datetime.now(UTC).date().isoformat(),
        "version": cp.__version__,
        "description": wanted._description,
        "program": _sha256(Path(program)),
        "code": code_digest(wanted.root),
        "commands": wanted.commands,
        "machine": machine,
        "lateness_us": late,
        "load": load,
        "invalid": invalid,
    }
    measured = Recording.__new__(Recording)
    measured.__dict__ = dict(wanted.__dict__)
    measured._cells = measured._read(figures)
    measured.check()
    files = {
        wanted._about["file"]: figures,
        f"{_CONDITIONS}/{wanted.name}.json": json.dumps(conditions, indent=2) + "\n",
    }
    for file, text in files.items():
        cp._report.write_text(wanted.root / file, text)
    return f"{wanted.name}: {', '.join(files)}" + (f" (invalid: {'; '.join(invalid)})" if invalid else "")


def _measure(command: str, program: str, out: Path, root: Path) -> None:
    """Runs a command: its words, of which ``CELLPACE`` is the program and ``OUT.json`` the file to write."""
    words = [{"CELLPACE": program, "OUT.json": str(out)}.get(word, word) for word in command.split()]
    done = subprocess.run(words, cwd=root, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise WrongClaim(f"`{command}` ended with {done.returncode}")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _read_conditions(file: Path) -> dict[str, Any]:
    conditions: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if conditions.get("schema") != _SCHEMA:
        raise WrongClaim(f"{file}: has the schema `{conditions.get('schema')}`, not `{_SCHEMA}`")
    return conditions


def _invalid(machine: dict[str, Any], late: dict[str, int], load: float) -> list[str]:
    """Why a recording does not count."""
    why = [f"timers fired late: p99 {late['p99']} us"] if late["p99"] > _MAX_LATENESS_US else []
    return why + ([f"load {load} at the start on {machine['cores']} cores"] if load > machine["cores"] else [])


def _machine() -> dict[str, Any]:
    """What a reader of a recording has to know of the machine. No name, user, address or path."""

    def first(file: str, name: str) -> str:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")

    return {
        "cores": os.cpu_count() or 1,
        "cpu": first("/proc/cpuinfo", "model name") or "unknown",
        "memory_mb": int((first("/proc/meminfo", "MemTotal") or "0").split()[0]) // 1024,
        "kernel": platform.release(),
        "is_virtual": "hypervisor" in first("/proc/cpuinfo", "flags").split(),
        # CAP_SYS_NICE (linux/capability.h).
        "has_real_time_priority": bool(int(first("/proc/self/status", "CapEff") or "0", 16) >> 23 & 1),
    }


def _machine_text(machine: dict[str, Any]) -> str:
    kind = "virtual machine" if machine["is_virtual"] else "machine"
    cpu, memory, kernel = machine["cpu"], machine["memory_mb"], machine["kernel"]
    return f"{kind} with {machine['cores']} cores ({cpu}), {memory} MB, Linux {kernel}"


def _lateness_us() -> dict[str, int]:
    """How much later than asked 200 timers of 2 ms fire."""
    late = []
    for _ in range(200):
        asked = time.monotonic() + 0.002
        time.sleep(0.002)
        late.append(max(0, int((time.monotonic() - asked) * 1e6)))
    late.sort()
    return {"p50": late[100], "p99": late[198], "max": late[-1]}
