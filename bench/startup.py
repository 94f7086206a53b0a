# SPDX-License-Identifier: Apache-2.0
"""Benchmark `startup`: from the start of the process until the first training step begins."""
import gzip
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import workers
from rounds import round_trip, spread_text, state
from workers import NotAvailable

FASHION = "/usr/share/datasets/fashion-mnist"
FILES = [f"{split}-{kind}" for split in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]


def unpacked():
    """A folder with the files of Fashion-MNIST, not compressed: what both sides read."""
    folder = os.path.join(workers.PROGRAMS, "fashion-mnist")
    os.makedirs(folder, exist_ok=True)
    for name in FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        part = f"{path}.{os.getpid()}.part"
        try:
            with gzip.open(os.path.join(FASHION, name + ".gz")) as packed, open(part, "wb") as out:
                shutil.copyfileobj(packed, out)
        except OSError as error:
            raise NotAvailable(f"{error.filename or FASHION}: {error.strerror} (tools/setup bench)") from None
        os.replace(part, path)
    return folder


def measure(command, env):
    """Milliseconds from the start of a process until its first step begins, and until it has ended."""
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise NotAvailable((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return [(int(word) - begin) * 1e-6 for word in done.stdout.split()]


def startup(smoke, tell):
    """ratio: PyTorch's time over ours."""
    count = 2 if smoke else 12
    workers.need_programs()
    workers.need_torch()
    folder = unpacked()
    settings = ["data.format=idx", f"data.path={folder}", "data.pad=[32, 32]", "data.repeat_channels=3",
                "data.batch_size=64", "data.drop_last=true", "model.name=dlf_cnn", "optim.lr=0.01",
                "optim.momentum=0.9", "plan.layout=channels_last", "plan.fuse=true", "plan.kernels=own",
                "train.steps=1", "train.log_every=1", "train.eval_every=never", "checkpoint.every=never"]
    tell("startup: DLF CNN on Fashion-MNIST padded to 3x32x32, batch 64")
    times, ended, trips = {"rung": [], "PyTorch": []}, {"rung": [], "PyTorch": []}, []
    with tempfile.TemporaryDirectory(prefix="rung-bench-") as runs:
        for i in range(count + 1):  # the first fills the caches of the system and does not count
            trips.append(round_trip())
            for side in sorted(times, reverse=i % 2 == 1):
                if side == "rung":
                    command = [os.path.join(workers.PROGRAMS, "startup"), os.path.join(runs, str(i)), *settings]
                else:
                    command = [workers.TORCH, os.path.join(workers.HERE, "peer_startup.py"), folder]
                begun, done = measure(command, workers.environment(bind=False))
                if i:
                    times[side].append(begun)
                    ended[side].append(done)
    for side, values in times.items():
        tell(f"startup: {side:7} {spread_text(values)}; first step done after "
             f"{statistics.median(ended[side]):.4g} ms")
    middle = statistics.median(trips)
    tell(f"startup: round trip {middle:.0f} ns ({state(middle)})")
    return {"unit": "ms", "ours": " ".join(s for s in settings if s.startswith("plan.")),
            "ours_values": times["rung"], "peer": "eager, channels_last", "peer_values": times["PyTorch"],
            "others": "", "ratios": [a / b for a, b in zip(times["PyTorch"], times["rung"])], "trips": trips}
