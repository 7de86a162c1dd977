"""Calls that go through every op with CUDA kernels, at the sizes of models.

MACE's large model for what it has; its layers are called for values and two orders of derivatives,
so that the ops of derivatives are called too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.channelwise import PROBLEMS, operands
from bench.connected import UNWEIGHTED, weighted_products
from equigeo import mds, ops
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.nn import Linear

MACE = PROBLEMS["mace-large"]
EDGES, NODES, HEADS, CHANNELS, ELEMENTS = 96, 12, 4, 64, 10
POINTS = 1024
Call = Callable[..., Any]
Arguments = dict[str, Any]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_()


def graph() -> EdgeIndex:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES, (2, EDGES), generator=generator)
    return EdgeIndex.from_edges(ends, NODES, NODES)


def product(layout: str) -> tuple[Call, list[Tensor]]:
    layer = tp.ChannelwiseTensorProduct(*MACE, layout=layout)
    return layer, operands(layer, EDGES, EDGES)


def conv(layout: str) -> tuple[Call, list[Tensor]]:
    layer, edges = tp.ChannelwiseConv(*MACE, layout=layout), graph()
    return lambda x, y, weight: layer(x, edges, y, weight), operands(layer, NODES, EDGES)


def radial(layout: str) -> tuple[Call, list[Tensor]]:
    layer, edges = tp.RadialChannelwiseConv(*MACE, num_hidden=64, layout=layout), graph()
    x, y, _ = operands(tp.ChannelwiseConv(*MACE), NODES, EDGES)
    return lambda x, y, hidden: layer(x, edges, y, hidden), [x, y, numbers(EDGES, 64)]


def by_orders(_: str) -> tuple[Call, list[Tensor]]:
    irreps = "+".join(f"{CHANNELS}x{l}{'eo'[l % 2]}" for l in range(5))
    layer, edges = tp.SO2Conv(irreps, irreps, mmax=2, modulation="order", layout="ir_mul"), graph()
    inputs = [
        numbers(NODES, layer.irreps_in.dim), numbers(EDGES, 3), numbers(EDGES, layer.weight_numel)
    ]  # fmt: skip
    return lambda x, edge_vec, weight: layer(x, edges, edge_vec, weight), inputs


def linear(layout: str) -> tuple[Call, list[Tensor]]:
    layer = Linear(MACE[0], MACE[0], layout=layout)
    return layer, [numbers(EDGES, layer.irreps_in.dim)]


def contraction(layout: str) -> tuple[Call, list[Tensor]]:
    layer = tp.SymmetricContraction(
        "128x0e+128x1o+128x2e+128x3o", "128x0e+128x1o", 3, ELEMENTS, basis="original",
        layout=layout,
    )  # fmt: skip
    element = torch.arange(NODES) % ELEMENTS
    return lambda x: layer(x, element), [numbers(NODES, layer.irreps_in.dim)]


def pairs(layout: str) -> tuple[Call, list[Tensor]]:
    layer = UNWEIGHTED["all pairs"](layout)
    return layer, [numbers(EDGES, layer.irreps_in1.dim), numbers(EDGES, layer.irreps_in2.dim)]


def connected(layout: str) -> tuple[Call, list[Tensor]]:
    layer = weighted_products("diffdock-L1")[layout]
    return layer, operands(layer, EDGES, EDGES)


def harmonics(_: str) -> tuple[Call, list[Tensor]]:
    return lambda x: tp.spherical_harmonics([0, 1, 2, 3], x, normalize=True), [numbers(POINTS, 3)]


def gaunt(_: str) -> tuple[Call, list[Tensor]]:
    layer = tp.GauntTensorProduct(4, 4, 4, method="grid")
    return layer, [numbers(EDGES, 25), numbers(EDGES, 25, seed=1)]


def gather(_: str) -> tuple[Call, list[Tensor]]:
    e = graph()
    lists = e.source, e.ptr, e.back_target, e.back_ptr
    return lambda x: ops.gather_sum(x, *lists), [numbers(NODES, HEADS * CHANNELS)]


def attention(_: str) -> tuple[Call, list[Tensor]]:
    e = graph()
    lists = e.source, e.ptr, e.target, e.back_order, e.back_ptr
    values, logits = numbers(NODES, HEADS, CHANNELS), numbers(EDGES, HEADS)
    return lambda v, l: ops.segment_attention(v, l, *lists)[0], [values, logits]


def embedding(_: str) -> tuple[Call, list[Tensor]]:
    return lambda x: mds.embed(x).y, [numbers(EDGES, 32, 3)]


def eigen(_: str) -> tuple[Call, list[Tensor]]:
    def call(x: Tensor) -> Tensor:
        values, vectors = ops.symmetric_eigen(x + x.mT)
        return vectors * values[:, None]

    return call, [numbers(POINTS, 3, 3)]


BOTH, ONE = ("mul_ir", "ir_mul"), ("",)
CASES: dict[str, tuple[Callable[[str], tuple[Call, list[Tensor]]], tuple[str, ...]]] = {
    "channelwise product": (product, BOTH),
    "channelwise convolution": (conv, BOTH),
    "convolution with its radial layer": (radial, BOTH),
    "convolution by orders": (by_orders, ONE),
    "linear layer": (linear, BOTH),
    "symmetric contraction": (contraction, BOTH),
    "full product": (pairs, BOTH),
    "fully connected product": (connected, BOTH),
    "spherical harmonics": (harmonics, ONE),
    "Gaunt product on a grid": (gaunt, ONE),
    "sum over neighbours": (gather, ONE),
    "attention over neighbours": (attention, ONE),
    "embedding of clouds": (embedding, ONE),
    "eigenvectors": (eigen, ONE),
}


class Calls(TorchDispatchMode):
    """The first call of every op of equigeo, arguments and results by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[Arguments, list[Tensor]]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        space, name = func._schema.name.split("::")
        if space == "equigeo" and name not in self.found:
            names = [argument.name for argument in func._schema.arguments]
            given = dict(zip(names, args, strict=False)) | (kwargs or {})
            results = result if isinstance(result, tuple) else (result,)
            self.found[name] = given, [x.detach().clone() for x in results]
        return result


def calls_of(case: str, layout: str) -> dict[str, tuple[Arguments, list[Tensor]]]:
    """The ops that a case calls, for values and two orders of derivatives."""
    call, inputs = CASES[case][0](layout)
    with Calls() as calls:
        out = call(*inputs)
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        torch.autograd.grad(sum(x.square().sum() for x in first), inputs, allow_unused=True)
    return calls.found


def all_calls() -> dict[str, tuple[str, Arguments, list[Tensor]]]:
    """By ``"<op>, <layout>"``: op, arguments and results, of the first case that calls it."""
    found: dict[str, tuple[str, Arguments, list[Tensor]]] = {}
    for case, (_, layouts) in CASES.items():
        for layout in layouts:
            for op, call in calls_of(case, layout).items():
                found.setdefault(", ".join(filter(None, (op, layout))), (op, *call))
    return found
