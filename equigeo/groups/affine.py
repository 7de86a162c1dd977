"""Affine groups."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups.algebra import PolarForm, matrix_exp, random_ball, values_at_hand
from equigeo.groups.group import Group
from equigeo.groups.linear import LinearGroup


@dataclass(frozen=True, repr=False)
class Affine(Group):
    r"""The semidirect product :math:`\mathbb R^n \rtimes H` of translations and a linear group.

    The element ``(t, h)`` is the homogeneous matrix ``[[h, t], [0, 1]]`` and moves a point ``p`` to
    ``h p + t``.

    Parameters
    ----------
    linear : LinearGroup
        The group ``H``.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> group = Affine(O(3))
    >>> group, group.size, len(group.generators())
    (Affine(O(3)), 4, 6)
    """

    linear: LinearGroup
    n: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.linear, LinearGroup):
            raise TypeError(f"linear must be a LinearGroup such as O(3), got {self.linear!r}")
        object.__setattr__(self, "n", self.linear.n)

    def __repr__(self) -> str:
        return f"Affine({self.linear})"

    @property
    def size(self) -> int:
        return self.n + 1

    @property
    def linear_group(self) -> LinearGroup:
        return self.linear

    @property
    def polar_form(self) -> PolarForm:
        return self.linear.polar_form

    def element(self, h: Tensor, t: Tensor) -> Tensor:
        """Return homogeneous matrices of linear parts (..., n, n) and translations (..., n).

        Batch axes broadcast.
        """
        self.linear.check_shape(h)
        if t.shape[-1:] != (self.n,):
            raise ValueError(f"translations must be (..., {self.n}), got {tuple(t.shape)}")
        batch = torch.broadcast_shapes(h.shape[:-2], t.shape[:-1])
        top = torch.cat(
            [h.expand(*batch, self.n, self.n), t.expand(*batch, self.n)[..., None]], dim=-1
        )
        bottom = torch.nn.functional.pad(h.new_ones(1, 1), (self.n, 0))
        return torch.cat([top, bottom.expand(*batch, 1, self.size)], dim=-2)

    def inverse(self, g: Tensor) -> Tensor:
        """Invert elements: ``(t, h)`` becomes ``(-h^-1 t, h^-1)``."""
        self.check_shape(g)
        h = self.linear.inverse(g[..., :-1, :-1])
        return self.element(h, -(h @ g[..., :-1, -1:])[..., 0])

    def generators(self) -> Tensor:
        """Return a basis of the Lie algebra: translations, then that of ``H``."""
        linear = self.linear.convert_algebra(self.linear.generators(), self)
        translations = torch.zeros(self.n, self.size, self.size, dtype=torch.float64)
        translations[:, :-1, -1] = torch.eye(self.n, dtype=torch.float64)
        return torch.cat([translations, linear])

    @property
    def dimension(self) -> int:
        return self.n + self.linear.dimension

    def exp(self, x: Tensor) -> Tensor:
        self.check_shape(x)
        # phi_1(X) = int_0^1 e^{s X} ds by the exponential of the whole matrix: X may be singular
        return matrix_exp(x)

    def coordinates(self, g: Tensor) -> Tensor:
        """Return the translation, then the coordinates in ``H``."""
        self.check_shape(g)
        bottom = torch.nn.functional.pad(g.new_ones(1), (self.n, 0))
        if values_at_hand(g) and not bool((g[..., -1, :] == bottom).all()):
            raise ValueError(f"elements of {self} have the last row 0 ... 0 1")
        return torch.cat([g[..., :-1, -1], self.linear.coordinates(g[..., :-1, :-1])], dim=-1)

    def from_coordinates(self, c: Tensor) -> Tensor:
        """Return elements (..., size, size) with given coordinates (..., dimension)."""
        self.check_coordinates(c)
        return self.element(self.linear.from_coordinates(c[..., self.n :]), c[..., : self.n])

    def haar_density(self, c: Tensor) -> Tensor:
        r"""Return the density of the left Haar measure, :math:`|\det h|^{-1}` times that of ``H``.

        The density of the right Haar measure has no factor.
        """
        self.check_coordinates(c)
        c = c[..., self.n :]
        return self.linear.haar_density(c) * torch.exp(-self.linear.log_determinant(c))

    def log_stretch(self, g: Tensor) -> Tensor:
        """Return that of the linear parts, as of :meth:`LinearGroup.log_stretch`."""
        self.check_shape(g)
        return self.linear.log_stretch(g[..., :-1, :-1])

    def components(self) -> Tensor:
        return self.linear.convert(self.linear.components(), self)

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw a linear part from ``H`` and a translation uniformly from a ball.

        ``radius`` bounds both, that of translations in the unit of the points.
        """
        h = self.linear.sample(k, radius=radius, generator=generator)
        return self.element(h, random_ball(k, self.n, radius=radius, generator=generator))

    def special_elements(self) -> Tensor:
        linear = self.linear.convert(self.linear.special_elements(), self)
        shift = 1.0 + torch.arange(self.n, dtype=torch.float64)
        return torch.cat([linear, self.element(self.linear.identity(), shift)[None]])

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        self.check_shape(g)
        bound = torch.finfo(g.dtype).eps ** 0.5 if tol is None else tol
        bottom = torch.nn.functional.pad(g.new_ones(1), (self.n, 0))
        homogeneous = (g[..., -1, :] - bottom).abs().amax(-1) <= bound
        finite = torch.isfinite(g).all(-1).all(-1)
        return homogeneous & finite & self.linear.contains(g[..., :-1, :-1], tol=tol)
