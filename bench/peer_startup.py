# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the benchmark `startup`: everything up to the first training step.

Usage: peer_startup.py FOLDER    a folder with the four IDX files of Fashion-MNIST, not compressed

Prints two readings of CLOCK_MONOTONIC in nanoseconds: when the first step began (its batch ready),
and when it had ended.
"""
import os
import sys
import time

import torch
import torch_models
from peer_train import load, prepare


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    images, labels = load(sys.argv[1], "train")
    load(sys.argv[1], "t10k")
    model = torch_models.DlfCnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    order = torch.randperm(len(images))
    chosen = order[:64]
    x, y = prepare(images[chosen]), labels[chosen]
    begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    print(begun, time.clock_gettime_ns(time.CLOCK_MONOTONIC))


main()
