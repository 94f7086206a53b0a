# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of several ranks on one machine: one thread each, beside one rank with all threads."""
import json
import os
import statistics
import subprocess
import tempfile

import steps
import workers
from rounds import Rounds, spread_text
from workers import Failed, NotAvailable

RANKS = 2


def of_ranks(chosen, ranks=RANKS):
    return [*chosen, f"train.ranks={ranks}", "device.threads=1", "ddp.overlap=true"]


def chosen_switches():
    return [*steps.settings("cnn"), *steps.our_variants("dlf_cnn")[0].split()]


def measure(sides, effort, seconds, tell):
    """Rounds over some sides; `sides` maps a name to a function that starts it."""
    started = {}
    try:
        for side, start in sides.items():
            started[side] = start()
        return Rounds(started, seconds * effort.scale, effort.count, tell)
    except Failed as error:
        raise NotAvailable(str(error)) from None
    finally:
        for worker in started.values():
            worker.close()


def compare(name, sides, over, under, effort, seconds, tell):
    """The result of rounds over two sides."""
    rounds = measure(sides, effort, seconds, tell)
    for side in sides:
        tell(f"{name}: {side}: {spread_text(rounds.blocks[side])}")
    ratios = rounds.ratios(over, under)
    tell(f"{name}: {rounds.notes()}; ratio {statistics.median(ratios):.4f}")
    return {"unit": "ms", "ours": under, "ours_values": rounds.blocks[under], "peer": over,
            "peer_values": rounds.blocks[over], "ratios": ratios, "rounds": rounds}


def need_cores():
    if len(workers.CORES) < RANKS:
        raise NotAvailable(f"{RANKS} ranks of one thread need {RANKS} cores")


# Each rank adds the gradients of its half, updates it and writes it to both, in one pass.
FUSED = ["ddp.shard_optimizer=true", "ddp.fuse_update=true", "ddp.overlap=false"]


def ddp2_scaling(smoke, tell):
    """ratio: step time of one rank with two threads over that of two ranks with one thread."""
    need_cores()
    workers.need_programs()
    chosen = chosen_switches()
    one, two, replicas = "1 rank, 2 threads", "2 ranks, 1 thread", "2 ranks, 1 thread, all-reduce"
    rounds = measure({
        one: lambda: workers.ours([*chosen, "device.threads=2"]),
        two: lambda: workers.ours([*of_ranks(chosen), *FUSED], bind=False),
        replicas: lambda: workers.ours(of_ranks(chosen), bind=False),
    }, steps.Quick(smoke), 1.5, tell)
    for side, blocks in rounds.blocks.items():
        tell(f"ddp2_scaling: {side}: {spread_text(blocks)}")
    tell(f"ddp2_scaling: {rounds.notes()}; of ranks that each update all weights, ratio "
         f"{statistics.median(rounds.ratios(one, replicas)):.4f}")
    return {"unit": "ms", "ours": two, "ours_values": rounds.blocks[two], "peer": one,
            "peer_values": rounds.blocks[one], "ratios": rounds.ratios(one, two), "rounds": rounds,
            "others": f"{replicas}={statistics.median(rounds.blocks[replicas]):.5g}"}


SMALL, LARGE = 4 << 10, 64 << 20
CALLS = 1000  # of a step of ours on few bytes: a call takes less than a look at the clock is worth


def per_call(result, calls):
    """Times of a call, from those of steps of `calls` calls of ours beside one call of the peer."""
    result["ours_values"] = [ms / calls for ms in result["ours_values"]]
    result["ratios"] = [ratio * calls for ratio in result["ratios"]]
    return result


def beside_gloo(name, kind, size, calls, smoke, tell):
    need_cores()
    workers.need_programs()
    workers.need_torch()
    tell(f"{name}: {size} bytes, {calls} calls a step of ours, one of Gloo's")
    return per_call(compare(name, {
        f"rung, {kind}": lambda: workers.allreduce(kind, size, calls),
        "Gloo, processes": lambda: workers.peer_allreduce(size),
    }, "Gloo, processes", f"rung, {kind}", steps.Quick(smoke), 0.7, tell), calls)


