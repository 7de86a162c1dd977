"""The invariant part of a tensor power, in an orthonormal basis."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.kronecker import Kronecker
from equigeo.reps.representation import Representation, require_linear_parts


@dataclass(frozen=True)
class TensorPower(Representation):
    """Features ``Q x^{(x) k}`` for orthonormal rows Q that span an invariant subspace.

    Parameters
    ----------
    rep : Representation
        A linear representation.
    power : int
        Number of factors, at least 1.

    Raises
    ------
    TypeError
        If the action of ``rep`` is affine.
    ValueError
        If ``power`` is below 1.
    """

    rep: Representation
    power: int
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the factor and count the basis."""
        require_linear_parts("tensor power", (self.rep,))
        if self.power < 1:
            raise ValueError(f"power must be at least 1, got {self.power}")
        object.__setattr__(self, "group", self.rep.group)
        object.__setattr__(self, "dim", len(self._basis()))

    @abstractmethod
    def _basis(self) -> Tensor:
        """Orthonormal rows (dim, rep.dim^power), float64; a shared table."""

    def matrix(self, g: Tensor) -> Tensor:
        """Restriction of the Kronecker power to the subspace.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Elements of the group.

        Returns
        -------
        Tensor, (..., dim, dim), dtype of ``g``
            In the orthonormal basis of the subspace.
        """
        return self._restricted(Kronecker((self.rep,) * self.power).matrix(g))

    def algebra(self, x: Tensor) -> Tensor:
        """Derivative of :meth:`matrix` at the identity.

        Parameters
        ----------
        x : Tensor, (..., size, size), floating
            Elements of the Lie algebra.

        Returns
        -------
        Tensor, (..., dim, dim), dtype of ``x``
            By the product rule.
        """
        return self._restricted(Kronecker((self.rep,) * self.power).algebra(x))

    def dual(self) -> Representation:
        """Return the same power of the dual.

        Returns
        -------
        Representation
            Equal to the dual in this basis, because it is orthonormal.
        """
        return replace(self, rep=self.rep.dual())

    def restrict(self, subgroup: Group) -> Representation:
        """Return the same power of the restriction.

        Parameters
        ----------
        subgroup : Group
            A group with a canonical map to this one.

        Returns
        -------
        Representation
            The same matrices for the elements of ``subgroup``.

        Raises
        ------
        ValueError
            If there is no canonical map.
        """
        return replace(self, rep=self.rep.restrict(subgroup))

    def _restricted(self, x: Tensor) -> Tensor:
        basis = self._basis().to(x)
        return basis @ x @ basis.mT


def orbit(indices: list[tuple[tuple[int, ...], float]], dim: int) -> Tensor:
    """Normalised combination of products of unit vectors.

    Parameters
    ----------
    indices : list of (tuple of int, float)
        Indices of the factors and the coefficient of each product.
    dim : int
        Length of a unit vector.

    Returns
    -------
    Tensor, (dim^k,), float64
        A unit vector.
    """
    power = len(indices[0][0])
    row = torch.zeros((dim,) * power, dtype=torch.float64)
    for index, coefficient in indices:
        row[index] += coefficient
    return row.flatten() / torch.linalg.vector_norm(row)
