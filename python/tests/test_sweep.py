"""Sweeps on the cores of this machine: the program's folders, bytes and sentences."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Program, contents
from newreno import NewRenoPort

import cellpace as cp

PLAN = """
trace = ["constant:4mbit", "lte-driving"]
rtt = ["20ms", "80ms"]
duration = "3s"
seeds = "1..5"

[[cc]]
name = "cubic"

[[cc]]
name = "verus"
r = [2, 4]
"""

SAME: dict[str, Any] = {
    "trace": ["constant:4mbit", "lte-driving"],
    "rtt": [timedelta(milliseconds=20), "80ms"],
    "duration": "3s",
    "seeds": range(1, 6),
    "cc": [{"name": "cubic"}, {"name": "verus", "r": np.array([2, 4])}],
}


def test_a_sweep_is_the_programs(program: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    program("sweep", str(plan), "--out", str(tmp_path / "theirs"))
    ours = cp.sweep(plan)
    assert (ours.folder, len(ours), ours.new, ours.errors) == (tmp_path / "plan", 60, 60, 0)
    assert contents(tmp_path / "plan") == contents(tmp_path / "theirs")
    alone = cp.sweep(plan, out=tmp_path / "alone", jobs=1)
    assert contents(alone.folder) == contents(ours.folder)
    again = cp.sweep(plan)
    assert (again.new, repr(again)) == (0, f"60 runs in {tmp_path / 'plan'}")


def test_a_plan_in_python_has_the_same_rows(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    table = cp.sweep(plan).table()
    other = cp.sweep(SAME | {"rtt": ["20ms", "80ms"]}, out=tmp_path / "other").table()
    assert str(table.to_dicts()) == str(other.to_dicts())  # a missing value is not even itself
    assert table["cc_r"].tolist()[5:15] == [2.0] * 5 + [4.0] * 5
    # The same times in other words are other runs, with the same figures.
    written = cp.sweep(SAME, out=tmp_path / "written").table()
    for column in ("throughput_mbps", "queue_delay_ms_p95", "seed"):
        assert written[column].tolist() == table[column].tolist()


def test_rows_are_what_compare_has(tmp_path: Path) -> None:
    plan = {"trace": "umts-driving", "cc": ["copa", "bbr"], "duration": "5s", "seeds": [1, 2]}
    rows = cp.sweep(plan, out=tmp_path / "out").table()
    runs = cp.compare(["copa", "bbr"], "umts-driving", duration="5s", seeds=[1, 2])
    for column in ("cc", "seed", "throughput_mbps", "queue_delay_ms_p95", "packets", "jain"):
        assert rows[column].tolist() == runs[column].tolist()


def test_a_cell_that_fails_is_a_row_with_its_cause(tmp_path: Path) -> None:
    plan = {"trace": "constant:4mbit", "cc": "cubic", "duration": ["3s", "1s"], "skip": "2s"}
    results = cp.sweep(plan, out=tmp_path / "out")
    assert (len(results), results.errors) == (2, 1)
    [failed] = results.failed()
    assert failed["plan_duration"] == "1s" and "skip (2s) leaves nothing" in failed["error"]
    assert "; 1 failed, the first: cubic on constant:4mbit: " in repr(results)


def test_progress_has_an_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[cp.SweepProgress] = []
    plan = {"trace": "constant:100mbit", "cc": "cubic", "duration": "10s", "seeds": range(40)}
    cp.sweep(plan, out=tmp_path / "out", jobs=1, progress=seen.append)
    assert seen and all(one.cells == 40 and one.done == one.new <= 40 for one in seen)
    assert any(one.seconds_left is not None for one in seen)
    cp.sweep(plan, out=tmp_path / "shown", progress=True)
    assert re.search(r"\d+ of 40 runs", capsys.readouterr().err)
    half = cp.SweepProgress(done=60, cells=100, new=20, seconds=10)
    assert str(half) == "60 of 100 runs, 2/s, 20 s left"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cc": "verbus"}, "cc[0]: there is no controller `verbus`; did you mean `verus`?"),
        ({"cc": {"name": "verus", "q": 1}}, "cc[0]: `verus` has no parameter `q`"),
        ({"cc": {"name": "verus", "r": []}}, "cc[0].r: an empty list: no cell would remain"),
        ({"trace": []}, "trace: an empty list: no cell would remain"),
        ({"seeds": range(3, 3)}, "seeds: an empty list: no cell would remain"),
        ({"seeds": 4}, "seeds: 4 could be one seed or so many"),
        ({"rtt": 40}, "rtt: 40 has no unit; write a text such as"),
        ({"rtt": "40"}, "rtt: `40` needs a unit"),
        ({"queue": "codel:5ms"}, "queue: "),
        ({"tace": "x"}, "plan: there is no field `tace`; did you mean `trace`?"),
        ({"trace": "gone.trace"}, "trace: "),
        ({"duration": "1s"}, "skip (2s) leaves nothing"),
    ],
)
def test_errors_are_the_programs_and_leave_nothing(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    plan = {"trace": "constant:4mbit", "cc": "cubic", "duration": "3s"} | change
    with pytest.raises(cp.CellpaceError, match=re.escape(sentence)):
        cp.sweep(plan, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cp.CellpaceError, match="out: name the folder of the results"):
        cp.sweep(SAME)
    with pytest.raises(cp.CellpaceError, match="there is no file `gone.toml`"):
        cp.sweep("gone.toml")
    with pytest.raises(TypeError, match="plan: a file or a dictionary is needed, not int"):
        cp.sweep(3, out=tmp_path)  # type: ignore[arg-type]
    trace = cp.Trace.from_times_ms(range(1, 1000))
    with pytest.raises(TypeError, match="trace: a plan names traces"):
        cp.sweep(SAME | {"trace": [trace]}, out=tmp_path / "out")


def test_a_folder_belongs_to_one_plan(tmp_path: Path) -> None:
    cp.sweep(SAME, out=tmp_path / "out")
    with pytest.raises(cp.CellpaceError, match="differs in `seeds`; name another folder"):
        cp.sweep(SAME | {"seeds": [9]}, out=tmp_path / "out")
    # The error has not kept the folder to itself.
    assert cp.sweep(SAME, out=tmp_path / "out").new == 0


LONG = """
import cellpace as cp
plan = {"trace": "constant:100mbit", "queue": "droptail:200kB", "duration": "10s", "cc": "copa",
        "seeds": range(1, %d)}
