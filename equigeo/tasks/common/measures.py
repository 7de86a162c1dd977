"""Measures of classification and segmentation, and transformed copies of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields
from equigeo.datasets import SegmentedMeshDataset
from equigeo.datasets.segmentation.edges import edges_in_order
from equigeo.mesh import TriangleMesh
from equigeo.nn.module import evaluating
from equigeo.training.process import derived_generator


@torch.no_grad()
def classify(
    model: nn.Module,
    batches: Iterable[Any],
    run: Callable[[Any], Tensor] | None = None,  # default: the model
) -> Tensor:
    """Compute logits or other outputs in evaluation mode, (samples, classes) on the CPU."""
    device, run = next(model.parameters()).device, run or model
    with evaluating(model):
        return torch.cat([run(batch.to(device)).cpu() for batch in batches])


def accuracy(
    scores: Tensor,  # (samples, classes)
    labels: Tensor,  # (samples,)
) -> float:
    """Return the share of samples with the largest score in the true class."""
    return (scores.argmax(dim=1) == labels).double().mean().item()


def ranking(
    classes: Sequence[str],
    logits: Tensor,  # (classes,) of one sample
    top: int,
) -> list[tuple[str, float]]:
    """Return the ``top`` most probable classes with their probabilities."""
    best = logits.double().softmax(dim=0).topk(min(top, len(logits)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [(classes[i], probability) for i, probability in pairs]


def confusion_matrix(
    labels: Tensor,  # (samples,)
    predictions: Tensor,  # (samples,)
    num_classes: int,
) -> Tensor:
    """Count samples by true class (row) and predicted class (column)."""
    # one number for each pair of true and predicted class
    pairs = labels * num_classes + predictions
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


def relative_change(
    original: Tensor,  # (samples, classes)
    moved: Tensor,  # (samples, classes)
) -> float:
    """Return the RMS change of logits over their RMS deviation across samples."""
    original, moved = original.double(), moved.double()
    # 0 for an invariant model, about 1.4 if output and input are independent. Both sums are over
    # the same samples and classes, so that their numbers cancel.
    change = (moved - original).square().sum()
    spread = (original - original.mean(dim=0)).square().sum()
    if spread == 0:  # a constant model
        return 0.0 if change == 0 else float("inf")
    return float(torch.sqrt(change / spread))


@dataclass(frozen=True)
class CopyResult:
    """Predictions on transformed copies."""

    kind: str  # of the copies
    accuracy: float  # on the copies
    changed: list[str]  # names of samples with a changed predicted class
    largest_difference: float  # of a probability

    __repr__ = brief_fields

    @classmethod
    def compare(
        cls,
        kind: str,
        seen: Sequence[Tensor] | Tensor,  # (parts, classes) probabilities of each copy
        original: Sequence[Tensor] | Tensor,  # (parts, classes) of each sample
        labels: Sequence[Tensor] | Tensor,  # (parts,) of each sample, negative: unknown
        names: Sequence[str],
    ) -> CopyResult:
        """Compare probabilities on copies and on originals."""
        # compared with the original's prediction, right or wrong
        predicted, before = ([x.argmax(dim=1) for x in every] for every in (seen, original))
        share = face_share(torch.cat(predicted), torch.cat(list(labels)))
        differences = [(a - b).abs().max() for a, b in zip(seen, original, strict=True)]
        pairs = zip(names, predicted, before, strict=True)
        return cls(
            kind=kind,
            accuracy=0.0 if share is None else share,  # an evaluation of no labels raises
            changed=[name for name, now, was in pairs if not torch.equal(now, was)],
            largest_difference=torch.stack(differences).max().item(),
        )


def random_orthogonal(generator: torch.Generator, determinant: float, dim: int = 3) -> Tensor:
    """Draw an orthogonal matrix of determinant 1 or -1 from the Haar measure, (dim, dim)."""
    # the distribution of a Gaussian matrix is that of its product with any orthogonal one
    gaussian = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()  # makes the factorization unique, hence the draw uniform
    signs = (torch.linalg.det(q) * determinant).sign().repeat(dim)
    signs[: 1 - dim % 2] = 1.0  # an odd number of axes is reversed, or none
    return q * signs


CLOUD_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "sheared", "re-ordered")

_STRETCH = 0.1  # deviation of every entry of the logarithm of a stretch


def cloud_copies(
    points: Tensor,  # (clouds, points, dim)
    kind: str,  # one of CLOUD_COPIES
    seed: int = 0,  # combined with the position of the cloud
) -> Tensor:
    """Draw a transformed copy of every cloud, computed in float64."""
    # rotated: Haar; reflected: rotated and mirrored; scaled: 1/4 to 4, log-uniform; translated: by
    # a unit normal; sheared: rotated, then stretched without change of volume, log-deviation 0.1.
    if kind not in CLOUD_COPIES:
        raise ValueError(f"kind must be one of {', '.join(CLOUD_COPIES)}, got {kind!r}")
    copies = torch.empty_like(points)
    for i, cloud in enumerate(points):
        copies[i] = _copy(cloud.double(), kind, derived_generator(seed, kind, i))
    return copies


def _copy(cloud: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    if kind == "re-ordered":
        return cloud[torch.randperm(len(cloud), generator=generator)]
    dim = cloud.shape[1]
    if kind == "translated":
        return cloud + torch.randn(dim, generator=generator, dtype=cloud.dtype)
    if kind == "scaled":
        # log-uniform from 1/4 to 4
        return cloud * 4.0 ** (2 * torch.rand((), generator=generator, dtype=cloud.dtype) - 1)
    q = random_orthogonal(generator, -1.0 if kind == "reflected" else 1.0, dim)
    if kind == "sheared":
        # the exponential of a symmetric matrix without trace: positive, of determinant 1
        noise = _STRETCH * torch.randn(dim, dim, generator=generator, dtype=cloud.dtype)
        symmetric = noise.tril() + noise.tril(-1).mT
        symmetric = symmetric - symmetric.trace() / dim * torch.eye(dim, dtype=cloud.dtype)
        q = torch.linalg.matrix_exp(symmetric) @ q
    return cloud @ q.mT  # points are rows


# One name per definition of a segmentation measure, because published tables mix them.
FACE_ACCURACY: Final = "face accuracy"
MESH_FACE_ACCURACY: Final = "face accuracy, mean over meshes"
AREA_ACCURACY: Final = "face accuracy by area, meshes weighted by faces"
MESH_AREA_ACCURACY: Final = "face accuracy by area, mean over meshes"
MEAN_IOU: Final = "mean IoU over parts, by faces"
EDGE_ACCURACY: Final = "edge accuracy from faces"
SOFT_EDGE_ACCURACY: Final = "soft edge accuracy from faces"


def segmentation_measures(
    dataset: SegmentedMeshDataset,
    indices: Sequence[int],  # of the meshes
    predictions: Sequence[Tensor],  # (faces,) per mesh
) -> dict[str, float]:
    """Compute every measure that the labels of a data set allow, by name."""
    if dataset.labels_at != "faces":
        raise ValueError(f"the data set must label faces, got {dataset.labels_at}")
    meshes = [dataset.meshes[i] for i in indices]
    labels = [dataset.labels[i] for i in indices]
    scores = [_score(*pair) for pair in zip(predictions, labels, meshes, strict=True)]
    every, guessed = torch.cat(labels), torch.cat(list(predictions))
    known = every >= 0
    confusion = confusion_matrix(every[known], guessed[known], dataset.num_classes)
    # FACE_ACCURACY counts all faces (headline of PD-MeshNet), the MESH_ measures average over
    # meshes. AREA_ACCURACY weights faces by area within a mesh. Edge measures average over meshes
    # with such labels.
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
            # an edge with a soft label and an adjacent area
            if part.soft is not None and (edge_weights(mesh) * (part.soft > 0).any(dim=1)).sum() > 0
        ]
        found |= {SOFT_EDGE_ACCURACY: _mean(soft)} if soft else {}
    return found


def face_share(
    predictions: Tensor,  # (faces,)
    labels: Tensor,  # (faces,), negative: unknown
) -> float | None:
    """Return the share of labeled faces that are correct; None without labels."""
    known = labels >= 0
    if not bool(known.any()):
        return None
    return (predictions == labels)[known].double().mean().item()


def mesh_face_accuracy(
    predictions: Sequence[Tensor],  # (faces,) per mesh
    labels: Sequence[Tensor],  # (faces,) per mesh
) -> float | None:
    """Return the mean of :func:`face_share` over the labeled meshes; None without labels."""
    shares = [face_share(*pair) for pair in zip(predictions, labels, strict=True)]
    known = [share for share in shares if share is not None]
    return _mean(known) if known else None


class _Score(NamedTuple):
    """Labeled and correct faces of one mesh, and the correct share of the labeled area."""

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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def face_areas(mesh: TriangleMesh) -> Tensor:
    """Return the area of every face, (faces,)."""
    one, two, three = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.vector_norm(torch.linalg.cross(two - one, three - one), dim=1) / 2


def mean_iou(
    confusion: Tensor,  # (true classes, predicted classes)
) -> float:
    """Average the intersection over union of all classes that are true or predicted."""
    right = confusion.diagonal().double()
    union = confusion.sum(0) + confusion.sum(1) - confusion.diagonal()
    if not bool(union.any()):
        raise ValueError("the confusion matrix counts nothing")
    return (right[union > 0] / union[union > 0]).mean().item()


def face_to_edge_predictions(
    predictions: Tensor,  # (faces,)
    mesh: TriangleMesh,
) -> Tensor:
    """Return the predictions of the two faces at every edge, (edges, 2), twice at a boundary."""
    edges = edges_in_order(mesh.faces)
    of_faces = edges.of_faces.reshape(-1)
    face = torch.arange(len(of_faces), device=of_faces.device) // 3
    ends = [
        face.new_zeros(len(edges.vertices)).scatter_reduce(
            0, of_faces, face, how, include_self=False
        )
        # At edges of more than two faces: the first and the last.
        for how in ("amin", "amax")
    ]
    return predictions[torch.stack(ends, dim=1)]


def edge_weights(mesh: TriangleMesh) -> Tensor:
    """Return a third of the area of each edge's faces, normalized to sum 1, (edges,)."""
    edges, area = edges_in_order(mesh.faces), face_areas(mesh)
    shares = (area / area.sum() / 3).repeat_interleave(3)
    return shares.new_zeros(len(edges.vertices)).index_add(0, edges.of_faces.reshape(-1), shares)


