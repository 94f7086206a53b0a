# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the optimizer benchmark: GradScaler.unscale_, clip_grad_norm_, AdamW(fused=True) and
the weights copied to bf16, over the parameters of GPT-2 124M.

Usage: peer_optimizer.py VARIANT    variants: tensors, flat (all parameters in one tensor); with -plain
behind the name without GradScaler

Prints "ready DESCRIPTION" and answers lines of stdin as bench/step.c does.
"""
import os
import sys
import time

import torch

WIDTH, LAYERS, WORDS, PLACES = 768, 12, 50257, 1024


def shapes():
    w = WIDTH
    layer = [(w,), (w,), (w, 3 * w), (3 * w,), (w, w), (w,), (w,), (w,), (w, 4 * w), (4 * w,), (4 * w, w), (w,)]
    return [(WORDS, w), (PLACES, w), *(layer * LAYERS), (w,), (w,)]


def make_step(variant):
    kind, plain = variant.removesuffix("-plain"), variant.endswith("-plain")
    sizes = shapes()
    if kind == "flat":
        sizes = [(sum(torch.Size(size).numel() for size in sizes),)]
    parameters = [torch.nn.Parameter(torch.rand(size) * 0.1 - 0.05) for size in sizes]
    for p in parameters:
        p.grad = torch.rand(p.shape) - 0.5
    low = [torch.empty(p.shape, dtype=torch.bfloat16) for p in parameters]
    decay = [p for p in parameters if p.dim() > 1 or kind == "flat"]
    others = [p for p in parameters if p.dim() == 1 and kind != "flat"]
    groups = [{"params": decay}] + ([{"params": others, "weight_decay": 0.0}] if others else [])
    optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
    # A scale of 1: gradients, which it divides where they lie, stay as they are. The work is the same.
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=1 << 30)
    scaler.scale(torch.ones(()))  # makes its state
    weights = [p.data for p in parameters]

    def step():
        if not plain:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        if plain:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        torch._foreach_copy_(low, weights)

    return step, f"{sum(p.numel() for p in parameters)} parameters, {torch.backends.cpu.get_cpu_capability()}"


def serve(step):
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            times = []
            for _ in range(int(words[1])):
                begin = time.perf_counter()
                step()
                times.append(time.perf_counter() - begin)
            print(*(f"{t * 1e3:.6g}" for t in times), flush=True)
        elif words[0] == "quit":
            return


def main():
    torch.manual_seed(0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        step, about = make_step(sys.argv[1])
        for _ in range(2):
            step()
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        sys.exit(f"{sys.argv[1]}: {lines[0]}")
    print("ready", about, flush=True)
    serve(step)


main()
