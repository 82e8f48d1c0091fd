"""Controllers that are written in Python."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from cellpace._native import (
    AckEvent,
    Beside,
    CellpaceError,
    EpochEvent,
    LossEvent,
    MarkEvent,
    PacketEvent,
    TimeoutEvent,
)


class Controller:
    """A congestion controller of your own: a subclass defines what it wants to be called for.

    Methods that a class does not define are not called and cost nothing. After each call the
    attributes below are read: they say what may be sent until the next one. Times are seconds from
    the start of the run, sizes bytes.

    >>> class Halving(Controller):
    ...     def start(self, mss: int, now: float, seed: int) -> None:
    ...         self.mss = mss
    ...         self.cwnd = 10 * mss
    ...
    ...     def on_ack(self, ack: AckEvent) -> None:
    ...         self.cwnd += self.mss * ack.bytes / self.cwnd
    ...
    ...     def on_loss(self, loss: LossEvent) -> None:
    ...         self.cwnd = max(self.cwnd / 2, 2 * self.mss)
    """

    name: str | None = None
    """What results call it; without one, the name of the class."""
    cwnd: float = 15_000
    """Bytes that may be in flight, IP headers included; ``float("inf")``: no bound."""
    pacing: float | None = None
    """Rate at which packets leave, in bytes per second; ``None``: as soon as they may."""
    next_deadline: float | None = None
    """When ``on_deadline`` is to be called, in seconds; ``None``: never."""
    epoch: str = "5ms"
    """How often ``on_epoch`` is called, where it is defined."""
    ecn: str | None = None
    """How packets are marked as able to carry marks of congestion, without which none arrive at
    ``on_mark``: ``"classic"`` (ECT(0): a mark counts as a loss), ``"l4s"`` (ECT(1): the controller
    reacts to each mark in proportion); ``None``: not at all. It is read once, after ``start``."""
    beside: Mapping[str, str | Beside] = {}
    """Built-in controllers, such as ``{"slow": "copa", "fast": "cubic"}``, that see all that this one sees. From
    ``start`` on their ``cwnd`` and ``pacing`` are in ``self.beside["slow"]``."""
    follows: str | None = None
    """The one of ``beside`` whose window and pacing are in force; ``None``: those of this object."""

    def start(self, mss: int, now: float, seed: int) -> None:
        """A connection begins; ``mss`` is the size of a full packet in bytes.

        ``seed`` follows from the seed of the run: whoever draws random numbers from it alone gets
        the same run again.
        """

    def on_sent(self, packet: PacketEvent) -> None:
        """A packet leaves."""

    def on_ack(self, ack: AckEvent) -> None:
        """Packets arrived."""

    def on_loss(self, loss: LossEvent) -> None:
        """Packets are given up for lost. What arrived with the same ack came first."""

    def on_mark(self, mark: MarkEvent) -> None:
        """Packets arrived with a mark of congestion; see ``ecn``."""

    def on_timeout(self, timeout: TimeoutEvent) -> None:
        """The retransmission timer fired: all that is in flight counts as lost."""

    def on_spurious_timeout(self, now: float) -> None:
        """The last timeout turned out to be wrong: packets were only late."""

    def on_spurious_loss(self, packet: PacketEvent) -> None:
        """A packet given up for lost arrived after all."""

    def on_path_change(self, now: float) -> None:
        """The path is another one from now on (handover)."""

    def on_deadline(self, now: float) -> None:
        """``next_deadline`` is reached, which is ``None`` again unless this sets another."""

    def on_epoch(self, epoch: EpochEvent) -> None:
        """An epoch of ``self.epoch`` has passed, with the sums of what happened in it.

        One call for many acks: a controller that decides every few milliseconds anyway costs a
        seventh of one that is called for each.
        """


    def inside(self) -> dict[str, float]:
        """Internal values for series and pages: always the same names, whose ends are their units (``rate_mbps``)."""
        return {}


ControllerLike = str | Controller | type[Controller] | Callable[[], Controller]
"""A controller: ``"verus:r=2"``, a class, a function that makes one, or an object, of which each
connection gets a copy."""


def named(controller: ControllerLike) -> str | tuple[str, Callable[[], Controller]]:
    """Returns a controller for the native half: its text, or its name and what makes it."""
    if isinstance(controller, str):
        return controller
    if isinstance(controller, Controller):
        return controller.name or type(controller).__name__, partial(copy.deepcopy, controller)
    if isinstance(controller, type) and not issubclass(controller, Controller):
        raise TypeError(f"cc: {controller.__name__} is no subclass of cellpace.Controller")
    if callable(controller):
        name = getattr(controller, "name", None) or getattr(controller, "__name__", None)
        if name is None and isinstance(controller, partial):
            name = getattr(controller.func, "__name__", None)
        return str(name or "own"), controller
    raise TypeError(f"cc: a text or a cellpace.Controller is needed, not {controller!r}")


OwnController = tuple[str, bytes, Callable[[], Controller]]
"""A controller of one's own in a sweep: its name, its source, and what makes it."""


def controller_source(controller: Controller | Callable[[], Controller]) -> bytes:
    """What tells versions of a controller apart: its source and the values of its attributes, or, of what was
    not read from a file, its form for other processes."""
    values = ""
    of: object = controller
    if isinstance(controller, partial):
        of, values = controller.func, repr((controller.args, sorted(controller.keywords.items())))
    elif isinstance(controller, Controller):
        of, values = type(controller), repr(sorted(vars(controller).items()))
    try:
        return (inspect.getsource(of) + values).encode()  # type: ignore[arg-type]
    except (OSError, TypeError):
        return pickled(controller)


def pickled(controller: object) -> bytes:
    """A controller for other processes: by value where Dask's cloudpickle is there."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        pickler: Any = pickle
    else:
        pickler = cloudpickle
    try:
        return bytes(pickler.dumps(controller))
    except Exception as error:
        name = getattr(controller, "__name__", type(controller).__name__)
        raise CellpaceError(f"cc: `{name}` cannot be handed to other processes: {error}") from None


def all_named(
    controllers: ControllerLike | Iterable[ControllerLike],
) -> list[str | tuple[str, Callable[[], Controller]]]:
    """Returns one controller or many for the native half."""
    if isinstance(controllers, str | Controller) or callable(controllers):
        return [named(controllers)]
    found = [named(one) for one in controllers]
    if not found:
        raise CellpaceError("cc: at least one controller is needed")
    names = [one[0] for one in found if not isinstance(one, str)]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        text = f"cc: two controllers of your own are called `{twice[0]}`: set `name` of one of them"
        raise CellpaceError(text)
    return found
