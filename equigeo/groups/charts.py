"""Rotation coordinates, exponentials and log-stretches."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.algebra import hat, vee
from equigeo.groups.matrix_exp import (
    atanc_root,
    check_orthogonal,
    check_precision,
    check_proper,
    check_square,
    determinant,
    exp_parts,
    full_precision,
    matrix_exp,
    sinhc_root,
)


def rotation_exp(w: Tensor) -> Tensor:
    """Return rotations by angles (..., 1) or by axes times angles (..., 3), in radians.

    Counter-clockwise; the formula of Rodrigues in space. Differentiable to any order, also at zero.
    Returns (..., 2, 2) or (..., 3, 3). Other shapes and dtypes than float32 and float64 raise
    ``ValueError``.

    Examples
    --------
    >>> import torch
    >>> rotation_exp(torch.tensor([torch.pi])).round().tolist()
    [[-1.0, 0.0], [-0.0, -1.0]]
    """
    check_precision("w", w)
    if w.ndim == 0 or w.shape[-1] not in (1, 3):
        raise ValueError(f"w must be (..., 1) angles or (..., 3) axes, got {tuple(w.shape)}")
    with full_precision(w):
        if w.shape[-1] == 1:
            cosine, sine = w.cos(), w.sin()
            return torch.cat([cosine, -sine, sine, cosine], -1).unflatten(-1, (2, 2))
        skew = hat(w)
        square = w.square().sum(-1)[..., None, None]
        first, half = sinhc_root(-square), sinhc_root(-square / 4)
        identity = torch.eye(3, dtype=w.dtype, device=w.device)
        # 1 - cos t = 2 sin^2(t / 2), which keeps all digits of small angles
        return identity + first * skew + half.square() / 2 * (skew @ skew)


def rotation_log(r: Tensor) -> Tensor:
    """Return coordinates of rotations of least length, the inverse of :func:`rotation_exp`.

    Angles are in (-pi, pi], axes times angles at most pi long. Exact up to half turns, whose axis
    has an arbitrary sign, and twice differentiable away from them. Matrices that are no rotations
    raise ``ValueError``.

    Examples
    --------
    >>> import torch
    >>> rotation_log(torch.diag(torch.tensor([1.0, -1.0, -1.0])))
    tensor([3.1416, 0.0000, 0.0000])
    """
    check_square("r", r)
    if r.shape[-1] not in (2, 3):
        raise ValueError(f"rotations must be (..., 2, 2) or (..., 3, 3), got {tuple(r.shape)}")
    check_proper("r", r)
    check_orthogonal("r", r)
    if r.shape[-1] == 2:
        # Adding zero turns -0 into 0: a half turn is pi, never -pi. -atan2(-y, x), because
        # PyTorch's exporter to ONNX writes an atan2 that is -pi at (0, -1) and at (-0, -1).
        return -torch.atan2(-(r[..., 1, 0] + 0.0), r[..., 0, 0])[..., None]
    # the angle t from (cos t/2, sin t/2 * axis): by arc tangents of whichever ratio is below 1
    w, v = quaternion(r).tensor_split([1], -1)
    square = v.square().sum(-1, keepdim=True)
    near = square < w.square()
    ratio = torch.where(near, square / torch.where(near, w, 1.0).square(), 0.0)
    small = 2 * atanc_root(ratio) / torch.where(near, w, 1.0)
    sine = torch.where(near, 1.0, square).sqrt()
    return v * torch.where(near, small, 2 * torch.atan2(sine, w) / sine)


def quaternion(
    r: Tensor,  # (..., 3, 3)
) -> Tensor:  # (..., 4)
    """Return unit quaternions ``(w, x, y, z)`` with nonnegative w."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (row.unbind(-1) for row in r.unbind(-2))
    trace = xx + yy + zz
    # four times the outer product of the quaternion with itself
    outer = [
        [1 + trace, zy - yz, xz - zx, yx - xy],
        [zy - yz, 1 + 2 * xx - trace, xy + yx, xz + zx],
        [xz - zx, xy + yx, 1 + 2 * yy - trace, yz + zy],
        [yx - xy, xz + zx, yz + zy, 1 + 2 * zz - trace],
    ]
    rows = torch.stack([torch.stack(row, -1) for row in outer], -2)
    best = rows.diagonal(dim1=-2, dim2=-1).argmax(-1)
    row = torch.take_along_dim(rows, best[..., None, None], dim=-2)[..., 0, :]
    q = row / torch.linalg.vector_norm(row, dim=-1, keepdim=True)
    return torch.where(q[..., :1] < 0, -q, q)


def special_rotations(n: int) -> Tensor:  # (elements, n, n), float64
    """Return half turn, quarter turn and axis permutation, with exact entries."""
    # The half turn is the cut of the logarithm; the quarter turn about y is a pole of Y-X-Y Euler
    # angles.
    identity = torch.eye(n, dtype=torch.float64)
    half = identity.clone()
    half[-2, -2] = half[-1, -1] = -1.0
    quarter = identity.clone()
    quarter[0, 0] = quarter[-1, -1] = 0.0
    quarter[0, -1], quarter[-1, 0] = 1.0, -1.0
    cyclic = identity.roll(1, dims=0)
    cyclic[0] *= (-1.0) ** (n - 1)  # a cycle of even length is odd
    return torch.stack([half, quarter] if n == 2 else [half, quarter, cyclic])


def linear_exp(
    x: Tensor,  # (..., n, n)
    *,
    skew: bool,  # whether x is skew
) -> Tensor:  # (..., n, n)
    """Return the matrix exponential, in closed form if there is one."""
    if skew and x.shape[-1] == 3:
        return rotation_exp(vee(x))
    if x.shape[-1] != 2:
        return matrix_exp(x)
    mean = x.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    identity = torch.eye(2, dtype=x.dtype, device=x.device)
    deviation = x - mean * identity  # its square is a multiple of the identity
    square = -determinant(deviation)[..., None, None]
    even, odd = exp_parts(mean, square)
    return even * identity + odd * deviation


def log_stretch(g: Tensor) -> Tensor:  # (..., n, n) to (...)
    """Return the largest ``|log s|`` over the singular values of invertible matrices."""
    if g.shape[-1] == 2:
        plus = torch.hypot(g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1])
        minus = torch.hypot(g[..., 0, 0] - g[..., 1, 1], g[..., 1, 0] + g[..., 0, 1])
        high = (plus + minus) / 2
        low = determinant(g / high[..., None, None]).abs() * high
        return torch.maximum(high.log().abs(), low.log().abs())
    with full_precision(g):
        return torch.linalg.svdvals(g).log().abs().amax(-1)
