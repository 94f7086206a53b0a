# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the benchmarks of ranks: DistributedDataParallel over Gloo, one process a rank,
one thread each, timed on request.

Usage: peer_ddp.py MODEL BATCH RANKS VARIANT    variants: eager, channels_last; BATCH is of all ranks

Rank 0 prints "ready DESCRIPTION" and answers lines of stdin as bench/step.c does.
"""
import gc
import sys
import time

import torch
import torch_models
from gloo_pair import join, tell_others
from peer_models import MODELS

WARMUP = 3


def make_step(name, batch, variant, rank, ranks):
    options, image, classes, momentum = MODELS[name]
    torch.manual_seed(0)
    model = torch_models.build(name, **options)
    model.train()
    torch.manual_seed(rank)
    x, y = torch.rand(batch // ranks, *image), torch.randint(classes, (batch // ranks,))
    if "channels_last" in variant:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=momentum, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def run(step, count):
    times, last = [], time.perf_counter()
    for _ in range(count):
        step()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def serve(step):
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            print(*(f"{t * 1e3:.6g}" for t in run(step, tell_others(int(words[1])))), flush=True)
        elif words[0] == "quit":
            return


def main():
    name, batch, ranks, variant = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rank = join(ranks)
    step = make_step(name, batch, variant, rank, ranks)
    run(step, WARMUP)
    gc.collect()
    gc.freeze()
    if rank:
        while (count := tell_others(0)) > 0:
            run(step, count)
        return
    print(f"ready Gloo, {ranks} processes of one thread", flush=True)
    serve(step)


main()
