"""Product of pairs of copies of two features, each with its own coupling."""

from __future__ import annotations

from torch import Tensor

from equigeo._core.tensors import computes_in_float32
from equigeo.ops.path_table import PathTable
from equigeo.ops.products.multilinear import (
    connected_gradients,
    connected_product,
    copywise,
    declare_product,
    product_arguments,
)

PRODUCT_SCHEMA = (
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
    out: Tensor = copywise_product_op(*product_arguments(x, y, weight, table))
    return out


copywise_product_op, copywise_product_backward = declare_product(
    PRODUCT_SCHEMA, connected_product(copywise), connected_gradients(copywise)
)
