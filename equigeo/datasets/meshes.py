"""Labeled meshes in memory, and their splits into training and test meshes."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.class_folders import ClassFolders
from equigeo.mesh import LoadReport, MeshError, TriangleMesh, load_mesh
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES
from equigeo.mesh.repair.repair import MERGE

_SEED = 2011  # the year of SHREC'11; any constant does, changing it changes every draw
_PER_CLASS = {"16": 16, "10": 10, "5": 5}
_CHOICES = ("folder", *_PER_CLASS)


def check_column(name: str, column: Tensor, number: int, dtype: torch.dtype = torch.int64) -> None:
    """Raise unless a tensor has one element of a dtype per item."""
    if column.shape != (number,) or column.dtype != dtype:
        raise ValueError(
            f"{name} must be {dtype} ({number},), got {column.dtype} {tuple(column.shape)}"
        )


def check_labels(labels: Tensor, classes: tuple[str, ...], number: int) -> None:
    """Raise unless labels are int64 class indices, one per item, and class names are distinct."""
    check_column("labels", labels, number)
    if len(set(classes)) != len(classes):
        raise ValueError(f"classes must have different names, got {classes}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise ValueError(f"labels must be positions in {len(classes)} classes, got {low} to {high}")


@dataclass(frozen=True, eq=False)
class MeshDataset:
    """Labeled meshes with the training, validation and test split of their source.

    Parameters
    ----------
    meshes : tuple of TriangleMesh
    labels : Tensor, (meshes,), int64
        Positions in ``classes``.
    classes : tuple of str
        Class names. They come from folders, so whatever displays them must escape them.
    names : tuple of str
        Name of each mesh in messages, such as its path below the data folder.
    in_train : Tensor, (meshes,), bool
        Whether the source counts the mesh as a training mesh.
    reports : tuple of LoadReport
        Repairs of each mesh; empty if meshes do not come from files.
    groups : Tensor, (meshes,), int64, optional
        Meshes of one group show the same object, such as one icon; no split divides a group. By
        default each mesh is its own group.
    in_val : Tensor, (meshes,), bool, optional
        Whether the source counts the mesh as a validation mesh; by default none is.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> labels, in_train = torch.tensor([0, 1]), torch.tensor([True, False])
    >>> dataset = MeshDataset((mesh, mesh), labels, ("cat", "dog"), ("a", "b"), in_train)
    >>> len(dataset), dataset.num_classes
    (2, 2)
    """

    meshes: tuple[TriangleMesh, ...]
    labels: Tensor
    classes: tuple[str, ...]
    names: tuple[str, ...]
    in_train: Tensor
    reports: tuple[LoadReport, ...] = ()
    groups: Tensor | None = None
    in_val: Tensor | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        number = len(self.meshes)
        if number == 0:
            raise ValueError("a data set needs at least one mesh, got none")
        if len(self.names) != number:
            raise ValueError(f"names must name {number} meshes, got {len(self.names)}")
        check_labels(self.labels, self.classes, number)
        check_parts(self.in_train, self.in_val, number)
        if self.reports and len(self.reports) != number:
            raise ValueError(
                f"reports must be of {number} meshes or of none, got {len(self.reports)}"
            )
        if self.groups is not None:
            _check_groups(self.groups, self.labels, *parts_of(self))

    def __repr__(self) -> str:
        trained = int(self.in_train.sum())
        return f"MeshDataset({len(self)} meshes of {self.num_classes} classes, {trained} to train)"

    def __len__(self) -> int:
        """Return the number of meshes."""
        return len(self.meshes)

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without meshes."""
        return len(self.classes)


def check_parts(in_train: Tensor, in_val: Tensor | None, number: int) -> None:
    """Raise unless training and validation samples are marked by booleans, one per sample."""
    check_column("in_train", in_train, number, torch.bool)
    if in_val is not None:
        check_column("in_val", in_val, number, torch.bool)
        if bool((in_train & in_val).any()):
            raise ValueError("in_train and in_val must have no sample in common")


