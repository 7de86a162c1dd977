"""The interface of all groups: elements are batched matrices, the group is a value."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from equigeo.groups.inclusions import PolarForm
from equigeo.groups.matrices.check_matrices import check_precision
from equigeo.groups.matrices.matrix_exp import matrix_exp


class Group(ABC):
    """A matrix group acting on ``n``-dimensional space.

    Groups are frozen values: two groups of the same kind and dimension are equal and hash alike.
    An element is a tensor ``(..., size, size)``, and every method takes batches. Column vectors
    are acted on from the left: the element ``g @ h`` first applies ``h``.
    """

    n: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of rows of an element: ``n``, or ``n + 1`` where elements are homogeneous."""

    @property
    @abstractmethod
    def linear_group(self) -> Group:
        """Group of the linear parts of all elements; a linear group is its own."""

    @property
    @abstractmethod
    def polar_form(self) -> PolarForm:
        """What the group of the linear parts is made of."""

    @abstractmethod
    def generators(self) -> Tensor:
        """Basis of the Lie algebra.

        Returns
        -------
        Tensor, (dimension, size, size), float64
            A fresh copy.
        """

    @abstractmethod
    def components(self) -> Tensor:
        """One element of each connected component, the identity first.

        Returns
        -------
        Tensor, (components, size, size), float64
            The identity alone for a connected group, else the identity and a reflection.
        """

    @abstractmethod
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
            Independent elements.
        """

    @abstractmethod
    def special_elements(self) -> Tensor:
        """Elements at which implementations tend to fail: half turns, permutations, stretches.

        Returns
        -------
        Tensor, (elements, size, size), float64
            Elements of the component of the identity.
        """

    @abstractmethod
    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        """Tell which matrices are elements, up to rounding.

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

    @abstractmethod
    def coordinates(self, g: Tensor) -> Tensor:
        """Coordinates of elements in one chart that covers the component of the identity.

        Parameters
        ----------
        g : Tensor, (..., size, size), float32 or float64
            Elements.

        Returns
        -------
        Tensor, (..., dimension), dtype of ``g``
            Twice differentiable except at half turns, where the rotation coordinates jump.

        Raises
        ------
        ValueError
            If a matrix is no element, or improper: the component is not in the coordinates.
        """

    @abstractmethod
    def from_coordinates(self, c: Tensor) -> Tensor:
        """Elements with given coordinates, the inverse of :meth:`coordinates`.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            Any real numbers.

        Returns
        -------
        Tensor, (..., size, size), dtype of ``c``
            Elements of the component of the identity.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """

    @abstractmethod
    def haar_density(self, c: Tensor) -> Tensor:
        """Density of the left Haar measure in the coordinates that are not rotations.

        The measure is ``haar_density(c)`` times Lebesgue measure in translations and stretches,
        times the uniform distribution of rotations.

        Parameters
        ----------
        c : Tensor, (..., dimension), float32 or float64
            Coordinates.

        Returns
        -------
        Tensor, (...), dtype of ``c``
            Positive; 1 at the identity.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """

    @abstractmethod
    def log_stretch(self, g: Tensor) -> Tensor:
        """Largest ``|log s|`` over the singular values of the linear parts.

        Parameters
        ----------
        g : Tensor, (..., size, size), floating
            Elements.

        Returns
        -------
        Tensor, (...), dtype of ``g``
            At most the sum of those of two factors, the same for an inverse, and unchanged by
            rotations on either side: the radius by which windows of groups are measured.

        Raises
        ------
        ValueError
            If ``g`` has the wrong shape.
        """

    def identity(self) -> Tensor:
        """Return the neutral element.

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
        """Exponential of algebra elements; not onto for SL, GL+ and GL.

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
        """Random and special elements of every component, improper ones included.

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
        """Tell whether elements have a canonical image in ``target``.

        That is the case for a subgroup, and between linear and affine groups: a linear map is
        affine with no translation, and an affine map has a linear part.

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
        return self.polar_form.lies_in(target.polar_form)

    def convert(self, g: Tensor, target: Group) -> Tensor:
        """Send elements to ``target`` by inclusion or by taking the linear part.

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
        """Send algebra elements along the derivative of :meth:`convert`.

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
        """Refuse tensors that cannot be elements by their shape; values are not looked at.

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

    def check_coordinates(self, c: Tensor) -> None:
        """Refuse tensors that cannot be coordinates; values are not looked at.

        Parameters
        ----------
        c : Tensor, (..., dimension)
            Candidates.

        Raises
        ------
        ValueError
            If the last axis has another length or the type is too coarse.
        """
        if c.shape[-1:] != (self.dimension,):
            raise ValueError(
                f"coordinates of {self} are (..., {self.dimension}), got {tuple(c.shape)}"
            )
        check_precision("coordinates", c)

    def _resize(self, g: Tensor, target: Group, corner: float) -> Tensor:
        self.check_shape(g)
        if not self.maps_to(target):
            raise ValueError(f"{self} has no canonical map to {target}")
        if self.size > target.size:
            return g[..., :-1, :-1]
        if self.size < target.size:
            g = torch.nn.functional.pad(g, (0, 1, 0, 1))
            bottom = g.new_tensor([0.0] * self.size + [corner])
            return torch.cat([g[..., :-1, :], bottom.expand_as(g[..., -1:, :])], dim=-2)
        return g
