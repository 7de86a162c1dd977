"""Samples of rotations, finite groups and stretches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import permutations, product

import torch
from torch import Tensor

from equigeo.groups.algebra import random_ball
from equigeo.groups.linear import SO, LinearGroup, O
from equigeo.groups.samples import GroupSamples

GOLDEN = (1 + math.sqrt(5)) / 2
SNAP = 1e-15  # a few roundings of an angle below 2 pi


def equidistant_rotations(k: int, offset: float = 0.0) -> GroupSamples:
    """Return the cyclic group of ``k`` rotations of the plane, rotated by an offset in radians.

    Samples of SO(2) in float64 with weights ``1 / k``. The full turn is left out, so that the
    quadrature of smooth functions converges faster than any power of ``1 / k``.

    Examples
    --------
    >>> equidistant_rotations(4).h[1].round().tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    _check_count(k)
    if not math.isfinite(offset):
        raise ValueError(f"offset must be finite, got {offset}")
    return _uniform(SO(2), _plane_turns(k, offset))


def haar_rotations(n: int, k: int, *, generator: torch.Generator | None = None) -> GroupSamples:
    """Draw ``k`` independent uniform rotations of SO(n), ``n`` of 2 or 3, with weights ``1 / k``.

    Examples
    --------
    >>> samples = haar_rotations(3, 10, generator=torch.Generator().manual_seed(0))
    >>> samples.h.shape, float(samples.weight.sum())
    (torch.Size([10, 3, 3]), 1.0)
    """
    _check_count(k)
    return _uniform(SO(n), SO(n).haar(k, generator=generator))


def finite_rotations(name: str, rotation: Tensor | None = None) -> GroupSamples:
    """Return a finite group of rotations of space with equal weights, as ``R_0 gamma``.

    Such sets integrate Wigner D matrices exactly up to degree 1 (dihedral), 2, 3 and 5. Samples of
    SO(3), float64, the identity first; entries of the first three groups are 0, 1 and -1.

    Parameters
    ----------
    name : str
        ``"dihedral"`` (the identity and the half turns about the axes, 4 elements),
        ``"tetrahedral"`` (12), ``"octahedral"`` (24) or ``"icosahedral"`` (60).
    rotation : Tensor, (3, 3), floating, optional
        The rotation ``R_0``, the identity by default; the set is closed under ``R_0 gamma R_0^-1``.

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
    return _uniform(SO(3), h)


def point_group(name: str) -> GroupSamples:
    """Return a finite group of rotations and reflections of space by its Schoenflies name.

    The main axis of C_n, D_n and S_2n is z, the first half turn of D_n is about x, and a mirror of
    C_nv holds x and z. T, O and I are those of :func:`finite_rotations`; T_d maps the corners
    ``(1, 1, 1)``, ``(1, -1, -1)``, ... of a tetrahedron to each other. Samples of O(3), float64,
    the identity first, with equal weights; entries of groups that keep a cube are 0, 1 and -1.

    Parameters
    ----------
    name : str
        C_n, C_nv, C_nh, D_n, D_nh, D_nd or S_2n with a number, such as ``"D_3h"`` or ``"S_4"``, or
        one of C_s, C_i, T, T_d, T_h, O, O_h, I and I_h. The underscore is optional.

    Examples
    --------
    >>> group = point_group("T_d")
    >>> len(group), int((torch.linalg.det(group.h) < 0).sum())
    (24, 12)
    """
    symbol = str(name).replace("_", "")
    found = re.fullmatch(
        r"([A-Z])([1-9][0-9]*)?([a-z]?)", {"Cs": "C1h", "Ci": "S2"}.get(symbol, symbol)
    )
    letter, number, suffix = found.groups() if found else ("", None, "")
    family = letter + ("n" if number else "") + suffix
    n = int(number or 1)
    if family not in _POINT_GROUPS or (letter == "S" and n % 2):
        raise ValueError(
            "name must be a point group in Schoenflies notation: C_n, C_nv, C_nh, D_n, D_nh, D_nd, "
            f"S_2n, C_s, C_i, T, T_d, T_h, O, O_h, I or I_h, got {name!r}"
        )
    elements, doubling = _POINT_GROUPS[family]
    h = elements(n)
    for signs in doubling:
        h = torch.cat([h, h * torch.tensor(signs, dtype=h.dtype) + 0.0])
    return _uniform(O(3), h)


def sample_stretches(
    group: LinearGroup,
    k: int,
    std: float | None = None,
    *,
    radius: float | None = None,
    quasi: bool = False,
    generator: torch.Generator | None = None,
) -> GroupSamples:
    """Draw stretches with normal coordinates, or with uniform ones in a ball, in float64.

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
        direction = direction / torch.where(length > 0, length, 1)  # a single point is the center
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
    scalings are log-uniform and closed under their own steps. Returns float64 samples, the last
    coordinate fastest.

    Parameters
    ----------
    group : LinearGroup
        A group with stretches.
    extent : float
        Largest coordinate on each axis.
    points : int
        Points per axis, from ``-extent`` to ``extent``, at least 2.

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


