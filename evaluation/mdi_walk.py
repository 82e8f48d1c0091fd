#!/usr/bin/env python3
"""The guided random walk over a flat Markov table, in whole numbers only.

    python3 evaluation/mdi_walk.py vectors/mdi-*.json

walks through the events of the test vectors and compares each window and release. This is the reference for
other runtimes: docs/mdi-format.md describes the same in words. All numbers are non-negative
unless said otherwise, fit 64 bits, and `//` is only used where both sides are non-negative.
"""

import base64
import json
import struct
import sys
import zlib
from bisect import bisect_right

ONE_PACKET = 1 << 16
HEADER_WORDS = 20
ABSOLUTE, RELATIVE, LEVELS = range(3)
NEAR, PAPER, CODE = range(3)


class Flat:
    """The words of a flat table."""

    def __init__(self, data):
        words = struct.unpack(f"<{len(data) // 4}I", data)
        assert data[:4] == b"MDIF" and words[1] == 1, "not a flat table of version 1"
        assert zlib.crc32(data[:-4]) == words[-1], "damaged"
        signed = [word - (word >> 31 << 32) for word in words[:HEADER_WORDS]]
        self.kind = words[2]
        self.d_min, self.d_max, self.d_step, self.w_min, self.w_max, self.w_step = signed[3:9]
        self.epoch_us, self.empty, self.oor_factor, self.oor_add, self.loss_factor = words[9:14]
        self.delays, self.windows, origins, entries = words[14:18]
        rest = iter(words[HEADER_WORDS:])

        def take(count):
            return [next(rest) for _ in range(count)]

        self.log2 = take(257)
        self.blocks = take(self.delays + 1)
        self.origins = take(origins)
        self.by_window = take(origins)
        self.starts = take(origins + 1)
        self.entry_windows = take(entries)
        self.limits = take(entries)

    def log10(self, x):
        """log10 of a positive whole number below 2^32, in 1/65536."""
        exponent = x.bit_length() - 1
        fraction = (x << (31 - exponent)) & 0x7FFFFFFF
        low, high = self.log2[fraction >> 23], self.log2[(fraction >> 23) + 1]
        log2 = (exponent << 39) + (low << 23) + (high - low) * (fraction & 0x7FFFFF)
        return ((log2 >> 15) * 1292913986 + (1 << 39)) >> 40


