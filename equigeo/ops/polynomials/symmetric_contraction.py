"""Polynomials of every channel of a row, with weights that depend on the row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_reference import combine, evaluate
from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.polynomials.symmetric_contraction_backward import symmetric_contraction_backward
from equigeo.ops.runtime.checks import check_device, check_features, check_index
from equigeo.ops.runtime.declare import declare

SCHEMA = (
    "symmetric_contraction(Tensor x, Tensor weight, Tensor index, Tensor products, "
    "Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, int[] levels, int[] dims_in, "
    "int[] dims_out) -> Tensor"
)


def symmetric_contraction(
    x: Tensor, weight: Tensor, index: Tensor, table: PolynomialTable
) -> Tensor:
    r"""Evaluate weighted polynomials of the variables of every channel.

    For row b, channel u and component m, with the set :math:`e = \mathrm{index}_b` of weights,

    .. math:: z_{bum} = \sum_k w_{eku} P_{km}(x_{bu}) .

    Parameters
    ----------
    x : Tensor, (rows, channels * variables), float32 or float64
        Variables, laid out by ``table.dims_in``.
    weight : Tensor, (sets, weights, channels)
        Sets of weights.
    index : Tensor, (rows,), int64
        Which set a row takes.
    table : PolynomialTable
        The polynomials.

    Returns
    -------
    Tensor, (rows, channels * components)
        Laid out by ``table.dims_out``; zero where no polynomial leads.

    Raises
    ------
    TypeError
        If dtypes differ or are not those above.
    ValueError
        If shapes or devices do not fit together.
    RuntimeError
        If an index or the table points outside of what there is, on the CPU with compiled kernels.

    Equivariance
    ------------
    Equivariant where the polynomials of every weight are.

    Examples
    --------
    >>> from equigeo.ops.polynomials.polynomial_table import Polynomial, PolynomialTable
    >>> square = Polynomial(component=0, weight=0, coefficients={(0, 0): 1.0, (1, 1): 1.0})
    >>> table = PolynomialTable.from_polynomials([square], dims_in=(2,), dims_out=(1,))
    >>> x = torch.tensor([[3.0, 4.0], [1.0, 2.0]])
    >>> weight = torch.tensor([1.0, 10.0]).reshape(2, 1, 1)
    >>> symmetric_contraction(x, weight, torch.tensor([1, 0]), table)
    tensor([[250.],
            [  5.]])
    """
    _check(x, weight, index, table)
    tensors = table.products, table.polynomials, table.groups, table.nodes
    check_device(x=x, weight=weight, index=index, table=table.values)
    lists = list(table.levels), list(table.dims_in), list(table.dims_out)
    return _op(x, weight, index, *tensors, table.values.to(x.dtype), *lists)


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
    x: Tensor, weight: Tensor, index: Tensor, *table: Any
) -> Tensor:
    """Readable body of :func:`symmetric_contraction`, differentiable by PyTorch alone."""
    polynomials = PolynomialTable(*table)
    return combine(evaluate(x[None], weight[None], index, polynomials), polynomials)[0]


def _fake(x: Tensor, weight: Tensor, index: Tensor, *table: Any) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[2] * sum(table[-1]))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:8])
    ctx.lists = inputs[8:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, index, *table = ctx.saved_tensors
    sorted_index, order = torch.sort(index, stable=True)
    sets = torch.arange(weight.shape[0] + 1, device=index.device)
    ptr = torch.searchsorted(sorted_index, sets)
    only_x = not ctx.needs_input_grad[1]
    _, to_x, to_weight = symmetric_contraction_backward(
        grad, x, weight, order, ptr, *table, *ctx.lists, only_x
    )
    return to_x, None if only_x else to_weight, *(None,) * 9


_op = declare(
    SCHEMA,
    reference=symmetric_contraction_reference,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
)
