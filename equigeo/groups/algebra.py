"""Factors of linear groups, bases of skew and symmetric matrices, and random matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from equigeo._core.cache import kept


class Stretches(Enum):
    """The space ``V`` of symmetric matrices: logarithms of the stretches of a group."""

    NONE = "none"
    UNIFORM = "multiples of the identity"
    TRACELESS = "trace zero"
    SYMMETRIC = "all"

    def lies_in(self, other: Stretches) -> bool:
        """Return whether this space is a subspace of another one."""
        # multiples of the identity and traceless matrices share nothing but zero
        return self == other or self is Stretches.NONE or other is Stretches.SYMMETRIC


class CompactFactor(Enum):
    """The maximal compact subgroup ``K``; the value is its name."""

    TRIVIAL = "1"
    ROTATIONS = "SO"
    ORTHOGONAL = "O"

    def lies_in(self, other: CompactFactor) -> bool:
        """Return whether this group is a subgroup of another one."""
        order = list(CompactFactor)  # a chain: each lies in the next
        return order.index(self) <= order.index(other)


@dataclass(frozen=True)
class PolarForm:
    """Both factors of a linear group, which determine it: polar decompositions are unique."""

    n: int
    stretches: Stretches
    compact_factor: CompactFactor

    def lies_in(self, other: PolarForm) -> bool:
        """Return whether the group is a subgroup of another one."""
        return (
            self.n == other.n
            and self.stretches.lies_in(other.stretches)
            and self.compact_factor.lies_in(other.compact_factor)
        )


@kept
def rotation_basis(n: int) -> Tensor:  # (n (n - 1) / 2, n, n), float64
    """Return skew matrices that rotate one coordinate plane; a cached table, do not modify."""
    # By rotation axis x, y, z for n = 3 (hat matrices), otherwise in lexicographic order.
    planes = [(1, 2), (2, 0), (0, 1)]  # right-handed about x, y, z
    if n != 3:
        planes = [(i, j) for i in range(n) for j in range(i + 1, n)]
    basis = torch.zeros(len(planes), n, n, dtype=torch.float64)
    for k, (i, j) in enumerate(planes):
        basis[k, i, j], basis[k, j, i] = -1.0, 1.0
    return basis


def hat(
    axis: Tensor,  # (..., 3)
) -> Tensor:  # (..., 3, 3)
    """Return the skew matrices of cross products: ``hat(a) b = a x b``."""
    # Without a table, which would interrupt compilation with a warning.
    x, y, z = axis.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))


def vee(
    skew: Tensor,  # (..., 3, 3); one entry of each pair is read
) -> Tensor:  # (..., 3)
    """Return the vectors of skew matrices, the inverse of :func:`hat`."""
    return torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1)


@kept
def symmetric_basis(n: int) -> Tensor:  # (n (n + 1) / 2, n, n), float64
    """Return symmetric matrices, orthonormal for ``tr(A^T B)``; a cached table, do not modify."""
    # E_ii and (E_ij + E_ji) / sqrt 2, in row-major upper-triangular order
    return torch.stack([_symmetric_unit(n, i, j) for i in range(n) for j in range(i, n)])


@kept
def traceless_symmetric_basis(n: int) -> Tensor:  # (n (n + 1) / 2 - 1, n, n), float64
    """Return traceless symmetric matrices, orthonormal for ``tr(A^T B)``; do not modify."""
    # diag(1, ..., 1, -k, 0, ...) / sqrt(k (k + 1)) for k = 1 ... n - 1, then (E_ij + E_ji) / sqrt 2
    diagonal = []
    for k in range(1, n):
        entries = [1.0] * k + [-float(k)] + [0.0] * (n - k - 1)
        unit = torch.diag(torch.tensor(entries, dtype=torch.float64))
        diagonal.append(unit / math.sqrt(k * (k + 1)))
    mixed = [_symmetric_unit(n, i, j) for i in range(n) for j in range(i + 1, n)]
    return torch.stack(diagonal + mixed)


def stretch_basis(stretches: Stretches, n: int) -> Tensor:  # (d, n, n), float64
    """Return a basis of a space of symmetric matrices; do not modify."""
    if stretches is Stretches.SYMMETRIC:
        return symmetric_basis(n)
    if stretches is Stretches.TRACELESS:
        return traceless_symmetric_basis(n)
    if stretches is Stretches.UNIFORM:
        # Not normalised: the coordinate is the logarithm of the factor.
        return torch.eye(n, dtype=torch.float64, device="cpu")[None]
    return torch.zeros(0, n, n, dtype=torch.float64, device="cpu")


def _symmetric_unit(n: int, i: int, j: int) -> Tensor:
    unit = torch.zeros(n, n, dtype=torch.float64)
    unit[i, j] = unit[j, i] = 1.0 if i == j else math.sqrt(0.5)
    return unit


def random_orthogonal(
    k: int,  # number of matrices
    n: int,
    *,
    generator: torch.Generator | None,
) -> Tensor:  # (k, n, n), float64
    """Sample orthogonal matrices from the uniform (Haar) distribution."""
    # Signs of the QR factors must be fixed for uniformity: Mezzadri, "How to generate random
    # matrices from the classical compact groups", 2007.
    gaussian = torch.randn(k, n, n, dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(gaussian)
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]


def random_rotations(
    k: int,  # number of matrices
    n: int,
    *,
    generator: torch.Generator | None,
) -> Tensor:  # (k, n, n), float64
    """Sample rotations from the uniform (Haar) distribution."""
    g = random_orthogonal(k, n, generator=generator)
    # turning one column over maps the improper half of O(n) to SO(n), measure and all
    sign = torch.linalg.det(g).sign()[:, None]
    return torch.cat([g[..., :1] * sign[..., None], g[..., 1:]], dim=-1)


def random_ball(
    k: int,  # number of points
    dimension: int,  # number of coordinates, at least 0
    *,
    radius: float,
    generator: torch.Generator | None,
) -> Tensor:  # (k, dimension), float64
    """Sample points uniformly from a ball."""
    if radius < 0:
        raise ValueError(f"radius must not be negative, got {radius}")
    if dimension == 0:
        return torch.zeros(k, 0, dtype=torch.float64)
    direction = torch.randn(k, dimension, dtype=torch.float64, generator=generator)
    direction = direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True)
    # the share of the ball within a radius r is r^dimension: its inverse takes uniform numbers
    share = torch.rand(k, 1, dtype=torch.float64, generator=generator) ** (1.0 / dimension)
    return radius * share * direction
