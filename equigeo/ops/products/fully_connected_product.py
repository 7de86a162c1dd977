"""Product that couples all channels of two features and mixes them, with weights of every row."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.checks import check_device
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.multilinear import (
    FEATURES,
    FORM,
    OPERANDS,
    backward_by_double_backward,
    backward_of_double_backward,
    backward_of_product,
    check_rows,
    composed_double_backward,
    connected_product,
    connected_product_backward,
    fake_double_backward,
    fake_product,
    fully_connected,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in

SCHEMA = (
    "fully_connected_product(Tensor x, Tensor y, Tensor weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out) -> Tensor"
)


@computes_in_float32
def fully_connected_product(x: Tensor, y: Tensor, weight: Tensor, table: PathTable) -> Tensor:
    r"""Couple all channels of ``x`` with all of ``y`` and mix them by weights per row.

    .. math:: z_{wk} \mathrel{+}= \sum_{uv} w_{uvw} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj}

    The connection ``uvw`` of e3nn, for different weights in every row, whose reading dominates the
    time: a row's couplings are computed first, and each weight is read once. Where all rows have
    the same weights, a matrix product over all rows is faster. Returns a tensor
    (rows, table.dim_out).

    Parameters
    ----------
    x : Tensor, (rows, table.dim_x)
        First input, whose segments have 1, 3, ... or 13 components.
    y : Tensor, (rows, table.dim_y)
        Second input.
    weight : Tensor, (rows, table.dim_weight)
        Weights of every row: (mul, mul2, mul_out) for each path, none of them shared.
    table : PathTable
        The paths, all weighted; segments of the output have 1, 3, ... or 13 components and do not
        overlap.

    Examples
    --------
    >>> import torch
    >>> from equigeo.ops.path_table import Path, Segment
    >>> dot = torch.eye(3)[..., None]
    >>> x, y, z = Segment.block(0, 2, 3), Segment.block(0, 1, 3), Segment.block(0, 1, 1)
    >>> path = Path(x, y, z, weight=0, coefficients=dot)
    >>> table = PathTable.from_paths([path], dims=(6, 3, 2, 1))
    >>> x, y = torch.tensor([[1.0, 2, 3, 4, 5, 6]]), torch.tensor([[1.0, 10, 100]])
    >>> fully_connected_product(x, y, torch.tensor([[1.0, 1000]]), table)
    tensor([[654321.]])
    """
    operands = check_rows(x, y, weight, table)
    check_device(**operands, paths=table.paths, entries=table.entries, values=table.values)
    values = table.values.to(computed_in(x.dtype))
    return fully_connected_product_op(
        x, y, weight, table.paths, table.entries, values, table.dim_out
    )


def fully_connected_product_reference(
    x: Tensor, y: Tensor, weight: Tensor, dim_out: int, **table: Tensor
) -> Tensor:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    return connected_product(x, y, weight, table, dim_out, fully_connected)


BACKWARD_SCHEMA = (
    "fully_connected_product_backward(Tensor grad, Tensor x, Tensor y, Tensor weight, "
    "Tensor paths, Tensor entries, Tensor values) -> (Tensor, Tensor, Tensor)"
)


def fully_connected_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op."""
    return connected_product_backward(grad, x, y, weight, table, fully_connected)


DOUBLE_BACKWARD_SCHEMA = (
    "fully_connected_product_double_backward(Tensor grad, Tensor x, Tensor y, Tensor weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor paths, Tensor entries, "
    "Tensor values, bool by_grad, bool by_x, bool by_y, bool by_weight) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)

fully_connected_product_double_backward = declare(
    DOUBLE_BACKWARD_SCHEMA,
    reference=composed_double_backward("fully_connected_product"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("fully_connected_product"),
    batch=blocks(FEATURES),
)

fully_connected_product_backward = declare(
    BACKWARD_SCHEMA,
    reference=fully_connected_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(fully_connected_product_double_backward),
    forward=gradients_linear_in("fully_connected_product_backward", FORM),
    batch=blocks(FORM),
)

fully_connected_product_op = declare(
    SCHEMA,
    reference=fully_connected_product_reference,
    fake=fake_product,
    backward=backward_of_product(fully_connected_product_backward),
    forward=linear_in("fully_connected_product", OPERANDS),
    batch=blocks(OPERANDS),
)
