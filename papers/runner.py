"""Runs claims: each simulation once, on all cores, with what was simulated before taken from a cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cellpace as cp
from papers import records, scenarios
from papers.claims import Claim, Result, verdict_of
from papers.figures import Figures, WrongClaim
from papers.records import Located, Record
from papers.recordings import Recording, recording
from papers.tables import Trainer, named_in, training
from papers.traces import NeedsTraces, Traces

DEPTHS = ["quick", "as written", "full"]
"""``quick``: one seed and one start in the trace; ``full``: five seeds and ten starts."""
_MAX_AGE_S = 14 * 24 * 3600
"""Results of other versions are removed after this time."""


@dataclass
class Options:
    """How claims are run."""

    depth: str = "as written"
    traces: Path | None = None
    """The folder of recorded traces; without it generated ones stand for them."""
    jobs: int | None = None
    """Runs at the same time; ``None``: one per core."""
    fresh: bool = False
    """Whether results of earlier times are not used."""
    progress: bool = False
    """Whether to say on standard error how far it is."""


@dataclass
class Outcome:
    """What came out of a claim."""

    claim: Claim
    verdict: str
    expected: str
    """The verdict that was expected, at this depth."""
    results: list[Result] = field(default_factory=list)
    on_generated_traces: bool = False
    unrun: str | None = None
    """Why there is no verdict: ``needs traces``, or what went wrong. The verdict is then ``open``."""
    seconds: float = 0.0
    """Processor time of its runs; shared ones count for each claim."""

    @property
    def is_expected(self) -> bool:
        """Whether the verdict is the one expected. On generated traces any is."""
        if self.unrun is not None:
            return not self.has_failed
        return self.on_generated_traces or self.verdict == self.expected

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong."""
        return self.unrun is not None and self.unrun.startswith("failed")

    @property
    def shown(self) -> str:
        """The verdict with what it is about."""
        if self.unrun is not None:
            return self.unrun
        mode, notes = self.claim.mode, [recording(name).note for name in self.claim.recordings()]
        about = "in a model: " if mode == "model" else ""
        about = "not testable here; in a model: " if mode == "field" and self.claim.checks else about
        generated = ", on generated traces" if self.on_generated_traces else ""
        return f"{about}{self.verdict}{max(notes, default='')}{generated}"


