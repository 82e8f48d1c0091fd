"""What Dask adds to a sweep, and what that means for a thousand workers.

    python sweep.py [CELLS]

CELLS (100 000) of one second on a LocalCluster of two workers, then a thousand units of one short cell
each, for the cost of a task. Scheduler and client are in this process: its processor time is what they
take, whatever else the machine does.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import distributed

import cellpace as cp
import cellpace._dask as cluster_sweep
from cellpace._sweep_worker import UnitReport


class Measured(cluster_sweep._Driver):
    """Notes what workers report."""

    simulated_s = 0.0
    units: list[float] = []

    def _keep(self, unit: Any, report: UnitReport) -> None:
        type(self).simulated_s += report.seconds
        self.units.append(report.seconds)
        super()._keep(unit, report)


def measured(plan: dict[str, Any], client: distributed.Client) -> tuple[float, float]:
    """Wall and processor time of client and scheduler, in seconds."""
    Measured.simulated_s, Measured.units = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        begun, worked = time.perf_counter(), time.process_time()
        cp.sweep(plan, out=Path(folder) / "out", client=client, progress=False)
        return time.perf_counter() - begun, time.process_time() - worked


def main(cells: int) -> None:
    cluster_sweep._Driver = Measured  # type: ignore[misc]
    plan = {"trace": "constant:12mbit", "duration": "1s", "skip": "0s", "cc": ["cubic", "copa"]}
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        warm = plan | {"seeds": range(100)}
        measured(warm, client)
        wall, work = measured(plan | {"seeds": range(cells // 2)}, client)
        simulated, units = Measured.simulated_s, Measured.units
        outside = 1 - simulated / (2 * wall)
        print(f"{cells} cells of 1 s: {wall:.1f} s, {cells / wall:.0f} cells/s")
        print(f"  {len(units)} units, median {statistics.median(units):.2f} s")
        print(f"  outside of the simulator: {100 * outside:.1f} % of the time of two workers")
        print(f"  client and scheduler: {1e6 * work / cells:.1f} us of processor time a cell")
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            cp.sweep(plan | {"seeds": range(cells // 2)}, out=Path(folder) / "out", progress=False)
            alone = time.perf_counter() - begun
        print(f"  without Dask, on two threads: {alone:.1f} s, {100 * (wall / alone - 1):+.1f} % by Dask")
        cluster_sweep.MIN_UNIT_S = cluster_sweep.SHORT_UNIT_S = 0.0
        cluster_sweep.THREADS_PER_UNIT_S = 10**9
        tiny = plan | {"duration": "10ms", "seeds": range(500)}
        wall, work = measured(tiny, client)
        tasks = len(Measured.units)
        print(f"{tasks} tasks of one short cell: {1e3 * wall / tasks:.2f} ms each,", end=" ")
        print(f"of which {1e3 * work / tasks:.2f} ms of processor time of client and scheduler")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
