# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of what 16 bits and recomputation give, and of memory."""
import statistics

import steps
import workers
from rounds import Rounds, spread_text
from workers import Failed, NotAvailable

BF16 = {"cnn_bf16": "cnn", "resnet18_bf16": "resnet18"}
MEMORY = {"memory_cnn": ("cnn", 20), "memory_resnet18": ("resnet18", 8)}  # steps taken
# bf16 that the CPU computes in. Where it has no instructions for that, rung says so and refuses.
COMPUTE = "native"
SHARE = 0.5  # of the arena, with recomputation


def bf16(bench, smoke, tell):
    """ratio: PyTorch's step time under bf16 autocast over ours in bf16."""
    effort, name = steps.Quick(smoke), BF16[bench]
    low = f"train.precision=bf16 train.compute={COMPUTE}"
    tell(f"{bench}: {steps.STEPS[name][2]}, bfloat16")
    workers.need_programs()
    try:
        with workers.ours([*steps.settings(name), *low.split()]):
            pass
    except Failed as error:
        raise NotAvailable(str(error)) from None
    own = {"rung": steps.choose_ours(name, False, effort, tell, low),
           "rung float32": steps.choose_ours(name, False, effort, tell)}
    result = steps.against_peer(bench, name, own, False, effort, tell, "_bf16")
    gain = statistics.median(result["rounds"].ratios("rung float32", "rung"))
    tell(f"{bench}: compare with our own best float32: {gain:.3f} times as fast")
    return {**result, "others": f"own float32 over bf16 {gain:.3f}; {result['others']}"}


def memory(bench, smoke, tell):
    """ratio: PyTorch's peak resident size after some steps over ours."""
    name, count = MEMORY[bench]
    effort = steps.Quick(smoke)
    workers.need_programs()
    model, batch, what, _ = steps.STEPS[name]
    tell(f"{bench}: {what}, peak resident size after {count} steps")
    own = steps.choose_ours(name, False, effort, tell)
    workers.need_torch()

    def peak(start):
        values = []
        for _ in range(1 if smoke else 3):
            with start() as worker:
                worker.run(count)
                values.append(worker.peak() / 1e3)
        return values

    try:
        mine = peak(lambda: workers.ours([*steps.settings(name), *own.split()]))
        tell(f"{bench}: rung    {spread_text(mine, 'MB')}  {own}")
        theirs = {}
        for variant in ("eager", "channels_last"):
            theirs[variant] = peak(lambda v=variant: workers.peer(model, batch, v))
            tell(f"{bench}: PyTorch {spread_text(theirs[variant], 'MB')}  {variant}")
    except Failed as error:
        raise NotAvailable(str(error)) from None
    best = min(theirs, key=lambda v: statistics.median(theirs[v]))
    others = [f"{v}={statistics.median(mb):.5g}" for v, mb in theirs.items() if v != best]
    return {"unit": "MB", "ours": own, "ours_values": mine, "peer": best, "peer_values": theirs[best],
            "others": "; ".join(others), "ratios": [a / b for a, b in zip(theirs[best], mine)]}


def recompute(smoke, tell):
    """ratio: our step time of ResNet-18 with everything kept over that in half the arena."""
    effort, name = steps.Quick(smoke), "resnet18"
    workers.need_programs()
    keep = steps.choose_ours(name, False, effort, tell)
    tell(f"recompute: {steps.STEPS[name][2]}, {SHARE} of the arena; {keep}")
    sides = {}
    try:
        sides["keep"] = workers.ours([*steps.settings(name), *keep.split()])
        sides["keep"].run(1)
        peak, arena, _ = sides["keep"].memory()
        again = f"{keep} memory.recompute=auto memory.budget={peak - arena + int(SHARE * arena)}B"
        sides["again"] = workers.ours([*steps.settings(name), *again.split()])
        sides["again"].run(1)
        smaller = sides["again"].memory()[1]
        rounds = Rounds(sides, steps.BLOCK_SECONDS[name] * effort.scale, effort.count, tell)
    except Failed as error:
        raise NotAvailable(str(error)) from None
    finally:
        for side in sides.values():
            side.close()
    share, ratios = smaller / arena, rounds.ratios("keep", "again")
    tell(f"recompute: {arena / 1e6:.4g} MB, {spread_text(rounds.blocks['keep'])}; with recomputation "
         f"{smaller / 1e6:.4g} MB, {spread_text(rounds.blocks['again'])}: {share:.3f} of the bytes in "
         f"{1 / statistics.median(ratios):.3f} of the time; {rounds.notes()}")
    return {"unit": "ms", "ours": again, "ours_values": rounds.blocks["again"], "peer": keep,
            "peer_values": rounds.blocks["keep"], "ratios": ratios, "rounds": rounds,
            "others": f"arena {smaller} of {arena} bytes, {share:.4f}"}
