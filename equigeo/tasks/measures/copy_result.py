"""Comparison of predictions on transformed copies with those on the originals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.tasks.measures.classification import accuracy


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
        seen: Tensor,  # (samples, classes) probabilities of the copies
        original: Tensor,  # (samples, classes)
        labels: Tensor,  # (samples,)
        names: Sequence[str],
    ) -> CopyResult:
        """Compare probabilities on copies and on originals."""
        predicted = seen.argmax(dim=1)
        # compared with the original's prediction, right or wrong
        changed = (predicted != original.argmax(dim=1)).nonzero().flatten().tolist()
        return cls(
            kind=kind,
            accuracy=accuracy(seen, labels),
            changed=[names[i] for i in changed],
            largest_difference=(seen - original).abs().max().item(),
        )
