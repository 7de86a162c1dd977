"""Tensors with upper and lower indices, densities, and symmetric powers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, combinations_with_replacement, permutations

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo.groups import Group
from equigeo.reps.representation import (
    Kronecker,
    Representation,
    batched_kronecker,
    product_rule,
    require_linear_parts,
)


@dataclass(frozen=True)
class TensorRep(Representation):
    r"""Tensors with ``up`` vector indices, ``down`` covector indices and a density weight.

    .. math:: \rho(g) = |\det g|^w \; g^{\otimes p} \otimes (g^{-T})^{\otimes q}

    The first index is slowest. Vectors are ``up=1``, covectors (gradients) ``down=1``, linear maps
    ``up=1, down=1``, mass densities ``density=-1``. An affine group acts through its linear part.

    Parameters
    ----------
    group : Group
        Any group of matrices.
    up, down : int
        Numbers p and q of indices, not negative; the default is a vector.
    density : float
        Weight w.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> import torch
    >>> stretch = torch.diag(torch.tensor([2.0, 1.0]))
    >>> TensorRep(GLPlus(2), up=1).act(stretch, torch.ones(2))
    tensor([2., 1.])
    >>> TensorRep(GLPlus(2), up=0, density=-1.0).act(stretch, torch.ones(1))
    tensor([0.5000])
    """

    group: Group
    up: int = 1
    down: int = 0
    density: float = 0.0
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.up < 0 or self.down < 0:
            raise ValueError(f"up and down must not be negative, got {self.up} and {self.down}")
        if self.group.linear_group.size != self.group.n:
            raise ValueError(
                f"{self.group} has elements of size {self.group.size} in {self.group.n} "
                "dimensions: its linear_group must define the action on vectors"
            )
        object.__setattr__(self, "density", float(self.density))
        object.__setattr__(self, "dim", int(self.group.n ** (self.up + self.down)))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        weight, factors = self._factors(g.double())
        n = self.group.n
        for k, factor in enumerate(factors):
            # axes of slower indices, of this one, of faster ones
            x = x.unflatten(-1, (n**k, n, self.dim // n ** (k + 1)))
            x = (factor.to(x.dtype)[..., None, :, :] @ x).flatten(-3)
        return weight[..., None].to(x.dtype) * x

    def matrix(self, g: Tensor) -> Tensor:
        weight, factors = self._factors(g)
        return reduce(batched_kronecker, factors, weight[..., None, None])

    def algebra(self, x: Tensor) -> Tensor:
        x = self.group.convert_algebra(x, self.group.linear_group)
        density = self.density * x.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        return reduce(product_rule, [x] * self.up + [-x.mT] * self.down, density)

    def dual(self) -> Representation:
        if self.up and self.down:  # the order of indices would change: no TensorRep
            return super().dual()
        return TensorRep(self.group, self.down, self.up, -self.density)

    def restrict(self, subgroup: Group) -> TensorRep:
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return TensorRep(subgroup, self.up, self.down, self.density)

    def _factors(self, g: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the density factor (...) and the matrix (..., n, n) of every index."""
        linear = self.group.linear_group
        g = self.group.convert(g, linear)
        weight = g.new_ones(g.shape[:-2])
        if self.density:  # the absolute value: a mirror image has the same mass
            weight = torch.linalg.det(g).abs() ** self.density
        lower = [linear.inverse(g).mT] * self.down if self.down else []
        return weight, [g] * self.up + lower


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
        return self._restricted(Kronecker((self.rep,) * self.power).matrix(g))

    def algebra(self, x: Tensor) -> Tensor:
        return self._restricted(Kronecker((self.rep,) * self.power).algebra(x))

    def dual(self) -> Representation:
        return replace(self, rep=self.rep.dual())

    def restrict(self, subgroup: Group) -> Representation:
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
