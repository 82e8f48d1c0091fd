"""Environments of Gymnasium."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellpace as cp

gymnasium = pytest.importorskip("gymnasium", reason="no gymnasium")

import cellpace.gym  # noqa: E402
from conftest import Program, without_command  # noqa: E402

CONVENTIONS = ("default", "aurora", "orca", "mvfst")
LINK: dict[str, Any] = {"trace": ["umts-driving", "constant:5mbit"], "rtt": ("20ms", "100ms"), "duration": "1s"}


@pytest.mark.parametrize("observation, action", list(itertools.product(CONVENTIONS, CONVENTIONS)))
def test_the_checker_of_gymnasium_passes(observation: str, action: str) -> None:
    from gymnasium.utils.env_checker import check_env

    for reward in CONVENTIONS:
        options = {"observation": observation, "action": action, "reward": reward}
        env = gymnasium.make("cellpace/Link-v0", **LINK, **options)
        with warnings.catch_warnings():
            # Bounds of the originals are not -1 and 1.
            warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*")
            check_env(env.unwrapped, skip_render_check=True)


def episode(env: Any, seed: int | None) -> tuple[list[Any], list[float]]:
    """Observations and rewards of an episode; actions depend on the number of the step alone."""
    observation, _ = env.reset(seed=seed)
    seen: list[Any] = [observation.tolist()]
    rewards: list[float] = []
    is_over = False
    while not is_over:
        action = np.array([(len(rewards) % 5) / 2 - 1], dtype=np.float32)
        observation, reward, terminated, is_over, _ = env.step(action)
        assert not terminated
        seen.append(observation.tolist())
        rewards.append(reward)
    return seen, rewards


def test_the_seed_decides_everything() -> None:
    env, other = (gymnasium.make("cellpace/Link-v0", **LINK) for _ in range(2))
    first, second = episode(env, 7), episode(env, None)
    assert first != second
    assert (first, second) == (episode(other, 7), episode(other, None))
    assert first != episode(other, 8)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_many_at_once_are_as_each_alone(mode: str) -> None:
    count, steps = 3, 110
    envs = gymnasium.make_vec("cellpace/Link-v0", num_envs=count, autoreset_mode=mode, jobs=2, **LINK)
    assert isinstance(envs, cellpace.gym.LinkVectorEnv)
    alone = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("cellpace/Link-v0", **LINK)] * count, autoreset_mode=mode
    )
    same(envs.reset(seed=5), alone.reset(seed=5))
    ends = 0
    for step in range(steps):
        actions = np.array([[((step + n) % 5) / 2 - 1] for n in range(count)], dtype=np.float32)
        found, expected = envs.step(actions), alone.step(actions)
        same(found[:4], expected[:4])
        ends += int(found[3].sum())
        if mode == "SameStep" and found[3].any():
            assert (found[4]["_final_obs"] == expected[4]["_final_obs"]).all()
            for lane in np.flatnonzero(found[3]):
                same([found[4]["final_obs"][lane]], [expected[4]["final_obs"][lane]])
    assert ends >= 2 * count


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        if not isinstance(one, dict):
            np.testing.assert_array_equal(one, other)


def test_what_was_returned_stays() -> None:
    env = gymnasium.make("cellpace/Link-v0", **LINK)
    observation, _ = env.reset(seed=1)
    before = observation.copy()
    for _ in range(5):
        env.step(np.array([1.0], dtype=np.float32))
    np.testing.assert_array_equal(observation, before)


def test_the_link_tells_its_capacity_in_info_only() -> None:
    env = gymnasium.make("cellpace/Link-v0", trace="constant:12mbit", duration="3s", random_start=False)
    env.reset(seed=1)
    infos = [env.step(np.array([0.2], dtype=np.float32))[4] for _ in range(100)]
    assert np.mean([info["capacity_mbps"] for info in infos]) == pytest.approx(12, rel=0.02)
    assert np.mean([info["throughput_mbps"] for info in infos[50:]]) == pytest.approx(12, rel=0.05)
    assert infos[-1]["queue_delay_ms"] > 10


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"observation": "pcc"}, "observation: `pcc`; there are default, aurora, orca, mvfst"),
        ({"step": "0ms"}, "step"),
        ({"step": "20ms", "decision_delay": "30ms"}, "decision_delay"),
        ({"rtt": ("90ms", "20ms")}, "rtt: a range is from a shorter to a longer one"),
        ({"history": 0}, "history: 0 steps; allowed: 1 to 100"),
        ({"competing": "cubik"}, "cubik"),
        ({"trace": ()}, "trace: at least one trace is needed"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cp.CellpaceError, match="^.*" + sentence.replace("`", ".")):
        cellpace.gym.LinkEnv(**options)


def test_the_rest_of_the_path_is_as_in_compare() -> None:
    path = {"uplink": "constant:100kbit", "handover": ["200ms/100ms/90ms"], "impair": "duplicate=1%"}
    env = gymnasium.make("cellpace/Link-v0", trace="constant:6mbit", duration="1s", path=path)
    plain = gymnasium.make("cellpace/Link-v0", trace="constant:6mbit", duration="1s")
    assert episode(env, 3) == episode(env, 3) != episode(plain, 3)
    with pytest.raises(cp.CellpaceError, match="did you mean `uplink`"):
        cellpace.gym.LinkEnv(path={"uplin": "constant:1mbit"})
    with pytest.raises(TypeError, match="path: `queue` is an option of its own"):
        cellpace.gym.LinkEnv(path={"queue": "codel"})


def test_a_policy_goes_to_onnx_and_comes_back(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="no onnx")
    from onnx.reference import ReferenceEvaluator

    env = gymnasium.make("cellpace/Link-v0", history=1, **LINK)
    random = np.random.default_rng(1)
    sizes = [6, 8, 5, 1]
    for kind in (np.float32, np.float64):
        layers: list[tuple[Any, Any]] = [
            (random.normal(size=(out, into)).astype(kind), random.normal(size=out).astype(kind))
            for into, out in itertools.pairwise(sizes)
        ]
        policy, model, back = (tmp_path / name for name in ("a.json", "a.onnx", "b.json"))
        cellpace.gym.save_policy(policy, env, layers, about="three layers")
        cellpace.gym.export_onnx(policy, model)
        cellpace.gym.save_policy(back, env, model, about="three layers")
        assert json.loads(back.read_text()) == json.loads(policy.read_text())
        seen: Any = random.normal(size=(4, 6)).astype(kind)
        expected: Any = seen
        for weights, bias in layers[:-1]:
            expected = np.tanh(expected @ weights.T + bias)
        expected = expected @ layers[-1][0].T + layers[-1][1]
        found: Any
        (found,) = ReferenceEvaluator(onnx.load(model)).run(None, {"observation": seen})
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_other_forms_of_onnx_are_read_or_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="no onnx")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    env = gymnasium.make("cellpace/Link-v0", history=1, **LINK)
    weights = np.arange(12, dtype=np.float32).reshape(6, 2)
    values = {"w": weights, "b": np.array([1, 2]), "v": np.array([[3], [4]]), "c": np.array([5])}

    def saved(*nodes: Any, output: str = "out") -> dict[str, Any]:
        ends = [info(name, onnx.TensorProto.FLOAT, None) for name in ("in", output)]
        constants = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()]
        model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], constants))
        onnx.save(model, tmp_path / "m.onnx")
        cellpace.gym.save_policy(tmp_path / "p.json", env, tmp_path / "m.onnx")
        document: dict[str, Any] = json.loads((tmp_path / "p.json").read_text())
        return document

    last = make("Gemm", ["t", "v", "c"], ["out"])
    first = [make("Flatten", ["in"], ["f"]), make("MatMul", ["f", "w"], ["m"]), make("Add", ["m", "b"], ["s"])]
    layers = saved(*first, make("Tanh", ["s"], ["t"]), last)["layers"]
    assert layers[0] == {"weights": weights.T.tolist(), "bias": [1, 2]}
    assert layers[1] == {"weights": [[3, 4]], "bias": [5]}
    for nodes, sentence in (
        ([*first, make("Relu", ["s"], ["t"]), last], "Relu `t` is none of Gemm, MatMul, Add, Tanh"),
        ([*first, make("Gemm", ["s", "v", "c"], ["out"])], "Gemm `out` follows another layer without Tanh"),
        ([*first, make("Tanh", ["s"], ["out"])], "it does not end with a layer"),
        ([make("Tanh", ["in"], ["out"])], "Tanh `out` stands in front of the first layer"),
        ([*first, make("Tanh", ["s"], ["t"]), make("Gemm", ["t", "m"], ["out"])], "goes to 2 operations"),
    ):
        with pytest.raises(cp.CellpaceError, match=sentence):
            saved(*nodes)
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(cp.CellpaceError, match="m.onnx: no ONNX model"):
        cellpace.gym.save_policy(tmp_path / "p.json", env, tmp_path / "m.onnx")
    with pytest.raises(cp.CellpaceError, match="there is no file"):
        cellpace.gym.save_policy(tmp_path / "p.json", env, tmp_path / "gone.onnx")
    with pytest.raises(cp.CellpaceError, match="m.onnx"):
        cellpace.gym.export_onnx(tmp_path / "m.onnx", tmp_path / "n.onnx")


def test_options_have_names() -> None:
    with pytest.raises(TypeError, match="no option `durtion`"):
        cellpace.gym.LinkEnv(durtion="1s")  # type: ignore[call-arg]


def test_a_policy_is_a_file(tmp_path: Path) -> None:
    env = gymnasium.make("cellpace/Link-v0", observation="aurora", history=2, **LINK)
    path = tmp_path / "policy.json"
    cellpace.gym.save_policy(path, env, [(np.zeros((4, 6)), np.zeros(4)), (np.ones((1, 4)), [0.5])])
    document = json.loads(path.read_text())
    assert (document["observation"], document["history"], document["step"]) == ("aurora", 2, "20ms")
    with pytest.raises(cp.CellpaceError):
        cellpace.gym.save_policy(path, env, [(np.zeros((1, 5)), [0.5])])
    assert json.loads(path.read_text()) == document


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """Aims at an RTT of 1.35 times the least: 2 ** (0.3 - ln(RTT / least RTT)) times the window."""
    env = gymnasium.make("cellpace/Link-v0", history=1, **LINK)
    path = tmp_path / "delay.json"
    cellpace.gym.save_policy(path, env, [([[-1, 0, 0, 0, 0, 0]], [0.3])])
    return f"policy:model={path}"


def test_a_policy_is_a_controller_of_the_program_too(policy: str, program: Program) -> None:
    runs = cp.compare([policy, "copa"], ["constant:6mbit", "umts-driving"], duration="20s")
    options = ["--trace=constant:6mbit", "--trace=umts-driving", "--duration=20s", "--json=-"]
    theirs = program("compare", f"--cc={policy}", "--cc=copa", *options)
    assert without_command(runs.to_json()) == without_command(theirs)
    assert runs["cc"][0] == policy
    # It aims at 14 ms and decides once in a step of half an RTT, so that it swings about that; a buffer of 2 MB has 2.7 s.
    assert runs["utilization"][0] > 0.9 and runs["queue_delay_ms_p95"][0] < 60


def test_a_policy_decides_in_a_run_as_in_its_environment(policy: str, tmp_path: Path) -> None:
    env = gymnasium.make(
        "cellpace/Link-v0", trace="constant:6mbit", rtt="40ms", history=1, duration="8s", random_start=False
    )
    seen, _ = env.reset(seed=1)
    rates, is_over = [], False
    while not is_over:
        action = np.clip(0.3 - seen.reshape(-1)[:1], -1, 1)
        seen, _, _, is_over, info = env.step(action)
        rates.append(info["throughput_mbps"])
    run = cp.compare(policy, "constant:6mbit", duration="8s", skip="0s")
    assert np.mean(rates) == pytest.approx(run["throughput_mbps"][0], rel=0.01)


def test_a_policy_becomes_a_markov_table(policy: str, tmp_path: Path) -> None:
    table = tmp_path / "learnt.mdi"
    learnt = cp.train(policy, ["umts-driving", "constant:6mbit"], table, users=[1], duration="60s")
    assert learnt["teacher"] == policy and learnt["transitions"] > 1000
    runs = cp.compare([policy, f"mdi:model={table}"], "umts-driving", duration="30s", seeds=range(1, 4))
    teacher, walk = runs["utilization"].reshape(2, 3).mean(axis=1)
    assert 0.5 * teacher < walk


@pytest.mark.parametrize(
    ("cc", "sentence"),
    [
        ("policy", "cc: `policy`: name the file of a policy: policy:model=FILE"),
        ("policy:model=gone.json", "gone.json"),
        ("policy:modle=x", "did you mean `model`?"),
    ],
)
def test_a_policy_needs_its_file(cc: str, sentence: str) -> None:
    with pytest.raises(cp.CellpaceError) as refused:
        cp.compare(cc)
    assert sentence in str(refused.value)
