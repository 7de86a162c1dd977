"""Features and kernels whose convolutions have closed forms: sums of Gaussians in the plane."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from equigeo.affine import GroupConv, KernelSpec, Quadrature, kernel_grid
from equigeo.groups import SO, GroupSamples, LinearGroup

_AMPLITUDES = (1.0, -0.7, 0.5)
_MEANS = ((0.3, 0.1), (-0.2, 0.4), (0.1, -0.5))
_COVARIANCES = (
    ((0.10, 0.03), (0.03, 0.05)),
    ((0.04, 0.0), (0.0, 0.09)),
    ((0.06, -0.02), (-0.02, 0.03)),
)
LIFT_SHIFT, LIFT_COVARIANCE = (0.15, 0.05), ((0.05, 0.0), (0.0, 0.02))
KERNEL_SHIFT, KERNEL_COVARIANCE = (0.1, -0.1), ((0.06, 0.01), (0.01, 0.03))


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class GaussianMixture:
    """A function on the plane, moved by linear maps exactly."""

    def __init__(self, amplitudes: Tensor, means: Tensor, covariances: Tensor) -> None:
        self.amplitudes, self.means, self.covariances = amplitudes, means, covariances

    @classmethod
    def standard(cls) -> GaussianMixture:
        return cls(tensor(_AMPLITUDES), tensor(_MEANS), tensor(_COVARIANCES))

    def moved(self, a: Tensor) -> GaussianMixture:
        return GaussianMixture(self.amplitudes, self.means @ a.mT, a @ self.covariances @ a.mT)

    def values(self, x: Tensor) -> Tensor:
        """Values at points (..., 2)."""
        return (self.amplitudes * gaussian(x[..., None, :] - self.means, self.covariances)).sum(-1)

    def lifted(self, x: Tensor, h: Tensor) -> Tensor:
        """Lifting convolution (points, N) with the standard kernel, in closed form."""
        shift, covariance = tensor(LIFT_SHIFT), tensor(LIFT_COVARIANCE)
        t = (h @ covariance @ h.mT)[:, None]
        total = self.covariances + t
        d = self.means - x[:, None, None, :] - (h @ shift)[:, None]
        volume = (torch.linalg.det(self.covariances) * torch.linalg.det(t)).sqrt()
        scale = 2 * math.pi * volume / torch.linalg.det(total).sqrt()
        value = (self.amplitudes * scale * gaussian(d, total)).sum(-1)
        return value / torch.linalg.det(h)


def gaussian(d: Tensor, covariance: Tensor) -> Tensor:
    p = torch.linalg.inv(covariance)
    square = p[..., 0, 0] * d[..., 0].square() + p[..., 1, 1] * d[..., 1].square()
    return torch.exp(-0.5 * (square + 2 * p[..., 0, 1] * d[..., 0] * d[..., 1]))


class LiftKernel(nn.Module):
    """The lifting kernel as a module that LiftConv can use."""

    def forward(self, u: Tensor) -> Tensor:
        return gaussian(u - tensor(LIFT_SHIFT), tensor(LIFT_COVARIANCE))[..., None]


class ProductKernel(nn.Module):
    """The group kernel, Gaussian in space times a function of stretch and angle."""

    def __init__(self, group: LinearGroup) -> None:
        super().__init__()
        self.count = group.symmetric_dimension

    def on_group(self, s: Tensor) -> Tensor:
        stretch = s[..., : self.count].square().sum(-1)
        angle = s[..., -1]
        turn = 1 + 0.8 * torch.cos(angle - 0.4) + 0.5 * torch.cos(2 * angle)
        return torch.exp(-stretch / (2 * 0.25**2)) * turn

    def forward(self, u: Tensor, s: Tensor) -> Tensor:
        space = gaussian(u - tensor(KERNEL_SHIFT), tensor(KERNEL_COVARIANCE))
        return (space * self.on_group(s))[..., None]


def analytic_conv(group: LinearGroup, *, mean: bool = False, chunk: int | None = None) -> GroupConv:
    """Group convolution with the product kernel, on patches fine enough for spectral accuracy."""
    spec = KernelSpec(31, extent=1.6, stretch_reach=0.7)  # almost three deviations
    conv = GroupConv(
        group, 1, 1, spec, quadrature=Quadrature(mean=mean, chunk=chunk), bias=False
    ).double()
    conv.kernel = ProductKernel(group)
    return conv


def convolve_at(
    conv: GroupConv, f: GaussianMixture, x: Tensor, h: GroupSamples, samples: GroupSamples
) -> Tensor:
    """Output of the layer at each pair (x_p, h_p), from exact lifted features on a patch."""
    grid = kernel_grid(conv.spec.size, 2, conv.spec.extent)
    outputs = []
    for p in range(len(x)):
        patch = f.lifted(x[p] + grid, samples.h).mT  # every sample, at every pixel around x
        features = patch.reshape(1, 1, len(samples), conv.spec.size, conv.spec.size)
        value, _ = conv(features, samples, h.select(torch.tensor([p])))
        outputs.append(value.reshape(()))
    return torch.stack(outputs)


def stretch(size: float, group: LinearGroup) -> Tensor:
    """The transformation of the measured table: a stretch of Frobenius norm ``size``, a turn."""
    turn = SO(2).from_coordinates(tensor([0.2]))
    if group.symmetric_dimension == 0:
        return SO(2).from_coordinates(tensor([0.7]))
    y = tensor([[1.0, 0.4], [0.4, -1.0]])
    return torch.linalg.matrix_exp(size * y / y.norm()) @ turn


def output_elements(
    group: LinearGroup, count: int, generator: torch.Generator
) -> tuple[Tensor, GroupSamples]:
    """Points in a square and elements near the identity, where outputs are compared."""
    x = 1.2 * torch.rand(count, 2, dtype=torch.float64, generator=generator) - 0.6
    y = 0.1 * torch.randn(
        count, group.symmetric_dimension, dtype=torch.float64, generator=generator
    )
    angle = 2 * math.pi * torch.rand(count, 1, dtype=torch.float64, generator=generator) - math.pi
    weight = torch.ones(count, dtype=torch.float64)
    return x, GroupSamples.from_coordinates(group, torch.cat([y, angle], dim=1), weight)


def equivariance_error(
    conv: GroupConv, samples: GroupSamples, a: Tensor, *, points: int = 40, seed: int = 0
) -> float:
    """RMS change of outputs under a transformation over their RMS."""
    generator = torch.Generator().manual_seed(seed)
    x, h = output_elements(conv.group, points, generator)
    f = GaussianMixture.standard()
    before = convolve_at(conv, f, x, h, samples)
    after = convolve_at(conv, f.moved(a), x @ a.mT, h.act(a), samples)
    return float(((after - before).square().mean() / before.square().mean()).sqrt())
