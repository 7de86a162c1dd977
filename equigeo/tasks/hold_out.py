"""Held-out training samples for model selection without test samples."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equigeo.training.random_state import seed_sequence
from equigeo.training.run_config import RunConfig


def evaluated_part(config: RunConfig) -> str:
    """Return the name of the samples that a run is evaluated on, "held-out" or "test"."""
    return "held-out" if getattr(config, "holdout", False) else "test"


def hold_out(
    labels: Tensor,  # (all samples,)
    positions: Tensor,  # (samples,) ascending
    number: int,
    *draw: int,  # number of the draw
    groups: Tensor | None = None,  # (all samples,) groups stay together and count as one
) -> tuple[Tensor, Tensor]:
    """Split samples into training positions and ``number`` held-out samples per class."""
    # The draw is independent of the seed of a run, so that runs are comparable.
    if groups is None:
        groups = torch.arange(len(labels))
    held: list[int] = []
    for label in range(int(labels.max()) + 1):
        members = groups[positions[labels[positions] == label]].unique().numpy()
        # a stream for each class: adding a class leaves the draws of the others as they were
        stream = np.random.default_rng(seed_sequence(0, "holdout", *draw, label))
        held += stream.permutation(members)[:number].tolist()
    is_held = torch.isin(groups[positions], torch.tensor(held, dtype=torch.long))
    return positions[~is_held], positions[is_held]
