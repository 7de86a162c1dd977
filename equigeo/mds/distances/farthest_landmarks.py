"""Farthest-first selection of landmarks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.points.farthest_point_sampling import farthest_first


def farthest_landmarks(
    distances_from: Callable[[int], Tensor], count: int, *, start: int
) -> tuple[Tensor, Tensor]:
    """Select points, each farthest from the previous ones, and return their distances to all."""
    if count < 1:
        raise ValueError(f"there must be at least one landmark, got {count}")
    rows: dict[int, Tensor] = {}

    def measure(landmark: Tensor) -> Tensor:
        number = int(landmark)
        if number not in rows:
            rows[number] = distances_from(number).double()
        return rows[number]

    first = torch.tensor([start])
    count = min(count, len(measure(first)))
    landmarks = farthest_first(first, measure, count)
    return landmarks, torch.stack([measure(landmark) for landmark in landmarks])
