"""Recorded traces from the repositories that published them: ``sources.csv`` says where, under which licence, and what
they hash to."""

from __future__ import annotations

import csv
import hashlib
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).with_name("sources.csv")
_BASE = "https://raw.githubusercontent.com"
_TIMEOUT_S = 60


class Unfetched(Exception):
    """Some files could not be had. The text says which, and where they are."""


class Source(NamedTuple):
    """A published file."""

    repository: str
    path: str
    bytes: int
    sha256: str
    licence: str
    name: str
    """What claims call it, below the folder of traces; empty where no claim asks for it."""


def sources() -> list[Source]:
    """All published traces and matrices that are known."""
    with SOURCES.open(encoding="utf-8", newline="") as file:
        return [
            Source(row["repository"], row["path"], int(row["bytes"]), row["sha256"], row["licence"], row["name"])
            for row in csv.DictReader(file)
        ]


def folder() -> Path:
    """Where fetched traces are kept, unless ``CELLPACE_TRACES`` names another folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cellpace" / "traces"


def fetch(wanted: list[Source], into: Path, say: Callable[[str], None], base: str = _BASE) -> int:
    """Fetches what is not there yet or is another file, and returns how many. A file counts only with its hash."""
    missing = [one for one in wanted if not _is(into / one.name, one)]
    failed = []
    for one in missing:
        url = f"{base}/{one.repository}/HEAD/{one.path}"
        try:
            _fetch(one, url, into / one.name)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            failed.append(f"{one.name}: {url}: {reason}")
            continue
        say(f"{one.name}: {one.bytes} bytes from {one.repository} ({one.licence})")
    if failed:
        raise Unfetched(f"{len(failed)} of {len(missing)} files cannot be fetched\n  " + "\n  ".join(failed))
    return len(missing)


def _fetch(one: Source, url: str, file: Path) -> None:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
        found = response.read(one.bytes + 1)
    if hashlib.sha256(found).hexdigest() != one.sha256:
        raise ValueError(f"is not the file of {one.bytes} bytes that is known, {one.sha256}")
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    aside.write_bytes(found)
    aside.replace(file)


def _is(file: Path, one: Source) -> bool:
    if not file.is_file() or file.stat().st_size != one.bytes:
        return False
    return hashlib.sha256(file.read_bytes()).hexdigest() == one.sha256
