"""Claims of papers: what a paper says, the runs that ask whether it is so, and the checks of their figures.

A claim is a function behind ``@claim(...)`` whose docstring is the paper's sentence:

    @claim("Figure 5", "figure", "virtual", expected="reproduced")
    def fig5(c: Claim) -> None:
        \"""The delay rises with the window.\"""
        alone = c.run("alone", trace="city-drive", cc="verus:r=2", analysis="profile", duration="60s")
        alone.core("rank correlation of 0.7", lambda run: run["profile.correlation"].mean() >= 0.7)
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

import cellpace as cp
from papers.figures import Figures, Row, WrongClaim, interval, show

PAPERS = {
    "alcc": "ALCC (2022)",
    "highway": "Highway measurements (slides, 2017)",
    "mdi": "MDI (2017)",
    "verus": "Verus (SIGCOMM 2015)",
}
"""The papers, as they are cited."""
VERDICTS = ["reproduced", "in part", "depends", "refuted", "built", "not testable here", "open"]
KINDS = ["figure", "table", "text", "component"]
MODES = ["virtual", "real", "model", "field", "component"]
"""What a claim is checked on: virtual time, recorded real packets, a model of a network that the paper measured,
stand-ins for a live network, tests of the project."""
SETUPS = ["printed", "inferred", "ours"]
"""Where the conditions of a run are from: printed in the paper, implied by what it prints, our own."""
CHARTS = ["scatter", "lines", "stairs", "bars", "histogram", "cdf", "ccdf", "regions", "heatmap", "table"]
MAPS = ["transitions", "zoom"]
"""The pictures of a trained table."""
_REPETITIONS = 5
"""Fewer repetitions have no interval."""


@dataclass(frozen=True)
class Check:
    """What has to be so, and whether it decides the sentence at all (``core``) or its extent (``full``)."""

    name: str
    level: str
    run: Run
    test: Callable[[Run], Figures] | None
    """``None``: it was not measured."""
    bound: str = "ours"
    """Whose bound it is: ``paper`` where the paper prints it."""


@dataclass(frozen=True)
class Chart:
    """A chart of the page; ``x`` is an axis or figures, ``y`` figures or a picture of the run's table."""

    run: Run
    kind: str
    y: Callable[[Run], Figures] | str
    x: Callable[[Run], Figures] | str | None
    group: str | None
    caption: str
    log: str
    original: dict[str, dict[Any, float]]


@dataclass(frozen=True)
class Result:
    """What came out of a check: the two sides of the comparison that decided, and where that was."""

    check: Check
    passed: bool
    is_noise: bool
    value: str
    bound: str
    place: str
    half_width: str = ""
    """Half of the 95 % interval of the value less the bound, each repetition looked at alone; empty below five."""
    repetitions: int = 1


class Run:
    """Runs of one scenario over all combinations of what is given as a list; its figures by their names."""

    def __init__(
        self, claim: Claim, name: str, setup: str, evidence: str, decides: bool, beside: bool, asked: dict[str, Any]
    ) -> None:
        self.claim, self.name, self.setup = claim, name, setup
        self.evidence, self.decides, self.beside, self.asked = evidence, decides, beside, asked

    def core(self, name: str, test: Callable[[Run], Figures], *, bound: str = "ours") -> None:
        """Says what has to be so for the sentence to be true at all; ``bound="paper"`` where the paper prints it."""
        self.claim.checks.append(Check(name, "core", self, test, bound))

    def full(self, name: str, test: Callable[[Run], Figures], *, bound: str = "ours") -> None:
        """Says what has to be so for it to be true to the extent that the paper gives."""
        self.claim.checks.append(Check(name, "full", self, test, bound))

    def unmeasured(self, name: str) -> None:
        """Says what belongs to the paper's extent and was not measured: until it is, the claim holds in part at most."""
        self.claim.checks.append(Check(name, "full", self, None))

    def chart(
        self,
        kind: str,
        y: Callable[[Run], Figures] | str,
        x: Callable[[Run], Figures] | str | None = None,
        *,
        group: str | None = None,
        caption: str = "",
        log: str = "",
        original: dict[str, dict[Any, float]] | None = None,
    ) -> None:
        """Draws figures on the page, beside what the paper prints."""
        if kind not in CHARTS:
            raise WrongClaim(f"{self.claim.id}: unknown kind `{kind}` of chart; there are {', '.join(CHARTS)}")
        self.claim.charts.append(Chart(self, kind, y, x, group, caption, log, original or {}))

    def __getitem__(self, name: str) -> Figures:
        """Returns a field of the figures, such as ``queue_delay_ms.p95``."""
        try:
            figures: Figures = self.claim.figures.field(self.name, name, self.claim.only)
        except WrongClaim as error:
            raise WrongClaim(f"run {self.name}: {error}") from None
        return figures

    def maps(self, which: str) -> Any:
        """Returns pictures of the run's trained tables."""
        return self.claim.figures.maps(self.name, which)


