"""Which clouds a run trains on and which it is evaluated on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from equigeo.datasets import PointClouds, load_modelnet_points
from equigeo.training.points.point_config import PointConfig
from equigeo.training.random_state import derived_generator, seed_sequence


def point_parts(config: PointConfig) -> tuple[PointClouds, PointClouds]:
    """Load training and evaluated clouds.

    Returns
    -------
    train : PointClouds
        With all their points.
    evaluated : PointClouds
        With as many points as the configuration says, drawn once and for all. With ``holdout``
        these are training clouds, and the test file is not opened.

    Raises
    ------
    ValueError
        If the data are unusable, have fewer points, or a class has no cloud left to train on.
    """
    train = load_modelnet_points(config.data, "train")
    if config.points > train.points.shape[1]:
        raise ValueError(
            f"{config.data}: clouds have {train.points.shape[1]} points, not {config.points}"
        )
    if not config.holdout:
        evaluated = load_modelnet_points(config.data, "test")
        if evaluated.classes != train.classes:
            raise ValueError(f"{config.data}: training and test clouds have different classes")
        return train, _fewer(evaluated, config.points)
    held = _held(train, config.holdout)
    return _part(train, ~held), _fewer(_part(train, held), config.points)


def _held(clouds: PointClouds, number: int) -> Tensor:
    """Mark clouds of every class; the draw does not depend on the seed of the run."""
    held = torch.zeros(len(clouds), dtype=torch.bool)
    for label, name in enumerate(clouds.classes):
        members = (clouds.labels == label).nonzero().flatten().numpy()
        if len(members) <= number:
            raise ValueError(
                f"class {name!r} has {len(members)} training clouds, "
                f"too few to hold out {number} of them"
            )
        order = np.random.default_rng(seed_sequence(0, "holdout", label)).permutation(members)
        held[torch.from_numpy(order[:number])] = True
    return held


def _part(clouds: PointClouds, chosen: Tensor) -> PointClouds:
    return replace(clouds, points=clouds.points[chosen], labels=clouds.labels[chosen])


def _fewer(clouds: PointClouds, number: int) -> PointClouds:
    total = clouds.points.shape[1]
    if number == total:
        return clouds
    kept = torch.stack(
        [
            torch.randperm(total, generator=derived_generator(0, "points", i))[:number]
            for i in range(len(clouds))
        ]
    )
    points = clouds.points.gather(1, kept[:, :, None].expand(-1, -1, 3))
    return replace(clouds, points=points)
