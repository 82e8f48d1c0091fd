"""Sweeps on clusters of Dask.

The scheduler gets tasks that take seconds, a few for each thread at a time, and the files of the plan
once. Workers that share the folder write their results there, others send them. So whatever dies, what
is in the folder stays.
"""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from cellpace import _native
from cellpace._controller import OwnController, pickled
from cellpace._sweep_worker import TOKEN_FILE, SharedSweep, UnitReport, run_unit, run_unit_apart

try:
    import dask.config
    import distributed
    from distributed.scheduler import KilledWorker
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "sweeps on a cluster take Dask: pip install cellpace[sweep]", name=missing.name
    ) from None

if TYPE_CHECKING:
    from cellpace._sweep import ClusterLike

MIN_UNIT_S = 0.25
"""Shorter units would cost Dask more than a fiftieth of their time."""
SHORT_UNIT_S, LONG_UNIT_S = 2.0, 10.0
"""What a unit takes on a small cluster and on a large one."""
THREADS_PER_UNIT_S = 50
"""So many threads want units a second longer: the scheduler gets no more than 50 tasks a second, and
100 from 1000 threads."""
UNITS_PER_THREAD = 3
"""Units that the scheduler knows, for each thread."""
ATTEMPTS = 5
"""How often a unit is tried in processes of its own, whose workers die with it."""
LOOK_S = 2.0
"""How often the number of threads is asked for."""
SILENCE_S = 60.0
"""So long without a worker is worth a warning."""
GATHER_S = 5.0
"""How long the results of units that have ended may take to arrive."""
SHARED = "cellpace-sweep"
"""How keys of the sweep itself begin."""
ROUNDS = 3
"""How often what should be in the folder and is not is done again."""


@dataclass
class _Unit:
    """Cells that a worker has."""

    first: int
    end: int
    estimate_s: float
    attempts: int = 0
    """How often they were tried apart; 0: not."""
    future: Any = field(default=None, repr=False)
    """What Dask knows it by."""


def sweep_on(
    cluster: ClusterLike,
    planned: _native.Sweep,
    folder: _native.SweepFolder,
    root: Path,
    report: Callable[[int], None],
    own: Iterable[OwnController],
) -> None:
    """Runs what the folder misses. ``report`` is called with the number of cells done so far."""
    with _client(cluster) as client, _token(root) as token:
        shared = SharedSweep(
            planned.plan(),
            planned.files(),
            _native.__version__,
            planned.identity,
            str(root.resolve()),
            token,
            [(name, source, pickled(make)) for name, source, make in own],
        )
        driver = _Driver(client, planned, folder, shared, report)
        for _ in range(ROUNDS):
            missing = folder.missing()
            if not missing:
                return
            driver.run(missing)
        if folder.missing():
            raise _native.CellpaceError(
                f"{root}: what workers write there does not appear: is it the same folder for all?"
            )


@contextmanager
def _client(cluster: ClusterLike) -> Iterator[Any]:
    """A client for the time of a sweep; what is made here is closed again."""
    if isinstance(cluster, distributed.Client):
        if cluster.asynchronous:
            raise TypeError("client: an asynchronous client cannot be waited for; use another")
        yield cluster
    elif cluster == "local":
        # A worker that starts again twice in a row is not to be given up.
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
            distributed.LocalCluster(threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
            distributed.Client(local, set_as_default=False) as client,
        ):
            yield client
    else:
        try:
            client: Any = distributed.Client(cluster, set_as_default=False)
        except (OSError, ValueError) as error:
            raise _native.CellpaceError(f"client: {cluster}: {error}") from None
        with client:
            yield client


@contextmanager
def _token(root: Path) -> Iterator[str]:
    """What workers that share the folder find there."""
    token = secrets.token_hex(16)
    path = root / TOKEN_FILE
    try:
        path.write_text(token)
        yield token
    except OSError as error:
        raise _native.CellpaceError(f"{path}: {error.strerror}") from None
    finally:
        path.unlink(missing_ok=True)


