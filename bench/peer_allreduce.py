# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the benchmarks of all-reduces: Gloo, two processes bound to a core each.

Usage: peer_allreduce.py BYTES

Rank 0 prints "ready DESCRIPTION" and answers lines of stdin as bench/allreduce.c does; a step is one
call.
"""
import sys
import time

import torch
import torch.distributed as dist
from gloo_pair import join, tell_others


def run(data, count):
    times, last = [], time.perf_counter()
    for _ in range(count):
        dist.all_reduce(data)
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def main():
    rank = join(2)
    data = torch.zeros(int(sys.argv[1]) // 4)
    run(data, 3)
    if rank:
        while (count := tell_others(0)) > 0:
            run(data, count)
        return
    print("ready Gloo, 2 processes of one thread", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] != "run":
            return
        print(*(f"{t * 1e3:.6g}" for t in run(data, tell_others(int(words[1])))), flush=True)


main()
