"""A preset of the point-cloud classifiers."""

from __future__ import annotations

from dataclasses import dataclass

from equigeo.training.recipe import Recipe


@dataclass(frozen=True)
class PointPreset:
    """What a preset says beside the settings of the model.

    Parameters
    ----------
    recipe : Recipe
        How the weights are optimised.
    points : int
        Points of every cloud.
    """

    recipe: Recipe
    points: int = 1024
