# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the benchmarks: training steps on one fixed batch, timed on request.

Usage: peer.py MODEL BATCH VARIANT    variants: eager, channels_last, compile, compile_channels_last;
                                      with _bf16 behind them under torch.autocast

Prints "ready DESCRIPTION" and answers lines of stdin as bench/step.c does. A variant that cannot be
built ends the program with one line on stderr and status 1.
"""
import gc
import os
import statistics
import sys
import time

import torch
import torch_models
from peer_models import MODELS

WARMUP = 3


def make_step(name, batch, variant):
    """A function that takes one training step, and a description of how."""
    options, image, classes, momentum = MODELS[name]
    model = torch_models.build(name, **options)
    model.train()
    x, y = torch.rand(batch, *image), torch.randint(classes, (batch,))
    if "channels_last" in variant:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    parameters = list(model.parameters())

    def loss_of(images, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=variant.endswith("_bf16")):
            return torch.nn.functional.cross_entropy(model(images), labels)

    if variant.startswith("compile"):
        loss_of = torch.compile(loss_of)

    def optimizer_of(kind):
        return torch.optim.SGD(parameters, lr=0.01, momentum=momentum, **{kind: True})

    optimizers = {kind: optimizer_of(kind) for kind in ("fused", "foreach")}

    def step_with(optimizer):
        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
            return loss.item()
        return step

    # The faster optimizer counts: both take the same gradients, in turn.
    for _ in range(WARMUP):
        step_with(optimizers["fused"])()
    times = {kind: [] for kind in optimizers}
    for _ in range(11):
        for kind, optimizer in optimizers.items():
            begin = time.perf_counter()
            optimizer.step()
            times[kind].append(time.perf_counter() - begin)
    kind = min(times, key=lambda key: statistics.median(times[key]))
    del optimizers  # and the state of the other one
    capability = torch.backends.cpu.get_cpu_capability()
    return step_with(optimizer_of(kind)), f"{kind} optimizer, {capability}"


def peak_resident():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def serve(step):
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            times = []
            last = time.perf_counter()
            for _ in range(int(words[1])):
                step()
                now = time.perf_counter()
                times.append(now - last)
                last = now
            print(*(f"{t * 1e3:.6g}" for t in times), flush=True)
        elif words[0] == "rss":
            print(peak_resident(), flush=True)
        elif words[0] == "quit":
            return


def main():
    torch.manual_seed(0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        step, how = make_step(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        for _ in range(WARMUP):
            step()
    except Exception as error:  # the compiler's are of many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        sys.exit(f"{sys.argv[3]}: {lines[0]}")
    gc.collect()
    gc.freeze()
    print("ready", how, flush=True)
    serve(step)


main()
