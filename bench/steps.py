# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of whole training steps: forward, backward, optimizer, the loss read."""
import statistics

import workers
from rounds import Rounds, quartiles, quick, spread_text
from workers import Failed, NotAvailable

# name: model, batch, what it is, settings of ours (peer.py has its own: lr 0.01, the same momentum)
SGD = ["optim.name=sgd", "optim.lr=0.01"]
STEPS = {
    "cnn": ("dlf_cnn", 64, "DLF CNN, 3x32x32, batch 64, SGD with momentum 0.9, dropout on",
            [*SGD, "optim.momentum=0.9"]),
    "resnet18": ("resnet18", 16, "ResNet-18, 3x224x224, batch 16, SGD with momentum 0.9",
                 [*SGD, "optim.momentum=0.9", "data.synthetic.shape=[3, 224, 224]",
                  "data.synthetic.classes=1000"]),
    "mlp_b64": ("mlp", 64, "MLP 784-512-10, batch 64, plain SGD", [*SGD, "data.synthetic.shape=[1, 28, 28]"]),
    "mlp_b1": ("mlp", 1, "MLP 784-512-10, batch 1, plain SGD", [*SGD, "data.synthetic.shape=[1, 28, 28]"]),
}
BLOCK_SECONDS = {"resnet18": 4.0}  # of each block of a round; else 1.5
NEAR_BEST = 1.07                   # variants of the peer so near to its best one stay in the running
SECOND_BEST = 1.5                  # and so near that they are tuned too


class Quick:
    """How long and how often is measured."""

    def __init__(self, smoke):
        self.count = 2 if smoke else 12
        self.scale = 0.2 if smoke else 1.0


def settings(name):
    model, batch, _, own = STEPS[name]
    return [f"model.name={model}", "data.source=synthetic", f"data.synthetic.count={batch}",
            f"data.batch_size={batch}", *own]


def choose(start, variants, effort, tell):
    """Step times in milliseconds of those variants that run, and why the others do not."""
    times, refused = {}, {}
    for variant in variants:
        try:
            with start(variant) as worker:
                times[variant] = quick(worker, 0.7 * effort.scale)
                tell(f"  {worker.name} {variant}: {times[variant]:.4g} ms"
                     + (f" ({worker.about})" if worker.about else ""))
        except Failed as error:
            refused[variant] = str(error)
            tell(f"  {variant}: skipped: {error}")
    return times, refused


def our_variants(model):
    if model == "mlp":
        return ["plan.fuse=true plan.kernels=own", "plan.fuse=true plan.kernels=own plan.fuse_optimizer=true",
                "plan.fuse=true plan.kernels=library"]
    return ["plan.layout=channels_last plan.fuse=true plan.kernels=own plan.winograd=true",
            *(f"plan.layout={layout} plan.fuse=true plan.kernels={kernels}"
              for layout, kernels in (("channels_last", "own"), ("blocked", "own"), ("plain", "own"),
                                      ("channels_last", "library")))]


def choose_ours(name, avx2, effort, tell, also=""):
    """The fastest set of switches, all of them with `also`."""
    def start(variant):
        return workers.ours([*settings(name), *variant.split(), *also.split()], avx2)

    tell(f"{name}: choosing our switches" + (f" with {also}" if also else ""))
    times, refused = choose(start, our_variants(STEPS[name][0]), effort, tell)
    if not times:
        raise NotAvailable(next(iter(refused.values())))
    best = min(times, key=times.get)
    tuned, _ = choose(start, [f"{best} memory.huge_pages=true", f"{best} plan.autotune=true",
                              f"{best} memory.huge_pages=true plan.autotune=true"], effort, tell)
    times.update(tuned)
    return " ".join([min(times, key=times.get), *also.split()])


def choose_peer(name, avx2, effort, tell, kind=""):
    """The fastest variants of PyTorch (one, or two that are close), the quick times of all, and how
    each failed that did. `kind` goes behind their names."""
    model, batch = STEPS[name][:2]

    def start(variant):
        return workers.peer(model, batch, variant, avx2)

    tell(f"{name}: choosing PyTorch's variant")
    kinds = ["eager", "compile"] if model == "mlp" else ["eager", "channels_last", "compile",
                                                         "compile_channels_last"]
    times, refused = choose(start, [k + kind for k in kinds], effort, tell)
    if not times:
        raise NotAvailable(f"PyTorch does not run: {next(iter(refused.values()))}")
    # A look may have been disturbed: the second best has its chance too.
    best = [kind for kind in sorted(times, key=times.get)[:2] if times[kind] <= SECOND_BEST * min(times.values())]
    tuned, _ = choose(start, [kind + tuning for kind in best for tuning in ("+keep", "+thp", "+keep+thp")], effort, tell)
    times.update(tuned)
    ranked = sorted(times, key=times.get)
    return [v for v in ranked[:2] if times[v] <= NEAR_BEST * times[ranked[0]]], times, refused


