"""A channelwise product on every edge, summed at the targets, without a message in memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_edge_lists, check_operands, check_row
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.connected import (
    channelwise_gradients_reference,
    channelwise_product_reference,
)
from equigeo.ops.products.multilinear import OPERANDS, declare_product, product_arguments
from equigeo.ops.runtime.batching import Batched, blocks, in_front, share_the_rest
from equigeo.ops.runtime.declare import declare, declared
from equigeo.ops.runtime.forward_rules import linear_in
from equigeo.ops.runtime.tape import Gradients

GRAPH = ("source", "ptr", "order", "target", "back_order", "back_ptr")
"""As :class:`equigeo.graphs.EdgeIndex` has them."""

OFFSETS = ("ptr", "back_ptr")
"""Those that say where the edges of a node begin."""

INDICES = {"source": "x", "order": "y", "target": "ptr", "back_order": "source"}
"""What the others count."""

PRODUCT_SCHEMA = (
    "channelwise_conv(Tensor x, Tensor y, Tensor? weight, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, int dim_out, bool ir_mul) -> Tensor"
)


@computes_in_float32
def channelwise_conv(
    x: Tensor, y: Tensor, weight: Tensor | None, graph: tuple[Tensor, ...], table: PathTable
) -> Tensor:
    r"""Gather source rows, couple them with edge features and sum at the targets.

    .. math:: z_t = \sum_{e \to t} \mathrm{product}(x_{s(e)}, y_e, w_e)

    with the product of :func:`equigeo.ops.channelwise_product`, without messages in memory and
    atomic additions. Returns a tensor (targets, table.dim_out).

    Parameters
    ----------
    x : Tensor, (sources, table.dim_x)
        Features of the sources.
    y : Tensor, (edges, table.dim_y)
        Second operands, for example spherical harmonics.
    weight : Tensor or None, (edges, table.dim_weight)
        As in the product, by edge.
    graph : tuple of Tensor, int64
        ``source, ptr, order, target, back_order, back_ptr`` of ``equigeo.graphs.EdgeIndex``: per
        edge sorted by target its source, the row of its ``y`` and its target; offsets by target;
        positions sorted by source and their offsets.
    table : PathTable
        As in the product.

    Examples
    --------
    >>> from equigeo.ops import Path, Segment
    >>> scalar = Segment.block(0, mul=1, d=1)
    >>> scale = Path(scalar, scalar, scalar, weight=None, coefficients=torch.ones(1, 1, 1))
    >>> table = PathTable.from_paths([scale], dims=(1, 1, 0, 1), by_output=True)
    >>> two_edges = torch.tensor([0, 1]), torch.tensor([0, 2]), torch.arange(2)
    >>> back = torch.tensor([0, 0]), torch.arange(2), torch.arange(3)
    >>> x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [100.0]])
    >>> channelwise_conv(x, y, None, (*two_edges, *back), table)
    tensor([[210.]])
    """
    arguments = product_arguments(x, y, weight, table, check_graph(x, graph))
    return channelwise_conv_op(*arguments, table.ir_mul)


def check_graph(
    x: Tensor,  # (sources, components)
    graph: tuple[Tensor, ...],  # int64 tensors, as in channelwise_conv
) -> dict[str, Tensor]:
    """Validate index tensors against the number of source rows and return them by name."""
    if len(graph) != len(GRAPH):
        raise ValueError(f"graph must hold {', '.join(GRAPH)}, got {len(graph)} tensors")
    named = dict(zip(GRAPH, graph, strict=True))
    check_edge_lists("x", x, named)
    return named


def channelwise_conv_reference(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    source: Tensor,
    ptr: Tensor,
    order: Tensor,
    target: Tensor,
    **table: Any,
) -> Tensor:
    """Reference implementation of :func:`channelwise_conv`, differentiable by PyTorch alone."""
    dtype = table["values"].dtype
    sent, edge_attr = x[source].to(dtype), y[order].to(dtype)
    weights = None if weight is None else weight[order].to(dtype)
    messages = channelwise_product_reference(sent, edge_attr, weights, **table)
    total = messages.new_zeros(ptr.shape[0] - 1, messages.shape[1]).index_add(0, target, messages)
    return total.to(x.dtype)


def channelwise_conv_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    source: Tensor,
    order: Tensor,
    target: Tensor,
    **table: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; a gradient of weights that is not wanted is empty."""
    dtype = table["values"].dtype
    arriving, sent, edge_attr = (row.to(dtype) for row in (grad[target], x[source], y[order]))
    weights = None if weight is None else weight[order].to(dtype)
    to_x, to_y, to_weight = channelwise_gradients_reference(
        arriving, sent, edge_attr, weights, **table
    )
    # Rows of y and of weights have one edge each, listed in another order; rows of x have many.
    to_x = to_x.new_zeros(x.shape).index_add(0, source, to_x)
    to_y = torch.zeros_like(to_y).index_copy(0, order, to_y)
    if to_weight.shape[1]:
        to_weight = torch.zeros_like(to_weight).index_copy(0, order, to_weight)
    return to_x.to(x.dtype), to_y.to(x.dtype), to_weight.to(x.dtype)


