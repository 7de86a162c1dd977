"""Exponentials and log-stretches of linear groups."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import vee
from equigeo.groups.charts.rotation_chart import rotation_exp
from equigeo.groups.matrices.check_matrices import determinant, full_precision
from equigeo.groups.matrices.entire_functions import exp_parts
from equigeo.groups.matrices.matrix_exp import matrix_exp


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
