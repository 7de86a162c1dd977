"""Relative equivariance error of one group convolution, and of the image layers.

    python -m bench.affine_equivariance --output bench/results/affine_equivariance.json

Features are sums of Gaussians lifted in closed form, given to ``GroupConv`` on patches fine enough
that the sum over pixels is exact to rounding; kernel, weights and determinants are the layer's own.
The error is the root mean square change of outputs under a transformation over their root mean
square. Outputs lie near the identity. The image part lifts and convolves pixels instead. Rows
found in the output file are kept with ``--resume``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from bench.affine_images import image_error
from bench.recorder import Record, output_arguments
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
    multiply_samples,
    pair_samples,
    sample_stretches,
)
from tests.affine.analytic_features import analytic_conv, equivariance_error, stretch

Case = tuple[dict[str, Any], Callable[[], float]]  # what, and how to measure its error

SIZES = (0.1, 0.3, 0.6)
PIXELS = 33  # of a patch; with 19, stretches of 0.6 err by 1e-4 whatever the samples


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


def slope(counts: list[int], errors: list[float]) -> float:
    x = torch.tensor(counts, dtype=torch.float64).log()
    y = torch.tensor(errors, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def quadrature_cases() -> Iterator[Case]:
    for extent, points, angles in ((1.2, 7, 8), (1.3, 9, 12), (1.6, 13, 16)):
        samples = multiply_samples(
            grid_stretches(SL(2), extent, points), equidistant_rotations(angles)
        )
        for size in SIZES:
            yield (
                {"group": "SL(2)", "samples": len(samples), "extent": extent, "stretch": size},
                lambda samples=samples, size=size: equivariance_error(
                    analytic_conv(SL(2), PIXELS), samples, stretch(size, SL(2))
                ),
            )
    for name in ("tetrahedral", "octahedral", "icosahedral"):
        yield (
            {"group": "SO(3)", "samples": name},
            lambda name=name: equivariance_error(
                analytic_conv(SO(3)), finite_rotations(name), stretch(0.0, SO(3)), points=10
            ),
        )


def monte_carlo_cases() -> Iterator[Case]:
    groups: list[tuple[LinearGroup, tuple[int, ...], float, tuple[float, ...]]] = [
        (SO(2), (8, 32, 128, 512, 2048), 0.0, (0.0,)),
        (SL(2), (64, 256, 1024, 4096), 0.7, SIZES),
        (GLPlus(2), (64, 256, 1024, 4096), 0.6, SIZES),
        (SO(3), (64, 256, 1024), 0.0, (0.0,)),
        (GLPlus(3), (64, 256, 1024), 0.35, (0.1, 0.3)),
    ]
    for group, counts, std, sizes in groups:
        for size in sizes:
            for n in counts:
                draws = 24 if n <= 512 else 12  # rare samples weigh most
                yield (
                    {"group": str(group), "stretch": size, "std": std, "samples": n}
                    | {"draws": draws},
                    lambda a=(group, n, std, size, draws, 8 if group.n == 2 else 4): sampled_error(
                        *a
                    ),
                )


def image_cases() -> Iterator[Case]:
    for pixels in (40, 80, 160):
        for size in SIZES:
            yield (
                {"pixels": pixels, "stretch": size},
                lambda pixels=pixels, size=size: image_error(pixels, size),
            )


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slope of every group and stretch, from the rows that are there."""
    series: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        series.setdefault((row["group"], row["stretch"]), []).append(row)
    return [
        {"group": group, "stretch": size}
        | {"slope": slope([r["samples"] for r in found], [r["error"] for r in found])}
        for (group, size), found in series.items()
        if len(found) > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
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
