"""Polynomials of every channel of a row, with weights that depend on the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_reference import combine, evaluate
from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.polynomials.symmetric_contraction_backward import symmetric_contraction_backward
from equigeo.ops.polynomials.symmetric_contraction_double_backward import (
    symmetric_contraction_double_backward,
)
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.checks import check_device, check_features, check_index
from equigeo.ops.runtime.declare import Gradients, Tangents, declare
from equigeo.ops.runtime.storage import computed_in

SCHEMA = (
    "symmetric_contraction(Tensor x, Tensor weight, Tensor index, Tensor products, "
    "Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, int[] levels, int[] dims_in, "
    "int[] dims_out) -> Tensor"
)


@computes_in_float32
def symmetric_contraction(
    x: Tensor, weight: Tensor, index: Tensor, table: PolynomialTable
) -> Tensor:
    r"""Evaluate weighted polynomials of the variables of every channel.

    For row b, channel u and component m, with the set :math:`e = \mathrm{index}_b` of weights,

    .. math:: z_{bum} = \sum_k w_{eku} P_{km}(x_{bu}) .

    Equivariant where the polynomials of every weight are. Returns (rows, channels * components),
    laid out by ``table.dims_out``; zero in components without a polynomial.

    Parameters
    ----------
    x : Tensor, (rows, channels * variables)
        Variables, laid out by ``table.dims_in``.
    weight : Tensor, (sets, weights, channels)
        Sets of weights.
    index : Tensor, (rows,), int64
        Set of weights of each row.
    table : PolynomialTable
        The polynomials.

    Examples
    --------
    >>> from equigeo.ops.polynomials.polynomial_table import Polynomial, PolynomialTable
    >>> square = Polynomial(component=0, weight=0, coefficients={(0, 0): 1.0, (1, 1): 1.0})
    >>> table = PolynomialTable.from_polynomials([square], dims_in=(2,), dims_out=(1,))
    >>> x = torch.tensor([[3.0, 4.0], [1.0, 2.0]])
    >>> weight = torch.tensor([1.0, 10.0]).reshape(2, 1, 1)
    >>> symmetric_contraction(x, weight, torch.tensor([1, 0]), table).tolist()
    [[250.0], [5.0]]
    """
    _check(x, weight, index, table)
    tensors = table.products, table.polynomials, table.groups, table.nodes
    check_device(x=x, weight=weight, index=index, table=table.values)
    lists = list(table.levels), list(table.dims_in), list(table.dims_out)
    values = table.values.to(computed_in(x.dtype))
    return _op(x, weight, index, *tensors, values, *lists)


def _check(x: Tensor, weight: Tensor, index: Tensor, table: PolynomialTable) -> None:
    check_features("x", x, ("rows", "components"))
    check_features("weight", weight, ("sets", "weights", "channels"))
    if weight.dtype != x.dtype:
        raise TypeError(f"weight must have the dtype of x, {x.dtype}, got {weight.dtype}")
    check_index("index", index, length=(x.shape[0], "the rows of x"))
    if x.shape[1] != weight.shape[2] * sum(table.dims_in):
        raise ValueError(
            f"x must have {weight.shape[2]} channels of {sum(table.dims_in)} variables, "
            f"got shape {tuple(x.shape)}"
        )
    if weight.shape[0] == 0 and x.shape[0] > 0:
        raise ValueError("weight must have at least one set, got none")


def symmetric_contraction_reference(
    x: Tensor, weight: Tensor, index: Tensor, **table: Any
) -> Tensor:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    polynomials = PolynomialTable(**table)
    return combine(evaluate(x[None], weight[None], index, polynomials), polynomials)[0]


def _fake(x: Tensor, weight: Tensor, dims_out: Sequence[int]) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[2] * sum(dims_out))


def _backward(
    grad: Tensor, *, x: Tensor, weight: Tensor, index: Tensor, needed: set[str], **table: Any
) -> Gradients:
    order, ptr = _rows_of_sets(index, weight.shape[0])
    only_x = "weight" not in needed
    _, to_x, to_weight = symmetric_contraction_backward(
        grad, x, weight, order, ptr, *table.values(), only_x
    )
    return {"x": to_x} if only_x else {"x": to_x, "weight": to_weight}


def _forward(
    tangents: Tangents, *, x: Tensor, weight: Tensor, index: Tensor, **table: Any
) -> Tensor:
    order, ptr = _rows_of_sets(index, weight.shape[0])
    none = x.new_zeros(x.shape[0], weight.shape[2] * sum(table["dims_out"]))
    along = [
        tangents.get("x", torch.zeros_like(x)),
        tangents.get("weight", torch.zeros_like(weight)),
    ]
    # The derivative of <g, z> by g is the output z.
    found = symmetric_contraction_double_backward(
        none, x, weight, none, *along, order, ptr, *table.values()
    )
    change: Tensor = found[0]
    return change


def _rows_of_sets(index: Tensor, sets: int) -> tuple[Tensor, Tensor]:
    """Return the rows of each set of weights, for a deterministic sum of gradients per set."""
    sorted_index, order = torch.sort(index, stable=True)
    ptr = torch.searchsorted(sorted_index, torch.arange(sets + 1, device=index.device))
    return order, ptr


_op = declare(
    SCHEMA,
    reference=symmetric_contraction_reference,
    fake=_fake,
    backward=_backward,
    forward=_forward,
    batch=blocks(("x", "weight"), indices={"index": "weight"}),
)
