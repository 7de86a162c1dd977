"""The objective of segmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._brief import brief_fields
from equigeo.tasks.mesh_classification.data import PADDING
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.objective import Objective

UNLABELLED: Final = -1  # a face without a label, which does not count


@dataclass(frozen=True)
class FaceCrossEntropy(Objective):
    """Cross-entropy of face labels, averaged per mesh; meshes without labels do not count."""

    label_smoothing: float = 0.0  # share of the target spread over all parts

    __repr__ = brief_fields

    measure: ClassVar[str] = "accuracy"
    form: ClassVar[str] = ".1%"
    evaluated: ClassVar[str] = "test_accuracy"

    def sums(
        self,
        model: nn.Module,  # returns logits (faces of all meshes, parts)
        batch: LabelledBatch,  # labels (meshes, most faces), padded
    ) -> tuple[Tensor, Tensor]:
        """Sum losses and shares of correct faces over the meshes of a batch."""
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
        """Return the number of meshes with a labelled face."""
        known = (batch.labels != UNLABELLED) & (batch.labels != PADDING)
        return int(known.any(dim=1).sum())


def mesh_mean_weights(
    mesh: Tensor,  # (faces,) mesh of each face
    known: Tensor,  # (faces,) labelled faces
    num_meshes: int,
) -> Tensor:
    """Return weights of faces that turn weighted sums into sums of means over meshes, (faces,)."""
    counts = torch.bincount(mesh[known], minlength=num_meshes).clamp_min(1)
    return known.double() / counts[mesh]