def edge_accuracy(
    predictions: Tensor,  # (faces,)
    labels: Tensor,  # (edges,), -1 if unknown
    mesh: TriangleMesh,
) -> float:
    """Return the share of correct edges by hard labels; each face counts half."""
    known = labels >= 0
    right = face_to_edge_predictions(predictions, mesh) == labels[:, None]
    if not bool(known.any()):
        raise ValueError("no edge has a label")
    return right[known].double().mean().item()


def soft_edge_accuracy(
    predictions: Tensor,  # (edges,) or (edges, 2) of half weight each
    soft: Tensor,  # (edges, columns) class shares; zero rows: unknown
    mesh: TriangleMesh,
) -> float:
    """Return the area-weighted share of edges with a predicted class that occurs around them."""
    if len(predictions) != len(soft):
        raise ValueError(f"predictions must be of {len(soft)} edges, got {len(predictions)}")
    if int(predictions.max()) >= soft.shape[1]:
        raise ValueError(
            f"soft labels need a column for class {int(predictions.max())}, got {soft.shape[1]}"
        )
    # Hanocka et al., "MeshCNN: a network with an edge", 2019 (its test accuracy); more lenient than
    # any accuracy by hard labels.
    known = (soft > 0).any(dim=1)
    weights = edge_weights(mesh) * known
    if not bool(weights.sum() > 0):
        raise ValueError("no edge has a soft label")
    guessed = predictions.reshape(len(soft), -1)
    right = (soft.gather(1, guessed) > 0).double().mean(dim=1)
    return (right @ weights / weights.sum()).item()
