"""Polynomials of every channel of a row, with weights that depend on the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features, check_index
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.ops.edges.gather_sum import segment_of_rows
from equigeo.ops.polynomial_table import PolynomialTable
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.runtime.tape import Gradients, Tangents

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
    >>> from equigeo.ops.polynomial_table import Polynomial, PolynomialTable
    >>> square = Polynomial(component=0, weight=0, coefficients={(0, 0): 1.0, (1, 1): 1.0})
    >>> table = PolynomialTable.from_polynomials([square], dims_in=(2,), dims_out=(1,))
    >>> x = torch.tensor([[3.0, 4.0], [1.0, 2.0]])
    >>> weight = torch.tensor([1.0, 10.0]).reshape(2, 1, 1)
    >>> symmetric_contraction(x, weight, torch.tensor([1, 0]), table).tolist()
    [[250.0], [5.0]]
    """
    check_features("x", x, ("rows", "components"))
    check_features("weight", weight, ("sets", "weights", "channels"))
    check_dtype("weight", weight, "x", x)
    check_index("index", index, length=(x.shape[0], "the rows of x"))
    if x.shape[1] != weight.shape[2] * sum(table.dims_in):
        raise ValueError(
            f"x must have {weight.shape[2]} channels of {sum(table.dims_in)} variables, "
            f"got shape {tuple(x.shape)}"
        )
    if weight.shape[0] == 0 and x.shape[0] > 0:
        raise ValueError("weight must have at least one set, got none")
    tensors = table.products, table.polynomials, table.groups, table.nodes
    check_device(x=x, weight=weight, index=index, table=table.values)
    lists = list(table.levels), list(table.dims_in), list(table.dims_out)
    values = table.values.to(computed_in(x.dtype))
    return symmetric_contraction_op(x, weight, index, *tensors, values, *lists)


@dataclass(frozen=True)
class Evaluation:
    """Intermediate values from variables to polynomials, each (jet, count, rows, channels)."""

    nodes: Tensor
    factors: Tensor
    inner: Tensor
    polynomials: Tensor
    weights: Tensor


def symmetric_contraction_reference(
    x: Tensor, weight: Tensor, index: Tensor, **table: Any
) -> Tensor:
    """Reference implementation of the op, differentiable by PyTorch alone."""
    polynomials = PolynomialTable(**table)
    return combine(evaluate(x[None], weight[None], index, polynomials), polynomials)[0]


def evaluate(
    x: Tensor,  # (jet, rows, channels * variables)
    weight: Tensor,  # (jet, sets, weights, channels)
    index: Tensor,  # (rows,), int64: set of weights of each row
    table: PolynomialTable,
) -> Evaluation:
    """Evaluate all polynomials and select the weight of each per row."""
    variables = split_row(x, weight.shape[-1], table.dims_in)
    one = x.new_zeros(x.shape[0], 1, *variables.shape[2:])
    one[0] = 1
    nodes = torch.cat([one, variables], 1)
    for left, right in _levels(table):
        nodes = torch.cat([nodes, times(nodes[:, left], nodes[:, right])], 1)
    # P = sum over groups of node * (sum over terms of value * node).
    group, polynomial = _owners(table)
    terms = table.values[:, None, None] * nodes[:, table.nodes]
    inner = _sum(terms, group, len(table.groups))
    factors = nodes[:, table.groups[:, 0]]
    polynomials = _sum(times(factors, inner), polynomial, len(table.polynomials))
    weights = weight.index_select(1, index).movedim(2, 1)[:, table.polynomials[:, 0]]
    return Evaluation(nodes, factors, inner, polynomials, weights)


def combine(found: Evaluation, table: PolynomialTable) -> Tensor:
    """Return the weighted sum of the polynomials, (jet, rows, channels * components)."""
    weighted = times(found.weights, found.polynomials)
    out = _sum(weighted, table.polynomials[:, 1], sum(table.dims_out))
    return join_row(out, table.dims_out)


def times(a: Tensor, b: Tensor) -> Tensor:
    """Multiply jets."""
    if len(a) == 1:
        return a * b
    # (a0 + a1 e)(b0 + b1 e) = a0 b0 + (a0 b1 + a1 b0) e with e^2 = 0, where a0 ... are jets.
    half = len(a) // 2
    value = times(a[:half], b[:half])
    slope = times(a[:half], b[half:]) + times(a[half:], b[:half])
    return torch.cat([value, slope])


