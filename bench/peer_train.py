# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/convergence: what bench/convergence.yaml says, in PyTorch.

Usage: peer_train.py FOLDER SEED EPOCHS [STEPS]    a folder with the IDX files, not compressed

Prints the accuracy and the mean loss on the test images.
"""
import os
import sys

import torch
import torch_models
from torch.nn.functional import cross_entropy, pad

BATCH = 64


def load(folder, prefix):
    with open(os.path.join(folder, prefix + "-images-idx3-ubyte"), "rb") as file:
        images = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=16).view(-1, 1, 28, 28)
    with open(os.path.join(folder, prefix + "-labels-idx1-ubyte"), "rb") as file:
        labels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=8)
    return images, labels.long()


def prepare(images):
    x = pad(images.float() / 255, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return x.contiguous(memory_format=torch.channels_last)


def main():
    folder, seed, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else None
    torch.manual_seed(seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    images, labels = load(folder, "train")
    model = torch_models.DlfCnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(BATCH)[:steps or len(images) // BATCH]:
            optimizer.zero_grad()
            cross_entropy(model(prepare(images[chosen])), labels[chosen]).backward()
            optimizer.step()
    model.eval()
    images, labels = load(folder, "t10k")
    right, loss = 0, 0.0
    with torch.no_grad():
        for x, y in zip(images.split(500), labels.split(500)):
            logits = model(prepare(x))
            right += (logits.argmax(1) == y).sum().item()
            loss += cross_entropy(logits, y, reduction="sum").item()
    print(right / len(images), loss / len(images))


if __name__ == "__main__":
    main()
