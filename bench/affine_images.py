"""Equivariance error of LiftConv and GroupConv on images of a given resolution."""

from __future__ import annotations

import torch
from tests.affine.analytic_features import (
    GaussianMixture,
    LiftKernel,
    ProductKernel,
    output_elements,
    stretch,
)
from torch import Tensor
from torch.nn import functional as F

from equigeo.affine import GroupConv, KernelSpec, LiftConv, Quadrature, kernel_grid
from equigeo.groups import SL, equidistant_rotations, grid_stretches, multiply_samples

HALF = 2.0  # the image shows [-2, 2]^2
REACH = 1.0  # half the side of the kernels


def image_error(pixels: int, size: float, points: int = 6) -> float:
    """Change of outputs under a stretch over their size, for pixels instead of exact features."""
    group, samples = SL(2), multiply_samples(
        grid_stretches(SL(2), 1.2, 7), equidistant_rotations(8)
    )
    pixel = 2 * HALF / pixels
    count = 2 * round(REACH / pixel) + 1
    spec = KernelSpec(count, extent=count * pixel / 2, window="none")
    lift = LiftConv(group, 1, 1, spec, padding=count // 2).double()
    lift.kernel = LiftKernel()
    spec = KernelSpec(count, extent=count * pixel / 2, stretch_reach=0.7)
    conv = GroupConv(
        group, 1, 1, spec, padding=count // 2, quadrature=Quadrature(mean=False), bias=False
    ).double()
    conv.kernel = ProductKernel(group)
    x, h = output_elements(group, points, torch.Generator().manual_seed(0))
    a, f = stretch(size, group), GaussianMixture.standard()
    values = []
    for g in (torch.eye(2, dtype=torch.float64), a):
        image = f.moved(g).values(kernel_grid(pixels, 2, HALF)).view(1, 1, pixels, pixels)
        features, _ = lift(image, samples)
        outputs = [
            _sample(conv(features, samples, h.act(g).select(torch.tensor([p])))[0], g @ x[p])
            for p in range(points)
        ]
        values.append(torch.stack(outputs))
    change = (values[1] - values[0]).square().mean() / values[0].square().mean()
    return float(change.sqrt())


def _sample(field: Tensor, x: Tensor) -> Tensor:
    place = (x / HALF).flip(-1).view(1, 1, 1, 2)
    return F.grid_sample(field[:, :, 0], place, mode="bicubic", align_corners=False).reshape(())
