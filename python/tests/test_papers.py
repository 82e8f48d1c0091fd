"""Claims of papers: all of them load, some run, and what runs them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from papers import charts, fetch, figures, recordings, runner, scenarios
from papers.__main__ import main, outcome_text
from papers.claims import Check, Claim, Result, Run, all_claims, select, verdict_of
from papers.figures import NUMBER, TIME, Figures, Margin, Row, WrongClaim, ms
from papers.pages import HEADLINES, count_rows, write_pages
from papers.traces import Traces
from papers.variants import forms_of, sweep_of

SOURCES = Path(__file__).parents[2]
QUICK = runner.Options("quick")
TRACES = Path(os.environ.get("CELLPACE_TRACES", "/"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the tests, not of who runs them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CELLPACE_TRACES", raising=False)


def made(**asked: Any) -> Claim:
    """A claim with one run."""
    claim = Claim(f"made-{asked.get('trace', 'up')}", "here", "A window fills a link.", "text", "virtual", "reproduced")
    claim.run("alone", **asked)
    return claim


def windows(trace: str, **more: Any) -> Claim:
    """A claim with a run at two windows."""
    sweep = {"window": ["20pkts", "40pkts"]}
    return made(trace=trace, cc="fixed:cwnd={window}", rtt="40ms", duration="5s", sweep=sweep, **more)


def test_all_claims_load_and_are_counted_in_the_docs() -> None:
    claims = all_claims()
    ids = [claim.id for claim in claims]
    assert len(ids) == len(set(ids))
    assert sorted(HEADLINES) == sorted(claim.id for claim in claims if claim.headline)
    page = (SOURCES / "docs" / "validation" / "README.md").read_text(encoding="utf-8")
    _, rows = count_rows([runner.Outcome(claim, claim.expected, claim.expected) for claim in claims])
    assert all(run.evidence for claim in claims for run in claim.runs.values() if run.setup != "ours")
    for row in rows:
        assert f"| {' | '.join(map(str, row))} |" in page


def test_the_tests_that_stand_for_components_are_there() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (SOURCES / "crates").rglob("*.rs"))
    for claim in all_claims():
        for name in claim.tests:
            assert f"fn {name}" in sources, f"{claim.id}: no test begins with {name}"


def test_every_run_has_scenarios_without_traces(tmp_path: Path) -> None:
    for claim in all_claims():
        for run in claim.runs.values():
            if {"recording", "train"} & set(run.asked):
                continue
            cells = list(scenarios.cells_of(run.asked, "quick", Traces(None, tmp_path)))
            assert cells and all("{" not in cell.text.split("[[flow]]")[0] for cell in cells[:1]), claim.id


def test_claims_run_without_traces_and_have_pages(tmp_path: Path) -> None:
    claims = select(all_claims(), ["verus-sec53-epoch", "alcc-fig2", "verus-fig15", "highway-pep"])
    outcomes = runner.run([claims[0], *[c for c in claims if c.id != claims[0].id]], QUICK)
    assert all(outcome.unrun in (None, "needs traces") for outcome in outcomes)
    assert all(outcome.results for outcome in outcomes if outcome.claim.checks and outcome.unrun is None)
    write_pages(outcomes, "quick", tmp_path)
    for paper in ("alcc", "verus", "highway", "index"):
        assert (tmp_path / f"{paper}.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.skipif("CELLPACE_TRACES" not in os.environ, reason="CELLPACE_TRACES names no traces")
def test_claims_on_recorded_traces_have_their_verdicts() -> None:
    claims = select(all_claims(), ["verus-fig1", "verus-fig5"])
    outcomes = runner.run(claims, runner.Options("as written", TRACES))
    assert [outcome.verdict for outcome in outcomes] == [claim.expected for claim in claims]


def test_runs_have_a_value_for_each_place_and_are_kept() -> None:
    claim = windows("constant:12mbit")
    claim.runs["alone"].core("full", lambda run: run["throughput_mbps"].at(window="40pkts").mean() >= 11 * figures.mbit)
    claim.runs["alone"].chart("bars", lambda run: run["queue_delay_ms.p95"].mean("seed", "start"), x="window")
    (outcome,) = runner.run([claim], QUICK)
    assert outcome.verdict == "reproduced" and outcome.is_expected and not outcome.on_generated_traces
    values = claim.runs["alone"]["throughput_mbps"]
    assert values.axes == ("trace", "cc", "window", "start", "seed")
    assert values.rows[0].value == pytest.approx(6e6, rel=0.05)
    (chart,) = charts.charts(claim)
    assert chart["names"] == ["20pkts", "40pkts"] and chart["unit"] == "queue delay p95 (ms)"
    again = windows("constant:12mbit")
    runner.run([again], QUICK)
    assert again.runs["alone"]["throughput_mbps"].rows[1].value == values.rows[1].value
    with pytest.raises(WrongClaim, match="no run has `queue_dealy_ms.p95`"):
        claim.runs["alone"]["queue_dealy_ms.p95"]


def test_pings_have_the_rtt_of_each_request() -> None:
    text = 'trace = "constant:12mbit"\nrtt = "50ms"\nduration = "5s"\n[[ping]]\n[[flow]]\ncc = "fixed:cwnd=10pkts"\n'
    claim = made(scenario=text)
    runner.run([claim], QUICK)
    rtts = claim.runs["alone"]["ping.rtt_ms"]
    assert len(rtts.rows) == 5 and all(0.05 <= row.value <= 0.07 for row in rtts.rows)
    with pytest.raises(WrongClaim, match="no run has `ping.lost`"):
        claim.runs["alone"]["ping.lost"]


def test_a_claim_that_cannot_run_leaves_the_others_their_figures(tmp_path: Path) -> None:
    needs = windows("city-drive")
    needs.needs_traces = True
    outcomes = runner.run([needs, windows("constant:12mbt"), windows("constant:12mbit")], QUICK)
    assert outcomes[0].unrun == "needs traces" and outcomes[0].is_expected
    assert outcome_text(outcomes[0]) == f"{needs.id}: needs traces"
    assert outcomes[1].has_failed and "run alone" in str(outcomes[1].unrun)
    assert outcomes[2].unrun is None
    (missing,) = runner.run([windows("city-drive")], runner.Options("quick", tmp_path))
    assert missing.unrun == "needs traces"
    (generated,) = runner.run([windows("city-drive")], QUICK)
    assert generated.on_generated_traces and generated.shown == "reproduced, on generated traces"


def test_tables_are_trained_and_run() -> None:
    claim = made(trace="constant:12mbit", cc="mdi:model=train.still,users=1", rtt="40ms", duration="5s")
    claim.train("still", teacher="fixed:cwnd=20pkts", traces=["constant:12mbit"], users=[1])
    claim.run("table", train="still")
    (outcome,) = runner.run([claim], QUICK)
    assert outcome.unrun is None
    assert claim.runs["table"]["table.samples"].rows[0].value > 100 and len(claim.runs["table"].maps("zoom")) == 1
    assert claim.runs["alone"]["throughput_mbps"].rows[0].value == pytest.approx(6e6, rel=0.2)


def test_published_matrices_are_run_where_they_are(tmp_path: Path) -> None:
    claim = made(trace="constant:12mbit", cc="fixed:cwnd=20pkts", rtt="40ms", duration="5s")
    table = "mdi:model=mdi/transMatrix"
    claim.run("published", beside=True, trace="constant:12mbit", cc=table, rtt="40ms", duration="5s")
    for options in (QUICK, runner.Options("quick", tmp_path)):
        (outcome,) = runner.run([claim], options)
        assert outcome.unrun is None
        with pytest.raises(WrongClaim):
            claim.runs["published"]["throughput_mbps"]
    alone = made(trace="constant:12mbit", cc=table)
    assert runner.run([alone], QUICK)[0].unrun == "needs traces"
    (tmp_path / "mdi").mkdir()
    # Two changes of delay times two of the window, in the layout of 2021.
    matrix = "2,0,2,2,2,-1,0,1\n0.5,0.5,0,0\n0,0,0.5,0.5\n0.5,0.5,0,0\n0,0,0.5,0.5\n"
    (tmp_path / "mdi" / "transMatrix.csv").write_text(matrix)
    runner.run([claim], runner.Options("quick", tmp_path))
    assert claim.runs["published"]["throughput_mbps"].rows[0].value > 0
    (tmp_path / "mdi" / "transMatrix.csv").write_text("no matrix")
    (refused,) = runner.run([claim], runner.Options("quick", tmp_path))
    assert refused.has_failed and "transMatrix.csv" in str(refused.unrun)


def result(setup: str, level: str, passed: bool, noise: bool = False, decides: bool = False) -> Result:
    run = Run(made(scenario=""), "r", setup, "", decides, setup == "beside", {})
    return Result(Check("", level, run, lambda run: run["jain"]), passed, noise, "", "", "")


def test_verdicts_follow_the_levels_and_the_printed_set_up_decides() -> None:
    core, full = (result("printed", level, False) for level in ("core", "full"))
    passed = result("printed", "core", True)
    assert verdict_of([passed]) == "reproduced" and verdict_of([passed, full]) == "in part"
    assert verdict_of([core]) == "refuted"
    assert verdict_of([result("printed", "core", False, noise=True)]) == "in part"
    assert verdict_of([core, result("inferred", "core", True)]) == "in part"
    assert verdict_of([core, result("inferred", "core", True, decides=True)]) == "reproduced"
    assert verdict_of([core, result("ours", "core", True)]) == "refuted"
    assert verdict_of([passed, result("beside", "core", False)]) == "reproduced"


def test_a_set_up_is_printed_only_with_the_words() -> None:
    claim = made(trace="constant:12mbit", cc="cubic")
    assert claim.runs["alone"].setup == "ours"
    assert claim.run("printed", printed="RTT 40 ms", trace="constant:12mbit", cc="cubic").evidence == "RTT 40 ms"
    with pytest.raises(WrongClaim, match="`decides` is for inferred set-ups"):
        claim.run("decides", decides=True, trace="constant:12mbit", cc="cubic")
    with pytest.raises(WrongClaim, match="not both"):
        claim.run("two", printed="RTT 40 ms", inferred="so it must be", trace="constant:12mbit", cc="cubic")


def two_windows(depends: tuple[str, ...] = ()) -> Claim:
    """A window of 40 packets fills 12 Mbit/s over 40 ms, and not over 60."""
    asked: dict[str, Any] = {"trace": "constant:12mbit", "cc": "fixed:cwnd=40pkts", "rtt": "40ms", "queue": "droptail:2MB"}
    claim = Claim("made-window", "here", "A window fills a link.", "text", "virtual", "reproduced", depends=depends)
    run = claim.run("alone", duration="5s", **asked)
    run.core("full", lambda run: run["utilization"].mean() >= 0.95)
    return claim


def test_what_the_paper_does_not_print_is_set_otherwise_and_may_turn_the_verdict() -> None:
    options = runner.Options(sweep=True)
    (outcome,) = runner.run([two_windows(("RTT",))], options)
    found = {(tried.variant.what, tried.variant.value): tried.verdict for tried in outcome.sweep}
    assert found["RTT", "20ms"] == found["buffer", "droptail:1MB"] == "reproduced"
    assert found["RTT", "60ms"] == found["RTT", "100ms"] == "refuted"
    assert outcome.turning == ["RTT"] and outcome.is_expected and outcome.swept == "holds in 6 of 8 set-ups"
    assert outcome.shown == "depends on RTT (reproduced as set up)"
    (other,) = runner.run([two_windows()], options)
    assert not other.is_expected and other.differences == ["depends on RTT, not nothing"]
    claim = two_windows()
    claim.fixed = ("RTT", "buffer")
    assert not sweep_of(claim, ['rtt = "40ms"\nqueue = "droptail:2MB"\n'])


def test_the_form_that_the_paper_prints_decides_and_the_others_are_beside_it() -> None:
    claim = Claim("verus-made", "here", "Verus fills a link.", "text", "virtual", "reproduced", forms={"verus": "refuted"})
    run = claim.run("alone", trace="constant:12mbit", cc=["verus:r=2", "cubic"], rtt="40ms", duration="5s")
    run.core("as printed", lambda run: run["flow.queue_delay_ms.mean"].at(cc="verus:r=2").mean() >= 0 * ms)
    assert [form.name for form in forms_of(claim)] == ["verus:paper", "verus", "verus:original"]
    (outcome,) = runner.run([claim], runner.Options(sweep=True))
    assert outcome.differences == ["verus: reproduced, not refuted"]
    values = {tried.results[0].value for tried in outcome.forms}
    assert len(values) > 1, "the forms are not the same program"


def test_intervals_and_repetitions_stand_beside_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [1, 2, 3, 4, 5]
    claim = made(trace="random:2mbit..20mbit/1s", cc="cubic", rtt="40ms", duration="5s", seeds=seeds)
    claim.runs["alone"].core("fast", lambda run: run["throughput_mbps"].mean() >= 1 * figures.mbit, bound="paper")
    (outcome,) = runner.run([claim], runner.Options())
    (found,) = outcome.results
    assert found.repetitions == 5 and found.half_width.endswith("Mbit/s") and found.check.bound == "paper"


def test_traces_are_fetched_with_their_hashes_and_errors_name_them(tmp_path: Path) -> None:
    published = tmp_path / "published" / "who" / "what" / "HEAD"
    published.mkdir(parents=True)
    (published / "a.down").write_text("1\n2\n")
    digest = "1191fea2f7f3bb65a2e1dcbd6ab0f9a9d3a4cfaf0cbb6bcb3a6a2bb31a2cb5a7"
    wrong = fetch.Source("who/what", "a.down", 4, digest, "MIT", "a.down")
    right = wrong._replace(sha256=hashlib.sha256(b"1\n2\n").hexdigest())
    base, into = (tmp_path / "published").as_uri(), tmp_path / "traces"
    said: list[str] = []
    assert fetch.fetch([right], into, said.append, base) == 1 and (into / "a.down").read_text() == "1\n2\n"
    assert fetch.fetch([right], into, said.append, base) == 0 and said == ["a.down: 4 bytes from who/what (MIT)"]
    with pytest.raises(fetch.Unfetched, match="a.down: file:.*is not the file of 4 bytes"):
        fetch.fetch([wrong], into, said.append, base)
    assert (into / "a.down").read_text() == "1\n2\n", "what is there stays"
    with pytest.raises(fetch.Unfetched, match="1 of 1 files cannot be fetched\n  b.down: file:.*No such file"):
        fetch.fetch([right._replace(path="b.down", name="b.down")], into, said.append, base)
    known = fetch.sources()
    assert all(len(one.sha256) == 64 and one.licence for one in known)
    names = {one.name for one in known}
    assert {"city-drive.down", "verizon-lte-short.up", "mdi/channel11.down"} <= names


def of(**values: float) -> Figures:
    return Figures(TIME, ["cc"], [Row((cc,), value, {}) for cc, value in values.items()], "delay")


def test_figures_are_joined_where_their_places_are_the_same() -> None:
    delay, other = of(copa=0.02, bbr=0.05), of(bbr=0.1, copa=0.1)
    ratio = delay / other
    assert ratio.unit == NUMBER and [row.value for row in ratio.rows] == pytest.approx([0.2, 0.5])
    worst = (delay <= 40 * ms).all().rows[0]
    assert worst.value == 0 and worst.margin == Margin(0.05, 0.04, TIME, ("bbr",))
    assert delay.at(cc="copa").axes == () and delay.without(cc="copa").mean().rows[0].value == 0.05
    with pytest.raises(WrongClaim, match="units do not fit: a time and a number"):
        delay <= 3
    with pytest.raises(WrongClaim, match="selects nothing of delay"):
        delay.at(cc="cubic")
    with pytest.raises(WrongClaim, match="no axis `trace`; there are cc"):
        delay.mean("trace")
    with pytest.raises(WrongClaim, match="write & and"):
        bool(delay <= 40 * ms)


def test_starts_are_spread_over_the_trace() -> None:
    assert scenarios.starts_ms({"starts": 3, "duration": "60s"}, "as written", 300.0) == [0, 120_000, 240_000]
    assert scenarios.starts_ms({"starts": 3, "duration": "290s"}, "as written", 300.0) == [0, 100_000, 200_000]
    assert scenarios.starts_ms({"starts": ["3s", "9s"]}, "quick", None) == [3_000]
    assert len(scenarios.starts_ms({"starts": 3, "duration": "60s"}, "full", 300.0)) == 10


def repository(folder: Path, script: str, axes: str = '["driver", "trace"]') -> Path:
    """A repository whose experiment is a shell script."""
    (folder / "evaluation").mkdir()
    (folder / "papers" / "recorded").mkdir(parents=True)
    (folder / "measure.sh").write_text(script)
    (folder / "figures.json").write_text(
        '{"cells": {"gate/city": {"throughput": {"runs": [1, 3]}, "minutes": [4, 2]}}}'
    )
    (folder / "evaluation" / "recordings.toml").write_text(
        f'[made]\nfile = "figures.json"\ntable = "cells"\naxes = {axes}\nplaces = {{ city = "city-drive" }}\n'
        'fields.throughput_mbps = "throughput"\ncommand = "sh measure.sh CELLPACE OUT.json"\nconditions = "none"\n'
    )
    return folder


def test_what_is_measured_is_stored_with_its_conditions_and_read_again(tmp_path: Path) -> None:
    script = """test "$1" = /the/program && echo '{"cells": {"gate/city": {"throughput": {"runs": [7]}}}}' > "$2" """
    root = repository(tmp_path, script)
    one = recordings.recordings(root)["made"]
    rows = one.field("throughput_mbps").rows
    assert [(row.places, row.value) for row in rows] == [
        (("gate", "city-drive", "4"), 1e6),
        (("gate", "city-drive", "2"), 3e6),
    ]
    assert one.places("run") == ["4", "2"] and len(one.field("throughput_mbps", ("run", "2")).rows) == 1
    assert "figures.json, papers/recorded/made.json" in recordings.record(one, "/the/program")
    recordings.recordings.cache_clear()
    again = recordings.recordings(root)["made"]
    assert again.field("throughput_mbps").rows[0].value == 7e6
    assert again.note in ("", " (invalid)") and "Linux" in again.machine
    code = root / "crates" / "cc" / "src" / "lib.rs"
    code.parent.mkdir(parents=True)
    code.write_text("fn changed() {}")
    recordings.recordings.cache_clear()
    recordings.code_digest.cache_clear()
    assert recordings.recordings(root)["made"].note == " (stale)"
    code.unlink()
    recordings.code_digest.cache_clear()
    conditions = root / "papers" / "recorded" / "made.json"
    conditions.write_text(json.dumps(json.loads(conditions.read_text()) | {"description": "another"}))
    recordings.recordings.cache_clear()
    assert recordings.recordings(root)["made"].note == " (stale)"
    recordings.recordings.cache_clear()


def test_what_fails_while_measuring_is_named_and_nothing_is_stored(tmp_path: Path) -> None:
    one = recordings.recordings(repository(tmp_path, "exit 3"))["made"]
    with pytest.raises(WrongClaim, match="ended with 3"):
        recordings.record(one, "/the/program")
    assert not list((tmp_path / "papers" / "recorded").iterdir())


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "verus-fgi5"]) == 2
    assert "did you mean `verus-fig5`" in capsys.readouterr().err
    assert main(["list", "verus", "--state", "refuted"]) == 0
    assert "refuted" in capsys.readouterr().out
    assert main(["show", "verus-table1"]) == 0
    assert "def table1(c: Claim)" in capsys.readouterr().out
