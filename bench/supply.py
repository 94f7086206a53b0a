# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the data supply: photographs of ImageNet through RandomResizedCrop 224, flip and
normalize, and CIFAR-10's pictures through RandomCrop 32 with padding, in batches of 64."""
import os
import shutil
import signal
import statistics
import subprocess
import tarfile

import workers
from rounds import side_by_side, spread_text
from workers import CORES, Failed, NotAvailable, Worker

BATCH, COPIES = 64, 6
SLOTS, PREFETCH = 2, 4  # batches that a worker of loader.c, of peer_loader.py is ahead
FOLDER = os.path.join(workers.PROGRAMS, "photographs")


class Steady:
    """A worker whose blocks tell the mean of their batches. Those made ahead are taken first and not
    counted, and outside its blocks the worker is stopped: what it makes ahead would cost the others."""

    def __init__(self, worker, ahead):
        self.worker, self.name, self.about, self.ahead = worker, worker.name, worker.about, ahead
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        os.killpg(self.worker.process.pid, number)

    def awake(self, call, *arguments):
        self.signal(signal.SIGCONT)
        answer = call(*arguments)
        self.signal(signal.SIGSTOP)
        return answer

    def run(self, count, limit=600.0):
        times = self.awake(self.worker.run, count + self.ahead, limit)
        return [statistics.fmean(times[self.ahead:])] * count

    def peak(self):
        return self.awake(self.worker.peak)

    def close(self):
        self.worker.close()


def photographs():
    """The folder of class folders, unpacked from imagenet-sample.tar of $RUNG_DATA when missing; each
    photograph lies there six times."""
    archive = os.path.join(os.environ.get("RUNG_DATA", ""), "imagenet-sample.tar")
    if not os.path.isdir(FOLDER):
        if not os.path.isfile(archive):
            raise NotAvailable("no photographs: RUNG_DATA must name the folder of imagenet-sample.tar")
        unfinished = FOLDER + ".tmp"
        shutil.rmtree(unfinished, ignore_errors=True)
        with tarfile.open(archive) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                name = os.path.splitext(os.path.basename(member.name))[0].split("_", 1)[-1]
                folder = os.path.join(unfinished, name)
                os.makedirs(folder, exist_ok=True)
                data = tar.extractfile(member).read()
                for copy in range(COPIES):
                    with open(os.path.join(folder, f"{copy}.jpg"), "wb") as file:
                        file.write(data)
        os.rename(unfinished, FOLDER)
    return FOLDER


def raw_pack():
    """The photographs as a pack of pixels of 224 x 224, made when missing."""
    photographs()
    path = os.path.join(workers.PROGRAMS, "photographs.pack")
    if not os.path.isfile(path):
        convert(FOLDER, path, "--raw", "224x224")
    return path


def small_pictures():
    """CIFAR-10's training pictures as JPEGs in class folders, from cifar10-jpeg.tar.zst of $RUNG_DATA when
    missing."""
    archive = os.path.join(os.environ.get("RUNG_DATA", ""), "cifar10-jpeg.tar.zst")
    path = os.path.join(workers.PROGRAMS, "cifar10")
    if not os.path.isdir(path):
        if not os.path.isfile(archive):
            raise NotAvailable("no pictures: RUNG_DATA must name the folder of cifar10-jpeg.tar.zst")
        convert(archive, path, "--to", "folder", "--split", "train")
    return path


def convert(source, target, *options):
    rung = os.path.join(os.path.dirname(workers.PROGRAMS), "rung")
    made = subprocess.run([rung, "convert", source, target, *options, "-q"], capture_output=True, text=True)
    if made.returncode:
        raise NotAvailable(made.stderr.strip() or "rung convert failed")


def ours(mode, threads, data=FOLDER):
    return Steady(Worker("rung", [os.path.join(workers.PROGRAMS, "loader"), mode, data, str(threads),
                                  str(BATCH)], workers.environment(bind=False)), SLOTS * threads)


def peer(variant, count, folder=FOLDER, crop="resized"):
    return Steady(Worker("DataLoader", [workers.TORCH, os.path.join(workers.HERE, "peer_loader.py"), folder,
                                        str(BATCH), variant, str(count), crop],
                         workers.environment(peer=True, bind=False)), PREFETCH * count)


def rate(ms):
    return BATCH * 1e3 / ms


