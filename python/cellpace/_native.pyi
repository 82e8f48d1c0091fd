# The native half, built from crates/python. Quantities are in their written forms; dictionaries
# have the fields that the Rust types of the same functions name.
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy.typing as npt

__all__ = [
    "AckEvent",
    "ArrowTable",
    "Beside",
    "CellpaceError",
    "Environments",
    "EpochEvent",
    "InternalError",
    "LossEvent",
    "MarkEvent",
    "MarkovTable",
    "PacketEvent",
    "Results",
    "Sweep",
    "SweepFolder",
    "SweepUnit",
    "TimeoutEvent",
    "Trace",
    "Watched",
    "__version__",
    "check_controller",
    "check_policy",
    "check_states",
    "compare",
    "controllers",
    "drive",
    "interval",
    "observe",
    "page",
    "param_number",
    "param_text",
    "params",
    "profiles",
    "send",
    "short",
    "simulate",
    "span_seconds",
    "sweep_table",
    "trace_period_s",
    "watch",
]

__version__: str

class CellpaceError(ValueError):
    """What was asked for makes no sense, cannot be read or did not work; the program's sentence."""

class InternalError(RuntimeError):
    """A fault of cellpace itself. Please report it with what led to it."""

@final
class PacketEvent:
    """A packet."""

    @property
    def number(self) -> int:
        """Counts up by one with every transmission, retransmissions included."""
    @property
    def bytes(self) -> int:
        """Its size, IP header included."""
    @property
    def sent_at(self) -> float:
        """When it left, in seconds."""
    @property
    def rtt(self) -> float | None:
        """From leaving to its ack, in seconds; ``None`` before that."""
    @property
    def in_flight(self) -> int | None:
        """Bytes in flight when it left, itself included; ``None`` later."""
    @property
    def app_limited(self) -> bool:
        """Whether the sender had nothing more to send."""
    @property
    def retransmission(self) -> bool:
        """Whether it carries data that was sent before."""

@final
class AckEvent:
    """An acknowledgment: one or more packets newly known to have arrived."""

    @property
    def now(self) -> float:
        """Now, in seconds."""
    @property
    def rtt(self) -> float:
        """RTT of the packet sent last of those acked, in seconds."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds (RFC 6298)."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT so far, in seconds."""
    @property
    def bytes(self) -> int:
        """Bytes that this ack covers."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after it."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before it."""
    @property
    def next_number(self) -> int:
        """The number that the next packet will get."""
    @property
    def packets(self) -> list[PacketEvent]:
        """The packets, in the order of their arrival; made when it is asked for."""

@final
class LossEvent:
    """Packets given up for lost."""

    @property
    def now(self) -> float:
        """Now, in seconds."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT so far, in seconds."""
    @property
    def bytes(self) -> int:
        """Bytes lost."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after the loss was declared."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before it."""
    @property
    def next_number(self) -> int:
        """The number that the next packet will get."""
    @property
    def packets(self) -> list[PacketEvent]:
        """The packets, oldest first."""

@final
class MarkEvent:
    """Packets that arrived with a mark of congestion (ECN)."""

    @property
    def now(self) -> float:
        """Now, in seconds."""
    @property
    def packets(self) -> int:
        """How many are marked."""
    @property
    def newest(self) -> int:
        """The highest packet number among them."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after the ack."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before the ack."""
    @property
    def next_number(self) -> int:
        """The number that the next packet will get."""

@final
class TimeoutEvent:
    """The retransmission timer fired."""

    @property
    def now(self) -> float:
        """Now, in seconds."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes that were in flight."""
    @property
    def in_a_row(self) -> int:
        """How many timeouts came in a row, this one included."""
    @property
    def next_number(self) -> int:
        """The number that the next packet will get."""

@final
class EpochEvent:
    """Sums of what happened in an epoch."""

    @property
    def now(self) -> float:
        """Now, in seconds."""
    @property
    def sent_bytes(self) -> int:
        """Bytes that left."""
    @property
    def acked_bytes(self) -> int:
        """Bytes acknowledged."""
    @property
    def acked_packets(self) -> int:
        """Packets acknowledged."""
    @property
    def lost_bytes(self) -> int:
        """Bytes given up for lost."""
    @property
    def lost_packets(self) -> int:
        """Packets given up for lost."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight at its end."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds; 0 before the first ack."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT so far, in seconds; 0 before the first ack."""
    @property
    def rtt_mean(self) -> float | None:
        """Mean RTT of the packets acknowledged, in seconds; ``None`` where there were none."""
    @property
    def rtt_min(self) -> float | None:
        """Smallest RTT of the epoch in seconds."""
    @property
    def rtt_max(self) -> float | None:
        """Largest RTT of the epoch in seconds."""

@final
class Beside:
    """A built-in controller beside one of your own."""

    @property
    def cwnd(self) -> float:
        """Bytes that may be in flight; infinity: no bound."""
    @property
    def pacing(self) -> float | None:
        """Bytes per second; ``None``: no pacing."""

@final
class ArrowTable:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def column(self, name: str) -> list[str | None] | tuple[str, bytes, bytes | None]: ...
    def write_parquet(self, path: str | Path) -> None: ...

