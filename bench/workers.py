# SPDX-License-Identifier: Apache-2.0
"""The measured programs: persistent processes that sleep until they are asked for some steps."""
import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PROGRAMS = os.path.join(ROOT, "build", "bench")
TORCH = os.path.join(ROOT, ".venv", "torch", "bin", "python")
CORES = sorted(os.sched_getaffinity(0))

running = set()


class Failed(Exception):
    """A worker could not be started, failed or did not answer in time; the text says why."""


class NotAvailable(Exception):
    """A benchmark cannot run here; the text says why."""


def environment(avx2=False, peer=False, tuning=(), bind=True):
    """The variables of a worker: both sides get all allowed cores, each OpenMP thread bound to one
    (what has threads of other kinds must not be bound: they would all share the first core)."""
    env = dict(os.environ, OMP_NUM_THREADS=str(len(CORES)),
               XDG_CACHE_HOME=os.path.join(PROGRAMS, "cache"),  # of measured kernels
               TORCHINDUCTOR_CACHE_DIR=os.path.join(PROGRAMS, "inductor"))
    if bind:
        env.update(OMP_PROC_BIND="close", OMP_PLACES="cores")
    if avx2:
        env.update(ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2")
        env.update({"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"} if peer
                   else {"OPENBLAS_CORETYPE": "Haswell"})
    if "keep" in tuning:  # glibc keeps freed memory instead of returning and faulting it in again
        env.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_TOP_PAD_=str(64 << 20))
    if "thp" in tuning:  # PyTorch asks for huge pages
        env.update(THP_MEM_ALLOC_ENABLE="1")
    return env


class Worker:
    """One process that obeys the line protocol of bench/step.c."""

    def __init__(self, name, command, env, start_limit=120.0):
        self.name, self.text = name, b""
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.errors, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
        running.add(self)
        ready = self.line(start_limit)
        if not ready.startswith("ready"):
            self.fail(f"said {ready!r} instead of ready")
        self.about = ready[len("ready"):].strip()

    def fail(self, reason):
        self.close()
        raise Failed(reason)

    def last_error(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("step: ") if lines else f"ended with status {self.process.returncode}"

    def line(self, limit):
        """The next line that the process prints."""
        out, until = self.process.stdout.fileno(), time.monotonic() + limit
        while b"\n" not in self.text:
            left = until - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                self.fail(f"gave no answer within {limit:.0f} s")
            piece = os.read(out, 1 << 16)
            if not piece:
                self.process.wait()
                self.fail(self.last_error())
            self.text += piece
        line, self.text = self.text.split(b"\n", 1)
        return line.decode()

    def ask(self, command, limit):
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.process.wait()
            self.fail(self.last_error())
        return self.line(limit)

    def run(self, steps, limit=600.0):
        """Times of that many steps, in milliseconds."""
        return [float(word) for word in self.ask(f"run {steps}", limit).split()]

    def peak(self):
        """Highest resident size, in kB."""
        return int(self.ask("rss", 10.0))

    def memory(self):
        """Of ours: what the device held at most, the arena, its largest live set, in bytes."""
        return [int(word) for word in self.ask("memory", 10.0).split()]

    def close(self):
        if self not in running:
            return
        running.discard(self)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # compilers of torch.compile included
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def close_all():
    for worker in list(running):
        worker.close()


atexit.register(close_all)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def ours(settings, avx2=False, timeline_off=False, bind=True):
    command = [os.path.join(PROGRAMS, "step"), *(["--timeline-off"] if timeline_off else []), *settings,
               *(["device.isa=avx2"] if avx2 else [])]
    return Worker("rung", command, environment(avx2, bind=bind))


def peer(model, batch, variant, avx2=False):
    """`variant` is one of peer.py's, then what is tuned around it: "channels_last+keep+thp"."""
    kind, *tuning = variant.split("+")
    # Compilation of a training step takes up to a minute and a half on two cores.
    limit = 300.0 if kind.startswith("compile") else 120.0
    return Worker("PyTorch", [TORCH, os.path.join(HERE, "peer.py"), model, str(batch), kind],
                  environment(avx2, True, tuning), limit)


def peer_ddp(model, batch, ranks, variant):
    env = environment(peer=True, bind=False)
    env.update(OMP_NUM_THREADS="1")
    return Worker("PyTorch", [TORCH, os.path.join(HERE, "peer_ddp.py"), model, str(batch), str(ranks), variant],
                  env, 120.0)


def allreduce(kind, size, calls):
    """Ours, two ranks: "threads", "processes", "between" (by messages of MPI), or MPI's own, "library".
    A step is `calls` calls."""
    command = [os.path.join(PROGRAMS, "allreduce"), kind, str(size), str(calls)]
    if kind != "threads":
        if not shutil.which("mpirun"):
            raise Failed("there is no mpirun")
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", "2", *command]
    return Worker("rung", command, environment(bind=False))


def peer_allreduce(size):
    return Worker("PyTorch", [TORCH, os.path.join(HERE, "peer_allreduce.py"), str(size)],
                  dict(environment(peer=True, bind=False), OMP_NUM_THREADS="1"), 120.0)


def need_torch():
    """Makes PyTorch's environment when it is missing."""
    done = subprocess.run([os.path.join(ROOT, "tools", "torch_venv")], stdin=subprocess.DEVNULL)
    if done.returncode:
        raise NotAvailable("PyTorch could not be installed (tools/torch_venv)")


def need_programs():
    if not os.path.exists(os.path.join(PROGRAMS, "step")):
        raise NotAvailable("build/bench/step is missing: run make bench")
