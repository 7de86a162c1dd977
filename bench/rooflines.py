"""Kernels on the CPU beside the bandwidth and the arithmetic of the machine, by threads.

    python -m bench.rooflines --output bench/results/rooflines_avx512.json
    EQUIGEO_ISA=avx2 python -m bench.rooflines --output bench/results/rooflines_avx2.json

Every op is called as layers call it (:mod:`bench.op_calls`), in graphs of several sizes, by one
thread and by all that are asked for. Its bound is the time in which the machine copies as many
bytes as the arguments and results have, or does as many multiply-adds as the formulas of
:mod:`bench.arithmetic` count, whichever is longer. Bandwidth is that of a copy beyond the caches,
arithmetic that of a large matrix product by the same instruction set; both with all threads. What
is smaller than the caches can be moved faster than that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from timeit import Timer
from typing import Any

import torch
from torch import Tensor

from bench.arithmetic import compulsory_bytes, multiply_accumulates
from bench.interleaved import all_rounds, copy_bandwidth
from bench.op_calls import CASES, ON_THE_CPU, Size, all_calls
from bench.recorder import Record, parsed
from equigeo.ops import kernels_info

# What restricts the matrix products of PyTorch to the same instructions.
PRODUCTS = {"avx512": "AVX512", "avx2": "AVX2", "baseline": "SSE4_2"}
BANDWIDTH, ARITHMETIC = "copy bandwidth, GB/s", "multiply-adds, G/s"
IN_A_ROW = 2e-4  # seconds of calls that the clock is read around


def arithmetic_rate(threads: int) -> float:
    """Multiply-adds per second of a large product of float32 matrices, in a process of its own."""
    variables = {"MKL_ENABLE_INSTRUCTIONS": PRODUCTS[kernels_info()["isa"]]}
    command = [sys.executable, "-m", "bench.rooflines", "--product", "--threads", str(threads)]
    done = subprocess.run(
        command, env={**os.environ, **variables}, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def product_rate(threads: int, size: int = 3072) -> float:
    """The same in this process."""
    torch.set_num_threads(threads)
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty_like(a)
    found = all_rounds({"product": lambda: torch.mm(a, b, out=out)}, rounds=5)
    return size**3 / median(found["product"])


def machine_bounds(threads: int) -> dict[str, float]:
    """Bandwidth and arithmetic with so many threads."""
    torch.set_num_threads(threads)
    return {BANDWIDTH: copy_bandwidth() / 1e9, ARITHMETIC: arithmetic_rate(threads) / 1e9}


def seconds_by_threads(
    call: Callable[[], Any], numbers: list[int], rounds: int
) -> dict[int, list[float]]:
    """Seconds of a call by numbers of threads, taken in turn."""
    timer = Timer(call)
    repeat = 1 + int(IN_A_ROW / timer.timeit(1))
    seconds: dict[int, list[float]] = {threads: [] for threads in numbers}
    for _ in range(rounds):
        for threads in numbers:
            torch.set_num_threads(threads)
            call()  # with the threads awake
            seconds[threads].append(timer.timeit(repeat) / repeat)
    return seconds


def rows(sizes: list[Size], numbers: list[int], rounds: int) -> Iterator[dict[str, Any]]:
    """Bytes, multiply-adds and seconds of every op, layout and size."""
    for size in sizes:
        for name, (op, arguments, results) in all_calls(size, {**CASES, **ON_THE_CPU}).items():
            given = {n: x.detach() if isinstance(x, Tensor) else x for n, x in arguments.items()}
            call = partial(getattr(torch.ops.equigeo, op), **given)
            yield {
                "op": name,
                "edges": size.edges,
                "bytes": compulsory_bytes(arguments, results),
                "multiply-adds": multiply_accumulates(op, arguments),
                "seconds": seconds_by_threads(call, numbers, rounds),
            }


def summarized(row: dict[str, Any], machine: dict[str, float]) -> dict[str, Any]:
    """How near to the bound an op is with all threads, and what the threads are worth."""
    middle = {threads: median(values) for threads, values in row["seconds"].items()}
    fewest, most = min(middle), max(middle)
    bounds = {
        "bandwidth": row["bytes"] / (1e9 * machine[BANDWIDTH]),
        "arithmetic": row["multiply-adds"] / (1e9 * machine[ARITHMETIC]),
    }
    by = max(bounds, key=lambda name: bounds[name])
    return {
        "microseconds": {threads: 1e6 * value for threads, value in middle.items()},
        "bound by": by,
        **{f"share of {name}": bound / middle[most] for name, bound in bounds.items()},
        "threads against one": middle[fewest] / middle[most],
        "efficiency": middle[fewest] * fewest / (middle[most] * most),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[8, 64, 512, 4096])
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--product", action="store_true", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.product:
        print(product_rate(given.threads))
        return
    record = Record(given.output)
    numbers = sorted({1, given.threads})
    machine = {threads: machine_bounds(threads) for threads in numbers}
    sizes = [Size(edges, max(1, edges // 8), 4 * edges) for edges in given.edges]
    found = []
    for row in rows(sizes, numbers, given.rounds):
        found.append({**row, **summarized(row, machine[given.threads])})
        kept = {name: value for name, value in found[-1].items() if name != "seconds"}
        print(json.dumps(kept), flush=True)
    record.write({"threads": given.threads, "machine": machine, "rows": found})


if __name__ == "__main__":
    main()
