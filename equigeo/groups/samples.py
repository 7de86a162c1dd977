"""Weighted samples of a linear group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.groups.affine import Affine
from equigeo.groups.algebra import (
    CompactFactor,
    PolarForm,
    Stretches,
    check_precision,
    determinant,
    unit_rows,
    values_at_hand,
)
from equigeo.groups.linear import LinearGroup


@dataclass(frozen=True, eq=False, repr=False)
class GroupSamples:
    r"""Elements of a group with weights that turn sums into integrals over the group.

    .. math:: \sum_i w_i F(h_i) \approx \int_H F \, d\mu, \qquad d\mu(e^Y R) = J(Y)\, dY\, dR

    with dY in the coordinates of the group and dR the uniform distribution of rotations. A group
    that is not compact has infinite measure: every set implies a window of stretches, outside of
    which functions must vanish.

    Built by :meth:`from_coordinates`, :meth:`from_elements` and the samplers of this package; the
    constructor takes fields that agree.

    Parameters
    ----------
    group : LinearGroup
        The group ``H``.
    h : Tensor, (N, n, n), float32 or float64
        Elements, at least one; of O(n) and GL(n) also reflections.
    h_inv : Tensor, (N, n, n)
        Their inverses.
    weight : Tensor, (N,)
        Positive weights.
    coordinates : Tensor, (N, dimension)
        ``group.coordinates(h)``; of a reflection those of ``h diag(-1, 1, ...)``.

    Examples
    --------
    >>> from equigeo.groups import SL
    >>> samples = GroupSamples.from_coordinates(SL(2), torch.zeros(4, 3), torch.ones(4))
    >>> samples
    GroupSamples(SL(2), N=4, radius=0)
    >>> samples.act(torch.diag(torch.tensor([2.0, 0.5]))).coordinates[0]
    tensor([0.9803, 0.0000, 0.0000])
    """

    group: LinearGroup
    h: Tensor
    h_inv: Tensor
    weight: Tensor
    coordinates: Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.group, LinearGroup):
            raise TypeError(f"group must be a LinearGroup such as SL(2), got {self.group!r}")
        check_precision("h", self.h)
        count, n = len(self.h) if self.h.ndim else 0, self.group.n
        shapes = {
            "h": (count, n, n),
            "h_inv": (count, n, n),
            "weight": (count,),
            "coordinates": (count, self.group.dimension),
        }
        for name, shape in shapes.items():
            x = getattr(self, name)
            if tuple(x.shape) != shape:
                raise ValueError(
                    f"{name} of {count} samples of {self.group} must be {shape}, "
                    f"got {tuple(x.shape)}"
                )
            if x.dtype != self.h.dtype or x.device != self.h.device:
                raise ValueError(
                    f"{name} must be {self.h.dtype} on {self.h.device} as h is, "
                    f"got {x.dtype} on {x.device}"
                )
        if count == 0:
            raise ValueError("a set of samples needs at least one element, got none")
        positive = torch.isfinite(self.weight) & (self.weight > 0)
        if values_at_hand(positive) and not bool(positive.all()):
            raise ValueError("weights must be positive and finite")

    @classmethod
    def from_coordinates(
        cls, group: LinearGroup, coordinates: Tensor, weight: Tensor
    ) -> GroupSamples:
        """Build samples from coordinates (N, dimension) and positive weights (N,)."""
        if not isinstance(group, LinearGroup):
            raise TypeError(f"group must be a LinearGroup such as SL(2), got {group!r}")
        if values_at_hand(coordinates) and not bool(torch.isfinite(coordinates).all()):
            raise ValueError("coordinates must be finite")
        h, h_inv = group.from_coordinates(coordinates), group.inverse_from_coordinates(coordinates)
        return cls(group, h, h_inv, weight, coordinates)

    @classmethod
    def from_elements(cls, group: LinearGroup, h: Tensor, weight: Tensor) -> GroupSamples:
        """Build samples from elements (N, n, n), stored exactly, and positive weights (N,).

        A matrix that is no element raises ``ValueError``.
        """
        proper, mirror = split_component(group, h)
        coordinates = group.coordinates(proper)
        if group.symmetric_dimension == 0:
            h_inv = h.mT.clone(memory_format=torch.contiguous_format)
        else:
            h_inv = mirror[..., None] * group.inverse_from_coordinates(coordinates)
        return cls(group, h, h_inv, weight, coordinates)

    def __len__(self) -> int:
        return len(self.h)

    def __repr__(self) -> str:
        return f"GroupSamples({self.group}, N={len(self)}, radius={self.radius:.3g})"

    @property
    def mean_weight(self) -> Tensor:
        """Weights divided by their sum, (N,), which turn sums into means."""
        return self.weight / self.weight.sum()

    @property
    def determinant(self) -> Tensor:
        """Absolute determinants of the elements, (N,)."""
        return self.group.log_determinant(self.coordinates).exp()

    @property
    def radius(self) -> float:
        """Largest log-stretch of an element."""
        return float(self.group.log_stretch(self.h.detach()).max())

    def to(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> GroupSamples:
        """Convert all fields; inverses are rounded, not recomputed."""
        return self._map(lambda x: x.to(dtype=dtype, device=device))

    def select(self, indices: Tensor) -> GroupSamples:
        """Return a subset by positions (M,) or by a mask (N,); weights are not normalized."""
        return self._map(lambda x: x[indices])

    def _map(self, change: Callable[[Tensor], Tensor]) -> GroupSamples:
        parts = self.h, self.h_inv, self.weight, self.coordinates
        return GroupSamples(self.group, *map(change, parts))

    def act(self, g: Tensor) -> GroupSamples:
        """Multiply all elements by one of the group from the left and keep the weights.

        The Haar measure is invariant. ``g`` is (n, n), or (n + 1, n + 1): then its linear part
        acts. A product outside of the group raises ``ValueError``.
        """
        if g.shape == (self.group.n + 1,) * 2:
            g = Affine(self.group).convert(g, self.group)
        if g.ndim != 2:
            raise ValueError(f"g must be one element of {self.group}, got {tuple(g.shape)}")
        self.group.check_shape(g)
        moved = g.to(self.h.device, torch.float64) @ self.h.double()
        return GroupSamples.from_elements(self.group, moved.to(self.h.dtype), self.weight)


def pair_samples(stretches: GroupSamples, rotations: GroupSamples) -> GroupSamples:
    """Combine the i-th stretch with the i-th rotation: ``h_i = P_i R_i``.

    Enough for averages over draws; :func:`multiply_samples` has quadrature accuracy. Weights are
    those of the stretches times those of the rotations over their mean.

    Parameters
    ----------
    stretches : GroupSamples
        N samples of the group, without rotation.
    rotations : GroupSamples
        N samples of its compact factor, or of the rotations in it.

    Examples
    --------
    >>> from equigeo.groups import SL, equidistant_rotations, sample_stretches
    >>> pair_samples(sample_stretches(SL(2), 10, 0.2), equidistant_rotations(10)).group
    SL(2)
    """
    _check_factors(stretches, rotations)
    if len(stretches) != len(rotations):
        raise ValueError(
            f"pairs need equal numbers, got {len(stretches)} stretches and "
            f"{len(rotations)} rotations; use multiply_samples for all combinations"
        )
    weight = stretches.weight * rotations.mean_weight * len(rotations)
    return _combined(stretches, rotations, torch.arange(len(stretches)), weight)


def multiply_samples(stretches: GroupSamples, rotations: GroupSamples) -> GroupSamples:
    """Combine every stretch with every rotation: ``h = P R``, stretches slowest.

    Arguments are those of :func:`pair_samples`, of any numbers M and N. Returns M N samples with
    products of the weights.

    Examples
    --------
    >>> from equigeo.groups import SL, equidistant_rotations, grid_stretches
    >>> len(multiply_samples(grid_stretches(SL(2), 1.5, 7), equidistant_rotations(8)))
    392
    """
    _check_factors(stretches, rotations)
    pairs = torch.cartesian_prod(torch.arange(len(stretches)), torch.arange(len(rotations)))
    weight = torch.outer(stretches.weight, rotations.weight).flatten()
    repeated = stretches.select(pairs[:, 0].to(stretches.h.device))
    return _combined(repeated, rotations, pairs[:, 1], weight)


def split_component(
    group: LinearGroup,
    h: Tensor,  # (..., n, n)
) -> tuple[Tensor, Tensor]:  # (..., n, n), (..., n)
    """Return ``p`` in the component of the identity and the diagonal of ``m``, with ``h = p m``."""
    group.check_shape(h)
    check_precision("elements", h)
    ones = h.new_ones(h.shape[:-1])
    if not group.has_reflections:
        return h, ones
    sign = determinant(unit_rows(h.detach())).sign()[..., None]
    mirror = torch.cat([sign, ones[..., 1:]], dim=-1)
    return h * mirror[..., None, :] + 0.0, mirror  # no -0.0, at which an arctangent would jump


def _combined(
    stretches: GroupSamples, rotations: GroupSamples, order: Tensor, weight: Tensor
) -> GroupSamples:
    """Return products of stretches with rotations in a given order, exact for exact rotations."""
    group = stretches.group
    order = order.to(rotations.h.device)
    stretch = stretches.coordinates[:, : group.symmetric_dimension]
    return GroupSamples(
        group,
        stretches.h @ rotations.h[order],
        rotations.h_inv[order] @ stretches.h_inv,
        weight,
        torch.cat([stretch, rotations.coordinates[order]], dim=-1),
    )


def _check_factors(stretches: GroupSamples, rotations: GroupSamples) -> None:
    factor, n = stretches.group.compact_factor, stretches.group.n
    compact = PolarForm(n, Stretches.NONE, factor)
    if factor is CompactFactor.TRIVIAL or not rotations.group.polar_form.lies_in(compact):
        name = None if factor is CompactFactor.TRIVIAL else f"{factor.value}({n})"
        raise ValueError(
            f"stretches of {stretches.group} need rotations in {name}, "
            f"got samples of {rotations.group}"
        )
    if bool((stretches.coordinates[:, stretches.group.symmetric_dimension :] != 0).any()):
        raise ValueError("stretches must be positive definite, got some with a rotation")
    if stretches.h.dtype != rotations.h.dtype:
        raise ValueError(
            f"stretches and rotations must agree in type, got {stretches.h.dtype} and "
            f"{rotations.h.dtype}"
        )