def allreduce_4k(smoke, tell):
    """ratio: time of an all-reduce of 4 KB over Gloo, two processes, over ours, two threads."""
    return beside_gloo("allreduce_4k", "threads", SMALL, CALLS, smoke, tell)


def allreduce_64m(smoke, tell):
    """ratio: the same of 64 MB."""
    return beside_gloo("allreduce_64m", "threads", LARGE, 1, smoke, tell)


def allreduce_4k_processes(smoke, tell):
    """ratio: the same of 4 KB, ours with two processes that share memory."""
    return beside_gloo("allreduce_4k_processes", "processes", SMALL, CALLS, smoke, tell)


def allreduce_64m_processes(smoke, tell):
    """ratio: the same of 64 MB."""
    return beside_gloo("allreduce_64m_processes", "processes", LARGE, 1, smoke, tell)


def allreduce_mpi(smoke, tell):
    """ratio: time of MPI_Allreduce over ours, between processes that exchange by messages of MPI; the
    smallest of three sizes."""
    need_cores()
    workers.need_programs()
    found = {}
    for size, calls in ((SMALL, 100), (4 << 20, 1), (LARGE, 1)):
        found[size] = compare(f"allreduce_mpi of {size} bytes", {
            "rung, by messages": lambda size=size, calls=calls: workers.allreduce("between", size, calls),
            "MPI_Allreduce": lambda size=size, calls=calls: workers.allreduce("library", size, calls),
        }, "MPI_Allreduce", "rung, by messages", steps.Quick(smoke), 0.7, tell)
    return min(found.values(), key=lambda result: statistics.median(result["ratios"]))


def exact(smoke, tell):
    """ratio: step time of the fast mode over that of exact, two threads each."""
    need_cores()
    workers.need_programs()
    chosen = [*chosen_switches(), "device.threads=2"]
    return compare("exact", {
        "fast": lambda: workers.ours(chosen),
        "exact": lambda: workers.ours([*chosen, "exact=true"], bind=False),
    }, "fast", "exact", steps.Quick(smoke), 1.5, tell)


def ddp2(smoke, tell):
    """ratio: step time of PyTorch's DDP over Gloo, two processes of one thread, over ours in the same
    layout."""
    need_cores()
    workers.need_programs()
    workers.need_torch()
    effort = steps.Quick(smoke)
    tell("ddp2: choosing PyTorch's variant")
    times, refused = steps.choose(lambda variant: workers.peer_ddp("dlf_cnn", 64, RANKS, variant),
                                  ["eager", "channels_last"], effort, tell)
    if not times:
        raise NotAvailable(f"PyTorch does not run: {next(iter(refused.values()))}")
    best = min(times, key=times.get)
    peer = f"PyTorch DDP, Gloo, {best}"
    return compare("ddp2", {
        "rung": lambda: workers.ours(of_ranks(chosen_switches()), bind=False),
        peer: lambda: workers.peer_ddp("dlf_cnn", 64, RANKS, best),
    }, peer, "rung", effort, 1.5, tell)


# Two emulated devices of 20 GFLOP/s and a link that takes half as long for the gradients as backward
# (DDP can hide no more than backward: nothing is ready before).
LINKED = ["device.op_rate=20", "ddp.bucket_size=1MiB", "data.batch_size=16"]
LINK = "ddp.link_rate=0.25"


