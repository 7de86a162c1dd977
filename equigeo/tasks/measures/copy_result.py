"""Predictions on transformed copies, beside those on the originals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from equigeo.nn.brief import brief_fields


@dataclass(frozen=True)
class CopyResult:
    """Predictions on transformed copies.

    Parameters
    ----------
    kind : str
        How the copies were made.
    accuracy : float
        Share of copies classified correctly.
    changed : list of str
        Names of the samples whose predicted class is not that of the original.
    largest_difference : float
        Largest change of a probability.
    """

    kind: str
    accuracy: float
    changed: list[str]
    largest_difference: float

    __repr__ = brief_fields

    @classmethod
    def compare(
        cls, kind: str, seen: Tensor, original: Tensor, labels: Tensor, names: Sequence[str]
    ) -> CopyResult:
        """Compare what a model says of copies and of their originals.

        Parameters
        ----------
        kind : str
            How the copies were made.
        seen, original : Tensor, (samples, classes)
            Probabilities of the copies and of the originals.
        labels : Tensor, (samples,), int64
            True classes.
        names : sequence of str
            What to call the samples.
        """
        predicted = seen.argmax(dim=1)
        # compared with the original's prediction, right or wrong: invariance is no accuracy
        changed = (predicted != original.argmax(dim=1)).nonzero().flatten().tolist()
        return cls(
            kind=kind,
            accuracy=(predicted == labels).double().mean().item(),
            changed=[names[i] for i in changed],
            largest_difference=(seen - original).abs().max().item(),
        )
