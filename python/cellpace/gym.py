"""Environments to learn policies in: a flow of the simulator that is decided from outside. Of several flows,
``cellpace.parallel`` has one.

Importing this module registers ``cellpace/Link-v0`` with Gymnasium (``pip install cellpace[gym]``)::

    import gymnasium
    import cellpace.gym

    env = gymnasium.make("cellpace/Link-v0", trace="lte-driving", rtt="40ms")
    envs = gymnasium.make_vec("cellpace/Link-v0", num_envs=64, rtt=("20ms", "100ms"))

Arguments are those of ``LinkEnv``. Time is virtual: the link waits for the policy.

Conventions of observations (of so many steps), actions and rewards:

``default`` (4)
    ln(RTT / least RTT), RTT gradient, acknowledged / sent, loss ratio, ln(window / (largest throughput x least RTT)),
    silence / smoothed RTT. Action: window times 2^a, a from -1 to 1. Reward: ln(1 + throughput / 100 kbit/s)
    - ln(RTT / least RTT) - 10 loss ratio.
``aurora`` (2019, 10)
    RTT gradient, mean RTT / least mean RTT, sent / acknowledged. Action: pacing rate times 1 + 0.025 a, or over
    1 - 0.025 a below 0, a from -40 to 40. Reward: 0.01 throughput in packets/s - mean RTT in s - 2 loss ratio.
``orca`` (2020, 10)
    Throughput, pacing and losses over the largest throughput, acks / window, step in RTTs, least / smoothed RTT, delay
    metric. Action: window 4^a times Cubic's, a from -1 to 1. Reward: (throughput - 5 loss rate) / largest throughput
    x delay metric.
``mvfst`` (2019, 2)
    Sum, mean, deviation, minimum and maximum of 20 fields, then the last actions. Action: window kept, halved, 10
    packets less or more, doubled. Reward: 0.1 throughput in MB/s - 0.01 largest delay in ms.

Actions of your own take ``action="direct"``: window in packets and pacing in Mbit/s, 0 for none. Observations and
rewards of your own are made of ``info``. All three are wrappers of Gymnasium.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from cellpace import _native
from cellpace._onnx import read_layers, write_layers
from cellpace._report import write_text
from cellpace._trace import TraceLike, native_traces
from cellpace._written import Quantity, asked, jobs_of, several, written

__all__ = ["Action", "Convention", "LinkEnv", "LinkOptions", "LinkVectorEnv", "export_onnx", "save_policy"]

Convention = Literal["default", "aurora", "orca", "mvfst"]
"""Whose observations, actions or rewards: ours, or those of Aurora, Orca and mvfst-rl."""

Action = Literal["default", "aurora", "orca", "mvfst", "direct"]
"""Whose actions, or window and pacing as they are given."""
Observations = npt.NDArray[np.float32]
_FIGURES = (
    "capacity_mbps",
    "queue_delay_ms",
    "queue_delay_max_ms",
    "throughput_mbps",
    "rtt_ms",
    "loss_ratio",
    "send_mbps",
    "rtt_least_ms",
    "rtt_most_ms",
    "srtt_ms",
    "base_rtt_ms",
    "cwnd_packets",
    "in_flight_packets",
    "pacing_mbps",
)
_DIRECT = np.array([[2, 10_000], [0, 1200]], dtype=np.float32)
"""The least and the largest window in packets, and pacing in Mbit/s."""


class LinkOptions(TypedDict, total=False):
    """Arguments of environments. All have defaults."""

    trace: TraceLike | Iterable[TraceLike]
    """What the link offers; of several, one is drawn for each episode. ``"lte-driving"``."""
    rtt: Quantity | tuple[Quantity, Quantity]
    """RTT without queueing; of two, each episode draws one between them. ``"40ms"``."""
    queue: str
    """The queue at the bottleneck. ``"droptail:2MB"``."""
    loss: str
    """Random loss. ``"0%"``."""
    path: Mapping[str, Any]
    """Other fields of the path, as ``compare`` has them: ``{"uplink": "constant:1mbit", "handover": "9s/200ms"}``. None."""
    duration: Quantity
    """Length of an episode; it is truncated, never terminated. ``"30s"``."""
    competing: str | Iterable[str]
    """Controllers of flows that share the link. None."""
    random_start: bool
    """Whether an episode begins anywhere in its trace. True."""
    step: str
    """From one decision to the next, ``"1ms"`` to ``"1s"`` or ``"0.1rtt"`` to ``"10rtt"``. ``"20ms"``."""
    decision_delay: Quantity
    """So much later an action takes effect. ``"0ms"``."""
    observation: Convention
    """Whose observations. ``"default"``."""
    history: int | None
    """Steps that an observation has, 1 to 100; None: the convention's."""
    action: Action
    """Whose actions. ``"default"``: the window times 2 to the action, -1 to 1. ``"direct"``: window and pacing."""
    reward: Convention
    """Whose rewards. ``"default"``."""


