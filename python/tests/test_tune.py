"""Searching parameters with Optuna."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import cellpace as cp

pytest.importorskip("optuna", reason="no optuna")

SEARCH: dict[str, Any] = {
    "cc": "verus",
    "search": {"r": (2, 8), "epoch": ("2ms", "20ms")},
    "trace": ["constant:4mbit", "umts-driving"],
    "held_out": "hspa-walking",
    "duration": "6s",
    "seeds": [1, 2],
    "trials": 12,
    "batch": 6,
}


@pytest.fixture(scope="module")
def tuned() -> cp.Tuning:
    return cp.tune(**SEARCH)


def test_the_frontier_is_what_nothing_beats(tuned: cp.Tuning) -> None:
    assert tuned.directions == {"utilization": "maximize", "p95_delay": "minimize"}
    use, delay = ([one.values[name] for one in tuned.frontier] for name in tuned.directions)
    assert use == sorted(use, reverse=True) and delay == sorted(delay, reverse=True)
    for trial in tuned.study.trials:
        for one in tuned.frontier:
            if trial.values is not None:
                better = trial.values[0] >= one.values["utilization"]
                assert not better or trial.values[1] >= one.values["p95_delay"]
    states = [trial.state.name for trial in tuned.study.trials]
    assert len(states) == 12 and {"COMPLETE", "PRUNED"} == set(states)


def test_its_figures_are_those_of_compare(tuned: cp.Tuning) -> None:
    one = tuned.frontier[0]
    assert one.cc.startswith("verus:r=") and ",epoch=" in one.cc
    with pytest.warns(UserWarning, match="constant:4mbit: all seeds gave the same figures"):
        runs = cp.compare(one.cc, ["constant:4mbit", "umts-driving"], duration="6s", seeds=[1, 2])
    assert one.values["utilization"] == pytest.approx(runs["utilization"].mean())
    unseen = cp.compare(one.cc, "hspa-walking", duration="6s", seeds=[3, 4])
    assert one.held_out is not None
    assert one.held_out["p95_delay"] == pytest.approx(unseen["queue_delay_ms_p95"].mean())
    assert (tuned.untuned.cc, tuned.cc) == ("verus", tuned.best.cc)
    assert tuned.best in tuned.frontier
    assert repr(tuned).count("verus") == len(tuned.frontier) + 1
    assert tuned._repr_html_().count("<tr>") == len(tuned.frontier) + 2


def test_a_search_goes_on_where_it_stopped(tuned: cp.Tuning, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    calls = itertools.count()

    def stop(progress: cp.SweepProgress) -> None:
        if next(calls) > 4:
            raise Stopped

    with pytest.raises(Stopped):
        while True:
            cp.tune(**SEARCH, out=tmp_path, jobs=1, progress=stop)
    rest = cp.tune(**SEARCH, out=tmp_path, jobs=1)
    assert repr(rest) == repr(tuned)
    seen: list[int] = []
    again = cp.tune(**SEARCH, out=tmp_path, progress=lambda at: seen.append(at.new))
    assert repr(again) == repr(tuned) and sum(seen) == 0


def test_words_switches_and_fairness() -> None:
    found = cp.tune(
        "cubic:initial_window=4pkts",
        {"hystart": None, "loss_factor": (0.5, 0.9)},
        trace="constant:4mbit",
        objectives={"fairness": "maximize", "queue_delay_ms_p50": "minimize"},
        flows=2,
        duration="6s",
        seeds=[1],
        trials=4,
        prune=False,
        path={"queue": "droptail:60kB"},
    )
    assert all(one.cc.startswith("cubic:initial_window=4pkts,hystart=") for one in found.frontier)
    assert all(0.5 < one.values["fairness"] <= 1 for one in found.frontier)


class Reno(cp.Controller):
    """Halves at ``beta``, and begins with ``packets``."""

    def __init__(self, beta: float = 0.5, packets: int = 10, kind: str = "reno") -> None:
        self.beta, self.packets, self.kind = beta, packets, kind

    def start(self, mss: int, now: float, seed: int) -> None:
        self.mss, self.cwnd = mss, self.packets * mss

    def on_ack(self, ack: cp.AckEvent) -> None:
        self.cwnd += self.mss * ack.bytes / self.cwnd

    def on_loss(self, loss: cp.LossEvent) -> None:
        self.cwnd = max(self.cwnd * self.beta, 2 * self.mss)


OWN: dict[str, Any] = {
    "trace": "constant:4mbit",
    "path": {"queue": "droptail:20kB"},
    "duration": "6s",
    "seeds": [1],
    "trials": 4,
    "prune": False,
}


def test_the_arguments_of_a_class_are_searched(tmp_path: Path) -> None:
    search: dict[str, Any] = {"beta": (0.2, 0.9), "packets": (4, 40), "kind": ["reno", "other"]}
    found = cp.tune(Reno, search, **OWN, out=tmp_path)
    assert found.untuned.cc == "Reno" and found.untuned.controller is Reno
    for one in found.frontier:
        assert one.cc.startswith("Reno(beta=0.") and ", packets=" in one.cc and ", kind=" in one.cc
        run = cp.compare(one.controller, "constant:4mbit", queue="droptail:20kB", duration="6s")
        assert run["cc"].tolist() == [one.cc]
        assert one.values["utilization"] == run["utilization"][0]
    assert repr(cp.tune(Reno, search, **OWN, out=tmp_path)) == repr(found)


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        (None, "search: `Reno` is your own: give the ranges of its arguments"),
        (["beta"], "search: `Reno` is your own: give the ranges of its arguments"),
        ({"betta": (0.1, 0.2)}, "search: `Reno`: got an unexpected keyword argument 'betta'"),
        ({"beta": (0.9, 0.2)}, "search: beta: a range is from a lower to a higher number, or a list"),
        ({"beta": "0.5"}, "search: beta: a range is from a lower to a higher number, or a list"),
    ],
)
def test_what_cannot_be_searched_in_a_class_is_refused(search: Any, sentence: str) -> None:
    with pytest.raises(cp.CellpaceError) as refused:
        cp.tune(Reno, search, **OWN)
    assert sentence in str(refused.value)
    with pytest.raises(TypeError, match="a text such as 'verus:r=2', a class, or a function"):
        cp.tune(Reno(), search, **OWN)  # type: ignore[arg-type]


def test_the_ends_of_every_declared_range_can_be_written() -> None:
    seen = 0
    for info in cp.controllers():
        for param in cp.params(info.name):
            for end in (param.low, param.high):
                if end is None or end > 1e15 or param.kind == "window":
                    continue
                seen += 1
                text = cp._native.param_text(info.name, param.key, end)
                value = cp._native.param_number(info.name, param.key, text)
                assert value == pytest.approx(end, rel=1e-9), (info.name, param.key, text)
                try:
                    cp._native.check_controller(f"{info.name}:{param.key}={text}")
                except cp.CellpaceError as error:
                    assert "out of range" not in str(error), error
    assert seen > 50


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cc": "versu"}, "there is no controller `versu`; did you mean `verus`?"),
        ({"search": ["q"]}, "search: `verus` has no parameter `q`; it has r, "),
        ({"search": {"r": (8, 2)}}, "search: r: a range is from a lower to a higher value"),
        ({"search": {"epoch": (2, 20)}}, "epoch: `2` needs a unit"),
        ({"search": {"r": (2, 8000)}}, "r=8000 is out of range; allowed: "),
        ({"cc": "verus:r=3"}, "search: `verus:r=3` sets `r` already"),
        ({"objectives": {"trace": "maximize"}}, "objectives: the column `trace` has no numbers"),
        ({"search": {}}, "search: `verus` leaves nothing to search"),
        ({"objectives": ["speed"]}, "objectives: `speed`; there are utilization, throughput, "),
        ({"objectives": {"speed": "maximize"}}, "objectives: results have no column `speed`"),
        ({"objectives": "fairness"}, "objectives: `fairness` needs flows=2 or more"),
        ({"trace": "lte-drivin"}, "trace: "),
        ({"path": {"rtt": 40}}, "rtt: 40 has no unit"),
        ({"duration": "40"}, "needs a unit"),
    ],
)
def test_what_cannot_be_searched_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cp.CellpaceError) as refused:
        cp.tune(**SEARCH | {"trials": 2, "seeds": [1]} | change)
    assert sentence in str(refused.value)
