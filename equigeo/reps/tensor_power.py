"""Symmetric and alternating powers of representations."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from itertools import combinations, combinations_with_replacement, permutations

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.groups import Group
from equigeo.reps.kronecker import Kronecker
from equigeo.reps.representation import Representation, require_linear_parts


@dataclass(frozen=True)
class TensorPower(Representation):
    """Base of features ``Q x^{(x) k}`` with orthonormal rows Q of an invariant subspace."""

    rep: Representation  # a linear representation
    power: int  # number of factors, at least 1
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("tensor power", (self.rep,))
        if self.power < 1:
            raise ValueError(f"power must be at least 1, got {self.power}")
        object.__setattr__(self, "group", self.rep.group)
        object.__setattr__(self, "dim", len(self._basis()))

    @abstractmethod
    def _basis(self) -> Tensor:
        """Return the orthonormal rows (dim, rep.dim^power), float64; a shared table."""

    def matrix(self, g: Tensor) -> Tensor:
        """Return the restriction of the Kronecker power to the subspace."""
        return self._restricted(Kronecker((self.rep,) * self.power).matrix(g))

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix` at the identity, by the product rule."""
        return self._restricted(Kronecker((self.rep,) * self.power).algebra(x))

    def dual(self) -> Representation:
        """Return the same power of the dual, equal to the dual for an orthonormal basis."""
        return replace(self, rep=self.rep.dual())

    def restrict(self, subgroup: Group) -> Representation:
        """Return the same power of the restriction."""
        return replace(self, rep=self.rep.restrict(subgroup))

    def _restricted(self, x: Tensor) -> Tensor:
        basis = self._basis().to(x)  # rows are orthonormal: the transpose is the inverse on them
        return basis @ x @ basis.mT


@dataclass(frozen=True)
class SymPower(TensorPower):
    """Symmetric tensors of ``power`` indices over ``rep``: quadratic forms, moments, stresses.

    The basis is orthonormal, in lexicographic order of sorted indices: for two indices in the plane
    ``E11, (E12 + E21) / sqrt 2, E22``.

    Parameters
    ----------
    rep : Representation
        A linear representation, such as vectors ``TensorRep(group)``.
    power : int
        Number of indices, at least 1.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> from equigeo.reps import TensorRep
    >>> SymPower(TensorRep(GLPlus(3)), 2).dim
    6
    """

    def _basis(self) -> Tensor:
        return _symmetric(self.rep.dim, self.power)


@dataclass(frozen=True)
class AltPower(TensorPower):
    """Antisymmetric tensors of ``power`` indices over ``rep``: areas, volumes, cross products.

    The basis is orthonormal, in lexicographic order of sorted indices, but two indices in three
    dimensions have the order of cross products: ``e2 ^ e3, e3 ^ e1, e1 ^ e2``. The matrices hold
    the minors of those of ``rep``; powers above ``rep.dim`` have no components. Parameters are
    those of :class:`SymPower`.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> from equigeo.reps import TensorRep
    >>> import torch
    >>> AltPower(TensorRep(GLPlus(3)), 3).matrix(2 * torch.eye(3)).round()
    tensor([[8.]])
    """

    def _basis(self) -> Tensor:
        return _alternating(self.rep.dim, self.power)


@kept
def _symmetric(dim: int, power: int) -> Tensor:
    rows = [
        _orbit([(order, 1.0) for order in permutations(indices)], dim)
        for indices in combinations_with_replacement(range(dim), power)
    ]
    return torch.stack(rows) if rows else torch.zeros(0, dim**power, dtype=torch.float64)


@kept
def _alternating(dim: int, power: int) -> Tensor:
    chosen = list(combinations(range(dim), power))
    if (dim, power) == (3, 2):  # the order in which components of cross products come
        chosen = [(1, 2), (2, 0), (0, 1)]
    rows = [
        _orbit([(tuple(indices[i] for i in order), _sign(order)) for order in orders], dim)
        for indices in chosen
        for orders in [list(permutations(range(power)))]
    ]
    return torch.stack(rows) if rows else torch.zeros(0, dim**power, dtype=torch.float64)


def _sign(order: tuple[int, ...]) -> float:
    swaps = sum(a > b for a, b in combinations(order, 2))
    return -1.0 if swaps % 2 else 1.0


def _orbit(
    # indices of the factors, and coefficient of each product
    indices: list[tuple[tuple[int, ...], float]],
    dim: int,
) -> Tensor:
    """Return the unit vector (dim^k,) along a combination of products of k unit vectors."""
    power = len(indices[0][0])
    row = torch.zeros((dim,) * power, dtype=torch.float64)
    for index, coefficient in indices:
        row[index] += coefficient
    # Products with equal indices add up, so the length is not known in advance.
    return row.flatten() / torch.linalg.vector_norm(row)
