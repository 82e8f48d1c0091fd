"""Real packets."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

from cellpace import _native
from cellpace._controller import ControllerLike, all_named
from cellpace._table import from_json
from cellpace._written import Quantity, asked, optional, written


class Transfer:
    """What came out of flows with real packets."""

    def __init__(self, document: str) -> None:
        self._document = document

    def to_json(self) -> str:
        """Returns the document of ``cellpace send --json``, as text."""
        return self._document

    @property
    def document(self) -> dict[str, Any]:
        """The document of ``cellpace send --json``."""
        document: dict[str, Any] = from_json(self._document)
        return document

    @property
    def flows(self) -> list[dict[str, Any]]:
        """Each flow, e.g. ``throughput_mbps``, ``rtt_ms_seen``, ``lost``."""
        flows: list[dict[str, Any]] = self.document["flows"]
        return flows

    def __repr__(self) -> str:
        return "\n".join(
            f"{flow['cc']}: {flow['throughput_mbps']:.2f} Mbit/s, {flow['lost']} lost"
            for flow in self.flows
        )


def send(
    host: str,
    port: int = 5260,
    *,
    cc: ControllerLike | Iterable[ControllerLike] = "pace",
    bytes: str | None = None,
    duration: Quantity | None = None,
    unreliable: bool = False,
    mtu: int = 1500,
    timeout: Quantity = "30s",
    seed: int = 1,
    key: str | PathLike[str] | None = None,
    plain: bool = False,
) -> Transfer:
    """Sends made-up bytes to ``cellpace recv`` over UDP, one flow under each controller.

    host: where ``cellpace recv`` waits.
    port: its UDP port.
    cc: controllers, also your own: they run here alone, so the other side need not know them.
    bytes: how much to send in each flow, e.g. ``"20MB"``.
    duration: how long to send; ``None``: 10 s, unless ``bytes`` is given.
    unreliable: do not send again what is lost.
    mtu: largest IP packet in bytes, 1280 to 9000.
    timeout: give up a flow when nothing arrives for this long.
    seed: seed of what is random in the controllers.
    key: the file of a key that both sides have, made by ``cellpace key``; ``None``: your own one.
    plain: do not encrypt; the other side needs ``--plain``.
    """
    if not 1280 <= mtu <= 9000:
        raise _native.CellpaceError(f"mtu: {mtu}; allowed: 1280 to 9000")
    if bytes is None and duration is None:
        duration = "10s"
    wish = {
        "host": host,
        "port": port,
        "cc": all_named(cc),
        "bytes": optional("bytes", bytes),
        "duration": optional("duration", duration),
        "unreliable": unreliable,
        "mtu": mtu,
        "timeout": written("timeout", timeout),
        "seed": seed,
        "key": key,
        "plain": plain,
    }
    return Transfer(asked(_native.send, wish))
