"""All second derivatives of a potential: rows together against rows one by one.

    python -m bench.hessian [--output bench/results/hessian.json]

Twenty-four atoms with about 540 edges, untrained potentials from small to the default preset, one
thread. Results are compared first. All calls take turns, and times are seconds of the processor, so
that ratios hold on a busy machine, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from statistics import quantiles

import torch
from torch import Tensor

from bench.interleaved import all_rounds, medians
from bench.recorder import Record, output_arguments
from equigeo.potentials import (
    AtomicBatch,
    MessagePassingPotential,
    PotentialConfig,
    hessian,
    hessian_vector_product,
)

ATOMS = 24
SIZES = {
    "8 channels, lmax 1": (8, 1),
    "16 channels, lmax 2": (16, 2),
    "32 channels, lmax 3": (32, 3),
}
SAME = 2e-4  # relative, in float32: second derivatives by two orders of summation


def molecule() -> tuple[Tensor, Tensor, None, bool]:
    """Atoms near the points of a cubic grid, 1.6 angstrom apart."""
    generator = torch.Generator().manual_seed(0)
    grid = torch.tensor(list(itertools.product(range(3), repeat=3))[:ATOMS]) * 1.6
    positions = grid + 0.1 * torch.randn(ATOMS, 3, generator=generator)
    numbers = torch.tensor([1, 6, 8])[torch.randint(0, 3, (ATOMS,), generator=generator)]
    return numbers, positions, None, False


def calls(channels: int, lmax: int) -> tuple[int, dict[str, Callable[[], Tensor]]]:
    """The number of edges, and ways to the same matrix."""
    torch.manual_seed(0)
    config = PotentialConfig((1, 6, 8), channels=channels, lmax_edge=lmax)
    model = MessagePassingPotential(config).eval().requires_grad_(False)
    batch = AtomicBatch.from_systems([molecule()], config.cutoff)

    def one_by_one() -> Tensor:
        units = torch.eye(3 * ATOMS).unflatten(1, (ATOMS, 3))
        products = [hessian_vector_product(model, batch, unit) for unit in units]
        return torch.stack(products).flatten(1)

    return batch.edge_index.shape[1], {
        "one backward pass a row, chunks of one": partial(hessian, model, batch, chunk_size=1),
        "hessian-vector products, each from the energy on": one_by_one,
        "chunks by default": partial(hessian, model, batch),
        "all rows at once": partial(hessian, model, batch, chunk_size=3 * ATOMS),
    }


def measure(channels: int, lmax: int, rounds: int) -> dict[str, object]:
    """Compare results, and time what takes turns."""
    edges, ways = calls(channels, lmax)
    first, *others = (call() for call in ways.values())
    differences = [float((other - first).abs().max() / first.abs().max()) for other in others]
    if not max(differences) < SAME:
        raise SystemExit(f"results must agree to {SAME}, got {differences}")
    seconds = all_rounds(ways, rounds, clock=time.process_time)
    middle = medians(seconds)
    slowest = middle[next(iter(ways))]
    return {
        "edges": edges,
        "times as fast as row by row": {name: slowest / value for name, value in middle.items()},
        "median seconds": middle,
        "quartiles": {name: quantiles(values, n=4)[::2] for name, values in seconds.items()},
        "seconds": seconds,
    }


def main() -> None:
    """Measure potentials of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.output)
    found = {name: measure(*size, options.rounds) for name, size in SIZES.items()}
    print(json.dumps({k: v["times as fast as row by row"] for k, v in found.items()}, indent=1))
    record.write({"potentials": found})


if __name__ == "__main__":
    main()
