# SPDX-License-Identifier: Apache-2.0
"""Results as lines of bench/results/NAME.csv."""
import csv
import datetime
import glob
import os
import platform
import re
import statistics
import subprocess

import workers
from rounds import quartiles, state

RESULTS = os.path.join(workers.HERE, "results")
COLUMNS = ["commit", "date", "cpu", "cores", "round_trip_ns", "round_trip", "rounds", "mixed_rounds", "versions",
           "unit", "ours", "ours_median", "ours_q1", "ours_q3", "peer", "peer_median", "peer_q1", "peer_q3",
           "other_variants", "ratio", "ratio_q1", "ratio_q3"]


def ratio(result):
    return statistics.median(result["ratios"])


def commit():
    """The commit, with a mark when what is measured differs from it."""
    def git(*arguments):
        return subprocess.run(["git", "-C", workers.ROOT, *arguments], capture_output=True, text=True).stdout

    name = git("rev-parse", "--short=12", "HEAD").strip() or "unknown"
    return name + ("-dirty" if git("status", "--porcelain", "-uno", "--", ".", ":!bench/results").strip() else "")


def cpu():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        text = file.read()
    model = re.search(r"model name\s*: (.*)", text)
    numbers = [re.search(rf"^{key}\s*: (\d+)", text, re.M) for key in ("cpu family", "model")]
    name = model[1].strip() if model else platform.machine()
    if all(numbers):  # virtual machines tell the maker only
        name += f" (family {numbers[0][1]} model {numbers[1][1]})"
    return name + (", AVX-512" if " avx512f " in text else ", AVX2" if " avx2 " in text else "")


def versions():
    """Of what either side computes with."""
    def library(name):
        paths = glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/usr/lib/*/*/{name}")
        found = [re.search(r"(?:\.so\.|-r)([\d.]*\d)", os.path.basename(os.path.realpath(path))) for path in paths]
        return next((match[1] for match in found if match), "unknown")

    torch = glob.glob(os.path.join(workers.ROOT, ".venv/torch/lib/python3*/site-packages/torch-*.dist-info"))
    peer = re.search(r"torch-([\w.+]+)\.dist-info", torch[0])[1] if torch else "none"
    return f"oneDNN {library('libdnnl.so')} OpenBLAS {library('libopenblas.so')} torch {peer}"


def append(name, result):
    """Adds a line; returns the file's path."""
    rounds = result.get("rounds")
    trips = rounds.round_trips if rounds else result.get("trips", [])
    trip = statistics.median(trips) if trips else None
    row = {"commit": commit(), "date": datetime.date.today().isoformat(), "cpu": cpu(),
           "cores": len(workers.CORES), "round_trip_ns": "" if trip is None else f"{trip:.0f}",
           "round_trip": "" if trip is None else state(trip), "rounds": len(result["ours_values"]),
           "mixed_rounds": rounds.mixed if rounds else 0, "versions": versions(), "unit": result["unit"],
           "ours": result["ours"], "peer": result["peer"], "other_variants": result.get("others", ""),
           "ratio": f"{ratio(result):.4g}"}
    for key, values in (("ours", result["ours_values"]), ("peer", result["peer_values"])):
        low, middle, high = quartiles(values)
        row |= {f"{key}_median": f"{middle:.5g}", f"{key}_q1": f"{low:.5g}", f"{key}_q3": f"{high:.5g}"}
    low, _, high = quartiles(result["ratios"])
    row |= {"ratio_q1": f"{low:.4g}", "ratio_q3": f"{high:.4g}"}
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, name + ".csv")
    new = not os.path.exists(path)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
    return path
