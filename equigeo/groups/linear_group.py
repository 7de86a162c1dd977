"""Groups of invertible matrices, each a maximal compact subgroup times positive matrices."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import rotation_basis
from equigeo.groups.charts.polar_chart import (
    chart_coordinates,
    chart_density,
    chart_element,
    linear_exp,
    log_stretch,
)
from equigeo.groups.group import Group
from equigeo.groups.matrices.matrix_exp import matrix_exp

if TYPE_CHECKING:
    from equigeo.groups.o import O
    from equigeo.groups.so import SO


@dataclass(frozen=True, repr=False)
class LinearGroup(Group):
    """A closed group of real invertible matrices, in its polar form.

    Every group here is ``exp(V) K``: the exponential of a space ``V`` of symmetric matrices, times
    a compact group ``K`` that is O(n), SO(n) or trivial. A kind states ``V``, ``K`` and its
    defining equations; the rest follows.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Raises
    ------
    ValueError
        If ``n`` is below 2.
    """

    n: int

    def __post_init__(self) -> None:
        """Check the dimension."""
        if self.n < 2:
            raise ValueError(f"n must be at least 2, got {self.n}")

    def __repr__(self) -> str:
        """Return the expression that makes this group."""
        return f"{type(self).__name__}({self.n})"

    @property
    def size(self) -> int:
        """Number of rows of an element, ``n``."""
        return self.n

    @property
    def linear_group(self) -> LinearGroup:
        """The group itself."""
        return self

    @property
    @abstractmethod
    def compact(self) -> O | SO | None:
        """The compact factor ``K``; None where it is trivial."""

    @abstractmethod
    def _positive_basis(self) -> Tensor:
        """Basis (d, n, n) of the symmetric factor ``V``, possibly empty; a shared table."""

    @abstractmethod
    def _supergroups(self) -> tuple[LinearGroup, ...]:
        """Next larger groups; the transitive closure is the subgroup order."""

    @abstractmethod
    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        """Which of (..., n, n) satisfy the defining equations up to ``tol``."""

    def is_subgroup_of(self, other: LinearGroup) -> bool:
        """Tell whether every element of this group is one of ``other``.

        Parameters
        ----------
        other : LinearGroup
            The candidate, of any dimension.

        Returns
        -------
        bool
            True also for the group itself.
        """
        return self == other or any(group.is_subgroup_of(other) for group in self._supergroups())

    def generators(self) -> Tensor:
        """Basis of the Lie algebra: symmetric generators, then rotations (x, y, z in 3D).

        Returns
        -------
        Tensor, (dimension, n, n), float64
            A fresh copy.
        """
        positive = self._positive_basis()
        if self.compact is None:
            return positive.clone()
        return torch.cat([positive, rotation_basis(self.n)])

    @property
    def symmetric_dimension(self) -> int:
        """Number of coordinates of the symmetric factor ``V``; they come first."""
        return len(self._positive_basis())

    @property
    def dimension(self) -> int:
        """Number of coordinates of an element: stretches, then rotations."""
        rotations = 0 if self.compact is None else self.n * (self.n - 1) // 2
        return self.symmetric_dimension + rotations

    def exp(self, x: Tensor) -> Tensor:
        """Exponential of algebra elements; not onto for SL, GL+ and GL.

        In closed form in the plane and for rotations of space.

        Parameters
        ----------
        x : Tensor, (..., n, n), floating
            Linear combinations of :meth:`generators`.

        Returns
        -------
        Tensor, (..., n, n), dtype of ``x``
            Elements of the component of the identity.
        """
        self.check_shape(x)
        return linear_exp(x, skew=self.symmetric_dimension == 0)

    def coordinates(self, g: Tensor) -> Tensor:
        """Coordinates of ``exp(Y) R``: those of ``Y``, then those of the rotation ``R``.

        ``Y`` is expanded in the symmetric generators: orthonormal ones for SL and GL, the
        identity for scalings, whose coordinate is the logarithm of the factor. The rotation has
        its angle in the plane, and axis times angle in space.

        Parameters
        ----------
        g : Tensor, (..., n, n), float32 or float64
            Elements of the component of the identity.

        Returns
        -------
        Tensor, (..., dimension), dtype of ``g``
            One chart for the whole component, unlike the logarithm.

        Raises
        ------
        ValueError
            If a matrix is no element, or improper; for groups with rotations of ``n > 3``.

        Examples
        --------
        >>> from equigeo.groups import Similarity
        >>> Similarity(2).coordinates(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        tensor([0.0000, 1.5708])
        """
        return chart_coordinates(self, g)

    def from_coordinates(self, c: Tensor) -> Tensor:
        """Elements ``exp(Y) R`` with given coordinates of ``Y`` and ``R``.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            In the order of :meth:`coordinates`.

        Returns
        -------
        Tensor, (..., n, n), dtype of ``c``
            Elements of the component of the identity.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """
        return chart_element(self, c)

    def haar_density(self, c: Tensor) -> Tensor:
        r"""Density :math:`\prod_{i<j} \sinh(y_i - y_j) / (y_i - y_j)`, y the eigenvalues of Y.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            Coordinates, or those of ``Y`` alone: (..., symmetric_dimension).

        Returns
        -------
        Tensor, (...), dtype of ``c``
            Of the Haar measure relative to dY and the uniform distribution of rotations.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """
        return chart_density(self, c)

    def log_stretch(self, g: Tensor) -> Tensor:
        """Largest ``|log s|`` over the singular values, which is the spectral radius of ``Y``.

        Parameters
        ----------
        g : Tensor, (..., n, n), floating
            Elements.

        Returns
        -------
        Tensor, (...), dtype of ``g``
            Subadditive, and zero for rotations and reflections.
        """
        self.check_shape(g)
        return log_stretch(g)

    def components(self) -> Tensor:
        """Return the identity, and ``diag(-1, 1, ...)`` where the group has reflections.

        Returns
        -------
        Tensor, (1 or 2, n, n), float64
            One element of each connected component.
        """
        identity = self.identity()
        if self.compact is None or self.compact.is_connected:
            return identity[None]
        mirror = identity.clone()
        mirror[0, 0] = -1.0
        return torch.stack([identity, mirror])

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw ``exp(Y) R``: ``Y`` uniform in a ball, ``R`` uniform in the compact factor.

        Parameters
        ----------
        k : int
            Number of elements.
        radius : float
            Bound of the coordinates of ``Y`` in the symmetric generators; a compact group has
            none and ignores it.
        generator : torch.Generator, optional
            Source of randomness; torch's global one by default.

        Returns
        -------
        Tensor, (k, n, n), float64
            Independent elements.

        Raises
        ------
        ValueError
            If ``radius`` is negative.
        """
        basis = self._positive_basis()
        coordinates = uniform_ball(k, len(basis), radius=radius, generator=generator)
        positive = matrix_exp(torch.einsum("kd,dij->kij", coordinates, basis))
        if self.compact is None:
            return positive
        return positive @ self.compact.haar(k, generator=generator)

    def special_elements(self) -> Tensor:
        """Half turn, quarter turn, cyclic permutation of axes; strong stretches.

        Returns
        -------
        Tensor, (elements, n, n), float64
            Elements of the component of the identity.
        """
        basis = self._positive_basis()
        chosen = basis[[0, -1]] if len(basis) > 1 else basis
        stretches = matrix_exp(0.9 * chosen)
        if self.compact is None:
            return torch.cat([stretches, matrix_exp(-0.9 * chosen)])
        return torch.cat([special_rotations(self.n), stretches])

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        """Tell which matrices are elements, up to rounding.

        Parameters
        ----------
        g : Tensor, (..., n, n), floating
            Matrices.
        tol : float, optional
            Largest deviation from the defining equations; by default the square root of the
            precision of ``g``, which admits long products of elements.

        Returns
        -------
        Tensor, (...), bool
            True where the matrix is an element; never where an entry is not finite.

        Raises
        ------
        ValueError
            If the last two axes are not ``(n, n)``.
        """
        self.check_shape(g)
        tol = torch.finfo(g.dtype).eps ** 0.5 if tol is None else tol
        return self._equations_hold(g, tol) & torch.isfinite(g).all(-1).all(-1)


def uniform_ball(
    k: int, dimension: int, *, radius: float, generator: torch.Generator | None
) -> Tensor:
    """Points drawn uniformly from a ball.

    Parameters
    ----------
    k, dimension : int
        Number of points and of coordinates; no coordinates are allowed.
    radius : float
        Radius of the ball, not negative.
    generator : torch.Generator or None
        Source of randomness; None is torch's global one.

    Returns
    -------
    Tensor, (k, dimension), float64
        The points.

    Raises
    ------
    ValueError
        If ``radius`` is negative.
    """
    if radius < 0:
        raise ValueError(f"radius must not be negative, got {radius}")
    if dimension == 0:
        return torch.zeros(k, 0, dtype=torch.float64)
    direction = torch.randn(k, dimension, dtype=torch.float64, generator=generator)
    direction = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True)
    share = torch.rand(k, 1, dtype=torch.float64, generator=generator) ** (1.0 / dimension)
    return radius * share * direction


