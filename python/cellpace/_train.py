"""Markov tables learnt from controllers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from cellpace import _native
from cellpace._written import Quantity, asked, built_in, jobs_of, optional, several, written


def train(
    cc: str,
    trace: str | PathLike[str] | Iterable[str | PathLike[str]],
    output: str | PathLike[str],
    *,
    users: Iterable[int] = (1, 2, 3, 4),
    states: str = "levels",
    rtt: Quantity = "40ms",
    queue: str = "droptail:2MB",
    loss: str = "0%",
    duration: Quantity | None = None,
    seed: int = 1,
    jobs: int | None = None,
) -> Mapping[str, Any]:
    """Learns a Markov table by watching a controller, as ``cellpace mdi train`` does.

    ``"mdi:model=FILE"`` is then a controller, which also runs in the kernel.

    cc: the teacher, a built-in controller.
    trace: what it is watched on.
    output: where to write the table; the same training makes the same bytes as the program.
    users: numbers of flows that share the link, one run of each per trace.
    states: which delays and windows the table distinguishes, in the form of ``--states``.
    rtt, queue, loss, duration, seed: as of ``compare``.
    jobs: runs at the same time; ``None``: one per core.

    Returns how many samples, states, transitions and cells there are.
    """
    built_in("train", cc)
    path = {"rtt": written("rtt", rtt), "queue": queue, "loss": loss}
    wish = {
        "cc": cc,
        "trace": several("trace", trace),
        "users": list(users),
        "states": states,
        "path": json.dumps(path),
        "duration": optional("duration", duration),
        "seed": seed,
        "output": fspath(output),
        "jobs": jobs_of(jobs),
    }
    learnt: Mapping[str, Any] = json.loads(asked(_native.train, wish))
    return learnt