class Links:
    """The native environments with their spaces."""

    def __init__(
        self, options: LinkOptions, count: int, jobs: int | None, same_step: bool, learners: int = 1
    ) -> None:
        unknown = sorted(set(options) - set(LinkOptions.__annotations__))
        if unknown:
            names = ", ".join(sorted(LinkOptions.__annotations__))
            raise TypeError(f"no option `{unknown[0]}`; there are {names}")
        rtt = options.get("rtt", "40ms")
        pair = (written("rtt", rtt[0]), written("rtt", rtt[1])) if isinstance(rtt, tuple) else None
        path: dict[str, Any] = {
            **_path(options.get("path", {})),
            "queue": options.get("queue", "droptail:2MB"),
            "loss": written("loss", options.get("loss", "0%")),
        }
        if not isinstance(rtt, tuple):
            path["rtt"] = written("rtt", rtt)
        self.rules: dict[str, Any] = {
            "step": written("step", options.get("step", "20ms")),
            "decision_delay": written("decision_delay", options.get("decision_delay", "0ms")),
            "observation": options.get("observation", "default"),
            "history": options.get("history"),
            "action": options.get("action", "default"),
        }
        wish = self.rules | {
            "trace": native_traces(options.get("trace", "lte-driving")),
            "path": json.dumps(path),
            "rtts": pair,
            "duration": written("duration", options.get("duration", "30s")),
            "competing": several("competing", options.get("competing", ())),
            "random_start": options.get("random_start", True),
            "reward": options.get("reward", "default"),
            "learners": learners,
            "count": count,
            "jobs": jobs_of(jobs),
            "same_step": same_step,
        }
        self.native = asked(_native.Environments, wish)
        self.rules["history"] = self.native.history()
        self.count = count * learners
        low, high = np.array(self.native.bounds(), dtype=np.float32).T
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        limit, choices = self.native.actions()
        self.action_space: gymnasium.Space[Any]
        self._is_direct = self.rules["action"] == "direct"
        if self._is_direct:
            self.action_space = gymnasium.spaces.Box(*_DIRECT.T, dtype=np.float32)
        elif limit is not None:
            self.action_space = gymnasium.spaces.Box(-limit, limit, shape=(1,), dtype=np.float32)
        else:
            assert choices is not None  # one of both
            self.action_space = gymnasium.spaces.Discrete(choices)

    def arrays(self) -> tuple[Observations, npt.NDArray[np.float64]]:
        """Returns new arrays: what is handed out is never written again."""
        observations = np.empty((self.count, *self.observation_space.shape), dtype=np.float32)
        return observations, np.empty((2 + len(_FIGURES), self.count))

    def reset(self, seeds: Sequence[int | None]) -> tuple[Observations, npt.NDArray[np.float64]]:
        observations, figures = self.arrays()
        self.native.reset(list(seeds), observations, figures)
        return observations, figures

    def step(self, actions: object) -> tuple[Observations, npt.NDArray[np.float64]]:
        values = np.array(actions, dtype=np.float64).reshape(-1)
        if self._is_direct:
            # Mbit/s as bytes per second.
            values[1::2] *= 125_000
        if len(values) != self.count * (1 + self._is_direct):
            raise ValueError(f"{len(values)} actions for {self.count} environments")
        observations, figures = self.arrays()
        self.native.step(values, observations, figures)
        return observations, figures


