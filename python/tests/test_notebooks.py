"""The notebooks run from the first cell to the last, and what they show can be shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))

# Runs the cells as a notebook does: the value of a cell's last expression is shown.
RUNNER = """
import ast, importlib.util, json, sys

def run(source, names, at):
    tree = ast.parse(source, f"cell {at}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {at}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {at}", "eval"), names)
        show = getattr(value, "_repr_html_", None)
        print(repr(value) if show is None else len(show()))

if __name__ == "__main__":
    cells = json.load(open(sys.argv[1]))
    needed = cells["metadata"].get("needs", [])
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit("needs " + ", ".join(missing))
    names = {"__name__": "__main__"}
    code = [cell for cell in cells["cells"] if cell["cell_type"] == "code"]
    for at, cell in enumerate(code, 1):
        run("".join(cell["source"]), names, at)
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    done = subprocess.run(
        [sys.executable, str(runner), str(notebook)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    if done.stderr.startswith("needs "):
        pytest.skip(f"the notebook {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells), "clear them before committing"
