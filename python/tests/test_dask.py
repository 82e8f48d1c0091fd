"""Sweeps on clusters of Dask: the bytes of one core, whatever dies."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import contents

import cellpace as cp

distributed: Any = pytest.importorskip("distributed", reason="no distributed")
import dask.config  # noqa: E402

import cellpace._dask  # noqa: E402

pytestmark = [
    # Workers that are killed leave sockets and processes to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN: dict[str, Any] = {
    "trace": ["constant:4mbit", "own.trace"],
    "cc": ["cubic", {"name": "verus", "r": [2, 4]}],
    "duration": ["3s", "1s"],
    "skip": "1500ms",
    "seeds": range(1, 9),
}
"""Its cells of 1 s contradict themselves."""

LONG: dict[str, Any] = {
    "trace": "constant:100mbit",
    "queue": "droptail:200kB",
    "duration": "2s",
    "skip": "0s",
    "cc": ["copa", "cubic"],
    "seeds": range(1, 101),
}
"""200 cells of some milliseconds, or more on a slow machine."""


@pytest.fixture
def short_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of a cell or two: much can happen between them."""
    monkeypatch.setattr(cellpace._dask, "MIN_UNIT_S", 0.01)
    monkeypatch.setattr(cellpace._dask, "SHORT_UNIT_S", 0.01)
    monkeypatch.setattr(cellpace._dask, "THREADS_PER_UNIT_S", 10_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace, in which the workers are not."""
    monkeypatch.chdir(tmp_path)
    cp.Trace.from_times_ms(range(2, 1000, 2)).save("own.trace")
    return tmp_path


@pytest.fixture(scope="module")
def long_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the long plan gives without a cluster."""
    return contents(cp.sweep(LONG, out=tmp_path_factory.mktemp("alone") / "out", jobs=1).folder)


def pids(cluster: Any) -> list[int]:
    """Those of workers that the scheduler knows: what has not begun cannot be killed at work."""
    known = cluster.scheduler.workers
    return [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in known]


def test_a_cluster_gives_the_bytes_of_one_core(client: Any, folder: Path) -> None:
    alone = cp.sweep(PLAN, out="alone", jobs=1)
    seen: list[cp.SweepProgress] = []
    there = cp.sweep(PLAN, out="there", client=client, progress=seen.append)
    assert contents(there.folder) == contents(alone.folder)
    assert (len(there), there.new, there.errors) == (96, 96, 48)
    assert "skip (1500ms) leaves nothing" in there.failed()[0]["error"]
    assert seen[-1].done == 96
    assert cp.sweep(PLAN, out="there", client=client).new == 0


def test_controllers_of_ones_own_travel_to_workers(client: Any, folder: Path) -> None:
    class Mine(cp.Controller):
        cwnd = 30_000

        def on_ack(self, ack: cp.AckEvent) -> None:
            self.cwnd += 1

    plan = PLAN | {"cc": ["cubic", Mine, Mine30()], "duration": "3s"}
    alone = cp.sweep(plan, out="alone", jobs=1)
    assert contents(cp.sweep(plan, out="there", client=client).folder) == contents(alone.folder)
    assert len(set(alone.table()["packets"].tolist())) == 3 and alone.errors == 0


class Mine30(cp.Controller):
    """A window of 20 packets."""

    cwnd = 30_000


def test_workers_need_not_share_the_folder(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = cp.sweep(PLAN, out="alone")
    # The token is where no worker looks for it.
    monkeypatch.setattr(cellpace._dask, "TOKEN_FILE", ".elsewhere")
    assert contents(cp.sweep(PLAN, out="apart", client=client).folder) == contents(alone.folder)


def test_ten_workers_are_killed_at_random(
    cluster: Any, client: Any, folder: Path, long_alone: dict[str, bytes], short_units: None
) -> None:
    draw = random.Random(7)
    marks = sorted(draw.sample(range(5, 180), 10))

    def kill(progress: cp.SweepProgress) -> None:
        if marks and progress.new >= marks[0] and (alive := pids(cluster)):
            marks.pop(0)
            os.kill(draw.choice(alive), signal.SIGKILL)

    results = cp.sweep(LONG, out="out", client=client, progress=kill)
    assert not marks, f"{10 - len(marks)} workers were killed"
    assert contents(results.folder) == long_alone
    assert results.errors == 0


def test_workers_that_cannot_write_send_their_results(
    client: Any, folder: Path, long_alone: dict[str, bytes]
) -> None:
    # All of them: which worker gets how much is for the scheduler to say.
    def limit(size: int) -> None:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))

    client.run(limit, 0)
    try:
        with pytest.warns(UserWarning, match="File too large.*; results of this worker come"):
            results = cp.sweep(LONG, out="out", client=client)
    finally:
        client.run(limit, resource.RLIM_INFINITY)
    assert contents(results.folder) == long_alone


FULL = f"""
import cellpace as cp, cellpace._dask as dask, resource, sys
dask.MIN_UNIT_S = dask.SHORT_UNIT_S = 0.01
dask.TOKEN_FILE = ".elsewhere"
def fill(progress):
    if progress.new:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    cp.sweep({LONG!r}, out="out", client=sys.argv[1], progress=fill)
except cp.CellpaceError as error:
    print(error)
"""