def _path(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a path in their written forms."""
    twice = sorted({"queue", "loss", "rtt"} & set(fields))
    if twice:
        raise TypeError(f"path: `{twice[0]}` is an option of its own")
    return {
        name: [written(name, one) for one in value] if isinstance(value, list | tuple) else written(name, value)
        for name, value in fields.items()
    }


def drawn(generator: np.random.Generator) -> int:
    """A seed."""
    return int(generator.integers(2**63))


class LinkEnv(gymnasium.Env[Observations, Any]):
    """One link, and the flow on it that is decided from outside once per step.

    The arguments are those of ``LinkOptions``. ``reset(seed=...)`` decides everything: the link that
    is drawn, its randomness, and the episodes after it.

    ``info`` has what policies must not see: ``capacity_mbps``, ``queue_delay_ms`` (mean) and
    ``queue_delay_max_ms`` of the link. Observations and rewards of your own take the flow's figures of the last
    step: ``throughput_mbps``, ``send_mbps``, ``loss_ratio``, ``rtt_ms`` (mean), ``rtt_least_ms`` and
    ``rtt_most_ms`` (0 without acks), and at its end ``srtt_ms``, ``base_rtt_ms``, ``cwnd_packets``,
    ``in_flight_packets`` and ``pacing_mbps`` (0: not paced).

    Raises ``CellpaceError`` with the program's sentence.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, **options: Unpack[LinkOptions]) -> None:
        self._links = Links(options, 1, 1, same_step=False)
        self.observation_space = self._links.observation_space
        self.action_space = self._links.action_space
        self._has_begun = False

    @property
    def rules(self) -> Mapping[str, Any]:
        """Step, delay, observations and actions, as a policy's file has them."""
        return self._links.rules

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begins the episode of a seed; without one, the next of the seed before."""
        super().reset(seed=seed)
        if seed is None and not self._has_begun:
            seed = drawn(self.np_random)
        self._has_begun = True
        observations, figures = self._links.reset([seed])
        return observations[0], info_of(figures, 0)

    def step(self, action: Any) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Decides, and simulates the next step."""
        observations, figures = self._links.step(action)
        reward, is_over = float(figures[0, 0]), bool(figures[1, 0])
        return observations[0], reward, False, is_over, info_of(figures, 0)


def info_of(figures: npt.NDArray[np.float64], which: int) -> dict[str, Any]:
    """The figures of one flow by their names."""
    return dict(zip(_FIGURES, figures[2:, which].tolist(), strict=True))


class LinkVectorEnv(gymnasium.vector.VectorEnv[Observations, Any, npt.NDArray[Any]]):
    """Many links at once, stepped by threads without Python.

    Each is as it would be alone. A whole number as seed is that of the first; the others count on.

    num_envs: how many.
    autoreset_mode: ``NEXT_STEP``, or ``SAME_STEP`` with ``final_obs`` and ``final_info`` in ``info``.
    jobs: threads; ``None``: one per core.
    options: ``LinkOptions``.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        jobs: int | None = None,
        **options: Unpack[LinkOptions],
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        if mode == AutoresetMode.DISABLED:
            raise ValueError("autoreset_mode: NextStep or SameStep")
        self.num_envs = num_envs
        self._same_step = mode == AutoresetMode.SAME_STEP
        self._links = Links(options, num_envs, jobs, self._same_step)
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.single_observation_space = self._links.observation_space
        self.single_action_space = self._links.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._has_begun = False

    @property
    def rules(self) -> Mapping[str, Any]:
        """Step, delay, observations and actions, as a policy's file has them."""
        return self._links.rules

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Begins episodes, as ``LinkEnv.reset``."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds: list[int | None]
        if seed is None:
            first = [] if self._has_begun else [drawn(self.np_random) for _ in range(self.num_envs)]
            seeds = [*first] or [None] * self.num_envs
        else:
            seeds = [seed + n for n in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        self._has_begun = True
        observations, figures = self._links.reset(seeds)
        return observations, self._infos(figures)

    def step(
        self, actions: Any
    ) -> tuple[
        Observations, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]
    ]:
        """A step of each."""
        observations, figures = self._links.step(actions)
        is_over = figures[1] != 0
        info = self._infos(figures)
        if self._same_step and is_over.any():
            info |= self._final(is_over, info)
        return observations, figures[0], np.zeros(self.num_envs, dtype=np.bool_), is_over, info

    def _infos(self, figures: npt.NDArray[np.float64]) -> dict[str, Any]:
        info: dict[str, Any] = dict(zip(_FIGURES, figures[2:], strict=True))
        return info | {f"_{name}": np.ones(self.num_envs, dtype=np.bool_) for name in _FIGURES}

    def _final(self, is_over: npt.NDArray[np.bool_], info: dict[str, Any]) -> dict[str, Any]:
        last = np.empty((self.num_envs, *self._links.observation_space.shape), dtype=np.float32)
        self._links.native.last_observations(last)
        final = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(is_over):
            final[index] = last[index]
        return {
            "final_obs": final,
            "_final_obs": is_over,
            "final_info": dict(info),
            "_final_info": is_over,
        }


def save_policy(
    path: str | PathLike[str],
    env: Any,
    layers: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]] | str | PathLike[str],
    *,
    about: str = "",
) -> None:
    """Writes a policy for the environment ``env`` as a file.

    layers: weights (a row for each output) and bias of each, with tanh between them and nothing behind
        the last. Its output is the action; with discrete actions the largest of its outputs decides. Or an ONNX file
        of such a network (``pip install cellpace[onnx]``).
    about: for people.

    Raises ``CellpaceError`` where sizes do not fit.
    """
    if isinstance(layers, str | PathLike):
        layers = read_layers(layers)
    written_layers = [
        {"weights": np.asarray(weights, np.float64).tolist(), "bias": np.asarray(bias, np.float64).tolist()}
        for weights, bias in layers
    ]
    document = {"format": "cellpace-policy", "version": 1, "about": about}
    text = json.dumps(document | dict(env.unwrapped.rules) | {"layers": written_layers})
    _native.check_policy(text)
    write_text(path, text + "\n")


def export_onnx(policy: str | PathLike[str], path: str | PathLike[str]) -> None:
    """Writes the network of a policy's file as ONNX: from ``observation`` to ``action``, before it is clipped.

    Raises ``CellpaceError`` where the file is no policy.
    """
    name = fspath(policy)
    try:
        text = Path(policy).read_text(encoding="utf-8")
    except OSError as error:
        raise _native.CellpaceError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _native.CellpaceError(f"{name}: no policy: it is not text") from None
    try:
        _native.check_policy(text)
    except _native.CellpaceError as error:
        raise _native.CellpaceError(f"{name}: {error}") from None
    document = json.loads(text)
    layers = [(np.array(one["weights"], np.float64), np.array(one["bias"], np.float64)) for one in document["layers"]]
    write_layers(path, layers, document.get("about", ""))


gymnasium.register(
    id="cellpace/Link-v0",
    entry_point="cellpace.gym:LinkEnv",
    vector_entry_point="cellpace.gym:LinkVectorEnv",
)
