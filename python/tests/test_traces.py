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
    with pytest.raises(cp.CellpaceError, match="states: "):
        cp.train("copa", "umts-driving", tmp_path / "never.mdi", states="levles", duration="5s")


def test_claims_are_the_programs(program: Program) -> None:
    theirs = json.loads(program("paper", "list", "--json", "-"))["claims"]
    ours = cp.claims().to_dicts()
    assert [(c["claim"], c["verdict"]) for c in ours] == [(c["id"], c["verdict"]) for c in theirs]
    with pytest.raises(cp.CellpaceError):
        cp.claims("no-such-claim")


def test_a_claim_runs_and_has_a_page() -> None:
    verdicts = cp.paper("verus-sec53-epoch", depth="quick")
    (claim,) = verdicts.document["claims"]
    assert claim["id"] == "verus-sec53-epoch" and claim["checks"]
    assert "verus-sec53-epoch" in repr(verdicts) and "<iframe" in verdicts._repr_html_()
    with pytest.raises(cp.CellpaceError, match="there are quick, as written, full"):
        cp.paper("verus-sec53-epoch", depth="deep")  # type: ignore[arg-type]


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
