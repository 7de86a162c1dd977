"""The sets of samples on which the features of a network live."""

from __future__ import annotations

import torch

from equigeo.affine.models.affine_resnet_config import AffineResNetConfig
from equigeo.groups import (
    GroupSamples,
    equidistant_rotations,
    lognormal_stretches,
    pair_samples,
)


def draw_samples(
    config: AffineResNetConfig, generator: torch.Generator | None = None
) -> GroupSamples:
    """Give one set of samples for a network.

    Parameters
    ----------
    config : AffineResNetConfig
        Group and number.
    generator : torch.Generator, optional
        Source of stretches; torch's global one by default. Rotations are equidistant.

    Returns
    -------
    GroupSamples
        Rotations alone for SO(2), else pairs.
    """
    rotations = equidistant_rotations(config.samples)
    if config.group == "SO":
        return rotations
    stretches = lognormal_stretches(
        config.make_group(), config.samples, config.stretch_std, generator=generator
    )
    return pair_samples(stretches, rotations)


def output_samples(config: AffineResNetConfig) -> GroupSamples:
    """Give the rotations at which an orientation head reads.

    Parameters
    ----------
    config : AffineResNetConfig
        Their number and window.

    Returns
    -------
    GroupSamples
        Rotations up to a quarter beyond the window.
    """
    rotations = equidistant_rotations(config.output_rotations)
    angle = rotations.coordinates[:, -1].abs().rad2deg()
    return rotations.select(torch.nonzero(angle <= 1.25 * config.orientation_window + 1e-6)[:, 0])
