"""Controllers over traces and seeds, each alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike

from cellpace import _native
from cellpace._controller import ControllerLike, all_named
from cellpace._results import Results
from cellpace._trace import TraceLike, native_traces
from cellpace._written import Quantity, Seeds, asked, jobs_of, optional, seeds_of, several, written

_MOST_RUNS_WITH_SERIES = 64


def compare(
    cc: ControllerLike | Iterable[ControllerLike] = ("verus", "copa", "cubic", "bbr"),
    trace: TraceLike | Iterable[TraceLike] = "lte-driving",
    *,
    path: str | PathLike[str] | None = None,
    rtt: Quantity | None = None,
    queue: str = "droptail:2MB",
    loss: str | None = None,
    uplink: str | None = None,
    uplink_queue: str = "droptail:2MB",
    uplink_loss: str = "0%",
    from_: Quantity = "0s",
    impair: str | Iterable[str] = (),
    jitter: str = "none",
    rrc: str = "none",
    send_jitter: str = "100%",
    handover: str | Iterable[str] = (),
    acks: str = "every",
    skip: Quantity | None = None,
    duration: Quantity | None = None,
    flows: int = 1,
    transfer: str | None = None,
    video: str | None = None,
    seeds: Seeds = 1,
    series: bool | None = None,
    logs: bool = False,
    jobs: int | None = None,
) -> Results:
    """Runs each controller alone on each trace with each seed.

    Every argument but the last three is an option of ``cellpace compare`` in the same form, and the
    figures are those of the program, exactly.

    cc: controllers such as ``"verus:r=2"``, and your own (``Controller``).
    trace: profiles, files, generated traces such as ``"constant:12mbit"``, and ``Trace`` objects.
    path: rate, RTT and loss at once in place of ``trace``: a table with a column of each, or a profile such
        as ``"leo-bent-pipe"``.
    rtt: round-trip delay without queueing; ``None``: that of ``path``, or 40 ms.
    queue: the queue at the bottleneck, e.g. ``"droptail:2MB"``, ``"codel"``.
    loss: random loss, e.g. ``"1%"``; ``None``: that of ``path``, or none.
    uplink: trace of the reverse direction; ``None``: unlimited.
    uplink_queue: the queue in front of it.
    uplink_loss: random loss on the way back.
    from_: where in the traces the runs begin.
    impair: packets out of order, twice, damaged, e.g. ``"reorder=1%/5ms"``.
    jitter: jitter of the radio link, e.g. ``"harq:bler=10%,rtt=8ms"``.
    rrc: idle and promotion of the radio link, ``"lte"``, ``"umts"`` or e.g. ``"idle=5s,promotion=300ms"``.
    send_jitter: random delay before each packet where ``flows`` share the link, in shares of a packet's
        time at its mean rate; ``"0%"``: none.
    handover: handovers, e.g. ``"30s/200ms/80ms/lost"``.
    acks: when receivers acknowledge, ``"every"`` packet or ``"delayed:40ms"``.
    skip: left out of the figures at the start; ``None``: 2 s.
    duration: length of a run; ``None``: the trace's, at most 300 s, and 60 s where it has no end.
    flows: flows of the same controller that share the link.
    transfer: downloads in place of an endless stream, e.g. ``"2MB,count=20,gap=1s"``.
    video: frames of a video in place of an endless stream, whose rate follows the controller, e.g.
        ``"fps=30,max=4mbit"``; ``""``: with all defaults. ``Results.flows()`` then has the delay of
        frames in ms, the share of late ones, and the freezes with their seconds.
    seeds: seeds of everything random, e.g. ``range(5)`` or ``"1..5"``; the same seed gives the same
        results.
    series: whether to keep figures over time, for charts; ``None``: of at most 64 runs.
    logs: whether to keep every packet and what controllers decide, for ``Results.packets()`` and
        ``Results.events()``. The runs then take turns.
    jobs: runs at the same time; ``None``: one per core. Controllers in Python run one at a time.

    Raises ``CellpaceError`` with the program's sentence; what a controller raises comes out as it is.
    """
    ccs, traces, seed_list = all_named(cc), native_traces(trace), seeds_of(seeds)
    if path is not None and trace != "lte-driving":
        raise _native.CellpaceError("path: has the trace as well; leave one of the two out")
    conditions = {
        "path": optional("path", path),
        "rtt": optional("rtt", rtt),
        "queue": written("queue", queue),
        "loss": optional("loss", loss),
        "uplink": optional("uplink", uplink),
        "uplink_queue": written("uplink_queue", uplink_queue),
        "uplink_loss": written("uplink_loss", uplink_loss),
        "from": written("from_", from_),
        "impair": several("impair", impair),
        "jitter": written("jitter", jitter),
        "rrc": written("rrc", rrc),
        "send_jitter": written("send_jitter", send_jitter),
        "handover": several("handover", handover),
        "acks": written("acks", acks),
        "skip": optional("skip", skip),
    }
    if series is None:
        series = len(ccs) * len(traces) * len(seed_list) <= _MOST_RUNS_WITH_SERIES
    wish = {
        "cc": ccs,
        "trace": traces,
        "seeds": seed_list,
        "flows": flows,
        "duration": optional("duration", duration),
        "transfer": optional("transfer", transfer),
        "video": optional("video", video),
        "path": json.dumps(conditions),
        "series": series,
        "logs": logs,
        "jobs": jobs_of(jobs),
    }
    return Results(asked(_native.compare, wish))
