"""What Python adds: 1000 short cells beside the program, and a call for each ack.

    python overhead.py PROGRAM

Medians of several rounds, in turn, so that other load meets both alike.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import cellpace as cp

ROUNDS = 7


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def cells(program: str) -> None:
    """1000 cells of 3 s each, with all figures, on all cores."""
    command = [program, "compare", "--cc=copa", "--cc=cubic", "--trace=constant:12mbit"]
    command += ["--duration=3s", "--repeat=500", "--json=-"]

    def theirs() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def ours() -> None:
        cp.compare(["copa", "cubic"], "constant:12mbit", duration="3s", seeds=range(1, 501)).to_json()

    pairs = [(seconds(theirs), seconds(ours)) for _ in range(ROUNDS)]
    (program_s, python_s) = (median(times) for times in zip(*pairs, strict=True))
    print(f"1000 cells of 3 s: program {program_s:.3f} s, Python {python_s:.3f} s", end="")
    print(f" ({100 * (python_s / program_s - 1):+.1f} %)")


class Nothing(cp.Controller):
    cwnd = 60_000

    def on_ack(self, ack: cp.AckEvent) -> None:
        pass


class Law(cp.Controller):
    def start(self, mss: int, now: float, seed: int) -> None:
        self.mss = mss

    def on_ack(self, ack: cp.AckEvent) -> None:
        if ack.rtt < 0.08:
            self.cwnd += self.mss * ack.bytes / self.cwnd
        else:
            self.cwnd -= ack.bytes / 2
        self.cwnd = max(self.cwnd, 2 * self.mss)


class Epochs(cp.Controller):
    cwnd = 60_000

    def on_epoch(self, epoch: cp.EpochEvent) -> None:
        pass


def callbacks() -> None:
    """A minute at 12 Mbit/s: some 60 000 acks."""
    kinds: dict[str, cp.ControllerLike] = {
        "built in (fixed:cwnd=60kB)": "fixed:cwnd=60kB",
        "on_ack that returns at once": Nothing,
        "on_ack with four lines of logic": Law,
        "on_epoch every 5 ms": Epochs,
    }
    base = 0.0
    for name, cc in kinds.items():
        times = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            runs = cp.compare(cc, "constant:12mbit", duration="60s", series=False)
            times.append((time.perf_counter() - begun) / runs["packets"][0] * 1e9)
        base = base or median(times)
        print(f"{name:32} {median(times):6.0f} ns a packet ({median(times) - base:+.0f})")


if __name__ == "__main__":
    cells(sys.argv[1])
    callbacks()