def split_row(row: Tensor, channels: int, dims: Sequence[int]) -> Tensor:
    """Reshape rows (jet, rows, channels * components) to (jet, components, rows, channels)."""
    parts = row.split([channels * dim for dim in dims], -1)
    shaped = zip(parts, dims, strict=True)
    components = [part.unflatten(-1, (channels, dim)).movedim(-1, 1) for part, dim in shaped]
    return torch.cat(components, 1)


def join_row(components: Tensor, dims: Sequence[int]) -> Tensor:
    """Invert :func:`split_row`."""
    parts = components.split(list(dims), 1)
    return torch.cat([part.movedim(1, -1).flatten(-2) for part in parts], -1)


def sets_of_rows(order: Tensor, ptr: Tensor) -> Tensor:
    """Return the set of each row, given the rows of all sets one set after another."""
    return torch.zeros_like(order).index_copy(0, order, segment_of_rows(ptr[1:], order.shape[0]))


def _levels(table: PolynomialTable) -> list[tuple[Tensor, Tensor]]:
    pairs = table.products.split(list(table.levels))
    return [(level[:, 0], level[:, 1]) for level in pairs]


def _owners(table: PolynomialTable) -> tuple[Tensor, Tensor]:
    """Return the group of each term and the polynomial of each group."""
    group = segment_of_rows(table.groups[:, -1], len(table.nodes))
    return group, segment_of_rows(table.polynomials[:, -1], len(table.groups))


def _sum(values: Tensor, owner: Tensor, count: int) -> Tensor:
    return values.new_zeros(values.shape[0], count, *values.shape[2:]).index_add(1, owner, values)


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
    point = {"x": x, "weight": weight}
    along = [tangents.get(name, torch.zeros_like(at)) for name, at in point.items()]
    # The derivative of <g, z> by g is the output z.
    found = symmetric_contraction_double_backward(
        none, x, weight, none, *along, order, ptr, *table.values()
    )
    return found[0]


def _rows_of_sets(index: Tensor, sets: int) -> tuple[Tensor, Tensor]:
    """Return the rows of each set of weights, for a deterministic sum of gradients per set."""
    sorted_index, order = torch.sort(index, stable=True)
    ptr = torch.searchsorted(sorted_index, torch.arange(sets + 1, device=index.device))
    return order, ptr


BACKWARD_SCHEMA = (
    "symmetric_contraction_backward(Tensor grad, Tensor x, Tensor weight, Tensor order, "
    "Tensor ptr, Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out, bool only_x) -> (Tensor, Tensor, Tensor)"
)