def against_peer(bench, name, own, avx2, effort, tell, kind=""):
    """Rounds of ours, whose settings `own` has by side, "rung" first, and PyTorch's best."""
    model, batch = STEPS[name][:2]
    workers.need_torch()
    peers, quick_times, refused = choose_peer(name, avx2, effort, tell, kind)
    tell(f"{bench}: rung {' and '.join(own.values())} beside PyTorch {' and '.join(peers)}")
    sides = {}
    try:
        for side, chosen in own.items():
            sides[side] = workers.ours([*settings(name), *chosen.split()], avx2)
        for variant in peers:
            sides[variant] = workers.peer(model, batch, variant, avx2)
        rounds = Rounds(sides, BLOCK_SECONDS.get(name, 1.5) * effort.scale, effort.count, tell)
        about = {variant: sides[variant].about for variant in peers}
    except Failed as error:
        raise NotAvailable(str(error)) from None
    finally:
        for side in sides.values():
            side.close()
    best = min(peers, key=lambda variant: statistics.median(rounds.blocks[variant]))
    for side, chosen in own.items():
        tell(f"{bench}: {side:<7} {spread_text(rounds.blocks[side])}  {chosen}")
    for variant in peers:
        tell(f"{bench}: PyTorch {spread_text(rounds.blocks[variant])}  {variant}, {about[variant]}")
    tell(f"{bench}: {rounds.notes()}")
    others = [f"{v}={'/'.join(f'{q:.5g}' for q in quartiles(rounds.blocks[v]))}"
              for v in (*own, *peers) if v not in ("rung", best)]
    others += [f"{v}~{ms:.5g}" for v, ms in quick_times.items() if v not in peers]
    others += [f"{v} skipped: {why}" for v, why in refused.items()]
    return {"unit": "ms", "ours": own["rung"], "ours_values": rounds.blocks["rung"],
            "peer": f"{best}, {about[best]}", "peer_values": rounds.blocks[best],
            "others": "; ".join(others), "ratios": rounds.ratios(best, "rung"), "rounds": rounds}


def step_bench(name, avx2, smoke, tell):
    """ratio: PyTorch's step time over ours."""
    effort = Quick(smoke)
    tell(f"{name}: {STEPS[name][2]}")
    workers.need_programs()
    own = choose_ours(name, avx2, effort, tell)
    return against_peer(name, name, {"rung": own}, avx2, effort, tell)


def attribution(smoke, tell):
    """ratio: step time without the timeline over step time with it, the smaller of two workloads."""
    effort = Quick(smoke)
    workers.need_programs()
    found = {}
    for name in ("mlp_b64", "cnn"):
        model = STEPS[name][0]
        chosen = [*settings(name), *our_variants(model)[0].split()]
        sides = {}
        try:
            sides["with"] = workers.ours(chosen)
            sides["without"] = workers.ours(chosen, timeline_off=True)
            rounds = Rounds(sides, (0.7 if name == "mlp_b64" else 3.0) * effort.scale, 2 * effort.count, tell)
        except Failed as error:
            tell(f"attribution: {name}: {error}")
            continue
        finally:
            for side in sides.values():
                side.close()
        ratio = statistics.median(rounds.ratios("without", "with"))
        tell(f"attribution: {name}: with {spread_text(rounds.blocks['with'])}, without "
             f"{spread_text(rounds.blocks['without'])}, ratio {ratio:.4f}; {rounds.notes()}")
        found[name] = ({"unit": "ms", "ours": f"{name} with timeline", "ours_values": rounds.blocks["with"],
                        "peer": f"{name} without", "peer_values": rounds.blocks["without"],
                        "ratios": rounds.ratios("without", "with"), "rounds": rounds})
    if not found:
        raise NotAvailable("no workload runs")
    worst = min(found, key=lambda name: statistics.median(found[name]["ratios"]))
    others = [f"{name} {statistics.median(r['ratios']):.4f}" for name, r in found.items() if name != worst]
    return {**found[worst], "others": "; ".join(others)}
