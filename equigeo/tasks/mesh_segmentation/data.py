"""Data of segmentation: loading, splits and batches of graphs with labels."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from equigeo.datasets import SegmentedMeshDataset, articulated_parts, load_segmentation_folder
from equigeo.tasks.mesh_classification.data import BUILTIN
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.repair_notes import warn_of_lost_area
from equigeo.training.random_state import seed_sequence

BATCH_SIZE: Final = 16  # meshes that are segmented at once


def load_segmented_meshes(data: str) -> SegmentedMeshDataset:
    """Load ``"builtin"``, or a folder or archive of meshes with labels."""
    if data == BUILTIN:
        return articulated_parts()
    dataset = load_segmentation_folder(data)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_segmented_meshes(
    dataset: SegmentedMeshDataset, config: SegmentationConfig
) -> tuple[Tensor, Tensor]:
    """Return increasing positions of the training and of the evaluated meshes.

    With ``holdout``, both are training meshes, split independently of the seed of the run.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> labels, in_train = (torch.tensor([0]),) * 3, torch.tensor([True, True, False])
    >>> dataset = SegmentedMeshDataset((mesh,) * 3, labels, ("part",), tuple("abc"), in_train)
    >>> train, test = split_segmented_meshes(dataset, SegmentationConfig("memory"))
    >>> train.tolist(), test.tolist()
    ([0, 1], [2])
    """
    train = dataset.in_train.nonzero().flatten()
    test = (~dataset.in_train).nonzero().flatten()
    if config.holdout > 0:
        order = np.random.default_rng(seed_sequence(0, "holdout")).permutation(len(train))
        held = torch.from_numpy(order[: config.holdout]).sort().values
        kept = torch.from_numpy(order[config.holdout :]).sort().values
        train, test = train[kept], train[held]
    for purpose, part in (("train on", train), ("evaluate on", test)):
        if len(part) == 0:
            raise ValueError(
                f"no mesh to {purpose} with holdout {config.holdout}; add meshes or change it"
            )
    return train, test