def symmetric_contraction_backward_reference(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    order: Tensor,  # rows of each set of weights, one set after another
    ptr: Tensor,  # offsets of the sets in order
    *,
    only_x: bool,
    **table: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of <g, z(x, w)> by g, x and w; only that by x if ``only_x``."""
    index = sets_of_rows(order, ptr)
    whole = gradients(grad[None], x[None], weight[None], index, PolynomialTable(**table))
    to_grad, to_x, to_weight = (jet[0] for jet in whole)
    return (x.new_empty(0), to_x, x.new_empty(0)) if only_x else (to_grad, to_x, to_weight)


def _backward_fake(
    grad: Tensor, x: Tensor, weight: Tensor, only_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((0,), x.shape, (0,)) if only_x else (grad.shape, x.shape, weight.shape)
    to_grad, to_x, to_weight = (x.new_empty(shape) for shape in shapes)
    return to_grad, to_x, to_weight


def _double_backward(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    only_x: bool,
    **rest: Any,
) -> Gradients:
    """Second order: differentiate the form along (a, b, c), since derivatives commute."""
    if only_x:  # the other two results are empty
        a, c = torch.zeros_like(grad), torch.zeros_like(weight)
    slopes = symmetric_contraction_double_backward(grad, x, weight, a, b, c, *rest.values())
    return dict(zip(("grad", "x", "weight"), slopes, strict=True))


def _forward_of_backward(
    tangents: Tangents, *, grad: Tensor, x: Tensor, weight: Tensor, only_x: bool, **rest: Any
) -> tuple[Tensor | None, ...]:
    point = {"grad": grad, "x": x, "weight": weight}
    along = [tangents.get(name, torch.zeros_like(at)) for name, at in point.items()]
    changes = symmetric_contraction_double_backward(*point.values(), *along, *rest.values())
    return (None, changes[1], None) if only_x else tuple(changes)


DOUBLE_BACKWARD_SCHEMA = (
    "symmetric_contraction_double_backward(Tensor grad, Tensor x, Tensor weight, "
    "Tensor grad_tangent, Tensor x_tangent, Tensor weight_tangent, Tensor order, Tensor ptr, "
    "Tensor products, Tensor polynomials, Tensor groups, Tensor nodes, Tensor values, "
    "int[] levels, int[] dims_in, int[] dims_out) -> (Tensor, Tensor, Tensor)"
)

_POINT = ("grad", "x", "weight")

_ALONG = ("grad_tangent", "x_tangent", "weight_tangent")


def symmetric_contraction_double_backward_reference(
    order: Tensor, ptr: Tensor, **rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of the three gradients along the tangents."""
    pairs = [(rest.pop(name), rest.pop(along)) for name, along in zip(_POINT, _ALONG, strict=True)]
    g, v, w = (torch.stack(pair) for pair in pairs)
    whole = gradients(g, v, w, sets_of_rows(order, ptr), PolynomialTable(**rest))
    to_grad, to_x, to_weight = (jet[1] for jet in whole)
    return to_grad, to_x, to_weight


def gradients(
    grad: Tensor,  # (jet, rows, channels * components)
    x: Tensor,  # (jet, rows, channels * variables)
    weight: Tensor,  # (jet, sets, weights, channels)
    index: Tensor,  # (rows,), int64
    table: PolynomialTable,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of <grad, output> with respect to grad, x and weight."""
    found = evaluate(x, weight, index, table)
    group, polynomial = _owners(table)
    arriving = split_row(grad, weight.shape[-1], table.dims_out)[:, table.polynomials[:, 1]]
    slopes = times(arriving, found.weights)[:, polynomial]

    by_weight = _sum(
        times(arriving, found.polynomials), table.polynomials[:, 0], weight.shape[2]
    ).movedim(1, 2)
    to_weight = torch.zeros_like(weight).index_add(1, index, by_weight)

    to_nodes = _sum(times(slopes, found.inner), table.groups[:, 0], found.nodes.shape[1])
    to_terms = table.values[:, None, None] * times(slopes, found.factors)[:, group]
    to_nodes = to_nodes.index_add(1, table.nodes, to_terms)
    end = to_nodes.shape[1]
    # Products in reverse: node = left * right, so that left receives slope * right.
    for left, right in reversed(_levels(table)):
        slope, end = to_nodes[:, end - len(left) : end], end - len(left)
        to_nodes = to_nodes.index_add(1, left, times(slope, found.nodes[:, right]))
        to_nodes = to_nodes.index_add(1, right, times(slope, found.nodes[:, left]))
    to_x = join_row(to_nodes[:, 1 : 1 + sum(table.dims_in)], table.dims_in)
    return combine(found, table), to_x, to_weight


def _triple_backward(*arriving: Tensor, order: Tensor, ptr: Tensor, **rest: Any) -> Gradients:
    """Third order, without a kernel: differentiate the reference along two directions."""
    point = [rest.pop(name) for name in _POINT]
    tangents = [rest.pop(name) for name in _ALONG]
    table = PolynomialTable(**rest)
    moved = zip(point, tangents, arriving, strict=True)
    grad, x, weight = (torch.stack([x, a, b, torch.zeros_like(x)]) for x, a, b in moved)
    # Jets of order two: value, both derivatives, and the mixed one.
    whole = gradients(grad, x, weight, sets_of_rows(order, ptr), table)
    found: Gradients = dict(zip(_POINT, (jet[3] for jet in whole), strict=True))
    return found | dict(zip(_ALONG, (jet[2] for jet in whole), strict=True))


symmetric_contraction_double_backward = declare(
    DOUBLE_BACKWARD_SCHEMA,
    reference=symmetric_contraction_double_backward_reference,
    fake=like("grad", "x", "weight"),
    backward=_triple_backward,
    batch=blocks((*_POINT, *_ALONG), indices={"order": "x"}, offsets=["ptr"]),
)

symmetric_contraction_backward = declare(
    BACKWARD_SCHEMA,
    reference=symmetric_contraction_backward_reference,
    fake=_backward_fake,
    backward=_double_backward,
    forward=_forward_of_backward,
    batch=blocks(("grad", "x", "weight"), indices={"order": "x"}, offsets=["ptr"]),
)

symmetric_contraction_op = declare(
    SCHEMA,
    reference=symmetric_contraction_reference,
    fake=_fake,
    backward=_backward,
    forward=_forward,
    batch=blocks(("x", "weight"), indices={"index": "weight"}),
)
