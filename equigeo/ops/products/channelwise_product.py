"""Product of every channel of a row with one small second operand, path by path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.path_table import PathTable
from equigeo.ops.products.channelwise_product_backward import channelwise_product_backward
from equigeo.ops.products.check_rows import check_rows
from equigeo.ops.products.connected_reference import channelwise, connected_product
from equigeo.ops.runtime.checks import check_device
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "channelwise_product(Tensor x, Tensor y, Tensor? weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out, bool ir_mul) -> Tensor"
)


def channelwise_product(x: Tensor, y: Tensor, weight: Tensor | None, table: PathTable) -> Tensor:
    r"""Couple the channels of ``x`` with ``y``, keeping the channels apart.

    For every path and every channel ``u`` of its segment of ``x``

    .. math:: z_{uk} \mathrel{+}= \sum_v w_{uv} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj} .

    The second operand is contracted into the coefficients once per row; what is left is a small
    matrix that acts on every channel.

    Parameters
    ----------
    x : Tensor, (rows, table.dim_x), float32, float64 or bfloat16
        First input. What is stored in bfloat16 is computed in float32.
    y : Tensor, (rows, table.dim_y)
        Second input, for example spherical harmonics of edges.
    weight : Tensor or None, (rows, table.dim_weight)
        Weights of every row; None where the paths have none.
    table : PathTable
        The paths, sorted by output, where segments do not overlap: ``from_paths`` with
        ``by_output=True``. All segments are blocks of one layout.

    Returns
    -------
    Tensor, (rows, table.dim_out)
        Zero where no path leads.

    Raises
    ------
    TypeError
        If dtypes differ or are neither float32 nor float64.
    ValueError
        If shapes or devices do not fit together.
    RuntimeError
        If a path leaves its row or its segments have another layout, on the CPU with compiled
        kernels.

    Equivariance
    ------------
    Equivariant where the coefficients of every path couple representations.

    Examples
    --------
    >>> from equigeo.ops.path_table import Path, Segment
    >>> eye = torch.eye(3)[..., None]
    >>> two, one = Segment.block(0, mul=2, d=3), Segment.block(0, mul=1, d=3)
    >>> dot = Path(two, one, Segment.block(0, mul=2, d=1), weight=0, coefficients=eye)
    >>> table = PathTable.from_paths([dot], dims=(6, 3, 2, 2), by_output=True)
    >>> x, y = torch.tensor([[1.0, 2, 3, 4, 5, 6]]), torch.tensor([[1.0, 1, 0]])
    >>> channelwise_product(x, y, torch.tensor([[1.0, 10.0]]), table)
    tensor([[ 3., 90.]])
    """
    tensors = check_rows(x, y, weight, table, bfloat16=True)
    check_device(**tensors, paths=table.paths, entries=table.entries, values=table.values)
    values = table.values.to(computed_in(x.dtype))
    return _op(x, y, weight, table.paths, table.entries, values, table.dim_out, table.ir_mul)


def channelwise_product_reference(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
    dim_out: int,
    ir_mul: bool,
) -> Tensor:
    """Readable body of :func:`channelwise_product`, differentiable by PyTorch alone."""
    dtype = x.dtype
    x, y = x.to(values.dtype), y.to(values.dtype)
    weight = None if weight is None else weight.to(values.dtype)
    table = paths, entries, values
    return connected_product(x, y, weight, table, dim_out, channelwise).to(dtype)


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Tell in what features of a dtype are computed, and their coefficients given."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def _fake(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    paths: Tensor,
    entries: Tensor,
    values: Tensor,
    dim_out: int,
    ir_mul: bool,
) -> Tensor:
    return x.new_empty(x.shape[0], dim_out)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.ir_mul = inputs[7]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y, weight, *table = ctx.saved_tensors
    to_x, to_y, to_weight = channelwise_product_backward(grad, x, y, weight, *table, ctx.ir_mul)
    return to_x, to_y, None if weight is None else to_weight, *(None,) * 5


_op = declare(
    SCHEMA,
    reference=channelwise_product_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
