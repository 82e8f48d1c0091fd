"""Traces, training, claims and pages, as the program has them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import cellpace as cp
import numpy as np
import pytest
from conftest import Program


def test_a_trace_has_the_programs_figures(program: Program, tmp_path: Path) -> None:
    program("trace", "make", "umts-driving", "--duration", "60s", "-o", str(tmp_path / "drive.down"))
    trace = cp.Trace.load(tmp_path / "drive.down")
    assert np.array_equal(
        trace.times_ms(), cp.Trace.load("umts-driving", duration="60s").times_ms()
    )
    theirs = json.loads(program("trace", "show", str(tmp_path / "drive.down"), "--json", "-"))
    ours = trace.stats()
    for name in ("seconds", "opportunities", "mean_mbps", "rate_1s_mbps", "cv", "gap_ms"):
        assert ours[name] == theirs["traces"][0][name] if "traces" in theirs else theirs[name]


def test_a_trace_of_times_is_the_file_with_these_times(tmp_path: Path) -> None:
    times = np.cumsum(np.full(5000, 2))
    trace = cp.Trace.from_times_ms(times, name="even")
    assert (trace.name, trace.period_s, len(trace)) == ("even", 10.0, 5000)
    assert trace.mean_mbps == pytest.approx(6.0)
    trace.save(tmp_path / "even")
    of_file = cp.compare("copa", tmp_path / "even", duration="5s")
    assert cp.compare("copa", trace, duration="5s").to_json() == of_file.to_json()
    assert len(trace.rates(10)) == 10
    assert "10 s, 6.00 Mbit/s" in repr(trace)


def test_times_that_are_no_trace_are_refused() -> None:
    for times in ([], [3, 2], [-1, 2], [float("nan")], [2**32], [0]):
        with pytest.raises(cp.CellpaceError):
            cp.Trace.from_times_ms(times)
    with pytest.raises(cp.CellpaceError, match="nowhere"):
        cp.Trace.load("nowhere")


def test_tables_and_rates_are_the_traces_of_the_program(program: Program, tmp_path: Path) -> None:
    table = tmp_path / "phone.csv"
    table.write_text("when,DL_bitrate\n0,12000\n1,6000\n2,9000\n")
    program("trace", "convert", str(table), "-o", str(tmp_path / "theirs"), "--time", "when")
    with pytest.warns(UserWarning, match="rate: `DL_bitrate`, kbit/s"):
        ours = cp.Trace.from_csv(table, time=1)
    ours.save(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    asked = cp.Trace.from_csv(table, time="when", rate="dl_bitrate", unit="kbit/s", gap="zero")
    rates = cp.Trace.from_rates(np.arange(3), [12, 6, 9])
    for trace in (asked, rates, pickle.loads(pickle.dumps(rates))):
        assert np.array_equal(trace.times_ms(), ours.times_ms())
    for wrong in ({"unit": "furlongs"}, {"rate": "x"}, {"gap": "x"}):
        with pytest.raises(cp.CellpaceError, match="furlongs|no such column|neither hold"):
            cp.Trace.from_csv(table, time=1, **wrong)
    with pytest.raises(cp.CellpaceError, match="at least two"):
        cp.Trace.from_rates([0], [1])


def test_a_fitted_profile_is_the_programs(program: Program, tmp_path: Path) -> None:
    trace = cp.Trace.load("umts-driving", duration="120s")
    trace.save(tmp_path / "umts-driving")
    trace.fit().save(tmp_path / "ours")
    program("trace", "fit", str(tmp_path / "umts-driving"), "-o", str(tmp_path / "theirs"))
    assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()
    assert len(cp.compare("copa", f"profile:{tmp_path / 'ours'}", duration="4s")) == 1


def test_a_table_has_the_programs_bytes(program: Program, tmp_path: Path) -> None:
    options = ["--cc=copa", "--trace=umts-driving", "--users=1,2", "--duration=10s", "--rtt=30ms"]
    program("mdi", "train", *options, "-o", str(tmp_path / "theirs.mdi"))
    learnt = cp.train(
        *("copa", "umts-driving", tmp_path / "ours.mdi"), users=[1, 2], duration="10s", rtt="30ms"
    )
    assert (tmp_path / "ours.mdi").read_bytes() == (tmp_path / "theirs.mdi").read_bytes()
    assert learnt["samples"] > 1000 and learnt["teacher"] == "copa"
    runs = cp.compare(f"mdi:model={tmp_path / 'ours.mdi'}", "umts-driving", duration="5s")
    assert runs["throughput_mbps"][0] > 0.1


def test_states_are_refused_before_anything_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp._native, "watch", None)
    with pytest.raises(cp.CellpaceError, match="states: "):
        cp.train("copa", "umts-driving", tmp_path / "never.mdi", states="levles", duration="5s")


def test_teachers_are_watched_once_for_several_tables(tmp_path: Path) -> None:
    watched = cp.watch("copa", "umts-driving", users=[1, 2], duration="5s")
    samples = watched.samples(users=[1])
    assert len(samples) > 500 and set(samples["users"]) == {1}
    learnt = watched.learn(tmp_path / "two.mdi", users=[2], states="absolute:bin=2ms")
    assert learnt["samples"] == len(watched.samples(users=[2]))
    with pytest.raises(cp.CellpaceError, match="users: 3 users were not watched"):
        watched.samples(users=[3])
    table = cp.MarkovTable.load(tmp_path / "two.mdi")
    cells = table.cells()
    assert cells["count"].sum() == learnt["transitions"] and cells["to_delay"].max() < len(table.delays)
    assert table.file_bytes == learnt["bytes"] and table.memory_bytes > 0 and len(table.pictures()) == 2
    table.save(tmp_path / "same.mdi")
    assert (tmp_path / "same.mdi").read_bytes() == (tmp_path / "two.mdi").read_bytes()
    (tmp_path / "no.mdi").write_bytes(b"no table")
    with pytest.raises(cp.CellpaceError, match="no.mdi"):
        cp.MarkovTable.load(tmp_path / "no.mdi")


def test_runs_are_observed() -> None:
    scenario = 'trace = "constant:12mbit"\nduration = "10s"\n[[flow]]\ncc = "verus:r=2"\n'
    seen = cp.observe(scenario, seed=3, arrivals=True, profiles=True)
    arrivals = seen.arrivals_ns
    assert seen.figures["seed"] == 3 and seen.figures["per_flow"][0]["rtt_ms"] == 40
    assert len(arrivals) > 5_000 and (arrivals[1:] >= arrivals[:-1]).all()
    assert [profile.at_s for profile in seen.profiles][:2] == [1, 2] and seen.profiles[-1].curve
    assert cp.observe(scenario, series=False).arrivals_ns.size == 0
    with pytest.raises(cp.CellpaceError, match="scenario"):
        cp.observe("trace = 3")


def test_radio_and_predictability_of_traces() -> None:
    drive = cp.drive("radio:highway-700", duration="20s")
    assert len(drive) == 2_000 and set(drive["bits_per_symbol"]) <= {0, 2, 4, 6}
    with pytest.raises(cp.CellpaceError, match="is no radio layer"):
        cp.drive("lte-driving")
    trace = cp.Trace.load("umts-driving", duration="30s")
    (windows,) = trace.predict([100])
    assert windows["width_ms"] == 100 and windows["predictions"][0]["nrmse"] > 0
    with pytest.raises(cp.CellpaceError, match="widths_ms"):
        trace.predict([0])
    assert trace.scaled(0.5).mean_mbps == pytest.approx(trace.mean_mbps / 2, rel=0.02)


def test_pages_are_whole_and_name_what_was_run(tmp_path: Path) -> None:
    runs = cp.compare(["verus", "copa"], duration="4s")
    runs.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "copa" in page
    assert "srcdoc" in runs._repr_html_()
    (tmp_path / "result.json").write_text(cp.compare("bbr", duration="4s").to_json())
    both = cp.report(runs, tmp_path / "result.json", output=tmp_path / "both.html")
    assert "bbr" in both.html and (tmp_path / "both.html").read_text() == both.html
    with pytest.raises(cp.CellpaceError, match=r"nowhere.json: no such file"):
        cp.report("nowhere.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(cp.CellpaceError, match="no result of cellpace"):
        cp.report(tmp_path / "other.json")


def test_parameters_have_ranges() -> None:
    by_key = {param.key: param for param in cp.params("verus")}
    assert (by_key["r"].kind, by_key["r"].low, by_key["r"].default) == ("number", 1.0, "2")
    assert by_key["r"].logarithmic
    assert all(param.help and param.source for param in by_key.values())
    assert {info.name for info in cp.controllers()} > {"verus", "copa", "bbr"}
    assert "lte-driving" in cp.profiles()
    with pytest.raises(cp.CellpaceError, match="did you mean `verus`"):
        cp.params("verbus")
