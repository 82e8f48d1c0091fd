"""Controllers in Python."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import Any

import cellpace as cp
import pytest
from newreno import NewRenoPort

PATHS: dict[str, dict[str, Any]] = {
    "a short queue": {"trace": "constant:12mbit", "queue": "droptail:30pkts"},
    "random loss": {"trace": "constant:20mbit", "loss": "1%", "seeds": [1, 2]},
    "a cell": {"trace": "umts-driving", "queue": "droptail:60pkts", "duration": "60s", "seeds": [1, 2]},
    "outages": {"trace": "onoff:6mbit,on=3s,off=2s", "queue": "droptail:40pkts"},
    "reordering": {"trace": "constant:10mbit", "impair": "reorder=2%/20ms", "loss": "0.2%", "seeds": [1, 2]},
    "handover": {"trace": "constant:10mbit", "handover": "8s/300ms/90ms/lost"},
    "delayed acks": {"trace": "constant:10mbit", "acks": "delayed:40ms", "loss": "0.5%", "seeds": [1, 2]},
}


@pytest.mark.parametrize("path", PATHS)
def test_a_port_of_newreno_sends_what_the_built_in_one_sends(path: str) -> None:
    conditions = {"duration": "20s", **PATHS[path]}
    built_in, port = cp.compare("newreno", **conditions), cp.compare(NewRenoPort, **conditions)
    assert built_in["packets"].min() > 1000
    assert built_in.to_json().count("newreno") == port.to_json().count("NewRenoPort")
    for run in range(len(port)):
        theirs, ours = built_in.series(run), port.series(run)
        for column in ours.column_names:
            assert ours[column].tobytes() == theirs[column].tobytes(), column
    for column in port.column_names[1:]:
        assert port[column].tolist() == built_in[column].tolist(), column


class Steady(cp.Controller):
    """A window that does not change."""

    cwnd = 30_000


def test_every_form_of_a_controller_is_taken() -> None:
    class Named(Steady):
        name = "thirty"

    def make() -> cp.Controller:
        return Steady()

    ccs: list[cp.ControllerLike] = ["fixed:cwnd=30kB", Steady, Named(), make]
    runs = cp.compare(ccs, duration="4s")
    assert runs["cc"].tolist() == ["fixed:cwnd=30kB", "Steady", "thirty", "make"]
    assert len(set(runs["packets"].tolist())) == 1, "all of them are the same window"
    bound = cp.compare(partial(Steady), duration="4s")
    assert bound["cc"].tolist() == ["Steady"] and bound["packets"][0] == runs["packets"][0]


def test_results_keep_the_order_of_what_was_asked_for() -> None:
    runs = cp.compare(["cubic", Steady, "copa"], ["lte-driving", "constant:5mbit"], duration="4s")
    assert runs["cc"].tolist() == ["cubic", "Steady", "copa"] * 2
    built_in = cp.compare(["cubic", "copa"], ["lte-driving", "constant:5mbit"], duration="4s")
    of_cubic = [row for row in runs.to_dicts() if row["cc"] == "cubic"]
    assert of_cubic == [row for row in built_in.to_dicts() if row["cc"] == "cubic"]


def test_each_connection_has_a_controller_of_its_own() -> None:
    made: list[cp.Controller] = []

    class Counted(Steady):
        def start(self, mss: int, now: float, seed: int) -> None:
            self.seed, self.acks = seed, 0
            made.append(self)

        def on_ack(self, ack: cp.AckEvent) -> None:
            self.acks += 1

    cp.compare(Counted(), "constant:10mbit", duration="4s", flows=3, seeds=[1, 2])
    assert len(made) == 6
    assert len({one.seed for one in made}) == 6  # type: ignore[attr-defined]
    assert all(one.acks > 100 for one in made)  # type: ignore[attr-defined]


def test_epochs_bring_the_sums_of_all_acks() -> None:
    sums = {"acks": 0, "epochs": 0, "bytes": 0, "sum": 0}

    class Both(Steady):
        epoch = "20ms"

        def on_ack(self, ack: cp.AckEvent) -> None:
            sums["acks"] += len(ack.packets)
            sums["bytes"] += ack.bytes

        def on_epoch(self, epoch: cp.EpochEvent) -> None:
            sums["epochs"] += 1
            sums["sum"] += epoch.acked_bytes
            if epoch.acked_packets:
                assert epoch.rtt_min is not None and epoch.rtt_mean is not None
                assert epoch.rtt_max is not None
                assert epoch.min_rtt <= epoch.rtt_min <= epoch.rtt_max < 1
                assert epoch.rtt_min < epoch.rtt_mean + 1e-9 < epoch.rtt_max + 2e-9

    cp.compare(Both, "constant:10mbit", duration="10s")
    assert 495 <= sums["epochs"] <= 500
    assert sums["bytes"] - 30_000 <= sums["sum"] <= sums["bytes"]


def test_pacing_and_deadlines_are_kept() -> None:
    times: list[float] = []

    class Paced(cp.Controller):
        cwnd = 1e9
        pacing = 250_000.0
        next_deadline = 0.5

        def on_deadline(self, now: float) -> None:
            times.append(now)
            self.next_deadline = now + 0.5

    runs = cp.compare(Paced, "constant:10mbit", duration="10s")
    assert runs["throughput_mbps"][0] == pytest.approx(2.0, rel=0.01)
    assert times == pytest.approx([0.5 * (at + 1) for at in range(len(times))]) and len(times) >= 19


def test_an_exception_comes_out_with_its_own_traceback() -> None:
    class Wrong(cp.Controller):
        def on_ack(self, ack: cp.AckEvent) -> None:
            if ack.now > 1:
                self.helper(ack)

        def helper(self, ack: cp.AckEvent) -> None:
            raise RuntimeError(f"at {ack.now:.0f} s")

    with pytest.raises(RuntimeError, match="at 1 s") as raised:
        cp.compare(["cubic", Wrong], duration="30s")
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-2:] == ["on_ack", "helper"]


def test_nothing_is_called_after_an_exception() -> None:
    calls = []

    class Once(cp.Controller):
        def on_ack(self, ack: cp.AckEvent) -> None:
            calls.append(ack.now)
            raise StopIteration

    with pytest.raises(StopIteration):
        cp.compare(Once, duration="5s", flows=4)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [
        ("cwnd", "many", "Odd.cwnd must be a number of bytes, at least 0; it is 'many'"),
        ("cwnd", -1, "Odd.cwnd must be a number of bytes, at least 0; it is -1"),
        ("cwnd", float("nan"), "Odd.cwnd must be a number of bytes, at least 0; it is nan"),
        ("pacing", "1mbit", "Odd.pacing must be bytes per second, at least 0; it is '1mbit'"),
        ("next_deadline", "1s", "Odd.next_deadline must be seconds, at least 0; it is '1s'"),
        ("on_ack", 3, "Odd.on_ack is no method"),
    ],
)
def test_wrong_types_are_named(attribute: str, value: object, sentence: str) -> None:
    odd = type("Odd", (cp.Controller,), {attribute: value})
    with pytest.raises(TypeError) as raised:
        cp.compare(odd, duration="3s")
    assert str(raised.value) == sentence


def test_a_function_that_makes_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a cellpace.Controller is needed, not int"):
        cp.compare(lambda: 3, duration="3s")  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        cp.compare(lambda: 1 / 0, duration="3s")  # type: ignore[arg-type]


def test_a_deadline_that_does_not_move_on_is_refused() -> None:
    class Stuck(cp.Controller):
        next_deadline = 1.0

        def on_deadline(self, now: float) -> None:
            self.next_deadline = now

    with pytest.raises(ValueError, match="next_deadline must lie after now"):
        cp.compare(Stuck, duration="3s")


def test_epochs_have_bounds() -> None:
    class Fine(cp.Controller):
        def on_epoch(self, epoch: cp.EpochEvent) -> None: ...

    for epoch, sentence in [("1us", "epoch: 1us is below 100us"), ("5", "needs a unit")]:
        with pytest.raises(ValueError, match=sentence):
            cp.compare(type("Fast", (Fine,), {"epoch": epoch}), duration="3s")


def test_a_name_of_the_registry_is_refused() -> None:
    verus = type("verus", (cp.Controller,), {})
    with pytest.raises(cp.CellpaceError, match="cc: `verus` is a built-in controller"):
        cp.compare(verus, duration="3s")


class Marked(cp.Controller):
    """Counts marks."""

    cwnd = 150_000
    marks = 0

    def on_mark(self, mark: cp.MarkEvent) -> None:
        type(self).marks += 1


@pytest.mark.parametrize(("ecn", "comes"), [("l4s", True), ("classic", True), (None, False)])
def test_marks_come_to_those_that_ask_for_them(ecn: str | None, comes: bool) -> None:
    class Asking(Marked):
        marks = 0

    Asking.ecn = ecn
    cp.compare(Asking, "constant:12mbit", queue="dualpi2", duration="6s")
    assert (Asking.marks > 0) == comes


def test_a_codepoint_that_is_none_is_refused() -> None:
    class Wrong(Steady):
        ecn = "ect1"

    with pytest.raises(TypeError, match=r"Wrong.ecn must be None, 'classic' or 'l4s'; it is 'ect1'"):
        cp.compare(Wrong, duration="4s")


def test_a_method_that_would_never_be_called_is_refused() -> None:
    class Misspelt(Steady):
        def on_acks(self, ack: cp.AckEvent) -> None:
            self.cwnd += 1

    with pytest.raises(TypeError, match=r"Misspelt.on_acks would never be called; did you mean on_ack\?"):
        cp.compare(Misspelt, duration="4s")
    with pytest.raises(TypeError, match="Misspelt.on_acks would never be called"):
        cp.simulate(cp.Scenario("constant:12mbit", [cp.Flow(Misspelt)], duration="4s"))


def test_two_objects_of_a_class_need_names() -> None:
    with pytest.raises(cp.CellpaceError, match="are called `Steady`: set `name` of one of them"):
        cp.compare([Steady(), Steady()], duration="4s")
    other = Steady()
    other.name = "other"
    assert cp.compare([Steady(), other], duration="4s")["cc"].tolist() == ["Steady", "other"]


def test_a_table_is_learnt_from_a_controller_in_python(tmp_path: Path) -> None:
    learnt = {}
    for cc in (NewRenoPort, "newreno"):
        learnt[cc] = dict(cp.train(cc, "constant:10mbit", tmp_path / "a.mdi", users=[1, 2], duration="20s"))
    assert learnt[NewRenoPort].pop("teacher") == "NewRenoPort" and learnt["newreno"].pop("teacher") == "newreno"
    assert learnt[NewRenoPort]["transitions"] > 100
    same = ("samples", "transitions", "cells")
    assert [learnt[NewRenoPort][name] for name in same] == [learnt["newreno"][name] for name in same]

    class Wrong(Steady):
        def on_ack(self, ack: cp.AckEvent) -> None:
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        cp.train(Wrong, "constant:10mbit", tmp_path / "b.mdi", duration="10s")
    assert not (tmp_path / "b.mdi").exists()


def test_a_controller_of_ones_own_in_a_cell() -> None:
    flows = [cp.Flow("copa", user="near"), cp.Flow(Steady, user="far", count=2, stagger="1s")]
    more = '[cell]\n[[user]]\nname = "near"\n[[user]]\nname = "far"\n'
    runs = cp.simulate(cp.Scenario("constant:20mbit", flows, duration="8s", more=more))
    assert runs.flows()["cc"].tolist() == ["copa", "Steady", "Steady"]
    assert runs.flows()["start_s"].tolist() == [0.0, 0.0, 1.0]


def test_flows_lead_over_some_links() -> None:
    links = {name: {"trace": rate, "rtt": "20ms"} for name, rate in [("a", "constant:8mbit"), ("b", "constant:4mbit")]}
    flows = [cp.Flow("cubic", path=["a"]), cp.Flow("cubic", path=["b"])]
    first, second = cp.simulate(cp.Scenario(flows=flows, links=links, duration="10s")).flows()["throughput_mbps"]
    assert 7.5 < first < 8.1 and 3.7 < second < 4.1


def test_a_flow_the_other_way() -> None:
    flow = cp.Flow("sprout:original", reverse="sprout:original")
    runs = cp.simulate(cp.Scenario("constant:20mbit", [flow], duration="8s", more='uplink = "constant:5mbit"'))
    assert runs.figures["utilization"] > 0.5


BESIDE = ["copa", "cubic", "bbr", "verus:r=2", "pace"]


@pytest.mark.parametrize("cc", BESIDE)
def test_what_follows_a_built_in_controller_sends_what_it_sends(cc: str) -> None:
    class Follows(cp.Controller):
        beside = {"other": "newreno", "one": cc}  # noqa: RUF012
        follows = "one"

    for path in ("random loss", "outages", "handover"):
        conditions = {"duration": "10s", **PATHS[path]}
        built_in, follower = cp.compare(cc, **conditions), cp.compare(Follows, **conditions)
        for column in follower.column_names[1:]:
            assert follower[column].tolist() == built_in[column].tolist(), (path, column)


def test_a_controller_chooses_between_built_in_ones() -> None:
    seen: list[tuple[float, float, float | None]] = []

    class Chooses(cp.Controller):
        beside = {"slow": "copa", "fast": "cubic"}  # noqa: RUF012
        follows = "fast"

        def on_ack(self, ack: cp.AckEvent) -> None:
            slow, fast = self.beside["slow"], self.beside["fast"]
            assert isinstance(slow, cp.Beside) and isinstance(fast, cp.Beside)
            seen.append((slow.cwnd, fast.cwnd, fast.pacing))
            self.follows = "slow" if ack.now > 5 else "fast"

    runs = cp.compare([Chooses, "cubic", "copa"], "constant:12mbit", duration="10s", series=True)
    chosen, cubic, copa = (runs.series(run)["queue_delay_p50_ms"] for run in range(3))
    half = len(chosen) // 2
    assert chosen[: half - 1].tolist() == cubic[: half - 1].tolist()
    assert chosen[-4:].max() < cubic[-4:].min() / 3 and copa[-4:].max() < cubic[-4:].min() / 3
    assert len({slow for slow, _, _ in seen}) > 10 and len({fast for _, fast, _ in seen}) > 10


def test_a_controller_shows_what_is_inside() -> None:
    class Shows(Steady):
        acks = 0

        def on_ack(self, ack: cp.AckEvent) -> None:
            self.acks += 1

        def inside(self) -> dict[str, float]:
            return {"acks": self.acks, "half_ratio": 0.5}

    series = cp.compare(Shows, "constant:12mbit", duration="4s", series=True).series(0)
    acks, half = series["inside_acks"], series["inside_half_ratio"]
    assert (acks[1:] > acks[:-1]).all() and acks[-1] > 500
    assert half.tolist() == [0.5] * len(half)


def test_what_is_beside_or_inside_is_checked() -> None:
    class Wrong(Steady):
        beside: Any = {}  # noqa: RUF012
        follows: Any = None
        shown: Any = {}  # noqa: RUF012

        def on_ack(self, ack: cp.AckEvent) -> None:
            pass

        def inside(self) -> dict[str, float]:
            return self.shown  # type: ignore[no-any-return]

    def refused(error: type[Exception], text: str, **attributes: object) -> None:
        with pytest.raises(error, match=text):
            cp.compare(type("Odd", (Wrong,), attributes), duration="4s", series=True)

    refused(cp.CellpaceError, "beside: a: .*did you mean `copa`", beside={"a": "coppa"})
    refused(cp.CellpaceError, "beside: a: `sprout` has a half at the receiver", beside={"a": "sprout"})
    refused(TypeError, r"Odd.beside must be names and built-in controllers; it is \[1\]", beside=[1])
    refused(TypeError, "Odd.follows: no `b` in beside; there are: a", beside={"a": "copa"}, follows="b")
    refused(TypeError, "Odd.follows must be a name in beside; it is 3", beside={"a": "copa"}, follows=3)
    refused(TypeError, r"Odd.inside\(\) must be a dictionary of numbers; it is 5", shown=5)
    refused(TypeError, "must be real number", shown={"a": "b"})
