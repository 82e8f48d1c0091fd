"""Runs claims: each simulation once, on all cores, with what was simulated before taken from a cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
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
from papers.variants import Variant, form_of, forms_of, sweep_of

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
    sweep: bool = False
    """Whether to run claims also under other forms of the protocol, and with what the paper does not print set
    otherwise."""


@dataclass
class Tried:
    """What came out of a claim under a variant."""

    variant: Variant
    verdict: str
    results: list[Result]

    @property
    def holds(self) -> bool:
        """Whether the sentence is true at all."""
        return self.verdict in ("reproduced", "in part")


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
    forms: list[Tried] = field(default_factory=list)
    """Each form of the protocol under test; the first decides."""
    sweep: list[Tried] = field(default_factory=list)
    """The deciding form with what the paper does not print set otherwise, if that was asked for."""
    depth: str = "as written"

    @property
    def is_expected(self) -> bool:
        """Whether all verdicts are those expected. On generated traces any is, and but for the depth as written only
        the verdict itself is asked for."""
        if self.unrun is not None:
            return not self.has_failed
        if self.on_generated_traces:
            return True
        return self.verdict == self.expected and (self.depth != "as written" or not self.differences)

    @property
    def differences(self) -> list[str]:
        """Which verdicts of other forms, and which quantities that turn it, are others than the claim says."""
        claim = self.claim
        found = []
        for tried in self.forms[1:]:
            expected = claim.forms.get(tried.variant.value, claim.expected)
            if tried.verdict != expected:
                found.append(f"{tried.variant.value}: {tried.verdict}, not {expected}")
        if self.sweep and self.turning != list(claim.depends):
            found.append(f"depends on {', '.join(self.turning) or 'nothing'}, not {', '.join(claim.depends) or 'nothing'}")
        return found

    @property
    def turning(self) -> list[str]:
        """What turns the verdict between holding and not: quantities of the sweep, in its order."""
        holds = self.verdict in ("reproduced", "in part")
        return list(dict.fromkeys(one.variant.what for one in self.sweep if one.holds != holds))

    @property
    def swept(self) -> str:
        """In how many set-ups it holds, the one as written among them; empty without a sweep."""
        if not self.sweep:
            return ""
        holding = sum(one.holds for one in self.sweep) + (self.verdict in ("reproduced", "in part"))
        return f"holds in {holding} of {len(self.sweep) + 1} set-ups"

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
        verdict = self.verdict
        if self.claim.depends and not self.on_generated_traces:
            verdict = f"depends on {' and '.join(self.claim.depends)} ({verdict} as set up)"
        return f"{about}{verdict}{max(notes, default='')}{generated}"


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
        """The values of a field; ``only`` is an axis and the repetition along it that counts."""
        if run not in self._runs:
            raise WrongClaim("it is left out, as what it takes is not there")
        of = self._runs[run]
        if isinstance(of, Recording):
            return of.field(name, only)
        axes, found = of
        if only is not None and only[0] in axes:
            ordinals = _ordinals(axes, found, only[0])
            # What was run once stands beside each repetition of the others.
            if len(set(ordinals)) > 1:
                found = [one for one, at in zip(found, ordinals, strict=True) if at == only[1]]
        return records.field(found, axes, name)

    def repetitions(self, run: str, axis: str) -> list[str]:
        """The repetitions along an axis."""
        of = self._runs[run]
        if isinstance(of, Recording):
            return of.places(axis)
        axes, found = of
        return list(dict.fromkeys(_ordinals(axes, found, axis))) if axis in axes else []

    def maps(self, run: str, which: str) -> list[Any]:
        """Pictures of trained tables."""
        of = self._runs[run]
        return [] if isinstance(of, Recording) else [one.record["maps"][which] for one in of[1]]


def _ordinals(axes: list[str], found: list[Located], axis: str) -> list[str]:
    """Which repetition each record is: the starts in traces of other lengths are at other times."""
    at = axes.index(axis)
    met: dict[tuple[str, ...], dict[str, str]] = {}
    ordinals = []
    for one in found:
        others = one.places[:at] + one.places[at + 1 :]
        own = met.setdefault(others, {})
        ordinals.append(own.setdefault(one.places[at], str(len(own))))
    return ordinals


class _Job(NamedTuple):
    """A simulation that claims need."""

    text: str
    seed: int
    series: bool
    analysis: str | None

    def cost(self) -> float:
        """About how much work it is: what counts is the number of flows."""
        return 3 + self.text.count("[[flow]]")


class _Cell(NamedTuple):
    """A part of a run: its places on the axes, a simulation or its record, and what checks call its flows' controllers
    where these are others than theirs."""

    places: tuple[str, ...]
    of: _Job | Record
    called: list[str] | None = None


_Cells = dict[str, list[_Cell]]
"""What each run of a claim consists of."""


class _Plan:
    """All simulations that claims need, each once."""

    def __init__(self, claims: list[Claim], options: Options, cache: Path) -> None:
        self.traces = Traces(options.traces, cache)
        self._trainer = Trainer(self.traces, cache, options.fresh)
        self._options = options
        self.unrun: dict[str, str] = {}
        self.jobs: dict[_Job, None] = {}
        self.variants: dict[str, list[tuple[Variant, _Cells]]] = {}
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
        first, *others = forms_of(claim)
        decides = form_of(first)
        found = [(decides, self._cells(claim, decides))]
        if self._options.sweep:
            found += [(form_of(other), self._cells(claim, form_of(other))) for other in others]
            texts = [cell.of.text for of in found[0][1].values() for cell in of if isinstance(cell.of, _Job)]
            for variant in sweep_of(claim, texts):
                found.append((variant, self._cells(claim, variant, first.of)))
        self.variants[claim.id] = found
        self.jobs |= dict.fromkeys(
            cell.of for _, cells in found for of in cells.values() for cell in of if isinstance(cell.of, _Job)
        )

    def _cells(self, claim: Claim, variant: Variant, form: Callable[[str], str] = lambda text: text) -> _Cells:
        cells: _Cells = {}
        for name, run in claim.runs.items():
            if run.beside and (variant.what != "form" or self.variants.get(claim.id)):
                continue
            try:
                cells[name] = self._cells_of(claim, variant.asked(run.asked), lambda text: variant.text(form(text)))
            except NeedsTraces:
                if not run.beside:
                    raise
            except (WrongClaim, cp.CellpaceError) as error:
                raise WrongClaim(f"run {name}: {error}") from None
        return cells

    def _cells_of(
        self, claim: Claim, asked: dict[str, Any], changed: Callable[[str], str]
    ) -> list[_Cell]:
        if "recording" in asked:
            return []
        if "train" in asked:
            wanted = scenarios.axes_of(asked)["train"]
            made = {name: self._trainer.figures(training(claim.trainings[name])) for name in wanted}
            return [_Cell((name, "0ms", "1"), record) for name, record in made.items()]
        found: list[_Cell] = []
        for cell in scenarios.cells_of(asked, self._options.depth, self.traces):
            other = changed(cell.text)
            text = self._trainer.in_scenario(other, claim.trainings)
            job = _Job(text, cell.seed, "series" in asked, asked.get("analysis"))
            found.append(_Cell(cell.places, job, _controllers(cell.text) if other != cell.text else None))
        return found


def _controllers(text: str) -> list[str]:
    """Those of a scenario's flows."""
    return re.findall(r'^cc = "([^"]*)"', text, re.M)


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
        tried, seconds = _tried(claim, plan.variants[claim.id], done)
    except WrongClaim as error:
        return Outcome(claim, "open", claim.expected, unrun=f"failed: {error}")
    expected = claim.expected
    if options.depth == "quick" and claim.expected_quick is not None:
        expected = claim.expected_quick
    elif claim.mode == "field" and tried[0].results:
        expected = claim.stand_in or expected
    forms = [one for one in tried if one.variant.what == "form"]
    sweep = [one for one in tried if one.variant.what != "form"]
    first = tried[0]
    return Outcome(
        claim, first.verdict, expected, first.results, generated, None, seconds, forms, sweep, options.depth
    )


