"""Samples of positive definite matrices with the weights of the Haar measure."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo.groups.linear_group import LinearGroup
from equigeo.groups.matrices.random_matrices import random_ball
from equigeo.groups.samples.group_samples import GroupSamples


def sample_stretches(
    group: LinearGroup,
    k: int,
    std: float | None = None,
    *,
    radius: float | None = None,
    quasi: bool = False,
    generator: torch.Generator | None = None,
) -> GroupSamples:
    """Draw stretches with normal coordinates, or with uniform ones in a ball.

    The weights ``J / (k q)``, q the density of the draws, make sums estimate Haar integrals. Those
    of normal coordinates spread with ``std``: an effective share of 0.89 of the samples remains for
    n = 2 at 0.7, and 0.49 for n = 3, where 0.5 should not be exceeded.

    Parameters
    ----------
    group : LinearGroup
        A group with stretches.
    k : int
        Number of samples, at least 1.
    std, radius : float, optional
        Exactly one of them, positive: standard deviation of each coordinate, or radius of the ball,
        which log-stretches do not exceed for SL and GL+.
    quasi : bool
        Use a Sobol sequence: errors of smooth functions fall almost like ``1 / k``, fastest for
        powers of two. A generator shifts it at random, which makes sums unbiased.

    Returns
    -------
    GroupSamples
        float64.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> samples = sample_stretches(GLPlus(2), 64, radius=0.5, quasi=True)
    >>> samples.h.shape, bool((torch.linalg.det(samples.h) > 0).all())
    (torch.Size([64, 2, 2]), True)
    """
    if (std is None) == (radius is None):
        raise ValueError(f"give either std or radius, got std={std} and radius={radius}")
    _check_window(group, k, std=std, radius=radius)
    dimension = group.symmetric_dimension
    if std is not None:
        if quasi:
            standard = torch.special.ndtri(_sobol(k, dimension, generator))
        else:
            standard = torch.randn(k, dimension, dtype=torch.float64, generator=generator)
        spread = dimension * math.log(std * math.sqrt(math.tau))
        log_density = -standard.square().sum(-1) / 2 - spread
        return _weighted(group, std * standard, torch.exp(-log_density) / k)
    radius = float(radius or 0.0)
    if quasi:
        cube = _sobol(k, dimension + 1, generator)
        direction = torch.special.ndtri(cube[:, 1:])
        length = torch.linalg.vector_norm(direction, dim=1, keepdim=True)
        direction = direction / torch.where(length > 0, length, 1)  # a single point is the centre
        y = radius * cube[:, :1] ** (1 / dimension) * direction
    else:
        y = random_ball(k, dimension, radius=radius, generator=generator)
    # volume of the ball, by the gamma function in any dimension
    volume = math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1) * radius**dimension
    return _weighted(group, y, torch.full_like(y[:, 0], volume / k))


def grid_stretches(group: LinearGroup, extent: float, points: int) -> GroupSamples:
    """Return a tensor grid of equidistant coordinates, weighted by ``J spacing^dimension``.

    The trapezoid rule: for functions that vanish at the edge of the window it converges faster than
    any power of the spacing. A kernel of width s in Y needs a spacing of at most 1.6 s. Grids of
    scalings are log-uniform and closed under their own steps.

    Parameters
    ----------
    group : LinearGroup
        A group with stretches.
    extent : float
        Largest coordinate on each axis.
    points : int
        Points per axis, from ``-extent`` to ``extent``, at least 2.

    Returns
    -------
    GroupSamples
        float64, of ``points ** symmetric_dimension`` elements, the last coordinate fastest.

    Examples
    --------
    >>> from equigeo.groups import Scaling
    >>> grid_stretches(Scaling(2), 0.5, 3).weight
    tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    _check_window(group, points, extent=extent)
    if points < 2:
        raise ValueError(f"points must be at least 2, got {points}")
    axis = torch.linspace(-extent, extent, points, dtype=torch.float64)
    axes = torch.meshgrid([axis] * group.symmetric_dimension, indexing="ij")
    y = torch.stack([x.flatten() for x in axes], dim=-1)
    spacing = 2 * extent / (points - 1)
    return _weighted(group, y, torch.full_like(y[:, 0], spacing**group.symmetric_dimension))


def _weighted(group: LinearGroup, y: Tensor, lebesgue: Tensor) -> GroupSamples:
    """Return samples at coordinates of stretches with weights of their Lebesgue measure."""
    rotations = group.dimension - group.symmetric_dimension
    coordinates = torch.nn.functional.pad(y, (0, rotations))
    return GroupSamples.from_coordinates(group, coordinates, group.haar_density(y) * lebesgue)


def _sobol(k: int, dimension: int, generator: torch.Generator | None) -> Tensor:
    """Return Sobol points (k, dimension) inside the unit cube, shifted modulo 1."""
    engine = torch.quasirandom.SobolEngine(dimension)
    points = engine.draw(k, dtype=torch.float64)
    # the sequence starts at 0, which is no interior point: half a cell centres it
    shift = torch.full((dimension,), 0.5 / k, dtype=torch.float64)
    if generator is not None:
        shift = torch.rand(dimension, dtype=torch.float64, generator=generator)
    # by one rounding away from 0 and 1, where the normal quantile is infinite
    return ((points + shift) % 1.0).clamp(2.0**-53, 1 - 2.0**-53)


def _check_window(group: LinearGroup, k: int, **sizes: float | None) -> None:
    if not isinstance(group, LinearGroup) or group.symmetric_dimension == 0:
        raise ValueError(f"group must be a linear group with stretches such as SL(2), got {group}")
    if k < 1:
        raise ValueError(f"the number of samples must be at least 1, got {k}")
    for name, size in sizes.items():
        if size is not None and not 0 < size < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {size}")
