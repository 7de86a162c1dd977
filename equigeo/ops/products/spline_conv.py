"""A channelwise convolution whose weights are splines, evaluated per edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_operands, check_row
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.channelwise_conv import (
    GRAPH,
    channelwise_conv_backward,
    channelwise_conv_backward_reference,
    channelwise_conv_op,
    channelwise_conv_reference,
    check_graph,
)
from equigeo.ops.runtime.batching import Batched, in_front, share_the_rest
from equigeo.ops.runtime.declare import declare, declared
from equigeo.ops.runtime.tape import Gradients

SPLINE_SCHEMA = (
    "spline_conv(Tensor x, Tensor y, Tensor position, Tensor first, Tensor basis, "
    "Tensor coefficients, Tensor source, Tensor ptr, Tensor order, Tensor target, "
    "Tensor back_order, Tensor back_ptr, Tensor paths, Tensor entries, Tensor values, "
    "int dim_out, bool ir_mul) -> Tensor"
)
SPLINE_BACKWARD_SCHEMA = (
    "spline_conv_backward(Tensor grad, Tensor x, Tensor y, Tensor position, Tensor first, "
    "Tensor basis, Tensor coefficients, Tensor source, Tensor ptr, Tensor order, Tensor target, "
    "Tensor back_order, Tensor back_ptr, Tensor paths, Tensor entries, Tensor values, "
    "bool ir_mul, bool by_x) -> (Tensor, Tensor, Tensor)"
)

FEATURES = ("grad", "x", "y", "position")
"""The arguments with a gradient."""

SPLINE = ("position", "first", "basis", "coefficients")
"""The arguments that make weights."""

REST = (*GRAPH, "paths", "entries", "values", "ir_mul")
"""The arguments of the convolution besides its operands."""


@computes_in_float32
def spline_conv(
    x: Tensor,
    y: Tensor,
    spline: tuple[Tensor, Tensor, Tensor, Tensor],
    graph: tuple[Tensor, ...],
    table: PathTable,
) -> Tensor:
    r"""Convolve with weights that are splines of one number per edge, and are never stored.

    .. math:: w_e = c_{\mathrm{first}_e} + \sum_n b_n(t_e) \, d_{\mathrm{first}_e + n}, \qquad
              b_n(t) = \sum_k \mathrm{basis}_{kn} t^k

    Equals :func:`equigeo.ops.channelwise_conv` with these weights; all paths have weights. Other
    arguments: as there.

    Parameters
    ----------
    spline : tuple of Tensor
        ``position`` (edges,), :math:`t`; ``first`` (edges,) int64; ``basis``
        (functions + 1, functions) with at most 16 functions; and the coefficients :math:`c` and
        :math:`d` (2, rows, columns) with at least ``table.dim_weight`` columns. A multiple of 16
        saves a copy. Basis and coefficients are constants without a gradient. Derivatives depend
        on :math:`d` alone: for splines, the differences of neighbouring :math:`c`, which have
        small rounding errors.

    Examples
    --------
    >>> import torch
    >>> from equigeo.ops import Path, Segment
    >>> scalar = Segment.block(0, mul=1, d=1)
    >>> scale = Path(scalar, scalar, scalar, weight=0, coefficients=torch.ones(1, 1, 1))
    >>> table = PathTable.from_paths([scale], dims=(1, 1, 1, 1), by_output=True)
    >>> edge = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0])
    >>> back = torch.tensor([0]), torch.tensor([0]), torch.tensor([0, 1])
    >>> line, values = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0], [3.0]])
    >>> coefficients = torch.stack([values[:-1], values.diff(dim=0)])
    >>> spline = torch.tensor([0.25]), torch.tensor([1]), line, coefficients
    >>> spline_conv(torch.ones(1, 1), torch.ones(1, 1), spline, (*edge, *back), table)
    tensor([[1.5000]])
    """
    named = check_graph(x, graph)
    position, first, basis, coefficients = spline
    edges = named["source"].shape[0]
    features = {
        "x": x, "y": y, "position": position, "basis": basis, "coefficients": coefficients
    }  # fmt: skip
    functions = basis.shape[-1] if basis.ndim else 0
    rows, columns = coefficients.shape[1:] if coefficients.ndim == 3 else (0, 0)
    wanted = {
        "x": (x.shape[0] if x.ndim else 0, table.dim_x),
        "y": (edges, table.dim_y),
        "position": (edges,),
        "basis": (functions + 1, functions),
        "coefficients": (2, max(rows, functions), max(columns, table.dim_weight)),
    }
    check_operands(features, wanted)
    if first.shape != (edges,) or first.dtype != torch.int64:
        raise ValueError(f"first must be ({edges},) int64, got {tuple(first.shape)} {first.dtype}")
    check_device(**features, first=first, **named, paths=table.paths)
    values = table.values.to(computed_in(x.dtype))
    tail = (*graph, table.paths, table.entries, values, table.dim_out, table.ir_mul)
    return spline_conv_op(x, y, *spline, *tail)


def spline_weights(
    position: Tensor,
    first: Tensor,
    basis: Tensor,
    coefficients: Tensor,
    *,
    order: int = 0,  # of the derivative by the position
) -> Tensor:
    """Return the weights of all edges, (edges, columns), or derivatives of them."""
    starts, steps = coefficients
    for _ in range(order):
        powers = torch.arange(basis.shape[0], device=basis.device, dtype=basis.dtype)
        basis = (powers[:, None] * basis)[1:]
    values = basis.new_zeros(position.shape[0], basis.shape[1])
    for row in basis.flip(0):  # Horner's rule
        values = torch.addcmul(row, values, position[:, None])
    total = starts.index_select(0, first) if not order else values.new_zeros(len(values), 1)
    for n in range(values.shape[1]):
        total = torch.addcmul(total, values[:, n, None], steps.index_select(0, first + n))
    return total


def spline_conv_reference(
    x: Tensor,
    y: Tensor,
    position: Tensor,
    first: Tensor,
    basis: Tensor,
    coefficients: Tensor,
    **rest: Any,
) -> Tensor:
    """Reference implementation of :func:`spline_conv`, differentiable by PyTorch alone."""
    weight = spline_weights(position, first, basis, coefficients)
    return channelwise_conv_reference(x, y, weight, **rest)


def spline_conv_backward_reference(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    position: Tensor,
    first: Tensor,
    basis: Tensor,
    coefficients: Tensor,
    by_x: bool,
    **rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; the gradient of ``x`` is empty unless wanted."""
    spline: Any = (position, first, basis, coefficients)
    weight, slope = spline_weights(*spline), spline_weights(*spline, order=1)
    to_x, to_y, to_weight = channelwise_conv_backward_reference(
        grad, x, y, weight, by_weight=True, **rest
    )
    return (to_x if by_x else x.new_zeros(0, 0)), to_y, (to_weight * slope).sum(1)


