#!/usr/bin/env python3
"""Verus as a program in the kernel could have it, beside `verus`, in virtual time.

    CELLPACE_TRACES=FOLDER python3 evaluation/verus_native.py [--acks delayed:40ms] [--seconds 120] [TRACE...]

With the Python package. Whole numbers, microseconds, a window in place of a budget, at least two packets, no
timer: epochs that have ended since the last ack are made up for with the next one. The profile is a straight
line through at most a hundred nodes, in two forms:

  means   eight nodes for each doubling of the window, each the moving mean of the delays beside it
  slopes  four, of which each delay draws the two beside its window towards it, the nearer one more

A form holds on a trace where its utilization is within 3 points of that of `verus` and its median queueing
delay within 15 %.
"""
import argparse
import os
from multiprocessing import Pool
from pathlib import Path

import cellpace as cp

TRACES = [
    "verizon-lte-short", "att-lte-driving", "tmobile-umts-driving", "campus-walk", "city-drive",
    "beachfront-walk", "highway-drive", "highway-3g", "rapid-change", "mdi/channel00",
]
ONE = 1 << 16
MOST = 39_999
MS = 1000
EPOCH, REFIT = 5 * MS, 1000 * MS
DELTA1, DELTA2, R = 1 * MS, 2 * MS, 2
NO_BASE = 1000 * MS
LEAST = 2


