"""Base class of representations; duals, restrictions, sums and tensor products."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import reduce
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.groups import Group


class Summand(NamedTuple):
    """Copies of a representation that is a direct summand of another.

    ``positions`` (copies, rep.dim), int64, are the components of each copy on the feature axis.

    Examples
    --------
    >>> from equigeo.reps import Irreps
    >>> [(str(part.rep), part.positions.tolist()) for part in Irreps("2x0e + 1o").summands()]
    [('1x0e', [[0], [1]]), ('1x1o', [[2, 3, 4]])]
    """

    rep: Representation
    positions: Tensor


class Representation(ABC):
    """Base of actions of a group on the last axis of a tensor, as frozen values.

    Subclasses are frozen dataclasses: hashable and equal by value, layout included. Elements are
    tensors ``(..., size, size)`` of the group, features ``(..., dim)``; the batch axes of both
    broadcast.

    Attributes
    ----------
    group : Group
        The group that acts.
    dim : int
        Length of the feature axis.
    """

    group: Group
    dim: int

    @abstractmethod
    def matrix(self, g: Tensor) -> Tensor:
        """Return the matrices (..., dim, dim) of the action, in the dtype of ``g``.

        ``matrix(g @ h) == matrix(g) @ matrix(h)``. Matrices of an affine action are homogeneous,
        with one more row and column.
        """

    @abstractmethod
    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix` at the identity along algebra elements."""

    @property
    def is_linear(self) -> bool:
        """Return whether the action fixes zero; the action on points may not."""
        return True

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements (..., size, size) to features (..., dim).

        Matrices are computed in float64 and cast to the dtype of ``x``. Batch axes broadcast: ``g``
        ``(batch, size, size)`` has one element per row of ``x`` ``(batch, dim)``.
        """
        self.check_features(x)
        matrix = self.matrix(g.double()).to(x.dtype)
        return (matrix @ x[..., None])[..., 0]

    def generators(self) -> Tensor:
        """Return the matrices of the generators of the group, (dimension, dim, dim), float64."""
        return self.algebra(self.group.generators())

    def inverse_matrix(self, g: Tensor) -> Tensor:
        """Return the matrices of inverse elements, without solving a system of the feature size."""
        return self.matrix(self.group.inverse(g))

    def character(self, g: Tensor) -> Tensor:
        """Return traces (...) of the matrices, equal for isomorphic representations.

        Examples
        --------
        >>> from equigeo.reps import Irreps
        >>> half_turn = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
        >>> Irreps("1o").character(half_turn).round().item()
        -1.0
        """
        return self.matrix(g).diagonal(dim1=-2, dim2=-1).sum(-1)

    def is_orthogonal(self) -> bool:
        """Return whether all matrices are orthogonal, so that lengths of features are invariant."""
        if not self.is_linear:
            return False
        matrices, generators = self.matrix(self.group.components()), self.generators()
        identity = torch.eye(self.dim, dtype=torch.float64).expand_as(matrices)
        # far above the rounding of matrices of order one, far below any stretch that is meant
        skew = torch.allclose(generators, -generators.mT, rtol=0.0, atol=1e-9)
        return skew and torch.allclose(matrices.mT @ matrices, identity, rtol=0.0, atol=1e-9)

    def summands(self) -> tuple[Summand, ...]:
        """Return the direct summands that the representation was built from.

        Their positions are all features, each once. A summand need not be irreducible:
        :func:`equigeo.reps.decompose` goes further.

        Examples
        --------
        >>> from equigeo.reps import Irreps
        >>> [(str(part.rep), len(part.positions)) for part in Irreps("4x0e + 2x1o").summands()]
        [('1x0e', 4), ('1x1o', 2)]
        """
        return (Summand(self, torch.arange(self.dim)[None]),) if self.dim else ()

    def is_trivial(self) -> bool:
        """Return whether every element acts as the identity."""
        # a vector without pattern; rounding stays far below 1e-9, a true motion far above
        x = torch.cos(1.0 + torch.arange(self.dim, dtype=torch.float64))
        g = self.group.testing_elements(torch.Generator().manual_seed(0))
        return bool(((self.act(g, x) - x).abs() < 1e-9).all())

    def dual(self) -> Representation:
        """Return the action on linear functions of the features: ``matrix(g^-1)^T``.

        An affine action raises ``TypeError``.
        """
        return Dual(self)

    def restrict(self, subgroup: Group) -> Representation:
        """Return the action of a group with a canonical map to this one, such as a subgroup.

        An affine group acts through its linear part. No map raises ``ValueError``.
        """
        return self if subgroup == self.group else Restricted(self, subgroup)

    def __add__(self, other: Representation) -> Representation:
        """Return the direct sum, with the features of ``self`` first."""
        merged = self.merged(other)
        return DirectSum((self, other)) if merged is None else merged

    def __matmul__(self, other: Representation) -> Representation:
        """Return the tensor product: all products of two features, ``self`` slowest, unsorted."""
        return Kronecker((self, other))

    def __mul__(self, copies: int) -> Representation:
        """Return the direct sum of copies."""
        copies = index(copies)
        if copies < 1:
            raise ValueError(f"there must be at least one copy of {self}, got {copies}")
        require_linear_parts("direct sum", (self,))
        return self if copies == 1 else DirectSum((self,) * copies)

    __rmul__ = __mul__

    def merged(self, other: Representation) -> Representation | None:
        """Return the direct sum with the right neighbor as one value of the same kind, or None."""
        return None

    def check_features(self, x: Tensor) -> None:
        """Raise ``TypeError`` or ``ValueError`` unless ``x`` is a tensor (..., dim)."""
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {type(x).__name__}")
        if x.shape[-1:] != (self.dim,):
            raise ValueError(f"features of {self!r} are (..., {self.dim}), got {tuple(x.shape)}")


def require_linear_parts(
    kind: str,  # name of the result in messages
    parts: tuple[Representation, ...],
) -> None:
    """Raise if representations are not linear or not of one group."""
    if not parts:
        raise ValueError(f"a {kind} needs at least one part")
    for part in parts:
        if not isinstance(part, Representation):
            raise TypeError(f"a {kind} is made of representations, got {part!r}")
        if not part.is_linear:
            raise TypeError(
                f"a {kind} needs linear parts, got {part}; "
                "translations act on TensorRep(group, up=1) as the identity"
            )
        if part.group != parts[0].group:
            raise ValueError(
                f"a {kind} needs parts of one group, got {parts[0].group} and {part.group}; "
                "use restrict"
            )


@dataclass(frozen=True)
class Dual(Representation):
    """The action ``matrix(g^-1)^T`` on linear functions of the features of ``rep``."""

    rep: Representation
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("dual", (self.rep,))
        object.__setattr__(self, "group", self.rep.group)
        object.__setattr__(self, "dim", self.rep.dim)

    def matrix(self, g: Tensor) -> Tensor:
        return self.rep.inverse_matrix(g).mT

    def inverse_matrix(self, g: Tensor) -> Tensor:
        return self.rep.matrix(g).mT

    def algebra(self, x: Tensor) -> Tensor:
        # derivative of (exp(t x)^-1)^T at t = 0
        return -self.rep.algebra(x).mT

    def summands(self) -> tuple[Summand, ...]:
        return tuple(Summand(part.rep.dual(), part.positions) for part in self.rep.summands())

    def dual(self) -> Representation:
        return self.rep

    def restrict(self, subgroup: Group) -> Representation:
        return self.rep.restrict(subgroup).dual()


@dataclass(frozen=True)
class Restricted(Representation):
    """``rep`` restricted to a group that maps canonically to the group of ``rep``."""

    rep: Representation
    group: Group
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("restriction", (self.rep,))
        if not self.group.maps_to(self.rep.group):
            raise ValueError(
                f"{self.rep} cannot be restricted: {self.group} has no canonical map "
                f"to {self.rep.group}"
            )
        object.__setattr__(self, "dim", self.rep.dim)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        return self.rep.act(self.group.convert(g, self.rep.group), x)

    def matrix(self, g: Tensor) -> Tensor:
        return self.rep.matrix(self.group.convert(g, self.rep.group))

    def algebra(self, x: Tensor) -> Tensor:
        return self.rep.algebra(self.group.convert_algebra(x, self.rep.group))

    def summands(self) -> tuple[Summand, ...]:
        parts = self.rep.summands()
        return tuple(Summand(part.rep.restrict(self.group), part.positions) for part in parts)

    def dual(self) -> Representation:
        return self.rep.dual().restrict(self.group)

    def restrict(self, subgroup: Group) -> Representation:
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return self.rep.restrict(subgroup)


@dataclass(frozen=True)
class DirectSum(Representation):
    """Features side by side on one axis; matrices are block diagonal, left to right."""

    parts: tuple[Representation, ...]
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("direct sum", self.parts)
        # Nested sums are flattened, so that addition is associative.
        flat: list[Representation] = []
        for part in self.parts:
            for atom in part.parts if isinstance(part, DirectSum) else (part,):
                merged = flat[-1].merged(atom) if flat else None
                if merged is None:
                    flat.append(atom)
                else:
                    flat[-1] = merged
        object.__setattr__(self, "parts", tuple(flat))
        object.__setattr__(self, "group", flat[0].group)
        object.__setattr__(self, "dim", sum(part.dim for part in self.parts))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        pieces = x.split([part.dim for part in self.parts], dim=-1)
        moved = [part.act(g, piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return torch.cat(moved, dim=-1)

    def matrix(self, g: Tensor) -> Tensor:
        return block_diagonal([part.matrix(g) for part in self.parts])

    def algebra(self, x: Tensor) -> Tensor:
        return block_diagonal([part.algebra(x) for part in self.parts])

    def summands(self) -> tuple[Summand, ...]:
        found: list[Summand] = []
        start = 0
        for part in self.parts:
            for rep, positions in part.summands():
                positions = positions + start
                if found and found[-1].rep == rep:
                    positions = torch.cat([found.pop().positions, positions])
                found.append(Summand(rep, positions))
            start += part.dim
        return tuple(found)

    def is_orthogonal(self) -> bool:
        return all(part.is_orthogonal() for part in self.parts)

    def is_trivial(self) -> bool:
        return all(part.is_trivial() for part in self.parts)

    def dual(self) -> Representation:
        return DirectSum(tuple(part.dual() for part in self.parts))

    def restrict(self, subgroup: Group) -> Representation:
        return DirectSum(tuple(part.restrict(subgroup) for part in self.parts))


def block_diagonal(
    blocks: list[Tensor],  # (..., d_i, d_i)
) -> Tensor:  # (..., sum d_i, sum d_i)
    """Return batched block-diagonal matrices."""
    dim = sum(block.shape[-1] for block in blocks)
    out = blocks[0].new_zeros(*blocks[0].shape[:-2], dim, dim)
    start = 0
    for block in blocks:
        stop = start + block.shape[-1]
        out[..., start:stop, start:stop] = block
        start = stop
    return out


@dataclass(frozen=True)
class Kronecker(Representation):
    """All products of one feature of each factor, the first factor slowest."""

    factors: tuple[Representation, ...]
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("tensor product", self.factors)
        flat: list[Representation] = []
        for factor in self.factors:
            flat.extend(factor.factors if isinstance(factor, Kronecker) else (factor,))
        object.__setattr__(self, "factors", tuple(flat))
        object.__setattr__(self, "group", flat[0].group)
        object.__setattr__(self, "dim", math.prod(factor.dim for factor in self.factors))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        g = g[..., None, None, :, :]
        dims = [factor.dim for factor in self.factors]
        for k, factor in enumerate(self.factors):
            # axes of slower factors, this one, faster ones; it goes last to be acted on
            x = x.unflatten(-1, (math.prod(dims[:k]), dims[k], math.prod(dims[k + 1 :])))
            x = factor.act(g, x.mT).mT.flatten(-3)
        return x

    def matrix(self, g: Tensor) -> Tensor:
        return reduce(batched_kronecker, [factor.matrix(g) for factor in self.factors])

    def algebra(self, x: Tensor) -> Tensor:
        return reduce(product_rule, [factor.algebra(x) for factor in self.factors])

    def summands(self) -> tuple[Summand, ...]:
        first, *others = self.factors
        found = first.summands()
        for factor in others:
            found = tuple(
                Summand(a.rep @ b.rep, _outer_positions(a.positions, b.positions, factor.dim))
                for a in found
                for b in factor.summands()
            )
        return found

    def dual(self) -> Representation:
        return Kronecker(tuple(factor.dual() for factor in self.factors))

    def restrict(self, subgroup: Group) -> Representation:
        return Kronecker(tuple(factor.restrict(subgroup) for factor in self.factors))


def _outer_positions(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """Return positions (copies, d) of products of components; ``dim`` is that of the second."""
    pairs = dim * a[:, None, :, None] + b[None, :, None, :]
    return pairs.flatten(2).flatten(0, 1)


def batched_kronecker(
    a: Tensor,  # (..., m, m)
    b: Tensor,  # (..., n, n)
) -> Tensor:  # (..., m n, m n)
    """Return the Kronecker product over the last two axes, with blocks ``a_ij b``."""
    product = a[..., :, None, :, None] * b[..., None, :, None, :]
    return product.flatten(-2).flatten(-3, -2)


def product_rule(a: Tensor, b: Tensor) -> Tensor:
    """Return the algebra matrix A (x) 1 + 1 (x) B of a tensor product."""
    left = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    right = torch.eye(b.shape[-1], dtype=a.dtype, device=a.device)
    return batched_kronecker(a, right) + batched_kronecker(left, b)
