"""What networks over meshes say of shapes that resemble nothing they were trained on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equigeo.tasks.measures.classification import embed
from equigeo.training.novelty import Novelty


def shape_novelties(
    model: Any, novelty: Novelty | None, batches: Iterable[Any]
) -> list[float] | None:
    """Measure how little meshes resemble those of the training.

    Parameters
    ----------
    model : torch.nn.Module
        With a method ``embed``.
    novelty : Novelty, optional
        Of its checkpoint.
    batches : iterable of PrimalDualGraph
        The meshes.

    Returns
    -------
    list of float, optional
        Above 1, a mesh resembles nothing that the model was trained on. None where the checkpoint
        cannot say: of an unfinished run, or of an earlier version.
    """
    if novelty is None:
        return None
    given = list(batches)
    found: list[float] = novelty(embed(model, given)).tolist() if given else []
    return found


def novelty_remark(novelty: Novelty | None, score: float | None) -> str:
    """Say so where a mesh is novel; nothing where it is not, or where nobody knows.

    Parameters
    ----------
    novelty : Novelty, optional
        Of the checkpoint.
    score : float, optional
        What :func:`shape_novelties` gave.
    """
    if novelty is None or score is None or score <= 1:
        return ""
    return f"resembles nothing it was trained on: {novelty.describe(score)}"
