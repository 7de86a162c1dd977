"""Which meshes a run trains on and which it is evaluated on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equigeo.datasets import MeshDataset, split_indices
from equigeo.training.meshes.train_config import TrainConfig
from equigeo.training.random_state import seed_sequence


def divide(dataset: MeshDataset, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Divide a data set by the split of a configuration, and hold out if it says so.

    Returns
    -------
    train, evaluated : Tensor, (meshes of the part,), int64
        Increasing positions. With ``holdout``, both are training meshes of the split and its test
        meshes stay unseen.

    Raises
    ------
    ValueError
        If the split does not fit the data, or a class has no training mesh left.
    """
    train, test = split_indices(dataset, config.split, config.split_index)
    if config.holdout > 0:
        train, test = _hold_out(dataset, train, config)
    present = set(dataset.labels[train].tolist())
    for label, name in enumerate(dataset.classes):
        if label not in present:
            raise ValueError(
                f"class {name!r} has no mesh to train on under split {config.split!r} with "
                f"holdout {config.holdout}; add meshes or choose another split"
            )
    return train, test


def _hold_out(dataset: MeshDataset, train: Tensor, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Draw the meshes to hold out, class by class; the draw belongs to the split, not the seed."""
    held: list[int] = []
    for label in range(dataset.num_classes):
        members = train[dataset.labels[train] == label].numpy()
        stream = seed_sequence(0, "holdout", config.split_index, label)
        held += np.random.default_rng(stream).permutation(members)[: config.holdout].tolist()
    is_held = torch.isin(train, torch.tensor(held, dtype=torch.long))
    return train[~is_held], train[is_held]
