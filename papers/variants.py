"""Variants of a claim's runs: other forms of the protocol under test, and what the paper does not print set otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from papers.claims import Claim

Asked = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A way in which all runs of a claim differ from how they are written."""

    what: str
    """``form`` of the protocol, or the quantity that is set otherwise."""
    value: str
    asked: Callable[[Asked], Asked] = lambda asked: asked
    text: Callable[[str], str] = lambda text: text
    """What becomes of a scenario; names of controllers on axes stay those that checks ask for."""


@dataclass(frozen=True)
class Form:
    """A form of the protocol under test: how a scenario names it."""

    name: str
    pattern: str = ""
    put: str = ""

    def of(self, text: str) -> str:
        """The scenario with this form."""
        return re.sub(self.pattern, self.put, text) if self.pattern else text


FORMS = {
    "verus": [
        Form("verus:paper", r'"verus:', '"verus:paper,'),
        Form("verus"),
        Form("verus:original", r'"verus:', '"verus:original,'),
    ],
    "mdi": [
        Form("walk as printed", r'("mdi:model=[^"]*)"', r'\1,sampler=closest,empty=paper,loss=ignore"'),
        Form("walk of cellpace"),
    ],
}
"""The forms of a paper's protocol. The first, as the paper prints it, decides."""
_OWN_FORM = re.compile("sampler=|verus:(paper|original)")
"""What names a form itself, beside others."""
_NAMES = {"verus": '"verus:', "mdi": '"mdi:model='}

_VARIED: dict[str, tuple[str, list[str]]] = {
    "RTT": ("rtt", ["20ms", "30ms", "60ms", "100ms"]),
    "buffer": ("queue", ["droptail:300kB", "droptail:1MB", "droptail:4MB"]),
    "socket buffer": ("sndbuf", ["106496B", "425984B", "1MB"]),
}
"""What papers leave out, as a field of a scenario, with values beside the one that a claim has."""
_SPREADS = ["100ms", "1s", "5s"]
"""Times within which flows start that are written to start together."""
_TOLERANCES = ["4", "6"]
"""Values of Verus' R, where the paper does not say which it had."""


def forms_of(claim: Claim) -> list[Form]:
    """The forms that a claim runs with: the deciding one, then the others; of most claims one as it is written."""
    runs = [json.dumps(run.asked).replace('\\"', '"') for run in claim.runs.values() if not run.beside]
    name = _NAMES.get(claim.paper)
    if name is None or claim.mode not in ("virtual", "model") or any(map(_OWN_FORM.search, runs)):
        return [Form("as written")]
    return FORMS[claim.paper] if any(name in text for text in runs) else [Form("as written")]


def form_of(form: Form) -> Variant:
    """A form as a variant."""
    return Variant("form", form.name, text=form.of)


def sweep_of(claim: Claim, texts: list[str]) -> list[Variant]:
    """The set-ups of a claim's sweep, each with one quantity set otherwise; ``texts`` are its scenarios as written."""
    if claim.mode != "virtual" or not texts:
        return []
    is_trained = any("mdi:" in text for text in texts)
    found = []
    for what, (name, values) in _VARIED.items():
        written = {value for text in texts for value in _top(text, name)}
        # A list is an axis of the claim, a random value or RED the paper's own; tables are trained at 40 ms.
        if what in claim.fixed or (what == "RTT" and is_trained) or len(written) != 1 or not _is_like(next(iter(written)), values[0]):
            continue
        found += [Variant(what, value, text=_setter(name, value)) for value in values if value not in written]
    if "starts" not in claim.fixed and any(_starts_together(run.asked) for run in claim.runs.values()):
        spread = [run.asked.get("starts_within") for run in claim.runs.values()]
        found += [Variant("starts", value, asked=_spreader(value)) for value in _SPREADS if value not in spread]
    if "R" not in claim.fixed and claim.paper == "verus" and set(re.findall(r"verus:r=(\d+)", "".join(texts))) == {"2"}:
        found += [Variant("R", value, text=_tolerance(value)) for value in _TOLERANCES]
    return found


def _top(text: str, name: str) -> list[str]:
    """The values of a field before the first table of a scenario."""
    return re.findall(rf'^{name} = "([^"]*)"', text.split("\n[")[0], re.M)


def _is_like(written: str, value: str) -> bool:
    return re.sub(r"[\d.]+", "0", written.split(":")[0]) == re.sub(r"[\d.]+", "0", value.split(":")[0]) or (
        "B" in value and ":" not in value and written.endswith("B")
    )


def _setter(name: str, value: str) -> Callable[[str], str]:
    def put(text: str) -> str:
        top, bracket, rest = text.partition("\n[")
        return re.sub(rf'^{name} = "[^"]*"', f'{name} = "{value}"', top, flags=re.M) + bracket + rest

    return put


def _starts_together(asked: Asked) -> bool:
    flows = asked.get("flows", 1)
    most = max(map(int, flows if isinstance(flows, list) else [flows]))
    return most > 1 and "spacing" not in asked and "flow" not in asked


def _spreader(within: str) -> Callable[[Asked], Asked]:
    return lambda asked: asked | {"starts_within": within} if _starts_together(asked) else asked


def _tolerance(r: str) -> Callable[[str], str]:
    return lambda text: text.replace("r=2", f"r={r}")
