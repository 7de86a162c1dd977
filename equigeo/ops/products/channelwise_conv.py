"""A channelwise product on every edge, summed at the targets, without a message in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_edge_lists, check_row
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.channelwise_product import (
    channelwise_product_backward_reference,
    channelwise_product_reference,
)
from equigeo.ops.products.multilinear import (
    FEATURES,
    FORM,
    OPERANDS,
    backward_by_double_backward,
    backward_of_double_backward,
    backward_of_product,
    check_rows,
    composed_double_backward,
    fake_double_backward,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in

GRAPH = ("source", "ptr", "order", "target", "back_order", "back_ptr")
"""As :class:`equigeo.graphs.EdgeIndex` has them."""

OFFSETS = ("ptr", "back_ptr")
"""Those that say where the edges of a node begin."""

INDICES = {
    "source": "x",
    "order": "y",
    "target": "ptr",
    "back_order": "source",
}
"""What the others count."""

SCHEMA = (
    "channelwise_conv(Tensor x, Tensor y, Tensor? weight, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, int dim_out, bool ir_mul) -> Tensor"
)


@computes_in_float32
def channelwise_conv(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    graph: tuple[Tensor, ...],
    table: PathTable,
) -> Tensor:
    r"""Gather source rows, couple them with edge features and sum at the targets.

    .. math:: z_t = \sum_{e \to t} \mathrm{product}(x_{s(e)}, y_e, w_e)

    with the product of :func:`equigeo.ops.channelwise_product`. Each target adds its own edges, so
    no message is stored and no atomic addition needed; the gradient of the sources runs over the
    same edges listed by source. Returns a tensor (targets, table.dim_out).

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
    >>> import torch
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
    named = check_graph(x, graph)
    edges = named["source"].shape[0]
    tensors = check_rows(x, y, weight, table, rows=edges)
    check_device(**tensors, **named, paths=table.paths)
    values = table.values.to(computed_in(x.dtype))
    return channelwise_conv_op(
        x, y, weight, *graph, table.paths, table.entries, values, table.dim_out, table.ir_mul
    )


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
    **rest: Any,
) -> Tensor:
    """Reference implementation of :func:`channelwise_conv`, differentiable by PyTorch alone."""
    table = {name: rest[name] for name in ("paths", "entries", "values", "dim_out", "ir_mul")}
    dtype = table["values"].dtype
    sent, edge_attr = x[source].to(dtype), y[order].to(dtype)
    weights = None if weight is None else weight[order].to(dtype)
    messages = channelwise_product_reference(sent, edge_attr, weights, **table)
    total = messages.new_zeros(ptr.shape[0] - 1, messages.shape[1]).index_add(0, target, messages)
    return total.to(x.dtype)


def fake_conv(x: Tensor, ptr: Tensor, dim_out: int) -> Tensor:
    """Return an empty result of the right shape, for any source of weights."""
    return x.new_empty(ptr.shape[0] - 1, check_row(dim_out))


BACKWARD_SCHEMA = (
    "channelwise_conv_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor source, "
    "Tensor ptr, Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul) -> (Tensor, Tensor, Tensor)"
)


def channelwise_conv_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    source: Tensor,
    order: Tensor,
    target: Tensor,
    **rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; the gradient of missing weights is empty."""
    table = {name: rest[name] for name in ("paths", "entries", "values", "ir_mul")}
    dtype = table["values"].dtype
    arriving, sent, edge_attr = (row.to(dtype) for row in (grad[target], x[source], y[order]))
    weights = None if weight is None else weight[order].to(dtype)
    to_x, to_y, to_weight = channelwise_product_backward_reference(
        arriving, sent, edge_attr, weights, **table
    )
    # Rows of y and of weights have one edge each, listed in another order; rows of x have many.
    to_x = to_x.new_zeros(x.shape).index_add(0, source, to_x)
    to_y = torch.zeros_like(to_y).index_copy(0, order, to_y)
    if weight is not None:
        to_weight = torch.zeros_like(to_weight).index_copy(0, order, to_weight)
    return to_x.to(x.dtype), to_y.to(x.dtype), to_weight.to(x.dtype)


DOUBLE_BACKWARD_SCHEMA = (
    "channelwise_conv_double_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor source, Tensor ptr, "
    "Tensor order, Tensor target, Tensor back_order, Tensor back_ptr, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul, bool by_grad, bool by_x, bool by_y, "
    "bool by_weight) -> (Tensor, Tensor, Tensor, Tensor)"
)

channelwise_conv_double_backward = declare(
    DOUBLE_BACKWARD_SCHEMA,
    reference=composed_double_backward("channelwise_conv"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("channelwise_conv"),
    batch=blocks(FEATURES, indices=INDICES, offsets=OFFSETS),
    bfloat16=FEATURES,
)

channelwise_conv_backward = declare(
    BACKWARD_SCHEMA,
    reference=channelwise_conv_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(channelwise_conv_double_backward),
    forward=gradients_linear_in("channelwise_conv_backward", FORM),
    batch=blocks(FORM, indices=INDICES, offsets=OFFSETS),
    bfloat16=FORM,
)

channelwise_conv_op = declare(
    SCHEMA,
    reference=channelwise_conv_reference,
    fake=fake_conv,
    backward=backward_of_product(channelwise_conv_backward),
    forward=linear_in("channelwise_conv", OPERANDS),
    batch=blocks(OPERANDS, indices=INDICES, offsets=OFFSETS),
    bfloat16=OPERANDS,
)