def test_a_disk_that_is_full_ends_the_sweep_and_loses_nothing(
    cluster: Any, client: Any, folder: Path, long_alone: dict[str, bytes]
) -> None:
    command = [sys.executable, "-c", FULL, cluster.scheduler_address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "File too large" in done.stdout
    rest = cp.sweep(LONG, out="out", client=client)
    assert 0 < rest.new < 200
    assert contents(rest.folder) == long_alone


CUSTOMIZED = """
import os
import cellpace._sweep_worker as worker
run = worker.run_cells
def run_cells(sweep, first, end):
    if first <= 33 < end:
        os.abort()
    return run(sweep, first, end)
worker.run_cells = run_cells
"""


def test_a_cell_that_ends_its_process_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLAN | {"trace": "constant:4mbit", "duration": "3s"}
    alone = cp.sweep(plan | {"seeds": [*range(1, 17)]}, out="alone").table().to_dicts()
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(CUSTOMIZED)
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as fragile,
    ):
        results = cp.sweep(plan | {"seeds": [*range(1, 17)]}, out="out", client=fragile)
    assert results.errors == 1
    rows = results.table().to_dicts()
    assert rows[33]["error"] == "the run ended its process: Aborted"
    assert [rows[33][name] for name in ("cc", "seed")] == [alone[33][name] for name in ("cc", "seed")]
    del rows[33], alone[33]
    assert list(map(known, rows)) == list(map(known, alone))


def known(row: dict[str, Any]) -> dict[str, Any]:
    """Its values without those that are missing."""
    return {name: value for name, value in row.items() if value == value}


CLIENT = f"""
import cellpace as cp, cellpace._dask as dask, sys
dask.MIN_UNIT_S = dask.SHORT_UNIT_S = 0.01
dask.THREADS_PER_UNIT_S = 10_000
cp.sweep({LONG!r}, out="out", client=sys.argv[1], progress=lambda at: print(at.new, flush=True))
"""


def test_a_client_that_is_killed_loses_nothing(
    cluster: Any, client: Any, folder: Path, long_alone: dict[str, bytes]
) -> None:
    command = [sys.executable, "-c", CLIENT, cluster.scheduler_address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        done = next(int(line) for line in process.stdout if line != "0\n")
        process.kill()
    assert 0 < done < 200
    rest = cp.sweep(LONG, out="out", client=client)
    assert rest.new <= 200 - done
    assert contents(rest.folder) == long_alone


SCHEDULER = """
import distributed, sys
if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def test_a_scheduler_that_is_killed_loses_nothing(
    folder: Path, long_alone: dict[str, bytes], short_units: None
) -> None:
    (folder / "scheduler.py").write_text(SCHEDULER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "scheduler.py"], **pipes, text=True)  # type: ignore[call-overload]
    kept = 0

    def kill(progress: cp.SweepProgress) -> None:
        nonlocal kept
        kept = progress.new
        if kept:
            process.kill()

    try:
        address = process.stdout.readline().strip()
        with pytest.raises(cp.CellpaceError, match=r"the scheduler is gone.*; \d+ of 200 runs are missing"):
            cp.sweep(LONG, out="out", client=address, progress=kill)
    finally:
        process.kill()
        process.wait()
    rest = cp.sweep(LONG, out="out")
    assert 0 < kept and rest.new <= 200 - kept
    assert contents(rest.folder) == long_alone


def test_a_search_on_a_cluster_finds_what_one_here_finds(client: Any, folder: Path) -> None:
    pytest.importorskip("optuna", reason="no optuna")
    search: dict[str, Any] = {"trace": "constant:4mbit", "duration": "6s", "trials": 6, "seeds": [1]}
    here = cp.tune("copa", ["delta"], **search)
    assert repr(cp.tune("copa", ["delta"], **search, client=client)) == repr(here)


def test_another_version_is_refused(client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp._native, "__version__", "9.9.9")
    with pytest.raises(cp.CellpaceError, match="this is 9.9.9: pip install cellpace==9.9.9 there"):
        cp.sweep(PLAN, out="out", client=client)


def test_a_scheduler_that_is_not_there_is_an_error(folder: Path) -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}):
        with pytest.raises(cp.CellpaceError, match="client: tcp://127.0.0.1:1: "):
            cp.sweep(PLAN, out="out", client="tcp://127.0.0.1:1")


def test_plans_that_are_wrong_reach_no_cluster(folder: Path) -> None:
    with pytest.raises(cp.CellpaceError, match="did you mean `cubic`"):
        cp.sweep(PLAN | {"cc": "cubik"}, out="out", client="local")


def test_a_cluster_for_the_time_of_a_sweep(folder: Path) -> None:
    (folder / "script.py").write_text(
        f"import cellpace as cp\nif __name__ == '__main__':\n"
        f"    print(cp.sweep({PLAN!r}, out='out', client='local'))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("96 runs in out; 48 failed")
    assert contents(folder / "out") == contents(cp.sweep(PLAN, out="alone").folder)
