"""Product of every channel of a row with a small second operand, path by path."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.tensors import computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.multilinear import (
    channelwise,
    connected_gradients,
    connected_product,
    declare_product,
    product_arguments,
)

PRODUCT_SCHEMA = (
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
    arguments = product_arguments(x, y, weight, table)
    out: Tensor = channelwise_product_op(*arguments, table.ir_mul)
    return out


channelwise_product_reference = connected_product(channelwise)

channelwise_gradients_reference = connected_gradients(channelwise)

channelwise_product_op, _ = declare_product(
    PRODUCT_SCHEMA, channelwise_product_reference, channelwise_gradients_reference, bfloat16=True
)
