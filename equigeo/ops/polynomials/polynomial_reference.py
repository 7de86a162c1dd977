"""Reference evaluation of a table of polynomials and its gradients, to any order.

Every quantity is a jet: its leading axis holds the value, for order one also a derivative along a
direction, for order two the value, both derivatives and the mixed one, and so on in powers of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.ops.polynomials.polynomial_table import PolynomialTable
from equigeo.ops.segments.segment_of_rows import segment_of_rows


@dataclass(frozen=True)
class Evaluation:
    """Intermediate values from variables to polynomials, each (jet, count, rows, channels)."""

    nodes: Tensor
    factors: Tensor
    inner: Tensor
    polynomials: Tensor
    weights: Tensor


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
