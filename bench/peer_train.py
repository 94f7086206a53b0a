# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/convergence: what bench/RECIPE.yaml says, in PyTorch.

Usage: peer_train.py RECIPE FOLDER STATE SEED EPOCHS [STEPS]    FOLDER holds the arrays or IDX files

After each epoch prints: its number, the mean training loss, accuracy and mean loss on the test images.
What goes on from there is kept in the file STATE, and read when it is there.
"""
import os
import sys

import torch
import torch_models
from torch.nn.functional import cross_entropy, pad

BATCH = 64
MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.247, 0.2435, 0.2616])


def load(folder, prefix):
    with open(os.path.join(folder, prefix + "-images-idx3-ubyte"), "rb") as file:
        images = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=16).view(-1, 1, 28, 28)
    with open(os.path.join(folder, prefix + "-labels-idx1-ubyte"), "rb") as file:
        labels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=8)
    return images, labels.long()


def prepare(images):
    x = pad(images.float() / 255, (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return x.contiguous(memory_format=torch.channels_last)


class Fashion:
    def __init__(self, folder):
        self.train, self.test = load(folder, "train"), load(folder, "t10k")

    @staticmethod
    def optimizer(model, steps):
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), None

    @staticmethod
    def prepare(images, training):
        return prepare(images)


class Cifar10:
    """Images are bytes, N x 32 x 32 x 3."""

    def __init__(self, folder):
        import numpy

        self.train, self.test = ([torch.from_numpy(numpy.load(os.path.join(folder, f"{kind}_{split}.npy")))
                                  for kind in "xy"] for split in ("train", "test"))

    @staticmethod
    def optimizer(model, steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
        return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    @staticmethod
    def prepare(images, training):
        if training:  # a window of the image with a border of 4 zeros, each second one mirrored
            count = len(images)
            images = pad(images, (0, 0, 4, 4, 4, 4))
            rows = torch.randint(9, (count, 1)) + torch.arange(32)
            columns = torch.randint(9, (count, 1)) + torch.arange(32)
            columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
            images = images[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
        return ((images.float() / 255 - MEAN) / STD).permute(0, 3, 1, 2)  # channels-last as it lies


def evaluate(model, recipe):
    model.eval()
    images, labels = recipe.test
    right, loss = 0, 0.0
    with torch.no_grad():
        for x, y in zip(images.split(500), labels.split(500)):
            logits = model(recipe.prepare(x, False))
            right += (logits.argmax(1) == y).sum().item()
            loss += cross_entropy(logits, y, reduction="sum").item()
    model.train()
    return right / len(images), loss / len(images)


def train_epoch(model, recipe, optimizer, schedule, steps):
    """The mean training loss."""
    images, labels = recipe.train
    total = 0.0
    for chosen in torch.randperm(len(images)).split(BATCH)[:steps]:
        optimizer.zero_grad()
        loss = cross_entropy(model(recipe.prepare(images[chosen], True)), labels[chosen])
        loss.backward()
        optimizer.step()
        if schedule:
            schedule.step()
        total += loss.item()
    return total / steps


def main():
    name, folder, state_path, seed, epochs = *sys.argv[1:4], *map(int, sys.argv[4:6])
    torch.manual_seed(seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    recipe = {"fashion": Fashion, "cifar10": Cifar10}[name](folder)
    steps = int(sys.argv[6]) if len(sys.argv) > 6 else len(recipe.train[0]) // BATCH
    model = torch_models.DlfCnn().to(memory_format=torch.channels_last)
    optimizer, schedule = recipe.optimizer(model, epochs * steps)
    parts = {"model": model, "optimizer": optimizer} | ({"schedule": schedule} if schedule else {})
    lines = []
    if os.path.exists(state_path):
        state = torch.load(state_path)
        for key, part in parts.items():
            part.load_state_dict(state[key])
        torch.set_rng_state(state["random"])
        lines = state["lines"]
    print(*lines, sep="\n", flush=True)
    while len(lines) < epochs:
        loss = train_epoch(model, recipe, optimizer, schedule, steps)
        lines.append(f"{len(lines) + 1} {loss} " + " ".join(map(str, evaluate(model, recipe))))
        torch.save({key: part.state_dict() for key, part in parts.items()}
                   | {"random": torch.get_rng_state(), "lines": lines}, state_path + ".part")
        os.replace(state_path + ".part", state_path)
        print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
