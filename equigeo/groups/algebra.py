"""Matrices of linear groups: factors, bases, random matrices, exponential and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

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
        # Not normalized: the coordinate is the logarithm of the factor.
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


# Coefficients of x^k. The first term that is left out, differentiated twice, is below 1e-16 inside
# the radius (1 for the entire functions, 0.04 for those with a singularity at -1); outside of it
# the closed form has lost few digits to cancellation even after two derivatives.
COSH = [1 / math.factorial(2 * k) for k in range(11)]
SINHC = [1 / math.factorial(2 * k + 1) for k in range(11)]
ASINHC = [(-1) ** k * math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(14)]
ATANC = [(-1) ** k / (2 * k + 1) for k in range(14)]
PRECISE = (torch.float32, torch.float64)
# Rounding to bfloat16 changes a rotation by 0.008 at most.
_MOST_DEFECT = 0.02


def matrix_exp(x: Tensor) -> Tensor:
    """Return the exponential of square matrices (..., n, n), in their dtype.

    Unlike :func:`torch.linalg.matrix_exp`, precise for a single matrix.

    Examples
    --------
    >>> matrix_exp(torch.tensor([[0.0, 2.0], [0.0, 0.0]])).round().tolist()
    [[1.0, 2.0], [0.0, 1.0]]
    """
    if x.shape[:-2].numel() != 1:
        return torch.linalg.matrix_exp(x)
    # The polynomial of degree 8 for a single small matrix has a wrong coefficient (PyTorch issue
    # 196592; errors of 1e-10 in float64, 2e-5 in float32). Batches are computed otherwise.
    return torch.linalg.matrix_exp(torch.stack([x, x]))[0]


def cosh_root(x: Tensor) -> Tensor:
    """Return ``cosh(sqrt x)``, which is ``cos(sqrt -x)`` for negative ``x``."""

    def closed(x: Tensor) -> Tensor:
        up, down = _roots(x)
        return torch.where(x > 0, up.cosh(), down.cos())

    return _joined(x, COSH, closed, radius=1.0)


def sinhc_root(x: Tensor) -> Tensor:
    """Return ``sinh(sqrt x) / sqrt x``, which is ``sin(sqrt -x) / sqrt -x`` for negative ``x``."""

    def closed(x: Tensor) -> Tensor:
        up, down = _roots(x)
        return torch.where(x > 0, up.sinh() / up, down.sin() / down)

    return _joined(x, SINHC, closed, radius=1.0)


def asinhc_root(x: Tensor) -> Tensor:
    """Return ``asinh(sqrt x) / sqrt x`` for nonnegative ``x``, 1 at zero."""
    return _joined(x, ASINHC, lambda x: x.sqrt().asinh() / x.sqrt(), radius=0.04)


def atanc_root(x: Tensor) -> Tensor:
    """Return ``atan(sqrt x) / sqrt x`` for nonnegative ``x``, 1 at zero."""
    return _joined(x, ATANC, lambda x: x.sqrt().atan() / x.sqrt(), radius=0.04)


def exp_parts(
    mean: Tensor,  # m
    square: Tensor,  # x
) -> tuple[Tensor, Tensor]:
    """Return ``exp(m) cosh(sqrt x)`` and ``exp(m) sinh(sqrt x) / sqrt x`` without overflow."""
    far = square > 1
    root = torch.where(far, square, 1.0).sqrt()
    decay, near = (-2 * root).exp(), torch.where(far, 0.0, square)
    even = torch.where(far, (1 + decay) / 2, cosh_root(near))
    odd = torch.where(far, (1 - decay) / (2 * root), sinhc_root(near))
    factor = (mean + torch.where(far, root, 0.0)).exp()
    return factor * even, factor * odd


def _roots(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return roots of the positive and of the negated negative values, 1 elsewhere."""
    return torch.where(x > 0, x, 1.0).sqrt(), torch.where(x > 0, 1.0, -x).sqrt()


def _joined(
    x: Tensor, series: Sequence[float], closed: Callable[[Tensor], Tensor], *, radius: float
) -> Tensor:
    """Return the series for ``|x|`` below the radius, else the closed form, both differentiable."""
    # both branches are evaluated everywhere, and 0 * NaN would reach the gradient: each gets
    # arguments that are harmless where the other one is taken
    near = x.abs() < radius
    small = torch.where(near, x, 0.0)
    value = torch.full_like(x, series[-1])
    for coefficient in reversed(series[:-1]):
        value = value * small + coefficient
    return torch.where(near, value, closed(torch.where(near, 1.0, x)))


