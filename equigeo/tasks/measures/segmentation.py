"""Measures of segmentation. Published tables mix them: each has a name that says what it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from equigeo.datasets import SegmentedMeshDataset
from equigeo.datasets.segmentation.edges_in_order import edges_in_order
from equigeo.mesh import TriangleMesh
from equigeo.tasks.measures.classification import confusion_matrix

FACE_ACCURACY: Final = "face accuracy"
MESH_FACE_ACCURACY: Final = "face accuracy, mean over meshes"
AREA_ACCURACY: Final = "face accuracy by area, meshes weighted by faces"
MESH_AREA_ACCURACY: Final = "face accuracy by area, mean over meshes"
MEAN_IOU: Final = "mean IoU over parts, by faces"
EDGE_ACCURACY: Final = "edge accuracy from faces"
SOFT_EDGE_ACCURACY: Final = "soft edge accuracy from faces"


def segmentation_measures(
    dataset: SegmentedMeshDataset, indices: Sequence[int], predictions: Sequence[Tensor]
) -> dict[str, float]:
    """Compare predicted parts of faces with the labels of a data set, by every measure it allows.

    Parameters
    ----------
    dataset : SegmentedMeshDataset
        With labels of faces. Those of edges, hard and soft, are used if all meshes have them.
    indices : sequence of int
        Which meshes.
    predictions : sequence of Tensor, (faces,), int64
        Predicted class of every face of these meshes, by the classes of the data set.

    Returns
    -------
    dict of str to float
        Measures by name. ``FACE_ACCURACY`` counts faces over the whole set (the headline of
        PD-MeshNet), ``MESH_FACE_ACCURACY`` weights all meshes alike. ``AREA_ACCURACY`` weights
        faces by area within each mesh and meshes by their faces, ``MESH_AREA_ACCURACY`` weights
        all meshes alike, ``MEAN_IOU`` is over parts. Measures of edges take the faces at each edge:
        ``SOFT_EDGE_ACCURACY`` is that of MeshCNN, to which any label around an edge is right;
        ``EDGE_ACCURACY`` compares with hard labels. Both are means over the meshes that have such
        labels, and absent where none has.

    Raises
    ------
    ValueError
        If labels are not of faces, none is known, or predictions do not fit the meshes.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> labels = (torch.tensor([0, 1]),)
    >>> data = SegmentedMeshDataset((mesh,), labels, ("a", "b"), ("m",), torch.tensor([True]))
    >>> segmentation_measures(data, [0], [torch.tensor([0, 0])])[MEAN_IOU]
    0.25
    """
    if dataset.labels_at != "faces":
        raise ValueError(f"the data set must label faces, got {dataset.labels_at}")
    meshes = [dataset.meshes[i] for i in indices]
    labels = [dataset.labels[i] for i in indices]
    scores = [_score(*pair) for pair in zip(predictions, labels, meshes, strict=True)]
    confusion = confusion_matrix(*_known(labels, predictions), dataset.num_classes)
    found = _face_measures(scores) | {MEAN_IOU: mean_iou(confusion)}
    edges = [dataset.edge_labels[i] for i in indices] if dataset.edge_labels else []
    if edges and all(part.hard is not None for part in edges):
        hard = [
            edge_accuracy(seen, part.hard, mesh)
            for seen, part, mesh in zip(predictions, edges, meshes, strict=True)
            if part.hard is not None and bool((part.hard >= 0).any())
        ]
        found |= {EDGE_ACCURACY: _mean(hard)} if hard else {}
    if edges and all(part.soft is not None for part in edges):
        soft = [
            soft_edge_accuracy(face_to_edge_predictions(seen, mesh), part.soft, mesh)
            for seen, part, mesh in zip(predictions, edges, meshes, strict=True)
            if part.soft is not None and _has_weight(part.soft, mesh)
        ]
        found |= {SOFT_EDGE_ACCURACY: _mean(soft)} if soft else {}
    return found


def face_share(predictions: Tensor, labels: Tensor) -> float | None:
    """Return the share of the labelled faces of a mesh that are right.

    Parameters
    ----------
    predictions, labels : Tensor, (faces,), int64
        Predicted and true class of every face; a negative label is unknown.

    Returns
    -------
    float, optional
        None where no face has a label.

    Examples
    --------
    >>> face_share(torch.tensor([0, 1, 1]), torch.tensor([0, 0, -1]))
    0.5
    """
    known = labels >= 0
    if not bool(known.any()):
        return None
    return (predictions == labels)[known].double().mean().item()


def mesh_face_accuracy(predictions: Sequence[Tensor], labels: Sequence[Tensor]) -> float | None:
    """Return ``MESH_FACE_ACCURACY``: the mean of :func:`face_share` over the labelled meshes.

    Parameters
    ----------
    predictions, labels : sequence of Tensor, (faces,), int64
        Of every mesh.

    Returns
    -------
    float, optional
        None where no face of any mesh has a label.

    Examples
    --------
    >>> seen = [torch.tensor([0, 1]), torch.tensor([0])]
    >>> mesh_face_accuracy(seen, [torch.tensor([0, 0]), torch.tensor([-1])])
    0.5
    """
    shares = [face_share(*pair) for pair in zip(predictions, labels, strict=True)]
    known = [share for share in shares if share is not None]
    return _mean(known) if known else None


def _has_weight(soft: Tensor, mesh: TriangleMesh) -> bool:
    """Return whether an edge with a soft label has an area beside it."""
    return bool((edge_weights(mesh) * (soft > 0).any(dim=1)).sum() > 0)


class _Score(NamedTuple):
    """Faces of one mesh that are labelled and right, and the share by area of the labelled."""

    labelled: int
    right: int
    area_share: float


def _score(predictions: Tensor, labels: Tensor, mesh: TriangleMesh) -> _Score:
    if predictions.shape != labels.shape:
        raise ValueError(
            f"predictions must be of {len(labels)} faces, got {tuple(predictions.shape)}"
        )
    known, area = labels >= 0, face_areas(mesh)
    right = (predictions == labels) & known
    total = area[known].sum()
    # A mesh without area has no share by it; its faces count alike.
    share = area[right].sum() / total if total > 0 else right.sum() / known.sum().clamp_min(1)
    return _Score(int(known.sum()), int(right.sum()), share.item())


def _face_measures(scores: list[_Score]) -> dict[str, float]:
    counted = [score for score in scores if score.labelled]
    faces = sum(score.labelled for score in counted)
    if not faces:
        raise ValueError("no face has a label")
    return {
        FACE_ACCURACY: sum(score.right for score in counted) / faces,
        MESH_FACE_ACCURACY: _mean([score.right / score.labelled for score in counted]),
        AREA_ACCURACY: sum(score.labelled * score.area_share for score in counted) / faces,
        MESH_AREA_ACCURACY: _mean([score.area_share for score in counted]),
    }


def _known(labels: Sequence[Tensor], predictions: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Join all labelled faces."""
    found, guessed = torch.cat(list(labels)), torch.cat(list(predictions))
    return found[found >= 0], guessed[found >= 0]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def face_areas(mesh: TriangleMesh) -> Tensor:
    """Measure the faces of a mesh.

    Parameters
    ----------
    mesh : TriangleMesh
        Any.

    Returns
    -------
    Tensor, (faces,), float64
        Areas.

    Examples
    --------
    >>> face_areas(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])))
    tensor([0.8660], dtype=torch.float64)
    """
    one, two, three = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.vector_norm(torch.linalg.cross(two - one, three - one), dim=1) / 2


