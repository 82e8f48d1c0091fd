"""Searching the parameters of a controller: several objectives, and what no other choice beats."""

from __future__ import annotations

import html
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cellpace import _native
from cellpace._controller import Controller, named
from cellpace._describe import Param, params
from cellpace._sweep import Report, sweep
from cellpace._written import Quantity, Seeds, seeds_of, several, written

if TYPE_CHECKING:
    import optuna

    from cellpace._sweep import ClusterLike

Tunable = str | Callable[..., Controller]
"""A built-in controller, or a class or function of your own whose arguments are parameters."""
Direction = Literal["maximize", "minimize"]
Range = tuple[float | Quantity, float | Quantity] | Sequence[str]
"""From the lowest to the highest value, or the words to choose from, as a list."""

OBJECTIVES: dict[str, tuple[str, Direction]] = {
    "utilization": ("utilization", "maximize"),
    "throughput": ("throughput_mbps", "maximize"),
    "p95_delay": ("queue_delay_ms_p95", "minimize"),
    "fairness": ("jain", "maximize"),
}
_DIGITS = 4
"""Of numbers that are tried: more mean nothing, and make long names."""
_KEPT = 1 / 3
"""The share of a batch that goes on after its short runs, at least."""
_SHORT = 4
"""So many times shorter are these."""


@dataclass(frozen=True)
class Candidate:
    """A controller with the means of what it reached."""

    cc: str
    """The controller: its text, or the name and the values of one of your own."""
    values: Mapping[str, float]
    """The objectives over the traces and seeds of the search."""
    held_out: Mapping[str, float] | None = None
    """The objectives over those that the search has not seen; ``None``: there are none."""
    controller: Tunable = ""
    """The controller as everything in cellpace takes it."""