def overlap(smoke, tell):
    """ratio: the longer of computation and communication over the step time, on emulated devices with
    an emulated link."""
    workers.need_programs()
    chosen = [*of_ranks(chosen_switches()), *LINKED]
    serial = [*chosen, LINK, "ddp.overlap=false"]
    rounds = measure({
        "without link": lambda: workers.ours(chosen, bind=False),
        "after backward": lambda: workers.ours(serial, bind=False),
        "during backward": lambda: workers.ours([*chosen, LINK], bind=False),
    }, steps.Quick(smoke), 2.0, tell)
    bound, ratios = [], []
    for alone, after, during in zip(*rounds.blocks.values()):
        bound.append(max(alone, after - alone))
        ratios.append(bound[-1] / during)
    for side, blocks in rounds.blocks.items():
        tell(f"overlap: {side}: {spread_text(blocks)}")
    tell(f"overlap: bound {spread_text(bound)}; {rounds.notes()}")
    return {"unit": "ms", "ours": "during backward", "ours_values": rounds.blocks["during backward"],
            "peer": "max(computation, communication)", "peer_values": bound, "ratios": ratios, "rounds": rounds,
            "others": f"after backward={statistics.median(rounds.blocks['after backward']):.5g}"}


def data_parallel(smoke, tell):
    """ratio: step time of two ranks over that of two devices of one process that share each batch."""
    need_cores()
    workers.need_programs()
    chosen = chosen_switches()
    devices = [*chosen, "device.list=[cpu:0,cpu:1]", "device.threads=2", "train.strategy=data_parallel"]
    return compare("data_parallel", {
        "ranks": lambda: workers.ours(of_ranks(chosen), bind=False),
        "devices": lambda: workers.ours(devices, bind=False),
    }, "ranks", "devices", steps.Quick(smoke), 1.5, tell)


# Four emulated devices of 10 GFLOP/s with the network's layers cut over them, by predicted time.
STAGES = ["train.strategy=pipeline", "train.ranks=4", "device.threads=1", "device.op_rate=10", "data.batch_size=32"]


def pipeline(smoke, tell):
    """ratio: step time of four emulated stages that take the batch as a whole over that with 1F1B and 16
    micro-batches."""
    workers.need_programs()
    chosen = [*chosen_switches(), *STAGES]
    rounds = measure({
        "as a whole": lambda: workers.ours([*chosen, "pipeline.schedule=none"], bind=False),
        **{schedule: lambda schedule=schedule: workers.ours([*chosen, f"pipeline.schedule={schedule}",
                                                             "pipeline.micro_batches=16"], bind=False)
           for schedule in ("gpipe", "1f1b")},
    }, steps.Quick(smoke), 3.0, tell)
    for side, blocks in rounds.blocks.items():
        tell(f"pipeline: {side}: {spread_text(blocks)}")
    tell(f"pipeline: {rounds.notes()}")
    return {"unit": "ms", "ours": "1f1b", "ours_values": rounds.blocks["1f1b"], "peer": "as a whole",
            "peer_values": rounds.blocks["as a whole"], "ratios": rounds.ratios("as a whole", "1f1b"),
            "rounds": rounds, "others": f"gpipe={statistics.median(rounds.blocks['gpipe']):.5g}"}


def of_servers(chosen):
    return [*[x for x in of_ranks(chosen) if x != "ddp.overlap=true"], "train.strategy=parameter_server"]


def ps_sync(smoke, tell):
    """ratio: step time of two ranks that add gradients among themselves (all-reduce) over that of the
    same with parameter servers, in step."""
    need_cores()
    workers.need_programs()
    chosen = chosen_switches()
    return compare("ps_sync", {
        "all-reduce": lambda: workers.ours(of_ranks(chosen), bind=False),
        "parameter server": lambda: workers.ours(of_servers(chosen), bind=False),
    }, "all-reduce", "parameter server", steps.Quick(smoke), 1.5, tell)


# Four emulated devices, one of half the speed: in the time of a step of the slow one the others can
# do two, so that what devices can give is 7 gradients for 4.
UNEQUAL = ["train.ranks=4", "device.threads=1", "device.op_rate=1", "device.slowdown=[1, 1, 1, 2]",
           "train.steps=20", "train.log_every=2", "train.eval_every=never", "checkpoint.every=never"]