@dataclass
class Claim:
    """One sentence, figure or table of a paper, and how it is checked."""

    id: str
    where: str
    says: str
    kind: str
    mode: str
    expected: str
    expected_quick: str | None = None
    because: str = ""
    source: str = ""
    """Its function, which makes its runs, checks and charts."""
    forms: dict[str, str] = field(default_factory=dict)
    """Verdicts of other forms of the protocol under test, where they are not the expected one."""
    depends: tuple[str, ...] = ()
    """What the paper does not print and turns the verdict."""
    fixed: tuple[str, ...] = ()
    """What the sweep leaves as it is, because the paper prints it."""
    headline: str | None = None
    original: dict[str, Any] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    stand_in: str | None = None
    needs_traces: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    trainings: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    figures: Any = None
    """Those of its runs, once these are done."""
    only: tuple[str, str] | None = None
    """The axis and the place on it that alone counts, while one repetition is looked at."""

    @property
    def paper(self) -> str:
        """The paper that it is from."""
        return self.id.split("-")[0]

    @property
    def verdict(self) -> str:
        """The verdict under which it is counted."""
        return "depends" if self.depends else self.expected

    def run(
        self,
        name: str,
        *,
        printed: str = "",
        inferred: str = "",
        decides: bool = False,
        beside: bool = False,
        **asked: Any,
    ) -> Run:
        """Asks for runs: `docs/how-to/papers.md` has what can be asked. Its set-up is ``printed`` with the paper's own
        words, ``inferred`` with the evidence, and ours without either; one that is ``beside`` never decides."""
        if name in self.runs or (printed and inferred):
            raise WrongClaim(f"{self.id}: run {name}: a name of its own, and words that are printed or evidence, not both")
        if decides and not inferred:
            raise WrongClaim(f"{self.id}: run {name}: `decides` is for inferred set-ups")
        setup = "printed" if printed else "inferred" if inferred else "ours"
        evidence = " ".join((printed or inferred).split())
        self.runs[name] = Run(self, name, setup, evidence, decides, beside, asked)
        return self.runs[name]

    def train(self, name: str, **asked: Any) -> None:
        """Trains a Markov table, which runs name ``train.NAME``."""
        self.trainings[name] = asked

    def results(self, done: Container[str]) -> list[Result]:
        """The checks of runs that were done or recorded, with their figures."""
        there = [check for check in self.checks if check.run.name in done or "recording" in check.run.asked]
        return [_checked(self, check) for check in there]

    def recordings(self) -> list[str]:
        """What of it was measured with real packets."""
        return sorted({run.asked["recording"] for run in self.runs.values() if "recording" in run.asked})

    def check_form(self) -> None:
        """Refuses what contradicts itself."""
        for value, known in ((self.kind, KINDS), (self.mode, MODES), (self.expected, VERDICTS)):
            if value not in known:
                raise WrongClaim(f"{self.id}: `{value}` is none of {', '.join(known)}")
        if not self.says:
            raise WrongClaim(f"{self.id}: its docstring is what the paper says")
        if not self.because and self.expected not in ("reproduced", "built"):
            raise WrongClaim(f"{self.id}: `{self.expected}` needs `because`")
        if not (self.mode == "component") == bool(self.tests) == (self.expected == "built"):
            raise WrongClaim(f"{self.id}: tests and the verdict `built` belong to mode component, and only there")
        if self.mode == "virtual" and not self.checks and self.expected != "open":
            raise WrongClaim(f"{self.id}: there is no check")


def _checked(claim: Claim, check: Check) -> Result:
    if check.test is None:
        return Result(check, False, False, "not measured", "", "")
    try:
        row = _answer(check)
        if row.margin is None:
            return Result(check, row.value == 1, False, "", "", "")
        margin = row.margin
        half, repetitions = _half_width(claim, check)
    except (WrongClaim, cp.CellpaceError) as error:
        raise WrongClaim(f'check "{check.name}": {error}') from None
    is_noise = half is not None and abs(margin.value - margin.bound) <= half
    place = ", ".join(place for place in margin.place if place != "0ms")
    shown = show(margin.value, margin.unit), show(margin.bound, margin.unit)
    width = "" if half is None else show(half, margin.unit)
    return Result(check, row.value == 1, is_noise, *shown, place, width, repetitions)