def marks_of(parts: Sequence[str]) -> dict[str, Any]:
    """Return ``in_train`` and ``in_val`` of samples in parts."""
    in_val = torch.tensor([part == "val" for part in parts])
    in_train = torch.tensor([part == "train" for part in parts])
    return {"in_train": in_train, "in_val": in_val if bool(in_val.any()) else None}


def parts_of(dataset: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return which samples of a data set are in its training, validation and test part."""
    train = dataset.in_train
    val = torch.zeros_like(train) if dataset.in_val is None else dataset.in_val
    return train, val, ~(train | val)


def _check_groups(groups: Tensor, labels: Tensor, *parts: Tensor) -> None:
    check_column("groups", groups, len(labels))
    rows = torch.stack([groups, labels, *(part.long() for part in parts)], dim=1).unique(dim=0)
    if len(rows) > len(groups.unique()):
        number = int(rows[1:, 0][rows[1:, 0] == rows[:-1, 0]][0])
        raise ValueError(
            f"group {number} has meshes of several classes, or of several parts of the split"
        )


def load_mesh_folder(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    merge: float = MERGE,
    min_component: float = 0.0,
    inputs: Sequence[str] = (),
    split: Sequence[float] = (),
) -> MeshDataset:
    """Load a labeled mesh collection laid out as ``<class>/{train,val,test}/<mesh file>``.

    ``val`` is optional, as are all three with a ``split``. Hidden entries, ``cache`` and loose
    files are ignored; a single enclosing folder is entered. A warning names files with the same
    content in different parts or classes.

    Parameters
    ----------
    path : path-like
        Folder, or ``.tar.gz``, ``.tgz``, ``.tar.xz`` or ``.zip`` archive, which is unpacked into
        the cache.
    strict, merge, min_component, inputs
        See `equigeo.mesh.load_mesh`.
    split : sequence of float, optional
        Fractions of training, optionally validation, and test files that are drawn for each class
        in place of the parts of the folder, always alike. A class has at least one training mesh,
        then one test mesh, then one validation mesh.

    Returns
    -------
    MeshDataset
        Meshes by sorted class, then training, validation and test meshes, each by name. ``names``
        are paths below the folder.

    Raises
    ------
    ValueError
        If the path is missing, its layout is wrong, or meshes are unusable (`MeshError`).

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the layout).

    Examples
    --------
    >>> load_mesh_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    found = ClassFolders.find(Path(path), MESH_SUFFIXES, "mesh", split)
    read = partial(
        load_mesh, strict=strict, merge=merge, min_component=min_component, inputs=inputs
    )
    loaded = found.load(lambda member: read(member.path), MeshError)
    return MeshDataset(
        meshes=tuple(mesh for mesh, _ in loaded),
        labels=torch.tensor([member.label for member in found.members]),
        classes=found.classes,
        names=tuple(map(found.name, found.members)),
        reports=tuple(report for _, report in loaded),
        **marks_of([member.part for member in found.members]),
    )


def split_indices(dataset: MeshDataset, split: str, index: int = 0) -> tuple[Tensor, Tensor]:
    """Return positions of the training and test meshes under a named protocol.

    ``"folder"`` is the split of the source, without its validation meshes. ``"16"``, ``"10"`` and
    ``"5"`` train on that many meshes (or groups) per class and test on all others. A draw depends
    only on ``index`` and the order of the meshes. Draw 0 of ``"16"`` is the split of the source if
    that has 16 training meshes in every class (SHREC'11 as published).

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
        chosen, _, test = parts_of(dataset)
        counts = torch.bincount(dataset.labels[chosen], minlength=dataset.num_classes)
        for name, count in zip(dataset.classes, counts.tolist(), strict=True):
            if count == 0:
                raise ValueError(f"class {name!r} has no training mesh; use split 16 or 10")
        if not bool(test.any()):
            raise ValueError("the data set ships no test mesh; use split 16 or 10")
        return torch.nonzero(chosen).flatten(), torch.nonzero(test).flatten()
    if split == "16" and index == 0 and _ships_sixteen(dataset):
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