print("begins", flush=True)
cp.sweep(plan, out="out", progress=lambda at: print(at.new, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_stopped_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    # A fast machine may finish the shorter ones before the signal comes.
    for runs in (64, 512):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        command = [sys.executable, "-c", LONG % runs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() not in ("begins", "0"):
                    break
            process.send_signal(number)
            try:
                code = process.wait(timeout=60)
            finally:
                process.kill()
        if code != 0:
            break
    assert code == -number
    plan = json.loads((tmp_path / "out" / "manifest.json").read_text())["plan"]
    rest = cp.sweep(plan, out=tmp_path / "out")
    assert 0 < rest.new < len(rest)
    whole = cp.sweep(plan, out=tmp_path / "whole")
    assert contents(rest.folder) == contents(whole.folder)


def test_controllers_of_ones_own_are_cells(tmp_path: Path) -> None:
    class Wrong(cp.Controller):
        def on_loss(self, loss: cp.LossEvent) -> None:
            raise RuntimeError(f"at {loss.now:.1f} s")

    plan = {"trace": ["constant:4mbit", "lte-driving"], "cc": ["newreno", NewRenoPort, Wrong], "loss": "1%"}
    plan |= {"duration": "5s", "seeds": range(1, 4)}
    results = cp.sweep(plan, out=tmp_path / "out", jobs=2)
    assert results.errors == 6 and {row["cc"] for row in results.failed()} == {"Wrong"}
    assert all(" s after the start: RuntimeError: at " in row["error"] for row in results.failed())
    rows = {(row["cc"], row["trace"], row["seed"]): row for row in results.table().to_dicts()}
    for (cc, trace, seed), row in rows.items():
        if cc == "NewRenoPort":
            theirs = rows["newreno", trace, seed]
            assert [row[name] for name in ("packets", "utilization")] == [theirs["packets"], theirs["utilization"]]
    assert "NewRenoPort" in results.manifest["files"]
    assert cp.sweep(plan, out=tmp_path / "out").new == 0

    class NewRenoPort2(NewRenoPort):
        name = "NewRenoPort"

    with pytest.raises(cp.CellpaceError, match="NewRenoPort"):
        cp.sweep(plan | {"cc": ["newreno", NewRenoPort2, Wrong]}, out=tmp_path / "out")
    for ccs, sentence in (
        ([NewRenoPort, NewRenoPort2], "given twice"),
        ([type("cubic", (NewRenoPort,), {})], "`cubic` is a built-in controller"),
    ):
        with pytest.raises(cp.CellpaceError, match=sentence):
            cp.sweep(plan | {"cc": ccs}, out=tmp_path / "other")