def mean_iou(confusion: Tensor) -> float:
    """Average the intersection over union over all classes that are true or predicted anywhere.

    Parameters
    ----------
    confusion : Tensor, (classes, classes), int64
        Counts by true class (row) and predicted class (column).

    Raises
    ------
    ValueError
        If nothing was counted.

    Examples
    --------
    >>> mean_iou(torch.tensor([[3, 1, 0], [0, 2, 0], [0, 0, 0]]))  # 3 / 4 and 2 / 3
    0.7083333333333333
    """
    right = confusion.diagonal().double()
    union = confusion.sum(0) + confusion.sum(1) - confusion.diagonal()
    if not bool(union.any()):
        raise ValueError("the confusion matrix counts nothing")
    return (right[union > 0] / union[union > 0]).mean().item()


def face_to_edge_predictions(predictions: Tensor, mesh: TriangleMesh) -> Tensor:
    """Give every edge the predictions of the faces at it.

    Parameters
    ----------
    predictions : Tensor, (faces,), int64
        Class of every face.
    mesh : TriangleMesh
        Their mesh.

    Returns
    -------
    Tensor, (edges, 2), int64
        In the order of ``edges_in_order``; of a boundary edge the same class twice, of one with
        more than two faces those of the first and the last.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> face_to_edge_predictions(torch.tensor([5, 7]), mesh).tolist()
    [[5, 7], [5, 5], [5, 5], [7, 7], [7, 7]]
    """
    edges = edges_in_order(mesh.faces)
    of_faces = edges.of_faces.reshape(-1)
    face = torch.arange(len(of_faces), device=of_faces.device) // 3
    ends = [
        face.new_zeros(len(edges.vertices)).scatter_reduce(
            0, of_faces, face, how, include_self=False
        )
        for how in ("amin", "amax")
    ]
    return predictions[torch.stack(ends, dim=1)]


