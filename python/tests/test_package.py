"""What is in the wheel, and that its types are true."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import cellpace as cp
import pytest

SOURCES = Path(__file__).parent.parent


def test_the_package_is_the_installed_one() -> None:
    found = Path(cp.__file__)
    assert "site-packages" in found.parts and SOURCES not in found.parents


def test_what_is_cited_is_what_the_repository_describes() -> None:
    described = (SOURCES.parent / "CITATION.cff").read_text(encoding="utf-8")
    lines = cp.cite().splitlines()
    cited = dict(line.strip(" ,").split(" = ", 1) for line in lines if " = " in line)
    assert lines[0] == "@software{cellpace," and cited["version"] == f"{{{cp.__version__}}}"
    for field in ("title", "version", "url"):
        assert cited[field].strip("{}") in described


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    path = os.environ.get("CELLPACE_WHEEL", "")
    if not path:
        pytest.skip("no wheel: ./dev python --released builds one")
    return zipfile.ZipFile(path)


def test_the_wheel_has_what_it_needs_and_no_more(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert [name for name in names if name.endswith(".so")] == ["cellpace/_native.abi3.so"]
    assert {"cellpace/py.typed", "cellpace/_native.pyi"} <= set(names)
    licences = [Path(name).name for name in names if "/licenses/" in name]
    assert sorted(set(licences)) == ["LICENSE-APACHE", "LICENSE-MIT"]
    others = [n for n in names if not n.startswith(("cellpace/", f"cellpace-{cp.__version__}"))]
    assert others == [] and not any("test" in name for name in names)
    assert Path(str(wheel.filename)).stat().st_size < 8_000_000
    assert "cp311-abi3" in Path(str(wheel.filename)).name


def test_no_path_of_the_machine_that_built_it_is_inside(wheel: zipfile.ZipFile) -> None:
    native = wheel.read("cellpace/_native.abi3.so")
    # What follows is where sources and registry of whoever builds it are.
    for place in (SOURCES.parent, Path.home()):
        assert f"{place}/".encode() not in native, place


@pytest.mark.parametrize("checked", ["tests", "package"])
def test_types(checked: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy")
    if checked == "tests":
        command = ["mypy", "--config-file", str(SOURCES / "pyproject.toml"), "--cache-dir", str(tmp_path)]
        command += [str(path) for path in sorted((SOURCES / "tests").glob("*.py"))]
    else:
        command = ["mypy.stubtest", "cellpace._native"]
    # With the tests the claims of papers, which one of them imports.
    environment = os.environ | {"MYPYPATH": str(SOURCES.parent)}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_in_docstrings_run() -> None:
    import doctest

    import cellpace._controller as module

    assert doctest.testmod(module).failed == 0


def test_the_first_example_of_the_page_runs() -> None:
    page = (SOURCES.parent / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(example, names)
    assert isinstance(names["runs"], cp.Results) and len(names["runs"]) == 30