def _fake(x: Tensor, ptr: Tensor, dim_out: int) -> Tensor:
    return x.new_empty(ptr.shape[0] - 1, check_row(dim_out))


def _fake_backward(x: Tensor, y: Tensor, position: Tensor, by_x: bool) -> tuple[Tensor, ...]:
    to_x = x.new_empty(x.shape if by_x else (0, 0))
    return to_x, y.new_empty(y.shape), position.new_empty(position.shape)


def _backward(
    grad: Tensor, *, differentiable: set[str], dim_out: int, **arguments: Any
) -> Gradients:
    by_x = "x" in differentiable
    to_x, to_y, to_position = spline_conv_backward(grad, *arguments.values(), by_x)
    return {"x": to_x if by_x else None, "y": to_y, "position": to_position}


def _double_backward(
    to_x: Tensor | None = None,
    to_y: Tensor | None = None,
    to_position: Tensor | None = None,
    *,
    differentiable: set[str],
    by_x: bool,
    **arguments: Any,
) -> Gradients:
    # The gradient by the position is that by the weights w(t) times w'(t).
    grad, x, y = (arguments[name] for name in FEATURES[:3])
    spline: Any = [arguments[name] for name in SPLINE]
    rest = [arguments[name] for name in REST]
    point, slope = (grad, x, y, spline_weights(*spline)), spline_weights(*spline, order=1)
    along = None if to_position is None else to_position[:, None] * slope
    wanted = [name in differentiable for name in FEATURES]
    op = declared("channelwise_conv_double_backward")
    found = list(op(*point, to_x if by_x else None, to_y, along, *rest, *wanted))
    if wanted[-1]:
        found[-1] = (found[-1] * slope).sum(1)
        if to_position is not None:
            to_weight = channelwise_conv_backward(*point, *rest, True)[2]
            curvature = (to_weight * spline_weights(*spline, order=2)).sum(1)
            found[-1] = found[-1] + to_position * curvature
    return {name: part for name, part, of in zip(FEATURES, found, wanted, strict=True) if of}


def _in_memory(
    size: int, arguments: dict[str, Any], dims: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Return arguments and batch axes of the convolution with weights, and the splines."""
    rest, dims = share_the_rest(arguments, dims, allowed=FEATURES)
    positions = in_front(rest["position"], dims["position"], size)
    first, basis, coefficients = (rest.pop(name) for name in ("first", "basis", "coefficients"))
    splines = [(position, first, basis, coefficients) for position in positions]
    rest["position"] = torch.stack([spline_weights(*spline) for spline in splines])
    return rest, {**dims, "position": 0}, splines


def _batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
    given, dims, _ = _in_memory(size, arguments, dims)
    in_dims = tuple(dims[name] for name in given)
    return torch.vmap(channelwise_conv_op, in_dims=in_dims)(*given.values()), 0


def _batch_backward(
    op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]
) -> Batched:
    given, dims, splines = _in_memory(size, arguments, dims)
    by_x = given.pop("by_x")
    in_dims = tuple(dims[name] for name in given)
    found = torch.vmap(channelwise_conv_backward, in_dims=(*in_dims, None))(*given.values(), True)
    slopes = torch.stack([spline_weights(*spline, order=1) for spline in splines])
    to_x = found[0] if by_x else slopes.new_zeros(size, 0, 0)
    return (to_x, found[1], (found[2] * slopes).sum(2)), (0, 0, 0)


spline_conv_backward = declare(
    SPLINE_BACKWARD_SCHEMA,
    reference=spline_conv_backward_reference,
    fake=_fake_backward,
    backward=_double_backward,
    batch=_batch_backward,
    rest=(*FEATURES[:3], *SPLINE, *REST),
)
spline_conv_op = declare(
    SPLINE_SCHEMA, reference=spline_conv_reference, fake=_fake, backward=_backward, batch=_batch
)
