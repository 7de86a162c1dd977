"""Relative equivariance error of one group convolution, and of the image layers.

    python bench/affine_equivariance.py --output bench/results/affine_equivariance.json

Features are sums of Gaussians lifted in closed form, given to ``GroupConv`` on patches fine enough
that the sum over pixels is exact to rounding; kernel, weights and determinants are the layer's own.
The error is the root mean square change of outputs under a transformation over their root mean
square. Outputs lie near the identity. The image part lifts and convolves pixels instead.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from affine_images import image_error

from equigeo.affine import WindowWarning
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
    lognormal_stretches,
    multiply_samples,
    pair_samples,
)
from tests.affine.analytic_features import analytic_conv, equivariance_error, stretch

SIZES = (0.1, 0.3, 0.6)
PIXELS = 33  # of a patch; with 19, stretches of 0.6 err by 1e-4 whatever the samples


def random_samples(group: LinearGroup, count: int, std: float, seed: int) -> GroupSamples:
    generator = torch.Generator().manual_seed(seed)
    rotations = haar_rotations(group.n, count, generator=generator)
    if group.symmetric_dimension == 0:
        return rotations
    return pair_samples(lognormal_stretches(group, count, std, generator=generator), rotations)


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


def slope(counts: tuple[int, ...], errors: list[float]) -> float:
    x = torch.tensor(counts, dtype=torch.float64).log()
    y = torch.tensor(errors, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def quadrature_rows() -> list[dict[str, Any]]:
    rows = []
    for extent, points, angles in ((1.2, 7, 8), (1.3, 9, 12), (1.6, 13, 16)):
        samples = multiply_samples(
            grid_stretches(SL(2), extent, points), equidistant_rotations(angles)
        )
        errors = {
            str(size): equivariance_error(
                analytic_conv(SL(2), PIXELS), samples, stretch(size, SL(2))
            )
            for size in SIZES
        }
        rows.append({"group": "SL(2)", "samples": len(samples), "extent": extent, "error": errors})
        print(rows[-1], flush=True)
    for name in ("tetrahedral", "octahedral", "icosahedral"):
        error = equivariance_error(
            analytic_conv(SO(3)), finite_rotations(name), stretch(0.0, SO(3)), points=10
        )
        rows.append({"group": "SO(3)", "samples": name, "error": error})
        print(rows[-1], flush=True)
    return rows


def monte_carlo_rows() -> list[dict[str, Any]]:
    cases: list[tuple[LinearGroup, tuple[int, ...], float, tuple[float, ...]]] = [
        (SO(2), (8, 32, 128, 512, 2048), 0.0, (0.0,)),
        (SL(2), (64, 256, 1024, 4096), 0.7, SIZES),
        (GLPlus(2), (64, 256, 1024, 4096), 0.6, SIZES),
        (SO(3), (64, 256, 1024), 0.0, (0.0,)),
        (GLPlus(3), (64, 256, 1024), 0.35, (0.1, 0.3)),
    ]
    rows = []
    for group, counts, std, sizes in cases:
        points = 8 if group.n == 2 else 4
        for size in sizes:
            draws = [24 if n <= 512 else 12 for n in counts]  # rare samples weigh most
            errors = [
                sampled_error(group, n, std, size, d, points)
                for n, d in zip(counts, draws, strict=True)
            ]
            rows.append(
                {
                    "group": str(group), "stretch": size, "std": std, "samples": counts,
                    "draws": draws, "error": errors, "slope": slope(counts, errors),
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    # Random samples never reach as far as the kernel wants: that is what is measured.
    warnings.simplefilter("ignore", WindowWarning)
    result = {
        "command": "python bench/affine_equivariance.py",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "quadrature": quadrature_rows(),
        "Monte Carlo": monte_carlo_rows(),
        "image layers": [
            {"pixels": pixels, "stretch": size, "error": image_error(pixels, size)}
            for pixels in (40, 80, 160)
            for size in SIZES
        ],
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