def special_rotations(n: int) -> Tensor:
    """Rotations that break naive charts: half turn, quarter turn, permutation of the axes.

    The half turn is the cut of the logarithm, the quarter turn about y is a pole of the
    Y-X-Y Euler angles.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Returns
    -------
    Tensor, (elements, n, n), float64
        Entries are 0, 1 and -1 without rounding.
    """
    identity = torch.eye(n, dtype=torch.float64)
    half = identity.clone()
    half[-2, -2] = half[-1, -1] = -1.0
    quarter = identity.clone()
    quarter[0, 0] = quarter[-1, -1] = 0.0
    quarter[0, -1], quarter[-1, 0] = 1.0, -1.0
    cyclic = identity.roll(1, dims=0)
    cyclic[0] *= (-1.0) ** (n - 1)  # a cycle of even length is odd
    return torch.stack([half, quarter] if n == 2 else [half, quarter, cyclic])


def orthogonality_defect(g: Tensor) -> Tensor:
    """Largest entry of ``g^T g - 1``.

    Parameters
    ----------
    g : Tensor, (..., n, n), floating
        Matrices.

    Returns
    -------
    Tensor, (...), dtype of ``g``
        Zero for orthogonal matrices.
    """
    identity = torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)
    return (g.mT @ g - identity).abs().amax((-2, -1))
