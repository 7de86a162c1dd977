"""Tours of a model for many instances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.mds import Tours
from equigeo.nn.evaluating import evaluating

_AT_ONCE = 2_000_000  # scores of a step, over instances, tours, heads and cities: bounds memory


def find_tours(
    model: Any,
    cities: Tensor,  # (B, cities, 2)
    *,
    every_start: bool = False,
    augment: bool = False,
) -> Tours:
    """Solve instances in evaluation mode, some at a time; results are on the CPU."""
    device = next(model.parameters()).device
    number = cities.shape[1]
    tours = number if every_start else number // 4 + 1  # of which the encoder costs as much
    with evaluating(model):
        found = [
            model.solve(part.to(device), every_start=every_start, augment=augment)
            for part in cities.split(max(1, _AT_ONCE // (tours * number * model.config.heads)))
        ]
    return Tours(
        *(
            torch.cat([getattr(part, name).cpu() for part in found])
            for name in ("order", "length", "log_prob", "flagged")
        )
    )