class Tuning:
    """What a search found."""

    def __init__(
        self,
        frontier: list[Candidate],
        untuned: Candidate,
        directions: Mapping[str, Direction],
        study: optuna.Study,
    ) -> None:
        self.frontier = frontier
        """The efficient frontier: no other choice is better in one objective and not worse in
        another. The first is the best in the first objective."""
        self.untuned = untuned
        """The controller as it was given, over the same runs."""
        self.directions = directions
        """The objectives, and whether more or less is better."""
        self.study = study
        """The study of Optuna, with every trial."""

    @property
    def best(self) -> Candidate:
        """The candidate of the frontier nearest to the best value of each objective, where the
        frontier's range of each counts as one."""
        costs = _costs([one.values for one in self.frontier], self.directions)
        span = np.ptp(costs, axis=0)
        scaled = (costs - costs.min(axis=0)) / np.where(span > 0, span, 1)
        return self.frontier[int(np.argmin(np.linalg.norm(scaled, axis=1)))]

    @property
    def cc(self) -> str:
        """The controller string of ``best``."""
        return self.best.cc

    def to_dicts(self) -> list[dict[str, Any]]:
        """Returns a row for each of the frontier, and the controller as it was given."""
        rows = []
        for one in [*self.frontier, self.untuned]:
            row: dict[str, Any] = {"cc": one.cc} | dict(one.values)
            if one.held_out is not None:
                row |= {f"{name}_held_out": value for name, value in one.held_out.items()}
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        rows = [[_shown(value) for value in row.values()] for row in self.to_dicts()]
        rows.insert(0, list(self.to_dicts()[0]))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        rows = self.to_dicts()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        cells = ["".join(f"<td>{html.escape(_shown(v))}</td>" for v in row.values()) for row in rows]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def tune(
    cc: Tunable,
    search: Iterable[str] | Mapping[str, Range | None] | None = None,
    *,
    trace: str | PathLike[str] | Iterable[str | PathLike[str]],
    objectives: Iterable[str] | Mapping[str, Direction] = ("utilization", "p95_delay"),
    trials: int = 64,
    batch: int = 16,
    prune: bool = True,
    seeds: Seeds = range(1, 4),
    held_out: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
    duration: Quantity = "30s",
    flows: int = 1,
    path: Mapping[str, Any] | None = None,
    seed: int = 1,
    out: str | PathLike[str] | None = None,
    client: ClusterLike | None = None,
    jobs: int | None = None,
    progress: bool | Report | None = None,
) -> Tuning:
    """Searches the parameters of a controller with Optuna (``pip install cellpace[tune]``).

    cc: the built-in controller, e.g. ``"verus"``; what it sets already stays. Or a class of your own, or a function
        that makes one: its parameters are keyword arguments, and ``search`` has ranges of numbers, or lists.
    search: parameters; ranges are the declared ones (``params``) or those given, e.g. ``{"r": (2, 8),
        "epoch": ("2ms", "20ms")}``. ``None``: all that are not for experts and have a range.
    trace: what it runs on. A trial is the mean over these and ``seeds``.
    objectives: ``"utilization"``, ``"throughput"``, ``"p95_delay"``, ``"fairness"`` (Jain's index, of two
        ``flows`` or more), or columns of the results with ``"maximize"`` or ``"minimize"``.
    trials: combinations to try; ``batch`` of them at once are one sweep.
    prune: whether each batch first runs a quarter as long with one seed, and at most half, at least a
        third of it go on: those that no other or few others beat.
    held_out: traces on which the frontier and the controller as given are compared afterwards, with
        seeds that the search has not seen.
    duration: length of a run.
    flows: flows that share the link.
    path: other fields of a plan, e.g. ``{"rtt": ["20ms", "80ms"], "queue": "droptail:2MB"}``.
    seed: decides what is tried; the same call gives the same result, wherever it runs.
    out: a folder for the results of all runs: a search that was stopped goes on there when it is called
        again; ``None``: they are not kept.
    client, jobs, progress: as of ``sweep``.

    Raises ``CellpaceError`` with the program's sentence.
    """
    given = seeds_of(seeds)
    optuna = _optuna()
    base, made = _named(cc)
    space = _space(base, search) if isinstance(cc, str) else _own_space(cc, search)

    def text_of(chosen: Mapping[str, Any]) -> str:
        if isinstance(cc, str):
            return _text(cc, space, chosen)
        text, made[text] = _with_arguments(cc, base, chosen)
        return text

    directions, columns = _objectives(objectives, flows)
    fields = {"trace": several("trace", trace), "flows": flows, **(path or {})}
    with _folder(out) as folder:

        def values(name: str, ccs: list[str], change: Mapping[str, Any]) -> list[dict[str, float]]:
            plan = fields | {"cc": [made.get(one, one) for one in ccs], "seeds": given, "duration": duration, **change}
            results = sweep(plan, out=folder / name, client=client, jobs=jobs, progress=progress)
            return _means(results.table(), len(ccs), len(plan["seeds"]), columns)

        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        study = optuna.create_study(directions=list(directions.values()), sampler=sampler)
        untuned = values("untuned", [base], {})[0]
        full: dict[str, dict[str, float]] = {}
        short = {"duration": _shorter(duration), "seeds": given[:1]}
        for at in range(math.ceil(trials / batch)):
            asked = [study.ask(space) for _ in range(min(batch, trials - at * batch))]
            ccs = {trial.number: text_of(trial.params) for trial in asked}
            new = [one for one in dict.fromkeys(ccs.values()) if one not in full and (one in made or _is_sound(one))]
            if prune and len(new) > 2:
                costs = _costs(values(f"{at:03}-short", new, short), directions)
                new = [new[one] for one in _promising(costs)]
            if new:
                full |= zip(new, values(f"{at:03}", new, {}), strict=True)
            for trial in asked:
                _tell(study, trial, full.get(ccs[trial.number]), optuna)
        found = [text for text, value in full.items() if all(map(math.isfinite, value.values()))]
        if not found:
            raise _native.CellpaceError("no combination came to an end: the runs' errors say why")
        costs = _costs([full[text] for text in found], directions)
        first = [found[one] for one in np.lexsort(costs.T[::-1]) if not _beaten(costs)[one]]
        tested: dict[str, dict[str, float]] = {}
        if unseen := several("held_out", held_out):
            change = {"trace": unseen, "seeds": [max(given) + 1 + n for n in range(len(given))]}
            ccs_held = list(dict.fromkeys([*first, base]))
            tested = dict(zip(ccs_held, values("held-out", ccs_held, change), strict=True))

        def candidate(one: str, reached: Mapping[str, float]) -> Candidate:
            return Candidate(one, reached, tested.get(one), made.get(one, one))

        frontier = [candidate(one, full[one]) for one in first]
        return Tuning(frontier, candidate(base, untuned), directions, study)


def _named(cc: Tunable) -> tuple[str, dict[str, Tunable]]:
    """The controller's name, and what is known by names: controllers that are no texts."""
    if isinstance(cc, str):
        return cc, {}
    if isinstance(cc, Controller) or not callable(cc):
        text = f"cc: tune takes a text such as 'verus:r=2', a class, or a function that makes one, not {cc!r}"
        raise TypeError(text)
    name = named(cc)[0]
    return name, {name: cc}