def nodes(per_octave):
    windows = [1]
    while windows[-1] < MOST:
        windows.append(windows[-1] + max(1, (1 << (windows[-1].bit_length() - 1)) // per_octave))
    return windows


class Profile:
    """Delays of windows, and the rising line through them; 8 bits behind the point."""

    def __init__(self, per_octave):
        self.windows = nodes(per_octave)
        self.delays = [None] * len(self.windows)
        self.line, self.slope = [], 10

    def below(self, window):
        return max(at for at, first in enumerate(self.windows[:-1]) if first <= window)

    def refit(self, base):
        points = [(w, d >> 8) for w, d in zip(self.windows, self.delays) if d is not None]
        low = points[-1][1]
        for at in range(len(points) - 1, -1, -1):
            low = min(low, points[at][1])
            points[at] = (points[at][0], low)
        # A point is no higher than any to its right, so the line rises.
        self.line = points
        (first, bottom), (last, top) = points[0], points[-1]
        mean = (top - bottom) // max(1, last - first)
        end = (top - points[-2][1]) // (last - points[-2][0]) if len(points) > 1 else 0
        self.slope = max(10, mean, end, base // last)

    def delay(self, window):
        last, top = self.line[-1]
        if window >= last:
            return top + self.slope * (window - last)
        for (left, low), (right, high) in zip(self.line, self.line[1:]):
            if left <= window <= right:
                return low + (high - low) * (window - left) // (right - left)
        return self.line[0][1]

    def window(self, delay):
        last, top = self.line[-1]
        if delay >= top:
            return min(MOST, last + (delay - top) // self.slope)
        for (left, low), (right, high) in zip(self.line, self.line[1:]):
            if low <= delay < high:
                return left + (right - left) * (delay - low) // (high - low)
        return 1


class Means(Profile):
    def __init__(self):
        super().__init__(8)

    def record(self, window, delay):
        at = self.below(window)
        known = self.delays[at]
        self.delays[at] = delay << 8 if known is None else known + ((delay << 8) - known) // 8


class Slopes(Profile):
    def __init__(self):
        super().__init__(4)

    def record(self, window, delay):
        at = self.below(window)
        left, right = self.windows[at : at + 2]
        low, high = self.delays[at : at + 2]
        delay <<= 8
        if low is None and high is None:
            low = high = delay
        low = min(high, delay) if low is None else low
        high = max(low, delay) if high is None else high
        part = ((window - left) << 8) // (right - left)
        error = delay - ((low * (256 - part) + high * part) >> 8)
        self.delays[at] = max(0, low + (error * (256 - part) >> 11))
        self.delays[at + 1] = max(0, high + (error * part >> 11))


class Native(cp.Controller):
    def start(self, mss, now, seed):
        self.mss, self.first_live = mss, 0
        self.sent_at = {}
        self.begin(round(now * 1e6))

    def begin(self, now):
        self.w, self.slow_start, self.in_loss, self.hold, self.drains = LEAST * ONE, True, False, False, False
        self.target, self.base, self.smoothed, self.largest = 0, None, None, None
        self.ceiling, self.share, self.recover = None, 0, 0
        self.profile, self.fit_at = self.form(), 0
        self.next_epoch, self.quiet_since = now + EPOCH, now
        self.publish(0)

    def publish(self, in_flight):
        window = max(LEAST, self.w // ONE) * self.mss
        self.cwnd = max(LEAST * self.mss, min(window, in_flight)) if self.drains else window

    def delay_at(self, window):
        base = self.base or NO_BASE
        return max(base, self.profile.delay(window)) if self.profile.line else base

    def pass_epochs(self, now, in_flight):
        for _ in range(200):
            if now < self.next_epoch:
                return
            if not self.slow_start:
                self.run_epoch(self.next_epoch, in_flight)
            self.next_epoch += EPOCH
        self.next_epoch = max(self.next_epoch, now)

    def run_epoch(self, now, in_flight):
        base = self.base or NO_BASE
        if now >= self.fit_at and any(self.profile.delays):
            self.fit_at = now + REFIT
            self.profile.refit(base)
        if not self.profile.line:
            return self.begin(now)
        self.drains = self.move_target(now, in_flight, base)
        most = MOST if self.ceiling is None else max(1, self.ceiling // ONE)
        self.w = max(1, min(self.profile.window(self.target), most)) * ONE
        if self.w >= most * ONE:
            self.target = min(self.target, self.delay_at(most))

    def move_target(self, now, in_flight, base):
        """Eq. 2 to 4 as `verus` has them; whether what is in flight is to drain."""
        acked, self.largest = self.largest, None
        newest = acked if acked is not None else max(now - self.quiet_since, self.smoothed or 0)
        before = newest if self.smoothed is None else self.smoothed
        self.smoothed = (before + 4 * newest) // 5
        if before <= R * base:
            self.target = max(self.target - DELTA1, base) if newest > before else self.target + DELTA2
            return False
        if self.hold:
            return False
        self.target = max(self.target - DELTA2, base)
        if self.target > base:
            return False
        if in_flight > LEAST:
            return True
        self.base = max(base, min(base + 10 * MS, acked or 0))
        return False

    def on_sent(self, packet):
        self.sent_at[packet.number] = max(1, self.w // ONE)
        if packet.in_flight <= self.mss:
            self.quiet_since = round(packet.sent_at * 1e6)

    def window_of(self, packet):
        return self.sent_at.pop(packet.number, max(1, self.w // ONE))

    def on_ack(self, ack):
        now = int(ack.now * 1e6)
        self.pass_epochs(now, ack.prior_in_flight // self.mss)
        for packet in ack.packets:
            window = self.window_of(packet)
            if packet.number >= self.first_live:
                self.take(now, window, max(MS, int(packet.rtt * 1e6)))
        self.publish(ack.in_flight)

    def take(self, now, window, delay):
        base = self.base or NO_BASE
        leaves = self.slow_start and delay > max(min(500 * MS, 15 * base), base * 3 // 2)
        if leaves:
            self.w = max(1, 7 * window // 10) * ONE
            self.target = self.delay_at(self.w // ONE)
            self.in_loss = self.hold = True
            self.slow_start = False
        elif self.in_loss and window * ONE <= self.w:
            self.largest = None
            self.in_loss = self.hold = False
        self.share -= self.share // max(20, self.w // ONE)
        if self.ceiling is not None:
            self.ceiling += self.ceiling // (10 * window)
        self.largest = max(self.largest or 0, delay)
        self.base = min(self.base or delay, delay)
        if not self.in_loss:
            self.profile.record(window, delay)
        elif not leaves:
            self.w += ONE * ONE // max(ONE, self.w)
            self.target = min(self.target, self.delay_at(self.w // ONE))
        self.quiet_since = now
        if self.slow_start:
            self.w = min(self.w + ONE, MOST * ONE)

    def on_loss(self, loss):
        for packet in loss.packets:
            window = self.window_of(packet)
            if packet.number < self.first_live:
                continue
            left = max(ONE, 7 * window * ONE // 10)
            self.share += (ONE - self.share) // max(20, self.w // ONE)
            if self.share * 10 > ONE and packet.number >= self.recover:
                self.recover = loss.next_number
                self.ceiling = min(self.ceiling or left, left)
            if not self.in_loss:
                self.w = min(self.w, left)
                self.target = self.delay_at(self.w // ONE)
                self.in_loss = True
            self.slow_start = self.slow_start and self.w <= 20 * ONE
        self.publish(loss.in_flight)

    def on_timeout(self, timeout):
        self.first_live = timeout.next_number
        self.pass_epochs(round(timeout.now * 1e6), 0)
        if self.base is None:
            self.begin(round(timeout.now * 1e6))
        elif self.slow_start:
            self.slow_start, self.target = False, max(self.target, self.base)
        else:
            self.in_loss, self.target = True, self.base
            if self.profile.line:
                self.w = max(1, self.profile.window(self.target)) * ONE
        self.drains = False
        self.publish(0)


class WithMeans(Native):
    name, form = "means", Means


class WithSlopes(Native):
    name, form = "slopes", Slopes


CONTROLLERS = {"verus": "verus", "means": WithMeans, "slopes": WithSlopes}


def measure(job):
    name, trace, args = job
    path = Path(os.environ["CELLPACE_TRACES"]) / f"{trace}.down"
    run = cp.compare(CONTROLLERS[name], path, acks=args.acks, duration=f"{args.seconds}s", jobs=1, series=False)
    [row] = run.to_dicts()
    return 100 * row["utilization"], row["queue_delay_ms_p50"], row["queue_delay_ms_p95"]


def holds(found, reference):
    return abs(found[0] - reference[0]) <= 3 and abs(found[1] / reference[1] - 1) <= 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acks", default="every")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("traces", nargs="*", default=TRACES, metavar="TRACE")
    args = parser.parse_args()
    jobs = [(name, trace, args) for trace in args.traces for name in CONTROLLERS]
    with Pool() as pool:
        figures = iter(pool.map(measure, jobs, chunksize=1))
    held = dict.fromkeys(CONTROLLERS, 0)
    print("utilization in %, median / p95 of the queueing delay in ms; +: holds")
    for trace in args.traces:
        rows = {name: next(figures) for name in CONTROLLERS}
        line = f"{trace:22}"
        for name, row in rows.items():
            held[name] += holds(row, rows["verus"])
            mark = "+" if holds(row, rows["verus"]) else " "
            line += f" | {name} {row[0]:5.1f} {row[1]:4.0f} / {row[2]:5.0f} {mark}"
        print(line)
    print(", ".join(f"{name} holds on {held[name]} of {len(args.traces)}" for name in ["means", "slopes"]))


if __name__ == "__main__":
    main()
