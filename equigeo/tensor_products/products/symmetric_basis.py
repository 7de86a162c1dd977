"""Equivariant polynomials of one feature, as tables over its monomials."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Literal

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo.reps.irreps import Irrep
from equigeo.reps.wigner import wigner_3j_table

Paths = Literal["all", "mace", "ascending", "even_first"]

_DEPENDENT = 1e-6  # norm of what remains of a unit vector, either rounding or of order 0.1


# Only the symmetric part of a coupling acts on powers of a feature. A polynomial is stored by its
# coefficients on monomials x_i x_j x_k, i <= j <= k: 816 instead of 4,096 if cubic in 16 variables.
@dataclass(frozen=True, eq=False)
class CoupledPolynomial:
    """An equivariant polynomial, built by coupling one factor after another."""

    ir: Irrep  # degree and parity of the value
    inputs: tuple[int, ...]  # positions of the coupled irreps, in order
    values: Tensor  # (2 l + 1, monomials), coefficients


@cache
def monomials(dim: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return all monomials in ``dim`` variables as ascending tuples, in lexicographic order."""
    return tuple(combinations_with_replacement(range(dim), degree))


@kept
def coupled_polynomials(
    irreps: tuple[Irrep, ...],  # one copy of each irrep of the feature
    degree: int,  # number of factors, at least one
    ir_out: Irrep,  # irrep of the values
    paths: Paths,  # which ones, and their order
) -> tuple[CoupledPolynomial, ...]:
    """Return all couplings of ``degree`` copies of a feature that end in one irrep."""
    # Each step uses sqrt(2 l + 1) C. "all": every sequence of inputs and irreps; "mace": for four
    # factors only natural parity and degrees up to 11; "ascending": nondecreasing inputs, with the
    # same span. Sorted as in MACE: left factor slowest, by degree, odd before even; "even_first":
    # every sequence, even before odd.
    if degree == 1:
        return tuple(path for path in _single(irreps) if path.ir == ir_out)
    rule: Paths = "all" if paths == "mace" and degree != 4 else paths
    return tuple(_coupled(irreps, degree, rule, ir_out))


@kept
def symmetric_basis(irreps: tuple[Irrep, ...], degree: int, ir_out: Irrep) -> Tensor:
    """Return independent polynomials (basis, 2 l + 1, monomials) that span all equivariant ones."""
    # Ascending paths, orthogonalized as symmetric tensors of squared norm 2 l + 1. Each involves
    # the input irreps of one path only.
    weight = _inverse_multiplicities(_dim(irreps), degree).repeat(2 * ir_out[0] + 1).sqrt()
    paths = coupled_polynomials(irreps, degree, ir_out, "ascending")
    # Back from orthonormal coordinates, to the norm that a coupled path has before it is made
    # symmetric: one per component.
    basis = math.sqrt(2 * ir_out[0] + 1) * _independent(paths, weight)[1] / weight
    basis[basis.abs() < 1e-12] = 0.0  # exact zeros leave rounding behind
    return basis.unflatten(1, (2 * ir_out[0] + 1, -1))


@kept
def path_basis(
    irreps: tuple[Irrep, ...],  # one copy of each irrep of the feature
    degree: int,  # number of factors, at least one
    ir_out: Irrep,  # irrep of the values
) -> Tensor:  # (basis, 2 l + 1, monomials), float64
    """Return the first independent paths, unit symmetric tensors with a positive first entry."""
    # The reduced Clebsch-Gordan basis of kernel backends of MACE.
    weight = _inverse_multiplicities(_dim(irreps), degree).repeat(2 * ir_out[0] + 1).sqrt()
    basis = _independent(coupled_polynomials(irreps, degree, ir_out, "even_first"), weight)[0]
    basis = torch.where(basis.abs() < 1e-12, 0.0, basis / weight)
    signs = [row[row.nonzero()[0, 0]].sign() for row in basis]
    basis *= torch.tensor(signs, dtype=torch.float64)[:, None]
    return basis.unflatten(1, (2 * ir_out[0] + 1, -1))


def _independent(
    paths: tuple[CoupledPolynomial, ...],
    weight: Tensor,  # (coefficients,), of orthonormal coordinates of symmetric tensors
) -> tuple[Tensor, Tensor]:  # (basis, coefficients) each
    """Return the paths that those before them do not span, and these orthogonalized, normalized."""
    unit = basis = torch.zeros(0, len(weight), dtype=torch.float64)
    for path in paths:
        rest = path.values.flatten() * weight
        # What is antisymmetric in two equal factors vanishes, such as the cross product of x and x.
        if rest.norm() < _DEPENDENT:
            continue
        # Gram-Schmidt, in the metric of symmetric tensors.
        rest = first = rest / rest.norm()
        for _ in range(2):  # the second pass removes what rounding left in the first
            rest = rest - basis.T @ (basis @ rest)
        if rest.norm() > _DEPENDENT:
            basis = torch.cat([basis, rest[None] / rest.norm()])
            unit = torch.cat([unit, first[None]])
    return unit, basis


