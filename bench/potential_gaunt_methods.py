"""A training step of a potential with Gaunt products, by each of the methods that compute them.

    python -m bench.potential_gaunt_methods --data ../shared/data \
        [--output bench/results/potential_gaunt_methods.json]

The potential of ``bench.potential_products`` with the product "gaunt" and 16 channels, batches of
five frames of ethanol, one thread: energies, forces, and the gradients of their loss by the
weights. All Gaunt products of the model are exchanged, those of the nonlinearity of atoms too where
it is "gaunt", as in the model of the published comparison. Only the grid has a kernel; it is also
computed by operations of PyTorch, as Fourier series are. Losses and gradients are compared first;
then all take turns, and times are seconds of the processor.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn

from bench.interleaved import Call, all_rounds, medians
from bench.potentials import configure
from bench.recorder import Record, output_arguments
from equigeo.ops.geometry.grid_product import grid_product_reference
from equigeo.potentials.config import NodeName
from equigeo.tasks.potential import InteratomicPotential
from equigeo.tensor_products import GauntTensorProduct
from equigeo.tensor_products.signals.methods import GridMethod

GRID = "grid"  # what all are compared with
IN_PYTORCH = "grid in PyTorch"
METHODS = (GRID, IN_PYTORCH, "fourier", "paths")
BATCH = 5
CHANNELS = 16
SAME = 1e-3  # of the largest entry of a gradient, in float32: three passes, whose terms cancel
# Degree of harmonics and nonlinearity. The contraction of degree 4 has too many paths for a model
# that anyone would train.
MODELS: tuple[tuple[int, NodeName], ...] = (
    (2, "contraction"),
    (2, "gaunt"),
    (4, "gaunt"),
    (6, "gaunt"),
)


class GridInPyTorch(nn.Module):
    """The method "grid" without its op.

    Parameters
    ----------
    body : GridMethod
        The method.
    """

    def __init__(self, body: GridMethod) -> None:
        super().__init__()
        self.tables = body.tables

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Transform to the grid, multiply there, and transform back."""
        names = [f"{kind}_{operand}" for operand in "xyz" for kind in ("legendre", "trig")]
        return grid_product_reference(x, y, **{name: self.tables[name, x.dtype] for name in names})


def by_method(model: nn.Module, method: str) -> nn.Module:
    """Copy a model, and compute its Gaunt products in another way."""
    model = copy.deepcopy(model)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, GauntTensorProduct):
            model.set_submodule(name, exchanged(layer, method))
    return model


def exchanged(layer: GauntTensorProduct, method: str) -> GauntTensorProduct:
    """Build the same product with another method."""
    degrees = layer.lmax1, layer.lmax2, layer.lmax_out
    own: Any = GRID if method == IN_PYTORCH else method
    first, second = (irreps.terms[0][1][1] for irreps in (layer.irreps_in1, layer.irreps_in2))
    other = GauntTensorProduct(*degrees, own, layer.basis, parity1=first, parity2=second)
    if method == IN_PYTORCH:
        assert isinstance(other.body, GridMethod)
        other.set_submodule("body", GridInPyTorch(other.body))
    return other.train(layer.training)


def measure(data: Path, lmax_edge: int, node: NodeName, rounds: int) -> dict[str, Any]:
    """Compare and time the steps of one potential."""
    given = argparse.Namespace(
        data=data, set="ethanol", product="gaunt", node=node, channels=CHANNELS, minutes=1.0,
        lmax_edge=lmax_edge, seed=0, evaluate_every=1, energy_weight=None, learning_rate=None,
        compile=False,
    )  # fmt: skip
    task = InteratomicPotential()
    config = replace(configure(given), channels=CHANNELS)
    torch.manual_seed(0)
    plan = task.plan(config, task.load(config))
    batch = plan.train.batch(range(BATCH))

    def step(model: nn.Module) -> tuple[Tensor, ...]:
        loss, _ = plan.objective.sums(model, batch)
        return loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))

    models = {method: by_method(plan.model.train(), method) for method in METHODS}
    expected = step(models[GRID])
    differences = {}
    for method in METHODS[1:]:
        pairs = zip(step(models[method]), expected, strict=True)
        differences[method] = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
    if not max(differences.values()) < SAME:
        raise SystemExit(f"losses and gradients must agree to {SAME}, got {differences}")
    steps: dict[str, Call] = {method: partial(step, model) for method, model in models.items()}
    seconds = all_rounds(steps, rounds, clock=time.process_time)
    middle = medians(seconds)
    return {
        "edges": batch.inputs.atoms.edge_index.shape[1],
        "parameters": sum(p.numel() for p in plan.model.parameters()),
        "largest difference from the grid": differences,
        "milliseconds": {method: 1e3 * value for method, value in middle.items()},
        "times of the grid": {method: middle[method] / middle[GRID] for method in METHODS},
        "quartiles": {method: quantiles(values, n=4)[::2] for method, values in seconds.items()},
        "seconds": seconds,
    }


def main() -> None:
    """Measure every potential."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--rounds", type=int, default=60)
    output_arguments(parser, series=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.output, resume=options.resume)
    for lmax_edge, node in MODELS:
        key = {"lmax_edge": lmax_edge, "node": node, "channels": CHANNELS}
        run = record.keep(key, partial(measure, options.data, lmax_edge, node, options.rounds))
        shown = ("largest difference from the grid", "milliseconds", "times of the grid")
        print(key, json.dumps({name: run[name] for name in shown}, indent=1), flush=True)


if __name__ == "__main__":
    main()
