"""Single runs, watched closely."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cellpace import _native
from cellpace._table import Table, from_json
from cellpace._written import asked


class DelayProfile(NamedTuple):
    """What Verus has learnt of delays: pairs of a window in packets and a delay in ms, by ascending window."""

    at_s: float
    """When."""
    points: list[tuple[float, float]]
    """What was recorded."""
    curve: list[tuple[float, float]]
    """The curve through it."""


class Observed:
    """What was seen of a run."""

    def __init__(self, document: str, arrivals: _native.ArrowTable | None, profiles: list[DelayProfile]) -> None:
        self.figures: dict[str, Any] = from_json(document)
        """The document of the run, as ``cellpace sim --json`` has it, with ``retransmissions``, and of each flow its
        base ``rtt_ms``."""
        self.profiles = profiles
        """The delay profile of the first flow once a second, where ``profiles`` were asked for."""
        self._arrivals = arrivals

    @property
    def arrivals_ns(self) -> npt.NDArray[np.int64]:
        """When packets arrived at the end of the link, ascending, where ``arrivals`` were asked for."""
        if self._arrivals is None:
            return np.zeros(0, dtype=np.int64)
        return Table(self._arrivals)["at_ns"].astype(np.int64)


def observe(
    scenario: str,
    *,
    seed: int | None = None,
    series: bool = True,
    arrivals: bool = False,
    profiles: bool = False,
) -> Observed:
    """Simulates a scenario once, on the thread that calls it and without Python's lock: threads use all cores.

    scenario: TOML as ``cellpace sim`` reads it.
    seed: in place of the scenario's.
    series, arrivals, profiles: what to keep besides figures of the whole run.
    """
    wish = {
        "name": "scenario",
        "text": scenario,
        "seed": seed,
        "series": series,
        "arrivals": arrivals,
        "profiles": profiles,
    }
    document, at, learnt = asked(_native.observe, wish)
    return Observed(document, at, [DelayProfile(*one) for one in learnt])