def _answer(check: Check) -> Row:
    assert check.test is not None, "what was not measured has no answer"
    answer = check.test(check.run)
    if not isinstance(answer, Figures) or answer.unit is not None:
        raise WrongClaim("compares nothing")
    if len(answer.rows) != 1:
        raise WrongClaim(f"has an answer for each {', '.join(answer.axes)}: write .all() or .any()")
    return answer.rows[0]


def _half_width(claim: Claim, check: Check) -> tuple[float | None, int]:
    """Half of the 95 % interval of the distance from the bound, and the number of repetitions along the axis that has
    most: each repetition is looked at alone."""
    by_axis = {axis: claim.figures.repetitions(check.run.name, axis) for axis in ("seed", "start", "run")}
    axis = max(by_axis, key=lambda axis: len(by_axis[axis]))
    places = by_axis[axis]
    if len(places) < _REPETITIONS:
        return None, max(1, len(places))
    alone = [_distance_alone(claim, check, (axis, place)) for place in places]
    distances = [one for one in alone if one is not None and abs(one) < float("inf")]
    half = interval(distances)[1] if len(distances) >= _REPETITIONS else None
    return half, len(places)


def _distance_alone(claim: Claim, check: Check, only: tuple[str, str]) -> float | None:
    claim.only = only
    try:
        margin = _answer(check).margin
    except (WrongClaim, cp.CellpaceError, IndexError):
        return None
    finally:
        claim.only = None
    return None if margin is None else margin.value - margin.bound


def verdict_of(results: list[Result]) -> str:
    """The verdict of checks: inferred set-ups that say so decide, else the printed ones, else all that are not beside."""
    results = [result for result in results if not result.check.run.beside]
    runs = [result.check.run for result in results]
    says_so, is_printed = any(run.decides for run in runs), any(run.setup == "printed" for run in runs)

    def decides(run: Run) -> bool:
        return run.decides if says_so else run.setup == "printed" or not is_printed

    deciding = [result for result in results if decides(result.check.run)]
    failed = [result for result in deciding if not result.passed]
    core = [result for result in failed if result.check.level == "core"]
    if not core:
        return "in part" if failed else "reproduced"
    others = [r for r in results if r not in deciding and r.check.run.setup == "inferred" and r.check.level == "core"]
    holds_elsewhere = bool(others) and all(result.passed for result in others)
    return "in part" if holds_elsewhere or all(result.is_noise for result in core) else "refuted"


class _Made(NamedTuple):
    """A claim's function with what stands in its decorator."""

    where: str
    kind: str
    mode: str
    more: dict[str, Any]
    function: Callable[[Claim], None]

    def claim(self, paper: str) -> Claim:
        name = self.function.__name__.rstrip("_").replace("_", "-")
        says = " ".join((self.function.__doc__ or "").split())
        made = Claim(
            f"{paper}-{name}",
            self.where,
            says,
            self.kind,
            self.mode,
            source=inspect.getsource(self.function),
            **self.more,
        )
        made.because = " ".join(made.because.split())
        self.function(made)
        made.check_form()
        return made


def claim(where: str, kind: str, mode: str, *, expected: str, **more: Any) -> Callable[..., _Made]:
    """Makes a function a claim: where in the paper, what it is there, on what it is checked, and the verdict that
    is expected (``expected_quick``: with one seed and one start). ``because`` says why."""
    return lambda function: _Made(where, kind, mode, {"expected": expected, **more}, function)


def claims_of(module: Any, paper: str) -> list[Claim]:
    """The claims of a module, in its order."""
    found = [made.claim(paper) for made in vars(module).values() if isinstance(made, _Made)]
    if not found:
        raise WrongClaim(f"{paper}: there is no claim in {module.__file__}")
    return found


def all_claims(papers: Iterable[str] = PAPERS) -> list[Claim]:
    """The claims of papers."""
    return [one for paper in papers for one in claims_of(importlib.import_module(f"papers.{paper}"), paper)]


def select(claims: list[Claim], wanted: list[str]) -> list[Claim]:
    """Those that are wanted: papers, ids, or patterns such as ``verus-fig*``; all without any."""
    for word in wanted:
        if not any(_is_named(one, word) for one in claims):
            near = get_close_matches(word, [name for one in claims for name in (one.id, one.paper)], 1)
            hint = f"; did you mean `{near[0]}`?" if near else "; --list names them"
            raise WrongClaim(f"there is no claim or paper `{word}`{hint}")
    return [one for one in claims if not wanted or any(_is_named(one, word) for word in wanted)]


def _is_named(one: Claim, word: str) -> bool:
    return word == one.paper or fnmatch.fnmatchcase(one.id, word)
