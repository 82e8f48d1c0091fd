"""Several learners on one link, with PettingZoo's parallel API (``pip install cellpace[parallel]``)::

    from cellpace.parallel import ParallelLinkEnv

    env = ParallelLinkEnv(learners=3, trace="constant:24mbit", rtt="40ms")
    observations, infos = env.reset(seed=1)
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(actions)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import gymnasium
import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from cellpace.gym import LinkOptions, Links, Observations, drawn, info_of

__all__ = ["ParallelLinkEnv"]


class ParallelLinkEnv(ParallelEnv[str, Observations, Any]):
    """One link, and several flows on it, each decided by a learner once per step.

    learners: how many, 1 to 64; ``"learner_0"`` is the first. They decide at the same times, so that ``step`` is a
        time.
    options: ``cellpace.gym.LinkOptions``; flows of ``competing`` share the link with the learners.

    Rewards are each flow's own by the convention; rewards of a team are made of ``infos``, which have for each
    what ``LinkEnv`` has. An episode is truncated for all at once. ``reset(seed=...)`` decides everything.

    Raises ``CellpaceError`` with the program's sentence.
    """

    metadata: dict[str, Any] = {"name": "cellpace_link_v0", "render_modes": []}
    render_mode = None

    def __init__(self, learners: int = 2, **options: Unpack[LinkOptions]) -> None:
        self._links = Links(options, 1, 1, same_step=False, learners=learners)
        self.possible_agents = [f"learner_{number}" for number in range(learners)]
        self.agents: list[str] = []
        self._has_begun = False

    @property
    def rules(self) -> Mapping[str, Any]:
        """Step, delay, observations and actions, as a policy's file has them."""
        return self._links.rules

    @property
    def unwrapped(self) -> ParallelLinkEnv:
        """The environment itself."""
        return self

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """The space of a learner's observations: the same for all."""
        return self._links.observation_space

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """The space of a learner's actions: the same for all."""
        return self._links.action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observations], dict[str, dict[str, Any]]]:
        """Begins the episode of a seed; without one, the next of the seed before."""
        if seed is None and not self._has_begun:
            seed = drawn(np.random.default_rng())
        self._has_begun = True
        self.agents = list(self.possible_agents)
        observations, figures = self._links.reset([seed])
        return self._each(observations), self._infos(figures)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Observations],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Decides for every learner, and simulates the next step."""
        missing = [agent for agent in self.agents if agent not in actions]
        if not self.agents or missing:
            raise ValueError(f"no action of {missing[0]}" if missing else "the episode is over: reset first")
        observations, figures = self._links.step([actions[agent] for agent in self.agents])
        is_over = bool(figures[1, 0])
        result = (
            self._each(observations),
            dict(zip(self.agents, figures[0].tolist(), strict=True)),
            dict.fromkeys(self.agents, False),
            dict.fromkeys(self.agents, is_over),
            self._infos(figures),
        )
        if is_over:
            self.agents = []
        return result

    def _each(self, observations: Observations) -> dict[str, Observations]:
        return dict(zip(self.agents, observations, strict=True))

    def _infos(self, figures: npt.NDArray[np.float64]) -> dict[str, dict[str, Any]]:
        return {agent: info_of(figures, at) for at, agent in enumerate(self.agents)}
