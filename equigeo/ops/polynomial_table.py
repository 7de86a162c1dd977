"""Polynomials of a few variables, as the tensors that ops take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

import torch
from torch import Tensor

Monomial = tuple[int, ...]


@dataclass(frozen=True)
class Polynomial:
    """A homogeneous polynomial, the index of its weight and the output component that it adds to.

    ``coefficients`` are by monomial, an ascending tuple of variables; all monomials of one degree.

    Examples
    --------
    >>> cube = Polynomial(component=0, weight=0, coefficients={(0, 0, 0): 1.0, (0, 1, 1): 3.0})
    >>> cube.coefficients[0, 1, 1]  # of x y y in x^3 + 3 x y^2
    3.0
    """

    component: int
    weight: int
    coefficients: Mapping[Monomial, float]


@dataclass(frozen=True, eq=False)
class PolynomialTable:
    """Evaluation plan of polynomials that share monomials.

    A node is a monomial of low degree: node 0 is one, nodes 1 to d are the variables, and others
    are products of two nodes before them. A polynomial is a sum over groups, each one node times a
    combination of nodes, so that monomials of the full degree are never computed.

    Parameters
    ----------
    products : Tensor, (products, 2), int64
        The two nodes of each product.
    polynomials : Tensor, (polynomials, 4), int64
        Weight, component of the output, first and last group; sorted by component.
    groups : Tensor, (groups, 3), int64
        The node that multiplies, first and last term.
    nodes, values : Tensor, (terms,), int64 and float64
        Node and coefficient of each term.
    levels : sequence of int
        Numbers of consecutive products that do not depend on each other.
    dims_in, dims_out : sequence of int
        Layout of a row: blocks of (channels, dim) one after another. All dims are 1 where
        components are outside and channels inside.
    """

    products: Tensor
    polynomials: Tensor
    groups: Tensor
    nodes: Tensor
    values: Tensor
    levels: Sequence[int]
    dims_in: Sequence[int]
    dims_out: Sequence[int]

    @classmethod
    def from_polynomials(
        cls, polynomials: Sequence[Polynomial], dims_in: Sequence[int], dims_out: Sequence[int]
    ) -> PolynomialTable:
        """Build a table on the CPU, splitting monomials in halves to minimize products and groups.

        Examples
        --------
        >>> cube = Polynomial(0, 0, {(0, 0, 0): 1.0, (0, 1, 1): 3.0})  # x (x^2 + 3 y^2)
        >>> table = PolynomialTable.from_polynomials([cube], (2,), (1,))
        >>> table.products.tolist(), table.groups.tolist(), table.nodes.tolist()
        ([[1, 1], [2, 2]], [[1, 0, 2]], [3, 4])
        """
        ordered = sorted(polynomials, key=lambda p: (p.component, p.weight))
        sums = [_factor(p.coefficients) for p in ordered]
        place, products, levels = _products(sums, sum(dims_in))
        groups = [(factor, rest) for parts in sums for factor, rest in parts.items()]
        ends = list(accumulate((len(rest) for _, rest in groups), initial=0))
        rows = zip(groups, ends, ends[1:], strict=False)
        counts = list(accumulate(map(len, sums), initial=0))
        starts = zip(ordered, counts, counts[1:], strict=False)
        return cls(
            _integers(products, 2),
            _integers([[p.weight, p.component, first, last] for p, first, last in starts], 4),
            _integers([[place[factor], first, last] for (factor, _), first, last in rows], 3),
            _integers([place[s] for _, rest in groups for s in rest], 1).flatten(),
            torch.tensor([v for _, rest in groups for v in rest.values()], dtype=torch.float64),
            tuple(levels),
            tuple(dims_in),
            tuple(dims_out),
        )


def _factor(coefficients: Mapping[Monomial, float]) -> dict[Monomial, dict[Monomial, float]]:
    """Write a polynomial as a sum of products, extracting the most frequent factor first."""
    rest = {s: value for s, value in coefficients.items() if value}
    half = max((len(s) // 2 for s in rest), default=0)
    groups: dict[Monomial, dict[Monomial, float]] = {}
    while rest:
        count = Counter(part for s in rest for part in set(combinations(s, half)))
        factor = max(count, key=lambda part: (count[part], part))
        found = {s: _without(s, factor) for s in rest if factor in combinations(s, half)}
        groups[factor] = {other: rest.pop(s) for s, other in found.items()}
    return groups


def _without(monomial: Monomial, factor: Monomial) -> Monomial:
    return tuple(sorted((Counter(monomial) - Counter(factor)).elements()))


def _products(
    sums: Sequence[Mapping[Monomial, Mapping[Monomial, float]]], variables: int
) -> tuple[dict[Monomial, int], list[list[int]], list[int]]:
    """Number all nodes and return the products and their count per degree."""
    needed: defaultdict[int, set[Monomial]] = defaultdict(set)
    for parts in sums:
        for factor, rest in parts.items():
            for s in (factor, *rest):
                for degree in range(2, len(s) + 1):
                    needed[degree].add(s[:degree])
    place: dict[Monomial, int] = {(): 0, **{(i,): 1 + i for i in range(variables)}}
    products: list[list[int]] = []
    for _, level in sorted(needed.items()):
        for s in sorted(level):
            products.append([place[s[:-1]], 1 + s[-1]])
            place[s] = len(place)
    # An empty level rather than none: packages of AOTInductor lose a list without elements.
    return place, products, [len(level) for _, level in sorted(needed.items())] or [0]


def _integers(rows: Sequence[Sequence[int]] | Sequence[int], columns: int) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, columns)
