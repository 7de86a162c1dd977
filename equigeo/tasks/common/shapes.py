"""Mesh data for reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from equigeo.mesh import PrimalDualClassifier, PrimalDualSegmenter, TriangleMesh
from equigeo.tasks.common.classification import embed
from equigeo.training.novelty import Novelty

LARGEST_SHOWN: Final = 20_000  # faces; a larger mesh would make the page slow to open


def shape_geometry(
    model: PrimalDualClassifier | PrimalDualSegmenter, name: str, mesh: TriangleMesh
) -> dict[str, Any]:
    """Return geometry, received attention and clusters of a mesh for reports, as JSON types."""
    device = next(model.parameters()).device
    seen = mesh.vertices[mesh.faces].flatten(0, 1)
    middle = (seen.amin(0) + seen.amax(0)) / 2 if len(seen) else 0.0
    found = model.inspect(model.graph(mesh).to(device))
    return {
        "name": name,
        # five digits are more than the eye sees, and half the bytes
        "vertices": [[float(f"{x:.5g}") for x in row] for row in (mesh.vertices - middle).tolist()],
        "faces": mesh.faces.tolist(),
        "levels": [level.tolist() for level in found.clusters],
        "attention": [[round(x, 3) for x in block.tolist()] for block in found.attention],
    }


def report_facts(summary: str) -> list[tuple[str, str]]:
    """Convert the lines of a load report to (name, value) facts."""
    lines = summary.splitlines()
    names = ["file", "surface", *["repair"] * len(lines)]
    return list(zip(names, lines, strict=False))


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
