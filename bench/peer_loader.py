# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the loader's benchmarks: batches of torchvision's ImageFolder through DataLoader,
RandomResizedCrop 224 (or RandomCrop 32 with padding 4), flip, normalize, timed on request.

Usage: peer_loader.py FOLDER BATCH VARIANT WORKERS CROP

VARIANT: pil (Pillow decodes and resizes) or io (torchvision.io decodes, v2 resizes tensors). CROP:
resized or padded. Prints
"ready DESCRIPTION" and answers lines of stdin as bench/loader.c does.
"""
import os
import sys
import time

import torch
import torchvision
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def read_tensor(path):
    return decode_image(read_file(path), mode=ImageReadMode.RGB)


def make_set(folder, variant, crop):
    end = [v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    first = v2.RandomCrop(32, padding=4) if crop == "padded" else v2.RandomResizedCrop(224, antialias=True)
    if variant == "io":
        return ImageFolder(folder, v2.Compose([first, *end]), loader=read_tensor)
    return ImageFolder(folder, v2.Compose([first, v2.PILToTensor(), *end]))


def peak_kb():
    """Highest resident size of this process and its workers, each at its highest."""
    total = 0
    parents = {str(os.getpid())}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue
        if pid in parents or fields.get("PPid", "").strip() in parents:
            total += int(fields.get("VmHWM", "0 kB").split()[0])
    return total


def batches(loader):
    while True:
        yield from loader


def main():
    folder, batch, variant, workers = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1 if workers else len(os.sched_getaffinity(0)))
    options = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
    loader = torch.utils.data.DataLoader(make_set(folder, variant, sys.argv[5]), batch_size=batch,
                                         shuffle=True, num_workers=workers, drop_last=True, **options)
    source = batches(loader)
    next(source)
    print(f"ready torch {torch.__version__}, torchvision {torchvision.__version__}, {workers} workers",
          flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        if words[0] == "rss":
            print(peak_kb(), flush=True)
            continue
        times, last = [], time.perf_counter()
        for _ in range(int(words[1])):
            next(source)
            now = time.perf_counter()
            times.append((now - last) * 1e3)
            last = now
        print(" ".join(f"{t:.6g}" for t in times), flush=True)


if __name__ == "__main__":
    main()
