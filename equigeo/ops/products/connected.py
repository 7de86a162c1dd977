"""Products of rows along the paths of a table, by the connection of their channels."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.tensors import computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.multilinear import (
    CHANNELWISE,
    MIXED,
    connected,
    copywise,
    declare_product,
    product_arguments,
)

CHANNELWISE_PRODUCT_SCHEMA = (
    "channelwise_product(Tensor x, Tensor y, Tensor? weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out, bool ir_mul) -> Tensor"
)


@computes_in_float32
def channelwise_product(x: Tensor, y: Tensor, weight: Tensor | None, table: PathTable) -> Tensor:
    r"""Couple each channel of ``x`` with ``y`` without mixing channels.

    For every path and every channel ``u`` of its segment of ``x``

    .. math:: z_{uk} \mathrel{+}= \sum_v w_{uv} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj} .

    This and the other products are equivariant where the coefficients of every path couple
    representations. Returns a tensor (rows, table.dim_out), zero in components without a path.

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
    return channelwise_product_op(*arguments, table.ir_mul)


channelwise_product_reference, channelwise_gradients_reference = connected(lambda _: CHANNELWISE)

channelwise_product_op, _ = declare_product(
    CHANNELWISE_PRODUCT_SCHEMA,
    channelwise_product_reference,
    channelwise_gradients_reference,
    bfloat16=True,
)


COPYWISE_PRODUCT_SCHEMA = (
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

    Arguments, result and errors are those of :func:`~equigeo.ops.channelwise_product`, with one
    weight per copy of the output of a path.

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
    return copywise_product_op(*product_arguments(x, y, weight, table))


copywise_product_op, copywise_product_backward = declare_product(
    COPYWISE_PRODUCT_SCHEMA, *connected(copywise)
)


FULLY_CONNECTED_PRODUCT_SCHEMA = (
    "fully_connected_product(Tensor x, Tensor y, Tensor weight, Tensor paths, Tensor entries, "
    "Tensor values, int dim_out) -> Tensor"
)


@computes_in_float32
def fully_connected_product(x: Tensor, y: Tensor, weight: Tensor, table: PathTable) -> Tensor:
    r"""Couple all channels of ``x`` with all of ``y`` and mix them by weights per row.

    .. math:: z_{wk} \mathrel{+}= \sum_{uv} w_{uvw} \sum_{ij} C_{ijk}\, x_{ui}\, y_{vj}

    The connection ``uvw`` of e3nn, for different weights in every row. Where all rows have the same
    weights, a matrix product over all rows is faster. Returns a tensor (rows, table.dim_out).

    Parameters
    ----------
    x : Tensor, (rows, table.dim_x)
        First input, whose segments have 1, 3, ... or 13 components.
    y : Tensor, (rows, table.dim_y)
        Second input.
    weight : Tensor, (rows, table.dim_weight)
        Weights of every row: (mul, mul2, mul_out) for each path, none of them shared. Expanded
        rows are not copied.
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
    return fully_connected_product_op(*product_arguments(x, y, weight, table))


fully_connected_product_op, fully_connected_product_backward = declare_product(
    FULLY_CONNECTED_PRODUCT_SCHEMA, *connected(lambda _: MIXED)
)
