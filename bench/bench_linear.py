"""Linear maps between irreps, and between tensors of groups that are not compact.

Run with ``make bench``. What a change costs the maps between irreps, as ratios of two checkouts::

    python -m bench.side_by_side ../before --files bench_linear.py --select irreps \
        --output bench/results/linear_between_irreps.json

A matrix product of the same size without structure stands beside both.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.record import record
from equigeo.groups import GLPlus
from equigeo.nn import Linear
from equigeo.reps import TensorRep

IRREPS = {
    "irreps-small": "16x0e+8x1o",
    "irreps-nequip": "32x0e+32x1o+32x2e+32x0o+32x1e+32x2o",
    "irreps-mace": "128x0e+128x1o+128x2e",
}


def layers(problem: str) -> tuple[nn.Module, int]:
    """A layer, and the length of its rows."""
    if problem in IRREPS:
        layer = Linear(IRREPS[problem], IRREPS[problem])
    else:
        vector = TensorRep(GLPlus(3))
        tensors = 16 * vector + 16 * vector.dual() + 4 * TensorRep(GLPlus(3), up=1, down=1)
        layer = Linear(tensors, tensors)
    dim = layer.rep_in.dim
    return nn.Linear(dim, dim, bias=False) if problem == "dense" else layer, dim


@pytest.mark.parametrize("rows", [1, 64, 4096], ids=lambda rows: f"{rows} rows")
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("problem", [*IRREPS, "tensors", "dense"])
def bench_linear(benchmark, problem, kind, rows):
    torch.set_num_threads(1)
    layer, dim = layers(problem)
    x = torch.randn(rows, dim, requires_grad=kind == "both")

    def call() -> None:
        with torch.set_grad_enabled(kind == "both"):
            z = layer(x)
        if kind == "both":
            torch.autograd.grad(z.sum(), [x, *layer.parameters()])

    record(benchmark, call, "row", rows)