def _fake(x: Tensor, ptr: Tensor, dim_out: int) -> Tensor:
    """Return an empty result of the right shape, for any source of weights."""
    return x.new_empty(ptr.shape[0] - 1, check_row(dim_out))


_blocks = partial(blocks, indices=INDICES, offsets=OFFSETS)

channelwise_conv_op, channelwise_conv_backward = declare_product(
    PRODUCT_SCHEMA,
    channelwise_conv_reference,
    channelwise_conv_backward_reference,
    fake=_fake,
    batch=_blocks,
    bfloat16=True,
)

RADIAL_SCHEMA = (
    "radial_conv(Tensor x, Tensor y, Tensor hidden, Tensor radial, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, int dim_out, bool ir_mul) -> Tensor"
)

RADIAL = ("x", "y", "hidden", "radial")


@computes_in_float32
def radial_conv(
    x: Tensor,
    y: Tensor,
    hidden: Tensor,
    radial: Tensor,
    graph: tuple[Tensor, ...],
    table: PathTable,
) -> Tensor:
    """Convolve with the weights ``hidden @ radial``, which are never stored.

    Equals :func:`equigeo.ops.channelwise_conv` with that product. Other arguments: as there; all
    paths have weights. The gradient stores the weights.

    Parameters
    ----------
    hidden : Tensor, (edges, numbers)
        The numbers of each edge that ``radial`` maps to weights, invariant for equivariance.
    radial : Tensor, (numbers, table.dim_weight)
        The linear map, for example the last layer of a radial network.

    Examples
    --------
    >>> from equigeo.ops import Path, Segment
    >>> scalar = Segment.block(0, mul=1, d=1)
    >>> scale = Path(scalar, scalar, scalar, weight=0, coefficients=torch.ones(1, 1, 1))
    >>> table = PathTable.from_paths([scale], dims=(1, 1, 1, 1), by_output=True)
    >>> edge = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0])
    >>> back = torch.tensor([0]), torch.tensor([0]), torch.tensor([0, 1])
    >>> x, hidden = torch.ones(1, 1), torch.tensor([[2.0, 3.0]])
    >>> radial_conv(x, x, hidden, torch.tensor([[1.0], [10.0]]), (*edge, *back), table)
    tensor([[32.]])
    """
    named = check_graph(x, graph)
    features = {"x": x, "y": y, "hidden": hidden, "radial": radial}
    edges = named["source"].shape[0]
    wanted = {
        "x": (x.shape[0] if x.ndim else 0, table.dim_x),
        "y": (edges, table.dim_y),
        "hidden": (edges, hidden.shape[-1] if hidden.ndim else 0),
        "radial": (hidden.shape[-1] if hidden.ndim else 0, table.dim_weight),
    }
    check_operands(features, wanted)
    check_device(**features, **named, paths=table.paths)
    tables = (table.paths, table.entries, table.values.to(computed_in(x.dtype)))
    return radial_conv_op(x, y, hidden, radial, *graph, *tables, table.dim_out, table.ir_mul)


def radial_conv_reference(
    x: Tensor, y: Tensor, hidden: Tensor, radial: Tensor, **rest: Any
) -> Tensor:
    """Reference implementation of :func:`radial_conv`, differentiable by PyTorch alone."""
    return channelwise_conv_reference(x, y, hidden @ radial, **rest)


def _backward(
    grad: Tensor,
    *,
    needed: set[str],
    x: Tensor,
    y: Tensor,
    hidden: Tensor,
    radial: Tensor,
    dim_out: int,
    **rest: Any,
) -> Gradients:
    by_weight = not needed.isdisjoint(("hidden", "radial"))
    point = (grad, x, y, hidden @ radial)
    to_x, to_y, to_weight = channelwise_conv_backward(*point, *rest.values(), by_weight)
    if not by_weight:
        return {"x": to_x, "y": to_y}
    # Weights are a matrix product, and so are both of its gradients.
    to_hidden, to_radial = to_weight @ radial.mT, hidden.mT @ to_weight
    return {"x": to_x, "y": to_y, "hidden": to_hidden, "radial": to_radial}


def _batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
    rest, dims = share_the_rest(arguments, dims, allowed=RADIAL)
    hidden, radial = (in_front(rest.pop(name), dims[name], size) for name in ("hidden", "radial"))
    # Weights of each problem of the batch, which the convolution then takes.
    x, y, *graph_and_table = rest.values()
    given = {"x": x, "y": y, "weight": hidden @ radial}
    given |= dict(zip([*rest][2:], graph_and_table, strict=True))
    axes = {name: dims.get(name) for name in given} | {"weight": 0}
    return _blocks(OPERANDS)(declared("channelwise_conv"), size, given, axes)


radial_conv_op = declare(
    RADIAL_SCHEMA,
    reference=radial_conv_reference,
    fake=_fake,
    backward=_backward,
    forward=linear_in("radial_conv", RADIAL),
    batch=_batch,
)
