"""In-memory data set of meshes with labeled faces, edges or vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from equigeo.datasets.meshes import check_column, check_parts
from equigeo.datasets.segmentation.edges import edges_in_order
from equigeo.mesh import LoadReport, TriangleMesh

LabelledElements = Literal["faces", "edges", "vertices"]

UNLABELLED = -1  # of faces, edges or vertices that no one has labeled


class EdgeLabels(NamedTuple):
    """Hard and soft edge labels of one mesh, numbered by `edges_in_order`.

    Parameters
    ----------
    hard : Tensor, (edges,), int64, optional
        Class of each edge, -1 if unknown.
    soft : Tensor, (edges, columns), float64, optional
        Share of each class around each edge; zeros if unknown. There may be more columns than
        classes.
    ambiguous_faces : int
        Faces with three different edge labels, for which the longest edge decided.

    Examples
    --------
    >>> EdgeLabels(hard=torch.tensor([0, 0, -1]))  # the last edge is not labeled
    EdgeLabels(hard=tensor([ 0,  0, -1]), soft=None, ambiguous_faces=0)
    """

    hard: Tensor | None = None
    soft: Tensor | None = None
    ambiguous_faces: int = 0


@dataclass(frozen=True, eq=False)
class SegmentedMeshDataset:
    """Meshes with part labels and the training, validation and test split of their source.

    Parameters
    ----------
    meshes : tuple of TriangleMesh
    labels : tuple of Tensor, (faces, edges or vertices of the mesh,), int64
        Class of each element, -1 if unknown.
    classes : tuple of str
        Names of the parts. They may come from files, so whatever displays them must escape them.
    names, in_train, in_val, reports
        See `MeshDataset`.
    labels_at : {"faces", "edges", "vertices"}
        Labeled elements; edges are numbered by `edges_in_order`.
    edge_labels : tuple of EdgeLabels
        Additional edge labels of the source; may be empty.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> labels = (torch.tensor([0, 1]),)
    >>> SegmentedMeshDataset((mesh,), labels, ("seat", "back"), ("chair",), torch.tensor([True]))
    SegmentedMeshDataset(1 meshes with labeled faces, 2 classes, 1 to train)
    """

    meshes: tuple[TriangleMesh, ...]
    labels: tuple[Tensor, ...]
    classes: tuple[str, ...]
    names: tuple[str, ...]
    in_train: Tensor
    labels_at: LabelledElements = "faces"
    edge_labels: tuple[EdgeLabels, ...] = ()
    reports: tuple[LoadReport, ...] = ()
    in_val: Tensor | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.labels_at not in get_args(LabelledElements):
            raise ValueError(
                f"labels_at must be one of {get_args(LabelledElements)}, got {self.labels_at!r}"
            )
        self._check_lengths()
        if not self.classes or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"classes must have different names, got {self.classes}")
        for mesh, labels, name in zip(self.meshes, self.labels, self.names, strict=True):
            number = _number(mesh, self.labels_at)
            _check(labels, number, len(self.classes), f"{name}: labels of {self.labels_at}")
        for mesh, edges, name in zip(self.meshes, self.edge_labels, self.names, strict=False):
            number = _number(mesh, "edges")
            if edges.hard is not None:
                _check(edges.hard, number, len(self.classes), f"{name}: edge labels")
            if edges.soft is not None:
                _check_soft(edges.soft, number, len(self.classes), f"{name}: soft edge labels")

    def _check_lengths(self) -> None:
        number = len(self.meshes)
        if number == 0:
            raise ValueError("a data set needs at least one mesh, got none")
        for field in ("labels", "names", "edge_labels", "reports"):
            found = len(getattr(self, field))
            if found != number and (found or field in {"labels", "names"}):
                raise ValueError(f"{field} must be of {number} meshes, got {found}")
        check_parts(self.in_train, self.in_val, number)

    def __repr__(self) -> str:
        return (
            f"SegmentedMeshDataset({len(self)} meshes with labeled {self.labels_at}, "
            f"{self.num_classes} classes, {int(self.in_train.sum())} to train)"
        )

    def __len__(self) -> int:
        """Return the number of meshes."""
        return len(self.meshes)

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without labels."""
        return len(self.classes)


def _number(mesh: TriangleMesh, labels_at: LabelledElements) -> int:
    """Return the number of labeled elements."""
    if labels_at == "edges":
        return len(edges_in_order(mesh.faces).vertices)
    return mesh.num_faces if labels_at == "faces" else mesh.num_vertices


def _check(labels: Tensor, number: int, num_classes: int, what: str) -> None:
    check_column(what, labels, number)
    if number and (int(labels.min()) < UNLABELLED or int(labels.max()) >= num_classes):
        raise ValueError(
            f"{what} must be positions in {num_classes} classes, or {UNLABELLED} where not known, "
            f"got {int(labels.min())} to {int(labels.max())}"
        )


def _check_soft(soft: Tensor, number: int, num_classes: int, what: str) -> None:
    fits = soft.ndim == 2 and len(soft) == number and soft.shape[1] >= num_classes
    if not fits or soft.dtype != torch.float64:
        raise ValueError(
            f"{what} must be {torch.float64} ({number}, at least {num_classes}), "
            f"got {soft.dtype} {tuple(soft.shape)}"
        )
    if not bool((soft.isfinite() & (soft >= 0)).all()):
        raise ValueError(f"{what} must be shares, got numbers below 0 or not finite")
