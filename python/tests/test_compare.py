"""Comparisons: the program's figures and sentences."""

from __future__ import annotations

import json
import math
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import cellpace as cp
import numpy as np
import pytest
from conftest import Program, without_command

PROFILES = ["lte-driving", "umts-driving", "hspa-walking"]


def test_figures_of_all_controllers_on_three_profiles_are_the_programs(program: Program) -> None:
    ccs = [info.name for info in cp.controllers()]
    options = [f"--cc={cc}" for cc in ccs] + [f"--trace={trace}" for trace in PROFILES]
    theirs = program("compare", *options, "--duration=6s", "--json=-")
    ours = cp.compare(ccs, PROFILES, duration="6s")
    assert len(ours) == len(ccs) * 3 >= 36
    assert without_command(ours.to_json()) == without_command(theirs)


def test_every_option_means_what_it_means_to_the_program(program: Program) -> None:
    theirs = program(
        *("compare", "--cc=copa", "--trace=constant:20mbit", "--uplink=constant:5mbit"),
        *("--rtt=30ms", "--queue=droptail:100pkts", "--loss=1%", "--from=1s"),
        *("--uplink-loss=2%", "--uplink-queue=codel"),
        *("--impair=reorder=1%/5ms", "--impair=up:duplicate=1%", "--jitter=harq:bler=10%,rtt=8ms"),
        "--rrc=umts,idle=300ms",
        *("--handover=3s/100ms/60ms/lost", "--acks=delayed:40ms", "--skip=1s", "--duration=8s"),
        *("--flows=2", "--send-jitter=50%", "--transfer=1MB,count=4,gap=100ms", "--seed=7", "--repeat=2"),
        "--json=-",
    )
    ours = cp.compare(
        "copa",
        "constant:20mbit",
        uplink="constant:5mbit",
        rtt=timedelta(milliseconds=30),
        queue="droptail:100pkts",
        loss="1%",
        uplink_loss="2%",
        uplink_queue="codel",
        from_="1s",
        impair=["reorder=1%/5ms", "up:duplicate=1%"],
        jitter="harq:bler=10%,rtt=8ms",
        rrc="umts,idle=300ms",
        handover="3s/100ms/60ms/lost",
        acks="delayed:40ms",
        skip="1s",
        duration="8s",
        flows=2,
        send_jitter="50%",
        transfer="1MB,count=4,gap=100ms",
        seeds=[7, 8],
    )
    assert without_command(ours.to_json()) == without_command(theirs)


def test_a_video_has_the_programs_figures(program: Program) -> None:
    options = ("--cc=copa", "--cc=scream", "--trace=lte-driving", "--duration=10s", "--seed=3")
    video = "fps=25,max=6mbit,discard=500ms"
    theirs = without_command(program("compare", *options, f"--video={video}", "--json=-"))
    ours = cp.compare(["copa", "scream"], "lte-driving", duration="10s", seeds=[3], video=video)
    assert without_command(ours.to_json()) == theirs
    for row, run in zip(ours.flows().to_dicts(), theirs["runs"], strict=True):
        frames = run["per_flow"][0]["video"]
        assert frames["frames"] > 150
        assert row["video_frame_delay_ms_p95"] == frames["frame_delay_ms"]["p95"]
        for name in ("bitrate_mbps", "late", "freezes", "frozen_s"):
            assert row[f"video_{name}"] == frames[name]


def test_a_video_with_all_defaults_is_the_option_alone(program: Program) -> None:
    options = ("--cc=copa", "--trace=constant:5mbit", "--duration=5s", "--video", "--json=-")
    theirs = without_command(program("compare", *options))
    ours = cp.compare("copa", "constant:5mbit", duration="5s", video="")
    assert without_command(ours.to_json()) == theirs


def test_no_video_has_no_figures_of_one() -> None:
    flows = cp.compare("copa", "constant:5mbit", duration="3s").flows().to_dicts()
    assert math.isnan(flows[0]["video_late"])


def test_what_is_wrong_with_a_video_is_said() -> None:
    for video, sentence in [("fps=0", "fps"), ("frames=30", "frames"), ("min=2mbit,max=1mbit", "above")]:
        with pytest.raises(cp.CellpaceError, match=f"video.*{sentence}"):
            cp.compare("copa", "constant:5mbit", duration="1s", video=video)
    with pytest.raises(cp.CellpaceError, match="either a transfer or a video"):
        cp.compare("copa", "constant:5mbit", duration="1s", video="", transfer="1MB")


