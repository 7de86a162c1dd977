"""What a call of a layer costs however small its problem is: products of 8 to 64 rows.

    python -m bench.fixed_cost [--output bench/results/fixed_cost.json]

Beside the layers stand two floors: PyTorch's own ``2 * x``, and a ``torch.autograd.Function`` in
Python that does nothing. No op whose gradient is written in Python can cost less than the second.
All calls take turns, and times are microseconds of the processor, so that ratios hold on a busy
machine, too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from bench.recorder import Record, output_arguments
from equigeo import nn as enn
from equigeo import tensor_products as tp

ROWS = (8, 64)
CALLS = 20  # of one sample, so that the clock is read rarely
Call = Callable[[], Any]


class Nothing(torch.autograd.Function):
    """The identity, as cheap as a function in Python is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def layers(rows: int) -> dict[str, tuple[Callable[..., Tensor], list[Tensor]]]:
    """Functions, and the inputs that their gradients are taken by."""
    irreps, sphere = "8x0e + 8x1o", "0e + 1o"
    product = tp.ChannelwiseTensorProduct(irreps, sphere, irreps)
    generator = torch.Generator().manual_seed(rows)

    def randn(dim: int) -> Tensor:
        return torch.randn(rows, dim, generator=generator).requires_grad_()

    return {
        "2 * x": (lambda x: 2 * x, [randn(32)]),
        "a function that does nothing": (Nothing.apply, [randn(32)]),
        "nn.Linear": (enn.Linear(irreps, irreps), [randn(32)]),
        "tensor_products.ChannelwiseTensorProduct": (
            product,
            [randn(32), randn(4), randn(product.weight_numel)],
        ),
        "tensor_products.SphericalHarmonics": (
            tp.SphericalHarmonics("0e + 1o + 2e", normalize=True),
            [randn(3)],
        ),
    }


def calls(rows: int) -> dict[tuple[str, str], Call]:
    """Forward passes that record nothing, and both passes."""
    found: dict[tuple[str, str], Call] = {}
    for name, (function, inputs) in layers(rows).items():

        def forward(function: Any = function, inputs: list[Tensor] = inputs) -> None:
            with torch.no_grad():
                function(*inputs)

        def both(function: Any = function, inputs: list[Tensor] = inputs) -> None:
            out = function(*inputs)
            torch.autograd.grad(out, inputs, torch.ones_like(out))

        found[name, "forward"], found[name, "both passes"] = forward, both
    return found


def measure(rows: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds of each call in samples that take turns."""
    timed = calls(rows)
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in timed}
    for n in range(2 + rounds):
        for key, call in timed.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            if n >= 2:
                samples[key].append((time.process_time() - start) / CALLS)
    found: dict[str, dict[str, list[float]]] = {}
    for (name, passes), values in samples.items():
        found.setdefault(name, {})[passes] = [1e6 * value for value in values]
    return found


def medians(samples: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """The middle of each call's samples."""
    return {
        name: {passes: median(values) for passes, values in found.items()}
        for name, found in samples.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    output_arguments(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = Record(options.output)
    samples = {f"{rows} rows": measure(rows, options.rounds) for rows in ROWS}
    microseconds = {rows: medians(found) for rows, found in samples.items()}
    print(json.dumps(microseconds, indent=1))
    record.write({"microseconds": microseconds, "samples": samples})


if __name__ == "__main__":
    main()
