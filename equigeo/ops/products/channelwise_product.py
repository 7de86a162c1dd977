"""Product of every channel of a row with a small second operand, path by path."""

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
    channelwise,
    check_rows,
    composed_double_backward,
    connected_product,
    connected_product_backward,
    fake_double_backward,
    fake_product,
)
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in

SCHEMA = (
    "channelwise_product(Tensor x, Tensor y, Tensor? weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out, bool ir_mul) -> Tensor"
)


@computes_in_float32
def channelwise_product(x: Tensor, y: Tensor, weight: Tensor | None, table: PathTable) -> Tensor:
    r"""Couple each channel of ``x`` with ``y`` without mixing channels.

    For every path and every channel ``u`` of its segment of ``x``

    .. math:: z_{uk} \mathrel{+}= \sum_v w_{uv} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj} .

    The second operand is contracted into the coefficients once per row, which leaves a small matrix
    that acts on every channel. This and the other products are equivariant where the coefficients
    of every path couple representations. Returns a tensor (rows, table.dim_out), zero in components
    without a path.

    Parameters
    ----------
    x : Tensor, (rows, table.dim_x)
        First input.
    y : Tensor, (rows, table.dim_y)
        Second input, for example spherical harmonics of edges.
    weight : Tensor or None, (rows, table.dim_weight)
        Weights of every row; None where the paths have none. Expanded rows are not copied.
    table : PathTable
        The paths, sorted by output, where segments do not overlap: ``from_paths`` with
        ``by_output=True``. All segments are blocks of one layout. The kernels of the CPU raise
        ``RuntimeError`` for other tables, and for paths that leave their rows.

    Examples
    --------
    >>> import torch
    >>> from equigeo.ops.path_table import Path, Segment
    >>> eye = torch.eye(3)[..., None]
    >>> two, one = Segment.block(0, mul=2, d=3), Segment.block(0, mul=1, d=3)
    >>> dot = Path(two, one, Segment.block(0, mul=2, d=1), weight=0, coefficients=eye)
    >>> table = PathTable.from_paths([dot], dims=(6, 3, 2, 2), by_output=True)
    >>> x, y = torch.tensor([[1.0, 2, 3, 4, 5, 6]]), torch.tensor([[1.0, 1, 0]])
    >>> channelwise_product(x, y, torch.tensor([[1.0, 10.0]]), table)
    tensor([[ 3., 90.]])
    """
    tensors = check_rows(x, y, weight, table)
    check_device(**tensors, paths=table.paths, entries=table.entries, values=table.values)
    values = table.values.to(computed_in(x.dtype))
    return channelwise_product_op(
        x, y, weight, table.paths, table.entries, values, table.dim_out, table.ir_mul
    )


def channelwise_product_reference(
    x: Tensor, y: Tensor, weight: Tensor | None, dim_out: int, ir_mul: bool, **table: Tensor
) -> Tensor:
    """Reference implementation of :func:`channelwise_product`, differentiable by PyTorch alone."""
    return connected_product(x, y, weight, table, dim_out, channelwise)


BACKWARD_SCHEMA = (
    "channelwise_product_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, Tensor paths, "
    "Tensor entries, Tensor values, bool ir_mul) -> (Tensor, Tensor, Tensor)"
)


def channelwise_product_backward_reference(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, ir_mul: bool, **table: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reference implementation of the op; the gradient of missing weights is empty."""
    return connected_product_backward(grad, x, y, weight, table, channelwise)


DOUBLE_BACKWARD_SCHEMA = (
    "channelwise_product_double_backward(Tensor grad, Tensor x, Tensor y, Tensor? weight, "
    "Tensor? x_tangent, Tensor? y_tangent, Tensor? weight_tangent, Tensor paths, Tensor entries, "
    "Tensor values, bool ir_mul, bool by_grad, bool by_x, bool by_y, bool by_weight) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)

channelwise_product_double_backward = declare(
    DOUBLE_BACKWARD_SCHEMA,
    reference=composed_double_backward("channelwise_product"),
    fake=fake_double_backward,
    backward=backward_of_double_backward("channelwise_product"),
    batch=blocks(FEATURES),
    bfloat16=FEATURES,
)

channelwise_product_backward = declare(
    BACKWARD_SCHEMA,
    reference=channelwise_product_backward_reference,
    fake=like("x", "y", "weight"),
    backward=backward_by_double_backward(channelwise_product_double_backward),
    forward=gradients_linear_in("channelwise_product_backward", FORM),
    batch=blocks(FORM),
    bfloat16=FORM,
)

channelwise_product_op = declare(
    SCHEMA,
    reference=channelwise_product_reference,
    fake=fake_product,
    backward=backward_of_product(channelwise_product_backward),
    forward=linear_in("channelwise_product", OPERANDS),
    batch=blocks(OPERANDS),
    bfloat16=OPERANDS,
)
