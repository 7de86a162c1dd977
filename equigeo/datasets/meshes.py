"""Labeled meshes in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from equigeo.datasets.class_folders import MESH_SUFFIXES, ClassFolders
from equigeo.mesh import LoadReport, MeshError, TriangleMesh, load_mesh


def check_labels(labels: Tensor, classes: tuple[str, ...], number: int) -> None:
    """Raise unless labels are int64 class indices, one per item, and class names are distinct."""
    if labels.shape != (number,) or labels.dtype != torch.int64:
        raise ValueError(
            f"labels must be {torch.int64} ({number},), got {labels.dtype} {tuple(labels.shape)}"
        )
    if len(set(classes)) != len(classes):
        raise ValueError(f"classes must have different names, got {classes}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise ValueError(f"labels must be positions in {len(classes)} classes, got {low} to {high}")


def check_in_train(in_train: Tensor, number: int) -> None:
    """Raise unless there is one flag per item."""
    if in_train.shape != (number,) or in_train.dtype != torch.bool:
        raise ValueError(
            f"in_train must be {torch.bool} ({number},), "
            f"got {in_train.dtype} {tuple(in_train.shape)}"
        )


@dataclass(frozen=True, eq=False)
class MeshDataset:
    """Labeled meshes with the training and test split of their source.

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

    def __post_init__(self) -> None:
        """Validate the fields."""
        number = len(self.meshes)
        if number == 0:
            raise ValueError("a data set needs at least one mesh, got none")
        if len(self.names) != number:
            raise ValueError(f"names must name {number} meshes, got {len(self.names)}")
        check_labels(self.labels, self.classes, number)
        check_in_train(self.in_train, number)
        if self.reports and len(self.reports) != number:
            raise ValueError(
                f"reports must be of {number} meshes or of none, got {len(self.reports)}"
            )
        if self.groups is not None:
            _check_groups(self.groups, self.labels, self.in_train)

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


def _check_groups(groups: Tensor, labels: Tensor, in_train: Tensor) -> None:
    if groups.shape != labels.shape or groups.dtype != torch.int64:
        raise ValueError(
            f"groups must be {torch.int64} {tuple(labels.shape)}, "
            f"got {groups.dtype} {tuple(groups.shape)}"
        )
    rows = torch.stack([groups, labels, in_train.long()], dim=1).unique(dim=0)
    if len(rows) > len(groups.unique()):
        number = int(rows[1:, 0][rows[1:, 0] == rows[:-1, 0]][0])
        raise ValueError(
            f"group {number} has meshes of several classes, or some in training and some not"
        )


def load_mesh_folder(path: str | os.PathLike[str], *, strict: bool = False) -> MeshDataset:
    """Load a labeled mesh collection laid out as ``<class>/{train,test}/<mesh file>``.

    Labels are positions in the sorted class folders. Hidden entries, ``cache`` and loose files are
    ignored; a single enclosing folder is entered.

    Parameters
    ----------
    path : path-like
        Folder, or ``.tar.gz``, ``.tgz``, ``.tar.xz`` or ``.zip`` archive, which is unpacked into
        the cache.
    strict : bool
        Raise for meshes that need repair, as in `equigeo.mesh.load_mesh`.

    Returns
    -------
    MeshDataset
        Meshes by class, training meshes first, then by file name. ``names`` are paths below the
        folder; ``reports`` list the repairs.

    Raises
    ------
    ValueError
        If the path is missing or its layout is wrong.
    MeshError
        If meshes are unusable; the message counts them and names the first.

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
    found = ClassFolders.find(Path(path), MESH_SUFFIXES, "mesh")
    loaded = found.load(lambda member: load_mesh(member.path, strict=strict), MeshError)
    return MeshDataset(
        meshes=tuple(mesh for mesh, _ in loaded),
        labels=torch.tensor([member.label for member in found.members]),
        classes=found.classes,
        names=tuple(map(found.name, found.members)),
        in_train=torch.tensor([member.in_train for member in found.members]),
        reports=tuple(report for _, report in loaded),
    )
