"""Calls that go through every op with kernels, with the irreps of models.

MACE's large model for what it has; its layers are called for values and two orders of derivatives,
so that the ops of derivatives are called too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from bench.arithmetic import Arguments, multiply_accumulates
from bench.peers import drawn
from bench.products import PROBLEMS, UNWEIGHTED, operands, weighted_product
from equigeo import mds, ops
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.nn import Linear
from equigeo.nn.radial_table import basis_matrix
from equigeo.tensor_products.products.convolution import op_graph

MACE = PROBLEMS["mace-large"]
HEADS, CHANNELS, ELEMENTS = 4, 64, 10
Call = Callable[..., Any]


@dataclass(frozen=True)
class Size:
    """How much each case is given."""

    edges: int  # of graphs, and rows of products
    nodes: int
    points: int  # of which harmonics are evaluated, and matrices whose eigenvectors are found


SIMULATED = Size(edges=96, nodes=12, points=1024)
"""For the simulator, whose counts per row are the same for more."""


def graph(size: Size) -> EdgeIndex:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(size.nodes, (2, size.edges), generator=generator)
    return EdgeIndex.from_edges(ends, size.nodes, size.nodes)


def product(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer = tp.ChannelwiseTensorProduct(*MACE, layout=layout)
    return layer, operands(layer, size.edges, size.edges)


def conv(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer, edges = tp.ChannelwiseConv(*MACE, layout=layout), graph(size)
    return lambda x, y, weight: layer(x, edges, y, weight), operands(layer, size.nodes, size.edges)


def radial(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer, edges = tp.ChannelwiseConv(*MACE, num_hidden=64, layout=layout), graph(size)
    x, y, _ = operands(tp.ChannelwiseConv(*MACE), size.nodes, size.edges)
    return lambda x, y, hidden: layer(x, edges, y, hidden), [x, y, *drawn((size.edges, 64))]


def by_orders(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    irreps = "+".join(f"{CHANNELS}x{l}{'eo'[l % 2]}" for l in range(5))
    layer = tp.SO2Conv(irreps, irreps, mmax=2, modulation="order", layout="ir_mul")
    edges = graph(size)
    shapes = (size.nodes, layer.irreps_in.dim), (size.edges, 3), (size.edges, layer.weight_numel)
    return lambda x, edge_vec, weight: layer(x, edges, edge_vec, weight), drawn(*shapes)


def linear(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer = Linear(MACE[0], MACE[0], layout=layout)
    return layer, drawn((size.edges, layer.irreps_in.dim))


def contraction(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer = tp.SymmetricContraction(
        "128x0e+128x1o+128x2e+128x3o", "128x0e+128x1o", 3, ELEMENTS, basis="original",
        layout=layout,
    )  # fmt: skip
    element = torch.arange(size.nodes) % ELEMENTS
    return lambda x: layer(x, element), drawn((size.nodes, layer.irreps_in.dim))


def pairs(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer = UNWEIGHTED["all pairs"](layout)
    return layer, operands(layer, size.edges, size.edges)[:2]


def connected(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer = weighted_product("diffdock-L1", layout)
    return layer, operands(layer, size.edges, size.edges)


def harmonics(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    return lambda x: tp.spherical_harmonics([0, 1, 2, 3], x, True), drawn((size.points, 3))


def gaunt(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    return tp.GauntTensorProduct(4, 4, 4, method="grid"), drawn(*[(size.edges, 25)] * 2)


def gather(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    e = graph(size)
    lists = e.source, e.ptr, e.back_target, e.back_ptr
    return lambda x: ops.gather_sum(x, *lists), drawn((size.nodes, HEADS * CHANNELS))


def attention(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    shapes, edges = [(size.nodes, HEADS, CHANNELS), (size.edges, HEADS)], graph(size)
    return lambda *given: edges.attend(*given)[0], drawn(*shapes)


def embedding(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    return lambda x: mds.embed(x).y, drawn((size.edges, 32, 3))


def eigen(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    def call(x: Tensor) -> Tensor:
        values, vectors = ops.symmetric_eigen(x + x.mT)
        return vectors * values[:, None]

    return call, drawn((size.points, 3, 3))


def attention_conv(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    shapes, edges = [(size.nodes, CHANNELS), (size.edges, 1)], graph(size)
    inputs = drawn(*shapes, *[(CHANNELS, CHANNELS)] * 2)
    return lambda *given: edges.attend_linear(*given)[0], inputs


def batch_norm(size: Size, _: str) -> tuple[Call, list[Tensor]]:
    inputs = drawn((size.nodes, CHANNELS), (CHANNELS,), (CHANNELS,))
    return lambda x, weight, bias: ops.relu_batch_norm(x, None, weight, bias, 1e-5, True)[0], inputs


def splines(size: Size, layout: str) -> tuple[Call, list[Tensor]]:
    layer, edges = tp.ChannelwiseConv(*MACE, layout=layout), graph(size)
    paths: Any = layer.product.compiled
    table, lists = paths.table(torch.float32), op_graph(edges)
    pieces, degree = 128, 5
    first, basis = torch.arange(size.edges) % pieces, basis_matrix(degree).float()
    shapes = (2, pieces + degree - 1, layer.weight_numel), (size.edges,)
    coefficients, position = (numbers.detach() for numbers in drawn(*shapes))
    position = position.sigmoid().requires_grad_()
    x, y, _ = operands(layer, size.nodes, size.edges)

    def call(x: Tensor, y: Tensor, position: Tensor) -> Tensor:
        return ops.spline_conv(x, y, (position, first, basis, coefficients), lists, table)

    return call, [x, y, position]


BOTH, ONE = ("mul_ir", "ir_mul"), ("",)
Cases = Mapping[str, tuple[Callable[[Size, str], tuple[Call, list[Tensor]]], tuple[str, ...]]]
CASES: Cases = {
    "channelwise product": (product, BOTH),
    "channelwise convolution": (conv, BOTH),
    "convolution with its radial layer": (radial, BOTH),
    "convolution with splines": (splines, BOTH),
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
ON_THE_CPU: Cases = {
    "convolution by attention": (attention_conv, ONE),
    "normalized activation": (batch_norm, ONE),
}
"""With kernels there alone."""


class Calls(TorchDispatchMode):
    """The first call of every op of equigeo, arguments and results by name; what all calls count.

    Operations that make or change tensors, the bytes of these, multiply-adds, and peak memory.
    """

    operations = moved = multiply_adds = now = most = 0

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[Arguments, list[Tensor]]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        trees = (args, kwargs), result
        given, results = ([x for x in tree_leaves(t) if isinstance(x, Tensor)] for t in trees)
        if func.namespace == "equigeo":
            names = [argument.name for argument in func._schema.arguments]
            named = dict(zip(names, args, strict=False)) | (kwargs or {})
            copies = [x.detach().clone() for x in results if func._opname not in self.found]
            self.found.setdefault(func._opname, (named, copies))
            self.multiply_adds += multiply_accumulates(func._opname, named)
        elif count := flop_registry.get(func._overloadpacket):
            self.multiply_adds += count(*args, **(kwargs or {}), out_val=result) // 2
        known = {id(x.untyped_storage()) for x in given}
        made = [memory for x in results if id(memory := x.untyped_storage()) not in known]
        if made or func._schema.is_mutable:
            self.operations += 1
            self.moved += sum(x.numel() * x.element_size() for x in (*given, *results))
        for memory in made:
            self._keep(memory.nbytes())
            weakref.finalize(memory, self._keep, -memory.nbytes())
        return result

    def _keep(self, size: int) -> None:
        self.now += size
        self.most = max(self.most, self.now)


def calls_of(call: Call, inputs: list[Tensor]) -> dict[str, tuple[Arguments, list[Tensor]]]:
    """The ops that a layer calls, for values and two orders of derivatives."""
    with Calls() as calls:
        out = call(*inputs)
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        torch.autograd.grad(sum(x.square().sum() for x in first), inputs, allow_unused=True)
    return calls.found


def all_calls(
    size: Size = SIMULATED, cases: Cases = CASES
) -> dict[str, tuple[str, Arguments, list[Tensor]]]:
    """By ``"<op>, <layout>"``: op, arguments and results, of the first case that calls it."""
    found: dict[str, tuple[str, Arguments, list[Tensor]]] = {}
    for make, layouts in cases.values():
        for layout in layouts:
            for op, call in calls_of(*make(size, layout)).items():
                found.setdefault(", ".join(filter(None, (op, layout))), (op, *call))
    return found