def edge_weights(mesh: TriangleMesh) -> Tensor:
    """Weight every edge by a third of the areas of its faces.

    Parameters
    ----------
    mesh : TriangleMesh
        Of some area.

    Returns
    -------
    Tensor, (edges,), float64
        In the order of ``edges_in_order``; the sum is one.

    Examples
    --------
    >>> edge_weights(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])))
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """
    edges, area = edges_in_order(mesh.faces), face_areas(mesh)
    shares = (area / area.sum() / 3).repeat_interleave(3)
    return shares.new_zeros(len(edges.vertices)).index_add(0, edges.of_faces.reshape(-1), shares)


def edge_accuracy(predictions: Tensor, labels: Tensor, mesh: TriangleMesh) -> float:
    """Compare predictions of faces with hard labels of edges, which count alike.

    Parameters
    ----------
    predictions : Tensor, (faces,), int64
        Class of every face: half the weight of an edge is for either of its faces.
    labels : Tensor, (edges,), int64
        Class of every edge, -1 where not known.
    mesh : TriangleMesh
        Their mesh.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> edge_accuracy(torch.tensor([0, 1]), torch.tensor([0, 0, 0, 0, -1]), mesh)
    0.625
    """
    known = labels >= 0
    right = face_to_edge_predictions(predictions, mesh) == labels[:, None]
    if not bool(known.any()):
        raise ValueError("no edge has a label")
    return right[known].double().mean().item()


def soft_edge_accuracy(predictions: Tensor, soft: Tensor, mesh: TriangleMesh) -> float:
    """Give the weight of the edges whose predicted class occurs around them, as MeshCNN does.

    Parameters
    ----------
    predictions : Tensor, (edges,) or (edges, 2), int64
        Class of every edge; two classes, as from ``face_to_edge_predictions``, have half the weight
        each.
    soft : Tensor, (edges, columns), floating
        Share of each class around every edge. Edges whose row is zero have no label, and those that
        have share all the weight.
    mesh : TriangleMesh
        Their mesh: edges are weighted by the areas of their faces.

    Returns
    -------
    float
        From 0 to 1; more lenient than any accuracy by hard labels.

    Raises
    ------
    ValueError
        If a class has no column, or no edge has a label.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (its test accuracy).

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> soft = torch.tensor([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    >>> round(soft_edge_accuracy(torch.tensor([1, 1, 1]), soft, mesh), 6)
    0.666667
    """
    if len(predictions) != len(soft):
        raise ValueError(f"predictions must be of {len(soft)} edges, got {len(predictions)}")
    if int(predictions.max()) >= soft.shape[1]:
        raise ValueError(
            f"soft labels need a column for class {int(predictions.max())}, got {soft.shape[1]}"
        )
    known = (soft > 0).any(dim=1)
    weights = edge_weights(mesh) * known
    if not bool(weights.sum() > 0):
        raise ValueError("no edge has a soft label")
    guessed = predictions.reshape(len(soft), -1)
    right = (soft.gather(1, guessed) > 0).double().mean(dim=1)
    return (right @ weights / weights.sum()).item()
