"""Product that couples all channels of two features and mixes them, with weights of every row."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.tensors import computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.multilinear import (
    connected_gradients,
    connected_product,
    declare_product,
    fully_connected,
    product_arguments,
)

PRODUCT_SCHEMA = (
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
    out: Tensor = fully_connected_product_op(*product_arguments(x, y, weight, table))
    return out


fully_connected_product_op, fully_connected_product_backward = declare_product(
    PRODUCT_SCHEMA, connected_product(fully_connected), connected_gradients(fully_connected)
)