def pace(mode, folder):
    """Milliseconds for as many samples as a batch has, while all workers of a run are at work."""
    run = os.path.join(folder, f"{mode}-{len(os.listdir(folder))}")
    end, lines = rung_train("parameter-server.yaml", [*UNEQUAL, f"ps.mode={mode}"], run)
    steps_done = [line for line in lines if line["event"] == "step"]
    first, last = steps_done[1], steps_done[-1]  # of worker 0, a fast one
    per_batch = end["samples"] / end["step"]
    return (last["seconds"] - first["seconds"]) * 1e3 / ((last["samples"] - first["samples"]) / per_batch)


def ps_async(smoke, tell):
    """ratio: time of a batch's gradients with workers in step over that with each at its own pace, when
    one of four is half as fast. At most 1.75, by what the devices can do."""
    workers.need_programs()
    times = {"sync": [], "async": []}
    with tempfile.TemporaryDirectory(prefix="rung-pace-") as folder:
        for i in range(1 if smoke else 5):
            for mode in ("sync", "async") if i % 2 == 0 else ("async", "sync"):
                times[mode].append(pace(mode, folder))
            tell(f"ps_async: round {i + 1}: in step {times['sync'][-1]:.2f} ms a batch, "
                 f"at their own pace {times['async'][-1]:.2f} ms")
    ratios = [a / b for a, b in zip(times["sync"], times["async"])]
    return {"unit": "ms", "ours": "async", "ours_values": times["async"], "peer": "sync", "peer_values": times["sync"],
            "ratios": ratios}


# Four GPUs with a loader and a network, in slow motion.
FOUR = ["exact=true", "device.threads=1", "device.op_rate=1", "train.steps=40", "train.eval_every=never",
        "data.num_workers=1", "ddp.link_delay=200us", "ddp.link_rate=1", "checkpoint.every=never"]


def rung_train(example, settings, run):
    """(last line of metrics.jsonl, all lines) of training an example in the folder `run`."""
    done = subprocess.run([os.path.join(workers.ROOT, "build", "rung"), "train", "--quiet",
                           os.path.join(workers.ROOT, "examples", example), *settings, "--run", run],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=workers.environment(bind=False))
    if done.returncode:
        raise NotAvailable((done.stderr.strip().splitlines() or ["rung train failed"])[-1])
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return lines[-1], lines


def train(ranks, folder):
    """(seconds of training, folder of the run) of examples/ddp.yaml on emulated devices."""
    run = os.path.join(folder, f"ranks-{ranks}-{len(os.listdir(folder))}")
    end, _ = rung_train("ddp.yaml", [*FOUR, f"train.ranks={ranks}"], run)
    return sum(end["ms"].values()) / 1e3 - end["ms"]["checkpoint"] / 1e3, run


def four_devices(smoke, tell):
    """ratio: time of training on one emulated device over that on four, with equal results."""
    times = {1: [], 4: []}
    with tempfile.TemporaryDirectory(prefix="rung-four-") as folder:
        for i in range(1 if smoke else 5):
            runs = {}
            for ranks in (1, 4) if i % 2 == 0 else (4, 1):
                seconds, runs[ranks] = train(ranks, folder)
                times[ranks].append(seconds)
            same = subprocess.run([os.path.join(workers.ROOT, "build", "rung"), "compare", runs[1], runs[4]],
                                  capture_output=True, text=True)
            if same.returncode:
                raise NotAvailable(f"1 and 4 devices give different results: {same.stdout.strip()}")
            tell(f"four_devices: round {i + 1}: 1 device {times[1][-1]:.3f} s, 4 devices {times[4][-1]:.3f} s, "
                 "same bits")
    ratios = [a / b for a, b in zip(times[1], times[4])]
    return {"unit": "s", "ours": "4 devices", "ours_values": times[4], "peer": "1 device", "peer_values": times[1],
            "ratios": ratios}
