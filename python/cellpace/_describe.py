"""What there is: controllers, their parameters, profiles, and how to cite it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cellpace import _native


@dataclass(frozen=True)
class ControllerInfo:
    """A built-in controller."""

    name: str
    """The name in front of the colon."""
    summary: str
    """What it is, in one line."""
    presets: tuple[str, ...]
    """Named combinations of values, e.g. ``"cubic:linux6"``."""


@dataclass(frozen=True)
class Param:
    """A parameter of a controller."""

    key: str
    """The name in front of ``=``."""
    kind: str
    """``number``, ``integer``, ``bool``, ``time``, ``bytes``, ``rate``, ``window``, ``word``, ``text``."""
    default: str | None
    """The default as it would be written; ``None``: unset."""
    unit: str
    """The unit of plain numbers."""
    low: float | None
    """The lowest value; times in seconds, sizes in bytes, rates in bit/s. ``None``: no range."""
    high: float | None
    """The highest value."""
    words: tuple[str, ...]
    """The words between which it chooses."""
    allowed: str
    """What is allowed, as ``cellpace cc`` shows it."""
    logarithmic: bool
    """Whether a search should try its values on a logarithmic scale."""
    expert: bool
    """Whether only experts need it."""
    help: str
    """What it does."""
    source: str
    """Where it comes from."""


def controllers() -> list[ControllerInfo]:
    """Returns the built-in controllers."""
    found = json.loads(_native.controllers())
    return [ControllerInfo(each["name"], each["summary"], tuple(each["presets"])) for each in found]


def params(controller: str) -> list[Param]:
    """Returns the parameters of a controller, those for experts last."""
    found = json.loads(_native.params(controller))
    return [Param(**{**each, "words": tuple(each["words"])}) for each in found]


def profiles() -> list[str]:
    """Returns the names of the built-in profiles, for ``trace``."""
    return _native.profiles()


def cite() -> str:
    """Returns BibTeX for this version, which ``CITATION.cff`` of the repository describes."""
    fields = {
        "title": "cellpace: congestion control for cellular networks",
        "author": "{The cellpace developers}",
        "version": _native.__version__,
        "url": "https://github.com/cellpace/cellpace",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join(["@software{cellpace,", *lines, "}"]) + "\n"
