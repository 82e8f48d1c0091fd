"""What tests share. They run against the installed wheel, outside of the sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# The claims of papers, beside the package.
sys.path.append(str(Path(__file__).parents[2]))

Program = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keys of the tests, not of who runs them."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="session")
def program_path() -> str:
    """The program, with which the package is compared."""
    path = os.environ.get("CELLPACE_PROGRAM", "")
    if not Path(path).is_file():
        pytest.skip("no program `cellpace` was built: CELLPACE_PROGRAM names none")
    return path


@pytest.fixture(scope="session")
def program(program_path: str) -> Program:
    """Runs the program and returns what it prints."""

    def run(*arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            [program_path, *arguments], input=text, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def child() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code in a Python of its own."""

    def run(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)

    return run


def without_command(document: str) -> Any:
    """A document without the command line, which only the program has."""
    read = json.loads(document)
    read.pop("command", None)
    return read


def contents(folder: Path) -> dict[str, bytes]:
    """What files a folder has."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