def change(new, old, log):
    """Relative change in thousandths; the only signed result."""
    ratio = min((new * 10000 + old // 2) // old, 10_000_000)
    size = (abs(ratio - 10000) * log * 10 + (1 << 15)) >> 16
    return -size if ratio < 10000 else size


class Walk:
    def __init__(self, flat, seed):
        self.flat = flat
        self.random = seed or 0x9E3779B97F4A7C15
        self.w = self.w1 = self.w2 = 10 << 16
        if flat.kind == ABSOLUTE:
            self.w = self.clamped(10) << 16
        self.d1 = self.d2 = 0
        self.bin = None  # the delay of the last epoch, of absolute states and levels
        self.base = 0

    # Arithmetic.

    def clamped(self, packets):
        return max(self.flat.w_min, min(self.flat.w_max, packets))

    def delay_change(self, new, old):
        new, old = max(new, 1000), max(old, 1000)
        return change(new, old, max(self.flat.log10(old) - (3 << 16), 0))

    def window_change(self, new, old):
        new, old = max(new, ONE_PACKET), max(old, ONE_PACKET)
        return change(new, old, max(self.flat.log10(old) - 315653, 0))

    def stepped(self, base, by):
        base = max(base, ONE_PACKET)
        log = self.flat.log10(2 * base if base == ONE_PACKET else base) - 315653
        limit = (50 if by < 0 else 100) << 16
        percent = limit if log <= 0 else min((abs(by) << 32) // (log * 1000), limit)
        if by == 0:
            percent = 0
        moved = (base * percent // 100 + (1 << 15)) >> 16
        return max(base - moved if by < 0 else min(base + moved, 0xFFFFFFFF), ONE_PACKET)

    @staticmethod
    def index(value, low, high, step):
        """The nearest multiple of the step, half to even, taken into the range, as an index."""
        whole, rest = divmod(abs(value), step)
        whole += 2 * rest > step or (2 * rest == step and whole % 2 == 1)
        rounded = whole * step if value >= 0 else -whole * step
        return (max(low, min(high, rounded)) - low) // step

    def d_index(self, value):
        return self.index(value, self.flat.d_min, self.flat.d_max, self.flat.d_step)

    def w_index(self, value):
        return self.index(value, self.flat.w_min, self.flat.w_max, self.flat.w_step)

    # Random numbers and the table.

    def bits(self):
        """xorshift64*, the upper 32 bits."""
        x = self.random
        x ^= x >> 12
        x = (x ^ (x << 25)) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 27
        self.random = x
        return (x * 0x2545F4914F6CDD1D & 0xFFFFFFFFFFFFFFFF) >> 32

    def find(self, state, delay):
        """The origin to draw from, `None` to keep the window, -1 to go down to one packet."""
        flat = self.flat
        first, end = flat.blocks[delay], flat.blocks[delay + 1]
        after = bisect_right(flat.origins, state, first, end)
        group = state // flat.windows
        below = after - 1 if after > first else None
        if flat.empty == CODE:
            known = below is not None and (flat.origins[below] in (state,) or flat.origins[below] > 0)
            return below if known else -1
        if below is not None and flat.origins[below] // flat.windows == group:
            return below
        if flat.empty == PAPER:
            return None
        if after < end and flat.origins[after] // flat.windows == group:
            return after
        # The same window at the nearest delay, the larger of two.
        window = state % flat.windows
        found = None
        for origin in flat.by_window[first:end]:
            other = flat.origins[origin]
            if other % flat.windows == window:
                distance = abs(other // flat.windows - group)
                if found is None or distance <= found[0]:
                    found = distance, origin
        return None if found is None else found[1]

    def draw(self, origin):
        flat, bits = self.flat, self.bits()
        start, end = flat.starts[origin], flat.starts[origin + 1]
        return flat.entry_windows[min(bisect_right(flat.limits, bits, start, end), end - 1)]

    # Steps.

    def epoch(self, delay_us, acked):
        step = (self.absolute, self.relative, self.levels)[self.flat.kind]
        step(delay_us, acked)
        return self.w

    def absolute(self, delay_us, _acked):
        flat = self.flat
        now = (max(flat.d_min, min(flat.d_max, delay_us // 1000)) - flat.d_min) // flat.d_step
        before = now if self.bin is None else self.bin
        found = self.find(before * flat.windows + (self.w >> 16) - flat.w_min, now)
        self.bin = now
        if found == -1:
            self.w = self.clamped(1) << 16
        elif found is not None:
            self.w = (flat.w_min + self.draw(found)) << 16

    def relative(self, delay_us, acked):
        flat = self.flat
        if self.d1 == 0:
            self.d1 = self.d2 = delay_us
        by = self.delay_change(delay_us, self.d1)
        if by > flat.d_max:
            self.w = (self.w * flat.oor_factor) >> 16
        elif by < flat.d_min:
            self.w = min(self.w + flat.oor_add, 0xFFFFFFFF)
        else:
            row = self.d_index(self.delay_change(self.d1, self.d2)) * flat.windows
            row += self.w_index(self.window_change(self.w1, self.w2))
            found = self.find(row, self.d_index(by))
            if found == -1:
                self.w = ONE_PACKET
            elif found is None:
                self.w = self.w1
            else:
                self.w = self.stepped(self.w1, flat.w_min + self.draw(found) * flat.w_step)
        self.w = max(self.w, ONE_PACKET)
        if acked:
            self.d2, self.d1 = self.d1, delay_us
        self.w2, self.w1 = self.w1, self.w

    def levels(self, delay_us, acked):
        flat = self.flat
        self.base += self.base >> 15
        if acked:
            delay = max(delay_us, 1000) << 8
            self.base = delay if self.base == 0 else min(self.base, delay)
        base = min(self.base >> 8, 0xFFFFFFFF)
        log_base = flat.log10(base) if base else 0
        above = max(flat.log10(max(delay_us, base, 1)) - log_base, 0)
        now = self.d_index((above * 1000 + (1 << 15)) >> 16)
        before = now if self.bin is None else self.bin
        found = self.find(before * flat.windows + self.w_index(self.window_change(self.w, self.w1)), now)
        self.bin = now
        self.w1 = self.w
        if found == -1:
            self.w = ONE_PACKET
        elif found is not None:
            self.w = self.stepped(self.w, flat.w_min + self.draw(found) * flat.w_step)

    def release(self, credit, in_flight, epochs):
        """Packets that may leave after an epoch; `credit` of those allowed before have not left."""
        window = self.w >> 16
        if self.flat.kind == ABSOLUTE:
            return window
        kept = in_flight if epochs < 2 else in_flight * (epochs - 2) // (epochs - 1)
        return min(credit + max(window - kept, 0), window)

    def set_window(self, window, forget):
        """After a loss or a timeout (`forget`)."""
        if self.flat.kind == ABSOLUTE:
            self.w = self.clamped(window >> 16) << 16
            return self.w
        window = max(window, ONE_PACKET)
        if self.flat.kind == LEVELS:
            self.w1 = window if forget else self.w
        else:
            self.w1 = window
            self.w2 = window if forget else self.w2
        self.w = window
        return self.w


def check(vector):
    """Takes the steps of a walk and returns how many there were."""
    walk = Walk(Flat(base64.b64decode(vector["flat"])), int(vector["seed"]))
    credit = 0
    for number, step in enumerate(vector["steps"]):
        if "delay_us" in step:
            window = walk.epoch(step["delay_us"], step["acked"])
            credit = walk.release(credit - step["sent"], step["in_flight"], step["epochs"])
        else:
            window = walk.set_window(step["set"], step["forget"])
        if (window, credit) != (step["window"], step["credit"]):
            sys.exit(f"{vector['rules']}, step {number}, {step}: {window}, {credit}")
    return len(vector["steps"])


def main(*files):
    steps = 0
    for name in files:
        with open(name, encoding="utf-8") as file:
            steps += sum(check(vector) for vector in json.load(file)["walks"])
    print(f"{steps} steps agree")


if __name__ == "__main__":
    main(*sys.argv[1:])
