"""Labelled meshes in memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.datasets.check_labels import check_labels
from equigeo.mesh import LoadReport, TriangleMesh


@dataclass(frozen=True, eq=False)
class MeshDataset:
    """Labelled meshes with the training and test split of their source.

    Parameters
    ----------
    meshes : tuple of TriangleMesh
        At least one.
    labels : Tensor, (meshes,), int64
        Class index of every mesh.
    classes : tuple of str
        Class names; a label is a position here. Names come from folders and are data: whatever
        shows them must escape them.
    names : tuple of str
        What to call every mesh in a message or report, such as its path below the data folder.
    in_train : Tensor, (meshes,), bool
        Whether the source counts the mesh as a training mesh.
    reports : tuple of LoadReport
        What loading each mesh did to it; empty where meshes come from no files.
    groups : Tensor, (meshes,), int64, optional
        Meshes of one number show the same thing, such as several placements of one icon: no split
        puts some of them into training and some into test. By default, each mesh is on its own.

    Raises
    ------
    ValueError
        If the lengths differ, a dtype is wrong, a class name occurs twice or a label has no class,
        or a group has meshes of several classes, or some in training and some not.

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
        if self.in_train.shape != (number,) or self.in_train.dtype != torch.bool:
            raise ValueError(
                f"in_train must be {torch.bool} ({number},), "
                f"got {self.in_train.dtype} {tuple(self.in_train.shape)}"
            )
        if self.reports and len(self.reports) != number:
            raise ValueError(
                f"reports must be of {number} meshes or of none, got {len(self.reports)}"
            )
        if self.groups is not None:
            _check_groups(self.groups, self.labels, self.in_train)

    def __repr__(self) -> str:
        """Return counts without meshes."""
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
