"""NewReno in Python, line by line as the built-in one: its windows must be the same."""

from __future__ import annotations

import math

import cellpace as cp


class NewRenoPort(cp.Controller):
    def start(self, mss: int, now: float, seed: int) -> None:
        self.mss = mss
        self.window = self.initial = 10.0
        self.ssthresh = math.inf
        self.recovering = False
        self.recover = 0
        self.next_number = 0
        self.missing = 0
        self.saved: tuple[float, float, bool, int] | None = None
        self.before_timeout: tuple[float, float, bool, int] | None = None
        self.forget_flight()
        self.settle()

    def forget_flight(self) -> None:
        self.flight_now, self.flight_before, self.round_end = 0.0, 0, 0
        self.peak = self.last_peak = 0
        self.filled = self.last_filled = False

    def flight_at(self, now: float, in_flight: int) -> int:
        return max(self.flight_before, in_flight) if now == self.flight_now else in_flight

    def settle(self) -> None:
        self.window = max(self.window, 1.0)
        self.cwnd = float(int(self.window * self.mss))

    def state(self) -> tuple[float, float, bool, int]:
        return self.window, self.ssthresh, self.recovering, self.recover

    def undo(self, saved: tuple[float, float, bool, int]) -> None:
        self.window = max(self.window, saved[0])
        _, self.ssthresh, self.recovering, self.recover = saved
        self.settle()

    def on_sent(self, packet: cp.PacketEvent) -> None:
        self.next_number = packet.number + 1

    def on_ack(self, ack: cp.AckEvent) -> None:
        unlimited = sum(packet.bytes for packet in ack.packets if not packet.app_limited)
        newest = max(packet.number for packet in ack.packets)
        flight = self.flight_at(ack.now, ack.prior_in_flight) / self.mss
        self.flight_before = self.flight_at(ack.now, ack.prior_in_flight)
        self.flight_now = ack.now
        if newest >= self.round_end:
            self.round_end = ack.next_number
            self.last_peak, self.peak = self.peak, 0
            self.last_filled, self.filled = self.filled, False
        self.peak = max(self.peak, self.flight_before)
        self.filled = self.filled or flight + 1.0 > self.window
        if self.recovering:
            growth = 0
        elif self.window < self.ssthresh:
            peak = max(self.peak, self.last_peak) / self.mss
            growth = ack.bytes if 2.0 * peak > self.window else 0
        else:
            growth = unlimited if self.filled or self.last_filled else 0
        self.next_number = ack.next_number
        if newest >= self.recover:
            self.before_timeout, self.recovering = None, False
        self.grow(growth / self.mss)
        self.settle()

    def grow(self, acked: float) -> None:
        left = acked
        if self.window < self.ssthresh:
            step = min(acked, 2.0, self.ssthresh - self.window)
            self.window += step
            left = 0.0 if self.window < self.ssthresh else acked - step
        self.window += left / self.window

    def on_loss(self, loss: cp.LossEvent) -> None:
        self.next_number = loss.next_number
        fresh = sum(packet.number >= self.recover for packet in loss.packets)
        if fresh:
            self.missing, self.saved = fresh, self.state()
            flight = self.flight_at(loss.now, loss.prior_in_flight) / self.mss
            self.ssthresh = max(flight * 0.5, 2.0)
            self.window = min(self.window, self.ssthresh)
            self.recovering, self.recover = True, loss.next_number
            self.settle()
        elif self.saved is not None:
            self.missing += sum(packet.number >= self.saved[3] for packet in loss.packets)

    def on_timeout(self, timeout: cp.TimeoutEvent) -> None:
        self.next_number = timeout.next_number
        if timeout.in_a_row <= 1 or self.before_timeout is None:
            self.before_timeout = self.state()
            self.ssthresh = max(timeout.prior_in_flight / self.mss * 0.5, 2.0)
        self.saved = None
        self.window, self.recovering, self.recover = 1.0, False, timeout.next_number
        self.settle()

    def on_spurious_timeout(self, now: float) -> None:
        if self.before_timeout is not None:
            saved, self.before_timeout = self.before_timeout, None
            self.undo(saved)

    def on_spurious_loss(self, packet: cp.PacketEvent) -> None:
        if self.saved is None or not self.saved[3] <= packet.number < self.recover:
            return
        self.missing -= 1
        if self.missing <= 0:
            saved, self.saved = self.saved, None
            self.undo(saved)

    def on_path_change(self, now: float) -> None:
        self.window, self.ssthresh, self.recovering = self.initial, math.inf, False
        self.forget_flight()
        self.saved = self.before_timeout = None
        self.recover = self.next_number
        self.settle()
