"""Searches in point clouds, our own beside those through torch-cluster, in one process.

    python -m bench.points --output bench/results/points.json

Run it with the Python that ``make test-cluster`` sets up. Results of both sides are compared before
anything is timed. Times are of interleaved rounds, all of which are kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from bench.bench_points import NEIGHBORS, SEARCHES, SHAPES, calls, clouds, fits
from bench.recorder import Record, output_arguments
from equigeo.points import neighbor_backend


def members(found: Any, points: int) -> Tensor:
    """What must agree: indices as they are, of balls which points are inside."""
    if isinstance(found, Tensor):
        return found
    indices, inside = found
    flags = torch.zeros(*indices.shape[:-1], points, dtype=torch.bool)
    return flags.scatter_(-1, indices, inside)


def rounds_of(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each call in each round."""
    milliseconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            start = time.perf_counter()
            call()
            milliseconds[name].append(1e3 * (time.perf_counter() - start))
    return milliseconds


def measure(name: str, shape: tuple[int, int], rounds: int) -> dict[str, Any]:
    x = clouds(*shape)
    sides = calls(name, x)
    found = [members(sides[side](), shape[1]) for side in ("own", "through torch-cluster")]
    if not torch.equal(*found):
        raise SystemExit(f"{name} of {shape}: results differ")
    del found
    milliseconds = rounds_of(sides, rounds)
    medians = {side: round(median(values), 3) for side, values in milliseconds.items()}
    return {
        "search": name,
        "clouds": shape[0],
        "points": shape[1],
        "milliseconds": medians,
        "own over torch-cluster": round(medians["own"] / medians["through torch-cluster"], 2),
        "rounds": {side: [round(v, 4) for v in values] for side, values in milliseconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    output_arguments(parser, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not neighbor_backend().startswith("torch-cluster"):
        raise SystemExit("torch-cluster is not installed here: use the Python of make test-cluster")
    record = Record(options.output)
    report = {
        "backend": neighbor_backend(),
        "threads": torch.get_num_threads(),
        "neighbors": NEIGHBORS,
        "rows": [
            measure(name, shape, options.rounds)
            for name in SEARCHES
            for shape in SHAPES
            if fits(name, *shape)
        ],
    }
    record.write(report)


if __name__ == "__main__":
    main()
