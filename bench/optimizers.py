# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the optimizer's pass: unscale, clip by norm, AdamW, weights rounded to bf16, of 124 M
parameters."""
import os

import workers
from rounds import quick, side_by_side, spread_text
from workers import Failed, NotAvailable, Worker

PARAMETERS = 124_439_808
NEEDED = 4 << 30  # bytes of either side and some


def ours(mode):
    return Worker("rung", [os.path.join(workers.PROGRAMS, "optimizer"), mode], workers.environment())


def peer(variant):
    kind, *tuning = variant.split("+")
    return Worker("PyTorch", [workers.TORCH, os.path.join(workers.HERE, "peer_optimizer.py"), kind],
                  workers.environment(peer=True, tuning=tuning))


def need_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    if free < 2 * NEEDED:
        raise NotAvailable(f"{2 * NEEDED >> 30} GiB of memory are needed, {free >> 30} are free")


def measure(name, smoke, tell, other, other_name):
    count, seconds = (2, 1.0) if smoke else (12, 1.0)
    rounds = side_by_side({"rung": lambda: ours("step"), "other": other}, seconds, count, tell)
    for side, label in (("rung", "rung"), ("other", other_name)):
        tell(f"{name}: {label} {spread_text(rounds.blocks[side])}")
    tell(f"{name}: {rounds.notes()}")
    return {"unit": "ms a step of 124 M parameters", "ours": "one step", "ours_values": rounds.blocks["rung"],
            "peer": other_name, "peer_values": rounds.blocks["other"],
            "ratios": rounds.ratios("other", "rung"), "rounds": rounds}


def choose_peer(tell):
    """The fastest way of PyTorch; that without GradScaler, which does less, is told only."""
    found = {}
    for variant in ("tensors", "flat", "tensors+thp", "flat+thp", "flat-plain+thp"):
        try:
            with peer(variant) as side:
                found[variant] = quick(side, 0.5)
        except Failed as error:
            tell(f"  PyTorch {variant} does not run: {error}")
            continue
        tell(f"  PyTorch {variant}: {found[variant]:.4g} ms")
    equal = [variant for variant in found if "plain" not in variant]
    if not equal:
        raise NotAvailable("PyTorch does not run")
    return min(equal, key=found.get), found


def optimizer(smoke, tell):
    """ratio: PyTorch's time of unscale_, clip_grad_norm_, AdamW(fused=True) and the copy to bf16 over our
    time of a step."""
    workers.need_programs()
    need_memory()
    workers.need_torch()
    best, found = choose_peer(tell)
    result = measure("optimizer", smoke, tell, lambda: peer(best), f"PyTorch {best}")
    return {**result, "others": "; ".join(f"{v}~{ms:.4g}" for v, ms in found.items() if v != best)}


def optimizer_limit(smoke, tell):
    """ratio: the time in which a triad moves the bytes that a step must (34 a parameter) over our time."""
    workers.need_programs()
    need_memory()
    return {**measure("optimizer_limit", smoke, tell, lambda: ours("triad"), "triad of as many bytes"), "others": ""}
