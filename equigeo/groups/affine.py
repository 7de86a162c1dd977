"""Affine groups: a linear group and all translations."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups.group import Group
from equigeo.groups.linear_group import LinearGroup, uniform_ball


@dataclass(frozen=True, repr=False)
class Affine(Group):
    r"""The semidirect product :math:`\mathbb R^n \rtimes H`, as homogeneous matrices.

    The element ``(t, h)`` is ``[[h, t], [0, 1]]`` and moves a point ``p`` to ``h p + t``.

    Parameters
    ----------
    linear : LinearGroup
        The group ``H`` of linear parts.

    Raises
    ------
    TypeError
        If ``linear`` is not a linear group.

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
        """Check the group of linear parts and copy its dimension."""
        if not isinstance(self.linear, LinearGroup):
            raise TypeError(f"linear must be a LinearGroup such as O(3), got {self.linear!r}")
        object.__setattr__(self, "n", self.linear.n)

    def __repr__(self) -> str:
        """Return the expression that makes this group."""
        return f"Affine({self.linear})"

    @property
    def size(self) -> int:
        """Number of rows of an element, ``n + 1``."""
        return self.n + 1

    @property
    def linear_group(self) -> LinearGroup:
        """Group of the linear parts."""
        return self.linear

    def element(self, h: Tensor, t: Tensor) -> Tensor:
        """Assemble homogeneous matrices.

        Parameters
        ----------
        h : Tensor, (..., n, n), floating
            Linear parts.
        t : Tensor, (..., n), dtype of ``h``
            Translations; batch axes broadcast with those of ``h``.

        Returns
        -------
        Tensor, (..., n + 1, n + 1), dtype of ``h``
            ``[[h, t], [0, 1]]``.

        Raises
        ------
        ValueError
            If a shape does not fit ``n``.
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
        """Invert elements: ``(t, h)`` becomes ``(-h^-1 t, h^-1)``.

        Parameters
        ----------
        g : Tensor, (..., n + 1, n + 1), floating
            Elements.

        Returns
        -------
        Tensor, (..., n + 1, n + 1), dtype of ``g``
            The inverses.
        """
        self.check_shape(g)
        h = self.linear.inverse(g[..., :-1, :-1])
        return self.element(h, -(h @ g[..., :-1, -1:])[..., 0])

    def generators(self) -> Tensor:
        """Basis of the Lie algebra: that of ``H``, then the translations.

        Returns
        -------
        Tensor, (dim H + n, n + 1, n + 1), float64
            A fresh copy.
        """
        linear = self.linear.convert_algebra(self.linear.generators(), self)
        translations = torch.zeros(self.n, self.size, self.size, dtype=torch.float64)
        translations[:, :-1, -1] = torch.eye(self.n, dtype=torch.float64)
        return torch.cat([linear, translations])

    def components(self) -> Tensor:
        """Components of ``H``, without translation.

        Returns
        -------
        Tensor, (1 or 2, n + 1, n + 1), float64
            One element of each connected component, the identity first.
        """
        return self.linear.convert(self.linear.components(), self)

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw a linear part from ``H`` and a translation uniformly from a ball.

        Parameters
        ----------
        k : int
            Number of elements.
        radius : float
            Radius of the ball of translations, in the unit of the points, and of ``H.sample``.
        generator : torch.Generator, optional
            Source of randomness; torch's global one by default.

        Returns
        -------
        Tensor, (k, n + 1, n + 1), float64
            Independent elements.

        Raises
        ------
        ValueError
            If ``radius`` is negative.
        """
        h = self.linear.sample(k, radius=radius, generator=generator)
        return self.element(h, uniform_ball(k, self.n, radius=radius, generator=generator))

    def special_elements(self) -> Tensor:
        """Return the special elements of ``H`` and one pure translation.

        Returns
        -------
        Tensor, (elements, n + 1, n + 1), float64
            Elements of the component of the identity.
        """
        linear = self.linear.convert(self.linear.special_elements(), self)
        shift = 1.0 + torch.arange(self.n, dtype=torch.float64)
        return torch.cat([linear, self.element(self.linear.identity(), shift)[None]])

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        """Tell which matrices are elements, up to rounding.

        Parameters
        ----------
        g : Tensor, (..., n + 1, n + 1), floating
            Matrices.
        tol : float, optional
            As in ``H.contains``; the last row must be ``0 ... 0 1`` up to it.

        Returns
        -------
        Tensor, (...), bool
            True where the matrix is an element.

        Raises
        ------
        ValueError
            If the last two axes are not ``(n + 1, n + 1)``.
        """
        self.check_shape(g)
        bound = torch.finfo(g.dtype).eps ** 0.5 if tol is None else tol
        bottom = torch.nn.functional.pad(g.new_ones(1), (self.n, 0))
        homogeneous = (g[..., -1, :] - bottom).abs().amax(-1) <= bound
        finite = torch.isfinite(g).all(-1).all(-1)
        return homogeneous & finite & self.linear.contains(g[..., :-1, :-1], tol=tol)
