"""Runs the op table through the CUDA sources, on the CPU: ``make test-cuda``.

``record FILE`` calls every row on every problem, with first and second gradients, on whatever
kernels are loaded, and keeps the results; ``check FILE`` holds them against a record. ``all
FOLDER`` records with the kernels of the CPU and then with the simulated ones, in a process for each
order of threads and each kind of checks; their results must be those of the CPU within the
tolerance of the op table, and the same bits in every order.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops import kernels_info
from equigeo.testing import tolerance
from tests.ops.op_table import OPS, Op
from tests.ops.problems import PROBLEMS, SMALL, Problem
from tests.ops.test_ops import DTYPES, arguments, derivatives, same_bits

Record = dict[str, list[Tensor]]
Case = tuple[str, Op, Problem, torch.dtype]
ORDERS = ("forward", "reversed", "1")  # the last one is the seed of a random order
CHECKS = ("address", "thread")
# Races are found from a run in any order: the other orders look for them on a few problems alone.
REDUCED = ("| small |", "| odd sizes |", "| one hub |", "| no edges |")


def cases(select: Sequence[str] = ()) -> Iterator[Case]:
    """Rows of the op table with every problem and dtype.

    Of those whose name has one of the parts; what an ampersand joins must all be in the name.
    """
    for op in OPS:
        stored = [torch.bfloat16] if op.name.startswith("channelwise") else []
        for problem, dtype in itertools.product((SMALL, *PROBLEMS), (*DTYPES, *stored)):
            name = f"{op} | {problem} | {dtype}"
            if not select or any(all(p in name for p in s.split("&")) for s in select):
                yield name, op, problem, dtype


def results(op: Op, problem: Problem, dtype: torch.dtype) -> list[Tensor]:
    """Values of a row and two orders of derivatives; of bfloat16 the values alone."""
    if dtype == torch.bfloat16:
        features, rest = arguments(op, problem, torch.float32)
        found = [op.call(*(x.bfloat16() for x in features), *rest)]
    else:
        features, rest = arguments(op, problem, dtype)
        found = derivatives(op.call, features, rest)
    groups = [x if isinstance(x, tuple) else (x,) for x in found]
    return [x.detach() for group in groups for x in group]


def record(select: Sequence[str] = ()) -> Record:
    """Results of cases, by their names."""
    return {name: results(op, problem, dtype) for name, op, problem, dtype in cases(select)}


def compare(cpu: Record, simulated: list[Record], select: Sequence[str] = ()) -> int:
    """Hold simulated results against the CPU's and one another; returns how many there are.

    Raises
    ------
    AssertionError
        If results differ, naming the case.
    """
    count = 0
    for name, op, problem, dtype in cases(select):
        bits = same_bits(op, torch.float32 if dtype == torch.bfloat16 else dtype)
        first, *others = simulated
        for k, want in enumerate(cpu[name]):
            assert_near(name, first[name][k], want, max(problem.terms, op.terms))
            for other in (record for record in others if name in record):
                text = f"{name}, result {k}, in another order: "
                assert_close(
                    other[name][k], first[name][k], **bits, equal_nan=True, msg=text.__add__
                )
            count += 1
    return count


def assert_near(name: str, got: Tensor, want: Tensor, terms: int) -> None:
    """Two results of the same dtype, scaled to order one as the tolerance supposes."""
    scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
    if want.dtype == torch.bfloat16:  # one rounding at the end, and of float32 before it
        bound = {"rtol": torch.finfo(torch.bfloat16).eps, "atol": 2e-5}
    else:
        bound = tolerance(want.dtype, terms)
    assert_close(got.double() / scale, want.double() / scale, **bound, msg=f"{name}: ".__add__)


def environment(folder: Path, checks: str, order: str) -> dict[str, str]:
    """Variables under which simulated kernels are loaded; the address sanitizer comes first."""
    found = {
        "EQUIGEO_SIMULATE_CUDA": "1",
        "EQUIGEO_SIMULATE_ORDER": order,
        "EQUIGEO_KERNELS": str((folder / checks).absolute()),
    }
    if checks == "address":
        command = ["g++", "-print-file-name=libasan.so", "-print-file-name=libstdc++.so"]
        libraries = [subprocess.check_output([command[0], c], text=True) for c in command[1:]]
        found["LD_PRELOAD"] = " ".join(x.strip() for x in libraries)
        # Python itself leaks.
        found |= {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return found


def check(cpu: Record, select: Sequence[str] = ()) -> int:
    """Hold the kernels that are loaded against a record, one case after another.

    Returns
    -------
    int
        How many cases there are.

    Raises
    ------
    AssertionError
        If results differ, naming the case; what kernels raise is raised.
    """
    count = 0
    for name, op, problem, dtype in cases(select):
        for got, want in zip(results(op, problem, dtype), cpu[name], strict=True):
            assert_near(name, got, want, max(problem.terms, op.terms))
        count += 1
    return count


def record_elsewhere(file: Path, select: Sequence[str], variables: dict[str, str]) -> None:
    """Record in a process of its own, whatever is loaded here."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EQUIGEO_SIMULATE")}
    module = [sys.executable, "-m", "tests.ops.run_simulated"]
    start = time.perf_counter()
    subprocess.run(
        [*module, "record", file, *(f"--select={part}" for part in select)],
        env={**clean, "OMP_NUM_THREADS": "1", **variables},
        check=True,
    )
    say(f"{file.stem}: {time.perf_counter() - start:.0f} s")


def record_all(folder: Path, select: Sequence[str], jobs: int) -> list[Path]:
    """Files with the results of the CPU's kernels and of all simulated runs."""
    runs = [(folder / "cpu.pt", select, {"EQUIGEO_REQUIRE_KERNELS": "1"})]
    for checks, order in itertools.product(CHECKS, ORDERS):
        reduced = checks == "thread" and order != ORDERS[0]
        parts = [f"{s}&{r}" for s in select or [""] for r in REDUCED] if reduced else select
        file = folder / f"{checks}-{order}.pt"
        runs.append((file, parts, environment(folder, checks, order)))
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(record_elsewhere, *run) for run in runs]:
            done.result()
    return [file for file, *_ in runs]


def say(line: str) -> None:
    """Write a line at once, also where many processes write."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["record", "check", "all"])
    parser.add_argument("path", type=Path, help="a file, or the folder of the simulated kernels")
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        help="cases whose name has this part, or all of a&b",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args(arguments)
    if options.command == "record":
        torch.save(found := record(options.select), options.path)
        say(f"{len(found)} cases on {kernels_info()['cuda'] or kernels_info()['cpu']}")
        return
    if options.command == "check":
        say(f"{check(torch.load(options.path, weights_only=True), options.select)} cases")
        return
    files = record_all(options.path, options.select, options.jobs)
    cpu, *simulated = (torch.load(file, weights_only=True) for file in files)
    count = compare(cpu, simulated, options.select)
    say(
        f"{count} results of {len(cpu)} cases are those of the CPU within tolerance, "
        f"and bit for bit the same in {len(simulated)} runs of simulated kernels"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
