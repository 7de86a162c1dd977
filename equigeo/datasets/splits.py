"""Splits of a data set into training and test meshes."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.meshes import MeshDataset

_SEED = 2011  # the year of SHREC'11; any constant does, changing it changes every draw
_PER_CLASS = {"16": 16, "10": 10, "5": 5}
_CHOICES = ("folder", *_PER_CLASS)


def split_indices(dataset: MeshDataset, split: str, index: int = 0) -> tuple[Tensor, Tensor]:
    """Return positions of the training and test meshes under a named protocol.

    ``"folder"`` is the split of the source. ``"16"``, ``"10"`` and ``"5"`` train on that many
    meshes (or groups) per class and test on all others. A draw depends only on ``index`` and the
    order of the meshes. Draw 0 of ``"16"`` is the split of the source if that has 16 training
    meshes in every class (SHREC'11 as published).

    Parameters
    ----------
    dataset : MeshDataset
    split : {"folder", "16", "10", "5"}
    index : int
        Number of the random draw, from 0.

    Returns
    -------
    train, test : Tensor, (meshes of the part,), int64
        Increasing.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the splits 16 and 10).

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> labels, shipped = torch.arange(2).repeat(20), torch.arange(40) < 32
    >>> dataset = MeshDataset((mesh,) * 40, labels, ("cat", "dog"), tuple("ab" * 20), shipped)
    >>> train, test = split_indices(dataset, "10", index=3)
    >>> torch.bincount(labels[train]).tolist(), torch.bincount(labels[test]).tolist()
    ([10, 10], [10, 10])
    """
    if split not in _CHOICES:
        raise ValueError(f"split must be one of {', '.join(_CHOICES)}, got {split!r}")
    if index < 0 or (split == "folder" and index != 0):
        raise ValueError(f"split {split!r} has no draw number {index}")
    if split == "folder":
        chosen = dataset.in_train
        counts = torch.bincount(dataset.labels[chosen], minlength=dataset.num_classes)
        for name, count in zip(dataset.classes, counts.tolist(), strict=True):
            if count == 0:
                raise ValueError(f"class {name!r} has no training mesh; use split 16 or 10")
        if bool(chosen.all()):
            raise ValueError("the data set ships no test mesh; use split 16 or 10")
    elif split == "16" and index == 0 and _ships_sixteen(dataset):
        chosen = dataset.in_train
    else:
        chosen = _draw(dataset, _PER_CLASS[split], index)
    return torch.nonzero(chosen).flatten(), torch.nonzero(~chosen).flatten()


def _ships_sixteen(dataset: MeshDataset) -> bool:
    groups, labels, in_train = _groups(dataset), dataset.labels.numpy(), dataset.in_train.numpy()
    counts = [
        len(np.unique(groups[(labels == label) & in_train])) for label in range(dataset.num_classes)
    ]
    return counts == [16] * dataset.num_classes and not bool(dataset.in_train.all())


def _groups(dataset: MeshDataset) -> NDArray[np.int64]:
    return np.arange(len(dataset)) if dataset.groups is None else dataset.groups.numpy()


def _draw(dataset: MeshDataset, per_class: int, index: int) -> Tensor:
    """Mark the ``per_class`` groups of every class that have the smallest random keys."""
    # generate_state is stable across NumPy versions, which Generator.permutation does not promise
    sequence = np.random.SeedSequence([_SEED, zlib.crc32(b"split"), per_class, index])
    keys = sequence.generate_state(len(dataset), np.uint64)
    # a group has the key of its first mesh, and a mesh without groups its own
    groups, first = np.unique(_groups(dataset), return_index=True)
    labels = dataset.labels.numpy()[first]
    chosen: list[NDArray[np.int64]] = []
    for label, name in enumerate(dataset.classes):
        members = np.flatnonzero(labels == label)
        if len(members) <= per_class:
            unit = "meshes" if dataset.groups is None else "groups of meshes"
            raise ValueError(
                f"split {str(per_class)!r} needs more than {per_class} {unit} a class, "
                f"class {name!r} has {len(members)}"
            )
        chosen.append(members[np.argsort(keys[first[members]], kind="stable")[:per_class]])
    return torch.from_numpy(np.isin(_groups(dataset), groups[np.concatenate(chosen)]))
