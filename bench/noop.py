# SPDX-License-Identifier: Apache-2.0
"""Benchmark `ladder_noop`: how often the ladder sees through a rung that does nothing.

Huge pages are asked for allocations from 2 MiB on, and a LeNet-5 at batch 8 has none: the rung
huge_pages switches nothing there. Each run is a whole `rung ladder` with that rung alone."""
import collections
import json
import os
import subprocess
import tempfile

import workers
from rounds import round_trip, state
from workers import NotAvailable

RUNS = 20
CONFIG = """\
data: {source: synthetic, batch_size: 8, synthetic: {shape: [1, 28, 28], count: 256}}
model: {name: lenet5}
optim: {name: sgd, lr: 0.01}
train: {epochs: 1}
ladder: {rungs: [huge_pages]}
"""


def one_run(folder, number):
    """The verdict on the rung, its gain and its interval."""
    config, run = os.path.join(folder, "noop.yaml"), os.path.join(folder, str(number))
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG)
    done = subprocess.run([os.path.join(workers.ROOT, "build", "rung"), "ladder", config, "--run", run],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    try:
        with open(os.path.join(run, "ladder.json"), encoding="utf-8") as file:
            rungs = json.load(file)["rungs"]
    except OSError:
        raise NotAvailable((done.stderr.strip().splitlines() or ["rung ladder failed"])[-1]) from None
    return next(rung for rung in rungs if rung["name"] == "huge_pages")


def ladder_noop(smoke, tell):
    """ratio: the share of the runs whose verdict is "no clear change"."""
    runs, verdicts, gains, trips = 2 if smoke else RUNS, collections.Counter(), [], []
    with tempfile.TemporaryDirectory(prefix="rung-bench-") as folder:
        for i in range(runs):
            trips.append(round_trip())
            rung = one_run(folder, i)
            if rung["verdict"] == "not available":
                raise NotAvailable(rung.get("reason") or "the rung huge_pages is not available")
            verdicts[rung["verdict"]] += 1
            gains.append(rung["gain_prev"])
            tell(f"run {i + 1} of {runs}: {rung['verdict']}, gain {rung['gain_prev']:.3f} "
                 f"({rung['ci_low']:.3f} to {rung['ci_high']:.3f}); round trip {trips[-1]:.0f} ns, {state(trips[-1])}")
    tell("ladder_noop: " + ", ".join(f"{n} times {verdict}" for verdict, n in verdicts.most_common()))
    share = verdicts["no clear change"] / runs
    return {"unit": "gain", "ours": "huge_pages where it switches nothing", "ours_values": gains, "peer": "",
            "peer_values": [1.0], "others": "; ".join(f"{v} {n}" for v, n in verdicts.most_common()),
            "ratios": [share], "trips": trips}
