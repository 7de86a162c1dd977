"""Base class of groups."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo.groups.algebra import PolarForm, check_precision, matrix_exp, random_ball


class Group(ABC):
    """Base of matrix groups acting on ``n``-dimensional space.

    Groups are frozen values, equal by kind and dimension. An element is a tensor
    ``(..., size, size)``, and every method takes batches. The element ``g @ h`` first applies
    ``h``.

    To define a group, write a frozen dataclass with ``n``, :meth:`generators`, :meth:`contains`,
    and :meth:`components` if it is not connected. A group of homogeneous matrices sets
    ``size = n + 1``, and ``linear_group`` if it acts on tensors.

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
        """Return a basis of the Lie algebra, (dimension, size, size), float64; empty if finite."""

    def components(self) -> Tensor:
        """Return one element of each connected component, the identity first.

        Of shape (components, size, size), float64; a finite group returns all of its elements.
        """
        return self.identity()[None]

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw random elements of all components, (k, size, size), float64.

        By default exponentials of a ball in the Lie algebra times elements of components.
        ``radius``, not negative, bounds the part that is not compact: a uniform distribution does
        not exist there.
        """
        basis = self.generators()
        x = random_ball(k, len(basis), radius=radius, generator=generator)
        proper = self.exp(torch.einsum("kd,dij->kij", x, basis))
        components = self.components()
        return proper @ components[torch.randint(len(components), (k,), generator=generator)]

    def special_elements(self) -> Tensor:
        """Return elements at which implementations often fail, (elements, size, size), float64.

        They lie in the component of the identity; by default one per generator.
        """
        return self.exp(0.9 * self.generators())  # far from the identity, yet no strong stretch

    @abstractmethod
    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        """Return which matrices (..., size, size) are elements, as (...) bool.

        ``tol`` is the largest deviation from the defining equations; by default the square root of
        the precision of ``g``, which admits long products of elements. Another shape raises
        ``ValueError``.
        """

    @property
    def dimension(self) -> int:
        """Number of coordinates of an element: the dimension of the Lie algebra."""
        return len(self.generators())

    def identity(self) -> Tensor:
        """Return the identity element, (size, size), float64."""
        return torch.eye(self.size, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Return products of elements: ``h`` is applied first. Batch axes broadcast."""
        self.check_shape(g)
        self.check_shape(h)
        return g @ h

    def inverse(self, g: Tensor) -> Tensor:
        """Return the inverses of elements, in the dtype of ``g``."""
        self.check_shape(g)
        return torch.linalg.inv(g)

    def exp(self, x: Tensor) -> Tensor:
        """Return the exponential of algebra elements; not surjective for SL, GL+ and GL."""
        self.check_shape(x)
        return matrix_exp(x)

    def testing_elements(self, generator: torch.Generator) -> Tensor:
        """Return few random and special elements of every component, as (elements, size, size)."""
        random = self.sample(3, radius=0.7, generator=generator)
        elements = torch.cat([random, self.special_elements()])
        return torch.cat([elements @ component for component in self.components()])

    def maps_to(self, target: Group) -> bool:
        """Return whether elements have a canonical image in ``target``.

        True (and :meth:`convert` works) for subgroups, and between linear and affine groups: a
        linear map is affine without a translation, and an affine map has a linear part. Groups
        without a polar form are compared by their testing elements.

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
        """Map elements to ``target`` by inclusion or by the linear part, a homomorphism.

        Returns (..., target.size, target.size); raises ``ValueError`` without a canonical map.
        """
        return self._resize(g, target, corner=1.0)

    def convert_algebra(self, x: Tensor, target: Group) -> Tensor:
        """Map elements of the Lie algebra by the derivative of :meth:`convert`."""
        return self._resize(x, target, corner=0.0)

    def check_shape(self, g: Tensor) -> None:
        """Raise ``ValueError`` if the last two axes are not ``(size, size)``."""
        if g.shape[-2:] != (self.size, self.size):
            raise ValueError(
                f"elements of {self} are (..., {self.size}, {self.size}), got {tuple(g.shape)}"
            )

    def check_coordinates(self, c: Tensor) -> None:
        """Raise ``ValueError`` if a tensor is not (..., dimension) in float32 or float64."""
        if c.shape[-1:] != (self.dimension,):
            raise ValueError(
                f"coordinates of {self} are (..., {self.dimension}), got {tuple(c.shape)}"
            )
        check_precision("coordinates", c)

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