def check_precision(
    name: str,  # name of the tensor in messages
    x: Tensor,
) -> None:
    """Raise ``ValueError`` if a dtype is too coarse for decompositions: not float32 or float64."""
    if x.dtype not in PRECISE:
        raise ValueError(f"{name} must be float32 or float64, got {x.dtype}: convert it first")


def values_at_hand(x: Tensor) -> bool:
    """Return whether tensor values can be read: not while tracing, transforming or on meta."""
    recorded = torch.compiler.is_compiling() or get_proxy_mode() is not None
    return not (recorded or x.is_meta or torch._C._are_functorch_transforms_active())


def check_square(
    name: str,  # name of the tensor in messages
    x: Tensor,
) -> None:
    """Raise ``ValueError`` if a tensor is not (..., n, n) in float32 or float64."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] == 0:
        raise ValueError(f"{name} must be (..., n, n), got {tuple(x.shape)}")
    check_precision(name, x)


def check_proper(
    name: str,  # name of the matrices in messages
    g: Tensor,  # (..., n, n)
) -> None:
    """Raise ``ValueError`` for determinants that are not positive; skipped without values."""
    if not values_at_hand(g):
        return
    g = g.detach()
    # Relative to the product of row lengths (Hadamard), so that thin but regular matrices pass.
    rows = unit_rows(g)
    lengths = torch.linalg.vector_norm(rows, dim=-1)
    unit = rows / lengths[..., None]
    # rounding of a determinant of unit rows is about n eps; twice that is taken for zero
    bound = 2 * g.shape[-1] * torch.finfo(g.dtype).eps
    good = torch.isfinite(lengths).all(-1) & (determinant(unit) > bound)
    if not bool(good.all()):
        bad = g[~good][0]
        raise ValueError(
            f"{name} must have positive determinant: {int((~good).sum())} of {good.numel()} "
            f"are singular, improper or not finite, the first is {bad.tolist()}"
        )


def check_orthogonal(
    name: str,  # name of the matrices in messages
    g: Tensor,  # (..., n, n)
) -> None:
    """Raise ``ValueError`` if matrices are not orthogonal up to 0.02; skipped without values."""
    if not values_at_hand(g):
        return
    good = orthogonality_defect(g.detach()) <= _MOST_DEFECT
    if not bool(good.all()):
        raise ValueError(
            f"{name} must be orthogonal: {int((~good).sum())} of {good.numel()} are not, "
            f"the first is {g.detach()[~good][0].tolist()}"
        )


def unit_rows(
    g: Tensor,  # (..., n, n)
) -> Tensor:
    """Divide rows by powers of two near their largest entries, so that products stay in range."""
    largest = g.detach().abs().amax(-1, keepdim=True)
    usable = torch.isfinite(largest) & (largest > 0)
    exponent = torch.where(usable, largest, 1).log2().floor()
    # In two steps, as the inverse of the smallest number is infinite.
    half = (exponent / 2).floor()
    return torch.where(usable, g / half.exp2() / (exponent - half).exp2(), g)


def scale_of(g: Tensor) -> Tensor:
    """Return powers of two near the largest magnitudes (..., 1, 1) of matrices, as constants."""
    normal = torch.finfo(g.dtype).tiny, torch.finfo(g.dtype).max / 2
    largest = g.detach().abs().amax((-2, -1), keepdim=True)
    return torch.where(largest > 0, largest.clamp(*normal).log2().floor().exp2(), 1)


def determinant(g: Tensor) -> Tensor:  # (..., n, n) to (...)
    """Return determinants, in closed form for ``n = 2`` and ``n = 3``."""
    if g.shape[-1] == 2:
        return g[..., 0, 0] * g[..., 1, 1] - g[..., 0, 1] * g[..., 1, 0]
    if g.shape[-1] == 3:
        return (g[..., 0, :] * torch.linalg.cross(g[..., 1, :], g[..., 2, :])).sum(-1)
    return torch.linalg.det(g)


def orthogonality_defect(
    g: Tensor,  # (..., n, n)
) -> Tensor:  # (...)
    """Return the largest entry of ``g^T g - 1``."""
    identity = torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)
    return (g.mT @ g - identity).abs().amax((-2, -1))


def symmetric_part(
    x: Tensor,  # (..., n, n)
) -> Tensor:
    """Return the mean of a matrix and its transpose, exactly symmetric."""
    return (x + x.mT) / 2


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context that disables autocast on the device of ``x``."""
    # PyTorch 2.11 cannot trace torch.amp.is_autocast_available.
    if x.device.type == "meta":
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)
