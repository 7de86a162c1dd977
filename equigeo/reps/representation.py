"""Base class of representations."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
        from equigeo.reps.dual import Dual

        return Dual(self)

    def restrict(self, subgroup: Group) -> Representation:
        """Return the action of a group with a canonical map to this one, such as a subgroup.

        An affine group acts through its linear part. No map raises ``ValueError``.
        """
        from equigeo.reps.restricted import Restricted

        return self if subgroup == self.group else Restricted(self, subgroup)

    def __add__(self, other: Representation) -> Representation:
        """Return the direct sum, with the features of ``self`` first."""
        from equigeo.reps.direct_sum import DirectSum

        return self.merged(other) or DirectSum((self, other))

    def __matmul__(self, other: Representation) -> Representation:
        """Return the tensor product: all products of two features, ``self`` slowest, unsorted."""
        from equigeo.reps.kronecker import Kronecker

        return Kronecker((self, other))

    def __mul__(self, copies: int) -> Representation:
        """Return the direct sum of copies."""
        from equigeo.reps.direct_sum import copies_of

        return copies_of(self, index(copies))

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
