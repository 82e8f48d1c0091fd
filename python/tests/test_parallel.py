"""Several learners on one link."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellpace as cp

pytest.importorskip("pettingzoo", reason="no pettingzoo")

from cellpace.gym import LinkEnv  # noqa: E402
from cellpace.parallel import ParallelLinkEnv  # noqa: E402

LINK: dict[str, Any] = {"trace": ["umts-driving", "constant:5mbit"], "rtt": ("20ms", "100ms"), "duration": "1s"}


@pytest.mark.parametrize("action", ["default", "mvfst", "direct"])
def test_the_checks_of_pettingzoo_pass(action: Any) -> None:
    test = pytest.importorskip("pettingzoo.test")

    env = ParallelLinkEnv(3, action=action, **LINK)
    test.parallel_api_test(env, num_cycles=200)
    test.parallel_seed_test(lambda: ParallelLinkEnv(2, action=action, **LINK))


def episode(env: ParallelLinkEnv, seed: int | None) -> list[Any]:
    """Observations and rewards of an episode; the learners do not do the same."""
    observations, _ = env.reset(seed=seed)
    seen: list[Any] = [{agent: one.tolist() for agent, one in observations.items()}]
    step = 0
    while env.agents:
        actions = {agent: np.array([((step + at) % 5) / 2 - 1]) for at, agent in enumerate(env.agents)}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        assert not any(terminations.values()) and len(set(truncations.values())) == 1
        seen.append(({agent: one.tolist() for agent, one in observations.items()}, rewards, infos))
        step += 1
    return seen


def test_the_seed_decides_everything() -> None:
    env, other = (ParallelLinkEnv(3, **LINK) for _ in range(2))
    first, second = episode(env, 7), episode(env, None)
    assert first != second
    assert (first, second) == (episode(other, 7), episode(other, None))
    assert first != episode(other, 8)


def test_learners_share_what_the_link_has() -> None:
    env = ParallelLinkEnv(3, trace="constant:12mbit", rtt="40ms", action="direct", duration="6s", random_start=False)
    env.reset(seed=1)
    shares: dict[str, list[float]] = {agent: [] for agent in env.agents}
    windows = {"learner_0": 20, "learner_1": 20, "learner_2": 40}
    while env.agents:
        actions = {agent: np.array([windows[agent], 0]) for agent in env.agents}
        _, _, _, _, infos = env.step(actions)
        for agent, info in infos.items():
            shares[agent].append(info["throughput_mbps"])
            assert info["capacity_mbps"] == pytest.approx(12, rel=0.1)
    rates = {agent: float(np.mean(rates[100:])) for agent, rates in shares.items()}
    assert sum(rates.values()) == pytest.approx(12, rel=0.02)
    assert rates["learner_0"] == pytest.approx(3, rel=0.1) and rates["learner_2"] == pytest.approx(6, rel=0.1)


def test_a_learner_alone_paces_as_it_is_told() -> None:
    env = LinkEnv(trace="constant:12mbit", action="direct", duration="3s", random_start=False)
    env.reset(seed=1)
    for _ in range(100):
        observation, _, _, _, info = env.step(np.array([200, 6.0], dtype=np.float32))
    assert info["send_mbps"] == pytest.approx(6, rel=0.1)
    assert (info["pacing_mbps"], info["cwnd_packets"]) == (pytest.approx(6), 200)
    for name in ("base_rtt_ms", "rtt_least_ms", "rtt_ms", "rtt_most_ms", "srtt_ms"):
        assert info[name] == pytest.approx(41, abs=0.01), name
    assert observation in env.observation_space


def test_what_cannot_be_is_refused() -> None:
    for count in (0, 65):
        with pytest.raises(cp.CellpaceError, match=f"learners: {count}; allowed: 1 to 64"):
            ParallelLinkEnv(count)
    with pytest.raises(cp.CellpaceError, match="step: several learners decide at the same times"):
        ParallelLinkEnv(2, step="1rtt")
    env = ParallelLinkEnv(2, **LINK)
    with pytest.raises(ValueError, match="the episode is over: reset first"):
        env.step({})
    env.reset(seed=1)
    with pytest.raises(ValueError, match="no action of learner_1"):
        env.step({"learner_0": np.array([0.0])})