class Measured:
    """The figures of the runs of a claim."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[list[str], list[Located]] | Recording] = {}

    def add(self, run: str, axes: Iterable[str], found: list[Located]) -> None:
        """Adds the records of a run."""
        self._runs[run] = ([*axes, "start", "seed"], found)

    def add_recording(self, run: str, of: Recording) -> None:
        """Adds what was measured with real packets."""
        self._runs[run] = of

    def field(self, run: str, name: str, only: tuple[str, str] | None) -> Figures:
        """The values of a field; ``only`` is an axis and the place on it that counts."""
        of = self._runs[run]
        if isinstance(of, Recording):
            return of.field(name, only)
        return records.field(of[1], of[0], name, only)

    def places(self, run: str, axis: str) -> list[str]:
        """The places of an axis."""
        of = self._runs[run]
        if isinstance(of, Recording):
            return of.places(axis)
        axes, found = of
        return list(dict.fromkeys(one.places[axes.index(axis)] for one in found)) if axis in axes else []

    def maps(self, run: str, which: str) -> list[Any]:
        """Pictures of trained tables."""
        of = self._runs[run]
        return [] if isinstance(of, Recording) else [one.record["maps"][which] for one in of[1]]


class _Job(NamedTuple):
    """A simulation that claims need."""

    text: str
    seed: int
    series: bool
    analysis: str | None

    def cost(self) -> float:
        """About how much work it is: what counts is the number of flows."""
        return 3 + self.text.count("[[flow]]")


class _Plan:
    """All simulations that claims need, each once."""

    def __init__(self, claims: list[Claim], options: Options, cache: Path) -> None:
        self.traces = Traces(options.traces, cache)
        self._trainer = Trainer(self.traces, cache, options.fresh)
        self._depth = options.depth
        self.unrun: dict[str, str] = {}
        self.jobs: dict[_Job, None] = {}
        self.cells: dict[str, dict[str, list[tuple[tuple[str, ...], _Job | Record]]]] = {}
        for claim in claims:
            try:
                self._add(claim)
            except NeedsTraces:
                self.unrun[claim.id] = "needs traces"
            except (WrongClaim, cp.CellpaceError, cp.InternalError) as error:
                self.unrun[claim.id] = f"failed: {error}"

    def _add(self, claim: Claim) -> None:
        if claim.needs_traces and self.traces.are_generated and names_recorded_traces(claim):
            raise NeedsTraces(claim.id)
        cells: dict[str, list[tuple[tuple[str, ...], _Job | Record]]] = {}
        for name, run in claim.runs.items():
            try:
                cells[name] = self._cells_of(claim, run.asked)
            except (WrongClaim, cp.CellpaceError) as error:
                raise WrongClaim(f"run {name}: {error}") from None
        self.cells[claim.id] = cells
        self.jobs |= dict.fromkeys(job for of in cells.values() for _, job in of if isinstance(job, _Job))

    def _cells_of(self, claim: Claim, asked: dict[str, Any]) -> list[tuple[tuple[str, ...], _Job | Record]]:
        if "recording" in asked:
            return []
        if "train" in asked:
            wanted = scenarios.axes_of(asked)["train"]
            made = {name: self._trainer.figures(training(claim.trainings[name])) for name in wanted}
            return [((name, "0ms", "1"), record) for name, record in made.items()]
        found: list[tuple[tuple[str, ...], _Job | Record]] = []
        for cell in scenarios.cells_of(asked, self._depth, self.traces):
            text = self._trainer.in_scenario(cell.text, claim.trainings)
            found.append((cell.places, _Job(text, cell.seed, "series" in asked, asked.get("analysis"))))
        return found


def names_recorded_traces(claim: Claim) -> bool:
    """Whether a claim is about recorded traces, for which generated ones may stand."""
    for run in claim.runs.values():
        asked = run.asked
        texts = json.dumps([asked.get(name) for name in ("cc", "scenario", "path", "flow", "sweep")])
        try:
            named = list(named_in(texts.replace("\\", " "), claim.trainings).values())
        except WrongClaim:
            # A name with a place of an axis in it is among those of the claim.
            named = [training(of) for of in claim.trainings.values()]
        looked_at = scenarios.axes_of(asked).get("train", [])
        named += [training(claim.trainings[name]) for name in looked_at]
        if scenarios.names_recorded_traces(asked, named):
            return True
    return False


def run(claims: list[Claim], options: Options) -> list[Outcome]:
    """Runs claims. One of which a run fails, or a check selects what is not there, has an outcome that says so."""
    cache = _cache()
    plan = _Plan(claims, options, cache)
    done = _do(list(plan.jobs), plan.traces, options, cache)
    return [_outcome(claim, plan, done, options) for claim in claims]


def _do(jobs: list[_Job], traces: Traces, options: Options, cache: Path) -> dict[_Job, Record | str]:
    """The record of each job, or why there is none."""
    done: dict[_Job, Record | str] = {}
    pool = ThreadPoolExecutor(options.jobs or len(os.sched_getaffinity(0)))
    # The longest first, so that no core waits for one at the end.
    jobs = sorted(jobs, key=_Job.cost, reverse=True)
    futures: dict[Future[Record | str], _Job] = {
        pool.submit(_done, job, traces.digest(job.text), options.fresh, cache): job for job in jobs
    }
    progress = _Progress(len(jobs), options.progress)
    try:
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            progress.step()
    finally:
        pool.shutdown(cancel_futures=True)
        progress.end()
    return done


def _done(job: _Job, digest: str, fresh: bool, cache: Path) -> Record | str:
    parts = json.dumps([*job, digest])
    file = cache / f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.json"
    if file.exists() and not fresh:
        kept: Record = json.loads(file.read_text(encoding="utf-8"))
        return kept
    started = time.thread_time()
    try:
        record = records.observed(job.text, job.seed, job.series, job.analysis)
    except (WrongClaim, cp.CellpaceError, cp.InternalError) as error:
        return str(error)
    record["cpu_s"] = time.thread_time() - started
    cp._report.write_text(file, json.dumps(record))
    return record


def _outcome(claim: Claim, plan: _Plan, done: dict[_Job, Record | str], options: Options) -> Outcome:
    unrun = plan.unrun.get(claim.id)
    generated = plan.traces.are_generated and unrun is None and names_recorded_traces(claim)
    if unrun is not None:
        return Outcome(claim, "open", claim.expected, unrun=unrun)
    try:
        claim.figures, seconds = _measured(claim, plan, done)
        results = claim.results()
    except WrongClaim as error:
        return Outcome(claim, "open", claim.expected, unrun=f"failed: {error}")
    verdict = verdict_of(results) if results else claim.expected
    expected = claim.expected
    if options.depth == "quick" and claim.expected_quick is not None:
        expected = claim.expected_quick
    elif claim.mode == "field" and results:
        expected = claim.stand_in or expected
    return Outcome(claim, verdict, expected, results, generated, None, seconds)


def _measured(claim: Claim, plan: _Plan, done: dict[_Job, Record | str]) -> tuple[Measured, float]:
    measured, seconds = Measured(), 0.0
    for name, run in claim.runs.items():
        if "recording" in run.asked:
            measured.add_recording(name, recording(run.asked["recording"]))
            continue
        found = []
        for places, job in plan.cells[claim.id][name]:
            record = done[job] if isinstance(job, _Job) else job
            if isinstance(record, str):
                raise WrongClaim(f"run {name}: {record}")
            seconds += record.get("cpu_s", 0.0)
            found.append(Located(places, record))
        measured.add(name, scenarios.axes_of(run.asked), found)
    return measured, seconds


def _cache() -> Path:
    """The folder of results of this version of cellpace and of what looks at its runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cellpace" / "papers"
    own = base / _identity()
    own.mkdir(parents=True, exist_ok=True)
    for other in base.iterdir():
        if other != own and time.time() - other.stat().st_mtime > _MAX_AGE_S:
            shutil.rmtree(other, ignore_errors=True)
    return own


def _identity() -> str:
    native = Path(cp._native.__file__ or "")
    facts = native.stat()
    looks = b"".join(Path(module).read_bytes() for module in (records.__file__, Path(__file__).with_name("tables.py")))
    digest = hashlib.sha256(looks).hexdigest()[:8]
    return f"{cp.__version__}-{facts.st_mtime_ns:x}-{facts.st_size:x}-{digest}"


class _Progress:
    """How far runs are, on one line of a terminal."""

    def __init__(self, total: int, shown: bool) -> None:
        self._total, self._done, self._began = total, 0, time.monotonic()
        self._shown = shown and sys.stderr.isatty()

    def step(self) -> None:
        self._done += 1
        if self._shown:
            left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
            print(f"\r{self._done} of {self._total} runs, {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
