"""Symmetric contractions of MACE, beside the reference implementation and cuEquivariance.

Run with ``make bench``; choose by id, as in ``-k "large and forward"``. All take the same weights,
those of MACE's own basis. ``training`` is what learning from forces asks for: the gradient of the
features, and then the gradients of a function of it with respect to features and weights. A bound
is what moving features and result once takes at the bandwidth of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from bench.interleaved import copy_bandwidth
from equigeo.ops import PolynomialTable, kernels_info
from equigeo.ops.products.symmetric_contraction import symmetric_contraction_reference
from equigeo.tensor_products import SymmetricContraction
from equigeo.testing import tolerance

ELEMENTS = 10
PROBLEMS = {  # irreps in and out, correlation, channels, samples
    "mace-small": ("0e+1o+2e+3o", "0e", 3, 128, 100),
    "mace-large": ("0e+1o+2e+3o", "0e+1o", 3, 128, 100),
    "mace-large, many": ("0e+1o+2e+3o", "0e+1o", 3, 128, 1000),
    "mace-narrow": ("0e+1o+2e", "0e+1o", 3, 32, 500),
    "fourth order": ("0e+1o+2e", "0e+1o", 4, 64, 100),
}
Call = Callable[[Tensor], Tensor]
Peer = tuple[Call, Tensor]  # from features to result, and the weights


def times(irreps: str, channels: int) -> str:
    return "+".join(f"{channels}x{ir}" for ir in irreps.split("+"))


@cache
def module(problem: str, layout: str) -> SymmetricContraction:
    ins, outs, correlation, channels, _ = PROBLEMS[problem]
    return SymmetricContraction(
        *(times(irreps, channels) for irreps in (ins, outs)),
        correlation,
        ELEMENTS,
        basis="original",
        layout=layout,
    )


def op(problem: str, layout: str, element: Tensor) -> Peer:
    ours = module(problem, layout)
    return lambda x: ours(x, element), ours.weight


def exact(problem: str, layout: str, element: Tensor) -> Peer:
    ours = deepcopy(module(problem, layout)).double()
    return lambda x: ours(x, element), ours.weight


def reference(problem: str, layout: str, element: Tensor) -> Peer:
    """The body of the op where no kernel is loaded."""
    ours = module(problem, layout)
    dims = [2 * l + 1 for _, (l, _) in ours.irreps_in]
    dims_in = [1] * sum(dims) if layout == "ir_mul" else dims
    p = ours.polynomials
    dims_out = [1] * sum(p.sizes) if layout == "ir_mul" else p.sizes

    def call(x: Tensor) -> Tensor:
        values = p.tables["values", x.dtype]
        positions = (p.positions[name] for name in ("products", "polynomials", "groups", "nodes"))
        table = PolynomialTable(*positions, values, p.levels, dims_in, dims_out)
        weight = ours.reduce_weight(ours.weight)
        return symmetric_contraction_reference(x, weight, element, **vars(table))

    return call, ours.weight


@cache
def cuequivariance_module(problem: str, layout: str) -> Any:
    """Same weights; made once, since finding its basis takes a minute."""
    cue = pytest.importorskip("cuequivariance")
    cuet = pytest.importorskip("cuequivariance_torch")
    group = pytest.importorskip("cuequivariance.group_theory.experimental.e3nn")
    ins, outs, correlation, channels, _ = PROBLEMS[problem]
    theirs = cuet.SymmetricContraction(
        *(cue.Irreps(group.O3_e3nn, times(irreps, channels)) for irreps in (ins, outs)),
        contraction_degree=correlation,
        num_elements=ELEMENTS,
        layout=getattr(cue, layout),
        original_mace=True,
        method="naive",
        dtype=torch.float32,
        math_dtype=torch.float32,
    )
    theirs.weight.data = module(problem, layout).weight.detach().clone()
    return theirs


def cuequivariance(problem: str, layout: str, element: Tensor) -> Peer:
    theirs, chosen = cuequivariance_module(problem, layout), element.int()
    return lambda x: theirs(x, chosen), theirs.weight


def forward(x: Tensor, call: Call, w: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return (call(x),)


def backward(x: Tensor, call: Call, w: Tensor) -> tuple[Tensor, ...]:
    z = call(x)
    return z, *torch.autograd.grad(z, (x, w), torch.ones_like(z))


def training(x: Tensor, call: Call, w: Tensor) -> tuple[Tensor, ...]:
    z = call(x)
    (force,) = torch.autograd.grad(z, x, torch.ones_like(z), create_graph=True)
    return force, *torch.autograd.grad(force, (x, w), force.detach())


@pytest.mark.filterwarnings("ignore")  # of cuEquivariance
@pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])
@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize("run", [forward, backward, training], ids=lambda f: f.__name__)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("peer", [op, reference, cuequivariance], ids=lambda f: f.__name__)
def bench_symmetric_contraction(
    benchmark: Any, peer: Any, problem: str, run: Any, layout: str, threads: int
) -> None:
    torch.set_num_threads(threads)
    ours, samples = module(problem, layout), PROBLEMS[problem][-1]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, ours.irreps_in.dim, generator=generator).requires_grad_()
    element = torch.randint(ELEMENTS, (samples,), generator=generator)
    some = x[:8].detach().requires_grad_()
    found = run(some, *peer(problem, layout, element[:8]))
    some = some.detach().double().requires_grad_()
    for got, want in zip(found, run(some, *exact(problem, layout, element[:8])), strict=True):
        scale = want.detach().abs().max()
        assert_close(got.double() / scale, want / scale, **tolerance(torch.float32, 1000))

    moved = samples * (ours.irreps_in.dim + ours.irreps_out.dim) * x.element_size()
    benchmark.extra_info.update(
        samples=samples,
        multiply_adds=samples * ours.multiply_adds(),
        bytes=moved,
        threads=threads,
        isa=kernels_info()["isa"],
        torch=torch.__version__,
    )
    benchmark(run, x, *peer(problem, layout, element))
    if benchmark.stats is not None:  # None where timing is switched off
        seconds = benchmark.stats["median"]
        benchmark.extra_info["microseconds per sample"] = 1e6 * seconds / samples
        benchmark.extra_info["GB/s"] = moved / seconds / 1e9
        benchmark.extra_info["of the bound"] = moved / seconds / copy_bandwidth()
