# SPDX-License-Identifier: Apache-2.0
"""What bench/convergence trains: data sets, settings, and when the sides count as equal."""
import dataclasses
import os
import shutil
import statistics
import subprocess
from typing import Callable

import startup
import workers
from workers import NotAvailable

PEER = "PyTorch"
LIBRARY = "plan.layout=channels_last plan.fuse=true plan.kernels=library"
OWN = "plan.layout=channels_last plan.fuse=true plan.kernels=own plan.winograd=true"
# Student's quantile for 95 % (two-sided), by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
           11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131}
# The studentized range's 95 % quantile for three means, by degrees of freedom.
RANGE = {2: 8.331, 3: 5.910, 4: 5.040, 5: 4.602, 6: 4.339, 7: 4.165, 8: 4.041, 9: 3.949, 10: 3.877, 11: 3.820,
         12: 3.773, 13: 3.734, 14: 3.701, 15: 3.674}


def interval(values):
    """Half the width of the mean's 95 % interval."""
    return STUDENT[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5


def inside_intervals(groups):
    """(words, whether each pair of means lies inside each other's 95 % interval)."""
    means = [statistics.mean(values) for values in groups]
    return "inside each other's interval", max(means) - min(means) <= min(map(interval, groups))


def within_spread(groups):
    """(words, whether the means differ by no more than seeds explain): Tukey's range test of three sides, which
    finds a difference in one of 20 trials where there is none; the spread within sides is that of all seeds."""
    means = [statistics.mean(values) for values in groups]
    degrees = sum(len(values) - 1 for values in groups)
    spread = (sum((v - mean) ** 2 for values, mean in zip(groups, means) for v in values) / degrees) ** 0.5
    allowed = RANGE[min(degrees, max(RANGE))] * spread / min(map(len, groups)) ** 0.5
    apart = max(means) - min(means)
    return f"{apart:.4f} apart, the seeds' spread allows {allowed:.4f}", apart <= allowed


def cifar10():
    """A folder with the pixels of cifar10-jpeg.tar.zst in $RUNG_DATA as NumPy arrays, decoded once by
    `rung convert`: both sides read the same."""
    archive = os.path.join(os.environ.get("RUNG_DATA", ""), "cifar10-jpeg.tar.zst")
    folder = os.path.join(workers.PROGRAMS, "cifar10")
    if os.path.isdir(folder):
        return folder
    if not os.path.isfile(archive):
        raise NotAvailable("no pictures: RUNG_DATA must name the folder of cifar10-jpeg.tar.zst")
    part = f"{folder}.{os.getpid()}.part"
    pictures, arrays = os.path.join(part, "jpeg"), os.path.join(part, "npy")
    rung = os.path.join(workers.ROOT, "build", "rung")
    try:
        os.makedirs(pictures)
        commands = [["tar", "--zstd", "-xf", archive, "-C", pictures]]
        commands += [[rung, "convert", pictures, os.path.join(part, split), "--to", "npy", "--raw", "32x32",
                      "--split", split, "-q"] for split in ("train", "test")]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise NotAvailable(done.stderr.strip() or f"{command[0]} failed")
        os.rename(os.path.join(part, "train"), arrays)
        for name in ("x_test.npy", "y_test.npy"):
            os.rename(os.path.join(part, "test", name), os.path.join(arrays, name))
        if not os.path.isdir(folder):  # nobody else was faster
            os.rename(arrays, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


@dataclasses.dataclass
class Recipe:
    """Settings stand in bench/NAME.yaml, and for PyTorch in peer_train.py."""
    name: str
    results: str              # of bench/results
    what: str
    data: Callable[[], str]   # the folder that both sides read
    ours: dict[str, str]      # our sides: their settings
    epochs: int
    seeds: int
    equal: Callable           # one of those above
    judged: tuple[str, ...]   # columns that must be equal

    @property
    def sides(self):
        return (*self.ours, PEER)


RECIPES = {recipe.name: recipe for recipe in (
    Recipe("fashion", "convergence", "DLF CNN, Fashion-MNIST padded to 3x32x32", startup.unpacked, {"rung": OWN}, 3, 5,
           inside_intervals, ("accuracy", "loss")),
    Recipe("cifar10", "convergence_cifar10", "DLF CNN, CIFAR-10 JPEGs, cropped and mirrored at random",
           cifar10, {"library": LIBRARY, "own": OWN}, 10, 3, within_spread, ("accuracy",)),
)}
