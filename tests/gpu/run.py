"""Everything that a machine with a card should find out, in one record: ``make gpu``.

The self-test; every row of the op table, with two orders of gradients, against the reference
implementation, twice; every layer of the mode matrix; neighbor lists, twice; times of ops beside
the peers that are installed; kernels that are compiled at run time beside the general ones; models
of other libraries before and after they are accelerated. Ends with 1 where something is wrong,
which the record then lists under ``"failures"``, else with 3 where rows are left.

After ``--minutes`` nothing new is begun, and the same command with ``--resume`` goes on. So does
one in the environment of another library, with ``--part models``.

``--simulate`` goes the same way with tensors of the CPU and simulated kernels, which must be
loaded; times then say nothing.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.gpu_times import PROBLEMS, measure_ops
from bench.recorder import circumstances, write_json
from equigeo.ops import cuda_status, kernels_info, run_self_test
from tests.gpu.compiled_rows import FAMILIES, check_compiled
from tests.gpu.in_processes import check_rows
from tests.gpu.layer_rows import layer_names
from tests.gpu.list_rows import check_lists
from tests.gpu.model_rows import check_models, model_names
from tests.gpu.op_rows import op_names
from tests.ops.run_simulated import say

Check = Callable[[torch.device, argparse.Namespace, list[str]], dict[str, Any]]
NO_CARD = "error: PyTorch finds no CUDA card here, or has no CUDA"
AND_NOW = "with EQUIGEO_CUDA_SELF_TEST=0, make gpu goes on and says which rows are wrong"
SELF_TEST = "self-test: "
SKIPPED = os.environ.get("EQUIGEO_CUDA_SELF_TEST") == "0"
NO_KERNELS = "error: no CUDA kernels are loaded; make gpu builds them"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="a file of JSON")
    parser.add_argument("--simulate", action="store_true", help="on the CPU, by simulated kernels")
    parser.add_argument("--select", action="append", default=[], help="of names of ops and layers")
    parser.add_argument("--edges", type=int, default=32768, help="size of what is timed")
    parser.add_argument("--rounds", type=int, default=20, help="calls that are timed")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check rows")
    parser.add_argument("--part", action="append", choices=PARTS, help="all by default")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of this call")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    until = time.perf_counter() + 60 * options.minutes
    if message := missing(options.simulate):
        sys.stderr.write(message + "\n")
        return 1
    device = torch.device("cpu" if options.simulate else "cuda")
    record = begun(device, options)
    failed = any(text.startswith(SELF_TEST) for text in record["failures"])
    left = 0 if failed else gather(record, device, options, until)
    write_json(options.output, record)
    for failure in [*record["failures"], *([AND_NOW] if failed else [])]:
        say(failure)
    say(f"{len(record['failures'])} failures; all of it is in {options.output}")
    if left:
        say(f"{left} rows are left: the same command with --resume goes on")
    return 1 if record["failures"] else 3 * bool(left)


def missing(simulate: bool) -> str:
    """What this process lacks, or nothing."""
    if not simulate and not torch.cuda.is_available():
        return NO_CARD
    if simulate != (os.environ.get("EQUIGEO_SIMULATE_CUDA") == "1"):
        return "error: --simulate goes with EQUIGEO_SIMULATE_CUDA=1, and only with it"
    return "" if kernels_info()["cuda"] else NO_KERNELS


def begun(device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """A new record, or the one that is continued, with the self-test."""
    here = circumstances() | described(device)
    made: dict[str, Any] = {name: getattr(options, name) for name in ("edges", "rounds")}
    made |= {name: here.get(name) for name in ("code", "device")}
    record: dict[str, Any] = {
        "command": " ".join(["python -m tests.gpu.run", *sys.argv[1:]]),
        "circumstances": here,
        "settings": made,
        "failures": [],
    }
    if options.resume and options.output.exists():
        record = json.loads(options.output.read_text("utf-8"))
        for name, value in made.items():
            if (was := record["settings"][name]) != value:
                raise SystemExit(f"error: {options.output} was made with {name} {was}")
    verdict = None if SKIPPED else run_self_test(device)
    record["self-test"] = asdict(verdict) if verdict else "skipped"
    earlier = [text for text in record["failures"] if not text.startswith(SELF_TEST)]
    wrong = [] if verdict is None or verdict.has_passed else [f"{SELF_TEST}{verdict.worst}"]
    record["failures"] = earlier + wrong
    return record


def gather(
    record: dict[str, Any], device: torch.device, options: argparse.Namespace, until: float
) -> int:
    """Add rows to the record until there are none, or no time, and return how many are left."""
    left = 0
    for name, (names_of, count, check) in PARTS.items():
        if options.part and name not in options.part:
            continue
        start, part = time.perf_counter(), record.setdefault(name, {"done": []})
        names = [row for row in names_of(options) if row not in part["done"]]
        count = max(count, 4 * count * (options.jobs - 1))
        while names and time.perf_counter() < until:
            some, names = names[:count], names[count:]
            try:
                found = check(device, options, some)
            except Exception as error:
                found = {"failures": [f"{some[0]} ...: {type(error).__name__}: {error}"]}
            record["failures"] += [f"{name}: {text}" for text in found.pop("failures", [])]
            part["done"] += some
            merge(part, found)
            write_json(options.output, record)
        left += len(names)
        say(f"{name}: {time.perf_counter() - start:.0f} s, {len(names)} rows left")
    return left


def merge(into: dict[str, Any], found: dict[str, Any]) -> None:
    """Add results of further rows."""
    for name, value in found.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value


def processes(part: str) -> Check:
    return lambda device, given, names: check_rows(part, device, given.select, given.jobs, names)


PARTS: dict[str, tuple[Callable[[argparse.Namespace], list[str]], int, Check]] = {
    "ops": (lambda given: op_names(given.select), 3, processes("ops")),
    "layers": (lambda given: layer_names(given.select), 6, processes("layers")),
    "lists": (lambda given: ["lists"], 1, lambda device, given, names: check_lists(device)),
    "times": (
        lambda given: list(PROBLEMS),
        1,
        lambda device, given, names: measure_ops(device, given.edges, given.rounds, names),
    ),
    "compiled": (
        lambda given: list(FAMILIES),
        1,
        lambda device, given, names: check_compiled(device, given.edges, given.rounds, names),
    ),
    "models": (
        lambda given: model_names(),
        1,
        lambda device, given, names: check_models(device, given.rounds, names),
    ),
}
"""Names of rows, how many of them are checked at once, and what checks them."""


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