def choose_peer(smoke, tell, start=peer):
    """The fastest of Pillow and torchvision.io, each with some numbers of workers."""
    found, refused = {}, {}
    for variant in ("io", "pil"):
        for count in sorted({len(CORES), 2 * len(CORES)} if not smoke else {len(CORES)}):
            try:
                side = start(variant, count)
            except Failed as error:
                refused[f"{variant}, {count} workers"] = str(error)
                continue
            side.run(2)
            ms = side.run(10 if smoke else 25)[0]
            side.close()
            found[variant, count] = ms
            tell(f"  DataLoader {variant}, {count} workers: {rate(ms):.0f} img/s")
    if not found:
        raise NotAvailable(f"DataLoader does not run: {next(iter(refused.values()))}")
    return min(found, key=found.get), found


def measure(name, smoke, tell, start_other, other_name, start_ours=lambda: ours("supply", len(CORES))):
    """Rounds of our supply beside another side; the larger ratio is better for us."""
    count, seconds = (2, 2.0) if smoke else (12, 3.0)
    rounds = side_by_side({"rung": start_ours, "other": start_other}, seconds, count, tell)
    ratios = rounds.ratios("other", "rung")
    for side, label in (("rung", "rung"), ("other", other_name)):
        rates = [rate(ms) for ms in rounds.blocks[side]]
        tell(f"{name}: {label} {spread_text(rates, 'img/s')}")
    tell(f"{name}: {rounds.notes()}")
    return {"unit": "ms a batch of 64", "ours": f"{len(CORES)} workers", "ours_values": rounds.blocks["rung"],
            "peer": other_name, "peer_values": rounds.blocks["other"], "others": "", "ratios": ratios,
            "rounds": rounds}


def beside_peer(name, smoke, tell, start_peer, start_ours):
    workers.need_torch()
    tell(f"{name}: choosing DataLoader's variant")
    (variant, count), found = choose_peer(smoke, tell, start_peer)
    result = measure(name, smoke, tell, lambda: start_peer(variant, count),
                     f"DataLoader {variant}, {count} workers", start_ours)
    others = [f"{v} {n} workers~{rate(ms):.0f} img/s" for (v, n), ms in found.items() if (v, n) != (variant, count)]
    return {**result, "others": "; ".join(others)}


def loader(smoke, tell):
    """ratio: DataLoader's time of a batch over ours."""
    workers.need_programs()
    photographs()
    return beside_peer("loader", smoke, tell, peer, lambda: ours("supply", len(CORES)))


def cifar(smoke, tell):
    """ratio: the same of CIFAR-10's training pictures."""
    workers.need_programs()
    folder = small_pictures()
    return beside_peer("cifar", smoke, tell, lambda variant, count: peer(variant, count, folder, "padded"),
                       lambda: ours("small", len(CORES), folder))


def loader_limit(smoke, tell):
    """ratio: the time in which all cores decode a batch of whole photographs from memory, and do
    nothing else, over our time of a batch."""
    workers.need_programs()
    photographs()
    return measure("loader_limit", smoke, tell, lambda: ours("decode", len(CORES)),
                   f"decoding alone, {len(CORES)} threads")


def loader_raw(smoke, tell):
    """ratio: the time in which all cores copy the bytes of a batch of raw pixels of 224 x 224 from the
    mapped pack, in a random order, over our time of that batch."""
    workers.need_programs()
    pack = raw_pack()
    return measure("loader_raw", smoke, tell, lambda: ours("copy", len(CORES), pack),
                   f"copying alone, {len(CORES)} threads", lambda: ours("raw", len(CORES), pack))


def memory_loader(smoke, tell):
    """ratio: DataLoader's peak resident size, all its processes, over ours."""
    workers.need_programs()
    photographs()
    workers.need_torch()
    (variant, count), _ = choose_peer(True, tell)
    values = {}
    for name, start in (("rung", lambda: ours("supply", len(CORES))), ("peer", lambda: peer(variant, count))):
        side = start()
        side.run(10 if smoke else 60)
        values[name] = side.peak() / 1e3
        side.close()
        tell(f"memory_loader: {name} {values[name]:.4g} MB")
    return {"unit": "MB", "ours": f"{len(CORES)} workers", "ours_values": [values["rung"]],
            "peer": f"DataLoader {variant}, {count} workers", "peer_values": [values["peer"]], "others": "",
            "ratios": [values["peer"] / values["rung"]]}
