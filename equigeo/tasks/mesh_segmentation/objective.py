"""The objective of segmentation.

On its own because it is the mathematics of the task; the rest of training is wiring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.nn.brief import brief_fields
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective

UNLABELLED: Final = -1  # a face that no one has labelled: it teaches nothing
PADDING: Final = -2  # behind the last face of a mesh


@dataclass(frozen=True)
class FaceCrossEntropy(Objective):
    """Cross-entropy of the parts of faces, averaged over each mesh.

    Every mesh counts alike, whatever the number of its faces; the measure is the share of its
    labelled faces whose part is right. A mesh without a labelled face does not count.

    Parameters
    ----------
    label_smoothing : float
        Share of the target spread over all parts, in [0, 1).

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    >>> labels = torch.tensor([[0, 0, PADDING], [1, PADDING, PADDING]])
    >>> batch = LabelledBatch(logits, labels, 2)
    >>> FaceCrossEntropy().sums(nn.Identity(), batch)[1]
    tensor(1.5000)
    """

    label_smoothing: float = 0.0

    __repr__ = brief_fields

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Sum losses and shares of correct faces of a batch.

        Parameters
        ----------
        model : torch.nn.Module
            Gives logits, (faces of all meshes, parts).
        batch : LabelledBatch
            With labels of faces, (meshes, most faces), padded by ``PADDING``.
        """
        logits = model(batch.inputs)
        faces = batch.labels != PADDING
        labels, mesh = batch.labels[faces], faces.nonzero()[:, 0]
        known = labels != UNLABELLED
        weights = mesh_mean_weights(mesh, known, len(batch.labels)).to(logits.dtype)
        losses = F.cross_entropy(
            logits, labels, ignore_index=UNLABELLED, reduction="none",
            label_smoothing=self.label_smoothing,
        )  # fmt: skip
        right = logits.detach().argmax(dim=1) == labels
        return losses @ weights, right.to(weights.dtype) @ weights

    def counted(self, batch: LabelledBatch) -> int:
        """Count the meshes that have a labelled face."""
        known = (batch.labels != UNLABELLED) & (batch.labels != PADDING)
        return int(known.any(dim=1).sum())


def mesh_mean_weights(mesh: Tensor, known: Tensor, num_meshes: int) -> Tensor:
    """Give weights of faces whose sums of products are sums of means over meshes.

    Parameters
    ----------
    mesh : Tensor, (faces,), int64
        Number of the mesh of every face.
    known : Tensor, (faces,), bool
        Which faces count.
    num_meshes : int
        Number of meshes.

    Returns
    -------
    Tensor, (faces,), float64
        One over the number of faces of the same mesh that count; zero for those that do not.

    Examples
    --------
    >>> mesh, known = torch.tensor([0, 0, 1]), torch.tensor([True, True, True])
    >>> mesh_mean_weights(mesh, known, 2)
    tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    counts = torch.bincount(mesh[known], minlength=num_meshes).clamp_min(1)
    return known.double() / counts[mesh]