def _own_space(
    cc: Callable[..., Controller], search: Iterable[str] | Mapping[str, Range | None] | None
) -> dict[str, Any]:
    """Distributions of Optuna for arguments of a function."""
    import optuna.distributions as of

    name = named(cc)[0]
    if not isinstance(search, Mapping) or not search:
        text = f'search: `{name}` is your own: give the ranges of its arguments, as in {{"beta": (0.3, 0.9)}}'
        raise _native.CellpaceError(text)
    try:
        inspect.signature(cc).bind(**search)
    except TypeError as error:
        raise _native.CellpaceError(f"search: `{name}`: {error}") from None
    space: dict[str, Any] = {}
    for key, given in search.items():
        match given:
            case [_, *_] if isinstance(given, list):
                space[key] = of.CategoricalDistribution(list(given))
            case (int(low), int(high)) if low < high:
                space[key] = of.IntDistribution(low, high)
            case (int() | float() as low, int() | float() as high) if low < high:
                space[key] = of.FloatDistribution(low, high)
            case _:
                text = f"search: {key}: a range is from a lower to a higher number, or a list, not {given!r}"
                raise _native.CellpaceError(text)
    return space


def _with_arguments(
    cc: Callable[..., Controller], name: str, chosen: Mapping[str, Any]
) -> tuple[str, Callable[..., Controller]]:
    """A name that has the values, and what makes such a controller."""
    values = {
        key: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        for key, value in chosen.items()
    }
    make = partial(cc, **values)
    text = f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})"
    make.name = text  # type: ignore[attr-defined]
    return text, make


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as missing:
        text = "tuning takes Optuna: pip install cellpace[tune]"
        raise ModuleNotFoundError(text, name=missing.name) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextmanager
def _folder(out: str | PathLike[str] | None) -> Iterator[Path]:
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        yield Path(out)
        return
    with TemporaryDirectory(prefix="cellpace-tune-") as folder:
        yield Path(folder)


def _space(cc: str, search: Iterable[str] | Mapping[str, Range | None] | None) -> dict[str, Any]:
    """Distributions of Optuna, in the units of the declared ranges."""
    declared = {param.key: param for param in params(cc)}
    if search is None:
        usual = (param for param in declared.values() if not param.expert)
        search = [p.key for p in usual if _has_range(p) and not re.search(rf"[:,]{p.key}=", cc)]
    if isinstance(search, str):
        search = [search]
    wanted = dict(search) if isinstance(search, Mapping) else dict.fromkeys(search)
    if not wanted:
        raise _native.CellpaceError(f"search: `{cc}` leaves nothing to search")
    for key in wanted:
        if key not in declared:
            known = ", ".join(declared)
            raise _native.CellpaceError(f"search: `{cc}` has no parameter `{key}`; it has {known}")
        if re.search(rf"[:,]{key}=", cc):
            raise _native.CellpaceError(f"search: `{cc}` sets `{key}` already")
    return {key: _distribution(cc, declared[key], given) for key, given in wanted.items()}


def _has_range(param: Param) -> bool:
    bounded = param.low is not None and param.high is not None and param.high < 1e15
    return bounded or param.kind == "bool" or (param.kind == "word" and bool(param.words))


def _distribution(cc: str, param: Param, given: Range | None) -> Any:
    import optuna.distributions as of

    if isinstance(given, list):
        return of.CategoricalDistribution([str(one) for one in given])
    if given is None and param.kind == "word" and param.words:
        return of.CategoricalDistribution(param.words)
    if given is None and param.kind == "bool":
        return of.CategoricalDistribution(["true", "false"])
    if given is None and not _has_range(param):
        raise _native.CellpaceError(
            f"search: {param.key}: no range is declared ({param.allowed}): give one, as in "
            f'{{"{param.key}": (low, high)}} or a list'
        )
    if given is None:
        assert param.low is not None and param.high is not None  # it has a range
        ends = [param.low, param.high]
    else:
        ends = [_number(cc, param, end) for end in given]
    _check_range(cc, param.key, ends)
    if not ends[0] < ends[1]:
        raise _native.CellpaceError(f"search: {param.key}: a range is from a lower to a higher value")
    is_log = param.logarithmic and ends[0] > 0
    if param.kind in ("integer", "bytes"):
        return of.IntDistribution(round(ends[0]), round(ends[1]), log=is_log and ends[0] >= 1)
    return of.FloatDistribution(ends[0], ends[1], log=is_log)


def _check_range(cc: str, key: str, ends: Iterable[float]) -> None:
    """Refuses ends that the declaration does not allow."""
    for end in ends:
        try:
            _native.check_controller(_with(cc, [f"{key}={_native.param_text(cc, key, end)}"]))
        except _native.CellpaceError as error:
            if "out of range" in str(error):
                raise


