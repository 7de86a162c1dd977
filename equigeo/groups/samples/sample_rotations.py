"""Samples of rotations: equidistant, uniform at random, and closed finite groups."""

from __future__ import annotations

import math
from itertools import permutations, product

import torch
from torch import Tensor

from equigeo.groups.kinds import SO
from equigeo.groups.samples.group_samples import GroupSamples

GOLDEN = (1 + math.sqrt(5)) / 2
SNAP = 1e-15  # a few roundings of an angle below 2 pi


def equidistant_rotations(k: int, offset: float = 0.0) -> GroupSamples:
    """Cyclic group of ``k`` rotations of the plane, turned by an offset.

    The full turn is left out: counting one rotation twice spoils the quadrature, which otherwise
    converges faster than any power of ``1 / k`` for smooth functions.

    Parameters
    ----------
    k : int
        Number of rotations, at least 1.
    offset : float
        First angle, in radians.

    Returns
    -------
    GroupSamples
        Of SO(2), float64, with weights ``1 / k``.

    Raises
    ------
    ValueError
        If ``k`` is below 1 or ``offset`` is not finite.

    Examples
    --------
    >>> equidistant_rotations(4).h[1].round().tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    _check_count(k)
    if not math.isfinite(offset):
        raise ValueError(f"offset must be finite, got {offset}")
    angle = offset + 2 * math.pi / k * torch.arange(k, dtype=torch.float64)
    cosine, sine = angle.cos(), angle.sin()
    for values in (cosine, sine):  # quarter turns permute a grid only if they are exact
        nearest = values.round()
        values.copy_(torch.where((values - nearest).abs() < SNAP, nearest + 0.0, values))
    h = torch.stack([cosine, -sine + 0.0, sine, cosine], -1).unflatten(-1, (2, 2))
    return _uniform(h)


def haar_rotations(n: int, k: int, *, generator: torch.Generator | None = None) -> GroupSamples:
    """Rotations drawn independently from the uniform distribution.

    Parameters
    ----------
    n : int
        Dimension of space, 2 or 3.
    k : int
        Number of rotations, at least 1.
    generator : torch.Generator, optional
        Source of randomness; torch's global one by default.

    Returns
    -------
    GroupSamples
        Of SO(n), float64, with weights ``1 / k``.

    Raises
    ------
    ValueError
        If ``k`` is below 1 or there are no coordinates for ``n``.

    Examples
    --------
    >>> samples = haar_rotations(3, 10, generator=torch.Generator().manual_seed(0))
    >>> samples.h.shape, float(samples.weight.sum())
    (torch.Size([10, 3, 3]), 1.0)
    """
    _check_count(k)
    return _uniform(SO(n).haar(k, generator=generator))


def finite_rotations(name: str, rotation: Tensor | None = None) -> GroupSamples:
    """Finite group of rotations of space, as ``R_0 gamma`` for all its elements.

    Relative elements ``h_i^-1 h_j`` take as many values as there are samples. Such sets integrate
    Wigner D matrices exactly up to degree 1 (dihedral), 2, 3 and 5.

    Parameters
    ----------
    name : str
        ``"dihedral"`` (the identity and the half turns about the axes, 4 elements),
        ``"tetrahedral"`` (12), ``"octahedral"`` (24) or ``"icosahedral"`` (60).
    rotation : Tensor, (3, 3), floating, optional
        The rotation ``R_0``; the identity by default. The set is then closed under
        ``R_0 gamma R_0^-1``.

    Returns
    -------
    GroupSamples
        Of SO(3), float64, the identity first, with equal weights. Entries of the first three
        groups are 0, 1 and -1 without rounding.

    Raises
    ------
    ValueError
        If there is no group of that name or ``rotation`` is no rotation.

    Examples
    --------
    >>> len(finite_rotations("octahedral"))
    24
    """
    makers = {
        "dihedral": _dihedral,
        "tetrahedral": _tetrahedral,
        "octahedral": _octahedral,
        "icosahedral": _icosahedral,
    }
    if name not in makers:
        raise ValueError(f"name must be one of {', '.join(makers)}, got {name!r}")
    h = makers[name]()
    if rotation is not None:
        if rotation.shape != (3, 3) or not bool(SO(3).contains(rotation)):
            raise ValueError(f"rotation must be a rotation (3, 3), got {rotation.tolist()}")
        h = rotation.double() @ h
    return _uniform(h)


def _uniform(h: Tensor) -> GroupSamples:
    weight = torch.full((len(h),), 1 / len(h), dtype=h.dtype)
    return GroupSamples.from_elements(SO(h.shape[-1]), h, weight)


def _check_count(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")


def _signed_permutations() -> Tensor:
    """All 48 symmetries of the cube, the identity first."""
    identity = torch.eye(3, dtype=torch.float64)
    signs = [torch.tensor(s, dtype=torch.float64) for s in product((1.0, -1.0), repeat=3)]
    orders = list(permutations(range(3)))
    return torch.stack(
        [identity[list(order)] * s[:, None] + 0.0 for order in orders for s in signs]
    )


def _octahedral() -> Tensor:
    g = _signed_permutations()
    return g[torch.linalg.det(g) > 0]


def _tetrahedral() -> Tensor:
    """Rotations of the cube whose permutation of the axes is even."""
    g = _octahedral()
    return g[torch.linalg.det(g.abs()) > 0]


def _dihedral() -> Tensor:
    g = _octahedral()
    return g[g.diagonal(dim1=1, dim2=2).abs().sum(-1) == 3]


def _icosahedral() -> Tensor:
    """Cosets of the tetrahedral group by a fifth of a turn about a vertex ``(0, 1, phi)``."""
    rows = [[1 / GOLDEN, -GOLDEN, 1.0], [GOLDEN, 1.0, 1 / GOLDEN], [-1.0, 1 / GOLDEN, GOLDEN]]
    fifth = torch.tensor(rows, dtype=torch.float64) / 2
    tetrahedral = _tetrahedral()
    return torch.cat([torch.linalg.matrix_power(fifth, k) @ tetrahedral for k in range(5)])
