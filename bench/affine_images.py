"""Equivariance error of LiftConv and GroupConv on images of a given resolution."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.affine import GroupConv, KernelSpec, LiftConv, Quadrature
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import SL, equidistant_rotations, grid_stretches, multiply_samples
from tests.affine.analytic_features import (
    GaussianMixture,
    LiftKernel,
    ProductKernel,
    output_elements,
    stretch,
)

HALF = 2.0  # the image shows [-2, 2]^2
REACH = 1.0  # half the side of the kernels


def image_error(pixels: int, size: float, points: int = 6) -> float:
    """Change of outputs under a stretch over their size, for pixels instead of exact features."""
    group = SL(2)
    samples = multiply_samples(grid_stretches(group, 1.2, 7), equidistant_rotations(8))
    pixel = 2 * HALF / pixels
    count = 2 * round(REACH / pixel) + 1
    spec = KernelSpec(count, extent=count * pixel / 2, stretch_reach=0.7)
    lift = LiftConv(group, 1, 1, spec, padding=count // 2).double()
    lift.kernel = LiftKernel()
    conv = GroupConv(group, 1, 1, spec, quadrature=Quadrature(mean=False), bias=False).double()
    conv.kernel = ProductKernel(group)
    x, h = output_elements(group, points, torch.Generator().manual_seed(0))
    a, f = stretch(size, group), GaussianMixture.standard()
    values = []
    for g in (torch.eye(2, dtype=torch.float64), a):
        image = f.moved(g).values(kernel_grid(pixels, 2, HALF)).view(1, 1, pixels, pixels)
        features, _ = lift(image, samples)
        for p in range(points):
            window, position = _around(features, (g @ x[p]) / pixel, count)
            output, _ = conv(window, samples, h.act(g).select(torch.tensor([p])))
            values.append(_interpolate(output[:, :, 0], position))
    before, after = torch.stack(values).view(2, points)
    return float(((after - before).square().mean() / before.square().mean()).sqrt())


def _around(features: Tensor, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Features that four by four outputs around x (in pixels) need, and where x is there."""
    position = x + (features.shape[-1] - 1) / 2
    first = position.floor().long() - 1
    rows, columns = ((int(i) - count // 2, int(i) + 4 + count // 2) for i in first)
    pad = count + 4
    padded = F.pad(features, [pad] * 4)
    window = padded[..., rows[0] + pad : rows[1] + pad, columns[0] + pad : columns[1] + pad]
    return window, position - first


def _interpolate(field: Tensor, position: Tensor) -> Tensor:
    """Bicubic value of (1, 1, 4, 4) at (row, column), both between 1 and 2."""
    grid = ((position + 0.5) / 2 - 1).flip(-1).view(1, 1, 1, 2)
    return F.grid_sample(field, grid, mode="bicubic", align_corners=False).reshape(())
