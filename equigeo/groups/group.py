"""The interface of all groups: elements are batched matrices, the group is a value."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.groups.inclusions import PolarForm
from equigeo.groups.matrices.matrix_exp import matrix_exp
from equigeo.groups.matrices.random_matrices import random_ball


class Group(ABC):
    """Base of matrix groups acting on ``n``-dimensional space.

    Groups are frozen values: two groups of the same kind and dimension are equal and hash alike.
    An element is a tensor ``(..., size, size)``, and every method takes batches. Column vectors
    are acted on from the left: the element ``g @ h`` first applies ``h``.

    A group of one's own is a frozen dataclass with ``n``, :meth:`generators`, :meth:`contains`,
    and :meth:`components` where it is not connected; all else follows. One of homogeneous matrices
    sets ``size = n + 1``, and ``linear_group`` where tensors are to be moved by it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Shear(Group):
    ...     n = 2
    ...     def generators(self):
    ...         return torch.tensor([[[0.0, 1.0], [0.0, 0.0]]], dtype=torch.float64)
    ...     def contains(self, g, *, tol=None):
    ...         return (g - self.identity())[..., [0, 1, 1], [0, 0, 1]].abs().amax(-1) <= 1e-6
    >>> bool(Shear().contains(Shear().sample(5)).all()), Shear() == Shear()
    (True, True)
    """

    n: int

    @property
    def size(self) -> int:
        """Number of rows of an element: ``n``, or ``n + 1`` for homogeneous matrices."""
        return self.n

    @property
    def linear_group(self) -> Group:
        """Group of the linear parts of all elements; a linear group itself."""
        return self

    @property
    def polar_form(self) -> PolarForm | None:
        """Polar form of the group of the linear parts; None if there is none."""
        return None

    @abstractmethod
    def generators(self) -> Tensor:
        """Return a basis of the Lie algebra.

        Returns
        -------
        Tensor, (dimension, size, size), float64
            A fresh copy; ``(0, size, size)`` for a finite group.
        """

    def components(self) -> Tensor:
        """Return one element of each connected component, the identity first.

        Returns
        -------
        Tensor, (components, size, size), float64
            The identity alone for a connected group, all elements of a finite one.
        """
        return self.identity()[None]

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw random elements of all components.

        Parameters
        ----------
        k : int
            Number of elements.
        radius : float
            Bound of the part of an element that is not compact; see the group. Such groups have
            no uniform distribution, so a window is always implied.
        generator : torch.Generator, optional
            Source of randomness; torch's global one by default.

        Returns
        -------
        Tensor, (k, size, size), float64
            Independent elements; where a group says nothing else, exponentials of a ball in the
            Lie algebra, times one element of a component each.

        Raises
        ------
        ValueError
            If ``radius`` is negative.
        """
        basis = self.generators()
        x = random_ball(k, len(basis), radius=radius, generator=generator)
        proper = self.exp(torch.einsum("kd,dij->kij", x, basis))
        components = self.components()
        return proper @ components[torch.randint(len(components), (k,), generator=generator)]

    def special_elements(self) -> Tensor:
        """Return elements at which implementations often fail: half turns, permutations, stretches.

        Returns
        -------
        Tensor, (elements, size, size), float64
            Elements of the component of the identity; where a group says nothing else, one on the
            subgroup of each generator.
        """
        return self.exp(0.9 * self.generators())  # far from the identity, yet no strong stretch

    @abstractmethod
    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        """Return which matrices are elements, up to rounding.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Matrices.
        tol : float, optional
            Largest deviation from the defining equations; by default the square root of the
            precision of ``g``, which admits long products of elements.

        Returns
        -------
        Tensor, (...), bool
            True where the matrix is an element.

        Raises
        ------
        ValueError
            If the last two axes are not ``(size, size)``.
        """

    @property
    def dimension(self) -> int:
        """Number of coordinates of an element: the dimension of the Lie algebra."""
        return len(self.generators())

    def identity(self) -> Tensor:
        """Return the identity element.

        Returns
        -------
        Tensor, (size, size), float64
            The identity matrix.
        """
        return torch.eye(self.size, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Multiply elements: the result first applies ``h``, then ``g``.

        Parameters
        ----------
        g, h : Tensor, (..., size, size), floating
            Elements; batch axes broadcast.

        Returns
        -------
        Tensor, (..., size, size), floating
            The products.
        """
        self.check_shape(g)
        self.check_shape(h)
        return g @ h

    def inverse(self, g: Tensor) -> Tensor:
        """Invert elements.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Elements.

        Returns
        -------
        Tensor, (..., size, size), dtype of ``g``
            ``inverse(g) @ g`` is the identity.
        """
        self.check_shape(g)
        return torch.linalg.inv(g)

    def exp(self, x: Tensor) -> Tensor:
        """Return the exponential of algebra elements; not surjective for SL, GL+ and GL.

        Parameters
        ----------
        x : Tensor, (..., size, size), floating
            Linear combinations of :meth:`generators`.

        Returns
        -------
        Tensor, (..., size, size), dtype of ``x``
            Elements of the component of the identity.
        """
        self.check_shape(x)
        return matrix_exp(x)

    def testing_elements(self, generator: torch.Generator) -> Tensor:
        """Return random and special elements of every component, including improper ones.

        Parameters
        ----------
        generator : torch.Generator
            Source of the random elements.

        Returns
        -------
        Tensor, (elements, size, size), float64
            A set small enough to evaluate a whole network on each.
        """
        random = self.sample(3, radius=0.7, generator=generator)
        elements = torch.cat([random, self.special_elements()])
        return torch.cat([elements @ component for component in self.components()])

    def maps_to(self, target: Group) -> bool:
        """Return whether elements have a canonical image in ``target``.

        That is the case for a subgroup, and between linear and affine groups: a linear map is
        affine with no translation, and an affine map has a linear part. Where one of both groups
        has no polar form, elements decide.

        Parameters
        ----------
        target : Group
            Where elements would go.

        Returns
        -------
        bool
            Whether :meth:`convert` works.

        Examples
        --------
        >>> from equigeo.groups import SO, O, Affine
        >>> SO(3).maps_to(O(3)), O(3).maps_to(SO(3)), Affine(SO(3)).maps_to(O(3))
        (True, False, True)
        """
        if self == target:
            return True
        if self.polar_form is not None and target.polar_form is not None:
            return self.polar_form.lies_in(target.polar_form)
        return _elements_lie_in(self, target)

    def convert(self, g: Tensor, target: Group) -> Tensor:
        """Map elements to ``target`` by inclusion or by the linear part.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Elements of this group.
        target : Group
            A group that this one maps to.

        Returns
        -------
        Tensor, (..., target.size, target.size), dtype of ``g``
            A homomorphic image: products go to products.

        Raises
        ------
        ValueError
            If there is no canonical map.
        """
        return self._resize(g, target, corner=1.0)

    def convert_algebra(self, x: Tensor, target: Group) -> Tensor:
        """Map algebra elements by the derivative of :meth:`convert`.

        Parameters
        ----------
        x : Tensor, (..., size, size), floating
            Elements of the Lie algebra of this group.
        target : Group
            A group that this one maps to.

        Returns
        -------
        Tensor, (..., target.size, target.size), dtype of ``x``
            Elements of the Lie algebra of ``target``.

        Raises
        ------
        ValueError
            If there is no canonical map.
        """
        return self._resize(x, target, corner=0.0)

    def check_shape(self, g: Tensor) -> None:
        """Raise if a tensor cannot hold elements by its shape; values are not read.

        Parameters
        ----------
        g : Tensor, (..., size, size)
            Candidates.

        Raises
        ------
        ValueError
            If the last two axes are not ``(size, size)``.
        """
        if g.shape[-2:] != (self.size, self.size):
            raise ValueError(
                f"elements of {self} are (..., {self.size}, {self.size}), got {tuple(g.shape)}"
            )

    def _resize(self, g: Tensor, target: Group, corner: float) -> Tensor:
        self.check_shape(g)
        if not self.maps_to(target):
            raise ValueError(f"{self} has no canonical map to {target}")
        return _resized(g, target.size, corner)


def _resized(g: Tensor, size: int, corner: float) -> Tensor:
    """Return linear parts of homogeneous matrices, or homogeneous matrices of linear maps."""
    if g.shape[-1] > size:
        return g[..., :-1, :-1]
    if g.shape[-1] < size:
        bottom = g.new_tensor([0.0] * g.shape[-1] + [corner])
        g = torch.nn.functional.pad(g, (0, 1, 0, 1))
        return torch.cat([g[..., :-1, :], bottom.expand_as(g[..., -1:, :])], dim=-2)
    return g


@kept
def _elements_lie_in(source: Group, target: Group) -> bool:
    """Return whether generic and special elements of all components lie in the other group."""
    if source.n != target.n and source.size != target.size:
        return False
    elements = source.testing_elements(torch.Generator().manual_seed(0))
    return bool(target.contains(_resized(elements, target.size, corner=1.0)).all())