def _number(cc: str, param: Param, end: object) -> float:
    """An end of a range that was given, with a unit where the parameter has one."""
    if param.kind in ("number", "integer") and isinstance(end, int | float):
        return float(end)
    return _native.param_number(cc, param.key, written(param.key, end))


def _text(cc: str, space: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """The controller with these values."""
    parts = []
    for key, value in values.items():
        if not isinstance(value, str):
            rounded = float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else float(value)
            value = _native.param_text(cc, key, min(max(rounded, space[key].low), space[key].high))
        parts.append(f"{key}={value}")
    return _with(cc, parts)


def _with(cc: str, parts: Iterable[str]) -> str:
    return cc + ("," if ":" in cc else ":") + ",".join(parts)


def _is_sound(text: str) -> bool:
    """Whether values that are fine alone are so together."""
    try:
        _native.check_controller(text)
    except _native.CellpaceError:
        return False
    return True


def _objectives(
    objectives: Iterable[str] | Mapping[str, Direction], flows: int
) -> tuple[dict[str, Direction], dict[str, str]]:
    """The direction and the column of each objective."""
    if isinstance(objectives, str):
        objectives = [objectives]
    directions: dict[str, Direction] = {}
    columns: dict[str, str] = {}
    for name in objectives:
        column, direction = OBJECTIVES.get(name, (name, None))
        if isinstance(objectives, Mapping):
            direction = objectives[name]
        if direction not in ("maximize", "minimize"):
            known = ", ".join(OBJECTIVES)
            raise _native.CellpaceError(
                f"objectives: `{name}`; there are {known}, and columns as in "
                '{"queue_delay_ms_p50": "minimize"}'
            )
        if column == "jain" and flows < 2:
            raise _native.CellpaceError(f"objectives: `{name}` needs flows=2 or more")
        directions[name], columns[name] = direction, column
    if not directions:
        raise _native.CellpaceError("objectives: there is none")
    return directions, columns


def _means(
    table: Any, ccs: int, seeds: int, columns: Mapping[str, str]
) -> list[dict[str, float]]:
    """The mean of each controller; not a number if one of its runs failed."""
    unknown = [column for column in columns.values() if column not in table.column_names]
    if unknown:
        raise _native.CellpaceError(f"objectives: results have no column `{unknown[0]}`")
    texts = [column for column in columns.values() if table[column].dtype == object]
    if texts:
        raise _native.CellpaceError(f"objectives: the column `{texts[0]}` has no numbers")
    # Seeds change fastest, then controllers, then paths.
    of = {name: table[column].reshape(-1, ccs, seeds).mean(axis=(0, 2)) for name, column in columns.items()}
    return [{name: float(values[one]) for name, values in of.items()} for one in range(ccs)]


def _costs(
    values: Sequence[Mapping[str, float]], directions: Mapping[str, Direction]
) -> npt.NDArray[np.float64]:
    """A row for each: less is better in all columns, and what failed is the worst."""
    signs = {name: -1.0 if direction == "maximize" else 1.0 for name, direction in directions.items()}
    costs = np.array([[signs[name] * one[name] for name in directions] for one in values])
    return np.where(np.isfinite(costs), costs, np.inf)


def _better(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether the row is beaten by the column: nowhere better, and somewhere worse."""
    one, other = costs[:, None], costs[None]
    return np.asarray((other <= one).all(axis=2) & (other < one).any(axis=2))


def _beaten(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return np.asarray(_better(costs).any(axis=1))


def _promising(costs: npt.NDArray[np.float64]) -> list[int]:
    """Those that fewest others beat, in their order: those that nobody beats up to half, a third at
    least."""
    beaten_by = _better(costs).sum(axis=1)
    order = np.argsort(beaten_by, kind="stable")
    least, most = math.ceil(len(costs) * _KEPT), math.ceil(len(costs) / 2)
    count = min(max(int((beaten_by == 0).sum()), least), most)
    return sorted(order[:count].tolist())


def _tell(study: Any, trial: Any, values: Mapping[str, float] | None, optuna: Any) -> None:
    if values is None:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    elif all(map(math.isfinite, values.values())):
        study.tell(trial, list(values.values()))
    else:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _shorter(duration: object) -> str:
    """A quarter of a time, no less than what is left out of the figures twice."""
    seconds = _native.span_seconds(written("duration", duration))
    return f"{max(seconds / _SHORT, min(seconds, 4.0)):.6g}s"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
