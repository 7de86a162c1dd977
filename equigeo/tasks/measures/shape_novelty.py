"""Novelty scores of mesh networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equigeo.tasks.measures.classification import embed
from equigeo.training.novelty import Novelty


def shape_novelties(
    model: Any,
    novelty: Novelty | None,  # None in unfinished or old checkpoints
    batches: Iterable[Any],
) -> list[float] | None:
    """Return novelty scores of meshes, above 1 for novel ones; None without a reference."""
    if novelty is None:
        return None
    given = list(batches)
    found: list[float] = novelty(embed(model, given)).tolist() if given else []
    return found


def novelty_remark(novelty: Novelty | None, score: float | None) -> str:
    """Return a remark for a novel mesh; empty if it is not novel or the score is unknown."""
    if novelty is None or score is None or score <= 1:
        return ""
    return f"resembles nothing it was trained on: {novelty.describe(score)}"
