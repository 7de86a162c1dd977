"""Product of pairs of copies of two features, each with its own coupling."""

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
    copywise,
    fake_double_backward,
    fake_product,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in

SCHEMA = (
    "copywise_product(Tensor x, Tensor y, Tensor? weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out) -> Tensor"
)


@computes_in_float32
def copywise_product(x: Tensor, y: Tensor, weight: Tensor | None, table: PathTable) -> Tensor:
    r"""Couple copies of ``x`` with copies of ``y`` without mixing.

    A path whose output has ``mul * mul2`` copies couples all pairs (``uvuv`` in e3nn), one whose
    output has ``mul = mul2`` copies couples them one by one (``uuu``):

    .. math::
        z_{uvk} \mathrel{+}= w_{uv} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj}, \qquad
        z_{uk} \mathrel{+}= w_u \sum_{ij} C_{ijk}\, x_{ui}\, y_{uj} .

    Paths from one pair of segments share the products :math:`x_{ui} y_{vj}`, and only nonzero
    coefficients are read. Arguments, result and errors are those of
    :func:`~equigeo.ops.channelwise_product`, with one weight per copy of the output of a path.

    Examples
    --------
    >>> import torch
    >>> from equigeo.ops.path_table import Path, Segment
    >>> dot = torch.eye(2)[..., None]
    >>> x, y, z = Segment.block(0, 2, 2), Segment.block(0, 1, 2), Segment.block(0, 2, 1)
    >>> pairs = Path(x, y, z, weight=None, coefficients=dot)
    >>> table = PathTable.from_paths([pairs], dims=(4, 2, 0, 2))
    >>> copywise_product(torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[1.0, 10]]), None, table)
    tensor([[21., 43.]])
    """
    operands = check_rows(x, y, weight, table)
    check_device(**operands, paths=table.paths, entries=table.entries, values=table.values)
    values = table.values.to(computed_in(x.dtype))
    return copywise_product_op(x, y, weight, table.paths, table.entries, values, table.dim_out)


def copywise_product_reference(
    x: Tensor, y: Tensor, weight: Tensor | None, dim_out: int, **table: Tensor
) -> Tensor:
    """Reference implementation of :func:`copywise_product`, differentiable by PyTorch alone."""
    return connected_product(x, y, weight, table, dim_out, copywise)


BACKWARD_SCHEMA = (
    "copywise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values) -> (Tensor, Tensor, Tensor)"
)


def copywise_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; no weights have an empty gradient."""
    return connected_product_backward(grad, x, y, weight, table, copywise)


DOUBLE_BACKWARD_SCHEMA = (
    "copywise_product_double_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor paths, Tensor entries, "
    "Tensor values, bool by_grad, bool by_x, bool by_y, bool by_weight) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)

copywise_product_double_backward = declare(
    DOUBLE_BACKWARD_SCHEMA,
    reference=composed_double_backward("copywise_product"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("copywise_product"),
    batch=blocks(FEATURES),
)

copywise_product_backward = declare(
    BACKWARD_SCHEMA,
    reference=copywise_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(copywise_product_double_backward),
    forward=gradients_linear_in("copywise_product_backward", FORM),
    batch=blocks(FORM),
)

copywise_product_op = declare(
    SCHEMA,
    reference=copywise_product_reference,
    fake=fake_product,
    backward=backward_of_product(copywise_product_backward),
    forward=linear_in("copywise_product", OPERANDS),
    batch=blocks(OPERANDS),
)
