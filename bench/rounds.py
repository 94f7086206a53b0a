# SPDX-License-Identifier: Apache-2.0
"""Interleaved measurement: rounds of one block for each side, the order reversed from one round to
the next (ABBA), while the other sides sleep. The machine's state is told by the round trip of a flag
between two cores; a round that saw both near and far cores is repeated."""
import math
import os
import statistics
import subprocess
import time

from workers import PROGRAMS, Failed, NotAvailable

NEAR, FAR = 200.0, 400.0  # nanoseconds
REST = 0.03               # seconds until the threads of the side before have gone to sleep


def round_trip():
    """Nanoseconds from one core to another and back; 0 on one core."""
    done = subprocess.run([os.path.join(PROGRAMS, "roundtrip")], capture_output=True, text=True, check=True)
    return float(done.stdout)


def state(ns):
    return "near" if ns <= NEAR else "far" if ns >= FAR else "between"


def quartiles(values):
    """(lower quartile, median, upper quartile)."""
    if len(values) < 2:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def spread_text(values, unit="ms"):
    low, middle, high = quartiles(values)
    return f"{middle:.4g} {unit} ({low:.4g} to {high:.4g})"


def block(worker, seconds, step_ms):
    """Median step time of a block of about that length; its first steps warm the caches."""
    steps = max(3, round(seconds * 1e3 / step_ms))
    warm = max(1, steps // 10)
    return statistics.median(worker.run(warm + steps)[warm:])


def estimate(worker):
    """A first idea of the step time, in milliseconds, past the warm-up."""
    steps, times = 1, worker.run(2)
    while sum(times) < 200:
        steps *= 4
        times = worker.run(steps)
    return statistics.median(times)


class Rounds:
    """Medians of the blocks of some sides, round by round."""

    def __init__(self, sides, seconds, count, tell):
        """`sides` maps a name to its worker."""
        self.blocks = {name: [] for name in sides}
        self.round_trips, self.repeated, self.mixed = [], 0, 0
        step_ms = {name: estimate(worker) for name, worker in sides.items()}
        order, spare = list(sides), count
        for i in range(count):
            while True:
                values, trips = self.one_round(sides, order if i % 2 == 0 else order[::-1], seconds, step_ms)
                changed = {"near", "far"} <= set(map(state, trips))
                if not changed or spare == 0:
                    break
                spare -= 1
                self.repeated += 1
            self.mixed += changed
            self.round_trips += trips
            for name, value in values.items():
                self.blocks[name].append(value)
            tell(f"round {i + 1} of {count}: " + ", ".join(f"{name} {values[name]:.4g} ms" for name in sides)
                 + f"; round trip {trips[0]:.0f} ns")

    @staticmethod
    def one_round(sides, order, seconds, step_ms):
        values = {}
        time.sleep(REST)
        trips = [round_trip()]
        for name in order:
            values[name] = block(sides[name], seconds, step_ms[name])
            time.sleep(REST)
            trips.append(round_trip())
        return values, trips

    def ratios(self, over, under):
        """Of the blocks of two sides, round by round."""
        return [a / b for a, b in zip(self.blocks[over], self.blocks[under])]

    def notes(self):
        low, middle, high = quartiles(self.round_trips)
        text = f"round trip {middle:.0f} ns ({low:.0f} to {high:.0f}, {state(middle)})"
        if self.repeated:
            text += f", {self.repeated} rounds repeated because it changed"
        if self.mixed:
            text += f", {self.mixed} rounds kept although it changed"
        return text


def quick(worker, seconds=0.7):
    """Step time in milliseconds for a choice between variants: the better of two blocks."""
    step_ms = estimate(worker)
    best = math.inf
    for _ in range(2):
        best = min(best, block(worker, seconds, step_ms))
    return best


def side_by_side(starts, seconds, count, tell):
    """Rounds of the workers that `starts`, by name, make; they are closed after it."""
    sides = {}
    try:
        for name, start in starts.items():
            sides[name] = start()
        return Rounds(sides, seconds, count, tell)
    except Failed as error:
        raise NotAvailable(str(error)) from None
    finally:
        for side in sides.values():
            side.close()
