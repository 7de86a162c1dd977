"""Relative equivariance error of one group convolution, and of the image layers.

    python -m bench.affine_equivariance --output bench/results/affine_equivariance.json

Features are sums of Gaussians lifted in closed form, given to ``GroupConv`` on patches fine enough
that the sum over pixels is exact to rounding; kernel, weights and determinants are the layer's own.
The error is the root mean square change of outputs under a transformation over their root mean
square. Outputs lie near the identity. The image part lifts and convolves pixels instead.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.recorder import Record, parsed
from equigeo.affine import GroupConv, KernelSpec, LiftConv, Quadrature, WindowWarning
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import (
    SL,
    SO,
    GLPlus,
    GroupSamples,
    LinearGroup,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    haar_rotations,
    multiply_samples,
    pair_samples,
    sample_stretches,
)
from tests.affine.analytic_features import (
    GaussianMixture,
    LiftKernel,
    ProductKernel,
    analytic_conv,
    equivariance_error,
    output_elements,
    stretch,
)

Case = tuple[dict[str, Any], Callable[[], float]]  # what, and how to measure its error

SIZES = (0.1, 0.3, 0.6)
HALF = 2.0  # the image shows [-2, 2]^2
REACH = 1.0  # half the side of the kernels
PIXELS = 33  # of a patch; with 19, stretches of 0.6 err by 1e-4 whatever the samples


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


def random_samples(group: LinearGroup, count: int, std: float, seed: int) -> GroupSamples:
    generator = torch.Generator().manual_seed(seed)
    rotations = haar_rotations(group.n, count, generator=generator)
    if group.symmetric_dimension == 0:
        return rotations
    return pair_samples(sample_stretches(group, count, std, generator=generator), rotations)


def sampled_error(
    group: LinearGroup, count: int, std: float, size: float, draws: int, points: int
) -> float:
    """Root mean square over draws of the samples."""
    a = stretch(size, group)
    errors = [
        equivariance_error(
            analytic_conv(group), random_samples(group, count, std, seed), a,
            points=points, seed=seed,
        )
        for seed in range(draws)
    ]  # fmt: skip
    return math.sqrt(sum(e * e for e in errors) / draws)


def quadrature_cases() -> Iterator[Case]:
    for extent, points, angles in ((1.2, 7, 8), (1.3, 9, 12), (1.6, 13, 16)):
        samples = multiply_samples(
            grid_stretches(SL(2), extent, points), equidistant_rotations(angles)
        )
        for size in SIZES:
            case = {"group": "SL(2)", "samples": len(samples), "extent": extent, "stretch": size}
            conv, a = analytic_conv(SL(2), PIXELS), stretch(size, SL(2))
            yield case, partial(equivariance_error, conv, samples, a)
    for name in ("tetrahedral", "octahedral", "icosahedral"):
        given = analytic_conv(SO(3)), finite_rotations(name), stretch(0.0, SO(3))
        yield {"group": "SO(3)", "samples": name}, partial(equivariance_error, *given, points=10)


def monte_carlo_cases() -> Iterator[Case]:
    groups: list[tuple[LinearGroup, tuple[int, ...], float, tuple[float, ...]]] = [
        (SO(2), (8, 32, 128, 512, 2048), 0.0, (0.0,)),
        (SL(2), (64, 256, 1024, 4096), 0.7, SIZES),
        (GLPlus(2), (64, 256, 1024, 4096), 0.6, SIZES),
        (SO(3), (64, 256, 1024), 0.0, (0.0,)),
        (GLPlus(3), (64, 256, 1024), 0.35, (0.1, 0.3)),
    ]
    for group, counts, std, sizes in groups:
        for size, n in product(sizes, counts):
            draws = 24 if n <= 512 else 12  # rare samples weigh most
            case = {"group": str(group), "stretch": size, "std": std, "samples": n, "draws": draws}
            points = 8 if group.n == 2 else 4
            yield case, partial(sampled_error, group, n, std, size, draws, points)


def image_cases() -> Iterator[Case]:
    for pixels, size in product((40, 80, 160), SIZES):
        yield {"pixels": pixels, "stretch": size}, partial(image_error, pixels, size)


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slope of every group and stretch in logarithms, from the rows that are there."""
    series: dict[tuple[str, float], list[list[float]]] = {}
    for row in rows:
        point = [row["samples"], row["error"]]
        series.setdefault((row["group"], row["stretch"]), []).append(point)
    return [
        {"group": group, "stretch": size, "slope": float(np.polyfit(*np.log(found).T, 1)[0])}
        for (group, size), found in series.items()
        if len(found) > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments = parsed(parser, series=True, required=True)
    record = Record(arguments.output, resume=arguments.resume)
    # Random samples never reach as far as the kernel wants: that is what is measured.
    warnings.simplefilter("ignore", WindowWarning)
    parts = {
        "quadrature": quadrature_cases,
        "Monte Carlo": monte_carlo_cases,
        "image layers": image_cases,
    }
    for part, cases in parts.items():
        rows = record.content.get(part, [])
        for case, measure in cases():
            if any(case.items() <= row.items() for row in rows):
                continue
            rows.append(case | {"error": measure()})
            found = {"slopes": slopes(rows)} if part == "Monte Carlo" else {}
            record.write({part: rows, **found})
            print(part, rows[-1], flush=True)


if __name__ == "__main__":
    main()
