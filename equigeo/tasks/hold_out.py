"""Training samples that are put aside, so that choices are not made on test samples."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equigeo.training.random_state import seed_sequence
from equigeo.training.run_config import RunConfig


def evaluated_part(config: RunConfig) -> str:
    """Return what the samples are called that a run is evaluated on.

    Parameters
    ----------
    config : RunConfig
        Of the run.

    Examples
    --------
    >>> from equigeo.tasks.mesh_classification import MeshConfig
    >>> evaluated_part(MeshConfig("builtin", holdout=2)), evaluated_part(MeshConfig("builtin"))
    ('held-out', 'test')
    """
    return "held-out" if getattr(config, "holdout", False) else "test"


def hold_out(
    labels: Tensor, positions: Tensor, number: int, *draw: int, groups: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Split samples into those to train on and ``number`` of every class to evaluate on.

    The draw does not depend on the seed of a run, so that runs with several seeds are judged by the
    same samples.

    Parameters
    ----------
    labels : Tensor, (all samples,), int64
        Class index of every sample.
    positions : Tensor, (samples,), int64
        Which samples to split, in increasing order.
    number : int
        How many of every class; all of a class that has fewer.
    draw : int
        Number of the draw, where there are several.
    groups : Tensor, (all samples,), int64, optional
        Samples of one number, which have one label, stay together: ``number`` counts groups.

    Returns
    -------
    train, held : Tensor, int64
        Increasing positions.

    Examples
    --------
    >>> train, held = hold_out(torch.tensor([0, 0, 0, 1, 1]), torch.arange(5), 1)
    >>> len(train), len(held)
    (3, 2)
    """
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
