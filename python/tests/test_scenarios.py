"""Scenarios, as `cellpace sim` runs them."""

from __future__ import annotations

import math
from pathlib import Path

import cellpace as cp
import pytest
from cellpace import TomlValue
from conftest import Program, without_command

TOML = """trace = "constant:20mbit"
duration = "8s"
seed = 3

[[flow]]
cc = "verus"
count = 2

[[flow]]
cc = "cubic"
start = "2s"

[[flow]]
cc = "bbr"
transfer = { size = "200kB", count = 3, gap = "1s" }

[[flow]]
udp = "2mbit"
"""


def scenario() -> cp.Scenario:
    transfer: dict[str, TomlValue] = {"size": "200kB", "count": 3, "gap": "1s"}
    flows = [cp.Flow("verus", count=2), cp.Flow("cubic", start="2s")]
    flows += [cp.Flow("bbr", transfer=transfer), cp.Flow(udp="2mbit")]
    return cp.Scenario("constant:20mbit", flows, duration="8s", seed=3)


def test_a_scenario_has_the_programs_figures(program: Program) -> None:
    theirs = without_command(program("sim", "-", "--json=-", text=TOML))
    assert without_command(cp.simulate(TOML).to_json()) == theirs
    assert without_command(cp.simulate(scenario()).to_json()) == theirs


def test_a_scenario_is_written_as_the_program_reads_it(program: Program) -> None:
    theirs = program("sim", "-", "--json=-", text=scenario().to_toml())
    assert without_command(theirs) == without_command(cp.simulate(scenario()).to_json())


def test_a_video_beside_a_download_has_the_programs_figures(program: Program) -> None:
    text = '''trace = "constant:8mbit"
duration = "8s"

[[flow]]
cc = "scream"
video = { fps = 25, max = "4mbit", key_on_loss = true }

[[flow]]
cc = "cubic"
start = "2s"
'''
    video: dict[str, TomlValue] = {"fps": 25, "max": "4mbit", "key_on_loss": True}
    flows = [cp.Flow("scream", video=video), cp.Flow("cubic", start="2s")]
    ours = cp.simulate(cp.Scenario("constant:8mbit", flows, duration="8s"))
    theirs = without_command(program("sim", "-", "--json=-", text=text))
    assert without_command(ours.to_json()) == theirs
    frames = theirs["runs"][0]["per_flow"][0]["video"]
    scream, cubic = ours.flows().to_dicts()
    assert scream["video_late"] == frames["late"] and frames["frames"] > 100
    assert math.isnan(cubic["video_late"])


def test_flows_carry_a_video_or_a_download() -> None:
    flow = cp.Flow("copa", video={}, transfer={"size": "1MB"})
    with pytest.raises(cp.CellpaceError, match="either"):
        cp.simulate(cp.Scenario("constant:8mbit", [flow], duration="1s"))


def test_seeds_replace_the_scenarios(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TOML)
    file = cp.ScenarioFile.load(tmp_path / "two.toml")
    runs = cp.simulate(file, seeds=[3, 4])
    assert runs["seed"].tolist() == [3, 4]
    assert runs.to_dicts()[0] == cp.simulate(TOML).to_dicts()[0]


def test_own_controllers_and_traces_are_parts_of_scenarios() -> None:
    class Ten(cp.Controller):
        cwnd = 15_000

    trace = cp.Trace.from_times_ms(range(1, 5001), name="steady")
    flows = [cp.Flow(Ten, count=2), cp.Flow("fixed:cwnd=15kB")]
    runs = cp.simulate(cp.Scenario(trace, flows, duration="6s"))
    assert runs["trace"].tolist() == ["steady"]
    assert runs["cc"].tolist() == ["2 x Ten + fixed:cwnd=15kB"]
    rates = runs.flows()["throughput_mbps"]
    assert rates.min() > 0.9 * rates.max()


def test_errors_name_line_and_field() -> None:
    for text, sentence in [
        ('trace = "lte-driving"\nspeed = 3\n', "speed"),
        ('trace = "lte-driving"\n\n[[flow]]\ncc = "verbus"\n', "did you mean `verus`"),
        ("trace =", "scenario"),
    ]:
        with pytest.raises(cp.CellpaceError, match=sentence):
            cp.simulate(text)
    with pytest.raises(cp.CellpaceError, match="scenario:4: cc: "):
        cp.simulate('trace = "lte-driving"\n\n[[flow]]\ncc = "verbus"\n')
    with pytest.raises(cp.CellpaceError, match="there is no file `nowhere.toml`"):
        cp.ScenarioFile.load("nowhere.toml")