@kept
def projection(irreps: tuple[Irrep, ...], degree: int, ir_out: Irrep) -> Tensor:
    """Return the symmetrized paths of MACE in :func:`symmetric_basis`, (paths, basis)."""
    # Inner products of symmetric tensors, of which a monomial stands for all orders of its factors.
    size, weight = 2 * ir_out[0] + 1, _inverse_multiplicities(_dim(irreps), degree)
    basis = symmetric_basis(irreps, degree, ir_out)
    empty = torch.zeros(0, *basis.shape[1:], dtype=torch.float64)
    # An orthogonal projection: coefficients are inner products over squared norms, 2 l + 1 each.
    paths = [path.values[None] for path in coupled_polynomials(irreps, degree, ir_out, "mace")]
    return torch.cat([empty, *paths]).flatten(1) @ (basis * weight).flatten(1).T / size


@kept
def _level(irreps: tuple[Irrep, ...], degree: int, paths: Paths) -> tuple[CoupledPolynomial, ...]:
    """Return all polynomials of a degree, for any irrep, sorted for the next coupling."""
    found = _single(irreps) if degree == 1 else _coupled(irreps, degree, paths)
    sign = -1 if paths == "even_first" else 1
    return tuple(sorted(found, key=lambda path: (path.ir[0], sign * path.ir[1])))


def _coupled(
    irreps: tuple[Irrep, ...], degree: int, paths: Paths, ir_out: Irrep | None = None
) -> Iterator[CoupledPolynomial]:
    """Couple one more factor to all polynomials of the degree below."""
    for left in _level(irreps, degree - 1, paths):
        for right, new in _products(left, irreps, paths):
            if ir_out in (None, new):
                yield _couple(left, right, new, irreps)


def _single(irreps: tuple[Irrep, ...]) -> tuple[CoupledPolynomial, ...]:
    rows = torch.eye(_dim(irreps), dtype=torch.float64).split([2 * l + 1 for l, _ in irreps])
    single = [CoupledPolynomial(irreps[k], (k,), rows[k]) for k in range(len(irreps))]
    return tuple(sorted(single, key=lambda path: path.ir))


def _products(
    left: CoupledPolynomial, irreps: tuple[Irrep, ...], paths: Paths
) -> Iterator[tuple[int, Irrep]]:
    """Return the input irreps that may be coupled next, with the resulting irreps."""
    (l1, p1), first = left.ir, left.inputs[-1] if paths == "ascending" else 0
    for right in range(first, len(irreps)):
        l2, p2 = irreps[right]
        for l3 in range(abs(l1 - l2), l1 + l2 + 1):
            p3 = p1 * p2
            if paths != "mace" or (p3 == (-1) ** l3 and l3 <= 11):
                yield right, Irrep(l3, p3)


def _couple(
    left: CoupledPolynomial, right: int, ir: Irrep, irreps: tuple[Irrep, ...]
) -> CoupledPolynomial:
    l1, l2, l3 = left.ir[0], irreps[right][0], ir[0]
    # Components of variance one for independent inputs of variance one.
    table = math.sqrt(2 * l3 + 1) * wigner_3j_table(l1, l2, l3)
    start, degree = sum(2 * l + 1 for l, _ in irreps[:right]), len(left.inputs)
    # Coefficient of (monomial s of the left factor) times (variable j of the right one).
    terms = torch.einsum("ijk,is->ksj", table, left.values)
    positions = _product_positions(_dim(irreps), degree)[:, start : start + 2 * l2 + 1]
    values = torch.zeros(2 * l3 + 1, len(monomials(_dim(irreps), degree + 1)), dtype=torch.float64)
    # Monomials that become equal, such as (x y) z and (x z) y, add up: the result is symmetric.
    values.index_add_(1, positions.flatten(), terms.flatten(1))
    return CoupledPolynomial(ir, (*left.inputs, right), values)


@kept
def _product_positions(dim: int, degree: int) -> Tensor:
    """Return the position (monomials, dim) of each monomial times each variable."""
    position = {s: k for k, s in enumerate(monomials(dim, degree + 1))}
    rows = [[position[tuple(sorted((*s, i)))] for i in range(dim)] for s in monomials(dim, degree)]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), dim)


@kept
def _inverse_multiplicities(dim: int, degree: int) -> Tensor:
    """Return one over the number of orders of the factors: the metric of symmetric tensors."""
    counts = [
        math.prod(math.factorial(s.count(i)) for i in set(s)) / math.factorial(degree)
        for s in monomials(dim, degree)
    ]
    return torch.tensor(counts, dtype=torch.float64)


def _dim(irreps: tuple[Irrep, ...]) -> int:
    return sum(2 * l + 1 for l, _ in irreps)
