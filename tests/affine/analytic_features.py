"""Features and kernels whose convolutions have closed forms: sums of Gaussians."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from equigeo.affine import GroupConv, KernelSpec, Quadrature
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import SO, GroupSamples, LinearGroup, haar_rotations, rotation_exp

_AMPLITUDES = (1.0, -0.7, 0.5)
_MEANS = {
    2: ((0.3, 0.1), (-0.2, 0.4), (0.1, -0.5)),
    3: ((0.3, 0.1, 0.2), (-0.2, 0.4, -0.1), (0.1, -0.5, 0.3)),
}
_COVARIANCES = {
    2: (((0.10, 0.03), (0.03, 0.05)), ((0.04, 0.0), (0.0, 0.09)), ((0.06, -0.02), (-0.02, 0.03))),
    3: (
        ((0.10, 0.03, 0.0), (0.03, 0.05, 0.01), (0.0, 0.01, 0.08)),
        ((0.06, 0.0, 0.02), (0.0, 0.09, 0.0), (0.02, 0.0, 0.07)),
        ((0.08, -0.02, 0.0), (-0.02, 0.05, 0.0), (0.0, 0.0, 0.06)),
    ),
}
LIFT_SHIFT = {2: (0.15, 0.05), 3: (0.15, 0.05, -0.1)}
LIFT_COVARIANCE = {
    2: ((0.05, 0.0), (0.0, 0.02)),
    3: ((0.06, 0.0, 0.0), (0.0, 0.05, 0.01), (0.0, 0.01, 0.08)),
}
KERNEL_SHIFT = {2: (0.1, -0.1), 3: (0.1, -0.1, 0.05)}
KERNEL_COVARIANCE = {
    2: ((0.06, 0.01), (0.01, 0.03)),
    3: ((0.06, 0.01, 0.0), (0.01, 0.05, 0.0), (0.0, 0.0, 0.07)),
}
_PATCH = {2: (19, 1.6), 3: (11, 1.3)}  # pixels and half side of the kernel grid


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class GaussianMixture:
    """A function on space, moved by linear maps exactly."""

    def __init__(self, amplitudes: Tensor, means: Tensor, covariances: Tensor) -> None:
        self.amplitudes, self.means, self.covariances = amplitudes, means, covariances

    @classmethod
    def standard(cls, n: int = 2) -> GaussianMixture:
        return cls(tensor(_AMPLITUDES), tensor(_MEANS[n]), tensor(_COVARIANCES[n]))

    def moved(self, a: Tensor) -> GaussianMixture:
        return GaussianMixture(self.amplitudes, self.means @ a.mT, a @ self.covariances @ a.mT)

    def values(self, x: Tensor) -> Tensor:
        """Values at points (..., n)."""
        return (self.amplitudes * gaussian(x[..., None, :] - self.means, self.covariances)).sum(-1)

    def lifted(self, x: Tensor, h: Tensor) -> Tensor:
        """Lifting convolution (points, N) with the standard kernel, in closed form."""
        n = x.shape[-1]
        shift, covariance = tensor(LIFT_SHIFT[n]), tensor(LIFT_COVARIANCE[n])
        t = (h @ covariance @ h.mT)[:, None]
        total = self.covariances + t
        d = self.means - x[:, None, None, :] - (h @ shift)[:, None]
        volume = (torch.linalg.det(self.covariances) * torch.linalg.det(t)).sqrt()
        scale = (2 * math.pi) ** (n / 2) * volume / torch.linalg.det(total).sqrt()
        value = (self.amplitudes * scale * gaussian(d, total)).sum(-1)
        return value / torch.linalg.det(h)


def gaussian(d: Tensor, covariance: Tensor) -> Tensor:
    """Values exp(-d^T C^-1 d / 2), written out because broadcast solves are slow."""
    p, n = torch.linalg.inv(covariance), d.shape[-1]
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    terms = [(1 + (i < j)) * p[..., i, j] * d[..., i] * d[..., j] for i, j in pairs]
    return torch.exp(-0.5 * torch.stack(terms).sum(0))


class LiftKernel(nn.Module):
    """The lifting kernel as a module that LiftConv can use."""

    def forward(self, u: Tensor) -> Tensor:
        n = u.shape[-1]
        return gaussian(u - tensor(LIFT_SHIFT[n]), tensor(LIFT_COVARIANCE[n]))[..., None]


class ProductKernel(nn.Module):
    """The group kernel, Gaussian in space times a function of stretch and angle."""

    def __init__(self, group: LinearGroup) -> None:
        super().__init__()
        self.group, self.count = group, group.symmetric_dimension

    def on_group(self, s: Tensor) -> Tensor:
        stretch = s[..., : self.count].square().sum(-1)
        rotation = s[..., self.count :]
        if self.group.n == 2:
            angle = rotation[..., 0]
            turn = 1 + 0.8 * torch.cos(angle - 0.4) + 0.5 * torch.cos(2 * angle)
        else:
            trace = rotation_exp(rotation).diagonal(dim1=-2, dim2=-1)
            turn = 1 + 0.5 * (trace * tensor([1.0, 0.5, 0.2])).sum(-1)
        return torch.exp(-stretch / (2 * 0.25**2)) * turn

    def forward(self, u: Tensor, s: Tensor) -> Tensor:
        n = u.shape[-1]
        space = gaussian(u - tensor(KERNEL_SHIFT[n]), tensor(KERNEL_COVARIANCE[n]))
        return (space * self.on_group(s))[..., None]


def analytic_conv(group: LinearGroup, pixels: int | None = None) -> GroupConv:
    """Group convolution with the product kernel, on patches fine enough for an error below 1e-6."""
    size, extent = _PATCH[group.n]
    size = pixels or size
    spec = KernelSpec(size, extent=extent, stretch_reach=0.7)  # almost three deviations
    conv = GroupConv(group, 1, 1, spec, quadrature=Quadrature(mean=False), bias=False).double()
    conv.kernel = ProductKernel(group)
    return conv


def convolve_at(
    conv: GroupConv, f: GaussianMixture, x: Tensor, h: GroupSamples, samples: GroupSamples
) -> Tensor:
    """Output of the layer at each pair (x_p, h_p), from exact lifted features on a patch."""
    n, size = conv.group.n, conv.spec.size
    grid = kernel_grid(size, n, conv.spec.extent)
    outputs = []
    for p in range(len(x)):
        patch = f.lifted(x[p] + grid, samples.h).mT  # every sample, at every pixel around x
        features = patch.reshape(1, 1, len(samples), *[size] * n)
        value, _ = conv(features, samples, h.select(torch.tensor([p])))
        outputs.append(value.reshape(()))
    return torch.stack(outputs)


def stretch(size: float, group: LinearGroup) -> Tensor:
    """The transformation of the measured table: a stretch of Frobenius norm ``size``, a turn."""
    n, pure = group.n, group.symmetric_dimension == 0
    angle = 0.7 if pure else 0.2
    turn = SO(n).from_coordinates(tensor([angle] if n == 2 else [0.3, angle, -0.1]))
    if pure:
        return turn
    y = torch.zeros(n, n, dtype=torch.float64)
    y[:2, :2] = tensor([[1.0, 0.4], [0.4, -1.0]])
    return torch.linalg.matrix_exp((size * y / y.norm())[None])[0] @ turn


def output_elements(
    group: LinearGroup, count: int, generator: torch.Generator
) -> tuple[Tensor, GroupSamples]:
    """Points in a square and elements near the identity, where outputs are compared."""
    x = 1.2 * torch.rand(count, group.n, dtype=torch.float64, generator=generator) - 0.6
    y = 0.1 * torch.randn(
        count, group.symmetric_dimension, dtype=torch.float64, generator=generator
    )
    turns = haar_rotations(group.n, count, generator=generator).coordinates
    weight = torch.ones(count, dtype=torch.float64)
    return x, GroupSamples.from_coordinates(group, torch.cat([y, turns], dim=1), weight)


def equivariance_error(
    conv: GroupConv, samples: GroupSamples, a: Tensor, *, points: int = 40, seed: int = 0
) -> float:
    """RMS change of outputs under a transformation over their RMS."""
    generator = torch.Generator().manual_seed(seed)
    x, h = output_elements(conv.group, points, generator)
    f = GaussianMixture.standard(conv.group.n)
    before = convolve_at(conv, f, x, h, samples)
    after = convolve_at(conv, f.moved(a), x @ a.mT, h.act(a), samples)
    return float(((after - before).square().mean() / before.square().mean()).sqrt())
