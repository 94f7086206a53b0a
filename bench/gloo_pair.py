# SPDX-License-Identifier: Apache-2.0
"""How PyTorch's sides of the benchmarks of ranks start: this program again for each rank, one thread
and one core each, joined by Gloo."""
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def join(ranks):
    """Starts the other ranks (from rank 0); returns this one's number once all are there."""
    rank = int(os.environ.get("RANK", "0"))
    if rank == 0 and "MASTER_PORT" not in os.environ:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), RANK="0", WORLD_SIZE=str(ranks))
        for other in range(1, ranks):
            subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(other)),
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    dist.init_process_group("gloo")
    return rank


def tell_others(count):
    """Rank 0 says how many steps come next; 0 ends."""
    number = torch.tensor([count])
    dist.broadcast(number, 0)
    return int(number)