class _Driver:
    """Hands out units and takes in their results, on the thread of the caller."""

    def __init__(
        self,
        client: Any,
        planned: _native.Sweep,
        folder: _native.SweepFolder,
        shared: SharedSweep,
        report: Callable[[int], None],
    ) -> None:
        self._client, self._planned, self._folder = client, planned, folder
        self._token, self._report = shared.token, report
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._pending: dict[str, _Unit] = {}
        self._again: deque[_Unit] = deque()
        self._missing: deque[tuple[int, int]] = deque()
        self._submitted = self._new = 0
        # Seconds that finished units took, and should have taken.
        self._took_s = self._estimated_s = 0.0
        self._looked = -math.inf
        self._seen = time.monotonic()
        """When workers were there last."""
        self._threads = 1
        self._has_warned = False
        self._sent, self._copies = shared, 0
        self._share()

    def _share(self) -> None:
        """Sends the sweep to the scheduler, as a task: it has another copy made when all workers that
        have one are gone. When too many died while they made one, it is sent again."""
        self._copies += 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            key = f"{SHARED}-{self._copies}-{self._token}"
            self._shared = self._client.submit(_same, self._sent, key=key)

    def run(self, missing: list[tuple[int, int]]) -> None:
        self._missing.extend(missing)
        try:
            while self._missing or self._again or self._pending:
                self._look()
                self._hand_out()
                self._take_in()
                self._report(self._new)
        except (OSError, distributed.client.FutureCancelledError) as error:
            raise self._gone() from error
        finally:
            futures = [unit.future for unit in self._pending.values() if unit.future is not None]
            self._pending.clear()
            if self._client.status == "running":
                with suppress(Exception):  # the scheduler may be gone all the same
                    self._client.cancel(futures)

    def _look(self) -> None:
        """Notices a scheduler that is gone, and workers that come and go."""
        if self._client.status != "running":
            raise self._gone()
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            threads = sum(self._client.nthreads().values())
            self._threads = max(1, threads)
            self._warn_of_silence(threads)

    def _warn_of_silence(self, threads: int) -> None:
        if threads:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > SILENCE_S:
            self._seen = math.inf
            warnings.warn("no worker is there; the sweep waits for one", stacklevel=2)

    def _gone(self) -> _native.CellpaceError:
        left = sum(end - first for first, end in self._folder.missing())
        return _native.CellpaceError(
            f"the scheduler is gone or has cancelled the sweep; {left} of {self._planned.cells} runs are missing: the same call "
            "goes on"
        )

    def _hand_out(self) -> None:
        while len(self._pending) < UNITS_PER_THREAD * self._threads:
            if self._again:
                unit = self._again.popleft()
            elif self._missing:
                unit = self._cut()
            else:
                return
            self._submit(unit)

    def _cut(self) -> _Unit:
        """The next cells, so many that units neither cost more than they do nor end far apart."""
        slowness = self._took_s / self._estimated_s if self._estimated_s else 1.0
        left = sum(end - first for first, end in self._missing)
        first, end = self._missing.popleft()
        longest = min(max(self._threads / THREADS_PER_UNIT_S, SHORT_UNIT_S), LONG_UNIT_S)
        per_cell = self._estimated_s / self._new if self._new else self._planned.cut(first, end, 0, 1)[1]
        together = left * per_cell * slowness / (UNITS_PER_THREAD * self._threads)
        wanted = min(max(together, MIN_UNIT_S), longest)
        cut, estimate = self._planned.cut(first, end, wanted / slowness, end - first)
        if cut < end:
            self._missing.appendleft((cut, end))
        return _Unit(first, cut, estimate)

    def _submit(self, unit: _Unit) -> None:
        if self._shared.status == "error":
            self._share()
        self._submitted += 1
        future = self._client.submit(
            run_unit_apart if unit.attempts else run_unit,
            self._shared,
            unit.first,
            unit.end,
            key=f"cellpace-cells-{unit.first}-{unit.end}-{self._submitted}-{self._token}",
            pure=False,
        )
        unit.future = future
        self._pending[future.key] = unit
        future.add_done_callback(self._done.put)

    def _take_in(self) -> None:
        ended = []
        with suppress(Empty):
            ended.append(self._done.get(timeout=0.2))
            while True:
                ended.append(self._done.get_nowait())
        reports = self._gather([future for future in ended if future.status == "finished"])
        for future in ended:
            unit = self._pending.pop(future.key)
            if unit.first in reports:
                self._keep(unit, reports[unit.first])
            else:
                self._retry(unit, future)
            future.release()

    def _gather(self, futures: list[Any]) -> dict[int, UnitReport]:
        """The reports that workers still have, by their first cells. Dask would have what a worker took
        with it done again, and wait for that, now and then for ever."""
        if not futures:
            return {}
        try:
            gather = self._client._gather
            reports = self._client.sync(gather, futures, errors="skip", callback_timeout=GATHER_S)
            return {report.pieces[0].first: report for report in reports}
        except TimeoutError:
            if len(futures) == 1:
                return {}
            found: dict[int, UnitReport] = {}
            for future in futures:
                found |= self._gather([future])
            return found

    def _keep(self, unit: _Unit, report: UnitReport) -> None:
        if report.problem and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{report.problem}; results of this worker come by way of here", stacklevel=2)
        for piece in report.pieces:
            if piece.bytes is not None:
                self._folder.write(piece.first, piece.end, piece.bytes)
            self._folder.add(piece.first, piece.end)
        self._new += unit.end - unit.first
        if not unit.attempts:
            self._took_s += report.seconds
            self._estimated_s += unit.estimate_s

    def _retry(self, unit: _Unit, future: Any) -> None:
        """What to do with a unit that has no result."""
        if future.status == "cancelled":
            raise self._gone()
        error = future.exception() if future.status == "error" else None
        if error is None or (isinstance(error, KilledWorker) and _is_shared(error.task)):
            # Its worker died with the result, or others did before they had begun.
            self._again.append(unit)
            return
        if isinstance(error, _native.CellpaceError):
            raise error
        if isinstance(error, ModuleNotFoundError):
            raise _native.CellpaceError(
                f"a worker cannot run cellpace ({error}): pip install cellpace=={_native.__version__} there"
            )
        if unit.attempts >= ATTEMPTS:
            raise _native.CellpaceError(f"cells {unit.first} to {unit.end}, {ATTEMPTS} times: {error}")
        unit.attempts += 1
        self._again.append(unit)


def _is_shared(key: object) -> bool:
    return str(key).startswith(SHARED)


def _same(shared: SharedSweep) -> SharedSweep:
    return shared