def test_one_row_for_each_run_with_the_documents_values() -> None:
    runs = cp.compare(["verus", "cubic"], "constant:5mbit", loss="0.1%", duration="3s", seeds=range(3))
    assert len(runs) == 6
    for row, run in zip(runs.to_dicts(), runs.document["runs"], strict=True):
        for name in ("cc", "seed", "throughput_mbps", "packets", "jain"):
            assert row[name] == run[name]
        assert row["queue_delay_ms_p95"] == run["queue_delay_ms"]["p95"]
        assert row["rtt_ms_seen_max"] == run["rtt_ms_seen"]["max"]
    flows = runs.flows()
    assert len(flows) == 6 and set(flows["cc"]) == {"verus", "cubic"}
    series = runs.series(5)
    assert len(series) == 30 and series["start_s"][1] == 0.1
    with pytest.raises(IndexError):
        runs.series(6)


def test_seeds_that_change_nothing_are_reported() -> None:
    with pytest.warns(UserWarning, match="cubic on constant:5mbit: all seeds gave the same figures"):
        cp.compare(["bbr", "cubic"], "constant:5mbit", duration="3s", seeds=[1, 2])
    alone = 'trace = "constant:5mbit"\nduration = "3s"\n[[flow]]\ncc = "cubic"\n'
    with pytest.warns(UserWarning, match="the same figures"):
        cp.simulate(alone, seeds=[1, 2])
    # Flows that share the link have jitter; without it they are the same again.
    cp.simulate(alone + "count = 2\n", seeds=[1, 2])
    with pytest.warns(UserWarning, match="the same figures"):
        cp.compare("cubic", "constant:5mbit", flows=2, send_jitter="0%", duration="3s", seeds=[1, 2])