def _uniform(group: LinearGroup, h: Tensor) -> GroupSamples:
    weight = torch.full((len(h),), 1 / len(h), dtype=h.dtype)
    return GroupSamples.from_elements(group, h, weight)


def _check_count(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")


def _plane_turns(k: int, offset: float = 0.0) -> Tensor:
    """Return equidistant rotations of the plane, (k, 2, 2); quarter turns are exact."""
    angle = offset + 2 * math.pi / k * torch.arange(k, dtype=torch.float64)
    cosine, sine = angle.cos(), angle.sin()
    for values in (cosine, sine):
        nearest = values.round()
        values.copy_(torch.where((values - nearest).abs() < SNAP, nearest + 0.0, values))
    return torch.stack([cosine, -sine + 0.0, sine, cosine], -1).unflatten(-1, (2, 2))


def _turns(k: int, z: float = 1.0) -> Tensor:
    """Return powers of a rotation about z by the k-th part of a turn, times ``diag(1, 1, z)``."""
    h = torch.eye(3, dtype=torch.float64).repeat(k, 1, 1)
    h[:, :2, :2] = _plane_turns(k)
    h[1::2, 2, 2] = z
    return h


def signed_permutations(n: int) -> Tensor:
    """Return all symmetries of the cube in n dimensions, the identity first."""
    identity = torch.eye(n, dtype=torch.float64)
    signs = [torch.tensor(s, dtype=torch.float64) for s in product((1.0, -1.0), repeat=n)]
    orders = list(permutations(range(n)))
    return torch.stack(
        [identity[list(order)] * s[:, None] + 0.0 for order in orders for s in signs]
    )


def _octahedral() -> Tensor:
    g = signed_permutations(3)
    return g[torch.linalg.det(g) > 0]


def _tetrahedral() -> Tensor:
    """Return the rotations of the cube with an even permutation of the axes."""
    g = _octahedral()
    return g[torch.linalg.det(g.abs()) > 0]


def _dihedral() -> Tensor:
    g = _octahedral()
    return g[g.diagonal(dim1=1, dim2=2).abs().sum(-1) == 3]


def _icosahedral() -> Tensor:
    """Return cosets of the tetrahedral group by a fifth of a turn about ``(0, 1, phi)``."""
    rows = [[1 / GOLDEN, -GOLDEN, 1.0], [GOLDEN, 1.0, 1 / GOLDEN], [-1.0, 1 / GOLDEN, GOLDEN]]
    fifth = torch.tensor(rows, dtype=torch.float64) / 2
    tetrahedral = _tetrahedral()
    return torch.cat([torch.linalg.matrix_power(fifth, k) @ tetrahedral for k in range(5)])


def _tetrahedron() -> Tensor:
    """Return the symmetries of the cube that preserve the product of the coordinates."""
    g = signed_permutations(3)
    return g[torch.linalg.det(g) * torch.linalg.det(g.abs()) > 0]


_Family = tuple[Callable[[int], Tensor], tuple[tuple[float, float, float], ...]]

_HALF_TURN, _INVERSION = (1.0, -1.0, -1.0), (-1.0, -1.0, -1.0)

_VERTICAL, _HORIZONTAL = (1.0, -1.0, 1.0), (1.0, 1.0, -1.0)  # mirrors


# Elements for the number in the name, and the diagonals of those that double the group.
_POINT_GROUPS: dict[str, _Family] = {
    "Cn": (_turns, ()),
    "Cnv": (_turns, (_VERTICAL,)),
    "Cnh": (_turns, (_HORIZONTAL,)),
    "Dn": (_turns, (_HALF_TURN,)),
    "Dnh": (_turns, (_HALF_TURN, _HORIZONTAL)),
    "Dnd": (lambda n: _turns(2 * n, -1.0), (_HALF_TURN,)),
    "Sn": (lambda n: _turns(n, -1.0), ()),
    "T": (lambda n: _tetrahedral(), ()),
    "Td": (lambda n: _tetrahedron(), ()),
    "Th": (lambda n: _tetrahedral(), (_INVERSION,)),
    "O": (lambda n: _octahedral(), ()),
    "Oh": (lambda n: _octahedral(), (_INVERSION,)),
    "I": (lambda n: _icosahedral(), ()),
    "Ih": (lambda n: _icosahedral(), (_INVERSION,)),
}


def _weighted(group: LinearGroup, y: Tensor, lebesgue: Tensor) -> GroupSamples:
    """Return samples at coordinates of stretches with weights of their Lebesgue measure."""
    rotations = group.dimension - group.symmetric_dimension
    coordinates = torch.nn.functional.pad(y, (0, rotations))
    return GroupSamples.from_coordinates(group, coordinates, group.haar_density(y) * lebesgue)


def _sobol(k: int, dimension: int, generator: torch.Generator | None) -> Tensor:
    """Return Sobol points (k, dimension) inside the unit cube, shifted modulo 1."""
    engine = torch.quasirandom.SobolEngine(dimension)
    points = engine.draw(k, dtype=torch.float64)
    # the sequence starts at 0, which is no interior point: half a cell centers it
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
