"""Invariant embeddings beside plain PyTorch, in one process.

    python -m bench.mds --output bench/results/mds.json

Every result is compared with PyTorch's before anything is timed. Times are medians of interleaved
rounds, each of as many calls as fit into some milliseconds, as a loop over batches makes them.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.bench_mds import LARGE, MATRICES, PEERS, SHAPES, by_default, clouds, expected
from bench.interleaved import all_rounds, copy_bandwidth, medians
from bench.recorder import Record, output_arguments
from equigeo import mds
from equigeo.ops import kept_result_memory, symmetric_eigen

RATIOS = [
    ("embed", "eager"),
    ("embed", "eager float32"),
    ("embed rms", "eager rms"),
    ("op rms", "eager rms"),
    ("op rms", "eager rms float32"),
]
WANTED = {"forward": 10, "forward and backward": 7}
"""Of ``embed`` against the fastest that PyTorch has, in single precision alone."""


def repeated(call: Callable[[], Any], least: float = 0.02) -> tuple[Callable[[], Any], int]:
    """As many calls as take that many seconds."""
    call()
    start = time.perf_counter()
    call()
    count = ceil(least / (time.perf_counter() - start))

    def run() -> None:
        for _ in range(count):
            call()

    return run, count


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, Any]]:
    """Median microseconds of one call, and those of every round."""
    runs, counts = {}, {}
    for name, call in calls.items():
        runs[name], counts[name] = repeated(call)
    rows = {
        name: [1e6 * t / counts[name] for t in values]
        for name, values in all_rounds(runs, rounds).items()
    }
    return {"microseconds": medians(rows), "microseconds of rounds": rows}


def page_faults(call: Callable[[], Any], count: int = 5) -> float:
    """Pages that the system maps during one call."""
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count


def forward(peer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Any]:
    def call() -> Tensor:
        with torch.no_grad():
            return peer(x)

    return call


def both(peer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Any]:
    direction = torch.linspace(-1, 1, x.numel()).view_as(x)

    def call() -> Any:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(peer(leaf), leaf, direction)

    return call


def measure_clouds(shape: tuple[int, int], kind: str, rounds: int) -> dict[str, Any]:
    x = clouds(*shape)
    for name, peer in PEERS.items():
        torch.testing.assert_close(peer(x), expected(name, x), rtol=1e-4, atol=1e-3)
    made = both if kind == "forward and backward" else forward
    calls = {name: made(peer, x) for name, peer in PEERS.items()}
    found = timed(calls, rounds)
    microseconds = found["microseconds"]
    return {
        "problem": f"{shape[0]}x{shape[1]}",
        "kind": kind,
        **found,
        "page faults": {name: page_faults(call) for name, call in calls.items()},
        "times as fast": {
            f"{ours} against {theirs}": round(microseconds[theirs] / microseconds[ours], 2)
            for ours, theirs in RATIOS
        },
        "wanted of embed against eager float32": WANTED[kind],
    }


def measure_eigen(dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(MATRICES, 3, 3, dtype=dtype, generator=generator)
    matrix = matrix + matrix.mT
    values, vectors = symmetric_eigen(matrix)
    residual = matrix @ vectors - vectors * values[:, None]
    size = values.abs().amax(-1)[:, None, None]
    calls = {
        "ours": lambda: symmetric_eigen(matrix),
        "torch.linalg.eigh": lambda: torch.linalg.eigh(matrix),
    }
    found = timed(calls, rounds)
    microseconds = found["microseconds"]
    return {
        "problem": f"{MATRICES} symmetric 3 x 3 matrices of {dtype}",
        **found,
        "times as fast": round(microseconds["torch.linalg.eigh"] / microseconds["ours"], 2),
        "residual relative to the largest eigenvalue": float((residual / size).abs().max()),
        "wanted": 5,
    }


def measure_large(dtype: torch.dtype, threads: int, rounds: int) -> dict[str, Any]:
    """One cloud; memory is that beyond the points, the result included."""
    torch.set_num_threads(threads)
    x = clouds(1, LARGE)[0].to(dtype)
    small = x[:1000].clone()
    with torch.no_grad():
        by_default(small)
        before, start = kept_result_memory(), _resident()
        result = mds.embed(x)
        grown = _resident() - start + before - kept_result_memory()
        del result
        found = timed({"embed": forward(by_default, x)}, rounds)
    torch.set_num_threads(1)
    return {
        "problem": f"one cloud of {LARGE} points of {dtype}",
        "threads": threads,
        "milliseconds": found["microseconds"]["embed"] / 1e3,
        "microseconds of rounds": found["microseconds of rounds"]["embed"],
        "memory relative to the points": round(grown / (x.numel() * x.element_size()), 3),
        "wanted milliseconds": 50,
        "wanted memory": 1.2,
    }


def _resident() -> int:
    """Bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows = []
    # Before anything else has taken and freed memory.
    for dtype in (torch.float32, torch.float64):
        for threads in (1, 2):
            rows.append(measure_large(dtype, threads, arguments.rounds))
            print(json.dumps(rows[-1]), flush=True)
    for kind in ("forward", "forward and backward"):
        for shape in SHAPES:
            rows.append(measure_clouds(shape, kind, arguments.rounds))
            print(json.dumps(rows[-1]), flush=True)
    for dtype in (torch.float32, torch.float64):
        rows.append(measure_eigen(dtype, arguments.rounds))
        print(json.dumps(rows[-1]), flush=True)
    results = {
        "threads": "1 unless a row says otherwise",
        "copy bandwidth, GB/s": copy_bandwidth() / 1e9,
        "rows": rows,
    }
    record.write(results)


if __name__ == "__main__":
    main()
