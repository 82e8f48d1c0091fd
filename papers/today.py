"""Ten years after Verus: one page of what holds, what depends, what does not, and what one would use today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from papers.claims import Claim, Run
from papers.figures import Figures
from papers.runner import Outcome

NAME = "ten-years"
"""The file of the page, and the name of the claims on it."""
_TRACES = ["hspa", "lte", "umts"]
_BEFORE = ["verus:paper,r=2", "verus:original,r=2", "verus:r=2", "sprout:original", "cubic"]
_TODAY = ["pace", "bbr3", "copa"]


def beside() -> Claim:
    """Today's controllers beside those of the papers, on the traces of the papers' claims."""
    says = "Controllers of 2015 and of today on the same traces: share of the capacity, and queue delay."
    claim = Claim(f"{NAME}-today", "What one would use today", says, "text", "virtual", "reproduced")
    claim.because = "One flow, 40 ms, 2 MB drop-tail, 60 s from five places of each trace; L4S: Prague behind DualPI2, which marks."
    same: dict[str, Any] = {"block": "CELL", "trace": _TRACES, "duration": "60s", "starts": 5}
    alone = claim.run("alone", cc=[*_TODAY, *_BEFORE], **same)
    l4s = claim.run("l4s", cc="prague", **same | {"queue": "dualpi2:step=10ms"})

    def of(field: str) -> Callable[[Run], Figures]:
        return lambda run: run[field].mean("start", "seed")

    for field, caption in (
        ("utilization", "Share of the capacity."),
        ("queue_delay_ms.p50", "Median of the queue delay."),
        ("queue_delay_ms.p95", "95th percentile of the queue delay."),
    ):
        alone.chart("table", of(field), x="trace", group="cc", caption=f"{caption} Queue: 2 MB drop-tail.")
        l4s.chart("table", of(field), x="trace", group="cc", caption=f"{caption} L4S: Prague behind DualPI2.")
    alone.chart(
        "scatter",
        lambda run: run["utilization"].mean("start", "seed", "trace"),
        x=lambda run: run["queue_delay_ms.p95"].mean("start", "seed", "trace"),
        group="cc",
        caption="Share of the capacity against the 95th percentile of the queue delay, means over the traces.",
        log="x",
    )
    return claim


def tables(outcomes: list[Outcome]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """Titles, headers and rows: claims by what came out of them."""
    decided = [one for one in outcomes if one.claim.checks and one.unrun is None]
    depends = [one for one in decided if one.claim.depends]
    rest = [one for one in decided if not one.claim.depends]

    def rows(verdict: str, why: bool = True) -> list[list[Any]]:
        found = [one for one in rest if one.verdict == verdict]
        return [[one.claim.id, one.claim.says, one.claim.because] if why else [one.claim.id, one.claim.says] for one in found]

    turned = [
        [one.claim.id, one.claim.says, *_by_form(one)]
        for one in decided
        if one.claim.paper == "verus" and len({tried.verdict for tried in one.forms}) > 1
    ]
    found = [
        ("What holds", ["claim", "the paper says"], rows("reproduced", why=False)),
        (
            "What depends on conditions that the paper does not print",
            ["claim", "the paper says", "on", "as set up", "why"],
            [[o.claim.id, o.claim.says, ", ".join(o.claim.depends), o.verdict, o.claim.because] for o in depends],
        ),
        ("What holds in part", ["claim", "the paper says", "why"], rows("in part")),
        ("What does not hold", ["claim", "the paper says", "why"], rows("refuted")),
        (
            "Where forms of Verus differ",
            ["claim", "the paper says", "as printed", "cellpace's", "as its authors' program decides"],
            turned,
        ),
    ]
    return [table for table in found if table[2]]


def _by_form(outcome: Outcome) -> list[str]:
    return [tried.verdict for tried in outcome.forms]