def test_the_number_of_jobs_makes_no_difference() -> None:
    alone = cp.compare(["bbr", "sprout"], duration="4s", seeds=range(4), jobs=1)
    assert alone.to_json() == cp.compare(["bbr", "sprout"], duration="4s", seeds=range(4)).to_json()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"cc": "verbus"}, "cc: there is no controller `verbus`; did you mean `verus`?"),
        ({"cc": ["copa", "copa"]}, "cc: `copa` is given twice"),
        ({"cc": "verus:q=1"}, "cc: "),
        ({"rtt": 40}, "rtt: `40` needs a unit, in quotes"),
        ({"rtt": "40"}, "rtt: `40` needs a unit"),
        ({"trace": "lte-drivin"}, "trace: "),
        ({"queue": "codel:5ms"}, "queue: "),
        ({"loss": "100%"}, "loss: "),
        ({"handover": ["9s", "3s"]}, "handover: "),
        ({"duration": "1s"}, "skip (2s) leaves nothing"),
        ({"seeds": range(300_000)}, "split the work"),
        ({"seeds": []}, "seeds: at least one seed is needed"),
        ({"seeds": -1}, "seeds: `-1` is no whole number from 0"),
        ({"seeds": [1, -1]}, "seeds: `-1` is no whole number from 0"),
        ({"seeds": "5..1"}, "seeds: the range `5..1` is empty"),
        ({"seeds": "1-5"}, 'seeds: `1-5` is no range such as "1..5"'),
        ({"jobs": 0}, "jobs: `0`; allowed: 1 to 1024"),
        ({"cc": []}, "cc: at least one controller is needed"),
        ({"trace": []}, "trace: at least one trace is needed"),
    ],
)
def test_errors_are_the_programs_sentences(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(cp.CellpaceError, match=re.escape(sentence)):
        cp.compare(**arguments)  # type: ignore[arg-type]


def test_other_types_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="cc: dict is no subclass of cellpace.Controller"):
        cp.compare(dict)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rtt: a text such as '40ms' is needed, not list"):
        cp.compare(rtt=["40ms"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^seeds: `1.5` is no whole number"):
        cp.compare(seeds=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^jobs: a whole number or None is needed, not '2'"):
        cp.compare(jobs="2")  # type: ignore[arg-type]
    for flows in (-1, "2", 2.5):
        with pytest.raises(TypeError, match=r"^flows: (?!.*Comparing)"):
            cp.compare(flows=flows)  # type: ignore[arg-type]


def test_seeds_are_written_as_in_a_plan() -> None:
    written = cp.compare("copa", duration="4s", seeds="1..3")
    assert written["seed"].tolist() == [1, 2, 3]
    assert written.to_json() == cp.compare("copa", duration="4s", seeds=range(1, 4)).to_json()
    assert cp.compare("copa", duration="4s", seeds=np.int64(2))["seed"].tolist() == [2]
    assert len(cp.simulate(cp.Scenario(duration="4s"), seeds="1..2")) == 2


def test_results_and_traces_can_be_pickled() -> None:
    runs = cp.compare(["copa", "cubic"], duration="4s", seeds=range(2))
    again = pickle.loads(pickle.dumps(runs))
    assert again.to_json() == runs.to_json() and repr(again) == repr(runs)
    assert again.series(1)["throughput_mbps"].tolist() == runs.series(1)["throughput_mbps"].tolist()
    trace = cp.Trace.load("umts-driving", duration="20s")
    same = pickle.loads(pickle.dumps(trace))
    assert (same.name, same.times_ms().tolist()) == (trace.name, trace.times_ms().tolist())


def test_packets_and_events_are_those_of_the_programs_logs(program: Program, tmp_path: Path) -> None:
    log, events = tmp_path / "packets.parquet", tmp_path / "events.jsonl"
    options = "--cc verus --cc cubic --trace umts-driving --duration 5s --loss 1%"
    program(*f"compare {options} --log {log} --events {events}".split())
    runs = cp.compare(["verus", "cubic"], "umts-driving", duration="5s", loss="1%", logs=True)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for run in (0, 1):
        found = runs.events(run).to_dicts()
        of_run = [line for line in lines if line["run"] == run and line["event"] not in ("run", "metrics")]
        assert [(one["time_s"], one["event"]) for one in found] == [(one["time_s"], one["event"]) for one in of_run]
        assert all(json.loads(one["data"]).items() <= line.items() for one, line in zip(found, of_run, strict=True))
    polars = pytest.importorskip("polars", reason="no polars")
    written = polars.read_parquet(log).with_columns(polars.col("fate").cast(polars.String))
    for run in (0, 1):
        packets = polars.DataFrame(runs.packets(run)).with_columns(polars.col("fate").cast(polars.String))
        expected = written.filter(polars.col("run") == run).select(packets.columns)
        assert packets.height > 500 and packets.rows() == expected.rows()
        assert set(runs.packets(run)["fate"]) == set(packets["fate"])
    plain = cp.compare(["verus", "cubic"], "umts-driving", duration="5s", loss="1%")
    assert plain.to_json() == runs.to_json()
    for refused in (plain.packets, plain.events):
        with pytest.raises(cp.CellpaceError, match="no packets and events were kept: logs=True"):
            refused()
    with pytest.raises(IndexError, match="there is no run 2"):
        runs.packets(2)


def test_controllers_of_ones_own_have_logs() -> None:
    class Steady(cp.Controller):
        cwnd = 30_000

    scenario = cp.Scenario("constant:12mbit", [cp.Flow(Steady), cp.Flow("cubic")], duration="3s")
    runs = cp.simulate(scenario, logs=True)
    packets = runs.packets()
    assert packets["flow"].tolist().count(0) > 200 and packets["flow"].tolist().count(1) > 200
    assert set(runs.events()["flow"].tolist()) == {1}


def test_other_threads_go_on_while_the_simulator_runs() -> None:
    turns, done = 0, threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    cp.compare(["verus", "sprout"], duration="60s", seeds=range(4), jobs=1, series=False)
    seen = turns
    done.set()
    counter.join()
    assert seen > 10, "the simulator held the interpreter"


def test_threads_get_what_one_gets() -> None:
    results: dict[int, str] = {}

    def run(seed: int) -> None:
        results[seed] = cp.compare("verus", duration="4s", seeds=seed).to_json()

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = {seed: cp.compare("verus", duration="4s", seeds=seed).to_json() for seed in range(4)}
    assert results == alone


LONG = {
    "built in": "cp.compare('verus', 'constant:100mbit', duration='24h', series=False)",
    "in Python": "cp.compare(cp.Controller, 'constant:100mbit', duration='24h', series=False)",
}


@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_ends_a_long_run(kind: str) -> None:
    code = f"""
import cellpace as cp
try:
    print("begins", flush=True)
    {LONG[kind]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        # A signal that comes before the run begins is raised there, too.
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
        process.wait()


def test_a_whole_path_has_the_programs_figures(program: Program) -> None:
    options = ("--cc=copa", "--path=leo-bent-pipe", "--loss=1%", "--from=3s", "--duration=5s")
    ours = cp.compare("copa", path="leo-bent-pipe", loss="1%", from_="3s", duration="5s")
    assert without_command(ours.to_json()) == without_command(program("compare", *options, "--json=-"))
    with pytest.raises(cp.CellpaceError, match="path: has the trace as well"):
        cp.compare("copa", "lte-stationary", path="leo-bent-pipe")
    scenario = cp.Scenario(path="leo-bent-pipe", flows=[cp.Flow("copa")], duration="5s")
    compared = cp.compare("copa", path="leo-bent-pipe", duration="5s")
    assert cp.simulate(scenario)["throughput_mbps"].tolist() == compared["throughput_mbps"].tolist()
    with pytest.raises(cp.CellpaceError, match="path: has the trace as well"):
        cp.simulate(cp.Scenario(trace="lte-stationary", path="leo-bent-pipe"))
