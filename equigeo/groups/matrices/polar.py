"""The polar decomposition into a stretch and a rotation."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import hat, vee
from equigeo.groups.matrices.check_matrices import (
    check_proper,
    check_square,
    determinant,
    full_precision,
    scale_of,
    symmetric_part,
)

NEWTON_STEPS = 10  # the scaled iteration needs 8 at condition number 600, 10 at 1e10


def polar(g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left polar decomposition :math:`g = P R` of matrices of positive determinant.

    ``P`` is symmetric and positive definite, ``R`` the nearest rotation. Differentiable to any
    order, also where ``P`` has equal eigenvalues. Closed form for ``n = 2``, Newton's iteration
    (Higham, "Functions of Matrices", 2008, chapter 8) otherwise.

    Parameters
    ----------
    g : Tensor, (..., n, n), float32 or float64
        A determinant that is not positive raises ``ValueError``.

    Returns
    -------
    p, r : Tensor, (..., n, n), dtype of ``g``

    Equivariance
    ------------
    For rotations k: ``polar(k g)`` is ``(k p k^T, k r)`` and ``polar(g k)`` is ``(p, r k)``.

    Examples
    --------
    >>> import torch
    >>> p, r = polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]]))
    >>> p.diagonal(), r.tolist()
    (tensor([2., 3.]), [[0.0, -1.0], [1.0, 0.0]])
    """
    check_square("g", g)
    check_proper("g", g)
    with full_precision(g):
        # The rotation has no scale, so that its derivatives need none of a constant divisor.
        unit = g / scale_of(g)
        r = _planar_rotation(unit) if g.shape[-1] == 2 else PolarRotation.apply(unit)
        return symmetric_part(g @ r.mT), r


def _planar_rotation(g: Tensor) -> Tensor:
    # the rotation R that maximises tr(R^T g), by the angle of these two numbers
    cosine, sine = g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1]
    length = torch.hypot(cosine, sine)
    cosine, sine = cosine / length, sine / length
    return torch.stack([cosine, -sine, sine, cosine], -1).unflatten(-1, (2, 2))


class PolarRotation(torch.autograd.Function):
    """The rotation nearest to a matrix, with a differentiable gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor) -> Tensor:
        """Iterate on the matrix scaled to unit size, which keeps determinants in range."""
        r = g / torch.linalg.matrix_norm(g, keepdim=True)
        for _ in range(NEWTON_STEPS):
            inverse = _inverse(r).mT
            # norms of r and of its inverse are made equal: far from the limit, plain steps halve
            # the singular values one by one (Frobenius scaling in Higham's book)
            scale = torch.linalg.matrix_norm(inverse) / torch.linalg.matrix_norm(r)
            scale = scale.sqrt()[..., None, None]
            r = (scale * r + inverse / scale) / 2
        return r

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        """Save both factors; the output carries its own derivative in a second pass."""
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """Solve ``Omega P + P Omega = A - A^T`` with ``A = grad R^T``; the gradient is Omega R."""
        g, r = ctx.saved_tensors
        p, a = symmetric_part(g @ r.mT), grad @ r.mT
        return _solve_skew(p, a - a.mT) @ r


def _solve_skew(p: Tensor, a: Tensor) -> Tensor:
    """Return the skew solution of ``X P + P X = A`` for skew ``A`` and positive definite ``P``."""
    n = p.shape[-1]
    identity = torch.eye(n, dtype=p.dtype, device=p.device)
    if n == 3:  # for X = hat(x) the left side is hat((tr P - P) x)
        trace = p.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        return hat((_inverse(trace * identity - p) @ vee(a)[..., None])[..., 0])
    # in general a linear system for the n^2 entries of X
    system = torch.einsum("...ik,jl->...ijkl", p, identity)
    system = system + torch.einsum("ik,...jl->...ijkl", identity, p)
    system = system.flatten(-2).flatten(-3, -2)
    return torch.linalg.solve(system, a.flatten(-2)).unflatten(-1, (n, n))


def _inverse(g: Tensor) -> Tensor:
    """Return inverses, by cofactors for ``n = 3``: faster for small batches."""
    if g.shape[-1] != 3:
        return torch.linalg.inv(g)
    rows = [g[..., k, :] for k in range(3)]
    columns = [torch.linalg.cross(rows[k - 2], rows[k - 1]) for k in range(3)]
    return torch.stack(columns, -1) / determinant(g)[..., None, None]