@final
class Environments:
    def __new__(cls, wish: dict[str, Any]) -> Environments: ...
    def bounds(self) -> list[tuple[float, float]]: ...
    def history(self) -> int: ...
    def actions(self) -> tuple[float, None] | tuple[None, int]: ...
    def reset(
        self, seeds: list[int | None], observations: npt.NDArray[Any], figures: npt.NDArray[Any]
    ) -> None: ...
    def step(
        self, actions: npt.NDArray[Any], observations: npt.NDArray[Any], figures: npt.NDArray[Any]
    ) -> None: ...
    def last_observations(self, observations: npt.NDArray[Any]) -> None: ...

@final
class MarkovTable:
    @staticmethod
    def load(path: str) -> MarkovTable: ...
    def save(self, output: str) -> None: ...
    @property
    def memory_bytes(self) -> int: ...
    def delays(self) -> list[float]: ...
    def windows(self) -> list[float]: ...
    def cells(self) -> ArrowTable: ...
    def pictures(self) -> str: ...

@final
class Watched:
    def learn(self, output: str, states: str, users: list[int] | None) -> str: ...
    def samples(self, users: list[int] | None) -> ArrowTable: ...

@final
class Results:
    @staticmethod
    def from_json(text: str) -> Results: ...
    def runs(self) -> ArrowTable: ...
    def flows(self) -> ArrowTable: ...
    def series(self, run: int) -> ArrowTable: ...
    def packets(self, run: int) -> ArrowTable: ...
    def events(self, run: int) -> ArrowTable: ...
    def has_series(self) -> bool: ...
    def to_json(self) -> str: ...
    def unvaried(self) -> str | None: ...
    def text(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Sweep:
    def __new__(
        cls,
        name: str,
        text: str,
        is_json: bool,
        files: list[tuple[str, bytes]] | None,
        keeps_files: bool,
        own: list[tuple[str, bytes, Callable[[], object]]],
    ) -> Sweep: ...
    @property
    def cells(self) -> int: ...
    @property
    def identity(self) -> str: ...
    def plan(self) -> str: ...
    def files(self) -> list[tuple[str, bytes]]: ...
    def cut(self, first: int, end: int, seconds: float, most: int) -> tuple[int, float]: ...
    def run(self, first: int, end: int) -> SweepUnit: ...
    def failed(self, first: int, end: int, reason: str) -> SweepUnit: ...

@final
class SweepUnit:
    @property
    def errors(self) -> int: ...
    def write(self, work: str | Path) -> None: ...
    def to_bytes(self) -> bytes: ...

@final
class SweepFolder:
    def __new__(cls, root: str | Path, sweep: Sweep) -> SweepFolder: ...
    def close(self) -> None: ...
    def missing(self) -> list[tuple[int, int]]: ...
    def add(self, first: int, end: int) -> None: ...
    def write(self, first: int, end: int, bytes: bytes) -> None: ...
    def manifest(self) -> str: ...
    def run(self, jobs: int | None, report: Callable[[int], object] | None) -> None: ...

@final
class Trace:
    @staticmethod
    def load(text: str, duration: str | None, seed: int) -> Trace: ...
    @staticmethod
    def from_times_ms(name: str, times: list[int]) -> Trace: ...
    @staticmethod
    def from_rates(name: str, times_s: list[float], mbps: list[float]) -> Trace: ...
    @staticmethod
    def from_csv(
        path: str, time: str | None, rate: str | None, unit: str | None, gap: str | None
    ) -> tuple[Trace, str | None]: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def period_s(self) -> float: ...
    @property
    def mean_mbps(self) -> float: ...
    def times_ms(self) -> ArrowTable: ...
    def rates(self, bins: int) -> ArrowTable: ...
    def stats(self) -> str: ...
    def fit(self) -> str: ...
    def predict(self, widths_ms: list[int]) -> str: ...
    def scaled(self, factor: float) -> Trace: ...
    def save(self, path: str) -> None: ...

def check_controller(text: str) -> None: ...
def check_policy(text: str) -> None: ...
def check_states(text: str) -> None: ...
def compare(wish: dict[str, Any]) -> Results: ...
def controllers() -> str: ...
def drive(text: str, duration: str | None, seed: int) -> ArrowTable: ...
def interval(samples: list[float]) -> tuple[float, float]: ...
def observe(
    wish: dict[str, Any],
) -> tuple[
    str, ArrowTable | None, list[tuple[float, list[tuple[float, float]], list[tuple[float, float]]]]
]: ...
def page(texts: list[tuple[str, str]]) -> str: ...
def param_number(controller: str, key: str, text: str) -> float: ...
def param_text(controller: str, key: str, value: float) -> str: ...
def params(name: str) -> str: ...
def profiles() -> list[str]: ...
def send(wish: dict[str, Any]) -> str: ...
def short(value: float) -> str: ...
def simulate(wish: dict[str, Any]) -> Results: ...
def span_seconds(text: str) -> float: ...
def sweep_table(root: str | Path) -> ArrowTable: ...
def trace_period_s(text: str) -> float | None: ...
def watch(wish: dict[str, Any]) -> Watched: ...