def _tried(
    claim: Claim, variants: list[tuple[Variant, _Cells]], done: dict[_Job, Record | str]
) -> tuple[list[Tried], float]:
    """What comes out of each variant, and the processor time of all. The claim keeps the figures of the first."""
    seconds, tried = 0.0, []
    for variant, cells in reversed(variants):
        claim.figures, own = _measured(claim, cells, done)
        seconds += own
        results = claim.results(cells)
        tried.append(Tried(variant, verdict_of(results) if results else claim.expected, results))
    return tried[::-1], seconds


def _measured(claim: Claim, cells: _Cells, done: dict[_Job, Record | str]) -> tuple[Measured, float]:
    measured, seconds = Measured(), 0.0
    for name, run in claim.runs.items():
        if "recording" in run.asked:
            measured.add_recording(name, recording(run.asked["recording"]))
            continue
        found = []
        for places, of, called in cells.get(name, []):
            record = done[of] if isinstance(of, _Job) else of
            if isinstance(record, str):
                raise WrongClaim(f"run {name}: {record}")
            seconds += record.get("cpu_s", 0.0)
            found.append(Located(places, record if called is None else _called(record, called)))
        if name in cells:
            measured.add(name, scenarios.axes_of(run.asked), found)
    return measured, seconds


def _called(record: Record, names: list[str]) -> Record:
    """A record whose flows have other names of controllers."""
    flows = [flow | {"cc": name} for flow, name in zip(record["per_flow"], names, strict=True)]
    return record | {"per_flow": flows}


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
