"""Everything that a machine with a card should find out, in one record: ``make gpu``.

The self-test; every row of the op table, with two orders of gradients, against the reference
implementation, twice; every layer of the mode matrix; neighbor lists, twice; times of ops beside
their peers; kernels that are compiled at run time beside the general ones. Ends with 1 where
something is wrong, which the record then lists under ``"failures"``.

``--simulate`` goes the same way with tensors of the CPU and simulated kernels, which must be
loaded; times then say nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.gpu_times import measure_ops
from bench.recorder import circumstances, write_json
from equigeo.ops import cuda_status, kernels_info, run_self_test
from tests.gpu.compiled_rows import check_compiled
from tests.gpu.in_processes import check_rows
from tests.gpu.list_rows import check_lists
from tests.ops.run_simulated import say

PARTS = ("ops", "layers", "lists", "times", "compiled")
NO_CARD = "error: PyTorch finds no CUDA card here, or has no CUDA"
AND_NOW = "with EQUIGEO_CUDA_SELF_TEST=0, make gpu goes on and says which rows are wrong"
SKIPPED = os.environ.get("EQUIGEO_CUDA_SELF_TEST") == "0"
NO_KERNELS = "error: no CUDA kernels are loaded; make gpu builds them"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="a file of JSON")
    parser.add_argument("--simulate", action="store_true", help="on the CPU, by simulated kernels")
    parser.add_argument("--select", action="append", default=[], help="parts of names of rows")
    parser.add_argument("--edges", type=int, default=32768, help="size of what is timed")
    parser.add_argument("--rounds", type=int, default=20, help="calls that are timed")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check rows")
    parser.add_argument("--part", action="append", choices=PARTS, help="all by default")
    options = parser.parse_args(arguments)
    if message := missing(options.simulate):
        sys.stderr.write(message + "\n")
        return 1
    device = torch.device("cpu" if options.simulate else "cuda")
    record = gathered(device, options)
    write_json(options.output, record)
    for failure in record["failures"]:
        say(failure)
    say(f"{len(record['failures'])} failures; all of it is in {options.output}")
    return int(bool(record["failures"]))


def missing(simulate: bool) -> str:
    """What this process lacks, or nothing."""
    if not simulate and not torch.cuda.is_available():
        return NO_CARD
    if simulate != (os.environ.get("EQUIGEO_SIMULATE_CUDA") == "1"):
        return "error: --simulate goes with EQUIGEO_SIMULATE_CUDA=1, and only with it"
    return "" if kernels_info()["cuda"] else NO_KERNELS


def gathered(device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """The record; a part that ends with an error is a failure, and the others go on."""
    verdict = None if SKIPPED else run_self_test(device)
    record: dict[str, Any] = {
        "command": " ".join(["python -m tests.gpu.run", *sys.argv[1:]]),
        "circumstances": circumstances() | described(device),
        "self-test": asdict(verdict) if verdict else "skipped",
        "failures": [],
    }
    if verdict and not verdict.has_passed:
        record["failures"] = [f"self-test: {verdict.worst}", AND_NOW]
        return record
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "ops": lambda: check_rows("ops", device, options.select, options.jobs),
        "layers": lambda: check_rows("layers", device, options.select, options.jobs),
        "lists": lambda: check_lists(device),
        "times": lambda: measure_ops(device, options.edges, options.rounds),
        "compiled": lambda: check_compiled(device, options.edges, options.rounds),
    }
    for name, part in parts.items():
        if name not in (options.part or PARTS):
            continue
        start = time.perf_counter()
        try:
            record[name] = part()
        except Exception as error:
            record[name] = {"failures": [f"{type(error).__name__}: {error}"]}
        record["failures"] += [f"{name}: {text}" for text in record[name].pop("failures", [])]
        say(f"{name}: {time.perf_counter() - start:.0f} s")
    return record


def described(device: torch.device) -> dict[str, Any]:
    """What card this is."""
    found: dict[str, Any] = {"status": cuda_status(), "cuda": torch.version.cuda}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found["device"] = {
            "name": properties.name,
            "capability": f"sm_{properties.major}{properties.minor}",
            "memory": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
        }
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
